/* Tasks of the chief loop: the secret, the number of nodes, and control messages. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define URL "redis://127.0.0.1:6379"

static const struct wr_central_opts chief = {.chief = true, .holder = {0xa, 0xb}};

/* ---- counting nodes ---- */

static void test_nodes(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig->nodes = 3;
	rig_start(rig, &chief);
	assert_int_equal(rig->nodes_told, 3);
	assert_int_equal(info(rig)->nodes, 3);
	rig->nodes = 2;
	pass_time(rig, 1990 * MS);
	assert_int_equal(rig->nodes_told, 3);
	pass_time(rig, 20 * MS);
	assert_int_equal(rig->nodes_told, 2);
	rig_free(rig);
	rig = rig_begin(URL); /* a loop that is not the chief sends no heartbeats */
	rig->nodes = 3;
	rig_start(rig, NULL);
	pass_time(rig, 5000 * MS);
	assert_int_equal(rig->nodes_told, 0);
	rig_free(rig);
}

static void test_heartbeat(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct peer *peer;
	char command[256];

	(void)state;
	rig_trouble(rig, 6379)->mute = true;
	rig_start(rig, &chief);
	peer = peer_at(rig, 6379);
	run_turn(rig);
	reply(peer, "+OK\r\n");
	reply(peer, "+PONG\r\n");
	run_turn(rig);
	snprintf(command, sizeof command,
		 "EVALSHA %s 1 weir:1:nodes 000000000000000a000000000000000b",
		 wr_redis_script_nodes.sha1);
	for (int i = 0; i < peer->waiting; i++)
		if (strcmp(peer->commands[i], command) == 0)
			command[0] = 0;
	assert_string_equal(command, "");
	rig_free(rig);
}

/* ---- the secret ---- */

static void test_secret_agreed(void **state)
{
	struct rig *rig = rig_begin(URL);
	uint8_t first[WR_CENTRAL_SECRET];

	(void)state;
	rig_start(rig, &chief);
	assert_int_equal(rig->secrets, 1);
	assert_int_equal(strlen(rig->secret_hex), 2 * WR_CENTRAL_SECRET);
	assert_true(info(rig)->secret_known);
	pass_time(rig, 10000 * MS);
	assert_int_equal(rig->secrets, 1); /* the host was notified once */
	/* After FLUSHALL the same secret is stored again. */
	memcpy(first, rig->secret, sizeof first);
	rig->secret_hex[0] = 0;
	pass_time(rig, 2001 * MS);
	assert_int_equal(strlen(rig->secret_hex), 2 * WR_CENTRAL_SECRET);
	assert_int_equal(rig->secrets, 1);
	/* Another node was faster and stored another secret, which this node adopts. */
	memset(rig->secret_hex, '7', 2 * WR_CENTRAL_SECRET);
	pass_time(rig, 2001 * MS);
	assert_int_equal(rig->secrets, 2);
	for (size_t i = 0; i < WR_CENTRAL_SECRET; i++)
		assert_int_equal(rig->secret[i], 0x77);
	assert_memory_not_equal(rig->secret, first, sizeof first);
	assert_non_null(strstr(rig->logged, "secret in Redis has changed"));
	rig_free(rig);
}

static void test_secret_found(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	memset(rig->secret_hex, 'a', 2 * WR_CENTRAL_SECRET);
	rig_start(rig, &chief);
	assert_int_equal(rig->secrets, 1);
	assert_int_equal(rig->secret[191], 0xaa);
	assert_string_equal(rig->logged, "");
	rig_free(rig);
}

static void test_secret_given(void **state)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {9};
	struct wr_central_opts opts = chief;
	struct rig *rig = rig_begin(URL);

	(void)state;
	opts.secret = secret;
	rig_start(rig, &opts);
	pass_time(rig, 5000 * MS);
	assert_int_equal(rig->secrets, 0);
	assert_string_equal(rig->secret_hex, "");
	assert_true(info(rig)->secret_known);
	rig_free(rig);
}

static void test_foreign_secret_key(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	strcpy(rig->secret_hex, "hunter2");
	rig_start(rig, &chief);
	pass_time(rig, 10000 * MS);
	assert_int_equal(rig->secrets, 0);
	assert_string_equal(rig->logged,
			    "0 the key weir:1:secret does not contain a secret of weir; "
			    "delete it or choose another --redis-prefix\n");
	rig_free(rig);
}

