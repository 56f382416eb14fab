/* Take.lua gives earlier takes back, into the window that counted them only. It counts each report
 * of an outage once. */
#include "redis/script_test.h"

static struct wr_take limit_of(uint8_t algorithm, uint32_t limit, int64_t cost)
{
	return (struct wr_take){
		.algorithm = algorithm, .limit = limit, .period_us = MINUTE_US, .cost = cost};
}

static uint32_t remaining(void **state, const char *key, struct wr_take take, uint64_t now_us)
{
	take.cost = 0;
	take.decided_us = 0;
	take.mode = WR_MODE_TAKE;
	return script_take(*state, key, take, now_us).remaining;
}

static uint64_t taken_at(void **state, const char *key, struct wr_take take, uint64_t now_us)
{
	struct wr_taken taken = script_take(*state, key, take, now_us);

	assert_true(taken.taken);
	return taken.decided_us + taken.delay_us;
}

/* Gives back a take, as a node does when another limit refused. */
static void give_back(void **state, const char *key, struct wr_take take, uint64_t decided_us,
		      uint64_t now_us)
{
	struct wr_taken taken;

	take.cost = -take.cost;
	take.decided_us = decided_us;
	/* For a queue, decided_us and delay_us are the time at which the position leaves. */
	if (take.algorithm == WEIR_LEAKY_BUCKET)
		take.decided_us = NOW, take.delay_us = decided_us - NOW;
	taken = script_take(*state, key, take, now_us);
	assert_true(taken.admitted);
	assert_false(taken.taken);
}

static void test_give_back_window(void **state)
{
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 5, 2);
	uint64_t first_us = taken_at(state, "back:f", take, NOW);
	uint64_t second_us = taken_at(state, "back:f", take, NOW + MINUTE_US - 1);

	give_back(state, "back:f", take, first_us, NOW + MINUTE_US - 1);
	assert_int_equal(remaining(state, "back:f", take, NOW + MINUTE_US - 1), 3);
	/* The window has ended. The units of the next window belong to other takes. */
	taken_at(state, "back:f", take, NOW + MINUTE_US);
	give_back(state, "back:f", take, second_us, NOW + MINUTE_US);
	assert_int_equal(remaining(state, "back:f", take, NOW + MINUTE_US), 3);
}

static void test_give_back_counter(void **state)
{
	struct wr_take take = limit_of(WEIR_SLIDING_COUNTER, 10, 4);
	uint64_t first_us = taken_at(state, "back:c", take, NOW);
	uint64_t next_us = NOW + MINUTE_US;
	uint64_t second_us = taken_at(state, "back:c", take, next_us);

	assert_int_equal(remaining(state, "back:c", take, next_us), 2);
	give_back(state, "back:c", take, second_us, next_us);
	assert_int_equal(remaining(state, "back:c", take, next_us), 6);
	/* Nothing of the take is left in the counter. */
	give_back(state, "back:c", take, second_us, next_us);
	assert_int_equal(remaining(state, "back:c", take, next_us), 6);
	give_back(state, "back:c", take, first_us, next_us);
	assert_int_equal(remaining(state, "back:c", take, next_us), 10);
	taken_at(state, "back:c", take, NOW + 3 * MINUTE_US);
	give_back(state, "back:c", take, first_us, NOW + 3 * MINUTE_US);
	assert_int_equal(remaining(state, "back:c", take, NOW + 3 * MINUTE_US), 6);
}

