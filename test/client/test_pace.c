/* Pacing: single steps with exact times, and fleets of clients on one limit in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/algo.h>

#include "base/str.h"
#include "client/fleet.h"
#include "client/pace.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1000000 * SECOND_NS)
#define HALF (UINT64_MAX / 2) /* random bits for the middle of a range */

static struct weir_ratelimit tell(const char *name, uint64_t limit, uint64_t remaining,
				  uint64_t window_s)
{
	struct weir_ratelimit told = {.size = sizeof told, .count = 1};

	told.policies[0] = (struct weir_ratelimit_policy){
		.name = wr_str(name),
		.form = WEIR_RATELIMIT_IETF,
		.has = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING |
		       WEIR_RATELIMIT_HAS_WINDOW,
		.limit = limit,
		.remaining = remaining,
		.window_ns = window_s * SECOND_NS,
	};
	return told;
}

static void a_host_that_tells_nothing_is_not_paced(void **state)
{
	struct weir_ratelimit told = {.size = sizeof told};
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS);
		wr_pace_learn(&pace, &told, NOW_NS, HALF);
	}
	assert_null(wr_pace_tightest(&pace, NOW_NS));
}

static void the_own_maximum_spreads_requests(void **state)
{
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 4);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + SECOND_NS / 4);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + SECOND_NS / 2);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS + 9 * SECOND_NS, HALF),
			 NOW_NS + 9 * SECOND_NS);
}

static void a_lone_client_uses_99_percent_of_a_limit(void **state)
{
	struct weir_ratelimit told = tell("a", 100, 99, 1);
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + 10100000);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + 2 * 10100000);
	assert_string_equal(wr_pace_tightest(&pace, NOW_NS)->name, "a");
}

static void a_client_that_meets_others_begins_slowly(void **state)
{
	struct weir_ratelimit told = tell("a", 100, 40, 1);
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	/* One request in 14 windows; the first one after half of the interval. */
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF) / 1000,
			 (NOW_NS + 7 * SECOND_NS) / 1000 - 1);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF) / SECOND_NS,
			 (NOW_NS + 20 * SECOND_NS) / SECOND_NS);
}

/* Runs a client alone on a limit of 5 per second whose bucket lacks `used` units. The first `refused`
 * requests are refused, whatever the bucket has. Each random wait is half of its maximum, and the first
 * one is all of it. Returns when the client has its full rate again, in ms. */
static uint64_t recovery_ms(uint32_t used, unsigned refused)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_TOKEN_BUCKET,
				   .limit = 5,
				   .period_ns = SECOND_NS};
	struct weir_state bucket = {0};
	struct weir_decision decision;
	struct wr_pace pace;
	uint64_t now_ns = NOW_NS;

	assert_int_equal(weir_limit_check(&limit, NULL), 0);
	wr_pace_init(&pace, 0);
	weir_step(&limit, &bucket, NULL, used, now_ns, &decision);
	for (unsigned i = 0; i < 100; i++) {
		struct weir_ratelimit told;

		weir_step(&limit, &bucket, NULL, 1, now_ns, &decision);
		told = tell("a", 5, decision.remaining, 1);
		if (!decision.admitted || i < refused) {
			told.refused = 1;
			told.policies[0].remaining = 0;
			told.wait_ns = SECOND_NS;
		}
		wr_pace_learn(&pace, &told, now_ns, i ? HALF : UINT64_MAX);
		if (pace.lanes[0].interval_s < 0.203)
			break;
		now_ns = wr_pace_reserve(&pace, now_ns, HALF);
	}
	return (now_ns - NOW_NS) / 1000000;
}

static void a_lone_client_on_a_small_limit_recovers_within_seconds(void **state)
{
	(void)state;
	assert_int_equal(recovery_ms(0, 0), 0);
	/* An earlier run has left 3 units, then none. */
	assert_int_equal(recovery_ms(2, 0), 1531);
	assert_int_equal(recovery_ms(5, 0), 1656);
	/* A second refusal in a row, and a third one, make it slower. */
	assert_int_equal(recovery_ms(5, 2), 7609);
	assert_int_equal(recovery_ms(5, 3), 11517);
}