/* Redis has lost all data. This node stores the secret again before a new node asks for it. */
static void test_secret_restored(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig_start(rig, &chief);
	pass_time(rig, 100 * MS);
	rig->secret_hex[0] = 0;
	cut_peer(peer_at(rig, 6379), "gone");
	pass_time(rig, 60 * MS);
	assert_int_equal(strlen(rig->secret_hex), 2 * WR_CENTRAL_SECRET);
	assert_int_equal(rig->secrets, 1);
	rig_free(rig);
}

/* Without the secret no question is sent, so this message is the only one about the fault. */
static void test_secret_forbidden(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct peer *peer;

	(void)state;
	rig_trouble(rig, 6379)->mute = true;
	rig_start(rig, &chief);
	peer = peer_at(rig, 6379);
	run_turn(rig);
	reply(peer, "+OK\r\n");
	reply(peer, "+PONG\r\n");
	run_turn(rig);
	while (peer->waiting)
		reply(peer, strncmp(peer->commands[0], "GET ", 4) == 0
				    ? "-NOPERM this user has no permissions\r\n"
				    : "$-1\r\n");
	assert_false(info(rig)->secret_known);
	assert_string_equal(rig->logged, "1 127.0.0.1:6379: NOPERM this user has no permissions; "
					 "see docs/redis.md for the ACL that weir needs\n");
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* Redis is started after this node. The secret is read as soon as Redis is available. */
static void test_secret_after_late_start(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	rig_start(rig, &chief);
	pass_time(rig, 10000 * MS);
	assert_int_equal(rig->secrets, 0);
	assert_false(info(rig)->secret_known);
	rig_trouble(rig, 6379)->refuses = false;
	pass_time(rig, 2000 * MS);
	assert_int_equal(rig->secrets, 1);
	/* The reply to a heartbeat closes the breaker, as other replies do. */
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* ---- control messages ---- */

#define STREAM "*1\r\n*2\r\n$14\r\nweir:1:control\r\n"

static void test_messages_received(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	/* The stream contains a message of another node that is three minutes old, a message of
	 * this node, and a malformed message. */
	rig->stream = STREAM "*3\r\n"
			     "*2\r\n$15\r\n1699999860000-0\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$"
			     "1\r\nm\r\n$3\r\nban\r\n"
			     "*2\r\n$15\r\n1699999860000-1\r\n*4\r\n$1\r\nh\r\n$32\r\n"
			     "000000000000000a000000000000000b\r\n$1\r\nm\r\n$4\r\nmine\r\n"
			     "*2\r\n$15\r\n1699999860000-2\r\n*2\r\n$1\r\nz\r\n$3\r\nodd\r\n";
	rig_start(rig, &chief);
	pass_time(rig, 1 * MS);
	assert_string_equal(rig->messages, "ban;own mine;");
	assert_int_equal(rig->message_age_ns / 1000000000, 180);
	assert_string_equal(rig->last_xread, "XREAD COUNT 128 STREAMS weir:1:control 0-0");
	pass_time(rig, 400 * MS);
	assert_string_equal(rig->last_xread,
			    "XREAD COUNT 128 STREAMS weir:1:control 1699999860000-2");
	rig_free(rig);
}

/* After four messages that take long, the loop does other work, and reads the rest 5 ms later. */
static void test_messages_that_take_long(void **state)
{
#define LONG(seq)                                                                                  \
	"*2\r\n$15\r\n1699999860000-" seq                                                          \
	"\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$1\r\nm\r\n$4\r\nlong\r\n"
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig->stream = STREAM "*6\r\n" LONG("0") LONG("1") LONG("2") LONG("3") LONG("4") LONG("5");
	rig_start(rig, &chief);
	pass_time(rig, 1 * MS);
	assert_string_equal(rig->messages, "long;long;long;long;");
	rig->stream = STREAM "*2\r\n" LONG("4") LONG("5");
	pass_time(rig, 5 * MS);
	assert_string_equal(rig->last_xread,
			    "XREAD COUNT 128 STREAMS weir:1:control 1699999860000-3");
	assert_string_equal(rig->messages, "long;long;long;long;long;long;");
	pass_time(rig, 390 * MS);
	assert_string_equal(rig->last_xread,
			    "XREAD COUNT 128 STREAMS weir:1:control 1699999860000-3");
	pass_time(rig, 10 * MS);
	assert_string_equal(rig->last_xread,
			    "XREAD COUNT 128 STREAMS weir:1:control 1699999860000-5");
	rig_free(rig);
#undef LONG
}

/* A message of another node is read within 400 ms after it was published. */
static void test_message_within_400_ms(void **state)
{
	struct rig *rig = rig_new(URL, &chief);
	char stream[160], expected[160] = "";

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		/* The message comes at another time between two reads. */
		pass_time(rig, 37 * i * MS);
		assert_string_equal(rig->messages, expected);
		snprintf(stream, sizeof stream,
			 STREAM "*1\r\n*2\r\n$15\r\n17000000400%02u-0\r\n*4\r\n$1\r\nh\r\n"
				"$1\r\nx\r\n$1\r\nm\r\n$3\r\nb%02u\r\n",
			 i, i);
		snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "b%02u;",
			 i);
		rig->stream = stream;
		pass_time(rig, 400 * MS);
		assert_string_equal(rig->messages, expected);
	}
	rig_free(rig);
}