/* The entry of the take is removed, not a later entry. */
static void give_back_from_log(void **state, const char *key, uint32_t before)
{
	struct wr_take take = limit_of(WEIR_SLIDING_LOG, before + 3, before);
	uint64_t decided_us;

	for (uint32_t i = 0; i < before; i++) {
		take.cost = 1;
		taken_at(state, key, take, NOW + i);
	}
	decided_us = taken_at(state, key, take, NOW + 1000);
	taken_at(state, key, take, NOW + 2000);
	taken_at(state, key, take, NOW + 3000);
	assert_int_equal(remaining(state, key, take, NOW + 4000), 0);
	give_back(state, key, take, decided_us, NOW + 4000);
	assert_int_equal(remaining(state, key, take, NOW + 4000), 1);
	give_back(state, key, take, decided_us, NOW + 4000);
	assert_int_equal(remaining(state, key, take, NOW + 4000), 1);
	/* The entries of 2000 and 3000 remain when all others have expired. */
	assert_int_equal(remaining(state, key, take, NOW + MINUTE_US + 1999), before + 1);
	assert_int_equal(remaining(state, key, take, NOW + MINUTE_US + 2999), before + 2);
	give_back(state, key, take, decided_us, NOW + MINUTE_US + 2999);
	assert_int_equal(remaining(state, key, take, NOW + MINUTE_US + 2999), before + 2);
}

static void test_give_back_log(void **state)
{
	give_back_from_log(state, "back:l", 3);
	give_back_from_log(state, "back:r", 300);
}

/* At 10 per minute, a token is refilled every 6 s. */
static void test_give_back_bucket(void **state)
{
	struct wr_take take = limit_of(WEIR_TOKEN_BUCKET, 10, 4);
	uint64_t decided_us = taken_at(state, "back:t", take, NOW);
	struct wr_take all = limit_of(WEIR_TOKEN_BUCKET, 10, 10);

	/* There was no other request since, so all missing tokens belong to this take. */
	give_back(state, "back:t", take, decided_us, NOW + 15 * SECOND_US);
	assert_int_equal(remaining(state, "back:t", take, NOW + 15 * SECOND_US), 10);
	/* 3.5 of the 4 units of the take are refilled, and 5.5 tokens are missing. */
	decided_us = taken_at(state, "back:u", take, NOW);
	taken_at(state, "back:u", limit_of(WEIR_TOKEN_BUCKET, 10, 5), NOW + 1);
	give_back(state, "back:u", take, decided_us, NOW + 21 * SECOND_US);
	assert_int_equal(remaining(state, "back:u", take, NOW + 21 * SECOND_US), 5);
	/* Before, 2.33 units of the take were missing, and 7.33 tokens in total. */
	decided_us = taken_at(state, "back:w", take, NOW);
	taken_at(state, "back:w", limit_of(WEIR_TOKEN_BUCKET, 10, 5), NOW + 1);
	assert_int_equal(remaining(state, "back:w", take, NOW + 10 * SECOND_US), 2);
	give_back(state, "back:w", take, decided_us, NOW + 10 * SECOND_US);
	assert_int_equal(remaining(state, "back:w", take, NOW + 10 * SECOND_US), 5);
	assert_int_equal(remaining(state, "back:w", take, NOW + 16 * SECOND_US - 1), 5);
	assert_int_equal(remaining(state, "back:w", take, NOW + 16 * SECOND_US), 6);
	/* All units are refilled, and the bucket was full since, so nothing is left to give
	 * back. */
	decided_us = taken_at(state, "back:v", all, NOW);
	taken_at(state, "back:v", all, NOW + MINUTE_US);
	give_back(state, "back:v", all, decided_us, NOW + MINUTE_US);
	assert_int_equal(remaining(state, "back:v", all, NOW + MINUTE_US), 0);
}

/* At 100 per second, the last 200 tokens of 1,000 are taken, and 150 are not used. After 5 s, 500
 * tokens have flowed in, and the bucket lacked 499 tokens all the time. */