static void refusals_of_one_burst_count_once(void **state)
{
	struct weir_ratelimit told = tell("a", 5, 0, 1);
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	told.refused = 1;
	for (int i = 0; i < 8; i++)
		wr_pace_learn(&pace, &told, NOW_NS + (uint64_t)i, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1000, 875); /* 14 windows · (5 ÷ 20)² */
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1000, 3500);
}

static void the_pace_follows_a_limit_that_changes(void **state)
{
	struct weir_ratelimit told = tell("a", 1, 0, 3600);
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(pace.lanes[0].interval_s, 3636);
	told = tell("a", 100, 99, 1);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(pace.lanes[0].interval_s * 1e6, 10100);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF) / 1000000,
			 (NOW_NS + 10100000) / 1000000);
}

static void the_tightest_policy_counts(void **state)
{
	struct weir_ratelimit told = tell("second", 100, 99, 1);
	struct wr_pace pace;

	(void)state;
	told.count = 2;
	told.policies[1] = tell("minute", 60, 59, 60).policies[0];
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + 1010000000);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + 2 * 1010000000ull);
	assert_string_equal(wr_pace_tightest(&pace, NOW_NS)->name, "minute");
}

static void other_units_and_weaker_forms_do_not_pace(void **state)
{
	struct weir_ratelimit told = tell("a", 100, 99, 1);

	(void)state;
	told.count = 2;
	told.policies[1] = tell("", 1, 0, 3600).policies[0];
	told.policies[1].form = WEIR_RATELIMIT_X;
	assert_true(wr_pace_follows(&told, 0));
	assert_false(wr_pace_follows(&told, 1));
	told.policies[0].unit = WEIR_RATELIMIT_TOKENS;
	assert_false(wr_pace_follows(&told, 0));
	told.policies[0].unit = WEIR_RATELIMIT_REQUESTS;
	told.policies[0].limit = 0;
	assert_false(wr_pace_follows(&told, 0));
}

static void no_request_starts_sooner_than_told(void **state)
{
	struct weir_ratelimit told = {.size = sizeof told, .refused = 1, .wait_ns = 30 * SECOND_NS};
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	/* A request that was reserved before the refusal waits too. */
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, 0), NOW_NS);
	wr_pace_learn(&pace, &told, NOW_NS, 0);
	assert_int_equal(wr_pace_confirm(&pace, NOW_NS, 0), NOW_NS + 30 * SECOND_NS);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, 0), NOW_NS + 30 * SECOND_NS);
	/* A shorter wait does not end a longer one. */
	told.wait_ns = SECOND_NS;
	wr_pace_learn(&pace, &told, NOW_NS + SECOND_NS, 0);
	assert_int_equal(wr_pace_confirm(&pace, NOW_NS + 30 * SECOND_NS - 1, 0),
			 NOW_NS + 30 * SECOND_NS);
	assert_int_equal(wr_pace_confirm(&pace, NOW_NS + 30 * SECOND_NS, 0),
			 NOW_NS + 30 * SECOND_NS);
}

static void units_without_a_window_are_spread_until_the_reset(void **state)
{
	struct weir_ratelimit told = tell("", 5000, 99, 0);
	struct wr_pace pace;

	(void)state;
	told.policies[0].has =
		WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING | WEIR_RATELIMIT_HAS_RESET;
	told.policies[0].reset_ns = 600 * SECOND_NS;
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + 6 * SECOND_NS);
	/* With more than half of the units left, requests are not slowed down. */
	told.policies[0].remaining = 2500;
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS + 60 * SECOND_NS, HALF),
			 NOW_NS + 60 * SECOND_NS);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS + 60 * SECOND_NS, HALF),
			 NOW_NS + 60 * SECOND_NS);
}

