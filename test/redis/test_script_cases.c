/* Decisions of take.lua that the suites of src/algo do not cover, or that an example shows better
 * than a trace: extremes, several limits at once, merged requests, calendar windows, grants, and
 * clocks that step back. */
#include "redis/script_test.h"
#include "rounds.h"

#define LIMIT_OF(name, per, us)                                                                    \
	{                                                                                          \
		.algorithm = (name), .limit = (per), .period_us = (us), .cost = 1                  \
	}

static void assert_taken(struct wr_taken taken, uint32_t remaining, uint64_t reset_after_us)
{
	assert_true(taken.admitted);
	assert_true(taken.taken);
	assert_int_equal(taken.remaining, remaining);
	assert_int_equal(taken.retry_after_us, 0);
	assert_int_equal(taken.reset_after_us, reset_after_us);
}

static void assert_refused(struct wr_taken taken, uint64_t retry_after_us)
{
	assert_false(taken.admitted);
	assert_false(taken.taken);
	assert_int_equal(taken.retry_after_us, retry_after_us);
}

static void test_one_per_year(void **state)
{
	uint64_t year_us = YEAR / US;

	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take take = LIMIT_OF(algorithm, 1, year_us);
		uint64_t begin_us = (NOW / year_us + 1) * year_us;
		char key[32];

		snprintf(key, sizeof key, "year:%d:", algorithm);
		assert_true(script_take(*state, key, take, begin_us).admitted);
		/* The count of the year before weighs less than a whole unit only after this µs. */
		assert_refused(script_take(*state, key, take, begin_us + 1),
			       algorithm == WEIR_SLIDING_COUNTER ? year_us : year_us - 1);
		assert_true(script_take(*state, key, take, begin_us + year_us + 1).admitted);
	}
}

static void test_largest_limits(void **state)
{
	struct wr_take token = LIMIT_OF(WEIR_TOKEN_BUCKET, UINT32_MAX, SECOND_US);
	struct wr_take fixed = LIMIT_OF(WEIR_FIXED_WINDOW, UINT32_MAX, SECOND_US);
	struct wr_take counter = LIMIT_OF(WEIR_SLIDING_COUNTER, UINT32_MAX, SECOND_US);

	token.cost = fixed.cost = counter.cost = UINT32_MAX;
	assert_taken(script_take(*state, "many:t", token, NOW), 0, SECOND_US);
	assert_refused(script_take(*state, "many:t", token, NOW + 1), SECOND_US - 1);
	token.cost = 4294; /* 4294.967295 tokens are refilled per µs */
	assert_taken(script_take(*state, "many:t", token, NOW + 1), 0, SECOND_US);
	token.cost = 1;
	assert_refused(script_take(*state, "many:t", token, NOW + 1), 1);
	assert_taken(script_take(*state, "many:f", fixed, NOW), 0, SECOND_US);
	assert_refused(script_take(*state, "many:f", fixed, NOW + 1), SECOND_US - 1);
	assert_true(script_take(*state, "many:c", counter, NOW).admitted);
	assert_refused(script_take(*state, "many:c", counter, NOW + 1), 2 * SECOND_US - 1);
}

/* The bucket with the longest refill time needs products of 2^83. */
static void test_widest_bucket(void **state)
{
	uint64_t century_us = WEIR_SPAN_MAX_NS / US;
	struct wr_take take = LIMIT_OF(WEIR_TOKEN_BUCKET, UINT32_MAX - 1, century_us - 1);

	take.burst = UINT32_MAX - 1;
	take.cost = UINT32_MAX - 2;
	assert_taken(script_take(*state, "wide:", take, NOW), 1, century_us - 734758);
	take.cost = 1;
	assert_taken(script_take(*state, "wide:", take, NOW + 5), 0, century_us - 1 - 5);
	/* A token is refilled every 734757.6 µs. */
	assert_refused(script_take(*state, "wide:", take, NOW + 734757), 1);
	assert_taken(script_take(*state, "wide:", take, NOW + 734758), 0, century_us - 1);
}

