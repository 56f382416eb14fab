/* The pace that processes share through a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "client/shared.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1800000000 * SECOND_NS)

static const struct weir_str host = {"api.example.com:443", 19};
static char dir[] = "/tmp/weir-shared-XXXXXX";

/* Opens the same table, as another process does. */
static struct weir_table *open_table(void)
{
	struct weir_opts opts = {
		.size = sizeof opts, .name = "shared", .dir = dir, .memory_bytes = 262144};
	struct weir_table *table;

	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	return table;
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return weir_remove("shared", dir, NULL) < 0 ? -1 : rmdir(dir);
}

static struct weir_ratelimit tell(const char *name, uint64_t limit)
{
	struct weir_ratelimit told = {.size = sizeof told, .count = 1};

	told.policies[0] = (struct weir_ratelimit_policy){
		.name = wr_str(name),
		.form = WEIR_RATELIMIT_IETF,
		.has = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING |
		       WEIR_RATELIMIT_HAS_WINDOW,
		.limit = limit,
		.remaining = limit,
		.window_ns = SECOND_NS,
	};
	return told;
}

static void processes_take_turns(void **state)
{
	struct weir_ratelimit told = tell("turns", 10);
	struct weir_table *one = open_table(), *two = open_table();

	(void)state;
	assert_int_equal(wr_pace_shared_delay(one, host, &told, NOW_NS), 0);
	assert_int_equal(wr_pace_shared_delay(two, host, &told, NOW_NS), 100000000);
	assert_int_equal(wr_pace_shared_delay(one, host, &told, NOW_NS), 200000000);
	assert_int_equal(wr_pace_shared_delay(two, host, &told, NOW_NS + 250000000), 50000000);
	/* Another host, and another policy of the host, have their own queues. */
	assert_int_equal(wr_pace_shared_delay(one, WR_STR("b:80"), &told, NOW_NS), 0);
	told = tell("more", 10);
	assert_int_equal(wr_pace_shared_delay(one, host, &told, NOW_NS), 0);
	weir_close(one);
	weir_close(two);
}

static void the_tightest_policy_counts(void **state)
{
	struct weir_ratelimit told = tell("fast", 10);
	struct weir_table *table = open_table();

	(void)state;
	told.policies[told.count++] = tell("slow", 2).policies[0];
	assert_int_equal(wr_pace_shared_delay(table, host, &told, NOW_NS), 0);
	assert_int_equal(wr_pace_shared_delay(table, host, &told, NOW_NS), 500000000);
	weir_close(table);
}

static void a_wait_holds_back_all_processes(void **state)
{
	struct weir_table *one = open_table(), *two = open_table();

	(void)state;
	assert_int_equal(wr_pace_shared_held(two, host, NOW_NS), 0);
	wr_pace_shared_hold(one, host, 3 * SECOND_NS, NOW_NS);
	assert_int_equal(wr_pace_shared_held(two, host, NOW_NS), 3 * SECOND_NS);
	/* A shorter wait changes nothing, a longer one counts from its own time. */
	wr_pace_shared_hold(two, host, SECOND_NS, NOW_NS + SECOND_NS);
	assert_int_equal(wr_pace_shared_held(one, host, NOW_NS + SECOND_NS), 2 * SECOND_NS);
	wr_pace_shared_hold(two, host, 3600 * SECOND_NS, NOW_NS + SECOND_NS);
	assert_int_equal(wr_pace_shared_held(one, host, NOW_NS + SECOND_NS), 3600 * SECOND_NS);
	assert_int_equal(wr_pace_shared_held(one, host, NOW_NS + 3601 * SECOND_NS), 0);
	weir_close(one);
	weir_close(two);
}

static void waits_are_rounded_up(void **state)
{
	struct weir_table *table = open_table();

	(void)state;
	wr_pace_shared_hold(table, WR_STR("c:80"), 1, NOW_NS);
	assert_int_equal(wr_pace_shared_held(table, WR_STR("c:80"), NOW_NS), 10000000);
	weir_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_take_turns),
		cmocka_unit_test(the_tightest_policy_counts),
		cmocka_unit_test(a_wait_holds_back_all_processes),
		cmocka_unit_test(waits_are_rounded_up),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
