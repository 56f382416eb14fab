/* Tests of the queue's simulation: the same seed always gives the same run, and the oracle finds
 * mutations of the script. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "sim.h"

#define SEEDS_MAX 400u

static void run_seed(uint64_t seed, struct wr_sim_lua *lua, const struct qs_mutation *mutation,
		     struct qs_report *report)
{
	struct qs_plan plan;

	qs_plan_make(&plan, seed);
	qs_run(&plan, lua, mutation, NULL, report);
}

static void test_same_seed_same_trace(void **state)
{
	struct wr_sim_lua *lua = wr_sim_lua_new();
	struct qs_report report;
	uint64_t first[8];

	(void)state;
	for (uint64_t i = 0; i < 8; i++) {
		run_seed(i + 1, lua, NULL, &report);
		first[i] = report.trace;
	}
	for (uint64_t i = 8; i > 0; i--) {
		run_seed(i, lua, NULL, &report);
		assert_int_equal(report.trace, first[i - 1]);
	}
	assert_int_not_equal(first[0], first[1]);
	wr_sim_lua_free(lua);
}

static void test_plans_cover_all_faults(void **state)
{
	struct wr_sim_lua *lua = wr_sim_lua_new();
	struct qs_report report, sum = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 25; seed++) {
		run_seed(seed, lua, NULL, &report);
		assert_string_equal(report.failure, "");
		sum.seen |= report.seen;
		sum.delivered += report.delivered;
		sum.refused += report.refused;
		sum.dead += report.dead;
		sum.takeover += report.takeover;
		sum.stale += report.stale;
		sum.again += report.again;
	}
	assert_int_equal(sum.seen, (1u << QS_FAULT_COUNT) - 1);
	assert_true(sum.delivered > 100 && sum.refused && sum.dead && sum.takeover && sum.stale &&
		    sum.again);
	wr_sim_lua_free(lua);
}

/* Mutations of the script, each with the first seed to try. A comment says what the mutated script
 * does wrong. */
static const struct {
	struct qs_mutation change;
	unsigned first;
} mutations[] = {
	/* a settle by a former owner is accepted */
	{{"if holder(line) ~= fence .. ':' .. id then", "if false then"}, 5},
	/* a settle with the right id and an old fence is accepted */
	{{"if holder(line) ~= fence .. ':' .. id then",
	  "if not holder(line) or string.match(holder(line), ':(%d+)$') ~= id then"},
	 5},
	/* a repeated settle is refused */
	{{"if call('HGET', r, 'f') ~= fence then", "if true then"}, 3},
	/* a line that has an owner can be taken */
	{{"call('ZREM', key('due'), line)\n  call('ZADD', key('taken')",
	  "call('ZADD', key('taken')"},
	 1},
	/* a retry by an operator goes to the end of its line */
	{{"call('ZADD', line_key(line), id, id)\n    changed(line)",
	  "call('ZADD', line_key(line), id + 1000, id)\n    changed(line)"},
	 8},
	/* a lease never expires */
	{{"call('ZRANGEBYSCORE', key('taken'), '-inf', int(now), 'LIMIT', 0, 100)", "{}"}, 5},
	/* a lease expires early */
	{{"int(now + lease)", "int(now + lease / 8)"}, 3},
	/* a new connection frees lines with fences that the owner has received, or frees no lines
	 */
	{{"tonumber(string.match(what, '^%d+')) > received", "true"}, 3},
	{{"tonumber(string.match(what, '^%d+')) > received", "false"}, 3},
	/* a new connection frees lines of other owners too */
	{{"if who == owner and", "if"}, 2},
	/* a take on a connection that its node has replaced takes lines */
	{{"if link < last then return last end", ""}, 3},
	/* a repeated put is stored again */
	{{"if known then\n    return {now, ''", "if false then\n    return {now, ''"}, 3},
	/* a failed attempt is not counted; an attempt while the API is absent is counted */
	{{"call('HINCRBY', r, 'n', 1)", ""}, 3},
	{{"if outcome == 'again' or outcome == 'dead' then", "if outcome ~= 'release' then"}, 1},
	/* a request is tried once more than the maximum */
	{{"tonumber(at[1]) + 1 >= tonumber(at[2])", "tonumber(at[1]) >= tonumber(at[2])"}, 3},
	/* a limit is exceeded: waiting requests; bytes of a line; any limit by a retry of an
	 * operator */
	{{"if call('ZCARD', key('waiting')) >=", "if call('ZCARD', key('waiting')) >"}, 24},
	{{"held(line) + bytes > tonumber(max_line_bytes)", "held(line) > tonumber(max_line_bytes)"},
	 15},
	{{"if not why then retry(id, line, state) end", "retry(id, line, state)"}, 271},
	/* the bytes of a finished request still count for its line */
	{{"hold(line, id, '-')", ""}, 15},
	/* an expired request is delivered */
	{{"tonumber(call('HGET', row(id), 'exp')) <= now", "false"}, 8},
	/* a line is not due again after a settle */
	{{"call('HDEL', key('holder'), line)\n  set_due(line)\nend",
	  "call('HDEL', key('holder'), line)\nend"},
	 1},
	/* changes are not reported to nodes */
	{{"call('ZREM', key('waiting'), id)\n  changed(line)", "call('ZREM', key('waiting'), id)"},
	 7},
	/* the script's time goes back with Redis' clock */
	{{"if saved[1] and now + ahead < tonumber(saved[1]) then", "if false then"}, 73},
	/* more dead letters are stored than the maximum */
	{{"call('ZCARD', key('dead')) > max_dead or", ""}, 287},
};

static void test_oracle_finds_each_mutation(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
		struct wr_sim_lua *lua = wr_sim_lua_new();
		struct qs_report report = {0};
		uint64_t seed = mutations[i].first;

		run_seed(seed, lua, &mutations[i].change, &report);
		while (!report.failure[0] && seed < mutations[i].first + SEEDS_MAX)
			run_seed(++seed, lua, &mutations[i].change, &report);
		wr_sim_lua_free(lua);
		if (!report.failure[0])
			fail_msg("%u seeds do not notice: %s", SEEDS_MAX, mutations[i].change.to);
		print_message("seed %3u: %s (%s)\n", (unsigned)seed, report.failure,
			      mutations[i].change.from);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_seed_same_trace),
		cmocka_unit_test(test_plans_cover_all_faults),
		cmocka_unit_test(test_oracle_finds_each_mutation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