static void test_give_back_proven(void **state)
{
	struct wr_take take = {.algorithm = WEIR_TOKEN_BUCKET,
			       .limit = 100,
			       .burst = 1000,
			       .period_us = SECOND_US,
			       .proves = true};
	struct wr_taken taken;

	take.cost = 800;
	script_take(*state, "back:p", take, NOW);
	take.cost = 200;
	taken = script_take(*state, "back:p", take, NOW);
	assert_true(taken.taken && taken.proven);
	assert_int_equal(taken.remaining, 0);
	assert_int_equal(taken.given, 0);
	take.cost = 150;
	take.used = 1000;
	give_back(state, "back:p", take, taken.decided_us, NOW + 5 * SECOND_US);
	assert_int_equal(remaining(state, "back:p", take, NOW + 5 * SECOND_US), 650);
	/* Of 1,000 tokens, 800 have flowed in, and 151 count as given back. 48 tokens were missing all
	 * the time. */
	take.cost = 60;
	give_back(state, "back:p", take, taken.decided_us, NOW + 8 * SECOND_US);
	assert_int_equal(remaining(state, "back:p", take, NOW + 8 * SECOND_US), 998);
	take.used = 0; /* without a proof, nothing is given back */
	give_back(state, "back:p", take, taken.decided_us, NOW + 8 * SECOND_US);
	assert_int_equal(remaining(state, "back:p", take, NOW + 8 * SECOND_US), 998);
	take.cost = 1;
	assert_int_equal(script_take(*state, "back:p", take, NOW + 8 * SECOND_US).given,
			 151 + 49 + 1);
}

/* The clock of Redis steps back by an hour, as in a failover. The bucket is full again a minute
 * later, long before the time of the first take. */
static void test_give_back_after_a_step_back(void **state)
{
	struct wr_take all = limit_of(WEIR_TOKEN_BUCKET, 10, 10);
	uint64_t back_us = NOW - 60 * MINUTE_US;
	uint64_t decided_us = taken_at(state, "back:s", all, NOW);

	assert_int_equal(remaining(state, "back:s", all, back_us), 0);
	taken_at(state, "back:s", limit_of(WEIR_TOKEN_BUCKET, 10, 1), back_us + 6 * SECOND_US);
	taken_at(state, "back:s", all, back_us + 2 * MINUTE_US);
	give_back(state, "back:s", all, decided_us, back_us + 2 * MINUTE_US);
	assert_int_equal(remaining(state, "back:s", all, back_us + 2 * MINUTE_US), 0);
}

/* Units that other takes gave back meanwhile are not given back again: the bucket is full after 30
 * s, and 5 units are taken at 48 s. */
static void test_give_back_after_others(void **state)
{
	struct wr_take five = limit_of(WEIR_TOKEN_BUCKET, 10, 5);
	uint64_t later_us = NOW + 48 * SECOND_US, first_us, second_us;

	first_us = taken_at(state, "back:o", five, NOW);
	second_us = taken_at(state, "back:o", five, NOW);
	give_back(state, "back:o", five, first_us, NOW);
	taken_at(state, "back:o", five, later_us);
	give_back(state, "back:o", five, second_us, later_us);
	assert_int_equal(remaining(state, "back:o", five, later_us), 5);
}

/* An excess makes the key last longer, but does not change its window. */
static void test_give_back_soft_window(void **state)
{
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 5, 5);
	struct wr_take more = limit_of(WEIR_FIXED_WINDOW, 5, 2);
	uint64_t next_us = NOW + MINUTE_US, decided_us;

	take.soft_ceiling = more.soft_ceiling = 7;
	take.soft_for_us = more.soft_for_us = MINUTE_US;
	taken_at(state, "back:s", take, NOW);
	decided_us = taken_at(state, "back:s", more, NOW + 30 * SECOND_US);
	taken_at(state, "back:s", take, next_us);
	give_back(state, "back:s", more, decided_us, next_us);
	assert_int_equal(remaining(state, "back:s", take, next_us), 0);
	taken_at(state, "back:i", take, NOW);
	decided_us = taken_at(state, "back:i", more, NOW + 30 * SECOND_US);
	give_back(state, "back:i", more, decided_us, NOW + 31 * SECOND_US);
	give_back(state, "back:i", more, decided_us, NOW + 31 * SECOND_US);
	assert_int_equal(remaining(state, "back:i", take, NOW + 31 * SECOND_US), 2);
}

