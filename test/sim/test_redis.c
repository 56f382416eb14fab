/* Compares the replies of the simulated Redis with the replies of a real redis-server. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "sim/rng.h"
#include "sim/redis.h"
#include "redis/server.h"

#define WORDS_MAX 8
#define ROUNDS 4000

struct pair {
	struct redis_server server;
	struct wr_sim_lua *lua;
	struct wr_sim_redis *redis;
};

static int setup(void **state)
{
	struct pair *pair = calloc(1, sizeof *pair);

	*state = pair;
	pair->lua = wr_sim_lua_new();
	pair->redis = wr_sim_redis_new(pair->lua);
	return redis_server_start(&pair->server);
}

static int teardown(void **state)
{
	struct pair *pair = *state;

	redis_server_stop(&pair->server);
	wr_sim_redis_free(pair->redis);
	wr_sim_lua_free(pair->lua);
	free(pair);
	return 0;
}

/* ---- one command on both servers ---- */

static redisReply *ask_simulated(struct wr_sim_redis *redis, int argc, const char **argv,
				 const size_t *lens)
{
	struct wr_buf in = WR_SIM_BUF, out = WR_SIM_BUF;
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;
	char *bytes;
	long long len = redisFormatCommandArgv(&bytes, argc, argv, lens);

	wr_buf_add(&in, bytes, (size_t)len);
	wr_sim_redis_input(redis, &in, 1700000000000000, &out);
	assert_int_equal(in.len, 0);
	redisReaderFeed(reader, out.ptr, out.len);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	redisFreeCommand(bytes);
	wr_buf_free(&in);
	wr_buf_free(&out);
	return reply;
}

/* Compares types and values of two replies. The texts of errors are not compared, because they
 * differ between versions of Redis. */
static void assert_same_reply(const redisReply *redis, const redisReply *real, const char *command)
{
	if (redis->type != real->type)
		fail_msg("%s: type %d, not %d (%s)", command, redis->type, real->type,
			 real->type == REDIS_REPLY_ERROR ? real->str : "");
	switch (real->type) {
	case REDIS_REPLY_INTEGER:
		if (redis->integer != real->integer)
			fail_msg("%s: %lld, not %lld", command, redis->integer, real->integer);
		break;
	case REDIS_REPLY_STRING:
	case REDIS_REPLY_STATUS:
		if (redis->len != real->len || memcmp(redis->str, real->str, real->len) != 0)
			fail_msg("%s: \"%s\", not \"%s\"", command, redis->str, real->str);
		break;
	case REDIS_REPLY_ARRAY:
		assert_int_equal(redis->elements, real->elements);
		for (size_t i = 0; i < real->elements; i++)
			assert_same_reply(redis->element[i], real->element[i], command);
		break;
	default:
		break;
	}
}

static void compare_replies(struct pair *pair, int argc, const char **argv, const size_t *lens)
{
	redisReply *redis = ask_simulated(pair->redis, argc, argv, lens);
	redisReply *real = redisCommandArgv(pair->server.link, argc, argv, lens);
	char command[256] = "";

	assert_non_null(real);
	for (int i = 0; i < argc; i++) {
		size_t at = strlen(command);

		snprintf(command + at, sizeof command - at, "%s%.60s", i ? " " : "", argv[i]);
	}
	assert_same_reply(redis, real, command);
	freeReplyObject(redis);
	freeReplyObject(real);
}

static void compare_script(struct pair *pair, const char *text)
{
	const char *argv[] = {"EVAL", text, "2", "s0", "h0", "7", "text"};

	compare_replies(pair, 7, argv, NULL);
}

/* ---- commands ---- */

/* The commands to compare. Single letters are replaced by random words: K by the key of a string, H
 * by the key of a hash, Z by the key of a sorted set, F by a field, N by a number, T by a text, and
 * M by a long time to live. */
static const char *const forms[] = {
	"GET K",
	"SET K T",
	"SET K N",
	"SET K T NX",
	"SET K T XX",
	"SET K T PX M",
	"SET K T KEEPTTL",
	"GETRANGE K N N",
	"SETRANGE K N T",
	"INCR K",
	"INCRBY K N",
	"DEL K",
	"DEL K H",
	"EXISTS K",
	"EXISTS H",
	"PEXPIRE K M",
	"PEXPIRE K -1", /* a short time would pass only on the real server */
	"HSET H F T",
	"HSET H F N F T",
	"HMSET H F T",
	"HGET H F",
	"HMGET H F F F",
	"HGETALL H",
	"HDEL H F",
	"HDEL H F F",
	"HLEN H",
	"HINCRBY H F N",
	"ZADD Z N F",
	"ZADD Z N F N F",
	"ZREM Z F",
	"ZCARD Z",
	"HEXISTS H F",
	"ZRANK Z F",
	"ZRANGE Z 0 0",
	"ZRANGE Z 0 -1",
	"ZRANGE Z N N",
	"ZRANGE Z 0 -1 WITHSCORES",
	"ZRANGEBYSCORE Z -inf N",
	"ZRANGEBYSCORE Z N +inf WITHSCORES",
	"ZRANGEBYSCORE Z (4 +inf LIMIT 0 2",
	"ZRANGEBYSCORE Z -inf N LIMIT 1 N",
	"ZCOUNT Z N +inf",
	"ZCOUNT Z (2 (6",
	"ZSCORE Z F",
	"ZREMRANGEBYSCORE Z N N",
	"ZREMRANGEBYSCORE Z -inf N",
	"GET H",
	"HGET K F",
	"ZADD K N F",
	"FLUSHALL",
	"PTTL none",
	"PING",
};

