/* Questions and their answers on one server without faults. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"

/* Returns the arguments after EVALSHA and the hash. */
static const char *args_of(const char *command)
{
	char begin[64];

	assert_non_null(command);
	snprintf(begin, sizeof begin, "EVALSHA %s ", wr_redis_script_take.sha1);
	assert_memory_equal(command, begin, strlen(begin));
	return command + strlen(begin);
}

static void test_one_take(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 7, 1);
	assert_pending(&asker);
	/* The key contains the hash in 22 letters, lowest bits first: 7 in the lower word, and the
	 * complement of 7 in the upper word. */
	assert_string_equal(args_of(next_command(peer)),
			    "1 weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m 3 1 10 60000000");
	reply(peer, taken(true, 9, 0, 1));
	assert_admitted(&asker);
	assert_int_equal(asker.answers[0].limit, 10);
	assert_int_equal(asker.answers[0].remaining, 9);
	assert_int_equal(asker.answers[0].reset_after_ns, 60000 * MS);
	assert_int_equal(info(rig)->counts.asked, 1);
	assert_int_equal(info(rig)->counts.admitted, 1);
	assert_int_equal(info(rig)->counts.calls, 1);
	rig_free(rig);
}

static void test_refused(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 7, 1);
	run_turn(rig);
	reply(peer, taken(false, 0, 2500000, 0));
	assert_refused(&asker);
	assert_int_equal(asker.answers[0].retry_after_ns, 2500 * MS);
	assert_int_equal(info(rig)->counts.refused, 1);
	rig_free(rig);
}

/* The limits of one key share a call, and each other key has its own call. All calls are sent in
 * one write. */
static void test_groups(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {{.key = 1, .cost = 1, .id = "a"},
			       {.key = 2, .cost = 1, .id = "b"},
			       {.key = 1, .cost = 1, .id = "c"},
			       {.key = 1, .cost = 1, .id = "d", .group = 40}};
	int64_t values[][5] = {{V_ADMITTED, 4, 0, 1, 0}, {0, 0, 3000000, 2, 0}};
	struct asker asker = {.done = 0};
	const char *command;
	int writes = rig->writes;

	(void)state;
	take(rig, &asker, items, 4);
	command = args_of(next_command(peer));
	assert_non_null(strstr(command, "2 weir:1:{BAAAAAAAAA"));
	assert_non_null(strstr(command, "}:a weir:1:{BAAAAAAAAA"));
	assert_non_null(strstr(command, "}:c 3 1 10"));
	assert_non_null(strstr(args_of(next_command(peer)), "}:b 3 1 10"));
	assert_non_null(strstr(args_of(next_command(peer)), "}:d 3 1 10"));
	assert_null(next_command(peer));
	assert_int_equal(rig->writes, writes + 1);
	reply(peer, taken_all(2, values));
	reply(peer, taken(true, 3, 0, 1));
	assert_pending(&asker);
	reply(peer, taken(true, 2, 0, 1));
	/* The limit admits but nothing was taken, because another limit of its group refused. */
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN);
	assert_int_equal(flags_of(&asker, 1), WR_ANSWER_ADMITTED);
	assert_int_equal(flags_of(&asker, 2), 0);
	assert_int_equal(asker.answers[2].retry_after_ns, 3000 * MS);
	assert_int_equal(flags_of(&asker, 3), WR_ANSWER_ADMITTED);
	rig_free(rig);
}

/* Five takes of one batch are one call. Three are admitted. After the first, 2 times the cost
 * remain in addition, after the second 1 time, after the third nothing. */
static void test_merged(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[6] = {{.done = 0}};

	(void)state;
	for (int i = 0; i < 5; i++)
		take_one(rig, &askers[i], 7, 2);
	take_one(rig, &askers[5], 7, 1); /* a take with another cost has a call of its own */
	assert_string_equal(strstr(args_of(next_command(peer)), "1m "), "1m 259 2 10 60000000 5");
	assert_string_equal(strstr(args_of(next_command(peer)), "1m "), "1m 3 1 10 60000000");
	assert_null(next_command(peer));
	reply(peer, taken(true, 4, 1000000, 3));
	for (int i = 0; i < 3; i++) {
		assert_admitted(&askers[i]);
		assert_int_equal(askers[i].answers[0].remaining, 4 + (2 - i) * 2);
	}
	for (int i = 3; i < 5; i++) {
		assert_refused(&askers[i]);
		assert_int_equal(askers[i].answers[0].remaining, 4);
		assert_int_equal(askers[i].answers[0].retry_after_ns, 1000 * MS);
	}
	assert_pending(&askers[5]);
	reply(peer, taken(true, 3, 0, 1));
	assert_admitted(&askers[5]);
	assert_int_equal(info(rig)->counts.calls, 2);
	assert_int_equal(info(rig)->counts.merged, 4);
	rig_free(rig);
}