static void test_give_back_queue(void **state)
{
	struct wr_take take = limit_of(WEIR_LEAKY_BUCKET, 60, 1);
	uint64_t decided_us[4];

	take.queue_size = 9;
	for (uint64_t i = 0; i < 4; i++)
		decided_us[i] = taken_at(state, "back:q", take, NOW);
	/* Another position follows, so the position is not given back and no position moves up. */
	give_back(state, "back:q", take, decided_us[2], NOW);
	assert_int_equal(remaining(state, "back:q", take, NOW), 6);
	give_back(state, "back:q", take, decided_us[3], NOW);
	assert_int_equal(remaining(state, "back:q", take, NOW), 7);
	give_back(state, "back:q", take, decided_us[3], NOW);
	assert_int_equal(remaining(state, "back:q", take, NOW), 7);
	/* The time of the position has come, so it is used and not given back. */
	give_back(state, "back:q", take, decided_us[2], NOW + 2 * SECOND_US + 1);
	assert_int_equal(remaining(state, "back:q", take, NOW + 2 * SECOND_US + 1), 9);
}

/* A smaller limit on the same log refuses and counts, but drops no entries. */
static void test_smaller_log(void **state)
{
	struct wr_take large = limit_of(WEIR_SLIDING_LOG, 100, 1);
	struct wr_take small = limit_of(WEIR_SLIDING_LOG, 10, 1);

	large.flags = small.flags = WEIR_COUNT_REJECTED;
	for (uint64_t i = 0; i < 100; i++)
		taken_at(state, "small:", large, NOW + i);
	assert_false(script_take(*state, "small:", small, NOW + SECOND_US).admitted);
	assert_int_equal(remaining(state, "small:", large, NOW + SECOND_US), 0);
	assert_int_equal(remaining(state, "small:", large, NOW + MINUTE_US + 10), 10);
}

static void report(void **state, const char *key, struct wr_take take, int64_t cost,
		   uint64_t decided_us, uint64_t seq, uint64_t now_us)
{
	struct wr_taken taken;

	take.mode = WR_MODE_REPORT;
	take.cost = cost;
	take.decided_us = decided_us;
	script_send(*state, key, &take, 1, seq, now_us);
	script_read_reply(*state, &take, 1, &taken);
	assert_true(taken.admitted);
	assert_false(taken.taken);
}

static void test_report(void **state)
{
	struct wr_take fixed = limit_of(WEIR_FIXED_WINDOW, 10, 0);
	struct wr_take counter = limit_of(WEIR_SLIDING_COUNTER, 10, 0);
	struct wr_take token = limit_of(WEIR_TOKEN_BUCKET, 10, 0);
	struct wr_take log = limit_of(WEIR_SLIDING_LOG, 10, 0);
	uint64_t next_us = NOW + MINUTE_US;

	report(state, "rep:f", fixed, 7, NOW + 5, 1, NOW + 10);
	assert_int_equal(remaining(state, "rep:f", fixed, NOW + 10), 3);
	report(state, "rep:f", fixed, 7, NOW + 5, 2,
	       NOW + 10); /* above the limit, but not refused */
	assert_int_equal(remaining(state, "rep:f", fixed, NOW + 10), 0);
	report(state, "rep:f", fixed, 7, NOW + 5, 3, next_us);
	assert_int_equal(remaining(state, "rep:f", fixed, next_us), 10);

	report(state, "rep:c", counter, 4, NOW + 5, 1, next_us);
	assert_int_equal(remaining(state, "rep:c", counter, next_us), 6);
	report(state, "rep:c", counter, 4, next_us, 2, next_us);
	assert_int_equal(remaining(state, "rep:c", counter, next_us), 2);
	report(state, "rep:c", counter, 4, NOW - 1, 3, next_us);
	assert_int_equal(remaining(state, "rep:c", counter, next_us), 2);

	report(state, "rep:t", token, 25, NOW, 1, NOW);
	assert_int_equal(remaining(state, "rep:t", token, NOW), 0);
	assert_int_equal(remaining(state, "rep:t", token, NOW + 6 * SECOND_US), 1);

	log.cost = 1;
	taken_at(state, "rep:l", log, NOW + 10);
	taken_at(state, "rep:l", log, NOW + 20);
	report(state, "rep:l", log, 3, NOW + 15, 1, NOW + 30);
	report(state, "rep:l", log, 2, NOW + 25, 2, NOW + 30);
	assert_int_equal(remaining(state, "rep:l", log, NOW + 30), 3);
	assert_int_equal(remaining(state, "rep:l", log, next_us + 10), 4);
	assert_int_equal(remaining(state, "rep:l", log, next_us + 15), 7);
	assert_int_equal(remaining(state, "rep:l", log, next_us + 20), 8);
	assert_int_equal(remaining(state, "rep:l", log, next_us + 25), 10);
	report(state, "rep:l", log, 3, NOW + 30, 3, next_us + 30);
	assert_int_equal(remaining(state, "rep:l", log, next_us + 30), 10);
}

