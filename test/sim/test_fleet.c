/* Tests of fleets, which the scenarios of the lab use: decisions, faults, and bounded memory. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/rules.h"
#include "sim/fleet.h"
#include "sim/redis.h"

#define MS 1000000ull
#define S_NS (1000 * MS)
#define NODES 3u

struct seen {
	uint64_t admitted, refused, lost;
	struct wr_sim_fleet_verdict last;
};

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

static void note(void *context, const struct wr_sim_fleet_verdict *verdict)
{
	struct seen *seen = context;

	seen->last = *verdict;
	if (verdict->decider == WR_SIM_FLEET_NONE)
		seen->lost++;
	else if (verdict->admitted)
		seen->admitted++;
	else
		seen->refused++;
}

/* Makes three nodes with one Redis, 1 ms away, and a limit of 10 per second. */
static struct wr_sim_fleet *make(uint8_t consistency, struct seen *seen)
{
	static const struct wr_sim_fleet_path paths[NODES] = {{MS, 0}, {MS, 0}, {MS, 0}};
	static const uint16_t servers[NODES];
	struct wr_sim_fleet_opts opts = {.seed = 1,
					 .consistency = consistency,
					 .algorithm = WEIR_FIXED_WINDOW,
					 .limit = 10,
					 .period_ns = S_NS,
					 .sync_ns = 100 * MS,
					 .timeout_ns = 250 * MS,
					 .node_count = NODES,
					 .server_count = 1,
					 .node_servers = servers,
					 .paths = paths,
					 .keys = 4,
					 .decided = note,
					 .context = seen};
	struct wr_sim_fleet *fleet;
	struct weir_error error;

	*seen = (struct seen){0};
	if (wr_sim_fleet_new(&opts, lua, &fleet, &error) != 0)
		fail_msg("%s", error.text);
	return fleet;
}

static void test_a_local_decision_takes_no_time(void **state)
{
	struct seen seen;
	struct wr_sim_fleet *fleet = make(WR_LOCAL, &seen);

	(void)state;
	wr_sim_fleet_run(fleet, 5 * MS);
	for (unsigned i = 0; i < 12; i++)
		assert_true(wr_sim_fleet_request(fleet, 1, 3, 1));
	assert_int_equal(seen.admitted, 10);
	assert_int_equal(seen.refused, 2);
	assert_int_equal(seen.last.node, 1);
	assert_int_equal(seen.last.key, 3);
	assert_int_equal(seen.last.decider, WR_SIM_FLEET_TABLE);
	assert_int_equal(seen.last.begun_ns, 5 * MS);
	assert_int_equal(seen.last.decided_ns, 5 * MS);
	assert_int_equal(wr_sim_fleet_used(fleet, 1, 3), 10);
	assert_int_equal(wr_sim_fleet_used(fleet, 0, 3), 0);
	/* the traffic starts with a window, so the next window starts at 1 s */
	wr_sim_fleet_run(fleet, S_NS - 1);
	wr_sim_fleet_request(fleet, 1, 3, 1);
	assert_false(seen.last.admitted);
	wr_sim_fleet_run(fleet, S_NS);
	wr_sim_fleet_request(fleet, 1, 3, 1);
	assert_true(seen.last.admitted);
	wr_sim_fleet_free(fleet);
}

static void test_a_strict_decision_takes_a_round_trip(void **state)
{
	struct seen seen;
	struct wr_sim_fleet *fleet = make(WR_STRICT, &seen);

	(void)state;
	wr_sim_fleet_run(fleet, 5 * MS);
	wr_sim_fleet_request(fleet, 2, 0, 1);
	assert_int_equal(seen.admitted, 0);
	assert_int_equal(wr_sim_fleet_oldest_ns(fleet), 5 * MS);
	wr_sim_fleet_run(fleet, 10 * MS);
	assert_int_equal(seen.admitted, 1);
	assert_int_equal(wr_sim_fleet_oldest_ns(fleet), 10 * MS);
	assert_int_equal(seen.last.decider, WR_SIM_FLEET_REDIS);
	assert_int_equal(seen.last.counted_ns, 6 * MS);
	assert_int_equal(seen.last.decided_ns, 7 * MS);
	assert_int_equal(wr_sim_fleet_used(fleet, 2, 0), UINT32_MAX);
	wr_sim_fleet_free(fleet);
}

/* A dead node refuses requests, and its requests in flight are lost. */
static void test_crash(void **state)
{
	struct seen seen;
	struct wr_sim_fleet *fleet = make(WR_STRICT, &seen);

	(void)state;
	wr_sim_fleet_request(fleet, 0, 0, 1);
	wr_sim_fleet_request(fleet, 1, 0, 1);
	wr_sim_fleet_crash(fleet, 0);
	assert_int_equal(seen.lost, 1);
	assert_false(wr_sim_fleet_request(fleet, 0, 0, 1));
	wr_sim_fleet_run(fleet, 100 * MS);
	assert_int_equal(seen.admitted, 1);
	wr_sim_fleet_restart(fleet, 0);
	wr_sim_fleet_run(fleet, 500 * MS);
	assert_true(wr_sim_fleet_request(fleet, 0, 0, 1));
	wr_sim_fleet_run(fleet, 600 * MS);
	assert_int_equal(seen.admitted, 2);
	wr_sim_fleet_free(fleet);
}

