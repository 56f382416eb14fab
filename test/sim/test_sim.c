/* Tests of the simulator: the same seed always gives the same run, and the oracle finds
 * violations. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "sim/sim_inner.h"
#include "rules/rules.h"

#define MS 1000000ull

static struct wr_sim_lua *lua;

static int setup(void **state)
{
	(void)state;
	lua = wr_sim_lua_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wr_sim_lua_free(lua);
	return 0;
}

static uint64_t run_and_trace(uint64_t seed, struct wr_sim_report *report)
{
	struct wr_sim_plan plan;

	wr_sim_plan_make(&plan, seed, WR_SIM_ANY);
	wr_sim_run(&plan, lua, NULL, report);
	return report->trace;
}

static void test_same_seed_same_trace(void **state)
{
	struct wr_sim_report report;
	uint64_t first[20];

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		first[i] = run_and_trace(i + 1, &report);
	for (uint64_t i = 20; i > 0; i--)
		assert_int_equal(run_and_trace(i, &report), first[i - 1]);
	assert_int_not_equal(first[0], first[1]);
}

/* Runs the simulator in another process and returns the hash of its trace. Memory addresses differ
 * between processes and must not change the run. */
static uint64_t trace_of_process(const char *program, const char *arguments)
{
	char command[512], line[512];
	uint64_t trace = 0;
	FILE *out;

	snprintf(command, sizeof command, "'%s' %s", program, arguments);
	// NOLINTNEXTLINE(cert-env33-c): the command is a program of this build
	out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof line, out)) {
		const char *at = strstr(line, "trace ");

		if (at)
			trace = strtoull(at + 6, NULL, 16);
	}
	assert_int_equal(pclose(out), 0);
	return trace;
}

static void test_same_trace_in_another_process(void **state)
{
	const char *program = getenv("WEIR_SIM");
	struct wr_sim_report report;
	uint64_t sum = 0;

	(void)state;
	assert_non_null(program);
	for (uint64_t seed = 1; seed <= 20; seed++)
		sum = sum * 31 + run_and_trace(seed, &report);
	assert_int_equal(trace_of_process(program, "--seeds 20"), sum);
}

static void test_plans_cover_all_faults(void **state)
{
	struct wr_sim_report report;
	unsigned faults = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct wr_sim_plan plan;

		wr_sim_plan_make(&plan, seed, WR_SIM_ANY);
		assert_int_equal(plan.faults >> WR_SIM_MOVE, 0);
		faults |= plan.faults;
		wr_sim_plan_cluster(&plan, seed);
		faults |= plan.faults & (1u << WR_SIM_MOVE | 1u << WR_SIM_DOWN);
		wr_sim_plan_sentinel(&plan, seed);
		faults |= plan.faults & 1u << WR_SIM_WATCH;
	}
	assert_int_equal(faults, (1u << WR_SIM_FAULT_COUNT) - 1);
	run_and_trace(1, &report);
	assert_true(report.requests > 100 && report.admitted > 0 && report.calls > 0);
}

/* ---- the oracle ---- */

/* Returns a finished run in which requests of key 0 were admitted at these times. */
static struct wr_sim *record_run(struct wr_sim_plan *plan, struct wr_sim_report *report,
				 uint32_t algorithm, const uint64_t *at_ms, size_t count)
{
	struct wr_sim *sim = wr_sim_alloc(1, sizeof *sim);

	*plan = (struct wr_sim_plan){.algorithm = algorithm,
				     .limit = 3,
				     .limit_after = 3,
				     .period_ns = 1000 * MS,
				     .nodes = 1,
				     .regions = 1,
				     .keys = 1,
				     .faults = 1u << WR_SIM_FLUSH};
	*report = (struct wr_sim_report){0};
	sim->plan = plan;
	sim->report = report;
	for (size_t i = 0; i < count; i++)
		wr_sim_admission_add(sim, (struct wr_sim_admission){
						  .at_ns = at_ms[i] * MS,
						  .at_us = WR_SIM_EPOCH_NS / 1000 + at_ms[i] * 1000,
						  .request = i + 1,
						  .cost = 1,
						  .nodes = 1});
	return sim;
}

