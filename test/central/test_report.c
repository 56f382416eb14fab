/* Reports of units that were admitted while a shard was unavailable. Reports are stored, added up,
 * and counted once. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"
#define REPORTED "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"

/* Makes a rig whose server is unavailable from the beginning. */
static struct rig *begin_unavailable(void)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	/* The timeout is long, so that the test may reply late. */
	struct wr_central_opts opts = {
		.holder = {0xa, 0xb}, .secret = secret, .timeout_ns = 900 * MS};
	struct rig *rig = rig_begin(URL);

	rig_trouble(rig, 6379)->refuses = true;
	rig_start(rig, &opts);
	return rig;
}

static void come_back(struct rig *rig)
{
	rig_trouble(rig, 6379)->refuses = false;
	for (int i = 0; i < 250 && !peer_at(rig, 6379); i++)
		pass_time(rig, 10 * MS);
	assert_non_null(peer_at(rig, 6379));
	pass_time(rig, 200 * MS);
}

/* Returns the sequence number of the report, which follows these arguments and the time of the
 * decision. */
static uint64_t seq_in(const char *command, const char *behind)
{
	const char *at = strstr(command, behind);
	char *end;

	assert_non_null(at);
	(void)strtoull(at + strlen(behind), &end, 10); /* skips the time of the decision */
	return strtoull(end, NULL, 10);
}

static void report(struct rig *rig, uint64_t key, const char *id, int64_t cost, uint64_t decided_us)
{
	struct item item = {.key = key, .id = id, .cost = cost, .decided_us = decided_us};

	send_question(rig, WR_QUESTION_REPORT, &item, 1);
}

/* In the arguments after the keys, 643 is fixed window (3), decided (128) and report (512). A
 * counter occurs once in a call. Its units of the next window have a call and a sequence number of
 * their own. */
static void test_added_up(void **state)
{
	struct rig *rig = begin_unavailable();
	const char *command;
	uint64_t seq;

	(void)state;
	report(rig, 7, "fixed_window/1m", 1, NOW_US);
	report(rig, 7, "fixed_window/1m", 2, NOW_US + 1000000);
	report(rig, 7, "other", 8, NOW_US);
	/* These units belong to the next window. */
	report(rig, 7, "fixed_window/1m", 4, NOW_US + 60000000);
	assert_int_equal(info(rig)->reports_waiting, 3);
	come_back(rig);
	command = next_command(peer_at(rig, 6379));
	assert_non_null(command);
	assert_non_null(strstr(command, " 3 weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m "
					"weir:1:{HAAAAAAAAAA-_________D}:other "
					"weir:1:{HAAAAAAAAAA-_________D}:r:"
					"000000000000000a000000000000000b-0 "));
	assert_non_null(strstr(command, " 643 3 10 60000000 1700000041000000 "));
	/* The number is higher than all earlier numbers. */
	seq = seq_in(command, " 643 3 10 60000000 ");
	assert_int_equal(seq, NOW_US + 1);
	assert_non_null(strstr(command, " 643 8 10 60000000 1700000040000000 "));
	assert_null(next_command(peer_at(rig, 6379)));
	reply(peer_at(rig, 6379), "*11\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1"
				  "\r\n:1\r\n");
	assert_int_equal(info(rig)->counts.reported, 2);
	pass_time(rig, 1 * MS);
	command = next_command(peer_at(rig, 6379));
	assert_non_null(command);
	assert_non_null(strstr(command, " 643 4 10 60000000 1700000100000000 "));
	assert_int_equal(seq_in(command, " 643 4 10 60000000 "), seq + 1);
	reply(peer_at(rig, 6379), REPORTED);
	assert_int_equal(info(rig)->counts.reported, 3);
	assert_int_equal(info(rig)->reports_waiting, 0);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* Times in reports are by the clock of Redis, which is an hour ahead in this test. */
static void test_clock(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	char ahead[128];

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	snprintf(ahead, sizeof ahead, "*6\r\n:%lu\r\n:5\r\n:9\r\n:0\r\n:0\r\n:0\r\n",
		 rig->now_ns / 1000 + 3600000000);
	reply(peer, ahead);
	assert_admitted(&asker);
	report(rig, 7, NULL, 1, NOW_US);
	pass_time(rig, 250 * MS);
	assert_non_null(strstr(next_command(peer), " 643 1 10 60000000 1700003640000000 "));
	rig_free(rig);
}

/* The reply is lost. The report is sent again with the same number, so that it counts once. Later
 * units wait and get the next number. */
static void test_repeated_after_lost_reply(void **state)
{
	struct rig *rig = begin_unavailable();
	uint64_t seq[3];
	const char *command;

	(void)state;
	report(rig, 7, "a", 1, NOW_US);
	come_back(rig);
	command = next_command(peer_at(rig, 6379));
	seq[0] = seq_in(command, " 643 1 10 60000000 ");
	report(rig, 7, "a", 2, NOW_US);
	pass_time(rig, 300 * MS);
	assert_null(next_command(peer_at(rig, 6379)));
	cut_peer(peer_at(rig, 6379), "reset");
	come_back(rig);
	command = next_command(peer_at(rig, 6379));
	seq[1] = seq_in(command, " 643 1 10 60000000 ");
	assert_int_equal(seq[0], seq[1]);
	assert_null(next_command(peer_at(rig, 6379)));
	reply(peer_at(rig, 6379), REPORTED);
	pass_time(rig, 300 * MS);
	command = next_command(peer_at(rig, 6379));
	seq[2] = seq_in(command, " 643 2 10 60000000 ");
	assert_int_equal(seq[2], seq[1] + 1);
	reply(peer_at(rig, 6379), REPORTED);
	assert_int_equal(info(rig)->counts.reported, 2);
	assert_int_equal(info(rig)->counts.reports_lost, 0);
	rig_free(rig);
}

/* Redis forgets the number of a report after a minute. A report that was not confirmed until then
 * is lost. */
static void test_too_late_to_repeat(void **state)
{
	struct rig *rig = begin_unavailable();

	(void)state;
	report(rig, 7, "a", 1, NOW_US + 40000000);
	come_back(rig);
	assert_non_null(next_command(peer_at(rig, 6379)));
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer_at(rig, 6379), "reset");
	pass_time(rig, 49000 * MS);
	assert_int_equal(info(rig)->reports_waiting, 1);
	pass_time(rig, 1500 * MS);
	assert_int_equal(info(rig)->reports_waiting, 0);
	assert_int_equal(info(rig)->counts.reports_lost, 1);
	rig_free(rig);
}

