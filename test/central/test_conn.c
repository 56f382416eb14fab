/* Connections that are lost, refused or slow, and replies that are malformed. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"

/* ---- connections ---- */

/* Calls in flight fail when the connection is lost. New calls wait for the new connection. */
static void test_connection_lost(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker sent = {.done = 0}, queued = {.done = 0}, after = {.done = 0};

	(void)state;
	take_with_reply(rig, 1, taken(true, 9, 0, 1));
	take_one(rig, &sent, 2, 1);
	run_turn(rig);
	take_one(rig, &queued, 3, 1);
	rig_trouble(rig, 6379)->silent = true;
	cut_peer(peer, "Connection reset by peer");
	assert_failed(&sent);
	assert_int_equal(faults(rig, WR_FAULT_LOST), 1);
	assert_pending(&queued);
	take_one(rig, &after, 4, 1);
	assert_pending(&after);
	rig_trouble(rig, 6379)->silent = false;
	run_turn(rig);
	peer = peer_at(rig, 6379);
	assert_non_null(strstr(next_command(peer), "{DAAAAAAAAA"));
	assert_non_null(strstr(next_command(peer), "{EAAAAAAAAA"));
	reply(peer, taken(true, 9, 0, 1));
	reply(peer, taken(true, 9, 0, 1));
	assert_admitted(&queued);
	assert_admitted(&after);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	assert_string_equal(rig->logged, "");
	assert_int_equal(info(rig)->counts.connects, 2);
	rig_free(rig);
}

/* A connection that is lost before it has answered a question is opened again only after a
 * pause. */
static void test_connection_lost_before_use(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	int before;

	(void)state;
	cut_peer(peer_at(rig, 6379), "closed");
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	before = rig->peer_count;
	for (int i = 0; i < 50; i++) { /* five seconds in total */
		struct peer *peer = peer_at(rig, 6379);

		if (peer)
			cut_peer(peer, "closed");
		pass_time(rig, 100 * MS);
	}
	assert_in_range(rig->peer_count - before, 4, 12);
	rig_free(rig);
}

static void test_refused_connection(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	rig_start(rig, NULL);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	assert_int_equal(faults(rig, WR_FAULT_CONNECT), 1);
	assert_non_null(strstr(rig->logged, "127.0.0.1:6379: Connection refused"));
	take_one(rig, &asker, 1, 1);
	assert_failed(&asker);
	pass_time(rig, 3000 * MS);
	assert_in_range(faults(rig, WR_FAULT_CONNECT), 5, 10);
	rig_trouble(rig, 6379)->refuses = false;
	pass_time(rig, 2000 * MS);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	take_with_reply(rig, 2, taken(true, 9, 0, 1));
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_UP);
	assert_non_null(strstr(rig->logged, "back after"));
	rig_free(rig);
}

/* The first questions wait for the connection, at most until their timeout. */
static void test_slow_to_connect(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker first = {.done = 0}, second = {.done = 0};

	(void)state;
	rig_trouble(rig, 6379)->silent = true;
	rig_start(rig, NULL);
	take_one(rig, &first, 1, 1);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_CONNECTING);
	pass_time(rig, 19 * MS);
	assert_pending(&first);
	pass_time(rig, 1 * MS);
	assert_failed(&first);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_DOWN);
	assert_int_equal(faults(rig, WR_FAULT_CONNECT), 1);
	take_one(rig, &second, 1, 1);
	assert_failed(&second);
	/* The connection attempt continues and is used when it succeeds. */
	pass_time(rig, 100 * MS);
	assert_int_equal(rig->peer_count, 1);
	rig_trouble(rig, 6379)->silent = false;
	run_turn(rig);
	assert_int_equal(state_now(rig), WR_CENTRAL_SHARD_HALF_OPEN);
	rig_free(rig);
}

static void test_connect_timeout(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig_trouble(rig, 6379)->silent = true;
	rig_start(rig, NULL);
	pass_time(rig, 999 * MS);
	assert_int_equal(rig->peer_count, 1);
	pass_time(rig, 5000 * MS);
	assert_in_range(rig->peer_count, 2, 6);
	assert_null(rig->peers[0].link);
	rig_free(rig);
}

/* ---- malformed replies ---- */

static void test_malformed_reply(void **state)
{
	static const char *const odd[] = {"+OK\r\n", ":1\r\n", "*0\r\n", "$-1\r\n",
					  "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n$1\r\nx\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct rig *rig = rig_new(URL, NULL);
		struct peer *peer = peer_at(rig, 6379);
		struct asker asker = {.done = 0};

		take_one(rig, &asker, 1, 1);
		run_turn(rig);
		reply(peer, odd[i]);
		assert_failed(&asker);
		assert_int_equal(faults(rig, WR_FAULT_PROTOCOL), 1);
		rig_free(rig);
	}
}

static void test_not_redis(void **state)
{
	static const char *const odd[] = {
		"HTTP/1.1 400 Bad Request\r\n\r\n",
		"*1000000\r\n",
		"*99999999999\r\n",
		"*-7\r\n",
		"$99999999999999999999\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct rig *rig = rig_new(URL, NULL);
		struct peer *peer = peer_at(rig, 6379);
		struct asker asker = {.done = 0};

		take_one(rig, &asker, 1, 1);
		run_turn(rig);
		wr_central_link_input(peer->link, (const uint8_t *)odd[i], strlen(odd[i]),
				      rig->now_ns, rig->mono_ns);
		assert_null(peer->link);
		assert_failed(&asker);
		assert_int_equal(faults(rig, WR_FAULT_PROTOCOL), 1);
		rig_free(rig);
	}
}

/* The server sends a reply although no command was sent. */
static void test_reply_without_command(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	wr_central_link_input(peer->link, (const uint8_t *)"+OK\r\n", 5, rig->now_ns, rig->mono_ns);
	assert_null(peer->link);
	assert_int_equal(faults(rig, WR_FAULT_PROTOCOL), 1);
	rig_free(rig);
}

/* The server sends megabytes that never form a complete reply. */
static void test_endless_reply(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	static uint8_t bytes[65536];
	struct asker asker = {.done = 0};
	int pieces = 0;

	(void)state;
	memset(bytes, 'x', sizeof bytes);
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	wr_central_link_input(peer->link, (const uint8_t *)"$100000000\r\n", 12, rig->now_ns,
			      rig->mono_ns);
	for (; peer->link && pieces < 1000; pieces++)
		wr_central_link_input(peer->link, bytes, sizeof bytes, rig->now_ns, rig->mono_ns);
	assert_int_equal(pieces, 64); /* 4 MiB */
	assert_failed(&asker);
	rig_free(rig);
}

/* A reply that arrives byte by byte is read like one that arrives at once. */
static void test_split_reply(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};
	const char *bytes = taken(true, 9, 0, 1);

	(void)state;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	for (size_t i = 0; i < strlen(bytes); i++) {
		assert_pending(&asker);
		wr_central_link_input(peer->link, (const uint8_t *)bytes + i, 1, rig->now_ns,
				      rig->mono_ns);
	}
	assert_admitted(&asker);
	peer->waiting = 0;
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connection_lost),
		cmocka_unit_test(test_connection_lost_before_use),
		cmocka_unit_test(test_refused_connection),
		cmocka_unit_test(test_slow_to_connect),
		cmocka_unit_test(test_connect_timeout),
		cmocka_unit_test(test_malformed_reply),
		cmocka_unit_test(test_not_redis),
		cmocka_unit_test(test_reply_without_command),
		cmocka_unit_test(test_endless_reply),
		cmocka_unit_test(test_split_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