static bool is_valid_run(struct wr_sim *sim)
{
	bool fine;

	wr_sim_check(sim);
	fine = !sim->report->failure[0];
	sim->report->failure[0] = '\0';
	free(sim->admissions);
	free(sim);
	return fine;
}

static bool is_valid(uint32_t algorithm, const uint64_t *at_ms, size_t count)
{
	struct wr_sim_plan plan;
	struct wr_sim_report report;

	return is_valid_run(record_run(&plan, &report, algorithm, at_ms, count));
}

#define IS_VALID(algorithm, ...)                                                                   \
	is_valid(algorithm, (const uint64_t[]){__VA_ARGS__},                                       \
		 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* The limit is 3 per second. */
static void test_oracle_bounds_of_algorithms(void **state)
{
	(void)state;
	assert_true(IS_VALID(WEIR_FIXED_WINDOW, 10, 500, 999, 1000, 1001, 1002));
	assert_false(IS_VALID(WEIR_FIXED_WINDOW, 10, 500, 600, 999));
	assert_true(IS_VALID(WEIR_SLIDING_LOG, 10, 500, 999, 1010, 1500));
	assert_false(IS_VALID(WEIR_SLIDING_LOG, 10, 500, 999, 1009));
	/* The window before has 3 admissions. When 0.34 of the current window has passed, these
	 * admissions count as 3 · 0.66, rounded down to 1, so 2 more admissions are valid. When 0.3
	 * of the window has passed, they count as 2, so only 1 more admission is valid. */
	assert_true(IS_VALID(WEIR_SLIDING_COUNTER, 10, 500, 999, 1340, 1350));
	assert_false(IS_VALID(WEIR_SLIDING_COUNTER, 10, 500, 999, 1300, 1310));
	/* The bucket gains one token per 333.4 ms. */
	assert_true(IS_VALID(WEIR_TOKEN_BUCKET, 0, 0, 0, 334, 667, 1000));
	assert_false(IS_VALID(WEIR_TOKEN_BUCKET, 0, 0, 0, 333));
	assert_false(IS_VALID(WEIR_TOKEN_BUCKET, 0, 0, 0, 334, 666));
	assert_true(IS_VALID(WEIR_LEAKY_BUCKET, 0, 334, 668, 1002));
	assert_false(IS_VALID(WEIR_LEAKY_BUCKET, 0, 334, 667));
}

static void test_loss_allows_one_more_limit(void **state)
{
	static const uint64_t six[] = {10, 20, 30, 510, 520, 530},
			      seven[] = {10, 20, 30, 510, 520, 530, 540};
	static const uint32_t algorithms[] = {WEIR_FIXED_WINDOW, WEIR_SLIDING_LOG,
					      WEIR_SLIDING_COUNTER, WEIR_TOKEN_BUCKET};
	struct wr_sim_plan plan;
	struct wr_sim_report report;
	struct wr_sim *sim;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		sim = record_run(&plan, &report, algorithms[i], six, 6);
		sim->losses[sim->loss_count++] =
			(struct wr_sim_loss){500 * MS, 500 * MS, 500 * MS, false};
		assert_true(is_valid_run(sim));
		sim = record_run(&plan, &report, algorithms[i], six, 6);
		sim->losses[sim->loss_count++] =
			(struct wr_sim_loss){1500 * MS, 1500 * MS, 1500 * MS, false};
		assert_false(is_valid_run(sim));
	}
	sim = record_run(&plan, &report, WEIR_FIXED_WINDOW, seven, 7);
	sim->losses[sim->loss_count++] = (struct wr_sim_loss){500 * MS, 500 * MS, 500 * MS, false};
	assert_false(is_valid_run(sim));
}

/* The first limit is 3 per second, and the second limit is 4 per two seconds. */
static void test_second_limit_is_checked(void **state)
{
	static const uint64_t five[] = {10, 20, 30, 1010, 1020};
	struct wr_sim_plan plan;
	struct wr_sim_report report;

	(void)state;
	for (size_t count = 4; count <= 5; count++) {
		struct wr_sim *sim = record_run(&plan, &report, WEIR_FIXED_WINDOW, five, count);

		plan.second_limit = 4;
		plan.second_period_ns = 2000 * MS;
		plan.second_algorithm = WEIR_SLIDING_LOG;
		for (size_t i = 0; i < count; i++) {
			struct wr_sim_admission second = sim->admissions[i];

			second.key = 1;
			wr_sim_admission_add(sim, second);
		}
		assert_int_equal(is_valid_run(sim), count == 4);
	}
}

