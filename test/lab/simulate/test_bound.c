/* The documented bound: D, and the units that each mode may admit beyond the limit. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "lab/simulate/bound.h"
#include "lab/simulate/oracle.h"
#include "lab/simulate/scenario_test.h"
#include "rules/rules.h"

#define US 1000ull
#define MS 1000000ull
#define NODES 3u
#define TURN_NS (101 * MS + 100 * US) /* 100 ms, a thousandth of it, and 1 ms */

/* Three nodes, and a limit of 100 per second. */
struct run {
	struct wr_lab_scenario *scenario;
	struct wr_lab_bounds_opts opts;
	struct wr_lab_bounds *bounds;
	struct wr_lab_oracle *oracle;
	struct wr_lab_bound bound;
};

static const uint16_t one_server[NODES];
static const struct wr_sim_fleet_path near[NODES] = {
	{MS, 100 * US}, {MS, 100 * US}, {2 * MS, 100 * US}};

static void begin(struct run *run, uint8_t mode, const char *text)
{
	struct wr_lab_oracle_opts oracle;

	*run = (struct run){.scenario = scenario_of(text)};
	run->opts = (struct wr_lab_bounds_opts){.scenario = run->scenario,
						.mode = mode,
						.sync_ns = 100 * MS,
						.end_ns = run->scenario->duration_ns,
						.node_count = NODES,
						.server_count = 1,
						.node_servers = one_server,
						.paths = near};
	oracle = (struct wr_lab_oracle_opts){.algorithm = run->scenario->algorithm,
					     .limit = run->scenario->limit,
					     .capacity = wr_lab_scenario_capacity(run->scenario),
					     .period_ns = run->scenario->period_ns,
					     .keys = run->scenario->clients};
	run->bounds = wr_lab_bounds_new(&run->opts);
	run->oracle = wr_lab_oracle_new(&oracle);
	assert_true(run->bounds && run->oracle);
}

static void admit(struct run *run, unsigned node, uint64_t at_ms, uint32_t cost)
{
	struct wr_sim_fleet_verdict verdict = {.node = node,
					       .cost = cost,
					       .admitted = true,
					       .decider = WR_SIM_FLEET_TABLE,
					       .counted_ns = at_ms * MS};

	wr_lab_bounds_note(run->bounds, &verdict, run->oracle);
	wr_lab_oracle_see(run->oracle, 0, cost, at_ms * MS, true);
}

static void note_failure(struct run *run)
{
	struct wr_sim_fleet_verdict verdict = {.decider = WR_SIM_FLEET_FAILURE};

	wr_lab_bounds_note(run->bounds, &verdict, run->oracle);
}

static const struct wr_lab_bound *end(struct run *run)
{
	wr_lab_bounds_compare(run->bounds, run->oracle, &run->bound);
	wr_lab_bounds_free(run->bounds);
	wr_lab_oracle_free(run->oracle);
	wr_lab_scenario_free(run->scenario);
	return &run->bound;
}

#define TRAFFIC "traffic: [{kind: steady, rate: 1/s}]\n"
#define PLAIN "limit: {requests_per_unit: 100}\nnodes: 3\n" TRAFFIC

/* ---- D ---- */

static void test_delay_in_one_region(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL, PLAIN);
	/* the farthest node has round trips of 4.2 ms */
	assert_int_equal(wr_lab_bound_delay_ns(&run.opts), 2 * TURN_NS + 2 * (4 * MS + 200 * US));
	end(&run);
}

/* A round trip of 250 ms takes three turns of 101.1 ms. */
static void test_delay_with_a_far_redis(void **state)
{
	static const struct wr_sim_fleet_path far[NODES] = {{125 * MS, 0}, {MS, 0}, {MS, 0}};
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL, PLAIN);
	run.opts.paths = far;
	assert_int_equal(wr_lab_bound_delay_ns(&run.opts), 2 * 3 * TURN_NS + 2 * 250 * MS);
	end(&run);
}

static void test_delay_between_regions(void **state)
{
	static const uint16_t servers[NODES] = {0, 1, 1};
	struct wr_sim_fleet_path paths[2 * NODES] = {{MS, 0}, {30 * MS, 0}, {30 * MS, 0},
						     {MS, 0}, {30 * MS, 0}, {MS, 0}};
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL, PLAIN);
	run.opts.server_count = 2;
	run.opts.node_servers = servers;
	run.opts.paths = paths;
	/* a push of 60 ms ends before the next turn */
	assert_int_equal(wr_lab_bound_delay_ns(&run.opts), 2 * TURN_NS + 4 * MS + 30 * MS);
	paths[1].delay_ns = 80 * MS;
	assert_int_equal(wr_lab_bound_delay_ns(&run.opts),
			 2 * TURN_NS + 4 * MS + 80 * MS + (160 * MS + TURN_NS + 2 * MS));
	end(&run);
}

/* ---- eventual ---- */