static void test_unavailable_redis(void **state)
{
	struct seen seen;
	struct wr_sim_fleet *fleet = make(WR_STRICT, &seen);

	(void)state;
	wr_sim_fleet_redis_stop(fleet, 0, 2 * S_NS);
	wr_sim_fleet_run(fleet, S_NS);
	for (unsigned i = 0; i < 5; i++)
		wr_sim_fleet_request(fleet, 0, 0, 1);
	/* the share of one of three nodes */
	assert_int_equal(seen.admitted, 3);
	assert_int_equal(seen.last.decider, WR_SIM_FLEET_FAILURE);
	wr_sim_fleet_run(fleet, 5 * S_NS);
	wr_sim_fleet_request(fleet, 0, 0, 1);
	wr_sim_fleet_run(fleet, 6 * S_NS);
	assert_int_equal(seen.last.decider, WR_SIM_FLEET_REDIS);
	wr_sim_fleet_free(fleet);
}

static void test_eventual_nodes_learn_of_each_other(void **state)
{
	struct seen seen;
	struct wr_sim_fleet *fleet = make(WR_EVENTUAL, &seen);
	struct wr_sim_fleet_totals totals;

	(void)state;
	for (unsigned node = 0; node < NODES; node++)
		wr_sim_fleet_request(fleet, node, 0, 2);
	assert_int_equal(seen.admitted, 3);
	assert_int_equal(wr_sim_fleet_used(fleet, 0, 0), 2);
	wr_sim_fleet_run(fleet, 300 * MS);
	/* an exchange follows only on an admission, so each node gets another request */
	for (unsigned node = 0; node < NODES; node++)
		wr_sim_fleet_request(fleet, node, 0, 1);
	wr_sim_fleet_run(fleet, 600 * MS);
	wr_sim_fleet_totals(fleet, &totals);
	assert_in_range(wr_sim_fleet_used(fleet, 0, 0), 7, 9);
	assert_true(totals.calls >= 6);
	assert_string_equal(totals.failure, "");
	wr_sim_fleet_free(fleet);
}

/* After many requests, a fleet has as much memory as after few. */
static void test_memory_does_not_grow(void **state)
{
	static const uint8_t modes[] = {WR_LOCAL, WR_EVENTUAL, WR_LEASE, WR_STRICT};

	(void)state;
	for (unsigned m = 0; m < 4; m++) {
		struct seen seen;
		struct wr_sim_fleet *fleet = make(modes[m], &seen);
		size_t before = 0, after = 0;

		for (uint64_t i = 1; i <= 40000; i++) {
			wr_sim_fleet_run(fleet, i * MS);
			wr_sim_fleet_request(fleet, (unsigned)(i % NODES), (uint32_t)(i % 4), 1);
			if (i == 10000)
				before = mallinfo2().uordblks;
		}
		after = mallinfo2().uordblks;
		if (after > before + 65536)
			fail_msg("mode %u: %zu bytes, then %zu", modes[m], before, after);
		wr_sim_fleet_free(fleet);
	}
}

static void run_command(struct wr_sim_redis *redis, struct wr_buf *out, const char *name,
			unsigned key, const char *more)
{
	char text[16];
	struct weir_str argv[5] = {
		wr_str(name), {text, 0}, wr_str("v"), wr_str("PX"), wr_str(more)};

	argv[1].len = (size_t)snprintf(text, sizeof text, "k%u", key);
	out->len = 0;
	wr_sim_redis_command(redis, argv, *more ? 5 : strcmp(name, "SET") == 0 ? 3 : 2, out);
	wr_buf_add(out, "", 1);
}

/* The hash table of a Redis grows with its keys, and drops expired keys when it grows. */
static void test_redis_keeps_many_keys(void **state)
{
	struct wr_sim_redis *redis = wr_sim_redis_new(lua);
	struct wr_buf out = WR_SIM_BUF;

	(void)state;
	redis->now_us = 1000000;
	for (unsigned i = 0; i < 5000; i++)
		run_command(redis, &out, "SET", i, i % 2 ? "" : "10");
	assert_int_equal(redis->key_total, 5000);
	assert_true(redis->bucket_count >= 1024);
	redis->now_us += 20000;
	for (unsigned i = 0; i < 5000; i++) {
		run_command(redis, &out, "GET", i, "");
		assert_string_equal(out.ptr, i % 2 ? "$1\r\nv\r\n" : "$-1\r\n");
	}
	assert_int_equal(redis->key_total, 2500);
	wr_buf_free(&out);
	wr_sim_redis_free(redis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_local_decision_takes_no_time),
		cmocka_unit_test(test_a_strict_decision_takes_a_round_trip),
		cmocka_unit_test(test_crash),
		cmocka_unit_test(test_unavailable_redis),
		cmocka_unit_test(test_eventual_nodes_learn_of_each_other),
		cmocka_unit_test(test_memory_does_not_grow),
		cmocka_unit_test(test_redis_keeps_many_keys),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