static void test_cancelled_admission_does_not_count(void **state)
{
	static const uint64_t four[] = {10, 20, 30, 40};
	struct wr_sim_plan plan;
	struct wr_sim_report report;
	struct wr_sim *sim = record_run(&plan, &report, WEIR_FIXED_WINDOW, four, 4);

	(void)state;
	wr_sim_admission_cancel(sim, 2);
	assert_true(is_valid_run(sim));
}

/* Returns a finished run with a failover and a limit of 3 per second. The second primary is
 * promoted at 500 ms and has the counts of the first primary up to copied_ms. */
static struct wr_sim *record_failover(struct wr_sim_plan *plan, struct wr_sim_report *report,
				      const uint64_t *at_ms, size_t count, uint64_t copied_ms)
{
	struct wr_sim *sim = record_run(plan, report, WEIR_FIXED_WINDOW, at_ms, count);

	sim->sentinels = wr_sim_alloc(1, sizeof *sim->sentinels);
	sim->sentinels->term_count = 2;
	sim->sentinels->terms[0].parent = WR_SIM_TERMS;
	sim->sentinels->terms[1].until_ns = copied_ms * MS;
	sim->losses[sim->loss_count++] = (struct wr_sim_loss){500 * MS, 500 * MS, 500 * MS, false};
	for (size_t i = 0; i < count; i++) {
		sim->admissions[i].taken_ns = sim->admissions[i].at_ns;
		sim->admissions[i].term = at_ms[i] > 500;
	}
	sim->readings[0][0].valid = true;
	return sim;
}

static bool is_valid_failover(const uint64_t *at_ms, size_t count, uint64_t copied_ms)
{
	struct wr_sim_plan plan;
	struct wr_sim_report report;
	struct wr_sim *sim = record_failover(&plan, &report, at_ms, count, copied_ms);
	struct wr_sim_sentinel_state *sentinels = sim->sentinels;
	bool fine;

	plan.consistency = WR_STRICT;
	fine = is_valid_run(sim);
	free(sentinels);
	return fine;
}

static void test_failover_readmits_only_lost_writes(void **state)
{
	static const uint64_t at_ms[] = {10, 20, 30, 510, 520, 530};

	(void)state;
	assert_true(is_valid_failover(at_ms, 4, 20));
	assert_false(is_valid_failover(at_ms, 5, 20));
	assert_true(is_valid_failover(at_ms, 5, 10));
	assert_true(is_valid_failover(at_ms, 6, 9));
	assert_false(is_valid_failover(at_ms, 6, 10));
	assert_false(is_valid_failover(at_ms, 4, 30));
}

/* The limit is 3 per day in Berlin. The run begins 5 s before a day of 23 hours and ends 5 s after
 * that day. */
static void test_calendar_days_are_separate_windows(void **state)
{
	const uint64_t day_ms = 23 * 3600 * 1000;
	const uint64_t fine[] = {1,    4990,          4999,          5000,         6000,
				 7000, 5000 + day_ms, 5001 + day_ms, 5002 + day_ms};
	const uint64_t before[] = {1, 4990, 4998, 4999},
		       behind[] = {5000, 5001, day_ms, day_ms + 4999};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct wr_sim_plan plan;
		struct wr_sim_report report;
		const uint64_t *at_ms = i == 0 ? fine : i == 1 ? before : behind;
		size_t count = i == 0 ? 9 : 4;
		struct wr_sim *sim = record_run(&plan, &report, WEIR_FIXED_WINDOW, at_ms, count);

		plan.calendar = 4; /* the first row of calendars[] with a day of 23 hours */
		plan.first_edge = 1;
		plan.sessions = 2;
		plan.half_ns = 5000 * MS;
		for (size_t j = 0; j < count; j++)
			sim->admissions[j].at_us = wr_sim_epoch_ns(&plan) / 1000 + at_ms[j] * 1000;
		assert_int_equal(is_valid_run(sim), i == 0);
	}
}

/* ---- the oracle finds violations ---- */

