/* The end of borrowed units: lost replies, expiry, changed limits, and a Redis that loses its
 * data. */
#include "lease_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The connection is lost. The call is repeated with the same number on the next connection, and no
 * take joins it. */
static void test_lost_reply_is_repeated(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	spend(rig, 7, 10);
	ask_one(rig, &asker, 7);
	assert_string_equal(lease_args(peer), "3 1 1000 60000000 " HOLDER " 2 1 10 0 16 1 0");
	cut_peer(peer, "reset");
	assert_failed(&asker);
	ask_one(rig, &asker, 7);
	pass_time(rig, 1 * MS);
	peer = peer_at(rig, 6379);
	assert_string_equal(lease_args(peer), "3 1 1000 60000000");
	reply(peer, leased(true, 80, 0, 0, true));
	pass_time(rig, 100 * MS);
	assert_string_equal(lease_args(peer), "3 0 1000 60000000 " HOLDER " 2 1 10 0 16 1 0");
	reply(peer, leased(true, 70, 13, 400, true));
	assert_int_equal(spend(rig, 7, 20), 13);
	rig_free(rig);
}

/* The call is no longer repeated when the units that it may have been granted have expired. Then
 * the holder reports that it has no lease. */
static void test_repetitions_end(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	spend(rig, 7, 10);
	ask_one(rig, &asker, 7);
	lease_args(peer);
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer, "reset");
	pass_time(rig, 1500 * MS);
	rig_trouble(rig, 6379)->refuses = false;
	pass_time(rig, 1500 * MS);
	peer = peer_at(rig, 6379);
	answer_one(rig, &asker, 7, peer, leased(true, 80, 0, 0, true));
	ask_one(rig, &asker, 7);
	assert_non_null(strstr(lease_args(peer), HOLDER " 3 0 0 0 "));
	rig_free(rig);
}

/* A reply that arrives after its units have expired grants nothing. */
static void test_late_reply_is_void(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	answer_one(rig, &asker, 7, peer, leased(true, 999, 0, 0, true));
	ask_one(rig, &asker, 7);
	lease_args(peer);
	rig->mono_ns += 200 * MS; /* the whole process stands still */
	reply(peer, leased(true, 900, 20, 150, true));
	assert_admitted(&asker);
	assert_int_equal(spend(rig, 7, 1), 0);
	assert_int_equal(info(rig)->leases, 0);
	assert_int_equal(info(rig)->counts.units_burnt, 20);
	rig_free(rig);
}

/* The duration of a lease counts from the time at which the call was sent. */
static void test_units_expire_from_sending(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	answer_one(rig, &asker, 7, peer, leased(true, 999, 0, 0, true));
	ask_one(rig, &asker, 7);
	lease_args(peer);
	rig->mono_ns += 10 * MS;
	reply(peer, leased(true, 900, 20, 100, true));
	rig->mono_ns += 90 * MS - 1;
	assert_int_equal(spend(rig, 7, 1), 1);
	rig->mono_ns += 1;
	assert_int_equal(spend(rig, 7, 1), 0);
	rig_free(rig);
}

/* After FLUSHALL or a failover, units that Redis does not know are void. Units that the same reply
 * grants are valid. */
static void test_redis_lost_the_lease(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	assert_int_equal(spend(rig, 7, 4), 4);
	pass_time(rig, 900 * MS);
	lease_args(peer);
	reply(peer, leased(true, 998, 3, 1000, false));
	assert_int_equal(info(rig)->counts.leases_voided, 1);
	assert_int_equal(spend(rig, 7, 10), 3);
	ask_one(rig, &asker, 7);
	/* The next calls are as usual. */
	assert_non_null(strstr(lease_args(peer), HOLDER " 3 2 3 0 "));
	rig_free(rig);
}

/* The limit has changed. Units of the old limit are not spent, and are returned with the next
 * call. */
static void test_changed_limit(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct item item = {.key = 7, .cost = 1, .limit = 500, .leased = true};
	struct asker asker = {.done = 0};

	(void)state;
	assert_int_equal(spend(rig, 7, 4), 4);
	assert_false(spend_from(rig, 7, 500, 1));
	take(rig, &asker, &item, 1);
	assert_string_equal(lease_args(peer), "3 1 500 60000000 " HOLDER " 2 1 4 6 9 1 0");
	reply(peer, leased(true, 400, 7, 1000, true));
	assert_int_equal(info(rig)->counts.units_returned, 6);
	assert_true(spend_from(rig, 7, 500, 1));
	assert_false(spend_from(rig, 7, LIMIT, 1));
	rig_free(rig);
}

