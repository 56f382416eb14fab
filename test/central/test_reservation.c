/* Settling reservations: the marker of the reservation and its units in one call. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"
#define TIMEOUT (20 * MS)
#define MARKER(KEY)                                                                                \
	{                                                                                          \
		.key = (KEY), .cost = 3, .limit = 3, .id = "reservation/1"                         \
	}

static const int64_t settled[4][5] = {{V_ADMITTED | V_TAKEN | V_TIMES, 0, 0, 60000000, 0},
				      {V_ADMITTED | V_TIMES, 9, 0, 60000000, 0},
				      {V_ADMITTED | V_TIMES, -5, 0, 60000000, 0},
				      {V_ADMITTED | V_TIMES, 9, 0, 60000000, 0}};
static const int64_t refused[4][5] = {{0, 2, 60000000, 60000000, 0},
				      {V_ADMITTED | V_TIMES, 9, 0, 60000000, 0},
				      {V_ADMITTED | V_TIMES, 9, 0, 60000000, 0},
				      {V_ADMITTED | V_TIMES, 9, 0, 60000000, 0}};

/* 4099 is fixed window (3) and a claim (4096), 131 a give-back (128), 2051 a debt (2048). All keys
 * are on one server, so one call has the marker and the counters of two clients. */
static void test_one_call(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {MARKER(1),
			       {.key = 1, .cost = -4, .id = "a", .decided_us = NOW_US},
			       {.key = 2, .cost = 5, .id = "b"}};
	struct asker asker = {.done = 0};
	const char *command;
	char begin[64];

	(void)state;
	settle_question(rig, &asker, items, 3);
	command = next_command(peer);
	snprintf(begin, sizeof begin, "EVALSHA %s 4 ", wr_redis_script_take.sha1);
	assert_memory_equal(command, begin, strlen(begin));
	assert_non_null(strstr(command, "}:reservation/1 weir:1:{"));
	assert_non_null(strstr(command, "}:a:r 4099 3 3 60000000 131 -4 10 60000000 "
					"1700000040000000 2051 5 10 60000000 20"));
	assert_null(next_command(peer));
	reply(peer, taken_all(3, settled));
	assert_admitted(&asker);
	assert_int_equal(asker.count, 1); /* the answer is about the marker */
	assert_int_equal(info(rig)->counts.calls, 1);
	assert_int_equal(info(rig)->counts.asked, 1);
	assert_int_equal(info(rig)->counts.returned, 1);
	assert_int_equal(info(rig)->counts.owed, 1);
	rig_free(rig);
}

/* A refused marker changes nothing. The refusal is not remembered. */
static void test_settled_before(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {MARKER(1), {.key = 1, .cost = -4, .id = "a", .decided_us = NOW_US}};
	struct asker asker = {.done = 0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		settle_question(rig, &asker, items, 2);
		assert_non_null(next_command(peer));
		reply(peer, taken_all(2, refused));
		assert_refused(&asker);
		assert_int_equal(asker.answers[0].remaining, 2);
	}
	assert_null(next_command(peer));
	assert_int_equal(info(rig)->counts.returned, 0);
	rig_free(rig);
}

/* The lease script has one counter only, so the units of a leased counter follow when the marker was
 * taken. */
static void test_leased_counters_follow(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {
		MARKER(1), {.key = 1, .cost = -4, .id = "a", .leased = true, .decided_us = NOW_US}};
	struct asker asker = {.done = 0};
	char begin[64];

	(void)state;
	settle_question(rig, &asker, items, 2);
	assert_non_null(strstr(next_command(peer), "}:reservation/1 4099 3 3"));
	assert_null(next_command(peer));
	reply(peer, taken_all(1, settled));
	assert_admitted(&asker);
	snprintf(begin, sizeof begin, "EVALSHA %s 3 ", wr_redis_script_lease.sha1);
	assert_memory_equal(next_command(peer), begin, strlen(begin));
	settle_question(rig, &asker, items, 2);
	run_turn(rig);
	reply(peer, taken(true, 9, 0, 1));
	assert_non_null(next_command(peer));
	reply(peer, taken_all(1, refused));
	assert_refused(&asker);
	assert_null(next_command(peer)); /* nothing follows a refused marker */
	rig_free(rig);
}

/* A settlement is not undone: neither if the client leaves, nor after the timeout. */
static void test_late_settlement(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {
		MARKER(1), {.key = 1, .cost = -4, .id = "a", .leased = true, .decided_us = NOW_US}};
	struct asker asker = {.done = 0};

	(void)state;
	settle_question(rig, &asker, items, 2);
	assert_non_null(next_command(peer));
	pass_time(rig, TIMEOUT);
	assert_failed(&asker);
	reply(peer, taken_all(1, settled));
	assert_non_null(strstr(next_command(peer), "}:a:r 131 -4 "));
	reply(peer, taken(true, 9, 0, 1));
	settle_question(rig, &asker, items, 2);
	assert_non_null(next_command(peer));
	wr_central_cancel(rig->central, &asker.ask);
	reply(peer, taken_all(1, settled));
	assert_non_null(strstr(next_command(peer), "}:a:r 131 -4 "));
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer));
	/* A settlement that was not written yet is not sent. */
	settle_question(rig, &asker, items, 2);
	wr_central_cancel(rig->central, &asker.ask);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* It is not known whether Redis has executed the call. Only the units that would have followed are
 * lost for certain if it has. */
