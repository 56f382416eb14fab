/* Commands, replies, errors, slots and addresses: the bytes that are written to Redis and read from
 * it. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "redis/topology.h"
#include "redis/command.h"
#include "redis/error.h"
#include "redis/reply.h"

/* ---- commands ---- */

static void test_command(void **state)
{
	static const char expected[] =
		"*4\r\n$3\r\nSET\r\n$0\r\n\r\n$20\r\n-9223372036854775808\r\n$3\r\na\0b\r\n";
	struct wr_commands out;

	(void)state;
	wr_commands_init(&out, 65536);
	wr_command_begin(&out, 4);
	wr_command_text(&out, "SET");
	wr_command_arg(&out, NULL, 0);
	wr_command_number(&out, INT64_MIN);
	wr_command_arg(&out, "a\0b", 3);
	assert_true(wr_command_end(&out));
	assert_int_equal(wr_commands_len(&out), sizeof expected - 1);
	assert_memory_equal(out.bytes, expected, sizeof expected - 1);
	wr_commands_sent(&out, sizeof expected - 2);
	assert_int_equal(wr_commands_len(&out), 1);
	wr_commands_sent(&out, 1);
	assert_int_equal(out.end, 0);
	wr_commands_free(&out);
}

static bool put_large(struct wr_commands *out, size_t len)
{
	char *bytes = calloc(1, len);
	bool done;

	wr_command_begin(out, 1);
	wr_command_arg(out, bytes, len);
	done = wr_command_end(out);
	free(bytes);
	return done;
}

/* A command that does not fit leaves nothing in the buffer. The maximum applies to unsent bytes. */
static void test_command_bound(void **state)
{
	struct wr_commands out;
	size_t len;

	(void)state;
	wr_commands_init(&out, 200000);
	for (int i = 0; i < 19; i++)
		assert_true(put_large(&out, 10000));
	len = wr_commands_len(&out);
	assert_false(put_large(&out, 10000));
	assert_int_equal(wr_commands_len(&out), len);
	wr_command_begin(&out, 2); /* only a part of this command fits */
	wr_command_text(&out, "x");
	wr_command_arg(&out, &(char[20000]){0}, 20000);
	assert_false(wr_command_end(&out));
	assert_int_equal(wr_commands_len(&out), len);
	wr_commands_sent(&out, 100000);
	for (int i = 0; i < 9; i++)
		assert_true(put_large(&out, 10000));
	assert_false(put_large(&out, 20000));
	wr_commands_sent(&out, wr_commands_len(&out));
	assert_int_equal(out.cap, 0); /* a buffer of this size is freed when it is empty */
	assert_true(put_large(&out, 10));
	wr_commands_free(&out);
}

/* ---- replies ---- */

static const redisReply *parse_reply(struct wr_redis_replies *replies, const char *bytes)
{
	const redisReply *reply;

	assert_true(wr_redis_replies_feed(replies, bytes, strlen(bytes)));
	assert_int_equal(wr_redis_replies_next(replies, &reply), 1);
	return reply;
}

static void test_reply(void **state)
{
	struct wr_redis_replies replies;
	const redisReply *reply;

	(void)state;
	assert_true(wr_redis_replies_init(&replies));
	reply = parse_reply(&replies,
			    "*5\r\n:-7\r\n$3\r\na\r\n\r\n+OK\r\n$-1\r\n*1\r\n-ERR no\r\n");
	assert_int_equal(reply->elements, 5);
	assert_int_equal(wr_redis_reply_at(reply, 0)->integer, -7);
	assert_true(
		wr_str_equal(wr_redis_reply_text(wr_redis_reply_at(reply, 1)), WR_STR("a\r\n")));
	assert_true(wr_redis_reply_is_text(wr_redis_reply_at(reply, 2)));
	assert_int_equal(wr_redis_reply_at(reply, 3)->type, REDIS_REPLY_NIL);
	assert_int_equal(wr_redis_reply_text(wr_redis_reply_at(reply, 3)).len, 0);
	assert_int_equal(wr_redis_reply_at(wr_redis_reply_at(reply, 4), 0)->type,
			 REDIS_REPLY_ERROR);
	assert_null(wr_redis_reply_at(reply, 5));
	assert_null(wr_redis_reply_at(wr_redis_reply_at(reply, 0), 0));
	assert_null(wr_redis_reply_at(NULL, 0));
	assert_int_equal(wr_redis_replies_next(&replies, &reply), 0);
	wr_redis_replies_free(&replies);
}

