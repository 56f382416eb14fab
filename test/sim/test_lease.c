/* Tests that a limit with leases admits almost as many requests as it allows. With a limit of 1,000
 * and 1,500 requests, at least 990 and at most 1,000 requests are admitted.
 *
 * A test with real nodes cannot require 990, because a busy machine may delay a node for longer
 * than a lease lasts, and unspent units of an expired lease are lost. In this test time is virtual
 * and no node is delayed. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "sim/sim.h"
#include "rules/rules.h"

#define MS 1000000ull
#define LIMIT 1000u
#define REQUESTS 1500u
#define LEAST 990u
#define BEGIN_NS (5000 * MS) /* by then all nodes are connected and know the fleet's size */
#define SEEDS 2u

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

/* Returns a plan in which the nodes together get a few more than REQUESTS requests, all of one key
 * and spread over span_ns. */
static struct wr_sim_plan plan_of(uint32_t algorithm, unsigned nodes, uint64_t span_ns,
				  uint64_t delay_ns, uint64_t seed)
{
	return (struct wr_sim_plan){
		.seed = seed,
		.consistency = WR_LEASE,
		.on_store_failure = WR_FAIL_DENY,
		.algorithm = algorithm,
		.limit = LIMIT,
		.limit_after = LIMIT,
		.period_ns = 60000 * MS,
		.nodes = nodes,
		.keys = 1,
		.regions = 1,
		.begin_ns = BEGIN_NS,
		.length_ns = BEGIN_NS + span_ns,
		.gap_ns = span_ns * nodes * 10 / (REQUESTS * 11),
		.batch_max = 1,
		.cost_max = 1,
		.delay_ns = delay_ns,
		.jitter_ns = delay_ns / 2,
		.timeout_ns = 10000 * MS,
		.fault_gap_ns = span_ns / 4,
		.quiet_ns = 3000 * MS,
	};
}

/* Returns the largest number that may be admitted: the limit, plus the tokens that a token bucket
 * gains during the run. */
static uint64_t max_admitted(const struct wr_sim_plan *plan)
{
	uint64_t span_ns = plan->length_ns - plan->begin_ns;

	return LIMIT +
	       (plan->algorithm == WEIR_TOKEN_BUCKET ? LIMIT * span_ns / plan->period_ns + 1 : 0);
}

static struct wr_sim_report run_plan(const struct wr_sim_plan *plan)
{
	struct wr_sim_report report;
	char text[256];

	wr_sim_run(plan, lua, NULL, &report);
	wr_sim_plan_text(plan, text, sizeof text);
	if (report.failure[0])
		fail_msg("%s: %s", text, report.failure);
	if (report.requests < REQUESTS || report.admitted > max_admitted(plan))
		fail_msg("%s: %llu of %llu admitted", text, (unsigned long long)report.admitted,
			 (unsigned long long)report.requests);
	return report;
}

/* Checks that at least LEAST requests are admitted and that Redis gets at most one call for two
 * requests. */
static void check_used_up(const struct wr_sim_plan *plan)
{
	struct wr_sim_report report = run_plan(plan);
	char text[256];

	wr_sim_plan_text(plan, text, sizeof text);
	if (report.admitted < LEAST || report.calls * 2 > report.requests)
		fail_msg("%s: %llu of %llu admitted, %llu units burnt, %llu calls of Redis", text,
			 (unsigned long long)report.admitted, (unsigned long long)report.requests,
			 (unsigned long long)report.burnt, (unsigned long long)report.calls);
}

static void check_algorithm(uint32_t algorithm)
{
	static const uint64_t spans_ms[] = {100, 1000, 10000}, delays_us[] = {50, 200, 1000};

	for (unsigned nodes = 2; nodes <= 3; nodes++)
		for (size_t i = 0; i < 3; i++)
			for (size_t j = 0; j < 3; j++)
				for (uint64_t seed = 1; seed <= SEEDS; seed++) {
					struct wr_sim_plan plan =
						plan_of(algorithm, nodes, spans_ms[i] * MS,
							delays_us[j] * 1000, seed);

					check_used_up(&plan);
				}
}

static void test_log(void **state)
{
	(void)state;
	check_algorithm(WEIR_SLIDING_LOG);
}

static void test_fixed_window(void **state)
{
	(void)state;
	check_algorithm(WEIR_FIXED_WINDOW);
}

static void test_sliding_counter(void **state)
{
	(void)state;
	check_algorithm(WEIR_SLIDING_COUNTER);
}

static void test_token_bucket(void **state)
{
	(void)state;
	check_algorithm(WEIR_TOKEN_BUCKET);
}

/* Nodes are paused while they hold leases, so fewer than LEAST requests are admitted in some runs.
 * The missing units must be units of leases that expired unspent. */
static void test_missing_units_are_burnt(void **state)
{
	unsigned short_of = 0; /* number of runs that admitted fewer requests than LEAST */

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct wr_sim_plan plan = plan_of(WEIR_FIXED_WINDOW, 3, 10000 * MS, 200000, seed);
		struct wr_sim_report report;

		plan.faults = 1u << WR_SIM_PAUSE;
		plan.gap_ns /= 3; /* more requests, because no requests arrive at a paused node */
		report = run_plan(&plan);
		assert_true(report.admitted + report.burnt >= LEAST);
		short_of += report.admitted < LEAST;
	}
	assert_true(short_of > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_fixed_window),
		cmocka_unit_test(test_sliding_counter),
		cmocka_unit_test(test_token_bucket),
		cmocka_unit_test(test_missing_units_are_burnt),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