/* An operator's reset deletes the counter and its lease record, and the units are void. */
static void test_reset(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct item item = {.key = 7, .limit = LIMIT, .leased = true};

	(void)state;
	send_question(rig, WR_QUESTION_RESET, &item, 1);
	assert_int_equal(spend(rig, 7, 1), 0);
	assert_non_null(
		strstr(next_command(peer),
		       " 3 weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m "
		       "weir:1:{HAAAAAAAAAA-_________D}:l:fixed_window/1m "
		       "weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m:r 1027 0 1000 60000000"));
	reply(peer, ":2\r\n");
	assert_int_equal(info(rig)->counts.leases_voided, 1);
	rig_free(rig);
}

/* Give-backs and reports of a leased counter use the lease script as well. */
static void test_returns_and_reports(void **state)
{
	struct item back = {.key = 7, .cost = -2, .limit = LIMIT, .leased = true, .decided_us = 5};
	struct item more = {
		.key = 7, .cost = 3, .limit = LIMIT, .leased = true, .decided_us = NOW_US};
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	const char *command;

	(void)state;
	send_question(rig, WR_QUESTION_RETURN, &back, 1);
	command = next_command(peer);
	assert_non_null(strstr(command, " 3 weir:1:{"));
	assert_string_equal(strstr(command, "1m:r "), "1m:r 131 -2 1000 60000000 5");
	reply(peer, leased(true, 900, 0, 0, true));
	send_question(rig, WR_QUESTION_REPORT, &more, 1);
	send_question(rig, WR_QUESTION_REPORT, &more, 1);
	pass_time(rig, 300 * MS);
	command = next_command(peer);
	assert_non_null(command);
	assert_non_null(strstr(command, wr_redis_script_lease.sha1));
	assert_non_null(strstr(command, " 3 weir:1:{"));
	assert_non_null(strstr(command, ":r:"));
	assert_non_null(strstr(command, " 643 6 1000 60000000 "));
	reply(peer, leased(true, 900, 0, 0, true));
	assert_int_equal(info(rig)->counts.reported, 1);
	rig_free(rig);
}

/* Redis refuses after `delay_ns`. All processes of the node refuse for another `left_ns`. */
static void assert_refusal_is_shared(uint64_t delay_ns, uint64_t left_ns)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 0);
	struct weir_decision decision;
	struct asker asker = {.done = 0};
	uint32_t grant;

	ask_one(rig, &asker, 7);
	lease_args(peer);
	pass_time(rig, delay_ns);
	reply(peer, leased(false, 0, 0, 0, true));
	assert_refused(&asker);
	rig->mono_ns += left_ns - 1 * MS;
	assert_int_equal(wr_store_lease_spend(table, (struct wr_key){7},
					      wr_store_lease_identity(LIMIT, 0, 0), 1, rig->mono_ns,
					      &decision, &grant),
			 WR_LEASE_REFUSED);
	assert_int_equal(decision.retry_after_ns, 5001 * MS - left_ns);
	rig->mono_ns += 2 * MS;
	assert_int_equal(wr_store_lease_spend(table, (struct wr_key){7},
					      wr_store_lease_identity(LIMIT, 0, 0), 1, rig->mono_ns,
					      &decision, &grant),
			 WR_LEASE_NOTHING);
	rig_free(rig);
}

/* A refusal by Redis applies to every process of the node for one second. */
static void test_refusals_shared_in_the_table(void **state)
{
	(void)state;
	assert_refusal_is_shared(0, 1000 * MS);
}

/* Redis may have refused as soon as the call was sent, so the second begins at that time. */
static void test_refusals_count_from_sending(void **state)
{
	(void)state;
	assert_refusal_is_shared(10 * MS, 990 * MS);
}

