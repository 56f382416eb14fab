/* Sorts the demands of the clients of each route, and finds the limits of each level.
 *
 * A level is a part of the clients that has to stay untouched. For each rate, the burst of a level
 * is the need of the client at that rank. Of the pairs of rate and burst of a level, the best is the
 * one with which a client can send least within the horizon. */
#include <stdlib.h>

#include <weir/error.h>

#include "base/assert.h"
#include "lab/tune/inner.h"

#define ROW_PEAKS WR_LAB_RATES                       /* peaks of windows, by unit */
#define ROW_BURST (WR_LAB_RATES + WR_LAB_UNIT_COUNT) /* the largest burst; 1: none */
#define ROW_PAUSE (ROW_BURST + 1)                    /* mean pause in ms; 0: no pauses */
#define ROW_PACE (ROW_BURST + 2)                     /* requests per 1,000 active minutes */
#define FILL_MAX_NS (366ull * 86400 * 1000000000)    /* slower buckets are of no use */
#define SPAN_TOKENS 10u /* tokens that flow in during the log; slower rates are not judged */

_Static_assert(ROW_PACE + 1 == WR_LAB_NEED_ROWS, "each row has a meaning");

/* ---- arithmetic ---- */

uint32_t wr_lab_tune_round(uint32_t number)
{
	static const uint32_t steps[] = {10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100};
	uint64_t scale = 1;

	if (number <= 10)
		return number;
	while (scale * 100 < number)
		scale *= 10;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (steps[i] * scale >= number)
			return steps[i] * scale < WR_LAB_NO_BURST ? (uint32_t)(steps[i] * scale)
								  : number;
	return number;
}

uint64_t wr_lab_tune_spared(uint64_t clients, uint32_t untouched_ppm)
{
	return (clients * untouched_ppm + WR_LAB_PPM - 1) / WR_LAB_PPM;
}

uint64_t wr_lab_tune_cost(const struct wr_lab_rate *rate, uint32_t burst, uint64_t horizon_ns)
{
	unsigned __int128 inflow = (unsigned __int128)rate->limit * horizon_ns;

	return burst + (uint64_t)((inflow + rate->period_ns - 1) / rate->period_ns);
}

/* Returns whether `a` lets a client send less than `b` within the horizon. Of equal pairs, the one
 * with the smaller burst is better. Compares without rounding. */
static bool is_better(const struct wr_lab_rate *a, uint32_t a_burst, const struct wr_lab_rate *b,
		      uint32_t b_burst, uint64_t horizon_ns)
{
	double x = a_burst + (double)a->limit * (double)horizon_ns / (double)a->period_ns;
	double y = b_burst + (double)b->limit * (double)horizon_ns / (double)b->period_ns;

	return x < y || (x == y && a_burst < b_burst);
}

/* Returns whether a rule file can have the limit, the bucket fills in a useful time, and the log is
 * long enough to judge the rate: at least SPAN_TOKENS tokens flow in. */
static bool is_usable(const struct wr_lab_tune_report *report, const struct wr_lab_rate *rate,
		      uint32_t burst)
{
	return burst > 0 && burst < WR_LAB_NO_BURST &&
	       (unsigned __int128)burst * rate->period_ns <=
		       (unsigned __int128)FILL_MAX_NS * rate->limit &&
	       (unsigned __int128)SPAN_TOKENS * rate->period_ns <=
		       (unsigned __int128)report->length_ns * rate->limit;
}

/* ---- sorted needs ---- */

static const uint64_t *row_of(const struct wr_lab_tune *tune, size_t route, size_t row)
{
	return tune->needs[route].values + row * tune->needs[route].count;
}

bool wr_lab_tune_considers(const struct wr_lab_tune *tune, uint32_t client)
{
	return !tune->opts.without_outliers || !tune->is_outlier[client];
}

