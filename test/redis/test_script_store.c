/* The state of take.lua in Redis: it expires in time, needs no more memory than the usual layouts,
 * and may be damaged. Some tests run the unchanged scripts, with the clock of Redis. */
#include "redis/script_test.h"

#include <sys/time.h>
#include <unistd.h>

#define KEY "weir:1:{0123456789abcdef0123456789abcdef}:x:"

static struct wr_take limit_of(uint8_t algorithm, uint32_t limit, int64_t cost)
{
	return (struct wr_take){
		.algorithm = algorithm, .limit = limit, .period_us = MINUTE_US, .cost = cost};
}

static void taken_at(void **state, const char *key, struct wr_take take, uint64_t now_us)
{
	assert_true(script_take(*state, key, take, now_us).taken);
}

/* Loads the unchanged scripts. */
static struct script_test *unchanged_scripts(void **state)
{
	static struct script_test test;
	redisReply *sha1;

	test = *(struct script_test *)*state;
	sha1 = redis_ask(&test.server, "SCRIPT LOAD %s", wr_redis_script_take.text);
	assert_string_equal(sha1->str, wr_redis_script_take.sha1);
	memcpy(test.sha1, wr_redis_script_take.sha1, sizeof test.sha1);
	freeReplyObject(sha1);
	return &test;
}

static void test_clock_of_redis(void **state)
{
	struct script_test *test = unchanged_scripts(state);
	struct timeval before, after;
	struct wr_taken taken;

	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take take = limit_of(algorithm, 2, 1);
		char key[32];

		snprintf(key, sizeof key, "real:%d:", algorithm);
		take.period_us = WEIR_SPAN_MAX_NS / US; /* no window ends during the test */
		take.queue_size = algorithm == WEIR_LEAKY_BUCKET;
		gettimeofday(&before, NULL);
		taken = script_take(test, key, take, NOW);
		gettimeofday(&after, NULL);
		assert_in_range(taken.now_us,
				(uint64_t)before.tv_sec * SECOND_US + (uint64_t)before.tv_usec,
				(uint64_t)after.tv_sec * SECOND_US + (uint64_t)after.tv_usec);
		assert_true(taken.admitted);
		assert_int_equal(taken.remaining, 1);
		assert_true(script_take(test, key, take, NOW).admitted);
		assert_false(script_take(test, key, take, NOW).admitted);
	}
}

/* Every key expires when its state is back to the initial value, or a moment later. */
static void test_expiry(void **state)
{
	struct script_test *test = unchanged_scripts(state);

	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take take = limit_of(algorithm, 4, 2);
		struct wr_taken taken;
		long long ms;
		char key[32];

		snprintf(key, sizeof key, "life:%d:", algorithm);
		take.period_us = 365 * 24 * 3600 * SECOND_US; /* no window ends during the test */
		take.queue_size = algorithm == WEIR_LEAKY_BUCKET ? 4 : 0;
		if (algorithm != WEIR_LEAKY_BUCKET) {
			take.soft_ceiling = 5;
			take.soft_for_us = SECOND_US;
		}
		for (int i = 0; i < 3; i++) {
			taken = script_take(test, key, take, NOW);
			ms = redis_number(&test->server, "PTTL %s0", key);
			assert_in_range(ms, taken.reset_after_us / 1000 - 60000,
					taken.reset_after_us / 1000 + 102);
		}
	}
}

/* If the state is only a count, it belongs to the window that ends when the key expires. */
static void test_window_by_expiry(void **state)
{
	struct script_test *test = unchanged_scripts(state);
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 5, 1);
	uint64_t period_us = SECOND_US / 4, first = 0, window, admitted[3] = {0}, asked[3] = {0};

	take.period_us = period_us;
	for (;;) {
		struct wr_taken taken = script_take(test, "turn:", take, NOW);

		first = first ? first : taken.now_us / period_us;
		window = taken.now_us / period_us - first;
		if (window > 2)
			break;
		asked[window]++;
		admitted[window] += taken.admitted;
		usleep(2000);
	}
	for (window = 0; window < 3; window++)
		assert_int_equal(admitted[window], asked[window] < 5 ? asked[window] : 5);
}

/* The clock of the master that wrote the key was a year ahead. */
static void test_expiry_ahead(void **state)
{
	struct script_test *test = unchanged_scripts(state);
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 5, 1);
	long long period_ms = 365 * 24 * 3600 * 1000LL; /* no window ends during the test */
	struct wr_taken taken;

	take.period_us = (uint64_t)period_ms * 1000;
	redis_run(&test->server, "SET ahead:0 4 PX %lld", 2 * period_ms);
	taken = script_take(test, "ahead:", take, NOW);
	assert_true(taken.admitted);
	assert_int_equal(taken.remaining, 0);
	assert_in_range(taken.reset_after_us, 1, take.period_us);
	assert_in_range(redis_number(&test->server, "PTTL ahead:0"), 1, period_ms + 101);
	/* A key without an expiry time, which another client wrote, gets one. */
	redis_run(&test->server, "SET ahead:0 4");
	assert_int_equal(script_take(test, "ahead:", take, NOW).remaining, 0);
	assert_in_range(redis_number(&test->server, "PTTL ahead:0"), 1, period_ms + 101);
}

static void test_long_log_expires(void **state)
{
	struct script_test *test = unchanged_scripts(state);
	struct wr_take take = limit_of(WEIR_SLIDING_LOG, 1000, 1);

	take.period_us = 3600 * SECOND_US;
	for (int i = 0; i < 400; i++)
		assert_true(script_take(test, "long:", take, NOW).taken);
	assert_true(redis_number(&test->server, "STRLEN long:0") > 920);
	redis_run(&test->server, "PERSIST long:0");
	assert_true(script_take(test, "long:", take, NOW).taken);
	assert_in_range(redis_number(&test->server, "PTTL long:0"), 3500000, 3600102);
}