/* The memory does not grow over thousands of replies. */
static void test_reply_memory(void **state)
{
	struct wr_redis_replies replies;
	const redisReply *reply;

	(void)state;
	assert_true(wr_redis_replies_init(&replies));
	parse_reply(&replies, ":1\r\n");
	for (int i = 0; i < 5000; i++) {
		parse_reply(&replies, "*3\r\n$5\r\nhello\r\n:1\r\n*1\r\n+x\r\n");
		assert_int_equal(replies.held, 16384);
	}
	/* A large reply needs more memory, which is freed with the next reply. */
	assert_true(wr_redis_replies_feed(&replies, "*2000\r\n", 7));
	for (int i = 0; i < 2000; i++)
		assert_true(wr_redis_replies_feed(&replies, "+0123456789\r\n", 13));
	assert_int_equal(wr_redis_replies_next(&replies, &reply), 1);
	assert_int_equal(reply->elements, 2000);
	assert_true(replies.held > 100000);
	parse_reply(&replies, ":1\r\n");
	assert_int_equal(replies.held, 16384);
	wr_redis_replies_free(&replies);
}

static void test_reply_bounds(void **state)
{
	static const char *const wrong[] = {"*65537\r\n", "*2147483648\r\n", "*-2\r\n",
					    "$-2\r\n",    "?\r\n",           "$4194304\r\n"};
	const redisReply *reply;
	struct wr_redis_replies replies;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_true(wr_redis_replies_init(&replies));
		assert_true(wr_redis_replies_feed(&replies, wrong[i], strlen(wrong[i])));
		assert_int_equal(wr_redis_replies_next(&replies, &reply),
				 wrong[i][1] == '4' ? 0 : -1);
		wr_redis_replies_free(&replies);
	}
}

/* ---- errors ---- */

static enum wr_fault fault_of(const char *text)
{
	return wr_fault_of(text, strlen(text));
}

static void test_errors(void **state)
{
	(void)state;
	assert_int_equal(fault_of("NOSCRIPT No matching script."), WR_FAULT_NOSCRIPT);
	assert_int_equal(fault_of("ASK 1 a:1"), WR_FAULT_ASK);
	assert_int_equal(fault_of("ASKING"), WR_FAULT_OTHER);
	assert_int_equal(fault_of("MOVED 1 a:1"), WR_FAULT_MOVED);
	assert_int_equal(fault_of("OOM"), WR_FAULT_OOM);
	assert_int_equal(fault_of("BUSYKEY Target key name already exists."), WR_FAULT_OTHER);
	assert_int_equal(fault_of(""), WR_FAULT_OTHER);
	assert_int_equal(fault_of("ERR max number of clients reached"), WR_FAULT_MAXCLIENTS);
	assert_int_equal(fault_of("ERR The user executing the script can't run this command or "
				  "subcommand script: 5f, on @user_script:12."),
			 WR_FAULT_NOPERM);
	assert_int_equal(fault_of("ERR unknown command 'OOM '"), WR_FAULT_OTHER);
	assert_int_equal(fault_of("ERR Error running script (call to f_x): @user_script:3: "
				  "@user_script: 3: -OOM command not allowed"),
			 WR_FAULT_OOM);
	assert_int_equal(
		fault_of("ERR Error running script (call to f_x): @user_script:3: WRONGTYPE "
			 "Operation against"),
		WR_FAULT_WRONGTYPE);
	assert_int_equal(fault_of("ERR Error running script (call to f_x): attempt to index"),
			 WR_FAULT_OTHER);
	for (int i = 0; i < WR_FAULT_COUNT; i++) {
		assert_true(strlen(wr_fault_name(i)) > 1);
		assert_true(strlen(wr_fault_text(i)) > 5);
	}
}