/* A limit of 10 that is reset at NOW_NS + 60 s. The responses take no time. */
static void a_client_without_a_window_is_not_refused_at_the_end_of_it(void **state)
{
	struct weir_ratelimit told = tell("", 10, 0, 0);
	struct weir_ratelimit_policy *policy = &told.policies[0];
	uint64_t end_ns = NOW_NS + 60 * SECOND_NS, at_ns = NOW_NS;
	struct wr_pace pace;

	(void)state;
	policy->has =
		WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING | WEIR_RATELIMIT_HAS_RESET;
	wr_pace_init(&pace, 0);
	for (unsigned i = 0; i < 10; i++) {
		at_ns = wr_pace_reserve(&pace, at_ns, HALF);
		assert_in_range(at_ns, NOW_NS, end_ns - 1);
		policy->remaining = 9 - i;
		policy->reset_ns = end_ns - at_ns;
		wr_pace_learn(&pace, &told, at_ns, HALF);
	}
	at_ns = wr_pace_reserve(&pace, at_ns, HALF);
	assert_int_equal(at_ns, end_ns);
	/* In the next window there are many units again, and the pause ends at once. */
	policy->remaining = 9;
	policy->reset_ns = 60 * SECOND_NS;
	wr_pace_learn(&pace, &told, at_ns, HALF);
	assert_int_equal(wr_pace_reserve(&pace, at_ns, HALF), at_ns);
}

static void the_first_response_can_say_that_no_units_remain(void **state)
{
	struct weir_ratelimit told = tell("", 60, 0, 0);
	struct wr_pace pace;

	(void)state;
	told.policies[0].has =
		WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING | WEIR_RATELIMIT_HAS_RESET;
	told.policies[0].reset_ns = 30 * SECOND_NS;
	wr_pace_init(&pace, 0);
	wr_pace_learn(&pace, &told, NOW_NS, HALF);
	assert_int_equal(wr_pace_reserve(&pace, NOW_NS, HALF), NOW_NS + 30 * SECOND_NS);
}

static void hostile_numbers_leave_usable_times(void **state)
{
	static const uint64_t numbers[] = {1, 2, 1000, UINT64_MAX};
	struct wr_pace pace;

	(void)state;
	wr_pace_init(&pace, 0);
	for (unsigned i = 0; i < 4096; i++) {
		struct weir_ratelimit told = tell("x", numbers[i % 4], numbers[i / 4 % 4], 1);
		uint64_t at_ns;

		told.policies[0].window_ns =
			i & 16 ? WEIR_RATELIMIT_TIME_MAX_NS : numbers[i / 32 % 3];
		told.refused = i / 128 % 2;
		told.wait_ns = i & 256 ? WEIR_RATELIMIT_TIME_MAX_NS : 0;
		wr_pace_learn(&pace, &told, NOW_NS + i, i * 0x9e3779b97f4a7c15ull);
		at_ns = wr_pace_reserve(&pace, NOW_NS + i, HALF);
		assert_true(at_ns >= NOW_NS + i);
	}
}

/* ---- fleets ---- */

static struct fleet_result run(struct fleet_plan plan)
{
	struct fleet_result result;

	if (!plan.seconds)
		plan.seconds = 300;
	if (!plan.algorithm)
		plan.algorithm = WEIR_TOKEN_BUCKET;
	if (!plan.limit)
		plan.limit = 100;
	if (!plan.period_ns)
		plan.period_ns = SECOND_NS;
	fleet_run(&plan, &result);
	return result;
}

static void expect(struct fleet_result result, double refused, double used, double slowest)
{
	if (result.refused_share > refused || result.used_share < used ||
	    result.slowest_of_median < slowest)
		fail_msg("refused %.4f (at most %.4f), used %.4f (at least %.4f), slowest %.3f "
			 "(at least %.3f)",
			 result.refused_share, refused, result.used_share, used,
			 result.slowest_of_median, slowest);
}

static void a_thousand_clients_share_a_hundred_per_second(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		expect(run((struct fleet_plan){.clients = 1000, .seed = seed}), 0.05, 0.95, 0.5);
}

static void no_client_takes_much_more_than_the_others(void **state)
{
	struct fleet_result result =
		run((struct fleet_plan){.clients = 1000, .measured_from_s = 100, .seed = 1});

	(void)state;
	if (result.largest_share > 0.15)
		fail_msg("one client has %.3f of all admitted requests", result.largest_share);
}

static void after_the_start_refusals_are_rare(void **state)
{
	(void)state;
	expect(run((struct fleet_plan){.clients = 1000, .measured_from_s = 60, .seed = 1}), 0.02,
	       0.98, 0.5);
}

static void a_hundred_clients_share_a_hundred_per_second(void **state)
{
	(void)state;
	expect(run((struct fleet_plan){.clients = 100, .seed = 1}), 0.01, 0.95, 0.5);
}

