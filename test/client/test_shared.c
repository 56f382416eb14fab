/* The pace that processes share through a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/algo.h>

#include "base/str.h"
#include "client/fleet.h"
#include "client/shared.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1800000000 * SECOND_NS)
#define HALF (UINT64_MAX / 2) /* random bits for the middle of a range */

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

/* Returns the response of a host with one policy, of `limit` requests per second. */
static struct weir_ratelimit tell(const char *name, uint64_t limit, uint64_t remaining)
{
	struct weir_ratelimit told = {.size = sizeof told, .count = 1};

	told.policies[0] = (struct weir_ratelimit_policy){
		.name = wr_str(name),
		.form = WEIR_RATELIMIT_IETF,
		.has = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING |
		       WEIR_RATELIMIT_HAS_WINDOW,
		.limit = limit,
		.remaining = remaining,
		.window_ns = SECOND_NS,
	};
	return told;
}

/* Returns the pace of a process that had this response, and sees no other clients. */
static struct wr_pace learned(struct weir_table *table, const struct weir_ratelimit *told)
{
	double own[WEIR_RATELIMIT_POLICIES_MAX];
	struct wr_pace pace;

	wr_pace_init(&pace, 0);
	pace.shared = true;
	wr_pace_shared_count(table, host, told, NOW_NS, own);
	wr_pace_learn_shared(&pace, told, own, NOW_NS, HALF);
	return pace;
}

/* A request per 1.01 · 100 ms. */
static void processes_take_turns(void **state)
{
	struct weir_ratelimit told = tell("turns", 10, 9);
	struct weir_table *one = open_table(), *two = open_table();
	struct wr_pace first = learned(one, &told), second;

	(void)state;
	told.policies[0].remaining = 8; /* after the requests of both processes */
	second = learned(two, &told);
	assert_int_equal(wr_pace_shared_delay(one, host, &first, UINT64_MAX, NOW_NS), 0);
	assert_int_equal(wr_pace_shared_delay(two, host, &second, UINT64_MAX, NOW_NS), 101000000);
	assert_int_equal(wr_pace_shared_delay(one, host, &first, UINT64_MAX, NOW_NS), 202000000);
	assert_int_equal(wr_pace_shared_delay(two, host, &second, UINT64_MAX, NOW_NS + 250000000),
			 53000000);
	/* The own lane of the process does not delay further requests. */
	assert_int_equal(wr_pace_reserve(&first, NOW_NS + SECOND_NS, HALF), NOW_NS + SECOND_NS);
	assert_int_equal(wr_pace_reserve(&first, NOW_NS + SECOND_NS, HALF), NOW_NS + SECOND_NS);
	/* Another host, and another policy of the host, have their own queues. */
	assert_int_equal(wr_pace_shared_delay(one, WR_STR("b:80"), &first, UINT64_MAX, NOW_NS), 0);
	told = tell("more", 10, 9);
	second = learned(one, &told);
	assert_int_equal(wr_pace_shared_delay(one, host, &second, UINT64_MAX, NOW_NS), 0);
	weir_close(one);
	weir_close(two);
}