static long long bytes_of(struct script_test *test, const char *key)
{
	return redis_number(&test->server, "MEMORY USAGE %s", key);
}

static long long bytes_after(void **state, uint8_t algorithm, int64_t cost)
{
	struct script_test *test = *state;
	struct wr_take take = limit_of(algorithm, 4000000000, cost);

	redis_run(&test->server, "DEL %s0", KEY);
	if (algorithm == WEIR_LEAKY_BUCKET)
		take.queue_size = 3999999999;
	taken_at(state, KEY, take, NOW);
	return bytes_of(test, KEY "0");
}

/* A state needs no more memory than INCR with an expiry, two such keys, or a hash of two fields. */
static void test_memory(void **state)
{
	static const int64_t costs[] = {1, 9222, 50000, 4000000000};
	struct script_test *test = *state;
	long long number, hash;

	redis_run(&test->server, "SET %s1 100 PX 60000", KEY);
	redis_run(&test->server, "HSET %s2 tokens 9.5 at 1700000000.123", KEY);
	number = bytes_of(test, KEY "1");
	hash = bytes_of(test, KEY "2");
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
		long long bucket = costs[i] <= 9222 ? number : number + 16;

		assert_true(bucket < hash);
		assert_int_equal(bytes_after(state, WEIR_TOKEN_BUCKET, costs[i]), bucket);
		assert_int_equal(bytes_after(state, WEIR_LEAKY_BUCKET, costs[i]), bucket);
		assert_int_equal(bytes_after(state, WEIR_FIXED_WINDOW, costs[i]), number);
		assert_true(bytes_after(state, WEIR_SLIDING_COUNTER, costs[i]) <= 2 * number);
	}
}

/* A log needs no more memory than a sorted set of times. */
static void test_memory_of_log(void **state)
{
	struct script_test *test = *state;

	for (int entries = 1; entries <= 1000; entries++) {
		taken_at(state, KEY "l", limit_of(WEIR_SLIDING_LOG, 60000, 1),
			 NOW + (uint64_t)entries);
		redis_run(&test->server, "ZADD %sl1 %llu %llu", KEY, NOW + (long long)entries,
			  NOW + (long long)entries);
		assert_true(bytes_of(test, KEY "l0") <= bytes_of(test, KEY "l1"));
	}
}

/* A value that another application wrote is ignored and does not cause an error. */
static void test_damage(void **state)
{
	static const char *const values[] = {"", "x", "sssssssssssssss", "not a state at all",
					     "99999999999999999999999999999999"};
	struct script_test *test = *state;

	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG;
		     algorithm++) {
			redis_run(&test->server, "SET damage:0 %s", values[i]);
			script_take(test, "damage:", limit_of(algorithm, 2, 1), NOW);
		}
	redis_run(&test->server, "SETRANGE damage:0 2000 x");
	script_take(test, "damage:", limit_of(WEIR_SLIDING_LOG, 2, 1), NOW);
}

static void test_missing_script(void **state)
{
	struct script_test *test = *state;
	struct wr_take take = limit_of(WEIR_TOKEN_BUCKET, 2, 1);
	struct wr_taken taken;
	redisReply *reply = redisCommand(test->server.link,
					 "EVALSHA 0000000000000000000000000000000000000000 0");

	assert_int_equal(reply->type, REDIS_REPLY_ERROR);
	assert_int_equal(wr_script_reply(reply, &take, 1, &taken), WEIR_EFORMAT);
	freeReplyObject(reply);
}

static void test_invalid_takes(void **state)
{
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 2, 1);
	struct weir_error error;

	(void)state;
	take.window_start_us = NOW + 1;
	take.window_end_us = NOW + MINUTE_US;
	assert_int_equal(wr_take_check(&take, &error), WEIR_ELIMIT);
	assert_non_null(strstr(error.text, "whole second"));
	take.window_start_us = NOW;
	assert_int_equal(wr_take_check(&take, &error), 0);
	take.flags = WEIR_COUNT_REJECTED;
	take.times = 2;
	assert_int_equal(wr_take_check(&take, &error), WEIR_EINVAL);
	take = limit_of(WEIR_TOKEN_BUCKET, 2, 1);
	take.period_us = 0;
	assert_int_equal(wr_take_check(&take, &error), WEIR_ELIMIT);
}

static long long call_nodes(struct script_test *test, const char *node)
{
	return redis_number(&test->server, "EVALSHA %s 1 nodes %s", wr_redis_script_nodes.sha1,
			    node);
}

static void test_nodes(void **state)
{
	struct script_test *test = *state;

	redis_run(&test->server, "SCRIPT LOAD %s", wr_redis_script_nodes.text);
	assert_int_equal(call_nodes(test, "a"), 1);
	assert_int_equal(call_nodes(test, "b"), 2);
	assert_int_equal(call_nodes(test, "a"), 2);
	/* The set contains a node that was inactive for long, and a node that was written by a fast
	 * clock. */
	redis_run(&test->server, "ZADD nodes 1700000000000000 c 4000000000000000 d");
	assert_int_equal(call_nodes(test, "e"), 3);
	assert_in_range(redis_number(&test->server, "PTTL nodes"), 5000, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock_of_redis),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_long_log_expires),
		cmocka_unit_test(test_window_by_expiry),
		cmocka_unit_test(test_expiry_ahead),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_of_log),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_missing_script),
		cmocka_unit_test(test_invalid_takes),
		cmocka_unit_test(test_nodes),
	};

	return cmocka_run_group_tests(tests, script_setup, script_teardown);
}