static void few_clients_use_the_limit(void **state)
{
	(void)state;
	expect(run((struct fleet_plan){.clients = 2, .seed = 1}), 0.01, 0.95, 0.2);
	expect(run((struct fleet_plan){.clients = 10, .seed = 1}), 0.01, 0.95, 0.2);
}

static void a_lone_client_is_never_refused(void **state)
{
	static const int algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER,
					 WEIR_SLIDING_LOG};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		expect(run((struct fleet_plan){
			       .algorithm = algorithms[i], .clients = 1, .seconds = 10, .seed = 1}),
		       0, 0.98, 1);
		expect(run((struct fleet_plan){.algorithm = algorithms[i],
					       .limit = 10,
					       .clients = 1,
					       .seconds = 60,
					       .seed = 1}),
		       0, 0.98, 1);
		expect(run((struct fleet_plan){.algorithm = algorithms[i],
					       .limit = 1000,
					       .period_ns = 60 * SECOND_NS,
					       .clients = 1,
					       .seed = 1}),
		       0, 0.98, 1);
	}
}

static void clients_come_and_go(void **state)
{
	(void)state;
	/* 300 more clients join 700, and 300 of 1,000 leave. */
	expect(run((struct fleet_plan){.clients = 1000, .late_clients = 300, .seed = 1}), 0.06,
	       0.95, 0.4);
	expect(run((struct fleet_plan){.clients = 1000, .leaving_clients = 300, .seed = 1}), 0.05,
	       0.9, 0.4);
}

static void stalls_of_all_clients_do_no_lasting_harm(void **state)
{
	(void)state;
	/* All clients stand still for 7 of 300 seconds, and then send at once what was due. */
	expect(run((struct fleet_plan){.clients = 1000, .stall_every_s = 40, .seed = 1}), 0.05,
	       0.97, 0.5);
}

static void windows_refuse_more_than_a_token_bucket(void **state)
{
	static const struct {
		int algorithm;
		double refused;
	} rows[] = {
		{WEIR_FIXED_WINDOW, 0.15},
		{WEIR_SLIDING_COUNTER, 0.08},
		{WEIR_SLIDING_LOG, 0.08},
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		expect(run((struct fleet_plan){
			       .algorithm = rows[i].algorithm, .clients = 1000, .seed = 1}),
		       rows[i].refused, 0.75, 0.4);
		expect(run((struct fleet_plan){
			       .algorithm = rows[i].algorithm, .clients = 100, .seed = 1}),
		       0.01, 0.8, 0.5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_that_tells_nothing_is_not_paced),
		cmocka_unit_test(the_own_maximum_spreads_requests),
		cmocka_unit_test(a_lone_client_uses_99_percent_of_a_limit),
		cmocka_unit_test(a_client_that_meets_others_begins_slowly),
		cmocka_unit_test(a_lone_client_on_a_small_limit_recovers_within_seconds),
		cmocka_unit_test(refusals_of_one_burst_count_once),
		cmocka_unit_test(the_pace_follows_a_limit_that_changes),
		cmocka_unit_test(the_tightest_policy_counts),
		cmocka_unit_test(other_units_and_weaker_forms_do_not_pace),
		cmocka_unit_test(no_request_starts_sooner_than_told),
		cmocka_unit_test(units_without_a_window_are_spread_until_the_reset),
		cmocka_unit_test(a_client_without_a_window_is_not_refused_at_the_end_of_it),
		cmocka_unit_test(the_first_response_can_say_that_no_units_remain),
		cmocka_unit_test(hostile_numbers_leave_usable_times),
		cmocka_unit_test(a_thousand_clients_share_a_hundred_per_second),
		cmocka_unit_test(no_client_takes_much_more_than_the_others),
		cmocka_unit_test(after_the_start_refusals_are_rare),
		cmocka_unit_test(a_hundred_clients_share_a_hundred_per_second),
		cmocka_unit_test(few_clients_use_the_limit),
		cmocka_unit_test(a_lone_client_is_never_refused),
		cmocka_unit_test(clients_come_and_go),
		cmocka_unit_test(stalls_of_all_clients_do_no_lasting_harm),
		cmocka_unit_test(windows_refuse_more_than_a_token_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