static void test_longest_log(void **state)
{
	struct wr_take take = LIMIT_OF(WEIR_SLIDING_LOG, WEIR_LOG_MAX, MINUTE_US);

	take.cost = WEIR_LOG_MAX / 2;
	assert_taken(script_take(*state, "log:", take, NOW), 32766, MINUTE_US);
	assert_taken(script_take(*state, "log:", take, NOW + 1), 0, MINUTE_US);
	take.cost = 1;
	assert_refused(script_take(*state, "log:", take, NOW + 2), MINUTE_US - 2);
	assert_taken(script_take(*state, "log:", take, NOW + MINUTE_US), 32765, MINUTE_US);
	take.cost = 32766;
	assert_refused(script_take(*state, "log:", take, NOW + MINUTE_US), 1);
	assert_taken(script_take(*state, "log:", take, NOW + MINUTE_US + 1), 32765, MINUTE_US);
}

/* Two entries of the same instant count as two, and neither changes the stamp of the other. */
static void test_same_instant(void **state)
{
	struct wr_take take = LIMIT_OF(WEIR_SLIDING_LOG, 3, MINUTE_US);

	assert_taken(script_take(*state, "same:", take, NOW), 2, MINUTE_US);
	assert_taken(script_take(*state, "same:", take, NOW), 1, MINUTE_US);
	assert_taken(script_take(*state, "same:", take, NOW + 10), 0, MINUTE_US);
	assert_refused(script_take(*state, "same:", take, NOW + 10), MINUTE_US - 10);
	take.cost = 2;
	assert_refused(script_take(*state, "same:", take, NOW + 10), MINUTE_US - 10);
	assert_taken(script_take(*state, "same:", take, NOW + MINUTE_US), 0, MINUTE_US);
	take.cost = 1;
	assert_refused(script_take(*state, "same:", take, NOW + MINUTE_US), 10);
}

/* A log of more than 128 stamps is a ring. Each of 1000 instants, with two entries each, is found
 * again. */
static void test_ring(void **state)
{
	struct wr_take take = LIMIT_OF(WEIR_SLIDING_LOG, 2000, MINUTE_US);

	for (uint64_t i = 0; i < 2000; i++)
		assert_taken(script_take(*state, "ring:", take, NOW + i / 2), 1999 - (uint32_t)i,
			     MINUTE_US);
	assert_int_equal(redis_number(&((struct script_test *)*state)->server, "STRLEN ring:0"),
			 15 + 7 * 2000);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t now_us = NOW + MINUTE_US + i;

		assert_refused(script_take(*state, "ring:", take, now_us - 1), 1);
		assert_taken(script_take(*state, "ring:", take, now_us), 1, MINUTE_US);
		assert_taken(script_take(*state, "ring:", take, now_us), 0, MINUTE_US);
		if (i == 999) /* in the second round the entries are a minute later */
			i += MINUTE_US - 1000;
		if (i > MINUTE_US)
			break;
	}
}

static void take_three(struct script_test *test, const char *key, struct wr_take takes[3],
		       uint64_t now_us, struct wr_taken taken[3])
{
	script_send(test, key, takes, 3, 0, now_us);
	script_read_reply(test, takes, 3, taken);
}