/* The outage was longer than the window, so there is nothing to report. */
static void test_stale(void **state)
{
	struct rig *rig = begin_unavailable();

	(void)state;
	report(rig, 7, "a", 1, NOW_US);
	pass_time(rig, 119000 * MS);
	assert_int_equal(info(rig)->reports_waiting, 1);
	pass_time(rig, 1500 * MS);
	assert_int_equal(info(rig)->reports_waiting, 0);
	assert_int_equal(info(rig)->counts.reports_stale, 1);
	rig_free(rig);
}

static void test_too_many_counters(void **state)
{
	struct rig *rig = begin_unavailable();

	(void)state;
	for (uint64_t key = 0; key < 16390; key++)
		report(rig, key, NULL, 1, NOW_US);
	assert_int_equal(info(rig)->reports_waiting, 16384);
	assert_int_equal(info(rig)->counts.reports_lost, 6);
	report(rig, 5, NULL, 1, NOW_US); /* adding to a stored counter needs no room */
	assert_int_equal(info(rig)->counts.reports_lost, 6);
	rig_free(rig);
}

/* At most 512 calls are in flight. The first 16 of them are trial calls. */
static void test_many(void **state)
{
	struct rig *rig = begin_unavailable();
	int rounds = 0;

	(void)state;
	for (uint64_t key = 0; key < 2000; key++)
		report(rig, key, NULL, 1, NOW_US);
	come_back(rig);
	assert_int_equal(peer_at(rig, 6379)->waiting, 16);
	while (info(rig)->reports_waiting && rounds++ < 100) {
		struct peer *peer = peer_at(rig, 6379);

		assert_true(peer->waiting <= 512);
		while (peer->waiting)
			reply(peer, REPORTED);
		pass_time(rig, 200 * MS);
	}
	assert_int_equal(info(rig)->counts.reported, 2000);
	assert_in_range(rounds, 4, 8);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_added_up),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_repeated_after_lost_reply),
		cmocka_unit_test(test_too_late_to_repeat),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_too_many_counters),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
