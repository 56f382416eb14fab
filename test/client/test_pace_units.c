/* Pacing by tokens: single steps with exact times, and fleets of clients in virtual time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/algo.h>

#include "base/str.h"
#include "client/fleet.h"
#include "client/pace.h"

#define SECOND_NS 1000000000ull
#define MS_NS 1000000ull
#define NOW_NS (1000000 * SECOND_NS)
#define HALF (UINT64_MAX / 2) /* random bits for the middle of a range */
#define COUNTS (WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING)

/* 60,000 tokens per 60 s. */
static struct weir_ratelimit_policy by_window(uint64_t remaining)
{
	return (struct weir_ratelimit_policy){
		.name = {"tokens", 6},
		.unit = WEIR_RATELIMIT_TOKENS,
		.form = WEIR_RATELIMIT_X,
		.has = COUNTS | WEIR_RATELIMIT_HAS_WINDOW,
		.limit = 60000,
		.remaining = remaining,
		.window_ns = 60 * SECOND_NS,
	};
}

/* 60,000 tokens, and the time until the reset. */
static struct weir_ratelimit_policy by_reset(uint64_t remaining, uint64_t reset_ms)
{
	struct weir_ratelimit_policy policy = by_window(remaining);

	policy.has = COUNTS | WEIR_RATELIMIT_HAS_RESET;
	policy.window_ns = 0;
	policy.reset_ns = reset_ms * MS_NS;
	return policy;
}

static struct weir_ratelimit tell(struct weir_ratelimit_policy policy)
{
	return (struct weir_ratelimit){
		.size = sizeof(struct weir_ratelimit), .count = 1, .policies = {policy}};
}

/* Learns from a response at this time after NOW_NS. Returns the interval in microseconds. */
static uint64_t learn(struct wr_pace_units *units, struct weir_ratelimit_policy policy,
		      uint64_t at_ms)
{
	return (uint64_t)(wr_pace_units_learn(units, &policy, false, NOW_NS + at_ms * MS_NS) * 1e6);
}

static uint64_t learn_refusal(struct wr_pace_units *units, struct weir_ratelimit_policy policy,
			      uint64_t at_ms)
{
	return (uint64_t)(wr_pace_units_learn(units, &policy, true, NOW_NS + at_ms * MS_NS) * 1e6);
}

static void the_cost_is_what_was_used_and_what_flowed_back(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_window(20000), 0);
	/* 100 tokens fewer, and 400 flowed back: 500 tokens every 0.25 s are twice the inflow. */
	assert_int_equal(learn(&units, by_window(19900), 400), 245250);
	assert_int_equal(units.cost, 500);
	/* 1,000 + 300 tokens: the mean is 900. */
	assert_int_equal(learn(&units, by_window(18900), 700), 438604);
	assert_int_equal(units.cost, 900);
}

static void the_mean_is_one_of_eight_responses(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	for (uint64_t i = 0; i <= 20; i++)
		learn(&units, by_window(40000 - 400 * i), 100 * i);
	assert_int_equal(units.cost, 500);
	/* A request of 8,500 tokens. */
	learn(&units, by_window(23600), 2100);
	assert_int_equal(units.cost, 1500);
}

static void few_remaining_units_slow_down(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_window(9400), 0);
	/* 15 % of the limit: 500 tokens in 0.5 s. */
	assert_int_equal(learn(&units, by_window(9000), 100), 486671);
	units = (struct wr_pace_units){0};
	learn(&units, by_window(400), 0);
	/* Nothing remains: a quarter of the inflow. */
	assert_int_equal(learn(&units, by_window(0), 100), 1896143);
}

static void until_the_cost_is_known_a_request_waits_a_second(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	/* An earlier run has used the tokens. */
	assert_int_equal(learn(&units, by_window(1000), 0), 962714);
	assert_int_equal(learn(&units, by_window(1500), 1000), 1896143);
}

