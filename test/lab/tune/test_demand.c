/* The demand of one client, compared with the production token bucket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/algo.h>

#include "lab/tune/demand.h"
#include "sim/rng.h"

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)
#define NOON_NS (1772366400ull * SECOND_NS) /* 2026-03-01 12:00 UTC */
#define REQUESTS 60u

/* Returns the index of a rate. */
static size_t find_rate(const struct wr_lab_rate rates[WR_LAB_RATES], uint32_t limit,
			uint64_t period_ns)
{
	size_t i = 0;

	while (i < WR_LAB_RATES && !(rates[i].limit == limit && rates[i].period_ns == period_ns))
		i++;
	assert_true(i < WR_LAB_RATES);
	return i;
}

/* ---- a dull oracle ---- */

struct request {
	uint64_t time_ns;
	int64_t cost;
};

/* Returns whether a token bucket of the production code admits all requests. */
static bool admits_all(const struct wr_lab_rate *rate, uint32_t burst,
		       const struct request *requests, size_t count)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_TOKEN_BUCKET,
				   .limit = rate->limit,
				   .burst = burst,
				   .period_ns = rate->period_ns};
	struct weir_state state = {0};
	struct weir_decision decision;
	struct weir_error error;

	assert_int_equal(weir_limit_check(&limit, &error), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(weir_step(&limit, &state, NULL, requests[i].cost,
					   requests[i].time_ns, &decision),
				 0);
		if (!decision.admitted)
			return false;
	}
	return true;
}

/* Tries all bursts from 1 on. */
static uint32_t smallest_burst(const struct wr_lab_rate *rate, const struct request *requests,
			       size_t count)
{
	uint32_t burst = 1;

	while (!admits_all(rate, burst, requests, count))
		burst++;
	return burst;
}

/* Makes requests in batches: short pauses, and now and then a long one. */
static void make_requests(struct wr_rng *rng, struct request requests[REQUESTS])
{
	static const uint64_t pauses_ns[] = {0,
					     1,
					     SECOND_NS / 50,
					     SECOND_NS / 3,
					     SECOND_NS,
					     7 * SECOND_NS,
					     MINUTE_NS,
					     50 * MINUTE_NS};
	uint64_t time_ns = NOON_NS;

	for (size_t i = 0; i < REQUESTS; i++) {
		uint64_t pause_ns =
			pauses_ns[wr_rng_below(rng, sizeof pauses_ns / sizeof *pauses_ns)];

		time_ns += pause_ns ? pause_ns / 2 + wr_rng_below(rng, pause_ns) : 0;
		requests[i] = (struct request){time_ns, 1 + (int64_t)wr_rng_below(rng, 3)};
	}
}

static void bursts_equal_those_of_the_token_bucket(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_rng rng = {7};

	(void)state;
	for (unsigned unit = 0; unit <= WR_LAB_UNIT_COUNT; unit++) {
		wr_lab_rates(unit, rates);
		for (unsigned round = 0; round < 20; round++) {
			struct request requests[REQUESTS];
			struct wr_lab_demand demand = {0};

			make_requests(&rng, requests);
			for (size_t i = 0; i < REQUESTS; i++)
				wr_lab_demand_add(&demand, rates, requests[i].time_ns,
						  (uint64_t)requests[i].cost);
			for (size_t i = 0; i < WR_LAB_RATES; i++)
				assert_int_equal(wr_lab_demand_burst(&demand, rates, i),
						 smallest_burst(&rates[i], requests, REQUESTS));
		}
	}
}

/* ---- numbers ---- */

/* The example of tune_demand.h: 1 per second, requests at 0, 0.2, 0.4 and 3 s. */
static void the_example_needs_a_burst_of_three(void **state)
{
	static const uint64_t after_ms[] = {0, 200, 400, 3000};
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};
	size_t one;

	(void)state;
	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	one = find_rate(rates, 1, SECOND_NS);
	for (size_t i = 0; i < 4; i++)
		wr_lab_demand_add(&demand, rates, NOON_NS + after_ms[i] * 1000000, 1);
	assert_int_equal(demand.most[one], 2600000000);
	assert_int_equal(demand.backlog[one], 1000000000);
	assert_int_equal(wr_lab_demand_burst(&demand, rates, one), 3);
}