/* The clock of a new master is an hour behind. Its messages are read nevertheless. */
static void test_clock_behind(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig->stream = STREAM "*1\r\n*2\r\n$15\r\n1700003640000-0\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$"
			     "1\r\nm\r\n$1\r\na\r\n";
	rig_start(rig, &chief);
	pass_time(rig, 1 * MS);
	assert_string_equal(rig->messages, "a;");
	pass_time(rig, 1000 * MS);
	assert_memory_equal(rig->last_xread, "XREAD COUNT 128 STREAMS weir:1:control 170000003",
			    48);
	rig_free(rig);
}

static void test_published(void **state)
{
	struct rig *rig = rig_new(URL, &chief);

	(void)state;
	assert_int_equal(wr_central_publish(rig->central, "ban u=1", 7, rig->mono_ns), 0);
	assert_int_equal(wr_central_publish(rig->central, "ban u=2", 7, rig->mono_ns), 0);
	run_turn(rig);
	assert_int_equal(rig->added, 2);
	assert_string_equal(
		rig->added_text,
		"XADD weir:1:control MAXLEN ~ 16384 * h 000000000000000a000000000000000b m "
		"ban u=2");
	assert_int_equal(wr_central_publish(rig->central, "", 0, rig->mono_ns), WEIR_EROOM);
	rig_free(rig);
}

/* While Redis is unavailable, messages wait in order, up to a maximum. They are published later. */
static void test_publish_waits_for_redis(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	rig_start(rig, NULL);
	for (int i = 0; i < 1024; i++)
		assert_int_equal(wr_central_publish(rig->central, "x", 1, rig->mono_ns), 0);
	assert_int_equal(wr_central_publish(rig->central, "x", 1, rig->mono_ns), WEIR_EROOM);
	assert_int_equal(wr_central_publishing(rig->central), 1024);
	pass_time(rig, 3000 * MS);
	assert_int_equal(rig->added, 0);
	rig_trouble(rig, 6379)->refuses = false;
	pass_time(rig, 2300 * MS);
	assert_int_equal(rig->added, 1024);
	assert_int_equal(wr_central_publishing(rig->central), 0);
	rig_free(rig);
}

/* The reply to XADD is lost, so the message is published again. */
static void test_publish_repeated(void **state)
{
	struct rig *rig = rig_new(URL, NULL);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	rig_trouble(rig, 6379)->mute = true;
	assert_int_equal(wr_central_publish(rig->central, "ban", 3, rig->mono_ns), 0);
	assert_memory_equal(next_command(peer), "XADD", 4);
	rig_trouble(rig, 6379)->mute = false;
	cut_peer(peer, "reset");
	pass_time(rig, 300 * MS);
	assert_int_equal(rig->added, 1);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_heartbeat),
		cmocka_unit_test(test_secret_agreed),
		cmocka_unit_test(test_secret_found),
		cmocka_unit_test(test_secret_given),
		cmocka_unit_test(test_foreign_secret_key),
		cmocka_unit_test(test_secret_restored),
		cmocka_unit_test(test_secret_forbidden),
		cmocka_unit_test(test_secret_after_late_start),
		cmocka_unit_test(test_messages_received),
		cmocka_unit_test(test_messages_that_take_long),
		cmocka_unit_test(test_message_within_400_ms),
		cmocka_unit_test(test_clock_behind),
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_publish_waits_for_redis),
		cmocka_unit_test(test_publish_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