static void requests_without_a_cost_are_not_slowed_down(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_window(60000), 0);
	assert_int_equal(learn(&units, by_window(60000), 10), 0);
	units = (struct wr_pace_units){0};
	learn(&units, by_reset(60000, 0), 0);
	assert_int_equal(learn(&units, by_reset(60000, 0), 10), 0);
}

static void a_bucket_without_a_window_shows_the_cost_in_its_reset(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_reset(30000, 30000), 0);
	/* 500 tokens used, and 500 flowed back. 30,000 tokens in 30 s are one request per 0.5 s. */
	assert_int_equal(learn(&units, by_reset(30000, 30000), 500), 481357);
	assert_int_equal(units.cost, 500);
}

static void a_window_without_its_length_shows_the_cost_in_the_remaining_units(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_reset(30000, 30000), 0);
	assert_int_equal(learn(&units, by_reset(29500, 29500), 500), 481357);
	assert_int_equal(units.cost, 500);
	/* The next window. */
	units = (struct wr_pace_units){0};
	learn(&units, by_reset(1000, 1000), 0);
	learn(&units, by_reset(500, 500), 500);
	learn(&units, by_reset(59500, 60000), 1000);
	assert_int_equal(units.cost, 500);
	/* Not enough for another request: it waits until the reset. */
	units = (struct wr_pace_units){0};
	learn(&units, by_reset(600, 7500), 0);
	assert_int_equal(learn(&units, by_reset(100, 7000), 500), 7000000);
}

static void a_pause_does_not_raise_the_cost_much(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_window(20500), 0);
	learn(&units, by_window(20250), 250);
	assert_int_equal(units.cost, 500);
	/* 30 s without a request, and others have used 39,000 tokens: 2 · 500 + 1,000 count. */
	learn(&units, by_window(11250), 30250);
	assert_int_equal(units.cost, 1250);
	/* Units came back in the pause: the inflow of 1.5 intervals of 0.96 s counts. */
	learn(&units, by_window(15250), 60250);
	assert_int_equal(units.cost, 1314);
}

static void refusals_double_the_interval_once_per_interval(void **state)
{
	struct wr_pace_units units = {0};

	(void)state;
	learn(&units, by_window(400), 0);
	learn(&units, by_window(0), 100);
	assert_int_equal(learn_refusal(&units, by_window(0), 2100), 3712435);
	assert_int_equal(learn_refusal(&units, by_window(0), 2200), 3712435);
	/* The cost doubles until the interval is a window, and then the interval 16 times. */
	for (uint64_t i = 1; i < 20; i++)
		learn_refusal(&units, by_window(0), 2000000 * i);
	assert_int_equal(units.cost, 16000);
	assert_int_equal(units.slow, 16);
	assert_int_equal(learn_refusal(&units, by_window(0), 40000000), 787692307);
	/* Responses that are not refusals make the factor smaller. */
	learn(&units, by_window(0), 40000001);
	assert_int_equal(units.slow * 100, 1552);
	/* A policy with units for two requests did not refuse. */
	units = (struct wr_pace_units){0};
	learn(&units, by_window(20400), 0);
	learn(&units, by_window(20000), 100);
	assert_int_equal(learn_refusal(&units, by_window(20000), 2100), 245250);
}

static void tokens_and_bytes_pace_and_concurrency_does_not(void **state)
{
	struct weir_ratelimit told = tell(by_window(20000));

	(void)state;
	assert_true(wr_pace_follows_units(&told, 0));
	assert_false(wr_pace_follows(&told, 0));
	told.policies[0].unit = WEIR_RATELIMIT_BYTES;
	assert_true(wr_pace_follows_units(&told, 0));
	told.policies[0].unit = WEIR_RATELIMIT_OTHER;
	assert_true(wr_pace_follows_units(&told, 0));
	told.policies[0].unit = WEIR_RATELIMIT_CONCURRENT;
	assert_false(wr_pace_follows_units(&told, 0));
	told.policies[0].unit = WEIR_RATELIMIT_REQUESTS;
	assert_false(wr_pace_follows_units(&told, 0));
	told.policies[0] = by_window(20000);
	told.policies[0].limit = 0;
	assert_false(wr_pace_follows_units(&told, 0));
	/* A better form of the same unit counts alone, one of requests does not matter. */
	told = tell(by_window(20000));
	told.policies[told.count++] = by_window(20000);
	told.policies[1].form = WEIR_RATELIMIT_IETF;
	assert_false(wr_pace_follows_units(&told, 0));
	assert_true(wr_pace_follows_units(&told, 1));
	told.policies[1].unit = WEIR_RATELIMIT_REQUESTS;
	assert_true(wr_pace_follows_units(&told, 0));
	assert_true(wr_pace_follows(&told, 1));
}