/* A backlog that is a whole number of tokens is not rounded up: one request per second exactly. */
static void a_rate_that_is_exactly_met_needs_a_burst_of_one(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};

	(void)state;
	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	for (uint64_t i = 0; i < 100; i++)
		wr_lab_demand_add(&demand, rates, NOON_NS + i * SECOND_NS, 1);
	assert_int_equal(wr_lab_demand_burst(&demand, rates, find_rate(rates, 1, SECOND_NS)), 1);
	/* 100 requests in 99 s; 30 per minute let 49.5 of them flow out before the last. */
	assert_int_equal(wr_lab_demand_burst(&demand, rates, find_rate(rates, 30, MINUTE_NS)), 51);
}

/* Windows begin at multiples of their length: 12:00:58 to 12:01:02 is in two minutes. */
static void peaks_are_those_of_aligned_windows(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};

	(void)state;
	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	for (uint64_t i = 58; i < 63; i++)
		wr_lab_demand_add(&demand, rates, NOON_NS + i * SECOND_NS, 2);
	assert_int_equal(demand.windows[WR_LAB_PER_SECOND].peak, 2);
	assert_int_equal(demand.windows[WR_LAB_PER_MINUTE].peak, 6);
	assert_int_equal(demand.windows[WR_LAB_PER_HOUR].peak, 10);
	assert_int_equal(demand.windows[WR_LAB_PER_DAY].peak, 10);
	assert_int_equal(demand.requests, 5);
	assert_int_equal(demand.units, 10);
}

/* Four batches: 3 requests; 1 request at the end of the first 2 s, then a pause of 11 s; 2 requests,
 * then a pause of 2 hours; 1 request. */
static void batches_and_pauses_are_counted(void **state)
{
	static const uint64_t after_s[] = {0, 0, 1, 2, 13, 14, 7214};
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};

	(void)state;
	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	for (size_t i = 0; i < 7; i++)
		wr_lab_demand_add(&demand, rates, NOON_NS + after_s[i] * SECOND_NS, 1);
	assert_int_equal(demand.batches, 4);
	assert_int_equal(demand.batch_peak, 3);
	assert_int_equal(demand.pauses, 1); /* the second one ends the visit */
	assert_int_equal(demand.pause_ns, 11 * SECOND_NS);
	assert_int_equal(demand.active_ns, (0 + 1 + 1 + 11 + 1 + 60) * SECOND_NS);
}

/* ---- bursts and steady use ---- */

/* Makes a client that sends `count` requests, spread over a second, every `period_s` for ten minutes. */
static struct wr_lab_demand make_visits(uint64_t count, uint64_t period_s)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};

	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	for (uint64_t second = 0; second < 600; second += period_s)
		for (uint64_t i = 0; i < count; i++)
			wr_lab_demand_add(&demand, rates,
					  NOON_NS + second * SECOND_NS + i * SECOND_NS / count, 1);
	return demand;
}

/* The same number of requests in each second is steady, however large the number is. */
static void equal_seconds_are_no_bursts(void **state)
{
	static const uint64_t counts[] = {1, 3, 50};

	(void)state;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct wr_lab_demand demand = make_visits(counts[i], 1);

		assert_int_equal(demand.batch_peak, 2 * counts[i]);
		assert_int_equal(wr_lab_demand_largest(&demand), 1);
		assert_float_equal(wr_lab_demand_pace(&demand), 60.0 * (double)counts[i], 1e-6);
	}
}

/* 30 requests within a second every 10 s or more seldom are bursts of 30. Every 8 s, they are 7.5 in
 * 2 s on average, and 30 is less than five times as many. */
static void pages_with_a_pause_are_bursts(void **state)
{
	static const uint64_t periods_s[][2] = {{8, 1}, {11, 30}, {30, 30}, {600, 30}};

	(void)state;
	for (size_t i = 0; i < sizeof periods_s / sizeof *periods_s; i++) {
		struct wr_lab_demand demand = make_visits(30, periods_s[i][0]);

		assert_int_equal(wr_lab_demand_largest(&demand), periods_s[i][1]);
	}
}