/* ---- slots ---- */

static uint16_t slot_of(const char *key)
{
	return wr_redis_slot_of(key, strlen(key));
}

static void test_slot(void **state)
{
	(void)state;
	assert_int_equal(slot_of("123456789"), 0x31c3); /* the check value of CRC-16/XMODEM */
	assert_int_equal(slot_of("foo"), 12182);
	assert_int_equal(slot_of("{foo}bar"), 12182);
	assert_int_equal(slot_of("x{foo}{bar}"), 12182);
	/* The braces are empty, so the whole key is hashed. */
	assert_int_equal(slot_of("foo{}{bar}"), 8363);
	assert_int_equal(slot_of("foo{{bar}}zap"), slot_of("{bar"));
	assert_int_equal(slot_of("{"), slot_of("{"));
	assert_int_equal(slot_of(""), 0);
}

/* ---- addresses ---- */

static const struct wr_endpoint asked = {.kind = WR_ENDPOINT_V4, .port = 7000, .host = "10.0.0.1"};

static void expect_redirect(const char *text, uint16_t to_slot, const char *to)
{
	struct wr_endpoint at;
	char endpoint[WR_ENDPOINT_TEXT];
	uint16_t number;

	if (!wr_redis_redirect_read(wr_str(text), &asked, &number, &at))
		fail_msg("%s", text);
	wr_endpoint_text(&at, endpoint);
	assert_int_equal(number, to_slot);
	assert_string_equal(endpoint, to);
}

static void test_redirect(void **state)
{
	static const char *const wrong[] = {"MOVED",          "MOVED ",           "MOVED 1",
					    "MOVED 1 ",       "MOVED 16384 a:1",  "MOVED x a:1",
					    "MOVED 1 a",      "MOVED 1 a:0",      "MOVED 1 a:65536",
					    "MOVED 1 a b:99", "MOVED 1 a%b:6379", "MOVED -1 a:1"};
	struct wr_endpoint at;
	uint16_t number;

	(void)state;
	expect_redirect("MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1:6381");
	expect_redirect("ASK 0 cache-2.example:6381", 0, "cache-2.example:6381");
	expect_redirect("MOVED 16383 ::1:6381", 16383, "[::1]:6381");
	expect_redirect("MOVED 1 :6381", 1, "10.0.0.1:6381");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (wr_redis_redirect_read(wr_str(wrong[i]), &asked, &number, &at))
			fail_msg("%s", wrong[i]);
}