/* These takes are not merged: cost 0, leaky buckets, soft limits, limits that count rejected
 * requests, other limits, and other batches. */
static void test_not_merged(void **state)
{
	static const struct item kinds[] = {
		{.key = 1, .cost = 0},
		{.key = 2, .cost = 1, .algorithm = WEIR_LEAKY_BUCKET},
		{.key = 3, .cost = 1, .soft_ceiling = 12},
		{.key = 4, .cost = 1, .flags = WEIR_COUNT_REJECTED},
	};
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker a = {.done = 0}, b = {.done = 0};
	struct item other = {.key = 5, .cost = 1, .limit = 11};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		take(rig, &a, &kinds[i], 1);
		take(rig, &b, &kinds[i], 1);
		assert_non_null(next_command(peer));
		assert_non_null(next_command(peer));
		reply(peer, taken(true, 3, 0, 1));
		reply(peer, taken(true, 3, 0, 1));
		assert_int_equal(a.done, 1);
		assert_int_equal(b.done, 1);
	}
	take_one(rig, &a, 5, 1);
	take(rig, &b, &other, 1);
	assert_non_null(next_command(peer));
	assert_non_null(next_command(peer));
	reply(peer, taken(true, 3, 0, 1));
	reply(peer, taken(true, 3, 0, 1));
	take_one(rig, &a, 6, 1);
	assert_non_null(next_command(peer));
	take_one(rig, &b, 6, 1);
	assert_non_null(next_command(peer));
	assert_int_equal(info(rig)->counts.merged, 0);
	rig_free(rig);
	assert_failed(&a);
	assert_failed(&b);
}

/* A refusal is reused without asking Redis, for as long as it lasts but for at most a second. */
static void test_refusal_remembered(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	struct item raised = {.key = 7, .cost = 2, .limit = 20};

	(void)state;
	take_one(rig, &asker, 7, 2);
	run_turn(rig);
	reply(peer, taken(false, 1, 30000000, 0));
	pass_time(rig, 400 * MS);
	take_one(rig, &asker, 7, 2);
	assert_refused(&asker); /* refused without a call */
	assert_int_equal(asker.answers[0].retry_after_ns, 29600 * MS);
	assert_int_equal(asker.answers[0].remaining, 1);
	take_one(rig, &asker, 7, 3); /* a higher cost is refused as well */
	assert_refused(&asker);
	take_one(rig, &asker, 7, 1); /* a lower cost may be admitted */
	assert_pending(&asker);
	run_turn(rig);
	reply(peer, taken(true, 0, 0, 1));
	assert_admitted(&asker);
	take(rig, &asker, &raised, 1); /* a raised limit is not remembered, so Redis is asked */
	assert_pending(&asker);
	run_turn(rig);
	reply(peer, taken(true, 8, 0, 1));
	pass_time(rig, 599 * MS);
	take_one(rig, &asker, 7, 2);
	assert_refused(&asker);
	pass_time(rig, 1 * MS);
	take_one(rig, &asker, 7, 2); /* the second is over, so Redis is asked */
	assert_pending(&asker);
	run_turn(rig);
	reply(peer, taken(false, 0, 200000, 0));
	pass_time(rig, 199 * MS);
	take_one(rig, &asker, 7, 2);
	assert_refused(&asker);
	assert_int_equal(asker.answers[0].retry_after_ns, 1 * MS);
	pass_time(rig, 1 * MS);
	take_one(rig, &asker, 7, 2);
	assert_pending(&asker);
	assert_int_equal(info(rig)->counts.remembered, 4);
	rig_free(rig);
}

/* Redis may have refused as soon as the call was sent. So a refusal that arrives late is reused
 * only for the rest of its time. */
