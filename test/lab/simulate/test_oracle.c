/* The streaming oracle: exact numbers for small traces, and random traces against an oracle that
 * keeps all requests and counts them anew each time. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include <weir/algo.h>

#include "lab/simulate/oracle.h"
#include "sim/rng.h"

#define S_NS 1000000000ull
#define MS 1000000ull

struct step {
	uint64_t at_ms;
	uint32_t cost;
	bool admitted;
};

static struct wr_lab_oracle *make(uint32_t algorithm, uint32_t limit, uint32_t capacity)
{
	struct wr_lab_oracle_opts opts = {.algorithm = algorithm,
					  .limit = limit,
					  .capacity = capacity,
					  .period_ns = S_NS,
					  .keys = 2};
	struct wr_lab_oracle *oracle = wr_lab_oracle_new(&opts);

	assert_non_null(oracle);
	return oracle;
}

static void see(struct wr_lab_oracle *oracle, const struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++)
		wr_lab_oracle_see(oracle, 1, steps[i].cost, steps[i].at_ms * MS, steps[i].admitted);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The example of oracle.h. */
static void test_example(void **state)
{
	const struct step steps[] = {{0, 1, true},    {100, 1, true},   {200, 1, true},
				     {300, 1, true},  {400, 1, true},   {1000, 1, true},
				     {1100, 1, true}, {1200, 1, false}, {1300, 1, false}};
	struct wr_lab_oracle *oracle = make(WEIR_FIXED_WINDOW, 3, 3);
	struct wr_lab_oracle_totals totals;

	(void)state;
	see(oracle, steps, COUNT(steps));
	wr_lab_oracle_totals(oracle, &totals);
	assert_int_equal(totals.beyond, 2);
	assert_int_equal(totals.wrongly_refused, 1);
	assert_int_equal(totals.exact, 6);
	assert_int_equal(wr_lab_oracle_excess(oracle, 1), 2);
	assert_int_equal(wr_lab_oracle_excess(oracle, 0), 0);
	wr_lab_oracle_free(oracle);
}

/* 2 per second, capacity 4. After 4 units at 0 s, half a second brings one unit back. */
static void test_token_bucket(void **state)
{
	const struct step steps[] = {{0, 4, true}, {499, 1, true}, {500, 1, true}};
	struct wr_lab_oracle *oracle = make(WEIR_TOKEN_BUCKET, 2, 4);
	struct wr_lab_oracle_totals totals;

	(void)state;
	see(oracle, steps, 1);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 499 * MS), 4);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 500 * MS), 3);
	see(oracle, steps + 1, 2);
	/* 6 units were taken and 1 came back: the excess is 1. The exact limiter refuses the
	 * request at 499 ms and admits the one at 500 ms. */
	assert_int_equal(wr_lab_oracle_excess(oracle, 1), 1);
	wr_lab_oracle_totals(oracle, &totals);
	assert_int_equal(totals.exact, 5);
	assert_int_equal(totals.beyond, 1);
	assert_int_equal(totals.wrongly_refused, 0);
	wr_lab_oracle_free(oracle);
}

/* 4 per second. 4 units in the first second count as 2 in the middle of the next one. */
static void test_sliding_counter(void **state)
{
	const struct step steps[] = {{900, 4, true}, {1500, 1, true}, {1500, 1, true}};
	struct wr_lab_oracle *oracle = make(WEIR_SLIDING_COUNTER, 4, 4);

	(void)state;
	see(oracle, steps, COUNT(steps));
	assert_int_equal(wr_lab_oracle_excess(oracle, 1), 0);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 1500 * MS), 4);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 1750 * MS), 3);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 2000 * MS), 2);
	wr_lab_oracle_free(oracle);
}

/* An entry of a log counts for exactly one period. */
static void test_sliding_log(void **state)
{
	const struct step steps[] = {{0, 2, true}, {999, 1, true}, {1000, 2, true}};
	struct wr_lab_oracle *oracle = make(WEIR_SLIDING_LOG, 3, 3);

	(void)state;
	see(oracle, steps, COUNT(steps));
	assert_int_equal(wr_lab_oracle_excess(oracle, 1), 0);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 1998 * MS), 3);
	assert_int_equal(wr_lab_oracle_used(oracle, 1, 1999 * MS), 2);
	wr_lab_oracle_free(oracle);
}

/* ---- a dull oracle ---- */

#define REQUESTS 3000u

struct dull {
	uint32_t algorithm, limit, capacity;
	size_t count;
	uint64_t at_ns[REQUESTS];
	uint32_t cost[REQUESTS];
};

