/* Cases with exact numbers for debts and for slots of concurrent limits in take.lua. */
#include "redis/script_test.h"

static struct wr_take limit_of(uint8_t algorithm, uint32_t limit, int64_t cost)
{
	return (struct wr_take){
		.algorithm = algorithm, .limit = limit, .period_us = MINUTE_US, .cost = cost};
}

static struct wr_taken owe(void **state, const char *key, struct wr_take take, int64_t units,
			   uint64_t now_us)
{
	struct wr_taken taken;

	take.mode = WR_MODE_OWE;
	take.cost = units;
	taken = script_take(*state, key, take, now_us);
	assert_true(taken.admitted);
	assert_false(taken.taken);
	return taken;
}

static struct wr_taken look(void **state, const char *key, struct wr_take take, uint64_t now_us)
{
	take.cost = 0;
	return script_take(*state, key, take, now_us);
}

/* 8 of 10 units are in use, and a request used 7 more: 15 are in use, 5 of them are a debt. The
 * debt is at most 10. */
static void test_debt(void **state)
{
	static const uint8_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					     WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	for (size_t i = 0; i < sizeof algorithms; i++) {
		struct wr_take take = limit_of(algorithms[i], 10, 8);
		struct wr_taken taken;
		char key[16];

		snprintf(key, sizeof key, "debt:%zu", i);
		assert_true(script_take(*state, key, take, NOW).taken);
		taken = owe(state, key, take, 7, NOW);
		assert_int_equal(taken.remaining, 0);
		assert_int_equal(taken.debt, 5);
		taken = owe(state, key, take, 1000, NOW);
		assert_int_equal(taken.debt, 10);
		taken = look(state, key, take, NOW);
		assert_false(taken.admitted);
		assert_int_equal(taken.remaining, 0);
		assert_int_equal(taken.debt, 10);
	}
}

/* 10 per minute: a token flows in every 6 s. With a debt of 10 tokens, the first token is free after
 * 66 s, and the bucket is full after 120 s. */
static void test_debt_of_bucket(void **state)
{
	struct wr_take take = limit_of(WEIR_TOKEN_BUCKET, 10, 10);
	struct wr_taken taken;

	script_take(*state, "debt:b", take, NOW);
	taken = owe(state, "debt:b", take, 10, NOW);
	assert_int_equal(taken.reset_after_us, 2 * MINUTE_US);
	take.cost = 1;
	taken = script_take(*state, "debt:b", take, NOW);
	assert_int_equal(taken.retry_after_us, 66 * SECOND_US);
	assert_false(script_take(*state, "debt:b", take, NOW + 66 * SECOND_US - 1).admitted);
	taken = script_take(*state, "debt:b", take, NOW + 66 * SECOND_US);
	assert_true(taken.admitted);
	assert_int_equal(taken.debt, 0);
}

/* A window stays over its limit until it ends. The next window is empty. */
static void test_debt_of_window(void **state)
{
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 10, 10);
	struct wr_taken taken;

	script_take(*state, "debt:w", take, NOW + SECOND_US);
	owe(state, "debt:w", take, 3, NOW + 2 * SECOND_US);
	taken = script_take(*state, "debt:w", take, NOW + 20 * SECOND_US);
	assert_false(taken.admitted);
	assert_int_equal(taken.retry_after_us, 40 * SECOND_US);
	assert_int_equal(look(state, "debt:w", take, NOW + MINUTE_US).remaining, 10);
}

/* A debt in a log expires with the entries of its own time: 4 entries of NOW + 10 s. */
static void test_debt_of_log(void **state)
{
	struct wr_take take = limit_of(WEIR_SLIDING_LOG, 3, 3);
	struct wr_taken taken;

	script_take(*state, "debt:l", take, NOW);
	assert_int_equal(owe(state, "debt:l", take, 4, NOW + 10 * SECOND_US).debt, 3);
	taken = look(state, "debt:l", take, NOW + MINUTE_US);
	assert_int_equal(taken.debt, 0);
	assert_int_equal(taken.remaining, 0);
	assert_int_equal(taken.retry_after_us, 10 * SECOND_US);
	assert_int_equal(look(state, "debt:l", take, NOW + 70 * SECOND_US).remaining, 3);
}