/* A request that would wait until its deadline takes no place from the requests after it. */
static void a_request_beyond_its_deadline_takes_no_place(void **state)
{
	struct weir_ratelimit told = tell("deadline", 10, 9);
	struct weir_table *table = open_table();
	struct wr_pace pace = learned(table, &told);

	(void)state;
	assert_int_equal(wr_pace_shared_delay(table, host, &pace, 1, NOW_NS), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(wr_pace_shared_delay(table, host, &pace, 101000000, NOW_NS),
				 101000000);
	assert_int_equal(wr_pace_shared_delay(table, host, &pace, 101000001, NOW_NS), 101000000);
	assert_int_equal(wr_pace_shared_delay(table, host, &pace, 101000001, NOW_NS), 202000000);
	weir_close(table);
}

static void the_tightest_policy_counts(void **state)
{
	struct weir_ratelimit told = tell("fast", 10, 9);
	struct weir_table *table = open_table();
	struct wr_pace pace;

	(void)state;
	told.policies[told.count++] = tell("slow", 2, 1).policies[0];
	pace = learned(table, &told);
	assert_int_equal(wr_pace_shared_delay(table, host, &pace, UINT64_MAX, NOW_NS), 0);
	assert_int_equal(wr_pace_shared_delay(table, host, &pace, UINT64_MAX, NOW_NS), 505000000);
	weir_close(table);
}

/* Requests of sister processes are not those of strangers. */
static void all_processes_are_counted(void **state)
{
	struct weir_ratelimit told = tell("counted", 100, 90);
	struct weir_table *table = open_table();
	double own[WEIR_RATELIMIT_POLICIES_MAX];

	(void)state;
	for (int i = 1; i <= 5; i++) {
		wr_pace_shared_count(table, host, &told, NOW_NS, own);
		assert_true(own[0] == i);
	}
	told.refused = true;
	wr_pace_shared_count(table, host, &told, NOW_NS, own);
	assert_true(own[0] == 5);
	wr_pace_shared_count(table, host, &told, NOW_NS + 3 * SECOND_NS, own);
	assert_true(own[0] == 0);
	weir_close(table);
}

/* Limits that a hostile host tells. */
static void extreme_limits(void **state)
{
	static const uint64_t limits[] = {1, UINT32_MAX, 1ull << 40, UINT64_MAX};
	static const uint64_t windows_ns[] = {1, SECOND_NS, UINT64_MAX};
	struct weir_table *table = open_table();

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 3; k++) {
			struct weir_ratelimit told = tell("extreme", limits[i], 0);
			struct wr_pace pace;

			told.policies[0].window_ns = windows_ns[k];
			pace = learned(table, &told);
			for (int n = 0; n < 3; n++)
				assert_true(wr_pace_shared_delay(table, host, &pace, UINT64_MAX,
								 NOW_NS) < INT64_MAX);
		}
	weir_close(table);
}

/* Processes of one machine use a limit as one client does, and get equal parts of it. */
static void processes_share_a_limit(void **state)
{
	static const struct {
		uint32_t sharing, clients, limit;
		double used, slowest;
	} rows[] = {
		{3, 3, 10, 0.95, 0.9}, {3, 3, 100, 0.95, 0.9}, {8, 8, 100, 0.95, 0.9},
		{3, 10, 100, 0.9, 0},  {10, 20, 100, 0.9, 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct fleet_plan plan = {.algorithm = WEIR_TOKEN_BUCKET,
					  .limit = rows[i].limit,
					  .period_ns = SECOND_NS,
					  .clients = rows[i].clients,
					  .sharing = rows[i].sharing,
					  .seconds = 60,
					  .seed = i + 1};
		struct fleet_result result;

		plan.table = open_table();
		fleet_run(&plan, &result);
		assert_true(result.refused_share <= 0.01);
		assert_true(result.used_share >= rows[i].used);
		assert_true(result.slowest_of_median >= rows[i].slowest);
		weir_close(plan.table);
		assert_int_equal(weir_remove("shared", dir, NULL), 0);
	}
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

/* A wait that is longer than the table can hold: the hold lasts as long as possible. */
static void longer_waits_are_shortened_to_115_days(void **state)
{
	const uint64_t longest_ns = 9999999990000000; /* 10^7 s minus a unit of the table */
	struct weir_table *table = open_table();

	(void)state;
	wr_pace_shared_hold(table, WR_STR("d:80"), 10000001 * SECOND_NS, NOW_NS);
	assert_int_equal(wr_pace_shared_held(table, WR_STR("d:80"), NOW_NS), longest_ns);
	/* The rest of an earlier hold that is no multiple of the unit leaves room. */
	wr_pace_shared_hold(table, WR_STR("e:80"), SECOND_NS, NOW_NS);
	wr_pace_shared_hold(table, WR_STR("e:80"), UINT64_MAX, NOW_NS + 1);
	assert_int_equal(wr_pace_shared_held(table, WR_STR("e:80"), NOW_NS + 1),
			 longest_ns + 9999999);
	weir_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_take_turns),
		cmocka_unit_test(a_request_beyond_its_deadline_takes_no_place),
		cmocka_unit_test(the_tightest_policy_counts),
		cmocka_unit_test(all_processes_are_counted),
		cmocka_unit_test(extreme_limits),
		cmocka_unit_test(processes_share_a_limit),
		cmocka_unit_test(a_wait_holds_back_all_processes),
		cmocka_unit_test(waits_are_rounded_up),
		cmocka_unit_test(longer_waits_are_shortened_to_115_days),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