static void test_refusal_remembered_from_sending(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 7, 2);
	run_turn(rig);
	pass_time(rig, 10 * MS);
	reply(peer, taken(false, 1, 100000, 0));
	assert_refused(&asker);
	assert_int_equal(asker.answers[0].retry_after_ns, 100 * MS);
	pass_time(rig, 89 * MS);
	take_one(rig, &asker, 7, 2);
	assert_refused(&asker);
	/* Not shorter than the wait that Redis announced. */
	assert_int_equal(asker.answers[0].retry_after_ns, 11 * MS);
	pass_time(rig, 1 * MS);
	take_one(rig, &asker, 7, 2);
	assert_pending(&asker);
	run_turn(rig);
	pass_time(rig, 10 * MS);
	reply(peer, taken(false, 1, 10000, 0)); /* the refusal has expired when it arrives */
	assert_refused(&asker);
	take_one(rig, &asker, 7, 2);
	assert_pending(&asker);
	assert_int_equal(info(rig)->counts.remembered, 1);
	rig_free(rig);
}

static void test_forget_refusals(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	uint64_t key[2] = {7, ~7ull}, other[2] = {8, ~8ull};
	struct item item = {.key = 7};

	(void)state;
	for (int i = 0; i < 3; i++) {
		take_one(rig, &asker, 7, 1);
		assert_pending(&asker);
		run_turn(rig);
		reply(peer, taken(false, 0, -1, 0));
		assert_int_equal(asker.answers[0].retry_after_ns, WEIR_NEVER);
		wr_central_forget(rig->central, other);
		take_one(rig, &asker, 7, 1);
		assert_refused(&asker);
		if (i == 0)
			wr_central_forget(rig->central, key);
		if (i == 1)
			wr_central_forget(rig->central, NULL);
		if (i == 2)
			send_question(rig, WR_QUESTION_RESET, &item, 1);
	}
	assert_non_null(strstr(next_command(peer),
			       " 2 weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m "
			       "weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m:r 1027 0 "));
	take_one(rig, &asker, 7, 1);
	assert_pending(&asker);
	rig_free(rig);
}

/* If an enforced limit is known to refuse, Redis is not asked about the other limits. Redis is
 * asked if one of the limits counts rejected requests. The refusal of a limit that is only counted
 * does not decide on other limits. */
static void test_refusal_remembered_by_group(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	struct item both[] = {{.key = 1, .cost = 1}, {.key = 2, .cost = 1, .limit = 5}};
	struct item counted[] = {{.key = 1, .cost = 1, .group = 40}, {.key = 2, .cost = 1}};
	struct item counting[] = {{.key = 1, .cost = 1},
				  {.key = 3, .cost = 1, .flags = WEIR_COUNT_REJECTED}};

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	reply(peer, taken(false, 0, 5000000, 0));
	take(rig, &asker, both, 2);
	assert_refused(&asker);
	assert_int_equal(flags_of(&asker, 1), WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN);
	assert_int_equal(asker.answers[1].limit, 5);
	assert_int_equal(asker.answers[1].remaining, 5);
	assert_null(next_command(peer));
	take(rig, &asker, counting, 2);
	assert_pending(&asker);
	assert_non_null(next_command(peer));
	assert_non_null(next_command(peer));
	reply(peer, taken(false, 0, 5000000, 0));
	reply(peer, taken(true, 3, 0, 1));
	/* No refusal of this limit in its counted group is remembered. */
	take(rig, &asker, counted, 2);
	assert_non_null(next_command(peer));
	assert_non_null(next_command(peer));
	reply(peer, taken(false, 0, 5000000, 0));
	reply(peer, taken(true, 3, 0, 1));
	take(rig, &asker, counted, 2);
	assert_pending(&asker);
	assert_non_null(strstr(next_command(peer), "{CAAAAAAAAA")); /* only key 2 is asked */
	assert_null(next_command(peer));
	reply(peer, taken(true, 2, 0, 1));
	assert_int_equal(flags_of(&asker, 0), 0);
	assert_int_equal(flags_of(&asker, 1), WR_ANSWER_ADMITTED);
	rig_free(rig);
}

/* For questions of cost 0 Redis is always asked. */
static void test_cost_0_is_not_remembered(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		take_one(rig, &asker, 7, 0);
		assert_pending(&asker);
		run_turn(rig);
		reply(peer, taken(false, 0, 5000000, 0));
		assert_refused(&asker);
	}
	take_one(rig, &asker, 7, 1);
	assert_pending(&asker);
	rig_free(rig);
}