static void test_largest_debt(void **state)
{
	struct wr_take take = limit_of(WEIR_FIXED_WINDOW, 10, 10);

	take.max_debt = 4;
	assert_int_equal(owe(state, "most:m", take, 100, NOW).debt, 4);
	take.max_debt = 0;
	take.flags = WEIR_NO_DEBT;
	assert_int_equal(owe(state, "most:n", take, 100, NOW).debt, 0);
	assert_int_equal(look(state, "most:n", take, NOW).remaining, 0);
	/* A grant of 5 units raises the capacity, and so the largest debt. */
	take.flags = 0;
	take.granted = 5;
	assert_int_equal(owe(state, "most:g", take, 100, NOW).debt, 15);
	/* The ceiling of soft mode is 12, so 2 + 10 units beyond the limit can be in use. */
	take.granted = 0;
	take.soft_ceiling = 12;
	take.soft_for_us = SECOND_US;
	assert_int_equal(owe(state, "most:s", take, 100, NOW).debt, 12);
}

/* Units of one request go back from the middle of a log and of a long log (a ring). */
static void test_partial_return_of_log(void **state)
{
	for (uint32_t others = 5; others <= 300; others += 295) {
		struct wr_take one = limit_of(WEIR_SLIDING_LOG, others + 600, 1), some = one;
		uint64_t decided_us;
		char key[16];

		snprintf(key, sizeof key, "part:%u", others);
		some.cost = 600;
		decided_us = script_take(*state, key, some, NOW).decided_us;
		for (uint32_t i = 1; i <= others; i++)
			assert_true(script_take(*state, key, one, NOW + i).taken);
		assert_int_equal(look(state, key, one, NOW + 1000).remaining, 0);
		some.cost = -100;
		some.decided_us = decided_us;
		script_take(*state, key, some, NOW + 1000);
		assert_int_equal(look(state, key, one, NOW + 1000).remaining, 100);
		/* The other 500 entries of the request expire first, after a minute. */
		assert_int_equal(look(state, key, one, NOW + MINUTE_US).remaining, 600);
	}
}

/* ---- slots ---- */

static struct wr_take slots_of(uint32_t limit, int64_t cost)
{
	return limit_of(WEIR_CONCURRENT, limit, cost);
}

static void free_slot(void **state, const char *key, struct wr_take take, uint64_t decided_us,
		      uint64_t now_us)
{
	take.cost = -1;
	take.decided_us = decided_us;
	assert_true(script_take(*state, key, take, now_us).admitted);
}

/* Three requests in the same µs get three tokens. The second time, a token frees nothing. */
static void test_slots(void **state)
{
	struct wr_take take = slots_of(3, 7);
	uint64_t tokens[3];
	struct wr_taken taken;

	for (uint32_t i = 0; i < 3; i++) {
		taken = script_take(*state, "slot:a", take, NOW);
		assert_true(taken.taken);
		assert_int_equal(taken.limit, 3);
		assert_int_equal(taken.remaining, 2 - i); /* one slot, although the cost is 7 */
		tokens[i] = taken.decided_us;
		assert_int_equal(tokens[i], NOW + i);
	}
	taken = script_take(*state, "slot:a", take, NOW + SECOND_US);
	assert_false(taken.admitted);
	assert_int_equal(taken.decided_us, 0);
	assert_int_equal(taken.retry_after_us, SECOND_US);
	free_slot(state, "slot:a", take, tokens[1], NOW + 2 * SECOND_US);
	free_slot(state, "slot:a", take, tokens[1], NOW + 2 * SECOND_US);
	free_slot(state, "slot:a", take, NOW + 77, NOW + 2 * SECOND_US);
	free_slot(state, "slot:a", take, 0, NOW + 2 * SECOND_US);
	taken = look(state, "slot:a", take, NOW + 2 * SECOND_US);
	assert_true(taken.admitted);
	assert_int_equal(taken.remaining, 1);
}

/* A slot that is not freed is free again after max_hold, here a minute. */
static void test_max_hold(void **state)
{
	struct wr_take take = slots_of(2, 1);
	uint64_t first_us = script_take(*state, "slot:h", take, NOW).decided_us;

	script_take(*state, "slot:h", take, NOW + 10 * SECOND_US);
	assert_false(script_take(*state, "slot:h", take, NOW + MINUTE_US - 1).admitted);
	assert_int_equal(look(state, "slot:h", take, NOW + MINUTE_US).remaining, 1);
	assert_true(script_take(*state, "slot:h", take, NOW + MINUTE_US).taken);
	/* The process that held the first slot was slow: its slot belongs to another request. */
	free_slot(state, "slot:h", take, first_us, NOW + MINUTE_US);
	assert_false(script_take(*state, "slot:h", take, NOW + MINUTE_US).admitted);
	assert_int_equal(look(state, "slot:h", take, NOW + 70 * SECOND_US).reset_after_us,
			 50 * SECOND_US);
}