/* Redis loses data, and the oracle does not know of the loss. The oracle must report a failure in
 * most runs. */
static void test_oracle_finds_hidden_loss(void **state)
{
	unsigned found = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct wr_sim_plan plan;
		struct wr_sim_report report;

		wr_sim_plan_make(&plan, seed, WR_STRICT);
		plan.faults = 1u << WR_SIM_FLUSH;
		plan.limit = 1 + plan.limit / 4;
		plan.hide_losses = true;
		wr_sim_run(&plan, lua, NULL, &report);
		found += report.failure[0] != '\0';
	}
	assert_true(found > 20);
}

/* A promoted replica has lost its data, and the oracle does not know of the loss. The oracle must
 * report a failure in most runs. */
static void test_oracle_finds_hidden_failover(void **state)
{
	unsigned found = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct wr_sim_plan plan;
		struct wr_sim_report report;

		wr_sim_plan_sentinel(&plan, seed);
		plan.consistency = WR_STRICT;
		plan.algorithm = WEIR_FIXED_WINDOW;
		plan.burst = plan.queue_size = plan.soft_percent = plan.second_limit = 0;
		plan.count_rejected = false;
		plan.pairs_percent = 0;
		plan.period_ns = 20000 * MS;
		plan.limit = 1 + plan.limit / 4;
		plan.faults = 1u << WR_SIM_FAILOVER;
		plan.hide_losses = true;
		wr_sim_run(&plan, lua, NULL, &report);
		found += report.failure[0] != '\0';
	}
	assert_true(found > 20);
}

/* ---- Redis slower than the timeout ---- */

/* Runs plans with a long fixed window in which replies of Redis are slow for a while. */
static void run_slow_redis(uint8_t consistency, uint8_t on_store_failure, unsigned faults)
{
	uint64_t failed = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct wr_sim_plan plan;
		struct wr_sim_report report;

		wr_sim_plan_make(&plan, seed, consistency);
		plan.algorithm = WEIR_FIXED_WINDOW;
		plan.on_store_failure = on_store_failure;
		plan.period_ns = 60000 * MS;
		plan.length_ns = 5000 * MS;
		plan.gap_ns = 30 * MS;
		plan.delay_ns = plan.delay_ns < 5 * MS ? plan.delay_ns : 5 * MS;
		plan.jitter_ns = plan.delay_ns / 10;
		plan.timeout_ns = 40 * MS;
		plan.burst = plan.queue_size = plan.soft_percent = plan.second_limit = 0;
		plan.count_rejected = false;
		plan.faults = faults;
		plan.fault_gap_ns = 500 * MS;
		plan.quiet_ns =
			6000 *
			MS; /* enough time for the pause of a breaker (at most 2 s) and a heartbeat (every 2 s) */
		wr_sim_run(&plan, lua, NULL, &report);
		if (report.failure[0])
			fail_msg("consistency %u, failure %u, seed %llu: %s", consistency,
				 on_store_failure, (unsigned long long)seed, report.failure);
		failed += report.failed;
	}
	assert_true(failed > 500);
}

static void test_slow_replies_are_counted_once(void **state)
{
	(void)state;
	run_slow_redis(WR_STRICT, WR_FAIL_LOCAL, 1u << WR_SIM_SLOW);
	run_slow_redis(WR_STRICT, WR_FAIL_DENY, 1u << WR_SIM_SLOW);
	run_slow_redis(WR_LEASE, WR_FAIL_LOCAL, 1u << WR_SIM_SLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_seed_same_trace),
		cmocka_unit_test(test_same_trace_in_another_process),
		cmocka_unit_test(test_plans_cover_all_faults),
		cmocka_unit_test(test_oracle_bounds_of_algorithms),
		cmocka_unit_test(test_loss_allows_one_more_limit),
		cmocka_unit_test(test_second_limit_is_checked),
		cmocka_unit_test(test_cancelled_admission_does_not_count),
		cmocka_unit_test(test_failover_readmits_only_lost_writes),
		cmocka_unit_test(test_calendar_days_are_separate_windows),
		cmocka_unit_test(test_oracle_finds_hidden_loss),
		cmocka_unit_test(test_oracle_finds_hidden_failover),
		cmocka_unit_test(test_slow_replies_are_counted_once),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