/* Tells a host's limit of 60 requests per minute, and tokens. */
static struct weir_ratelimit tell_both(uint64_t requests, uint64_t tokens)
{
	struct weir_ratelimit told = tell(by_window(tokens));

	told.policies[told.count++] = (struct weir_ratelimit_policy){
		.name = {"requests", 8},
		.form = WEIR_RATELIMIT_X,
		.has = COUNTS | WEIR_RATELIMIT_HAS_WINDOW,
		.limit = 60,
		.remaining = requests,
		.window_ns = 60 * SECOND_NS,
	};
	return told;
}

/* Returns the time between two requests after two responses with this cost, in ms. */
static uint64_t paced_ms(uint64_t cost, const char *tightest)
{
	struct weir_ratelimit told = tell_both(59, 20000);
	struct wr_pace pace;
	uint64_t at_ns;

	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	told = tell_both(58, 21000 - cost);
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS, HALF);
	at_ns = wr_pace_reserve(&pace, NOW_NS + SECOND_NS, HALF);
	assert_string_equal(wr_pace_tightest(&pace, NOW_NS)->name, tightest);
	return (wr_pace_reserve(&pace, NOW_NS + SECOND_NS, HALF) - at_ns) / MS_NS;
}

static void the_tightest_of_requests_and_tokens_counts(void **state)
{
	(void)state;
	assert_int_equal(paced_ms(500, "requests"), 1010);
	assert_int_equal(paced_ms(5000, "tokens"), 2640);
}

static void a_shorter_interval_moves_the_next_request(void **state)
{
	struct weir_ratelimit told = tell(by_reset(30000, 30000));
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	/* The first one starts at a random time of a second. */
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal((pace.lanes[0].next_ns - NOW_NS) / 1000, 474035);
	told = tell(by_reset(30000, 30000));
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS / 10, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1e6, 98297);
	assert_true(pace.lanes[0].next_ns < NOW_NS);
	/* A longer one moves it back. */
	told = tell(by_reset(27100, 32900));
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS / 5, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1e6, 1755763);
	assert_int_equal((pace.lanes[0].next_ns - NOW_NS) / 1000, 1281727);
}

static void a_refused_request_starts_after_the_wait(void **state)
{
	struct weir_ratelimit told = tell(by_window(0));
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	told.refused = 1;
	told.wait_ns = 5 * SECOND_NS;
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	/* 5 s, and half of the first interval, which is about a second. */
	assert_int_equal((wr_pace_reserve(&pace, NOW_NS, HALF) - NOW_NS) / 1000, 5481357);
}

static void a_policy_with_another_unit_begins_anew(void **state)
{
	struct weir_ratelimit told = tell(by_window(400));
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	told = tell(by_window(0));
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS / 10, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1e6, 1896143);
	told.policies[0].unit = WEIR_RATELIMIT_BYTES;
	told.policies[0].remaining = 59500;
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1e6, 245250);
	told.policies[0].unit = WEIR_RATELIMIT_REQUESTS;
	told.policies[0].remaining = 59999;
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1e6, 1010);
	assert_false(pace.lanes[1].used);
}