static void test_cluster_map(void **state)
{
	struct wr_redis_cluster_map *map = malloc(sizeof *map);
	struct wr_redis_replies replies;

	(void)state;
	assert_true(wr_redis_replies_init(&replies));
	assert_true(wr_redis_cluster_read(
		parse_reply(
			&replies,
			"*4\r\n"
			"*4\r\n:0\r\n:99\r\n*2\r\n$8\r\n10.0.0.2\r\n:1\r\n*2\r\n$8\r\n10.0.0.3\r\n:"
			"2\r\n"
			"*3\r\n:200\r\n:16383\r\n*4\r\n$-1\r\n:7001\r\n$2\r\nid\r\n*0\r\n"
			"*3\r\n:100\r\n:100\r\n*2\r\n$8\r\n10.0.0.2\r\n:1\r\n"
			"*3\r\n:150\r\n:16384\r\n*2\r\n$8\r\n10.0.0.2\r\n:1\r\n"), /* out of range
										    */
		&asked, map));
	assert_int_equal(map->count, 2);
	assert_int_equal(map->covered, 101 + 16184);
	assert_int_equal(map->owner[99], 0);
	assert_int_equal(map->owner[100], 0);
	assert_int_equal(map->owner[101], WR_CLUSTER_NO_OWNER);
	assert_int_equal(map->owner[16383], 1);
	assert_string_equal(map->nodes[1].host,
			    /* The host of a server that does not know its own address. */
			    "10.0.0.1");
	assert_int_equal(map->nodes[1].port, 7001);
	assert_false(wr_redis_cluster_read(parse_reply(&replies, "*0\r\n"), &asked, map));
	assert_false(wr_redis_cluster_read(parse_reply(&replies, "+OK\r\n"), &asked, map));
	assert_false(wr_redis_cluster_read(parse_reply(&replies, "*1\r\n*2\r\n:1\r\n:2\r\n"),
					   &asked, map));
	wr_redis_replies_free(&replies);
	free(map);
}

static void test_sentinel(void **state)
{
	struct wr_endpoint_list list = {.count = 1, .items = {asked}};
	struct wr_endpoint master;
	struct wr_redis_replies replies;

	(void)state;
	assert_true(wr_redis_replies_init(&replies));
	assert_int_equal(wr_redis_sentinel_master(
				 parse_reply(&replies, "*2\r\n$8\r\n10.0.0.9\r\n$4\r\n6379\r\n"),
				 &asked, &master),
			 1);
	assert_string_equal(master.host, "10.0.0.9");
	assert_int_equal(
		wr_redis_sentinel_master(parse_reply(&replies, "*-1\r\n"), &asked, &master), 0);
	assert_int_equal(
		wr_redis_sentinel_master(parse_reply(&replies, "-ERR x\r\n"), &asked, &master), -1);
	wr_redis_sentinel_others(
		parse_reply(&replies,
			    "*4\r\n"
			    "*4\r\n$2\r\nip\r\n$8\r\n10.0.0.2\r\n$4\r\nport\r\n$5\r\n26379\r\n"
			    "*4\r\n$4\r\nport\r\n$4\r\n7000\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n"
			    "*2\r\n$2\r\nip\r\n$8\r\n10.0.0.3\r\n"
			    "+x\r\n"),
		&asked, &list);
	/* One Sentinel is already in the list, and two are not usable. */
	assert_int_equal(list.count, 2);
	assert_string_equal(list.items[1].host, "10.0.0.2");
	assert_true(wr_redis_role_may_be_master(parse_reply(&replies, "*1\r\n$6\r\nmaster\r\n")));
	assert_false(wr_redis_role_may_be_master(parse_reply(&replies, "*1\r\n$5\r\nslave\r\n")));
	assert_true(wr_redis_role_may_be_master(parse_reply(&replies, "-NOPERM\r\n")));
	wr_redis_replies_free(&replies);
}

static void test_info(void **state)
{
	struct weir_str info =
		WR_STR("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nx:");

	(void)state;
	assert_true(wr_str_equal(wr_redis_info_field(info, "maxmemory"), WR_STR("0")));
	assert_true(
		wr_str_equal(wr_redis_info_field(info, "maxmemory_policy"), WR_STR("noeviction")));
	assert_int_equal(wr_redis_info_field(info, "x").len, 0);
	assert_int_equal(wr_redis_info_field(info, "memory").len, 0);
	assert_int_equal(wr_redis_info_field(WR_STR(""), "x").len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command),      cmocka_unit_test(test_command_bound),
		cmocka_unit_test(test_reply),        cmocka_unit_test(test_reply_memory),
		cmocka_unit_test(test_reply_bounds), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_slot),         cmocka_unit_test(test_redirect),
		cmocka_unit_test(test_cluster_map),  cmocka_unit_test(test_sentinel),
		cmocka_unit_test(test_info),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
