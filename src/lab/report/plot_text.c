/* Writes the numbers of plots; see lab/report/plot_scale.h. */
#include "lab/report/plot_scale.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Numbers beyond these have an exponent. */
#define LEAST_PLAIN 1e-6
#define MOST_PLAIN 1e7

/* A unit is used for values of at least `size`. */
struct named_unit {
	double size;
	const char *name;
};

static const struct named_unit number_units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {0, ""}};
static const struct named_unit second_units[] = {{86400, " d"}, {3600, " h"},  {60, " min"},
						 {1, " s"},     {1e-3, " ms"}, {1e-6, " µs"},
						 {0, " ns"}};
static const struct named_unit byte_units[] = {{0x1p50, " PiB"}, {0x1p40, " TiB"}, {0x1p30, " GiB"},
					       {0x1p20, " MiB"}, {0x1p10, " KiB"}, {0, " B"}};

/* Returns how many decimals a multiple of `step` needs, up to 9. */
static int decimals_of(double step)
{
	int decimals = 0;

	while (decimals < 9 && fabs(step - nearbyint(step)) > 1e-6 * fabs(step)) {
		step *= 10;
		decimals++;
	}
	return decimals;
}

/* Writes a comma between each three digits before the decimal point. */
static void put_commas(const char *digits, char *text, size_t size)
{
	size_t whole = strspn(digits, "-0123456789"), sign = digits[0] == '-', used = 0;

	for (size_t i = 0; digits[i] && used + 2 < size; i++) {
		if (i > sign && i < whole && (whole - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = digits[i];
	}
	text[used] = '\0';
}

static void put_number(double value, double step, const char *unit, char text[WR_LAB_TICK_TEXT])
{
	char digits[WR_LAB_TICK_TEXT];

	if (value != 0 && (fabs(value) >= MOST_PLAIN || fabs(value) < LEAST_PLAIN)) {
		snprintf(text, WR_LAB_TICK_TEXT, "%.3g%s", value, unit);
		return;
	}
	snprintf(digits, sizeof(digits), "%.*f", decimals_of(step), value);
	put_commas(digits, text, WR_LAB_TICK_TEXT);
	strncat(text, unit, WR_LAB_TICK_TEXT - strlen(text) - 1);
}

static const struct named_unit *unit_of(const struct named_unit *units, double value)
{
	while (fabs(value) < units->size * (1 - 1e-9))
		units++;
	return units;
}

/* Sets the unit in which a value is written, and its size. A unit of size 0 is the last one of its
 * axis. */
static const char *unit_for(enum wr_lab_plot_axis axis, double value, double *size)
{
	const struct named_unit *unit;

	*size = 1;
	switch (axis) {
	case WR_LAB_PERCENT:
		return " %";
	case WR_LAB_SECONDS:
		unit = unit_of(second_units, value == 0 ? 1 : value);
		*size = 1e-9;
		break;
	case WR_LAB_BYTES:
		unit = unit_of(byte_units, value);
		break;
	default:
		unit = unit_of(number_units, value);
	}
	if (unit->size > 0)
		*size = unit->size;
	return unit->name;
}

void wr_lab_plot_text(enum wr_lab_plot_axis axis, double value, double step,
		      char text[WR_LAB_TICK_TEXT])
{
	double size;
	const char *unit = unit_for(axis, value, &size);

	/* Ticks with a unit may have different units, so decimals do not line up anyway. */
	put_number(value / size, value == 0 || size != 1 ? value / size : step, unit, text);
}

void wr_lab_plot_value(enum wr_lab_plot_axis axis, double value, char text[WR_LAB_TICK_TEXT])
{
	double size, step = 1;
	const char *unit = unit_for(axis, value, &size);

	value /= size;
	if (fabs(value) >= LEAST_PLAIN && fabs(value) < 100)
		step = pow(10, floor(log10(fabs(value))) - 2);
	if (fabs(value) >= LEAST_PLAIN)
		value = nearbyint(value / step) * step;
	put_number(value, value, unit, text);
}
