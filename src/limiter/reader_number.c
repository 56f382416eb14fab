/* The value of a JSON number, rounded up to an integer. A number may have any length, so its text is
 * not kept: only 19 significant digits count, and whether a digit after them is not 0. */
#include "limiter/reader.h"

#define MANTISSA_FULL 1000000000000000000u /* from here on, another digit does not fit */
#define EXPONENT_FULL 100000000000000000   /* no body has enough digits to make up for it */

/* The parts of a number, as RFC 8259 §6 names them. */
enum number_part {
	SIGN,      /* before the first digit */
	ZERO,      /* after a leading zero: no digit may follow */
	INTEGER,   /* in the digits before the point */
	POINT,     /* after the point */
	FRACTION,  /* in the digits after the point */
	E,         /* after the letter e */
	E_SIGN,    /* after the sign of the exponent */
	EXPONENT,  /* in the digits of the exponent */
	MALFORMED, /* no number begins like this */
};

void wr_reader_number_begin(struct wr_reader_number *number)
{
	*number = (struct wr_reader_number){.part = SIGN};
}

static void add_digit(struct wr_reader_number *number, int digit, bool fraction)
{
	if (number->mantissa < MANTISSA_FULL) {
		number->mantissa = number->mantissa * 10 + (uint64_t)digit;
		number->scale -= fraction;
	} else {
		number->more |= digit != 0;
		number->scale += !fraction;
	}
}

static void add_exponent_digit(struct wr_reader_number *number, int digit)
{
	if (number->exponent < EXPONENT_FULL)
		number->exponent = number->exponent * 10 + digit;
}

static uint8_t read_digit(struct wr_reader_number *number, int digit)
{
	switch (number->part) {
	case SIGN:
		add_digit(number, digit, false);
		return digit == 0 ? ZERO : INTEGER;
	case INTEGER:
		add_digit(number, digit, false);
		return INTEGER;
	case POINT:
	case FRACTION:
		add_digit(number, digit, true);
		return FRACTION;
	case E:
	case E_SIGN:
	case EXPONENT:
		add_exponent_digit(number, digit);
		return EXPONENT;
	default:
		return MALFORMED;
	}
}

static uint8_t read_mark(struct wr_reader_number *number, char c)
{
	uint8_t part = number->part;

	if (c == '-' && part == SIGN && !number->negative) {
		number->negative = true;
		return SIGN;
	}
	if (c == '.' && (part == ZERO || part == INTEGER))
		return POINT;
	if ((c == 'e' || c == 'E') && (part == ZERO || part == INTEGER || part == FRACTION))
		return E;
	if ((c == '+' || c == '-') && part == E) {
		number->exponent_negative = c == '-';
		return E_SIGN;
	}
	return MALFORMED;
}

void wr_reader_number_byte(struct wr_reader_number *number, char c)
{
	number->part = c >= '0' && c <= '9' ? read_digit(number, c - '0') : read_mark(number, c);
}

static int64_t scale_up(uint64_t mantissa, int64_t zeros)
{
	for (; zeros > 0; zeros--) {
		if (mantissa > INT64_MAX / 10)
			return INT64_MAX;
		mantissa *= 10;
	}
	return (int64_t)mantissa;
}

/* Divides by 10^digits and rounds up. */
static int64_t scale_down(uint64_t mantissa, int64_t digits, bool more)
{
	for (; digits > 0 && mantissa > 0; digits--) {
		more |= mantissa % 10 != 0;
		mantissa /= 10;
	}
	mantissa += more;
	return mantissa > INT64_MAX ? INT64_MAX : (int64_t)mantissa;
}

int wr_reader_number_end(const struct wr_reader_number *number, int64_t *value)
{
	uint8_t part = number->part;
	int64_t exponent = number->exponent_negative ? -number->exponent : number->exponent;
	int64_t zeros = number->scale + exponent;

	if (part != ZERO && part != INTEGER && part != FRACTION && part != EXPONENT)
		return WEIR_READER_INVALID;
	if (number->mantissa == 0) { /* "-0" is not negative */
		*value = 0;
		return WEIR_READER_FOUND;
	}
	if (number->negative)
		return WEIR_READER_INVALID;
	*value = zeros > 0 ? scale_up(number->mantissa, zeros)
			   : scale_down(number->mantissa, -zeros, number->more);
	return WEIR_READER_FOUND;
}
