/* Writes the numbers of plots; see lab/plot_scale.h. */
#include "lab/plot_scale.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A unit is used for values of at least `size`. */
struct unit {
	double size;
	const char *name;
};

static const struct unit number_units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {0, ""}};
static const struct unit second_units[] = {{86400, " d"}, {3600, " h"},  {60, " min"}, {1, " s"},
					   {1e-3, " ms"}, {1e-6, " µs"}, {0, " ns"}};
static const struct unit byte_units[] = {{0x1p50, " PiB"}, {0x1p40, " TiB"}, {0x1p30, " GiB"},
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

	if (value != 0 && (fabs(value) >= 1e7 || fabs(value) < 1e-6)) {
		snprintf(text, WR_LAB_TICK_TEXT, "%.3g%s", value, unit);
		return;
	}
	snprintf(digits, sizeof(digits), "%.*f", decimals_of(step), value);
	put_commas(digits, text, WR_LAB_TICK_TEXT);
	strncat(text, unit, WR_LAB_TICK_TEXT - strlen(text) - 1);
}

static const struct unit *unit_of(const struct unit *units, double value)
{
	while (fabs(value) < units->size * (1 - 1e-9))
		units++;
	return units;
}

/* A unit of size 0 is the last one: the values of its axis below all other units. */
static double size_of(const struct unit *unit, double last)
{
	return unit->size > 0 ? unit->size : last;
}

void wr_lab_plot_text(enum wr_lab_plot_axis axis, double value, double step,
		      char text[WR_LAB_TICK_TEXT])
{
	const struct unit *unit;
	double size;

	switch (axis) {
	case WR_LAB_SECONDS:
		unit = value == 0 ? unit_of(second_units, 1) : unit_of(second_units, value);
		size = size_of(unit, 1e-9);
		break;
	case WR_LAB_BYTES:
		unit = unit_of(byte_units, value);
		size = size_of(unit, 1);
		break;
	case WR_LAB_PERCENT:
		put_number(value, step, " %", text);
		return;
	default:
		unit = unit_of(number_units, value);
		size = size_of(unit, 1);
	}
	put_number(value / size, step / size, unit->name, text);
}
