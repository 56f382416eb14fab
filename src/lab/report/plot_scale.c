/* Scales and ticks of plots; see lab/report/plot_scale.h. */
#include "lab/report/plot_scale.h"

#include <math.h>
#include <stdint.h>
#include <time.h>

#include "lab/report/plot_time.h"

#define MOST_SHOWN 1e300
#define LEAST 1e-300 /* positive values below this are left out, or count as 0 */
#define DAY_S 86400.0

/* Tolerance for results of log10() and of divisions that should be whole numbers. */
#define NEARLY 1e-9

static double floor_nearly(double value)
{
	return floor(value + NEARLY);
}

static double ceil_nearly(double value)
{
	return ceil(value - NEARLY);
}

bool wr_lab_scale_shows(const struct wr_lab_scale *scale, double value)
{
	if (!isfinite(value) || fabs(value) > MOST_SHOWN)
		return false;
	if (scale->axis == WR_LAB_TIMES)
		return value >= WR_LAB_TIME_MIN && value <= WR_LAB_TIME_MAX;
	return !scale->log || value >= LEAST;
}

/* Returns 1, 2 or 5 times a power of ten, at least `least`. */
static double decimal_step(double least)
{
	double power = pow(10, floor_nearly(log10(least)));
	double part = least / power;

	return (part <= 1 + NEARLY   ? 1
		: part <= 2 + NEARLY ? 2
		: part <= 5 + NEARLY ? 5
				     : 10) *
	       power;
}

static double second_step(double least)
{
	static const double steps[] = {1,     2,     5,     10,    15,       30,   60,
				       120,   300,   600,   900,   1800,     3600, 7200,
				       10800, 21600, 43200, DAY_S, 2 * DAY_S};

	if (least > steps[0])
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			if (least <= steps[i])
				return steps[i];
	return least <= steps[0] ? decimal_step(least) : DAY_S * decimal_step(least / DAY_S);
}

static double byte_step(double least)
{
	double unit = 1;

	while (least > unit * 512 && unit < 0x1p50)
		unit *= 1024;
	return least <= 1 ? 1 : unit * decimal_step(least / unit);
}

/* Returns the distance of the ticks of a scale that is not logarithmic. */
static double step_of(const struct wr_lab_scale *scale, unsigned most)
{
	double least = (scale->high - scale->low) / most;

	switch (scale->axis) {
	case WR_LAB_SECONDS:
		return second_step(least);
	case WR_LAB_BYTES:
		return byte_step(least);
	default:
		return decimal_step(least);
	}
}

/* If all values are equal, the range around them is a guess. A range that is too small for the
 * resolution of a double is widened too. */
static void widen(struct wr_lab_scale *scale)
{
	double size = fmax(fabs(scale->low), fabs(scale->high));

	if (scale->log) {
		if (scale->high < scale->low * 1.01) {
			scale->low = fmax(scale->low / 2, LEAST / 2);
			scale->high *= 2;
		}
	} else if (scale->high - scale->low <= fmax(size * 1e-12, LEAST)) {
		double more = scale->axis == WR_LAB_TIMES ? 30 : size > LEAST ? size * 0.5 : 0.5;

		scale->low -= more;
		scale->high += more;
	}
}

/* Returns whether a logarithmic scale has room for ticks at 1, 2 and 5 times powers of ten. */
static bool has_fine_ticks(const struct wr_lab_scale *scale, unsigned most)
{
	return 3 * (log10(scale->high) - log10(scale->low)) <= most + NEARLY;
}

/* Extends a logarithmic scale to round numbers: to powers of ten, or also to 2 and 5 times powers of
 * ten if there is room for such ticks. */
static void round_log(struct wr_lab_scale *scale, unsigned most)
{
	double below = pow(10, floor_nearly(log10(scale->low))), part = scale->low / below;
	bool fine = has_fine_ticks(scale, most);

	scale->low = below * (!fine || part < 2 - NEARLY ? 1 : part < 5 - NEARLY ? 2 : 5);
	scale->high = fine ? decimal_step(scale->high) : pow(10, ceil_nearly(log10(scale->high)));
}

void wr_lab_scale_fit(struct wr_lab_scale *scale, unsigned most, bool round)
{
	widen(scale);
	if (!round || scale->axis == WR_LAB_TIMES)
		return;
	if (scale->log) {
		round_log(scale, most);
	} else {
		double step = step_of(scale, most);

		scale->low = floor_nearly(scale->low / step) * step;
		scale->high = ceil_nearly(scale->high / step) * step;
	}
}

double wr_lab_scale_at(const struct wr_lab_scale *scale, double value)
{
	double low = scale->low, high = scale->high;

	if (scale->log) {
		low = log10(low);
		high = log10(high);
		value = log10(value);
	}
	return scale->start + (scale->end - scale->start) * ((value - low) / (high - low));
}

