/* Late takes: takes that Redis executes after their asks have timed out are counted once, or given
 * back once. A Redis that is always late counts as unavailable. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"
#define TIMEOUT (20 * MS)
#define DONE "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"

static void report_one(struct rig *rig, uint64_t key, int64_t cost, uint64_t decided_us)
{
	struct item item = {.key = key, .cost = cost, .decided_us = decided_us};

	send_question(rig, WR_QUESTION_REPORT, &item, 1);
}

/* Sends a take of this cost that times out and is still in flight. Its command is consumed. */
static struct peer *time_out_take(struct rig *rig, struct asker *asker, uint64_t key, int64_t cost)
{
	take_one(rig, asker, key, cost);
	run_turn(rig);
	pass_time(rig, TIMEOUT);
	assert_failed(asker);
	assert_non_null(next_command(peer_at(rig, 6379)));
	return peer_at(rig, 6379);
}

/* The node's share admitted the request, and a report is queued. The late reply shows that Redis
 * has counted the request, so the report is not sent. */
static void test_late_take_reduces_report(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	report_one(rig, 7, 1, NOW_US);
	report_one(rig, 7, 2, NOW_US); /* a report of a request that Redis was not asked about */
	assert_int_equal(info(rig)->reports_waiting, 1);
	pass_time(rig, 10 * MS);
	reply(peer, taken(true, 9, 0, 1));
	assert_int_equal(info(rig)->counts.late, 1);
	pass_time(rig, 500 * MS);
	/* 643 is fixed window (3), decided (128) and report (512). */
	assert_non_null(strstr(next_command(peer), " 643 2 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

static void test_late_take_replaces_report(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 3);

	(void)state;
	report_one(rig, 7, 3, NOW_US);
	reply(peer, taken(true, 7, 0, 1));
	assert_int_equal(info(rig)->reports_waiting, 0);
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* Another process of the node decides and reports, so its report comes after the late reply. */
static void test_report_after_late_take(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	reply(peer, taken(true, 9, 0, 1));
	pass_time(rig, 100 * MS);
	report_one(rig, 7, 1, NOW_US);
	assert_int_equal(info(rig)->reports_waiting, 0);
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* on_store_failure refused the request, so the units are given back. The give-back is sent once,
 * even if it fails. Its flags 131 are fixed window (3) and decided (128). */
static void test_given_back_once(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 2);

	(void)state;
	reply(peer, taken(true, 8, 0, 1));
	pass_time(rig, 199 * MS);
	assert_null(next_command(peer));
	pass_time(rig, 2 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -2 10 60000000 "));
	assert_null(next_command(peer));
	cut_peer(peer, "reset");
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer_at(rig, 6379)));
	assert_int_equal(info(rig)->counts.returns_lost, 1);
	rig_free(rig);
}

/* A late reply that refuses has taken no units, so nothing is given back. */
static void test_a_late_refusal(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	report_one(rig, 7, 1, NOW_US);
	reply(peer, taken(false, 0, 1000000, 0));
	pass_time(rig, 300 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

/* The report was already sent when the late reply comes. The request is counted twice then, so the
 * take is given back. */
static void test_late_take_after_sent_report(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	report_one(rig, 7, 1, NOW_US);
	pass_time(rig, 210 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	reply(peer, taken(true, 9, 0, 1));
	reply(peer, DONE);
	pass_time(rig, 1000 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -1 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

/* Redis took the unit in one window, and the node admitted the request in the next window. The take
 * is given back, and the request is reported. */
static void test_late_take_in_another_window(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	report_one(rig, 7, 1, NOW_US + 60000000);
	reply(peer, taken(true, 9, 0, 1));
	pass_time(rig, 300 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -1 10 60000000 "));
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	rig_free(rig);
}

/* A limit with count_rejected keeps the units of a refused request. */
static void test_count_rejected(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item item = {.key = 7, .cost = 1, .flags = WEIR_COUNT_REJECTED};
	struct asker asker = {.done = 0};

	(void)state;
	take(rig, &asker, &item, 1);
	run_turn(rig);
	pass_time(rig, TIMEOUT);
	assert_non_null(next_command(peer_at(rig, 6379)));
	reply(peer_at(rig, 6379), taken(true, 9, 0, 1));
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer_at(rig, 6379)));
	rig_free(rig);
}

/* The counter was reset before the late take is given back, so there is nothing to give back. */
static void test_reset(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct item item = {.key = 7};
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	reply(peer, taken(true, 9, 0, 1));
	send_question(rig, WR_QUESTION_RESET, &item, 1);
	run_turn(rig);
	assert_non_null(next_command(peer));
	reply(peer, ":1\r\n");
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* ---- reports before takes ---- */

/* Units were admitted while Redis was unavailable. Redis is back before the 200 ms are over for
 * which a report waits, and would grant the units a second time. So the report is sent before the
 * next take of its key. */
static void test_report_precedes_take(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker other = {.done = 0}, asker = {.done = 0};
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	report_one(rig, 7, 5, NOW_US);
	take_one(rig, &other, 8, 1);
	run_turn(rig);
	assert_non_null(strstr(next_command(peer), " 1 10 60000000"));
	/* A take of another key does not cause the report to be sent. */
	assert_null(next_command(peer));
	reply(peer, taken(true, 9, 0, 1));
	take_one(rig, &asker, 7, 1);
	run_turn(rig);
	assert_non_null(strstr(next_command(peer), " 643 5 10 60000000 "));
	assert_null(strstr(next_command(peer), " 643 "));
	assert_null(next_command(peer));
	reply(peer, DONE);
	reply(peer, taken(true, 4, 0, 1));
	assert_int_equal(asker.done, 1);
	assert_int_equal(info(rig)->reports_waiting, 0);
	pass_time(rig, 500 * MS);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* Redis executes a late take before the next take. So the report waits for the late reply. */
static void test_report_waits_for_late_take(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0}, next = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	report_one(rig, 7, 1, NOW_US);
	take_one(rig, &next, 7, 1);
	run_turn(rig);
	assert_null(strstr(next_command(peer), " 643 "));
	assert_null(next_command(peer));
	reply(peer, taken(true, 9, 0, 1));
	assert_int_equal(info(rig)->reports_waiting, 0);
	reply(peer, taken(true, 8, 0, 1));
	pass_time(rig, 500 * MS);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* The ask was cancelled, because a client of HTTP or RESP closed its connection or a gRPC deadline
 * passed. Redis replies after the timeout. The units are given back at once, and only once. A
 * report of another request is not changed. */
static void test_cancelled_then_late(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	take_one(rig, &asker, 7, 1);
	run_turn(rig);
	assert_non_null(next_command(peer));
	wr_central_cancel(rig->central, &asker.ask);
	pass_time(rig, TIMEOUT + 10 * MS);
	report_one(rig, 7, 1, NOW_US);
	reply(peer, taken(true, 9, 0, 1));
	run_turn(rig);
	assert_non_null(strstr(next_command(peer), " 131 -1 10 60000000 "));
	reply(peer, taken(true, 9, 0, 1));
	pass_time(rig, 1000 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	assert_null(next_command(peer));
	assert_int_equal(asker.done, 0);
	rig_free(rig);
}

/* The ask timed out and is cancelled afterwards. The cancellation has no effect, and there is one
 * give-back. */
static void test_late_then_cancelled(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	wr_central_cancel(rig->central, &asker.ask);
	reply(peer, taken(true, 9, 0, 1));
	pass_time(rig, 1000 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -1 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

/* ---- late takes that another process of the node sends, because its ask timed out ---- */

static void send_late(struct rig *rig, uint64_t key, int64_t cost, uint64_t decided_us)
{
	struct item item = {.key = key, .cost = cost, .decided_us = decided_us};

	send_question(rig, WR_QUESTION_LATE, &item, 1);
}

/* A worker of nginx admitted three requests by the node's share. Redis took the units of two of
 * them late. */
static void test_late_question_after_report(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	report_one(rig, 7, 3, NOW_US);
	send_late(rig, 7, 1, NOW_US + 100);
	send_late(rig, 7, 1, NOW_US + 100);
	pass_time(rig, 1000 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

static void test_late_question_before_report(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	send_late(rig, 7, 1, NOW_US + 100);
	pass_time(rig, 100 * MS);
	report_one(rig, 7, 1, NOW_US);
	assert_int_equal(info(rig)->reports_waiting, 0);
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* There is no report, or the report was already sent. The take is given back once, with its own
 * time. */
static void test_late_question_without_report(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	send_late(rig, 7, 2, NOW_US + 100);
	pass_time(rig, 199 * MS);
	assert_null(next_command(peer));
	pass_time(rig, 2 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -2 10 60000000 1700000040000100"));
	reply(peer, taken(true, 9, 0, 1));
	report_one(rig, 7, 1, NOW_US);
	pass_time(rig, 210 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	send_late(rig, 7, 1, NOW_US + 100);
	reply(peer, DONE);
	pass_time(rig, 1000 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -1 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

/* Redis took the unit after the end of a window, and the node admitted the request before. The take
 * is given back, and the request is reported. */
static void test_late_question_in_another_window(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	report_one(rig, 7, 1, NOW_US);
	send_late(rig, 7, 1, NOW_US + 60000000);
	pass_time(rig, 300 * MS);
	assert_non_null(strstr(next_command(peer), " 131 -1 10 60000000 1700000100000000"));
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 "));
	assert_null(next_command(peer));
	rig_free(rig);
}

/* A late take without a time or without units is malformed. */
static void test_late_question_malformed(void **state)
{
	struct rig *rig = rig_new(URL, NULL);

	(void)state;
	send_late(rig, 7, 1, 0);
	send_late(rig, 7, 0, NOW_US);
	send_late(rig, 7, -1, NOW_US);
	pass_time(rig, 1000 * MS);
	assert_null(next_command(peer_at(rig, 6379)));
	rig_free(rig);
}

/* ---- the breaker ---- */

/* The round trip takes 30 ms and the timeout is 20 ms: the fifth call opens the breaker, and the
 * late replies do not close it. A request comes every 5 ms for one second. The fifth call is late
 * at 40 ms, so 8 of 200 requests are sent. */
static void test_always_late(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[200] = {{.done = 0}};
	uint64_t due_ns[200] = {0};
	int sent = 0, answered = 0;

	(void)state;
	rig_trouble(rig, 6379)->ping = ""; /* the probes are answered late as well */
	for (int i = 0; i < 200; i++) {
		take_one(rig, &askers[i], 1000 + (uint64_t)i, 1);
		run_turn(rig);
		while (next_command(peer))
			due_ns[sent++] = rig->mono_ns + 30 * MS;
		pass_time(rig, 5 * MS);
		for (; answered < sent && due_ns[answered] <= rig->mono_ns; answered++)
			reply(peer, taken(true, 9, 0, 1));
	}
	assert_int_equal(sent, 8);
	assert_int_equal(answered, 8);
	assert_int_equal(info(rig)->counts.opened, 1);
	assert_int_equal(info(rig)->counts.late, 8);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_DOWN);
	rig_free(rig);
}

/* Heartbeats have the same timeout, although no caller waits for them. Five heartbeats without a
 * reply open the breaker. The silent connection is closed after a second, and the heartbeat in
 * flight fails. */
static void test_heartbeats_time_out(void **state)
{
	static const struct wr_central_opts chief = {.chief = true, .holder = {0xa, 0xb}};
	struct rig *rig = rig_new(URL, &chief);
	uint64_t before = faults(rig, WR_FAULT_TIMEOUT);

	(void)state;
	assert_int_equal(before, 0);
	pass_time(rig, 1900 * MS);
	rig_trouble(rig, 6379)->mute = true;
	pass_time(rig, 119 * MS);
	assert_int_equal(faults(rig, WR_FAULT_TIMEOUT), 0);
	pass_time(rig, 2 * MS);
	assert_int_equal(faults(rig, WR_FAULT_TIMEOUT), 1);
	rig_free(rig);
}

/* A reply that is half a second late is not used to estimate the clock of Redis. So reports keep
 * their time. */
static void test_late_reply_sets_no_clock(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct asker asker = {.done = 0};
	struct peer *peer = time_out_take(rig, &asker, 7, 1);

	(void)state;
	pass_time(rig, 500 * MS);
	reply(peer, taken(false, 0, 1000000, 0)); /* the reply is 520 ms old */
	report_one(rig, 8, 1, NOW_US + 520000);
	pass_time(rig, 300 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 1700000040520000 "));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_take_reduces_report),
		cmocka_unit_test(test_late_take_replaces_report),
		cmocka_unit_test(test_report_after_late_take),
		cmocka_unit_test(test_given_back_once),
		cmocka_unit_test(test_a_late_refusal),
		cmocka_unit_test(test_late_take_after_sent_report),
		cmocka_unit_test(test_late_take_in_another_window),
		cmocka_unit_test(test_count_rejected),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_report_precedes_take),
		cmocka_unit_test(test_report_waits_for_late_take),
		cmocka_unit_test(test_cancelled_then_late),
		cmocka_unit_test(test_late_then_cancelled),
		cmocka_unit_test(test_late_question_after_report),
		cmocka_unit_test(test_late_question_before_report),
		cmocka_unit_test(test_late_question_without_report),
		cmocka_unit_test(test_late_question_in_another_window),
		cmocka_unit_test(test_late_question_malformed),
		cmocka_unit_test(test_always_late),
		cmocka_unit_test(test_heartbeats_time_out),
		cmocka_unit_test(test_late_reply_sets_no_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