static void fill_word(struct wr_rng *rng, char letter, char *text, size_t cap)
{
	static const char *const texts[] = {
		"", "a", "b c", "12", "-7", "x\r\ny", "longer than others"};
	uint64_t roll = wr_rng_below(rng, 3);

	switch (letter) {
	case 'K':
		snprintf(text, cap, "s%llu", (unsigned long long)roll);
		break;
	case 'H':
		snprintf(text, cap, "h%llu", (unsigned long long)roll);
		break;
	case 'Z':
		snprintf(text, cap, "z%llu", (unsigned long long)roll);
		break;
	case 'F':
		snprintf(text, cap, "f%llu", (unsigned long long)wr_rng_below(rng, 5));
		break;
	case 'N':
		snprintf(text, cap, "%d", (int)wr_rng_below(rng, 30) - 10);
		break;
	case 'M':
		snprintf(text, cap, "9000000");
		break;
	default:
		snprintf(text, cap, "%s", texts[wr_rng_below(rng, sizeof texts / sizeof *texts)]);
	}
}

static void compare_random_command(struct pair *pair, struct wr_rng *rng)
{
	const char *form = forms[wr_rng_below(rng, sizeof forms / sizeof *forms)];
	char words[WORDS_MAX][32];
	const char *argv[WORDS_MAX];
	int argc = 0;

	while (*form) {
		size_t len = strcspn(form, " ");

		assert_true(argc < WORDS_MAX);
		if (len == 1)
			fill_word(rng, *form, words[argc], sizeof words[argc]);
		else
			snprintf(words[argc], sizeof words[argc], "%.*s", (int)len, form);
		argv[argc] = words[argc];
		argc++;
		form += len + (form[len] == ' ');
	}
	compare_replies(pair, argc, argv, NULL);
}

static void test_commands(void **state)
{
	struct wr_rng rng = {7};

	for (int i = 0; i < ROUNDS; i++)
		compare_random_command(*state, &rng);
}

static void test_expiry(void **state)
{
	struct pair *pair = *state;
	const char *set[] = {"SET", "short", "1", "PX", "5"}, *get[] = {"GET", "short"};
	struct wr_sim_redis *redis = wr_sim_redis_new(pair->lua);
	redisReply *reply;
	struct wr_buf in = WR_SIM_BUF, out = WR_SIM_BUF;

	freeReplyObject(ask_simulated(redis, 5, set, NULL));
	reply = ask_simulated(redis, 2, get, NULL);
	assert_string_equal(reply->str, "1");
	freeReplyObject(reply);
	/* A key still exists in the millisecond in which it expires. */
	wr_buf_printf(&in, "*2\r\n$3\r\nGET\r\n$5\r\nshort\r\n");
	wr_sim_redis_input(redis, &in, 1700000000005999, &out);
	assert_memory_equal(out.ptr, "$1\r\n1\r\n", 7);
	wr_buf_clear(&out);
	wr_buf_printf(&in, "*2\r\n$3\r\nGET\r\n$5\r\nshort\r\n");
	wr_sim_redis_input(redis, &in, 1700000000006000, &out);
	assert_memory_equal(out.ptr, "$-1\r\n", 5);
	wr_buf_free(&in);
	wr_buf_free(&out);
	wr_sim_redis_free(redis);
}

/* ---- scripts ---- */

static void test_script_values(void **state)
{
	compare_script(*state, "return {1, 2.9, -2.9, 'x', true, false, 3}");
	compare_script(*state, "return {1, 2, nil, 4}");
	compare_script(*state, "return {}");
	compare_script(*state, "return 2 ^ 52 + 1");
	compare_script(*state, "return {KEYS[1], KEYS[2], ARGV[1] + 1, ARGV[2], #ARGV, #KEYS}");
	compare_script(*state, "return {ok = 'FINE'}");
	compare_script(*state, "return {err = 'WRONG indeed'}");
	compare_script(*state, "return nil");
	compare_script(*state, "return {{1, {2}}, {}}");
}