/* Node 1 admits least, so the others count: 5 and the larger one of 3 and 4. */
static void test_units_within_the_delay(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL, PLAIN);
	admit(&run, 0, 10, 5);
	admit(&run, 1, 10, 2);
	admit(&run, 2, 20, 3);
	admit(&run, 2, 500, 1); /* more than D later */
	admit(&run, 2, 600, 3);
	assert_true(wr_lab_bounds_is_active(run.bounds, 2, 0, 800 * MS));
	assert_false(wr_lab_bounds_is_active(run.bounds, 0, 0, 800 * MS));
	assert_int_equal(end(&run)->allowed, 5 + 4);
	assert_true(run.bound.exists && run.bound.held);
}

static void test_at_most_the_limit_of_each_node(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL, PLAIN);
	for (unsigned node = 0; node < NODES; node++)
		admit(&run, node, 10, 1000);
	assert_int_equal(end(&run)->allowed, 2 * 100);
	assert_int_equal(run.bound.measured, 2900);
	assert_false(run.bound.held);
}

/* The bucket of a node that joins starts full: the 30 units in use can be admitted again, within twice
 * the time in which the bucket fills up, 5 s. A node joins again after such a time without requests. */
static void test_nodes_that_join_a_bucket(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL,
	      "limit: {requests_per_unit: 10, burst: 50, algorithm: token_bucket}\n"
	      "nodes: 3\n" TRAFFIC);
	admit(&run, 0, 0, 30);
	admit(&run, 1, 0, 2);
	/* 30 units were in use when node 1 joined. Node 2 admitted nothing, so it has the least. */
	assert_int_equal(end(&run)->allowed, 2 * (30 + 2) + 30);
	begin(&run, WR_EVENTUAL,
	      "limit: {requests_per_unit: 10, burst: 50, algorithm: token_bucket}\n"
	      "nodes: 3\n" TRAFFIC);
	admit(&run, 0, 0, 30);
	admit(&run, 1, 0, 1);
	admit(&run, 1, 20000, 1); /* the bucket is full again */
	admit(&run, 0, 20000, 40);
	admit(&run, 1, 20100, 1); /* not a join */
	/* 2 * (40 + 2) + 30 is more than the buckets of two nodes and 0.1 s of their rate. */
	assert_int_equal(end(&run)->allowed, 2 * (50 + 1));
}

/* Nodes that learn nothing of each other admit at most a bucket each, and what flows in until the
 * bucket of the client is full again: here 10 for each of two nodes in the first second. */
static void test_a_bucket_of_each_node(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL,
	      "limit: {requests_per_unit: 10, burst: 50, algorithm: token_bucket}\n"
	      "nodes: 3\n" TRAFFIC);
	admit(&run, 0, 0, 50);
	admit(&run, 1, 0, 50);
	admit(&run, 2, 0, 50);
	admit(&run, 0, 1000, 10);
	assert_int_equal(end(&run)->allowed, 2 * 50 + 2 * 10);
	assert_int_equal(run.bound.measured, 100);
	assert_true(run.bound.held);
	begin(&run, WR_EVENTUAL,
	      "limit: {requests_per_unit: 10, burst: 50, algorithm: token_bucket}\n"
	      "nodes: 3\n" TRAFFIC);
	for (unsigned i = 0; i < 2; i++) { /* the bucket is full again after 15 s */
		admit(&run, 0, 20000 * i, 50);
		admit(&run, 1, 20000 * i, 50);
		admit(&run, 2, 20000 * i, 50);
	}
	assert_int_equal(end(&run)->allowed, 2 * 50);
	assert_true(run.bound.held);
}

/* Within D, 206 ms, a node admits its bucket of 5 and what flows in, so more than (N - 1) buckets are
 * allowed: 5 + 5 of node 0, 5 of node 1, and the 5 that were in use when node 1 joined. */
static void test_buckets_refill_within_the_delay(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL,
	      "limit: {requests_per_unit: 50, burst: 5, algorithm: token_bucket}\n"
	      "nodes: 3\n" TRAFFIC);
	admit(&run, 0, 0, 5);
	admit(&run, 1, 0, 5);
	admit(&run, 0, 100, 5);
	assert_int_equal(end(&run)->allowed, 2 * 5 + 2 * 5);
	assert_int_equal(run.bound.measured, 5);
	assert_true(run.bound.held);
}

/* A run can be made shorter than its file. The bound then allows nothing for later faults. */
static void test_faults_after_the_end(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_LEASE, PLAIN "faults: [{kind: redis_flush, at: 2s}]\n");
	assert_int_equal(end(&run)->allowed, 100);
	begin(&run, WR_LEASE, PLAIN "faults: [{kind: redis_flush, at: 2s}]\n");
	run.opts.end_ns = 2000 * MS;
	wr_lab_bounds_free(run.bounds);
	run.bounds = wr_lab_bounds_new(&run.opts);
	assert_int_equal(end(&run)->allowed, 0);
}