/* A request held a slot for 20 s, and two slots are held for 5 s and for 2 s. */
static void test_wait_for_slot(void **state)
{
	struct wr_take take = slots_of(2, 1);
	uint64_t first_us = script_take(*state, "slot:w", take, NOW).decided_us;
	uint64_t later_us = NOW + 20 * SECOND_US;

	script_take(*state, "slot:w", take, NOW + 15 * SECOND_US);
	free_slot(state, "slot:w", take, first_us, later_us);
	script_take(*state, "slot:w", take, NOW + 18 * SECOND_US);
	assert_int_equal(script_take(*state, "slot:w", take, later_us).retry_after_us,
			 15 * SECOND_US);
	/* After more than 20 s, the oldest slot is expected to be held for 20 s more, the other
	 * one for 1 s. */
	assert_int_equal(script_take(*state, "slot:w", take, NOW + 37 * SECOND_US).retry_after_us,
			 SECOND_US);
	/* Both have been held for longer than the average. The first one ends after a minute. */
	assert_int_equal(script_take(*state, "slot:w", take, NOW + 65 * SECOND_US).retry_after_us,
			 10 * SECOND_US);
}

/* A slot and a window in one call: both are taken or none. */
static void test_slots_beside_window(void **state)
{
	struct wr_take takes[2] = {slots_of(2, 4), limit_of(WEIR_FIXED_WINDOW, 10, 4)};
	struct wr_taken taken[2];

	for (int i = 0; i < 2; i++) {
		script_send(*state, "slot:b", takes, 2, 0, NOW + (uint64_t)i);
		script_read_reply(*state, takes, 2, taken);
		assert_true(taken[0].taken && taken[1].taken);
	}
	assert_int_equal(taken[0].remaining, 0);
	assert_int_equal(taken[1].remaining, 2);
	/* No slot is free, so the window keeps its units. */
	takes[1].cost = 1;
	script_send(*state, "slot:b", takes, 2, 0, NOW + 2);
	script_read_reply(*state, takes, 2, taken);
	assert_false(taken[0].admitted);
	assert_true(taken[1].admitted);
	assert_false(taken[1].taken);
	assert_int_equal(taken[1].remaining, 2);
	/* The window refuses, so no slot is taken. */
	free_slot(state, "slot:b", takes[0], NOW, NOW + 3);
	takes[1].cost = 4;
	script_send(*state, "slot:b", takes, 2, 0, NOW + 3);
	script_read_reply(*state, takes, 2, taken);
	assert_true(taken[0].admitted);
	assert_false(taken[0].taken);
	assert_int_equal(taken[0].decided_us, 0);
	assert_int_equal(taken[0].remaining, 1);
}

/* The clock of Redis steps back by an hour, as in a failover. The slots are free a minute after the
 * step, or when they are freed. */
static void test_slots_after_a_step_back(void **state)
{
	struct wr_take take = slots_of(2, 1);
	uint64_t back_us = NOW - 60 * MINUTE_US;
	uint64_t token = script_take(*state, "slot:s", take, NOW).decided_us;

	script_take(*state, "slot:s", take, NOW + 1);
	assert_false(script_take(*state, "slot:s", take, back_us).admitted);
	free_slot(state, "slot:s", take, token, back_us + SECOND_US);
	assert_int_equal(look(state, "slot:s", take, back_us + SECOND_US).remaining, 1);
	assert_int_equal(look(state, "slot:s", take, back_us + MINUTE_US - 1).remaining, 1);
	assert_int_equal(look(state, "slot:s", take, back_us + MINUTE_US).remaining, 2);
}

static void test_reset_of_slots(void **state)
{
	struct wr_take take = slots_of(1, 1), reset = take;
	uint64_t token = script_take(*state, "slot:r", take, NOW).decided_us;

	reset.mode = WR_MODE_RESET;
	assert_int_equal(script_take(*state, "slot:r", reset, NOW + 1).remaining, 1);
	assert_true(script_take(*state, "slot:r", take, NOW + 2).taken);
	free_slot(state, "slot:r", take, token, NOW + 3);
	assert_int_equal(look(state, "slot:r", take, NOW + 3).remaining, 0);
}