static void test_script_calls(void **state)
{
	compare_script(*state,
		       "redis.call('DEL', KEYS[1], KEYS[2]) return redis.call('GET', KEYS[1])");
	compare_script(*state, "return redis.call('GET', KEYS[1]) == false");
	compare_script(*state, "return redis.call('SET', KEYS[1], 2 ^ 40 + 1)");
	compare_script(*state, "return redis.call('GET', KEYS[1])");
	compare_script(*state,
		       "return redis.call('SET', KEYS[1], 0.1) and redis.call('GET', KEYS[1])");
	compare_script(*state, "return redis.call('HSET', KEYS[2], 'a', 1, 'b', 2)");
	compare_script(*state, "return redis.call('HGETALL', KEYS[2])");
	compare_script(*state, "return redis.call('HMGET', KEYS[2], 'a', 'none')");
	compare_script(*state, "return redis.call('HMGET', KEYS[2], 'none')[1] == false");
	compare_script(*state, "return redis.call('SET', KEYS[1], 'x').ok");
	compare_script(*state, "return redis.call('INCR', KEYS[1])");
	compare_script(*state, "return tonumber(redis.call('TIME')[1]) > 1600000000");
}

static void test_script_libraries(void **state)
{
	compare_script(*state, "return struct.pack('>I7I5', 1700000000000000, 77)");
	compare_script(*state,
		       "return {struct.unpack('>I7I5', struct.pack('>I7I5', 2 ^ 50 + 3, 77))}");
	compare_script(*state, "return {struct.unpack('>I2', 'abcdef', 3)}");
	compare_script(*state, "return {struct.unpack('<I4BH', 'abcdefgh')}");
	compare_script(*state, "return {struct.unpack('>I4I4', 'abcdefg')}");
	compare_script(
		*state,
		"return {bit.band(255, 24), bit.bor(1, 6), bit.bxor(7, 2), bit.lshift(1, 31)}");
	compare_script(*state, "return {bit.rshift(-1, 4), bit.band(2 ^ 31 + 5, 7)}");
}

static void test_script_errors(void **state)
{
	struct pair *pair = *state;
	uint64_t errors = pair->redis->errors;

	compare_script(pair, "x = 1 return x");
	compare_script(pair, "return y");
	compare_script(pair, "return redis.call('GET', {})");
	compare_script(pair, "error('so')");
	compare_script(pair, "this is no Lua");
	assert_int_equal(pair->redis->errors - errors, 5);
}

/* The simulated server refuses scripts that use undeclared keys, like a cluster. A single Redis
 * allows undeclared keys. */
static void test_undeclared_keys_are_refused(void **state)
{
	struct pair *pair = *state;
	const char *argv[] = {"EVAL", "return redis.call('GET', 'other')", "1", "s0"};
	redisReply *reply = ask_simulated(pair->redis, 4, argv, NULL);

	assert_int_equal(reply->type, REDIS_REPLY_ERROR);
	freeReplyObject(reply);
	assert_string_equal(pair->redis->error,
			    "script: ERR Script attempted to access a non local key");
}

/* The real server becomes a replica of a master that does not exist. On a replica, scripts can read
 * and fail with READONLY at their first write. */
static void test_a_replica_only_reads(void **state)
{
	static const char *const writes[] = {
		"return redis.call('SET', KEYS[1], 1)",
		"redis.call('GET', KEYS[1]) return redis.call('PEXPIRE', KEYS[1], 10000)",
		"return redis.call('HSET', KEYS[2], 'a', 1)",
	};
	struct pair *pair = *state;
	uint64_t errors = pair->redis->errors;

	compare_script(pair,
		       "redis.call('DEL', KEYS[1], KEYS[2]) return redis.call('SET', KEYS[1], 5)");
	redis_run(&pair->server, "REPLICAOF 127.0.0.1 1");
	pair->redis->replica = true;
	compare_script(pair, "return redis.call('GET', KEYS[1])");
	compare_script(pair, "return redis.call('HGETALL', KEYS[2])");
	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
		const char *argv[] = {"EVAL", writes[i], "2", "s0", "h0"};
		redisReply *redis = ask_simulated(pair->redis, 5, argv, NULL);
		redisReply *real = redisCommandArgv(pair->server.link, 5, argv, NULL);

		assert_int_equal(redis->type, REDIS_REPLY_ERROR);
		assert_int_equal(real->type, REDIS_REPLY_ERROR);
		assert_non_null(strstr(real->str, "READONLY You can't write"));
		assert_non_null(strstr(redis->str, "READONLY You can't write"));
		freeReplyObject(redis);
		freeReplyObject(real);
	}
	redis_run(&pair->server, "REPLICAOF NO ONE");
	pair->redis->replica = false;
	compare_script(pair, "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}");
	assert_int_equal(pair->redis->errors, errors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_script_values),
		cmocka_unit_test(test_script_calls),
		cmocka_unit_test(test_script_libraries),
		cmocka_unit_test(test_script_errors),
		cmocka_unit_test(test_undeclared_keys_are_refused),
		cmocka_unit_test(test_a_replica_only_reads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