/* Returns the units in use at at_ns, in thousandths, rounded up to whole units for a bucket. Counts
 * all admissions anew. */
static double dull_used(const struct dull *dull, uint64_t at_ns)
{
	uint64_t window = at_ns / S_NS;
	double level = 0, before = 0, used = 0;
	uint64_t last_ns = 0;

	for (size_t i = 0; i < dull->count; i++) {
		uint64_t its = dull->at_ns[i] / S_NS;

		level -= (double)(dull->at_ns[i] - last_ns) * dull->limit / 1e9;
		level = (level > 0 ? level : 0) + dull->cost[i];
		last_ns = dull->at_ns[i];
		if (dull->algorithm == WEIR_SLIDING_LOG)
			used += dull->at_ns[i] + S_NS > at_ns ? dull->cost[i] : 0;
		else
			used += its == window ? dull->cost[i] : 0;
		before += its + 1 == window ? dull->cost[i] : 0;
	}
	if (dull->algorithm == WEIR_SLIDING_COUNTER)
		used += (double)(uint64_t)(before * (double)(S_NS - at_ns % S_NS) / 1e9 + 1e-9);
	level -= (double)(at_ns - last_ns) * dull->limit / 1e9;
	if (dull->algorithm == WEIR_TOKEN_BUCKET || dull->algorithm == WEIR_LEAKY_BUCKET)
		return level > 0 ? level : 0;
	return used;
}

static void dull_add(struct dull *dull, uint64_t at_ns, uint32_t cost)
{
	dull->at_ns[dull->count] = at_ns;
	dull->cost[dull->count++] = cost;
}

static void compare_with_dull(uint32_t algorithm, uint64_t seed)
{
	struct dull *fleet = calloc(1, sizeof *fleet), *exact = calloc(1, sizeof *exact);
	uint32_t limit = 8, capacity = algorithm == WEIR_TOKEN_BUCKET ? 20 : 8;
	struct wr_lab_oracle *oracle = make(algorithm, limit, capacity);
	uint64_t fleet_units[64] = {0}, exact_units[64] = {0}, beyond = 0, wrong = 0;
	struct wr_lab_oracle_totals totals;
	struct wr_rng rng = {seed};
	uint64_t at_ns = 0;
	double excess = 0;

	fleet->algorithm = exact->algorithm = algorithm;
	fleet->limit = exact->limit = limit;
	for (unsigned i = 0; i < REQUESTS && at_ns < 60 * S_NS; i++) {
		uint32_t cost = (uint32_t)wr_rng_between(&rng, 1, 3);
		/* the fleet admits too much for some seconds, then too little */
		bool admitted = wr_rng_percent(&rng, at_ns / S_NS % 10 < 5 ? 90 : 10);
		double used;

		/* times are odd multiples of 1/8 ms, at which no limit is reached exactly */
		at_ns += (2 * wr_rng_below(&rng, 600) + 1) * 125000;
		wr_lab_oracle_see(oracle, 1, cost, at_ns, admitted);
		if (dull_used(exact, at_ns) + cost <= capacity + 1e-9) {
			dull_add(exact, at_ns, cost);
			exact_units[at_ns / S_NS] += cost;
		}
		if (!admitted)
			continue;
		dull_add(fleet, at_ns, cost);
		fleet_units[at_ns / S_NS] += cost;
		used = dull_used(fleet, at_ns);
		excess = used - capacity > excess ? used - capacity : excess;
	}
	for (unsigned i = 0; i < 64; i++)
		if (fleet_units[i] > exact_units[i])
			beyond += fleet_units[i] - exact_units[i];
		else
			wrong += exact_units[i] - fleet_units[i];
	wr_lab_oracle_totals(oracle, &totals);
	assert_int_equal(totals.beyond, beyond);
	assert_int_equal(totals.wrongly_refused, wrong);
	assert_true(beyond > 0 && wrong > 0);
	assert_int_equal(wr_lab_oracle_excess(oracle, 1), (uint64_t)(excess + 1 - 1e-6));
	wr_lab_oracle_free(oracle);
	free(fleet);
	free(exact);
}

static void test_random_traces(void **state)
{
	static const uint32_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_LEAKY_BUCKET,
					      WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER,
					      WEIR_SLIDING_LOG};

	(void)state;
	for (unsigned i = 0; i < COUNT(algorithms); i++)
		for (uint64_t seed = 1; seed <= 10; seed++)
			compare_with_dull(algorithms[i], seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_example),         cmocka_unit_test(test_token_bucket),
		cmocka_unit_test(test_sliding_counter), cmocka_unit_test(test_sliding_log),
		cmocka_unit_test(test_random_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