static void test_all_or_none(void **state)
{
	struct wr_take takes[3] = {LIMIT_OF(WEIR_FIXED_WINDOW, 10, MINUTE_US),
				   LIMIT_OF(WEIR_TOKEN_BUCKET, 2, SECOND_US),
				   LIMIT_OF(WEIR_SLIDING_LOG, 5, MINUTE_US)};
	struct wr_taken taken[3];

	takes[2].flags = WEIR_COUNT_REJECTED;
	for (uint32_t i = 1; i <= 2; i++) {
		take_three(*state, "all:", takes, NOW, taken);
		assert_taken(taken[0], 10 - i, MINUTE_US);
		assert_taken(taken[1], 2 - i, i * SECOND_US / 2);
		assert_taken(taken[2], 5 - i, MINUTE_US);
	}
	/* The bucket refuses. The window would admit, so its count stays 8. The log counts rejected
	 * requests. */
	for (uint32_t i = 1; i <= 3; i++) {
		take_three(*state, "all:", takes, NOW, taken);
		assert_true(taken[0].admitted);
		assert_false(taken[0].taken);
		assert_int_equal(taken[0].remaining, 8);
		assert_refused(taken[1], SECOND_US / 2);
		assert_false(taken[2].taken);
		assert_int_equal(taken[2].remaining, 3 - i);
	}
	/* Now the log is full as well, and each limit reports its own wait time. */
	take_three(*state, "all:", takes, NOW + 1, taken);
	assert_refused(taken[1], SECOND_US / 2 - 1);
	assert_refused(taken[2], MINUTE_US - 1);
	/* A bucket with enough tokens loses no token when the log refuses. */
	take_three(*state, "all:", takes, NOW + SECOND_US, taken);
	assert_true(taken[1].admitted);
	assert_false(taken[1].taken);
	assert_int_equal(taken[1].remaining, 2);
	assert_refused(taken[2], MINUTE_US - SECOND_US);
}

static void test_look_takes_nothing(void **state)
{
	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take look = LIMIT_OF(algorithm, 1, MINUTE_US);
		struct wr_taken taken;
		char key[32];

		snprintf(key, sizeof key, "look:%d:", algorithm);
		look.cost = 0;
		for (int i = 0; i < 3; i++) {
			taken = script_take(*state, key, look, NOW);
			assert_true(taken.admitted);
			assert_false(taken.taken);
			assert_int_equal(taken.remaining, 1);
		}
		assert_int_equal(
			redis_number(&((struct script_test *)*state)->server, "EXISTS %s0", key),
			0);
	}
}

/* Merged requests get the same answers as single requests, and leave the same state to the byte. */
static void merged_equal_single(struct script_test *test, struct rnd *r, uint8_t algorithm)
{
	struct wr_take take = LIMIT_OF(algorithm, 1 + (uint32_t)rnd_below(r, 20),
				       1 + rnd_below(r, 2 * SECOND_US));
	uint64_t now_us = NOW;
	redisReply *a, *b;

	take.cost = 1 + (int64_t)rnd_below(r, 3);
	redis_run(&test->server, "FLUSHALL");
	for (int step = 0; step < 30; step++) {
		struct wr_taken one, all;
		uint32_t passed = 0;

		take.times = 1;
		for (uint32_t i = 0, n = 1 + (uint32_t)rnd_below(r, 9);; i++) {
			one = script_take(test, "a:", take, now_us);
			passed += one.admitted;
			if (i + 1 < n)
				continue;
			take.times = n;
			break;
		}
		all = script_take(test, "b:", take, now_us);
		assert_int_equal(all.admitted_times, passed);
		assert_int_equal(all.admitted, passed > 0);
		assert_int_equal(all.remaining, one.remaining);
		assert_int_equal(all.retry_after_us, one.retry_after_us);
		assert_int_equal(all.reset_after_us, one.reset_after_us);
		a = redis_ask(&test->server, "GET a:0");
		b = redis_ask(&test->server, "GET b:0");
		assert_int_equal(a->len, b->len);
		assert_memory_equal(a->str, b->str, a->len);
		freeReplyObject(a);
		freeReplyObject(b);
		now_us += rnd_below(r, take.period_us);
	}
}