/* A report that is repeated counts once. */
static void test_report_once(void **state)
{
	struct script_test *test = *state;
	struct wr_take fixed = limit_of(WEIR_FIXED_WINDOW, 100, 0);

	report(state, "once:", fixed, 7, NOW, 5, NOW);
	report(state, "once:", fixed, 7, NOW, 5, NOW);
	report(state, "once:", fixed, 7, NOW, 4, NOW);
	assert_int_equal(remaining(state, "once:", fixed, NOW), 93);
	report(state, "once:", fixed, 7, NOW, 6, NOW);
	assert_int_equal(remaining(state, "once:", fixed, NOW), 86);
	assert_in_range(redis_number(&test->server, "PTTL once:r"), 30000, 60000);
}

/* 4 of 10 units are taken, then the counter is reset, then 3 units are taken. The 4 units cannot be
 * given back, the 3 units can. A queue cannot distinguish a take just after the reset from a take
 * before it, so nothing is given back. */
static void test_give_back_after_reset(void **state)
{
	struct script_test *test = *state;

	for (unsigned algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct wr_take take = limit_of((uint8_t)algorithm, 10, 4), reset;
		uint64_t now_us = NOW + SECOND_US + 1, before_us, after_us;
		char key[16];

		snprintf(key, sizeof key, "back:r%u", algorithm);
		take.queue_size = algorithm == WEIR_LEAKY_BUCKET ? 9 : 0;
		before_us = taken_at(state, key, take, NOW);
		reset = take;
		reset.mode = WR_MODE_RESET;
		assert_int_equal(script_take(test, key, reset, NOW + SECOND_US).remaining, 10);
		assert_in_range(redis_number(&test->server, "PTTL %s0:r", key), 30000, 130000);
		give_back(state, key, take, before_us, now_us);
		take.cost = 3;
		after_us = taken_at(state, key, take, now_us);
		take.cost = 4;
		give_back(state, key, take, before_us, now_us);
		assert_int_equal(remaining(state, key, take, now_us), 7);
		take.cost = 3;
		give_back(state, key, take, after_us, now_us);
		assert_int_equal(remaining(state, key, take, now_us),
				 algorithm == WEIR_LEAKY_BUCKET ? 7 : 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_give_back_window),
		cmocka_unit_test(test_give_back_counter),
		cmocka_unit_test(test_give_back_log),
		cmocka_unit_test(test_give_back_proven),
		cmocka_unit_test(test_give_back_bucket),
		cmocka_unit_test(test_give_back_after_others),
		cmocka_unit_test(test_give_back_after_a_step_back),
		cmocka_unit_test(test_smaller_log),
		cmocka_unit_test(test_give_back_soft_window),
		cmocka_unit_test(test_give_back_queue),
		cmocka_unit_test(test_give_back_after_reset),
		cmocka_unit_test(test_report),
		cmocka_unit_test(test_report_once),
	};

	return cmocka_run_group_tests(tests, script_setup, script_teardown);
}