/* Adds a tick if its value is within the scale. Returns the new number of ticks. */
static size_t add_tick(const struct wr_lab_scale *scale, double value, double step,
		       struct wr_lab_tick *ticks, size_t count)
{
	struct wr_lab_tick *tick = &ticks[count];
	double slack = scale->log ? value * NEARLY : step * NEARLY;

	if (count == WR_LAB_TICKS_MAX || value < scale->low - slack || value > scale->high + slack)
		return count;
	tick->value = value;
	tick->date[0] = '\0';
	wr_lab_plot_text(scale->axis, value, step, tick->text);
	return count + 1;
}

static size_t linear_ticks(const struct wr_lab_scale *scale, unsigned most,
			   struct wr_lab_tick *ticks)
{
	double step = step_of(scale, most), first = ceil_nearly(scale->low / step);
	size_t count = 0;

	for (unsigned i = 0; i < WR_LAB_TICKS_MAX; i++)
		count = add_tick(scale, (first + i) * step + 0.0, step, ticks, count);
	return count;
}

/* Durations that are round on a logarithmic axis, from a second on. */
static const double fine_s[] = {1,     2,     5,     10,        30,        60,
				120,   300,   600,   1800,      3600,      7200,
				21600, 43200, DAY_S, 2 * DAY_S, 7 * DAY_S, 30 * DAY_S};
static const double coarse_s[] = {1, 10, 60, 600, 3600, 36000, DAY_S, 10 * DAY_S, 100 * DAY_S};

static size_t count_within(const struct wr_lab_scale *scale, const double *values, size_t count)
{
	size_t within = 0;

	for (size_t i = 0; i < count; i++)
		within += values[i] >= scale->low && values[i] <= scale->high;
	return within;
}

/* Adds ticks at powers of ten, below `end`. If there is room, also at 2 and 5 times the powers. */
static size_t decade_ticks(const struct wr_lab_scale *scale, unsigned most, double end,
			   struct wr_lab_tick *ticks, size_t count)
{
	static const int parts[] = {1, 2, 5};
	int first = (int)floor_nearly(log10(scale->low));
	int last = (int)ceil_nearly(log10(scale->high));
	int step = (last - first + (int)most - 1) / (int)most;
	/* The scale may have been extended to round numbers, by up to two ticks. */
	size_t part_count = has_fine_ticks(scale, most + 2) ? 3 : 1;

	for (int power = first; power <= last; power += step > 0 ? step : 1) {
		for (size_t i = 0; i < part_count; i++) {
			double value = pow(10, power) * parts[i];

			if (value < end * (1 - NEARLY))
				count = add_tick(scale, value, value, ticks, count);
		}
	}
	return count;
}

static size_t log_second_ticks(const struct wr_lab_scale *scale, unsigned most,
			       struct wr_lab_tick *ticks)
{
	size_t fine_count = sizeof(fine_s) / sizeof(fine_s[0]);
	bool fine = count_within(scale, fine_s, fine_count) <= most;
	const double *values = fine ? fine_s : coarse_s;
	size_t number = fine ? fine_count : sizeof(coarse_s) / sizeof(coarse_s[0]);
	size_t count = decade_ticks(scale, most, 1, ticks, 0);

	for (size_t i = 0; i < number; i++)
		count = add_tick(scale, values[i], values[i], ticks, count);
	return count;
}

static size_t log_byte_ticks(const struct wr_lab_scale *scale, unsigned most,
			     struct wr_lab_tick *ticks)
{
	int first = (int)floor_nearly(log2(scale->low)), last = (int)ceil_nearly(log2(scale->high));
	int step = 1;
	size_t count = 0;

	while (last - first > step * (int)most)
		step = step < 2 ? 2 : step < 5 ? 5 : step * 2;
	for (int power = first - first % step; power <= last; power += step)
		count = add_tick(scale, exp2(power), exp2(power), ticks, count);
	return count;
}

size_t wr_lab_scale_ticks(const struct wr_lab_scale *scale, unsigned most,
			  struct wr_lab_tick ticks[WR_LAB_TICKS_MAX])
{
	if (scale->axis == WR_LAB_TIMES)
		return wr_lab_time_ticks(scale, most, ticks);
	if (!scale->log)
		return linear_ticks(scale, most, ticks);
	if (scale->axis == WR_LAB_SECONDS)
		return log_second_ticks(scale, most, ticks);
	if (scale->axis == WR_LAB_BYTES)
		return log_byte_ticks(scale, most, ticks);
	return decade_ticks(scale, most, INFINITY, ticks, 0);
}