/* A lease ends with its window. Near the end of the window it is not renewed. */
static void test_windows_end(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	pass_time(rig, 59600 * MS); /* 59.6 s of the minute are over */
	answer_one(rig, &asker, 7, peer, leased(true, 999, 0, 0, true));
	for (int i = 0; i < 10; i++) {
		answer_one(rig, &asker, 7, peer, leased(true, 999, 0, 0, true));
	}
	pass_time(rig, 100 * MS);
	/* 11 units less a tenth, plus this one, plus a quarter, for 0.3 s */
	ask_one(rig, &asker, 7);
	assert_non_null(strstr(lease_args(peer), " 0 0 4 1 0"));
	reply(peer, leased(true, 900, 4, 300, true));
	assert_int_equal(spend(rig, 7, 1), 1);
	pass_time(rig, 299 * MS);
	assert_null(next_command(peer));
	assert_int_equal(spend(rig, 7, 1), 1);
	pass_time(rig, 2 * MS);
	assert_int_equal(spend(rig, 7, 1), 0);
	pass_time(rig, 100 * MS);
	assert_int_equal(info(rig)->counts.units_burnt, 2);
	ask_one(rig, &asker, 7); /* in the next window the node borrows by the known demand */
	assert_non_null(strstr(lease_args(peer), " 0 0 0 "));
	rig_free(rig);
}

/* Redis is unavailable. Borrowed units are spent until the lease ends. */
static void test_redis_unavailable(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer, "reset");
	pass_time(rig, 900 * MS);
	assert_int_equal(spend(rig, 7, 4), 4);
	pass_time(rig, 200 * MS);
	assert_int_equal(spend(rig, 7, 1), 0);
	pass_time(rig, 1000 * MS);
	assert_int_equal(info(rig)->counts.units_spent, 4);
	assert_int_equal(info(rig)->counts.units_burnt, 6);
	assert_int_equal(info(rig)->leases, 0);
	rig_free(rig);
}

/* At shutdown all units are returned, including units that a later reply grants. No more units are
 * borrowed. */
static void test_shutdown(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	borrow(rig, 8, 20);
	spend(rig, 8, 20);
	ask_one(rig, &asker, 8);
	lease_args(peer); /* the call of this command stays in flight */
	assert_int_equal(shut_down(rig), 2);
	assert_string_equal(lease_args(peer), "3 0 1000 60000000 " HOLDER " 4 1 0 10 0 1 0");
	assert_int_equal(spend(rig, 7, 1), 0);
	reply(peer, leased(true, 900, 30, 1000, true));
	pass_time(rig, 1 * MS);
	assert_string_equal(lease_args(peer), "3 0 1000 60000000 " HOLDER " 5 3 0 30 0 1 0");
	reply(peer, leased(true, 900, 0, 0, true));
	assert_int_equal(shut_down(rig), 1);
	reply(peer, leased(true, 900, 0, 0, true));
	assert_int_equal(shut_down(rig), 0);
	assert_int_equal(info(rig)->counts.units_returned, 40);
	for (int i = 0; i < 3; i++) {
		ask_one(rig, &asker, 7);
		assert_string_equal(lease_args(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 900, 0, 0, true));
	}
	rig_free(rig);
}

static void test_shutdown_without_redis(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer, "reset");
	assert_int_equal(shut_down(rig), 0);
	rig_free(rig);
}

/* The table is replaced. Units in the old table stay there, and the holder has a new id. */
static void test_another_table(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	wr_central_set_table(rig->central, table, 0x77);
	assert_int_equal(info(rig)->leases, 0);
	assert_int_equal(info(rig)->counts.units_granted, 10);
	/* This loop does not know how many of the units were spent. */
	assert_int_equal(info(rig)->counts.units_burnt, 10);
	assert_int_equal(spend(rig, 7, 10), 10);
	pass_time(rig, 1100 * MS);
	answer_one(rig, &asker, 7, peer, leased(true, 900, 0, 0, true));
	ask_one(rig, &asker, 7);
	assert_non_null(strstr(lease_args(peer), " 0000000000000077 2 0 0 0 "));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEASE_TEST(test_lost_reply_is_repeated),
		LEASE_TEST(test_repetitions_end),
		LEASE_TEST(test_late_reply_is_void),
		LEASE_TEST(test_units_expire_from_sending),
		LEASE_TEST(test_redis_lost_the_lease),
		LEASE_TEST(test_changed_limit),
		LEASE_TEST(test_reset),
		LEASE_TEST(test_returns_and_reports),
		LEASE_TEST(test_refusals_shared_in_the_table),
		LEASE_TEST(test_refusals_count_from_sending),
		LEASE_TEST(test_windows_end),
		LEASE_TEST(test_redis_unavailable),
		LEASE_TEST(test_shutdown),
		LEASE_TEST(test_shutdown_without_redis),
		LEASE_TEST(test_another_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