static int compare_values(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void add_pair(struct wr_lab_tune *tune, const struct wr_lab_pair *pair, size_t at)
{
	struct wr_lab_tune_needs *needs = &tune->needs[pair->route];
	const struct wr_lab_demand *demand = &pair->demand;
	uint64_t *value = needs->values + at;

	for (size_t i = 0; i < WR_LAB_RATES; i++)
		value[i * needs->count] = wr_lab_demand_burst(demand, tune->report.rates, i);
	for (size_t i = 0; i < WR_LAB_UNIT_COUNT; i++)
		value[(ROW_PEAKS + i) * needs->count] = demand->windows[i].peak;
	value[ROW_BURST * needs->count] = wr_lab_demand_largest(demand);
	value[ROW_PAUSE * needs->count] =
		demand->pauses ? demand->pause_ns / demand->pauses / 1000000 : 0;
	value[ROW_PACE * needs->count] = (uint64_t)(wr_lab_demand_pace(demand) * 1000 + 0.5);
}

int wr_lab_tune_sort(struct wr_lab_tune *tune)
{
	size_t filled[WR_LAB_TUNE_ROUTES] = {0};

	for (uint32_t i = 0; i < tune->table.pair_count; i++) {
		const struct wr_lab_pair *pair = &tune->table.pairs[i];

		tune->needs[pair->route].count += wr_lab_tune_considers(tune, pair->client);
	}
	for (size_t i = 0; i < tune->route_count; i++) {
		struct wr_lab_tune_needs *needs = &tune->needs[i];

		needs->values = malloc((needs->count + 1) * WR_LAB_NEED_ROWS * sizeof(uint64_t));
		if (!needs->values)
			return WEIR_EMEMORY;
	}
	for (uint32_t i = 0; i < tune->table.pair_count; i++) {
		const struct wr_lab_pair *pair = &tune->table.pairs[i];

		if (wr_lab_tune_considers(tune, pair->client))
			add_pair(tune, pair, filled[pair->route]++);
	}
	for (size_t i = 0; i < tune->route_count; i++)
		for (size_t row = 0; row < WR_LAB_NEED_ROWS; row++)
			qsort(tune->needs[i].values + row * tune->needs[i].count,
			      tune->needs[i].count, sizeof(uint64_t), compare_values);
	return 0;
}

/* Returns the number of values in a sorted row that are at most `most`. */
static uint64_t count_up_to(const uint64_t *row, size_t count, uint64_t most)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (row[middle] <= most)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- levels ---- */

bool wr_lab_tune_pick(const struct wr_lab_tune *tune, size_t at, uint64_t allowance,
		      struct wr_lab_tune_limit *best)
{
	const struct wr_lab_tune_report *report = &tune->report;
	size_t count = tune->needs[at].count;
	bool any = false;

	for (uint32_t i = 0; i < WR_LAB_RATES && allowance < count; i++) {
		const uint64_t *row = row_of(tune, at, i);
		uint32_t need = (uint32_t)row[count - 1 - allowance];
		uint32_t burst = wr_lab_tune_round(need);

		if (burst < WR_LAB_TUNE_BURST)
			burst = WR_LAB_TUNE_BURST;
		if (!is_usable(report, &report->rates[i], burst) ||
		    (any && !is_better(&report->rates[i], burst, &report->rates[best->rate],
				       best->burst, report->horizon_ns)))
			continue;
		*best = (struct wr_lab_tune_limit){.rate = i,
						   .need = need,
						   .burst = burst,
						   .spared = count_up_to(row, count, need),
						   .touched =
							   count - count_up_to(row, count, burst)};
		any = true;
	}
	return any;
}

static void fill_level(struct wr_lab_tune *tune, size_t at, struct wr_lab_tune_level *level)
{
	size_t count = tune->needs[at].count;
	uint64_t allowance;

	level->spared = wr_lab_tune_spared(count, level->untouched_ppm);
	if (count == 0)
		return;
	allowance = count - level->spared;
	allowance = allowance < count ? allowance : count - 1;
	for (size_t i = 0; i < WR_LAB_RATES; i++)
		level->bursts[i] = (uint32_t)row_of(tune, at, i)[count - 1 - allowance];
	for (size_t i = 0; i < WR_LAB_UNIT_COUNT; i++)
		level->peaks[i] = row_of(tune, at, ROW_PEAKS + i)[count - 1 - allowance];
	level->usable = wr_lab_tune_pick(tune, at, allowance, &level->best);
}

/* Sets the levels of the report in rising order: the usual ones, and the requested one. */
static void set_levels(struct wr_lab_tune_report *report, uint32_t ppm[WR_LAB_TUNE_LEVELS])
{
	static const uint32_t usual[] = {900000, 990000, 999000, 999900, 1000000};
	size_t count = 0;
	bool added = false;

	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
		if (!added && report->untouched_ppm <= usual[i]) {
			report->level = count;
			added = true;
			if (report->untouched_ppm != usual[i])
				ppm[count++] = report->untouched_ppm;
		}
		ppm[count++] = usual[i];
	}
	report->level_count = count;
}

static void fill_habits(struct wr_lab_tune *tune, size_t at)
{
	struct wr_lab_tune_route *route = &tune->routes[at];
	size_t count = tune->needs[at].count;
	const uint64_t *pauses = row_of(tune, at, ROW_PAUSE);
	size_t none = count_up_to(pauses, count, 0), middle;

	if (count == 0)
		return;
	route->burst_half = row_of(tune, at, ROW_BURST)[(count - 1) / 2];
	route->burst_most = row_of(tune, at, ROW_BURST)[(count - 1) * 9 / 10];
	middle = (count - 1) / 2;
	route->pace = (double)row_of(tune, at, ROW_PACE)[middle] / 1000;
	middle = none + (count - none) / 2;
	if (none < count)
		route->pause_s = (double)pauses[middle] / 1000;
}

static void fill_route(struct wr_lab_tune *tune, size_t at, const uint32_t *ppm)
{
	struct wr_lab_tune_route *route = &tune->routes[at];

	for (size_t i = 0; i < tune->report.level_count; i++) {
		route->levels[i].untouched_ppm = ppm[i];
		fill_level(tune, at, &route->levels[i]);
	}
	fill_habits(tune, at);
}

void wr_lab_tune_levels(struct wr_lab_tune *tune)
{
	uint32_t ppm[WR_LAB_TUNE_LEVELS];

	set_levels(&tune->report, ppm);
	for (uint32_t i = 0; i < tune->table.pair_count; i++)
		tune->routes[tune->table.pairs[i].route].clients++;
	for (size_t i = 0; i < tune->route_count; i++) {
		tune->routes[i].considered = tune->needs[i].count;
		fill_route(tune, i, ppm);
	}
}

/* ---- the curve ---- */

size_t wr_lab_tune_curve(const struct wr_lab_tune *tune, size_t route, size_t rate, double *x,
			 double *y, size_t max)
{
	size_t count = tune->needs[route].count, points = 0, next = 0;
	const uint64_t *row = row_of(tune, route, rate);

	wr_assert(max >= 2);
	/* Half of the points are spread over all clients, the others are the last clients, which
	 * matter most. A point is at the last client with the same need. */
	for (size_t i = 0; i < count && points < max; i++) {
		if ((i + 1 < count && row[i + 1] == row[i]) || row[i] == WR_LAB_NO_BURST ||
		    (i < next && i + max / 2 < count))
			continue;
		x[points] = (double)row[i];
		y[points++] = 100 * (double)(count - i - 1) / (double)count;
		next = i + count / (max / 2) + 1;
	}
	return points;
}