/* Every sequence of hostile numbers leaves an interval within its bounds. */
static void hostile_numbers_leave_usable_times(void **state)
{
	static const uint64_t numbers[] = {0, 1, 1000, 1ull << 63, UINT64_MAX};
	static const uint64_t times[] = {0, 1, SECOND_NS, WEIR_RATELIMIT_TIME_MAX_NS, UINT64_MAX};
	uint64_t seed = 1;
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	for (uint64_t i = 0; i < 100000; i++) {
		struct weir_ratelimit told = tell(by_window(0));
		struct weir_ratelimit_policy *policy = &told.policies[0];
		double interval_s, told_s;
		uint64_t at_ns = NOW_NS + i * i;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		policy->unit = i % 64 ? WEIR_RATELIMIT_TOKENS : WEIR_RATELIMIT_BYTES;
		policy->has = COUNTS | (uint8_t)((seed >> 20) % 4 << 2);
		policy->limit = numbers[1 + (seed >> 24) % 4];
		policy->remaining = numbers[(seed >> 28) % 5];
		policy->window_ns = times[(seed >> 32) % 5];
		policy->reset_ns = times[(seed >> 36) % 5];
		told.refused = (seed >> 40) % 2;
		wr_pace_learn(&pace, &told, at_ns, seed);
		interval_s = pace.lanes[0].interval_s;
		told_s = fmax((double)policy->window_ns * 4, (double)policy->reset_ns) / 1e9;
		assert_true(isfinite(interval_s) && interval_s >= 0 && interval_s <= 16 * told_s);
		assert_true(isfinite(pace.lanes[0].units.cost));
		assert_true(wr_pace_reserve(&pace, at_ns, HALF) >= at_ns);
	}
}

/* ---- fleets ---- */

#define WINDOW WEIR_RATELIMIT_HAS_WINDOW
#define RESET WEIR_RATELIMIT_HAS_RESET

/* Runs clients on 60,000 tokens per minute for 20 minutes. The first two minutes are not measured. */
static void expect(struct fleet_plan plan, double refused, double used, double slowest)
{
	struct fleet_result result;

	if (!plan.algorithm)
		plan.algorithm = WEIR_TOKEN_BUCKET;
	plan.limit = 60000;
	plan.period_ns = 60 * SECOND_NS;
	plan.seconds = 1200;
	plan.measured_from_s = 120;
	for (plan.seed = 1; plan.seed <= 3; plan.seed++) {
		fleet_run(&plan, &result);
		if (result.refused_share > refused || result.used_share < used ||
		    result.slowest_of_median < slowest)
			fail_msg("%u clients, told %u: refused %.4f (at most %.4f), used %.4f (at "
				 "least %.4f), slowest %.3f (at least %.3f)",
				 plan.clients, plan.told, result.refused_share, refused,
				 result.used_share, used, result.slowest_of_median, slowest);
	}
}

static void a_lone_client_uses_the_limit(void **state)
{
	static const uint8_t told[] = {WINDOW, RESET, WINDOW | RESET};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		expect(
			(struct fleet_plan){
				.clients = 1, .told = told[i], .cost_min = 500, .cost_max = 500},
			0, 0.99, 1);
		expect(
			(struct fleet_plan){
				.clients = 1, .told = told[i], .cost_min = 300, .cost_max = 900},
			0, 0.99, 1);
		/* Ten requests per minute. */
		expect(
			(struct fleet_plan){
				.clients = 1, .told = told[i], .cost_min = 3000, .cost_max = 9000},
			0.01, 0.99, 1);
	}
}

static void a_reset_in_whole_seconds_is_precise_enough(void **state)
{
	(void)state;
	expect((struct fleet_plan){.clients = 1,
				   .told = RESET,
				   .whole_seconds = true,
				   .cost_min = 300,
				   .cost_max = 900},
	       0, 0.99, 1);
	expect((struct fleet_plan){.clients = 10,
				   .told = RESET,
				   .whole_seconds = true,
				   .cost_min = 300,
				   .cost_max = 900},
	       0, 0.98, 0.7);
}