static void test_merged(void **state)
{
	struct rnd r = {rnd_seed()};
	struct wr_take leaky = LIMIT_OF(WEIR_LEAKY_BUCKET, 1, MINUTE_US);
	struct wr_take counting = LIMIT_OF(WEIR_FIXED_WINDOW, 1, MINUTE_US);

	for (int i = 0; i < test_rounds(10, 40); i++) {
		merged_equal_single(*state, &r, WEIR_TOKEN_BUCKET);
		merged_equal_single(*state, &r, WEIR_FIXED_WINDOW);
		merged_equal_single(*state, &r, WEIR_SLIDING_COUNTER);
		merged_equal_single(*state, &r, WEIR_SLIDING_LOG);
	}
	counting.flags = WEIR_COUNT_REJECTED;
	assert_false(wr_take_merges(&leaky));
	assert_false(wr_take_merges(&counting));
}

/* A month ends between the caller's time and the time of Redis. */
static void test_calendar(void **state)
{
	uint64_t day_us = DAY / US, month_us = 30 * day_us;
	struct wr_take take = {.algorithm = WEIR_FIXED_WINDOW,
			       .limit = 2,
			       .cost = 1,
			       .window_before_us = NOW - 31 * day_us,
			       .window_start_us = NOW,
			       .window_end_us = NOW + month_us,
			       .window_after_us = NOW + month_us + 31 * day_us};
	struct wr_taken taken;

	assert_taken(script_take(*state, "month:", take, NOW - 1), 1, 1);
	assert_taken(script_take(*state, "month:", take, NOW), 1, month_us);
	assert_taken(script_take(*state, "month:", take, NOW + month_us - 1), 0, 1);
	assert_refused(script_take(*state, "month:", take, NOW + month_us - 1), 1);
	assert_taken(script_take(*state, "month:", take, NOW + month_us), 1, 31 * day_us);
	/* The clock of the next caller is right, and the call uses the same window. */
	take.window_before_us = 0;
	take.window_start_us = NOW + month_us;
	take.window_end_us = take.window_after_us;
	take.window_after_us = 0;
	assert_taken(script_take(*state, "month:", take, NOW + month_us + 1), 0, 31 * day_us - 1);
	/* If the caller knows neither the window before nor the window after, the verdict is
	 * OUTSIDE, and nothing is taken. */
	taken = script_take(*state, "month:", take, NOW + month_us - 2);
	assert_true(taken.outside_window);
	assert_false(taken.admitted);
	taken = script_take(*state, "month:", take, take.window_end_us);
	assert_true(taken.outside_window);
	assert_int_equal(taken.now_us, take.window_end_us);
	assert_refused(script_take(*state, "month:", take, take.window_end_us - 1), 1);
}

static void test_granted(void **state)
{
	static const uint32_t remaining[] = {0, 5, 5, 5, 5, 5};

	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take take = LIMIT_OF(algorithm, 3, MINUTE_US);
		struct wr_taken taken;
		char key[32];

		snprintf(key, sizeof key, "granted:%d:", algorithm);
		take.queue_size = algorithm == WEIR_LEAKY_BUCKET ? 2 : 0;
		take.cost = 3;
		assert_true(script_take(*state, key, take, NOW).admitted);
		take.cost = 1;
		assert_false(script_take(*state, key, take, NOW).admitted);
		take.granted = 6;
		taken = script_take(*state, key, take, NOW);
		assert_true(taken.admitted);
		assert_int_equal(taken.limit, 9);
		assert_int_equal(taken.remaining, remaining[algorithm]);
		take.granted = 0;
		assert_false(script_take(*state, key, take, NOW).admitted);
	}
}

/* The clock of a new master is an hour behind. Used units are kept and cause refusals for at most
 * one period, and no more than the limit is admitted. */
