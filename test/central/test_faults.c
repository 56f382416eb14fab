/* Faults of one server: each kind of fault has a defined outcome and a counter. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"

/* ---- error replies ---- */

static const struct {
	const char *text;
	enum wr_fault fault;
	enum wr_central_shard_state state; /* state of the shard after one such reply */
	bool closed;
	const char *logged;
} errors[] = {
	{"-LOADING Redis is loading the dataset in memory\r\n", WR_FAULT_LOADING,
	 WR_CENTRAL_SHARD_DOWN, false, "loading the dataset"},
	{"-BUSY Redis is busy running a script.\r\n", WR_FAULT_BUSY, WR_CENTRAL_SHARD_DOWN, false,
	 "busy"},
	{"-DENIED Redis is running in protected mode\r\n", WR_FAULT_DENIED, WR_CENTRAL_SHARD_DOWN,
	 false, "protected"},
	{"-ERR max number of clients reached\r\n", WR_FAULT_MAXCLIENTS, WR_CENTRAL_SHARD_DOWN,
	 false, "max number"},
	{"-READONLY You can't write against a read only replica.\r\n", WR_FAULT_READONLY,
	 WR_CENTRAL_SHARD_DOWN, true, "redis+sentinel://"},
	{"-ERR Error running script (call to f_0): @user_script:1: -READONLY You can't write\r\n",
	 WR_FAULT_READONLY, WR_CENTRAL_SHARD_DOWN, true, "-READONLY"},
	{"-MASTERDOWN Link with MASTER is down\r\n", WR_FAULT_MASTERDOWN, WR_CENTRAL_SHARD_DOWN,
	 true, "MASTER is down"},
	{"-CLUSTERDOWN The cluster is down\r\n", WR_FAULT_CLUSTERDOWN, WR_CENTRAL_SHARD_DOWN, true,
	 "cluster is down"},
	{"-NOAUTH Authentication required.\r\n", WR_FAULT_NOAUTH, WR_CENTRAL_SHARD_DOWN, true,
	 "--redis-password-file"},
	{"-OOM command not allowed when used memory > 'maxmemory'.\r\n", WR_FAULT_OOM,
	 WR_CENTRAL_SHARD_UP, false, "raise its maxmemory"},
	{"-MISCONF Redis is configured to save RDB snapshots\r\n", WR_FAULT_MISCONF,
	 WR_CENTRAL_SHARD_UP, false, "snapshots"},
	{"-NOREPLICAS Not enough good replicas to write.\r\n", WR_FAULT_NOREPLICAS,
	 WR_CENTRAL_SHARD_UP, false, "good replicas"},
	{"-NOPERM this user has no permissions\r\n", WR_FAULT_NOPERM, WR_CENTRAL_SHARD_UP, false,
	 "docs/redis.md"},
	{"-WRONGTYPE Operation against a key\r\n", WR_FAULT_WRONGTYPE, WR_CENTRAL_SHARD_UP, false,
	 "--redis-prefix"},
	{"-ERR unknown command\r\n", WR_FAULT_OTHER, WR_CENTRAL_SHARD_UP, false, "unknown command"},
	{"-MOVED 1 127.0.0.1:7000\r\n", WR_FAULT_MOVED, WR_CENTRAL_SHARD_UP, false,
	 "redis+cluster://"},
	{"-ASK 1 127.0.0.1:7000\r\n", WR_FAULT_ASK, WR_CENTRAL_SHARD_UP, false, ""},
};

static void test_error_replies(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct rig *rig = rig_new(URL, NULL);
		struct peer *peer = peer_at(rig, 6379);
		bool counted = wr_fault_act(errors[i].fault) == WR_ACT_COUNT;

		take_with_reply(rig, 1, errors[i].text);
		assert_int_equal(faults(rig, errors[i].fault), 1);
		assert_int_equal(state_now(rig), errors[i].state);
		assert_int_equal(peer->link == NULL, errors[i].closed);
		for (uint64_t key = 2; counted && key <= 5; key++)
			take_with_reply(rig, key, errors[i].text);
		if (counted) { /* the fifth failure in a row opens the breaker */
			assert_int_equal(faults(rig, errors[i].fault), 5);
			assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
		}
		if (!strstr(rig->logged, errors[i].logged))
			fail_msg("'%s' lacks '%s'", rig->logged, errors[i].logged);
		rig_free(rig);
	}
}

