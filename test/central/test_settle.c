/* Debts, partial give-backs, and slots of concurrent limits on one server. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"
#define TIMEOUT (20 * MS)
#define SLOT                                                                                       \
	{                                                                                          \
		.key = 7, .cost = 1, .algorithm = WEIR_CONCURRENT, .id = "concurrent/1m"           \
	}

/* 2051 is fixed window (3) and a debt (2048). The last number is how many units may be in use. */
static void test_owe(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {{.key = 1, .cost = 5, .id = "a"},
			       {.key = 1, .cost = 5, .id = "b", .max_debt = 7},
			       {.key = 2, .cost = 5, .flags = WEIR_NO_DEBT}};

	(void)state;
	send_question(rig, WR_QUESTION_OWE, items, 3);
	assert_non_null(
		strstr(next_command(peer), "}:b 2051 5 10 60000000 20 2051 5 10 60000000 17"));
	assert_non_null(strstr(next_command(peer), "1m 2051 5 10 60000000 10"));
	assert_null(next_command(peer));
	reply(peer, "*11\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n");
	reply(peer, taken(true, -5, 0, 1));
	assert_int_equal(info(rig)->counts.owed, 3);
	assert_int_equal(info(rig)->counts.owed_lost, 0);
	assert_int_equal(info(rig)->counts.returned, 0);
	rig_free(rig);
}

/* The answer to a later take shows the debt. */
static void test_debt_in_answer(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 7, 1);
	run_turn(rig);
	reply(peer_at(rig, 6379), taken(false, -5, 30000000, 0));
	assert_refused(&asker);
	assert_int_equal(asker.answers[0].remaining, 0);
	assert_int_equal(asker.answers[0].debt, 5);
	assert_int_equal(asker.answers[0].retry_after_ns, 30000 * MS);
	take_one(rig, &asker, 7, 1); /* refused from memory */
	assert_refused(&asker);
	assert_int_equal(asker.answers[0].debt, 5);
	rig_free(rig);
}

/* A debt is sent once. A debt that cannot be sent, or whose reply is lost, is counted as lost. */
static void test_lost_debts(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item item = {.key = 1, .cost = 5};

	(void)state;
	send_question(rig, WR_QUESTION_OWE, &item, 1);
	run_turn(rig);
	cut_peer(peer, "reset");
	assert_int_equal(info(rig)->counts.owed_lost, 1);
	pass_time(rig, 1000 * MS);
	peer = peer_at(rig, 6379);
	assert_null(next_command(peer));
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer, "reset");
	send_question(rig, WR_QUESTION_OWE, &item, 1);
	assert_int_equal(info(rig)->counts.owed_lost, 2);
	assert_int_equal(info(rig)->counts.owed, 0);
	rig_free(rig);
}

/* A call that Redis has not executed is repeated. */
static void test_owe_without_script(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item item = {.key = 1, .cost = 5};

	(void)state;
	send_question(rig, WR_QUESTION_OWE, &item, 1);
	assert_non_null(next_command(peer));
	reply(peer, "-NOSCRIPT No matching script\r\n");
	assert_memory_equal(next_command(peer), "EVAL ", 5);
	reply(peer, taken(true, -5, 0, 1));
	assert_int_equal(info(rig)->counts.owed, 1);
	assert_int_equal(info(rig)->counts.owed_lost, 0);
	rig_free(rig);
}

/* A debt of a counter whose units can be leased goes to the lease script, without a holder. */
static void test_owe_leased(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item item = {.key = 1, .cost = 5, .leased = true};
	char begin[64];
	const char *command;

	(void)state;
	send_question(rig, WR_QUESTION_OWE, &item, 1);
	command = next_command(peer_at(rig, 6379));
	snprintf(begin, sizeof begin, "EVALSHA %s 2 ", wr_redis_script_lease.sha1);
	assert_memory_equal(command, begin, strlen(begin));
	assert_non_null(strstr(command, " 2051 5 10 60000000 20"));
	rig_free(rig);
}

static void test_partial_return(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item item = {.key = 1, .cost = -100, .limit = 10000, .decided_us = NOW_US};

	(void)state;
	send_question(rig, WR_QUESTION_RETURN, &item, 1);
	assert_non_null(strstr(next_command(peer_at(rig, 6379)),
			       " 131 -100 10000 60000000 1700000040000000"));
	rig_free(rig);
}

/* ---- slots ---- */

/* Takes of one batch are not merged: each needs a token of its own. */
static void test_slots_not_merged(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item slot = SLOT;
	struct asker askers[2] = {{.done = 0}};
	int64_t second[1][5] = {{V_ADMITTED | V_TAKEN | V_TIMES, 8, 0, 60000000, 1}};

	(void)state;
	take(rig, &askers[0], &slot, 1);
	take(rig, &askers[1], &slot, 1);
	assert_non_null(strstr(next_command(peer), "concurrent/1m 6 1 10 60000000"));
	assert_non_null(strstr(next_command(peer), "concurrent/1m 6 1 10 60000000"));
	reply(peer, taken(true, 9, 0, 1));
	reply(peer, taken_all(1, second));
	assert_admitted(&askers[0]);
	assert_admitted(&askers[1]);
	/* The second token is 1 µs later. */
	assert_int_equal(askers[1].answers[0].decided_us, askers[0].answers[0].decided_us + 1);
	assert_int_equal(askers[1].answers[0].remaining, 8);
	rig_free(rig);
}