static void a_lone_client_uses_most_of_a_window(void **state)
{
	static const int algorithms[] = {WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		expect((struct fleet_plan){.algorithm = algorithms[i],
					   .clients = 1,
					   .told = WINDOW,
					   .cost_min = 300,
					   .cost_max = 900},
		       0.01, 0.8, 1);
	expect((struct fleet_plan){.algorithm = WEIR_FIXED_WINDOW,
				   .clients = 1,
				   .told = RESET,
				   .cost_min = 300,
				   .cost_max = 900},
	       0.01, 0.9, 1);
}

static void few_clients_share_the_limit(void **state)
{
	static const uint32_t clients[] = {2, 10};
	static const uint8_t told[] = {WINDOW, RESET, WINDOW | RESET};

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		expect((struct fleet_plan){.clients = clients[i % 2],
					   .told = told[i / 2],
					   .cost_min = 500,
					   .cost_max = 500},
		       0.01, 0.98, 0.6);
		expect((struct fleet_plan){.clients = clients[i % 2],
					   .told = told[i / 2],
					   .cost_min = 300,
					   .cost_max = 900},
		       0.01, 0.98, 0.6);
		expect((struct fleet_plan){.algorithm = WEIR_FIXED_WINDOW,
					   .clients = clients[i % 2],
					   .told = told[i / 2],
					   .cost_min = 300,
					   .cost_max = 900},
		       0.05, 0.8, 0.25);
	}
}

static void clients_come_and_go(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t told = i ? RESET : WINDOW;

		expect((struct fleet_plan){.clients = 10,
					   .late_clients = 5,
					   .told = told,
					   .cost_min = 300,
					   .cost_max = 900},
		       0.02, 0.95, 0.5);
		expect((struct fleet_plan){.clients = 10,
					   .leaving_clients = 5,
					   .told = told,
					   .cost_min = 300,
					   .cost_max = 900},
		       0.02, 0.95, 0.5);
	}
}

static void a_hundred_clients_do_not_collapse(void **state)
{
	(void)state;
	expect(
		(struct fleet_plan){
			.clients = 100, .told = WINDOW, .cost_min = 300, .cost_max = 900},
		0.1, 0.9, 0.05);
	expect((struct fleet_plan){.clients = 100, .told = RESET, .cost_min = 300, .cost_max = 900},
	       0.1, 0.9, 0.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cost_is_what_was_used_and_what_flowed_back),
		cmocka_unit_test(the_mean_is_one_of_eight_responses),
		cmocka_unit_test(few_remaining_units_slow_down),
		cmocka_unit_test(until_the_cost_is_known_a_request_waits_a_second),
		cmocka_unit_test(requests_without_a_cost_are_not_slowed_down),
		cmocka_unit_test(a_bucket_without_a_window_shows_the_cost_in_its_reset),
		cmocka_unit_test(a_window_without_its_length_shows_the_cost_in_the_remaining_units),
		cmocka_unit_test(a_pause_does_not_raise_the_cost_much),
		cmocka_unit_test(refusals_double_the_interval_once_per_interval),
		cmocka_unit_test(tokens_and_bytes_pace_and_concurrency_does_not),
		cmocka_unit_test(the_tightest_of_requests_and_tokens_counts),
		cmocka_unit_test(a_shorter_interval_moves_the_next_request),
		cmocka_unit_test(a_refused_request_starts_after_the_wait),
		cmocka_unit_test(a_policy_with_another_unit_begins_anew),
		cmocka_unit_test(hostile_numbers_leave_usable_times),
		cmocka_unit_test(a_lone_client_uses_the_limit),
		cmocka_unit_test(a_reset_in_whole_seconds_is_precise_enough),
		cmocka_unit_test(a_lone_client_uses_most_of_a_window),
		cmocka_unit_test(few_clients_share_the_limit),
		cmocka_unit_test(clients_come_and_go),
		cmocka_unit_test(a_hundred_clients_do_not_collapse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