/* A success in between resets the count of failures. */
static void test_failures_in_a_row(void **state)
{
	struct rig *rig = rig_new(URL, NULL);

	(void)state;
	for (uint64_t key = 1; key <= 4; key++)
		take_with_reply(rig, key, "-OOM full\r\n");
	take_with_reply(rig, 5, taken(true, 9, 0, 1));
	for (uint64_t key = 6; key <= 9; key++)
		take_with_reply(rig, key, "-OOM full\r\n");
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	assert_string_equal(rig->logged, "");
	take_with_reply(rig, 10, "-OOM full\r\n");
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	assert_int_equal(info(rig)->counts.failed, 9);
	assert_int_equal(info(rig)->counts.opened, 1);
	rig_free(rig);
}

/* ---- the breaker ---- */

/* An open breaker fails all calls at once. After a pause a PING is sent. When it is answered, some
 * calls are sent, and the first success closes the breaker. */
static void test_half_open(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[20] = {{.done = 0}};
	const char *command;

	(void)state;
	rig_trouble(rig, 6379)->ping = "-LOADING still\r\n";
	take_with_reply(rig, 1, "-LOADING\r\n");
	take_one(rig, &askers[0], 2, 1);
	assert_failed(&askers[0]);
	assert_int_equal(faults(rig, WR_FAULT_OPEN), 1);
	/* The first pause is 25 to 50 ms. Each further pause is doubled: at most 50, 100, 200 …
	 * ms. */
	pass_time(rig, 24 * MS);
	assert_int_equal(faults(rig, WR_FAULT_LOADING), 1);
	pass_time(rig, 27 * MS);
	assert_int_equal(faults(rig, WR_FAULT_LOADING), 2);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	pass_time(rig, 10000 * MS);
	assert_in_range(faults(rig, WR_FAULT_LOADING), 9, 18);
	rig_trouble(rig, 6379)->ping = NULL;
	pass_time(rig, 2000 * MS);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	for (int i = 0; i < 20; i++)
		take_one(rig, &askers[i], 10 + (uint64_t)i, 1);
	for (int i = 16; i < 20; i++)
		assert_failed(&askers[i]);
	for (int i = 0; i < 16; i++) {
		command = next_command(peer);
		assert_non_null(command);
		assert_pending(&askers[i]);
	}
	reply(peer, taken(true, 9, 0, 1));
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	assert_non_null(strstr(rig->logged, "127.0.0.1:6379: back after 1"));
	take_one(rig, &askers[19], 40, 1);
	assert_pending(&askers[19]);
	rig_free(rig);
}

/* A failure in the half-open state opens the breaker for longer: the pause was 25 to 50 ms, and the
 * probe and the failure each double it. */
static void test_trial_fails(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	uint64_t pause_ns;

	(void)state;
	take_with_reply(rig, 1, "-BUSY\r\n");
	pause_ns = info(rig)->shards[0].back_at_ns - rig->mono_ns;
	assert_in_range(pause_ns, 25 * MS, 50 * MS);
	pass_time(rig, pause_ns - 1);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	pass_time(rig, 1);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	take_with_reply(rig, 2, "-BUSY\r\n");
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	assert_in_range(info(rig)->shards[0].back_at_ns - rig->mono_ns, 100 * MS, 200 * MS);
	assert_int_equal(info(rig)->counts.opened, 2);
	rig_free(rig);
}