/* A limit that was lowered admits when enough slots are free. A limit of 0 admits nothing. */
static void test_lowered_slots(void **state)
{
	struct wr_take take = slots_of(3, 1), fewer = slots_of(2, 1), none = slots_of(0, 1);
	struct wr_taken taken;

	for (uint64_t i = 0; i < 3; i++)
		script_take(*state, "slot:l", take, NOW + i);
	taken = script_take(*state, "slot:l", fewer, NOW + 3);
	assert_false(taken.admitted);
	assert_int_equal(taken.remaining, 0);
	free_slot(state, "slot:l", fewer, NOW, NOW + 4);
	assert_false(script_take(*state, "slot:l", fewer, NOW + 4).admitted);
	free_slot(state, "slot:l", fewer, NOW + 1, NOW + 5);
	assert_true(script_take(*state, "slot:l", fewer, NOW + 5).admitted);
	taken = script_take(*state, "slot:l", none, NOW + 5);
	assert_false(taken.admitted);
	assert_int_equal(taken.retry_after_us, WR_TAKE_NEVER);
	fewer.granted = 1;
	assert_true(script_take(*state, "slot:l", fewer, NOW + 6).admitted);
}

/* ---- the unchanged script, with the clock of Redis ---- */

static struct script_test *unchanged_script(void **state)
{
	static struct script_test test;

	test = *(struct script_test *)*state;
	redis_run(&test.server, "SCRIPT LOAD %s", wr_redis_script_take.text);
	memcpy(test.sha1, wr_redis_script_take.sha1, sizeof test.sha1);
	return &test;
}

/* A key with a debt lasts until the debt is paid. Slots last for max_hold after the last take, and
 * a freed slot does not change that. */
static void test_expiry(void **state)
{
	struct script_test *test = unchanged_script(state);
	struct wr_take take = limit_of(WEIR_TOKEN_BUCKET, 10, 10);
	struct wr_taken taken;

	script_take(test, "life:d", take, NOW);
	take.mode = WR_MODE_OWE;
	taken = script_take(test, "life:d", take, NOW);
	assert_in_range(taken.reset_after_us, 100 * SECOND_US, 2 * MINUTE_US);
	assert_in_range(redis_number(&test->server, "PTTL life:d0"), 100000, 120102);
	take = slots_of(2, 1);
	taken = script_take(test, "life:s", take, NOW);
	assert_in_range(redis_number(&test->server, "PTTL life:s0"), 50000, 60102);
	take.cost = -1;
	take.decided_us = taken.decided_us;
	script_take(test, "life:s", take, NOW);
	assert_in_range(redis_number(&test->server, "PTTL life:s0"), 50000, 60102);
	take = slots_of(2, 1);
	taken = script_take(test, "life:s", take, NOW);
	assert_true(taken.taken);
	assert_int_equal(taken.remaining, 1);
}

static void test_invalid(void **state)
{
	struct wr_take take = limit_of(WEIR_LEAKY_BUCKET, 10, 1);
	struct weir_error error;

	(void)state;
	take.mode = WR_MODE_OWE;
	assert_int_equal(wr_take_check(&take, &error), WEIR_EINVAL);
	take.algorithm = WEIR_CONCURRENT;
	assert_int_equal(wr_take_check(&take, &error), WEIR_EINVAL);
	take.mode = WR_MODE_REPORT;
	assert_int_equal(wr_take_check(&take, &error), WEIR_EINVAL);
	take.mode = WR_MODE_TAKE;
	assert_int_equal(wr_take_check(&take, &error), 0);
	assert_false(wr_take_merges(&take));
	assert_false(wr_redis_lease_lends(&take));
	take.times = 2;
	assert_int_equal(wr_take_check(&take, &error), WEIR_EINVAL);
	take.times = 1;
	take.limit = WEIR_SLOTS_MAX + 1;
	assert_int_equal(wr_take_check(&take, &error), WEIR_ELIMIT);
	take = limit_of(WEIR_TOKEN_BUCKET, 10, 0);
	take.mode = WR_MODE_OWE;
	assert_int_equal(wr_take_check(&take, &error), WEIR_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_debt),
		cmocka_unit_test(test_debt_of_bucket),
		cmocka_unit_test(test_debt_of_window),
		cmocka_unit_test(test_debt_of_log),
		cmocka_unit_test(test_largest_debt),
		cmocka_unit_test(test_partial_return_of_log),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_max_hold),
		cmocka_unit_test(test_wait_for_slot),
		cmocka_unit_test(test_slots_beside_window),
		cmocka_unit_test(test_slots_after_a_step_back),
		cmocka_unit_test(test_reset_of_slots),
		cmocka_unit_test(test_lowered_slots),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_invalid),
	};

	return cmocka_run_group_tests(tests, script_setup, script_teardown);
}