/* The call contains the windows before and after the current one. The script uses the window that
 * contains its own time. */
static void test_calendar(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	struct item item = {.key = 7, .cost = 1, .windows = {1000, 2000, 3000, 4000}};

	(void)state;
	take(rig, &asker, &item, 1);
	assert_string_equal(strstr(args_of(next_command(peer)), "1m "),
			    "1m 67 1 10 60000000 1000000000 2000000000 3000000000 4000000000");
	rig_free(rig);
}

/* ---- cancelling ---- */

static void test_cancel(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	int64_t values[1][5] = {{V_ADMITTED | V_TAKEN | V_TIMES, 9, 0, 20000000, 0}};

	(void)state;
	/* Has no effect, because the ask is not in flight. */
	wr_central_cancel(rig->central, &asker.ask);
	take_one(rig, &asker, 7, 3);
	run_turn(rig);
	wr_central_cancel(rig->central, &asker.ask);
	wr_central_cancel(rig->central, &asker.ask);
	assert_int_equal(info(rig)->waiting, 0);
	reply(peer, taken_all(1, values));
	assert_int_equal(asker.done, 0);
	/* The unit is given back with the time at which it was taken. */
	(void)next_command(peer);
	assert_string_equal(strstr(peer->commands[0], "1m:r "),
			    "1m:r 131 -3 10 60000000 1700000040000000");
	reply(peer, taken_all(1, values));
	assert_int_equal(info(rig)->counts.returned, 1);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* An ask that is cancelled before the end of the batch is not sent. */
static void test_cancel_before_writing(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[3] = {{.done = 0}};

	(void)state;
	for (int i = 0; i < 3; i++)
		take_one(rig, &askers[i], 7, 1);
	wr_central_cancel(rig->central, &askers[1].ask);
	assert_string_equal(strstr(args_of(next_command(peer)), "1m "), "1m 259 1 10 60000000 2");
	reply(peer, taken(true, 8, 0, 2));
	assert_admitted(&askers[0]);
	assert_admitted(&askers[2]);
	take_one(rig, &askers[0], 7, 1);
	wr_central_cancel(rig->central, &askers[0].ask);
	take_one(rig, &askers[1], 7, 1);
	assert_string_equal(strstr(args_of(next_command(peer)), "1m "), "1m 3 1 10 60000000");
	reply(peer, taken(true, 7, 0, 1));
	assert_admitted(&askers[1]);
	take_one(rig, &askers[0], 9, 1);
	wr_central_cancel(rig->central, &askers[0].ask);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* In a merged call, asks that still wait get units first. Units that are left are given back for
 * cancelled asks. */
static void test_cancel_merged(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[4] = {{.done = 0}};

	(void)state;
	for (int i = 0; i < 4; i++)
		take_one(rig, &askers[i], 7, 1);
	(void)next_command(peer);
	wr_central_cancel(rig->central, &askers[0].ask);
	wr_central_cancel(rig->central, &askers[1].ask);
	reply(peer, taken(true, 0, 1000000, 3));
	assert_admitted(&askers[2]);
	assert_admitted(&askers[3]);
	assert_int_equal(askers[2].answers[0].remaining, 2);
	assert_non_null(strstr(next_command(peer), "1m:r 131 -1 10"));
	assert_null(next_command(peer)); /* the other cancelled ask was refused */
	rig_free(rig);
	assert_int_equal(askers[0].done, 0);
	assert_int_equal(askers[1].done, 0);
}

/* An ask is cancelled when one of its groups is answered and the other is not. The units of both
 * groups are given back. */
static void test_cancel_half_answered(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	struct item items[] = {{.key = 1, .cost = 1}, {.key = 2, .cost = 1}, {.key = 3, .cost = 1}};

	(void)state;
	take(rig, &asker, items, 3);
	run_turn(rig);
	reply(peer, taken(true, 9, 0, 1));
	reply(peer, taken(false, 0, 1000000, 0));
	assert_pending(&asker);
	wr_central_cancel(rig->central, &asker.ask);
	run_turn(rig);
	assert_int_equal(peer->waiting, 2); /* the third call, and the give-back of the first */
	assert_non_null(strstr(peer->commands[1], "{BAAAAAAAAA"));
	reply(peer, taken(true, 9, 0, 1));
	run_turn(rig);
	assert_int_equal(peer->waiting, 2);
	assert_non_null(strstr(peer->commands[1], "{DAAAAAAAAA"));
	assert_int_equal(asker.done, 0);
	rig_free(rig);
	assert_int_equal(asker.done, 0);
}

/* ---- questions without an answer ---- */

static void test_return(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct item items[] = {{.key = 1, .cost = -2, .decided_us = 5, .id = "a"},
			       {.key = 1, .cost = -2, .decided_us = 6, .id = "b"},
			       {.key = 2, .cost = -1}};

	(void)state;
	send_question(rig, WR_QUESTION_RETURN, items, 3);
	assert_non_null(
		strstr(next_command(peer), "}:b:r 131 -2 10 60000000 5 131 -2 10 60000000 6"));
	assert_non_null(strstr(next_command(peer), "1m:r 3 -1 10 60000000"));
	assert_null(next_command(peer));
	reply(peer, "*11\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n");
	reply(peer, taken(true, 1, 0, 1));
	assert_int_equal(info(rig)->counts.returned, 3);
	assert_int_equal(info(rig)->counts.returns_lost, 0);
	rig_free(rig);
}

/* Malformed questions are rejected. */
static void test_malformed_questions(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item items[] = {{.key = 1, .cost = 1}, {.key = 2, .cost = 1}};
	struct item odd[] = {{.key = 1, .cost = -1}, {.key = 1, .cost = 1, .algorithm = 9}};
	struct asker asker = {.done = 0};
	uint8_t copy[WEIR_QUESTION_MAX];
	const uint8_t *bytes;
	size_t len;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		take(rig, &asker, &odd[i], 1);
		assert_int_equal(asker.done, 1);
		assert_int_equal(asker.len, 0);
	}
	len = question(WR_QUESTION_TAKE, items, 2, &bytes);
	memcpy(copy, bytes, len);
	for (size_t cut_at = 0; cut_at < len; cut_at++) {
		uint8_t *part = malloc(cut_at ? cut_at : 1);

		memcpy(part, copy, cut_at);
		if (cut_at >= 8) {
			uint32_t bytes_field = (uint32_t)cut_at;

			memcpy(part + 4, &bytes_field, 4);
		}
		asker.done = 0;
		wr_central_take(rig->central, &asker.ask, part, cut_at, rig->now_ns, rig->mono_ns);
		assert_int_equal(asker.done, 1);
		assert_int_equal(asker.len, 0);
		wr_central_send(rig->central, part, cut_at, rig->now_ns, rig->mono_ns);
		free(part);
	}
	assert_null(next_command(peer_at(rig, 6379)));
	rig_free(rig);
}

/* ---- reentry ---- */

static struct asker again[2];

static void ask_again(struct asker *asker)
{
	take_one(asker->rig, &again[0], 8, 1);
	wr_central_cancel(asker->rig->central, &again[1].ask);
}

static void test_reentry(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker first = {.then = ask_again};

	(void)state;
	memset(again, 0, sizeof again);
	take_one(rig, &first, 7, 1);
	take_one(rig, &again[1], 7,
		 1); /* joins the same call, and cancels its ask while that call is answered */
	(void)next_command(peer);
	reply(peer, taken(true, 8, 0, 2));
	assert_admitted(&first);
	assert_int_equal(again[1].done, 0);
	(void)next_command(peer);
	assert_int_equal(peer->waiting, 2);
	assert_non_null(strstr(peer->commands[0], "{IAAAAAAAAA"));
	assert_non_null(strstr(peer->commands[1], "1m:r 131 -1 10"));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_take),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_merged),
		cmocka_unit_test(test_not_merged),
		cmocka_unit_test(test_refusal_remembered),
		cmocka_unit_test(test_refusal_remembered_from_sending),
		cmocka_unit_test(test_forget_refusals),
		cmocka_unit_test(test_refusal_remembered_by_group),
		cmocka_unit_test(test_cost_0_is_not_remembered),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_cancel_before_writing),
		cmocka_unit_test(test_cancel_merged),
		cmocka_unit_test(test_cancel_half_answered),
		cmocka_unit_test(test_return),
		cmocka_unit_test(test_malformed_questions),
		cmocka_unit_test(test_reentry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