/* Asks that are cancelled before their trial is written do not use up the trials. */
static void test_trials_not_used_up(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker askers[17] = {{.done = 0}};

	(void)state;
	take_with_reply(rig, 1, "-BUSY\r\n");
	pass_time(rig, 60 * MS);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	for (int i = 0; i < 17; i++)
		take_one(rig, &askers[i], 2 + (uint64_t)i, 1);
	assert_failed(&askers[16]);
	for (int i = 0; i < 16; i++)
		wr_central_cancel(rig->central, &askers[i].ask);
	run_turn(rig);
	take_with_reply(rig, 30, taken(true, 9, 0, 1));
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* ---- timeouts ---- */

static void test_timeout(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	uint64_t since = rig->mono_ns;

	(void)state;
	take_one(rig, &asker, 1, 1);
	pass_time(rig, 20 * MS - 1);
	assert_pending(&asker);
	pass_time(rig, 1);
	assert_failed(&asker);
	assert_int_equal(asker.done_at_ns - since, 20 * MS);
	assert_int_equal(faults(rig, WR_FAULT_TIMEOUT), 1);
	assert_int_equal(info(rig)->counts.failed, 1);
	reply(peer, taken(true, 9, 0, 1)); /* the late reply shows that the unit was taken */
	assert_int_equal(asker.done, 1);
	assert_int_equal(info(rig)->counts.late, 1);
	assert_null(next_command(peer));
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* When an ask times out, the limits that were answered keep their answers, and the others fail. */
static void test_timeout_of_one_group(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {{.key = 1, .cost = 1}, {.key = 2, .cost = 1}};
	struct asker asker = {.done = 0};

	(void)state;
	take(rig, &asker, items, 2);
	run_turn(rig);
	reply(peer, taken(true, 9, 0, 1));
	pass_time(rig, 20 * MS);
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED);
	assert_int_equal(flags_of(&asker, 1), WR_ANSWER_FAILED);
	rig_free(rig);
}

/* A merged call counts as one timeout. Five calls open the breaker. */
static void test_timeouts_open(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[12] = {{.done = 0}};

	(void)state;
	for (int i = 0; i < 8; i++)
		take_one(rig, &askers[i], 1, 1);
	pass_time(rig, 20 * MS);
	assert_int_equal(faults(rig, WR_FAULT_TIMEOUT), 1);
	assert_int_equal(info(rig)->counts.failed, 8);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	for (int i = 0; i < 4; i++)
		take_one(rig, &askers[i], 2 + (uint64_t)i, 1);
	pass_time(rig, 20 * MS);
	assert_int_equal(faults(rig, WR_FAULT_TIMEOUT), 5);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	assert_non_null(strstr(rig->logged, "no reply within the timeout"));
	assert_non_null(strstr(rig->logged, "on_store_failure"));
	/* The server was slow, but not down. It answers the PING, which comes after all other
	 * calls, too late to close the breaker. It answers the next PING in time. */
	pass_time(rig, 100 * MS);
	for (int i = 0; i < 5; i++)
		reply(peer, taken(true, 9, 0, 1));
	run_turn(rig);
	assert_null(next_command(peer));
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	assert_int_equal(info(rig)->counts.late, 12);
	for (int i = 0; i < 400 && state_now(rig) == WR_CENTRAL_SHARD_DOWN; i++)
		pass_time(rig, 1 * MS);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	rig_free(rig);
}

/* A connection without a reply for one second is closed and opened again. */
static void test_silence(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	pass_time(rig, 999 * MS);
	assert_ptr_equal(peer_at(rig, 6379), peer);
	pass_time(rig, 2 * MS);
	assert_null(peer->link);
	pass_time(rig, 50 * MS);
	peer = peer_at(rig, 6379);
	assert_non_null(peer);
	take_one(rig, &asker, 2, 1);
	run_turn(rig);
	reply(peer, taken(true, 9, 0, 1));
	assert_admitted(&asker);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* A timeout above one second is also the time after which a silent connection is closed. */
static void test_silence_and_a_longer_timeout(void **state)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	struct wr_central_opts opts = {
		.holder = {0xa, 0xb}, .secret = secret, .timeout_ns = 5000 * MS};
	struct rig *rig = rig_new(URL, &opts);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0}, late = {.done = 0};

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	pass_time(rig, 4999 * MS);
	assert_pending(&asker);
	reply(peer, taken(true, 9, 0, 1));
	assert_admitted(&asker);
	assert_int_equal(faults(rig, WR_FAULT_LOST), 0);
	take_one(rig, &late, 2, 1);
	run_turn(rig);
	pass_time(rig, 5000 * MS);
	assert_failed(&late);
	assert_int_equal(faults(rig, WR_FAULT_TIMEOUT), 1);
	pass_time(rig, 1 * MS);
	assert_null(peer->link);
	rig_free(rig);
}

/* ---- missing scripts ---- */