static void test_clock_behind(void **state)
{
	for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take take = LIMIT_OF(algorithm, 5, MINUTE_US);
		uint64_t behind_us = NOW - HOUR / US;
		struct wr_taken taken;
		char key[32];

		snprintf(key, sizeof key, "behind:%d:", algorithm);
		take.queue_size = algorithm == WEIR_LEAKY_BUCKET ? 4 : 0;
		take.cost = 5;
		assert_true(script_take(*state, key, take, NOW).admitted);
		take.cost = 1;
		taken = script_take(*state, key, take, behind_us);
		assert_false(taken.admitted);
		assert_in_range(taken.retry_after_us, 1,
				algorithm == WEIR_SLIDING_COUNTER ? 2 * MINUTE_US : MINUTE_US);
		assert_true(
			script_take(*state, key, take, behind_us + taken.retry_after_us).admitted);
	}
}

/* The example of algo/soft.h: 100 per minute, and 20 % more for 30 s. */
static void test_soft_example(void **state)
{
	struct wr_take take = LIMIT_OF(WEIR_FIXED_WINDOW, 100, MINUTE_US);
	struct wr_taken taken;

	take.soft_ceiling = 120;
	take.soft_for_us = 30 * SECOND_US;
	take.cost = 100;
	assert_taken(script_take(*state, "soft:", take, NOW), 0, MINUTE_US);
	take.cost = 1;
	taken = script_take(*state, "soft:", take, NOW + 20 * SECOND_US);
	assert_true(taken.admitted && taken.soft && taken.taken);
	assert_int_equal(taken.reset_after_us, MINUTE_US);
	for (int i = 2; i <= 20; i++)
		assert_true(script_take(*state, "soft:", take, NOW + 21 * SECOND_US).soft);
	assert_refused(script_take(*state, "soft:", take, NOW + 22 * SECOND_US), 38 * SECOND_US);
	/* In the next minute the grace period is spent. 100 requests are admitted, and refusals
	 * keep the grace period from being re-armed. */
	take.cost = 100;
	assert_true(script_take(*state, "soft:", take, NOW + 61 * SECOND_US).admitted);
	take.cost = 1;
	taken = script_take(*state, "soft:", take, NOW + 70 * SECOND_US);
	assert_refused(taken, 50 * SECOND_US);
	assert_int_equal(taken.reset_after_us, 60 * SECOND_US);
	/* The grace period is re-armed after a minute without excess. */
	take.cost = 101;
	assert_true(script_take(*state, "soft:", take, NOW + 130 * SECOND_US).soft);
}

/* Checks a count that was written by a master with another clock. The key lives into the next
 * window, because its time to live was replicated. The count is valid in this window, and not again
 * in the next one. */
static void outlives(struct script_test *test, const char *key, uint32_t count, uint32_t remaining,
		     uint32_t after)
{
	struct wr_take take = LIMIT_OF(WEIR_FIXED_WINDOW, 10, MINUTE_US);

	redis_run(&test->server, "SET %s0 %u", key, count);
	redis_run(&test->server, "SET %s0x %llu", key, NOW / 1000 + 90000ull);
	assert_int_equal(script_take(test, key, take, NOW + 10 * SECOND_US).remaining, remaining);
	assert_int_equal(redis_number(&test->server, "INCRBY %s0x 0", key), NOW / 1000 + 60100);
	assert_int_equal(script_take(test, key, take, NOW + MINUTE_US).remaining, after);
}

static void test_key_that_outlives_its_window(void **state)
{
	outlives(*state, "outlives:", 5, 4, 9);
	outlives(*state, "outlives:full:", 10, 0, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_that_outlives_its_window),
		cmocka_unit_test(test_one_per_year),
		cmocka_unit_test(test_largest_limits),
		cmocka_unit_test(test_widest_bucket),
		cmocka_unit_test(test_longest_log),
		cmocka_unit_test(test_same_instant),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_all_or_none),
		cmocka_unit_test(test_look_takes_nothing),
		cmocka_unit_test(test_merged),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_granted),
		cmocka_unit_test(test_clock_behind),
		cmocka_unit_test(test_soft_example),
	};

	return cmocka_run_group_tests(tests, script_setup, script_teardown);
}
