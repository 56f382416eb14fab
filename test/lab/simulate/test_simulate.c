/* Runs small scenarios, whose results are known, and compares the overshoot with its bound. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/simulate/scenario_test.h"
#include "rules/rules.h"

#define MS 1000000ull

/* Four windows of 100 units, offered about 400 units each. */
#define BUSY                                                                                       \
	"limit: {requests_per_unit: 100, period: 2s}\n"                                            \
	"network: {redis: 1ms, jitter: 100us}\n"                                                   \
	"traffic: [{kind: steady, rate: 200/s}]\n"                                                 \
	"duration: 8s\n"

static const struct wr_lab_run *run_of(const struct wr_lab_simulation *simulation, uint8_t mode)
{
	for (size_t i = 0; i < simulation->run_count; i++)
		if (simulation->runs[i].mode == mode)
			return &simulation->runs[i];
	fail_msg("no run of mode %u", mode);
	return NULL;
}

/* ---- the modes ---- */

static void test_local_admits_the_limit_on_each_node(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(BUSY "nodes: 3\nmodes: local\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	assert_int_equal(run->admitted, 4 * 3 * 100);
	assert_int_equal(run->requests, run->admitted + run->refused);
	assert_int_equal(run->beyond, 4 * 2 * 100);
	assert_int_equal(run->wrongly_refused, 0);
	assert_int_equal(run->overshoot, 200);
	assert_int_equal(run->bound.allowed, 200);
	assert_true(run->bound.exists && run->bound.held);
	assert_int_equal(run->latency.max_ns, 0);
	assert_int_equal(run->calls, 0);
	simulation_free(simulation);
}

static void test_strict_admits_exactly_the_limit(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(BUSY "nodes: 3\nmodes: strict\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	assert_int_equal(run->admitted, 400);
	assert_int_equal(run->beyond, 0);
	assert_int_equal(run->wrongly_refused, 0);
	assert_int_equal(run->overshoot, 0);
	assert_int_equal(run->bound.allowed, 0);
	assert_true(run->bound.held);
	/* a round trip takes 2 ms to 2.2 ms; remembered refusals take no time */
	assert_true(run->latency.max_ns >= 2 * MS && run->latency.max_ns <= 22 * MS / 10);
	assert_int_equal(wr_lab_histogram_percentile(&run->latency, 0.5), 0);
	/* one call for each admitted request, some for refusals, and the heartbeats of 3 nodes */
	assert_true(run->calls >= 400 && run->calls < 500);
	simulation_free(simulation);
}

static void test_lease_never_exceeds_the_limit(void **state)
{
	for (unsigned seed = 1; seed <= 10; seed++) {
		char text[512];
		struct wr_lab_simulation *simulation;
		const struct wr_lab_run *run;

		snprintf(text, sizeof text, BUSY "nodes: 3\nmodes: lease\nseed: %u\n", seed);
		simulation = simulate_text(text);
		run = &simulation->runs[0];
		assert_int_equal(run->overshoot, 0);
		assert_int_equal(run->beyond, 0);
		assert_int_equal(run->admitted + run->wrongly_refused, 400);
		assert_true(run->admitted >= 380 && run->calls < 200);
		simulation_free(simulation);
	}
	(void)state;
}

static void test_eventual_stays_within_its_bound(void **state)
{
	static const char *const algorithms[] = {"fixed_window", "sliding_window_counter",
						 "token_bucket"};

	for (unsigned i = 0; i < 3; i++) {
		char text[512];
		struct wr_lab_simulation *simulation;
		const struct wr_lab_run *run;

		snprintf(text, sizeof text,
			 "limit: {requests_per_unit: 100, period: 2s, algorithm: %s}\n"
			 "network: {redis: 1ms, jitter: 100us}\nnodes: 4\nmodes: eventual\n"
			 "traffic: [{kind: steady, rate: 300/s}]\nduration: 8s\nseeds: 20\n",
			 algorithms[i]);
		simulation = simulate_text(text);
		run = &simulation->runs[0];
		assert_true(run->bound.exists && run->bound.held);
		assert_true(run->overshoot > 0 && run->overshoot <= run->bound.allowed_most);
		assert_true(run->bound.allowed_most < 3 * 100);
		assert_int_equal(run->latency.max_ns, 0);
		assert_int_equal(run->latency.count, run->requests);
		simulation_free(simulation);
	}
	(void)state;
}

/* One node after the other gets more requests than the rate of the bucket. Each of them starts with
 * a full bucket, because it was idle for 8 s, so the overshoot grows with time: it is not bounded by a
 * bucket of 10 for each of the other nodes. */
static void test_bucket_used_by_nodes_in_turn(void **state)
{
	char text[2048];
	size_t len = (size_t)snprintf(
		text, sizeof text,
		"limit: {algorithm: token_bucket, requests_per_unit: 10, period: 1s}\n"
		"modes: eventual\nregions: [{name: a}, {name: b}, {name: c}]\nshared_redis: a\n"
		"network: {redis: 500us, regions: 1ms}\nsync_interval: 20ms\nduration: 48s\n"
		"traffic:\n");
	struct wr_lab_simulation *simulation;
	const struct wr_lab_run *run;

	(void)state;
	for (unsigned i = 0; i < 12; i++)
		len += (size_t)snprintf(text + len, sizeof text - len,
					"  - {kind: steady, rate: 60/s, regions: %c, start: %us, "
					"for: 4s}\n",
					'a' + i % 3, 4 * i);
	simulation = simulate_text(text);
	run = &simulation->runs[0];
	assert_true(run->bound.exists && run->bound.held);
	assert_true(run->overshoot > 4 * 2 * 10);
	simulation_free(simulation);
}

static void test_same_seed_same_report(void **state)
{
	static const char text[] = BUSY "nodes: 3\nclients: {count: 5, zipf: 1}\nseeds: 2\n"
					"faults: [{kind: redis_down, at: 3s, for: 1s}, "
					"{kind: loss, at: 5s, for: 1s, share: 5%}]\n";
	struct wr_lab_simulation *first = simulate_text(text), *again = simulate_text(text);

	(void)state;
	assert_int_equal(first->run_count, 4);
	for (size_t i = 0; i < first->run_count; i++)
		assert_memory_equal(&first->runs[i], &again->runs[i], sizeof first->runs[i]);
	simulation_free(first);
	simulation_free(again);
}

/* All modes get the same requests. */
static void test_modes_get_the_same_traffic(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(BUSY "nodes: 2\n");

	(void)state;
	assert_int_equal(simulation->run_count, 4);
	for (size_t i = 1; i < 4; i++)
		assert_memory_equal(simulation->runs[i].curves.offered,
				    simulation->runs[0].curves.offered,
				    sizeof simulation->runs[0].curves.offered);
	simulation_free(simulation);
}

static void test_curves_contain_all_requests(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(BUSY "nodes: 2\n");

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct wr_lab_run *run = &simulation->runs[i];
		uint64_t offered = 0, admitted = 0, refused = 0;

		for (size_t k = 0; k < WR_LAB_SECTIONS; k++) {
			offered += run->curves.offered[k];
			admitted += run->curves.admitted[k];
			refused += run->curves.refused[k];
		}
		assert_int_equal(offered, run->requests);
		assert_int_equal(admitted, run->admitted);
		assert_int_equal(refused, run->refused);
	}
	simulation_free(simulation);
}

/* ---- sweeps ---- */

static void test_sweep(void **state)
{
	struct wr_lab_simulation *simulation =
		simulate_text(BUSY "nodes: [2, 4]\nsync_interval: [50ms, 200ms, 1s]\n"
				   "modes: [strict, eventual]\n");

	(void)state;
	/* strict does not depend on the interval */
	assert_int_equal(simulation->run_count, 2 + 2 * 3);
	assert_int_equal(simulation->runs[1].nodes, 4);
	assert_int_equal(simulation->runs[2].mode, WR_EVENTUAL);
	assert_int_equal(simulation->runs[4].sync_ns, 1000 * MS);
	assert_true(simulation->runs[2].overshoot < simulation->runs[4].overshoot);
	assert_true(simulation->runs[2].calls > simulation->runs[4].calls);
	simulation_free(simulation);
}

static void test_largest_number_of_requests(void **state)
{
	struct wr_lab_scenario *scenario = scenario_of(BUSY "modes: local\nseeds: 2\n");
	struct wr_lab_simulation *simulation;
	struct weir_error error;

	(void)state;
	scenario->requests_max = 50;
	assert_int_equal(wr_lab_simulate(scenario, NULL, NULL, &simulation, &error), 0);
	assert_int_equal(simulation->runs[0].requests, 100);
	assert_true(simulation->runs[0].duration_s < 2);
	simulation_free(simulation);
}

/* ---- regions ---- */

#define REGIONS "regions: [{name: a}, {name: b, redis: 3ms}]\nnodes: 2\n"

/* With one Redis for each region, strict limits are separate. */
static void test_each_region_has_a_strict_limit(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(BUSY REGIONS "modes: strict\n");

	(void)state;
	assert_true(simulation->runs[0].admitted > 780 && simulation->runs[0].admitted <= 800);
	assert_int_equal(simulation->runs[0].overshoot, 100);
	assert_int_equal(simulation->runs[0].bound.allowed, 100);
	assert_true(simulation->runs[0].bound.held);
	simulation_free(simulation);
}

/* With one Redis for both regions, the limit is shared, and the far region waits for 2 * (3 + 40)
 * ms and the jitter. */
static void test_shared_redis(void **state)
{
	struct wr_lab_simulation *simulation =
		simulate_text(BUSY REGIONS "modes: strict\nshared_redis: a\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	/* requests of the far region that arrive just before the end reach Redis in the next window */
	assert_in_range(run->admitted, 400, 410);
	assert_int_equal(run->overshoot, 0);
	assert_true(run->latency.max_ns > 86 * MS && run->latency.max_ns <= 862 * MS / 10);
	simulation_free(simulation);
}

static void test_regions_share_an_eventual_limit(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(BUSY REGIONS "modes: eventual\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	assert_true(run->admitted < 4 * 150);
	assert_true(run->bound.exists && run->bound.held);
	/* two exchanges, two round trips of the far region, and one message between regions */
	assert_int_equal(run->bound.delay_ns,
			 2 * (101 * MS + MS / 10) + 4 * (3 * MS + MS / 10) + (43 * MS + MS / 10));
	simulation_free(simulation);
}

/* ---- faults ---- */

static void test_nodes_without_redis_admit_their_shares(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(
		BUSY "nodes: 4\nmodes: strict\nfaults: [{kind: redis_down, at: 2s, for: 2s}]\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	/* In the second window, each of the four nodes admits a quarter of the limit. Nodes that
	 * connect again after the start of the third window admit from their shares there. */
	assert_in_range(run->admitted, 400, 500);
	assert_true(run->without_redis > 350);
	assert_true(run->overshoot <= 100);
	assert_int_equal(run->bound.allowed_most, 100);
	assert_true(run->bound.held);
	simulation_free(simulation);
}

static void test_deny_and_allow_without_redis(void **state)
{
	struct wr_lab_simulation *deny = simulate_text(
		"limit: {requests_per_unit: 100, period: 2s, on_store_failure: deny}\nnodes: 2\n"
		"modes: strict\ntraffic: [{kind: steady, rate: 200/s}]\nduration: 8s\n"
		"faults: [{kind: redis_down, at: 2s, for: 2s}]\n");
	struct wr_lab_simulation *allow = simulate_text(
		"limit: {requests_per_unit: 100, period: 2s, on_store_failure: allow}\nnodes: 2\n"
		"modes: strict\ntraffic: [{kind: steady, rate: 200/s}]\nduration: 8s\n"
		"faults: [{kind: redis_down, at: 2s, for: 2s}]\n");

	(void)state;
	assert_int_equal(deny->runs[0].admitted, 300);
	assert_true(deny->runs[0].bound.held);
	assert_true(allow->runs[0].admitted > 600);
	assert_false(allow->runs[0].bound.exists);
	simulation_free(deny);
	simulation_free(allow);
}

static void test_flush_allows_the_limit_once_more(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(
		BUSY "nodes: 2\nmodes: [strict, lease]\nfaults: [{kind: redis_flush, at: 3s}]\n");
	const struct wr_lab_run *strict = run_of(simulation, WR_STRICT);

	(void)state;
	/* at 3 s the second window is exhausted, and the nodes remember this until its end */
	assert_true(strict->admitted >= 400 && strict->admitted <= 500);
	assert_int_equal(strict->bound.allowed_most, 100);
	assert_true(strict->bound.held && run_of(simulation, WR_LEASE)->bound.held);
	simulation_free(simulation);
}

static void test_failover_loses_what_the_replica_lacks(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(
		"limit: {requests_per_unit: 1000, period: 10s}\nnodes: 2\nmodes: strict\n"
		"traffic: [{kind: steady, rate: 300/s}]\nduration: 10s\n"
		"faults: [{kind: redis_failover, at: 2s, lag: 500ms}]\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	/* about 150 units of the last half second are admitted again */
	assert_true(run->overshoot > 100 && run->overshoot < 200);
	assert_true(run->bound.held);
	simulation_free(simulation);
}

static void test_slow_redis_adds_latency_up_to_the_timeout(void **state)
{
	struct wr_lab_simulation *slow = simulate_text(
		BUSY "modes: strict\nfaults: [{kind: redis_slow, at: 2s, for: 1s, by: 100ms}]\n");
	struct wr_lab_simulation *late = simulate_text(
		BUSY "modes: strict\nfaults: [{kind: redis_slow, at: 2s, for: 1s, by: 400ms}]\n");

	(void)state;
	assert_true(slow->runs[0].latency.max_ns > 101 * MS);
	assert_true(slow->runs[0].latency.max_ns < 104 * MS);
	assert_int_equal(slow->runs[0].without_redis, 0);
	assert_true(late->runs[0].latency.max_ns >= 250 * MS);
	assert_true(late->runs[0].latency.max_ns < 252 * MS);
	assert_true(late->runs[0].without_redis > 0);
	simulation_free(slow);
	simulation_free(late);
}

static void test_requests_of_a_dead_node_go_elsewhere(void **state)
{
	struct wr_lab_simulation *simulation = simulate_text(
		BUSY "nodes: 2\nmodes: local\nfaults: [{kind: node_crash, at: 4s, node: 1}]\n");
	struct wr_lab_simulation *all = simulate_text(
		BUSY "nodes: 2\nmodes: local\nfaults: [{kind: node_crash, at: 4s}]\n");

	(void)state;
	/* both nodes admit in two windows, one of them in the other two windows */
	assert_int_equal(simulation->runs[0].admitted, 2 * 200 + 2 * 100);
	assert_int_equal(simulation->runs[0].lost, 0);
	assert_int_equal(all->runs[0].admitted, 400);
	assert_true(all->runs[0].lost > 700);
	assert_int_equal(all->runs[0].requests,
			 all->runs[0].admitted + all->runs[0].refused + all->runs[0].lost);
	simulation_free(simulation);
	simulation_free(all);
}

static void test_partition_lets_each_side_admit_the_limit(void **state)
{
	struct wr_lab_simulation *simulation =
		simulate_text(BUSY REGIONS "modes: eventual\n"
					   "faults: [{kind: partition, at: 0s, regions: b}]\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	assert_true(run->admitted > 800 && run->admitted < 4 * 2 * 130);
	assert_true(run->bound.exists && run->bound.held);
	simulation_free(simulation);
}

static void test_no_bound_with_wrong_clocks(void **state)
{
	struct wr_lab_simulation *simulation =
		simulate_text(BUSY "nodes: 2\nmodes: [strict, eventual]\n"
				   "faults: [{kind: clock_skew, at: 1s, by: 900ms, node: 1}]\n");

	(void)state;
	assert_true(run_of(simulation, WR_STRICT)->bound.exists);
	assert_int_equal(run_of(simulation, WR_STRICT)->admitted, 400);
	assert_false(run_of(simulation, WR_EVENTUAL)->bound.exists);
	simulation_free(simulation);
}

/* ---- what nodes know ---- */

static void test_nodes_know_units_within_the_delay(void **state)
{
	struct wr_lab_simulation *simulation =
		simulate_text("limit: {requests_per_unit: 3000, period: 10s}\nnodes: 4\n"
			      "modes: eventual\nnetwork: {redis: 1ms}\nsync_interval: 100ms\n"
			      "traffic: [{kind: steady, rate: 400/s}]\nduration: 20s\n");
	const struct wr_lab_run *run = &simulation->runs[0];

	(void)state;
	assert_int_equal(run->bound.delay_ns, 2 * (101 * MS + MS / 10) + 4 * MS);
	assert_true(run->age.count > 4 * 150);
	assert_true(run->age.max_ns > 20 * MS && run->age.max_ns < run->bound.delay_ns);
	assert_true(run->curves.has_known);
	for (size_t i = 0; i < WR_LAB_SECTIONS; i++) {
		assert_true(run->curves.least_known[i] <= run->curves.most_known[i]);
		assert_true(run->curves.most_known[i] <= run->curves.used[i]);
	}
	simulation_free(simulation);
}

static void test_histogram(void **state)
{
	struct wr_lab_histogram *histogram = calloc(1, sizeof *histogram);

	(void)state;
	assert_int_equal(wr_lab_histogram_percentile(histogram, 0.99), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		wr_lab_histogram_add(histogram, i * 1000);
	assert_int_equal(wr_lab_histogram_mean(histogram), 500500);
	assert_in_range(wr_lab_histogram_percentile(histogram, 0.5), 500000, 508000);
	assert_in_range(wr_lab_histogram_percentile(histogram, 0.99), 990000, 1000000);
	assert_int_equal(wr_lab_histogram_percentile(histogram, 1), 1000000);
	wr_lab_histogram_add(histogram, UINT64_MAX);
	assert_int_equal(wr_lab_histogram_percentile(histogram, 1), UINT64_MAX);
	free(histogram);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local_admits_the_limit_on_each_node),
		cmocka_unit_test(test_strict_admits_exactly_the_limit),
		cmocka_unit_test(test_lease_never_exceeds_the_limit),
		cmocka_unit_test(test_eventual_stays_within_its_bound),
		cmocka_unit_test(test_bucket_used_by_nodes_in_turn),
		cmocka_unit_test(test_same_seed_same_report),
		cmocka_unit_test(test_modes_get_the_same_traffic),
		cmocka_unit_test(test_curves_contain_all_requests),
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_largest_number_of_requests),
		cmocka_unit_test(test_each_region_has_a_strict_limit),
		cmocka_unit_test(test_shared_redis),
		cmocka_unit_test(test_regions_share_an_eventual_limit),
		cmocka_unit_test(test_nodes_without_redis_admit_their_shares),
		cmocka_unit_test(test_deny_and_allow_without_redis),
		cmocka_unit_test(test_flush_allows_the_limit_once_more),
		cmocka_unit_test(test_failover_loses_what_the_replica_lacks),
		cmocka_unit_test(test_slow_redis_adds_latency_up_to_the_timeout),
		cmocka_unit_test(test_requests_of_a_dead_node_go_elsewhere),
		cmocka_unit_test(test_partition_lets_each_side_admit_the_limit),
		cmocka_unit_test(test_no_bound_with_wrong_clocks),
		cmocka_unit_test(test_nodes_know_units_within_the_delay),
		cmocka_unit_test(test_histogram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