static void test_lost_reply(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item items[] = {MARKER(1),
			       {.key = 1, .cost = -4, .id = "a", .decided_us = NOW_US},
			       {.key = 1, .cost = 4, .id = "b", .leased = true}};
	struct asker asker = {.done = 0};

	(void)state;
	settle_question(rig, &asker, items, 3);
	run_turn(rig);
	cut_peer(peer_at(rig, 6379), "reset");
	assert_failed(&asker);
	assert_int_equal(info(rig)->counts.returns_lost, 0);
	assert_int_equal(info(rig)->counts.owed_lost, 1);
	rig_free(rig);
}

static void test_script_is_loaded(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {MARKER(1), {.key = 1, .cost = 4, .id = "a"}};
	struct asker asker = {.done = 0};

	(void)state;
	settle_question(rig, &asker, items, 2);
	assert_non_null(next_command(peer));
	reply(peer, "-NOSCRIPT No matching script\r\n");
	assert_memory_equal(next_command(peer), "EVAL ", 5);
	reply(peer, taken_all(2, settled));
	assert_admitted(&asker);
	rig_free(rig);
}

static void test_malformed(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item items[] = {MARKER(1), {.key = 1, .cost = 0, .id = "a"}};
	struct asker asker = {.done = 0};

	(void)state;
	settle_question(rig, &asker, items, 2); /* an item without units */
	assert_int_equal(asker.done, 1);
	assert_int_equal(asker.len, 0);
	items[0].cost = -3;
	items[1].cost = 1;
	settle_question(rig, &asker, items, 2); /* a marker that gives back */
	assert_int_equal(asker.len, 0);
	items[0].cost = 3;
	send_question(rig, WR_QUESTION_SETTLE, items, 2); /* needs an answer */
	assert_null(next_command(peer_at(rig, 6379)));
	rig_free(rig);
}

/* ---- cluster ---- */

static const char two_masters[] = "*2\r\n"
				  "*3\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"
				  "*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:7001\r\n";

static struct rig *begin_cluster(void)
{
	struct rig *rig = rig_begin("redis+cluster://127.0.0.1:7000,127.0.0.1:7001");

	rig->slots = two_masters;
	rig_start(rig, NULL);
	return rig;
}

/* Returns a key whose slot belongs to the server at `port`. Takes a unit of each key that it tries. */
static uint64_t key_at(struct rig *rig, uint16_t port)
{
	for (uint64_t key = 1;; key++) {
		struct asker asker = {.done = 0};
		const char *command;

		take_one(rig, &asker, key, 1);
		command = next_command(peer_at(rig, port));
		reply(peer_at(rig, command ? port : 14001 - port), taken(true, 9, 0, 1));
		assert_admitted(&asker);
		if (command)
			return key;
	}
}

/* Counters of the marker's slot are in the call of the marker. Those of another server follow. */
static void test_cluster(void **state)
{
	struct rig *rig = begin_cluster();
	uint64_t here = key_at(rig, 7000), there = key_at(rig, 7001);
	struct item items[] = {MARKER(here),
			       {.key = here, .cost = -4, .id = "a", .decided_us = NOW_US},
			       {.key = there, .cost = -4, .id = "b", .decided_us = NOW_US},
			       {.key = there, .cost = 4, .id = "c"}};
	struct asker asker = {.done = 0};

	(void)state;
	settle_question(rig, &asker, items, 4);
	assert_non_null(strstr(next_command(peer_at(rig, 7000)), "}:a:r 4099 3 3 60000000 131 -4"));
	assert_null(next_command(peer_at(rig, 7001)));
	reply(peer_at(rig, 7000), taken_all(2, settled));
	assert_admitted(&asker);
	assert_non_null(strstr(next_command(peer_at(rig, 7001)), "}:c 2051 4 "));
	assert_non_null(strstr(next_command(peer_at(rig, 7001)), "}:b:r 131 -4 "));
	rig_free(rig);
}

/* While a slot is being moved, Redis executes calls with one key only: the marker goes first. */
static void test_slot_is_moved(void **state)
{
	struct rig *rig = begin_cluster();
	uint64_t key = key_at(rig, 7000);
	struct peer *peer = peer_at(rig, 7000);
	struct item items[] = {MARKER(key), {.key = key, .cost = 4, .id = "a"}};
	struct asker asker = {.done = 0};

	(void)state;
	settle_question(rig, &asker, items, 2);
	assert_non_null(next_command(peer));
	reply(peer, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
	pass_time(rig, 2 * MS);
	assert_non_null(strstr(next_command(peer), "}:reservation/1 4099 3 3 60000000"));
	assert_null(next_command(peer));
	reply(peer, taken_all(1, settled));
	assert_admitted(&asker);
	assert_non_null(strstr(next_command(peer), "}:a 2051 4 "));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_call),
		cmocka_unit_test(test_settled_before),
		cmocka_unit_test(test_leased_counters_follow),
		cmocka_unit_test(test_late_settlement),
		cmocka_unit_test(test_lost_reply),
		cmocka_unit_test(test_script_is_loaded),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_cluster),
		cmocka_unit_test(test_slot_is_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