/* Poisson traffic of 1 per second for ten minutes: nine of ten clients send no bursts. */
static void random_use_is_no_burst(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_rng rng = {3};
	unsigned steady = 0;

	(void)state;
	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	for (unsigned client = 0; client < 100; client++) {
		struct wr_lab_demand demand = {0};

		/* A request in each millisecond with the chance 1/1,000. */
		for (uint64_t ms = 0; ms < 600000; ms++)
			if (wr_rng_below(&rng, 1000) == 0)
				wr_lab_demand_add(&demand, rates, NOON_NS + ms * 1000000, 1);
		steady += wr_lab_demand_largest(&demand) == 1;
	}
	assert_in_range(steady, 90, 100);
}

/* A client that sends little is active for a minute after each request, and at least for a minute. */
static void the_pace_is_that_of_active_minutes(void **state)
{
	struct wr_lab_demand one = make_visits(1, 600), slow = make_visits(1, 200);
	struct wr_lab_demand page = make_visits(30, 600);

	(void)state;
	assert_float_equal(wr_lab_demand_pace(&one), 1, 1e-6);
	assert_float_equal(wr_lab_demand_pace(&slow), 1, 1e-6);
	assert_float_equal(wr_lab_demand_pace(&page), 30, 1e-6);
}

/* 2^53 units at once are more than a rule can have, at every rate and for ever. */
static void a_demand_without_a_burst_says_so(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};

	(void)state;
	wr_lab_rates(WR_LAB_PER_DAY, rates);
	wr_lab_demand_add(&demand, rates, NOON_NS, 1ull << 53);
	wr_lab_demand_add(&demand, rates, NOON_NS + 100 * MINUTE_NS, 1);
	for (size_t i = 0; i < WR_LAB_RATES; i++)
		assert_int_equal(wr_lab_demand_burst(&demand, rates, i), WR_LAB_NO_BURST);
	assert_int_equal(demand.windows[WR_LAB_PER_DAY].peak, (1ull << 53) + 1);
}

/* A time before the last request counts as the time of the last request. */
static void time_does_not_go_back(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];
	struct wr_lab_demand demand = {0};

	(void)state;
	wr_lab_rates(WR_LAB_UNIT_COUNT, rates);
	wr_lab_demand_add(&demand, rates, NOON_NS + 5 * SECOND_NS, 1);
	wr_lab_demand_add(&demand, rates, NOON_NS, 1);
	assert_int_equal(demand.last_ns, NOON_NS + 5 * SECOND_NS);
	assert_int_equal(wr_lab_demand_burst(&demand, rates, find_rate(rates, 1, SECOND_NS)), 2);
}

static void rates_rise(void **state)
{
	struct wr_lab_rate rates[WR_LAB_RATES];

	(void)state;
	for (unsigned unit = 0; unit <= WR_LAB_UNIT_COUNT; unit++) {
		wr_lab_rates(unit, rates);
		for (size_t i = 1; i < WR_LAB_RATES; i++)
			assert_true((double)rates[i - 1].limit / (double)rates[i - 1].period_ns <
				    (double)rates[i].limit / (double)rates[i].period_ns);
	}
	wr_lab_rates(WR_LAB_PER_HOUR, rates);
	assert_int_equal(rates[0].limit, 1);
	assert_int_equal(rates[4].limit, 20);
	assert_int_equal(rates[23].limit, 50000000);
	assert_int_equal(rates[23].period_ns, 60 * MINUTE_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bursts_equal_those_of_the_token_bucket),
		cmocka_unit_test(the_example_needs_a_burst_of_three),
		cmocka_unit_test(a_rate_that_is_exactly_met_needs_a_burst_of_one),
		cmocka_unit_test(peaks_are_those_of_aligned_windows),
		cmocka_unit_test(batches_and_pauses_are_counted),
		cmocka_unit_test(equal_seconds_are_no_bursts),
		cmocka_unit_test(pages_with_a_pause_are_bursts),
		cmocka_unit_test(random_use_is_no_burst),
		cmocka_unit_test(the_pace_is_that_of_active_minutes),
		cmocka_unit_test(a_demand_without_a_burst_says_so),
		cmocka_unit_test(time_does_not_go_back),
		cmocka_unit_test(rates_rise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