/* Only the first call that gets NOSCRIPT is repeated with the script's text. */
static void test_noscript(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[3] = {{.done = 0}};

	(void)state;
	for (int i = 0; i < 3; i++)
		take_one(rig, &askers[i], 1 + (uint64_t)i, 1);
	run_turn(rig);
	for (int i = 0; i < 3; i++)
		reply(peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
	run_turn(rig);
	assert_int_equal(peer->waiting, 3);
	assert_memory_equal(peer->commands[0], "EVAL -", 6);
	assert_memory_equal(peer->commands[1], "EVALSHA ", 8);
	assert_memory_equal(peer->commands[2], "EVALSHA ", 8);
	for (int i = 0; i < 3; i++)
		reply(peer, taken(true, 9, 0, 1));
	for (int i = 0; i < 3; i++)
		assert_admitted(&askers[i]);
	assert_int_equal(faults(rig, WR_FAULT_NOSCRIPT), 3);
	assert_int_equal(info(rig)->counts.again, 3);
	/* After SCRIPT FLUSH the script is missing again. */
	take_one(rig, &askers[0], 1, 1);
	run_turn(rig);
	reply(peer, "-NOSCRIPT\r\n");
	run_turn(rig);
	assert_memory_equal(peer->commands[0], "EVAL -", 6);
	rig_free(rig);
}

/* The server never stores the script, so the retries end. */
static void test_noscript_retries_end(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	int times = 0;

	(void)state;
	take_one(rig, &asker, 1, 1);
	for (run_turn(rig); peer->waiting; run_turn(rig), times++)
		reply(peer, "-NOSCRIPT\r\n");
	assert_failed(&asker);
	assert_int_equal(times, 9);
	rig_free(rig);
}

/* A call that Redis has not executed is not repeated if its ask was cancelled. */
static void test_noscript_after_cancel(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	wr_central_cancel(rig->central, &asker.ask);
	reply(peer, "-NOSCRIPT\r\n");
	assert_null(next_command(peer));
	rig_free(rig);
}

/* ---- bounds and losses ---- */

static void test_too_many_calls(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker *askers = calloc(8200, sizeof *askers);

	(void)state;
	rig_trouble(rig, 6379)->silent = true;
	rig_start(rig, NULL);
	for (int i = 0; i < 8200; i++)
		take_one(rig, &askers[i], 1 + (uint64_t)i, 1);
	assert_pending(&askers[8191]);
	for (int i = 8192; i < 8200; i++)
		assert_failed(&askers[i]);
	assert_int_equal(faults(rig, WR_FAULT_FULL), 8);
	take_one(rig, &askers[8199], 8200, 1); /* a take cannot join a call that was rejected */
	assert_failed(&askers[8199]);
	rig_free(rig);
	for (int i = 0; i < 8200; i++)
		assert_failed(&askers[i]);
	free(askers);
}

/* A give-back is sent once. A give-back that cannot be sent, or whose reply is lost, is counted as
 * lost. */
static void test_lost_returns(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {{.key = 1, .cost = -1, .id = "a"},
			       {.key = 1, .cost = -1, .id = "b"}};

	(void)state;
	send_question(rig, WR_QUESTION_RETURN, items, 2);
	run_turn(rig);
	cut_peer(peer, "reset");
	assert_int_equal(info(rig)->counts.returns_lost, 2);
	pass_time(rig, 1000 * MS);
	peer = peer_at(rig, 6379);
	assert_null(next_command(peer));
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer, "reset");
	send_question(rig, WR_QUESTION_RETURN, items, 1);
	assert_int_equal(info(rig)->counts.returns_lost, 3);
	send_question(rig, WR_QUESTION_RESET, items, 1);
	assert_non_null(strstr(rig->logged, "could not be reset"));
	rig_free(rig);
}

static void test_outside_window(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	int64_t values[1][5] = {{V_OUTSIDE, 0, 0, 0, 0}};

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	reply(peer, taken_all(1, values));
	assert_failed(&asker);
	assert_int_equal(faults(rig, WR_FAULT_WINDOW), 1);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_error_replies),
		cmocka_unit_test(test_failures_in_a_row),
		cmocka_unit_test(test_half_open),
		cmocka_unit_test(test_trial_fails),
		cmocka_unit_test(test_trials_not_used_up),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_timeout_of_one_group),
		cmocka_unit_test(test_timeouts_open),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_silence_and_a_longer_timeout),
		cmocka_unit_test(test_noscript),
		cmocka_unit_test(test_noscript_retries_end),
		cmocka_unit_test(test_noscript_after_cancel),
		cmocka_unit_test(test_too_many_calls),
		cmocka_unit_test(test_lost_returns),
		cmocka_unit_test(test_outside_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