/* A refusal by a concurrent limit is not remembered, because a slot can be free at any time. If
 * another limit refuses too, its refusal is. */
static void test_refusal_of_slots(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item slot = SLOT, both[] = {SLOT, {.key = 7, .cost = 1}};
	int64_t refused[2][5] = {{0, 0, 5000000, 5000000, 0}, {0, 0, 5000000, 5000000, 0}};
	struct asker asker = {.done = 0};

	(void)state;
	take(rig, &asker, &slot, 1);
	run_turn(rig);
	reply(peer, taken(false, 0, 5000000, 0));
	assert_refused(&asker);
	assert_int_equal(asker.answers[0].retry_after_ns, 5000 * MS);
	take(rig, &asker, &slot, 1);
	assert_pending(&asker);
	run_turn(rig);
	reply(peer, taken(true, 0, 0, 1));
	assert_admitted(&asker);
	take(rig, &asker, both, 2);
	run_turn(rig);
	reply(peer, taken_all(2, refused));
	assert_refused(&asker);
	take(rig, &asker, both, 2);
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN);
	assert_int_equal(flags_of(&asker, 1), 0);
	take(rig, &asker, &slot, 1);
	assert_pending(&asker);
	rig_free(rig);
}

/* 134 is concurrent (6) and decided (128). The slot of a cancelled request is freed with its
 * token. */
static void test_cancelled_slot(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item slot = SLOT;
	struct asker asker = {.done = 0};
	int64_t values[1][5] = {{V_ADMITTED | V_TAKEN | V_TIMES, 8, 0, 60000000, 3}};

	(void)state;
	take(rig, &asker, &slot, 1);
	assert_non_null(next_command(peer));
	wr_central_cancel(rig->central, &asker.ask);
	reply(peer, taken_all(1, values));
	assert_non_null(strstr(next_command(peer), "1m:r 134 -1 10 60000000 1700000040000003"));
	rig_free(rig);
}

/* on_store_failure has decided the request. The late slot is not reported, so it is freed at
 * once. */
static void test_late_slot(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item slot = SLOT;
	struct asker asker = {.done = 0};

	(void)state;
	take(rig, &asker, &slot, 1);
	run_turn(rig);
	pass_time(rig, TIMEOUT);
	assert_failed(&asker);
	assert_non_null(next_command(peer));
	reply(peer, taken(true, 9, 0, 1));
	pass_time(rig, 1 * MS);
	assert_non_null(strstr(next_command(peer), " 134 -1 10 60000000 1700000040000000"));
	reply(peer, taken(true, 10, 0, 1));
	/* The same for an answer that came late in another process of this node. */
	slot.decided_us = NOW_US + 5;
	send_question(rig, WR_QUESTION_LATE, &slot, 1);
	pass_time(rig, 1 * MS);
	assert_non_null(strstr(next_command(peer), " 134 -1 10 60000000 1700000040000005"));
	assert_null(next_command(peer));
	rig_free(rig);
}

/* The connection is lost while slots are freed. They are freed when Redis is back, because freeing
 * them twice is harmless. */
static void test_slots_freed_after_failure(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {{.key = 7, .cost = -1, .id = "a", .decided_us = NOW_US},
			       {.key = 7,
				.cost = -1,
				.id = "b",
				.algorithm = WEIR_CONCURRENT,
				.decided_us = NOW_US}};

	(void)state;
	send_question(rig, WR_QUESTION_RETURN, items, 2);
	run_turn(rig);
	cut_peer(peer, "reset");
	assert_int_equal(info(rig)->counts.returns_lost, 1);
	pass_time(rig, 1000 * MS);
	peer = peer_at(rig, 6379);
	assert_non_null(strstr(next_command(peer), "}:b:r 134 -1 10 60000000 1700000040000000"));
	reply(peer, taken(true, 10, 0, 1));
	assert_null(next_command(peer));
	/* After max_hold the slot is free anyway. */
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer, "reset");
	send_question(rig, WR_QUESTION_RETURN, &items[1], 1);
	pass_time(rig, 130000 * MS);
	rig_trouble(rig, 6379)->refuses = false;
	pass_time(rig, 20000 * MS);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	assert_null(next_command(peer_at(rig, 6379)));
	assert_int_equal(info(rig)->counts.returned, 1);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_owe),
		cmocka_unit_test(test_debt_in_answer),
		cmocka_unit_test(test_lost_debts),
		cmocka_unit_test(test_owe_without_script),
		cmocka_unit_test(test_owe_leased),
		cmocka_unit_test(test_partial_return),
		cmocka_unit_test(test_slots_not_merged),
		cmocka_unit_test(test_refusal_of_slots),
		cmocka_unit_test(test_cancelled_slot),
		cmocka_unit_test(test_late_slot),
		cmocka_unit_test(test_slots_freed_after_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