static void test_rounding_of_a_sliding_counter(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_EVENTUAL,
	      "limit: {requests_per_unit: 100, algorithm: sliding_window_counter}\n"
	      "nodes: 3\n" TRAFFIC);
	admit(&run, 0, 10, 5);
	assert_int_equal(end(&run)->allowed, 5 + 2);
	begin(&run, WR_STRICT,
	      "limit: {requests_per_unit: 1, algorithm: sliding_window_counter}\n"
	      "nodes: 3\n" TRAFFIC);
	assert_int_equal(end(&run)->allowed, 0);
	begin(&run, WR_STRICT,
	      "limit: {requests_per_unit: 1, algorithm: sliding_window_counter}\n"
	      "nodes: 3\n" TRAFFIC);
	note_failure(&run);
	/* One unit of each node, and Redis and three nodes round. */
	assert_int_equal(end(&run)->allowed, 3 + 3);
}

/* ---- strict, lease and local ---- */

static void test_strict(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_STRICT, PLAIN);
	admit(&run, 0, 10, 101);
	assert_int_equal(end(&run)->allowed, 0);
	assert_int_equal(run.bound.measured, 1);
	assert_false(run.bound.held);
	begin(&run, WR_STRICT, PLAIN);
	note_failure(&run);
	assert_int_equal(end(&run)->allowed, 3 * 33);
	begin(&run, WR_LEASE,
	      PLAIN "faults: [{kind: redis_flush, at: 1s}, "
		    "{kind: redis_failover, at: 2s, lag: 1ms}, "
		    "{kind: redis_failover, at: 3s}]\n");
	assert_int_equal(end(&run)->allowed, 2 * 100);
}

/* With fewer units than nodes, each node admits one. */
static void test_share_of_a_small_limit(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_STRICT, "limit: {requests_per_unit: 2}\nnodes: 3\n" TRAFFIC);
	note_failure(&run);
	assert_int_equal(end(&run)->allowed, 3);
}

static void test_allow_has_no_bound(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_STRICT,
	      "limit: {requests_per_unit: 2, on_store_failure: allow}\nnodes: 3\n" TRAFFIC);
	assert_true(end(&run)->exists);
	begin(&run, WR_STRICT,
	      "limit: {requests_per_unit: 2, on_store_failure: allow}\nnodes: 3\n" TRAFFIC);
	note_failure(&run);
	assert_false(end(&run)->exists);
}

static void test_local(void **state)
{
	struct run run;

	(void)state;
	begin(&run, WR_LOCAL, PLAIN);
	assert_int_equal(end(&run)->allowed, 2 * 100);
	begin(&run, WR_LOCAL, PLAIN "faults: [{kind: node_crash, at: 1s, node: 2}]\n");
	assert_int_equal(end(&run)->allowed, 3 * 100);
	begin(&run, WR_LOCAL,
	      "limit: {requests_per_unit: 100, algorithm: token_bucket}\nnodes: 3\n" TRAFFIC);
	assert_false(end(&run)->exists);
}

/* ---- merging the results of several seeds ---- */

static void test_merge(void **state)
{
	struct wr_lab_bound held = {.exists = true,
				    .held = true,
				    .allowed = 9,
				    .measured = 5,
				    .allowed_most = 20,
				    .reason = "a"};
	struct wr_lab_bound broken = {
		.exists = true, .allowed = 2, .measured = 3, .allowed_most = 2, .reason = "b"};
	struct wr_lab_bound larger = {.exists = true,
				      .held = true,
				      .allowed = 30,
				      .measured = 8,
				      .allowed_most = 30,
				      .reason = "c"};
	struct wr_lab_bound sum = held;

	(void)state;
	wr_lab_bound_merge(&sum, &larger);
	assert_true(sum.held);
	assert_int_equal(sum.measured, 8);
	assert_int_equal(sum.allowed, 30);
	wr_lab_bound_merge(&sum, &broken);
	assert_false(sum.held);
	assert_int_equal(sum.measured, 3);
	assert_int_equal(sum.allowed_most, 30);
	wr_lab_bound_merge(&sum, &held);
	assert_false(sum.held);
	assert_int_equal(sum.measured, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delay_in_one_region),
		cmocka_unit_test(test_delay_with_a_far_redis),
		cmocka_unit_test(test_delay_between_regions),
		cmocka_unit_test(test_units_within_the_delay),
		cmocka_unit_test(test_at_most_the_limit_of_each_node),
		cmocka_unit_test(test_nodes_that_join_a_bucket),
		cmocka_unit_test(test_a_bucket_of_each_node),
		cmocka_unit_test(test_buckets_refill_within_the_delay),
		cmocka_unit_test(test_faults_after_the_end),
		cmocka_unit_test(test_rounding_of_a_sliding_counter),
		cmocka_unit_test(test_strict),
		cmocka_unit_test(test_share_of_a_small_limit),
		cmocka_unit_test(test_allow_has_no_bound),
		cmocka_unit_test(test_local),
		cmocka_unit_test(test_merge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
