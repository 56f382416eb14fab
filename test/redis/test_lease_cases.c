/* The lease script in exact numbers, and situations that only Redis causes: clocks of new masters,
 * calendars, reports, and limits that cannot be lent. */
#include "redis/script_test.h"

static const struct wr_take minute[] = {
	[WEIR_TOKEN_BUCKET] = {.algorithm = WEIR_TOKEN_BUCKET,
			       .limit = 100,
			       .period_us = MINUTE_US},
	[WEIR_FIXED_WINDOW] = {.algorithm = WEIR_FIXED_WINDOW,
			       .limit = 100,
			       .period_us = MINUTE_US},
	[WEIR_SLIDING_COUNTER] = {.algorithm = WEIR_SLIDING_COUNTER,
				  .limit = 100,
				  .period_us = MINUTE_US},
	[WEIR_SLIDING_LOG] = {.algorithm = WEIR_SLIDING_LOG, .limit = 100, .period_us = MINUTE_US},
};

static const uint8_t lent[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER,
			       WEIR_SLIDING_LOG};

#define EACH_LENT(i) (size_t i = 0; (i) < sizeof lent / sizeof *lent; (i)++)

static struct wr_redis_lease_call wants(uint8_t algorithm, uint64_t holder, uint64_t seq,
					uint32_t wanted)
{
	return (struct wr_redis_lease_call){.take = minute[algorithm],
					    .holder = holder,
					    .seq = seq,
					    .after = seq - 1,
					    .wanted = wanted,
					    .nodes = 1};
}

static uint32_t take_up_to(struct script_test *test, const char *key, struct wr_take take,
			   uint32_t times, uint64_t now_us)
{
	struct wr_redis_lease_call call = {.take = take};

	call.take.cost = 1;
	call.take.times = times;
	return script_lease(test, key, &call, now_us).taken.admitted_times;
}

static void key_of(char key[32], const char *name, uint8_t algorithm)
{
	snprintf(key, 32, "%s:%u:", name, algorithm);
}

/* With a limit of 100 per minute, a single node gets half of the remaining units, and one of three
 * nodes gets a sixth. Fewer than two units are not lent. Granted units count as taken. */
static void test_chunks(void **state)
{
	for
		EACH_LENT(i)
		{
			struct wr_redis_lease_call call = wants(lent[i], 7, 1, 1000);
			struct wr_leased leased;
			char key[32];

			key_of(key, "chunk", lent[i]);
			leased = script_lease(*state, key, &call, NOW);
			assert_int_equal(leased.granted, 50);
			assert_int_equal(leased.taken.remaining, 50);
			assert_int_equal(leased.ttl_us, SECOND_US);
			assert_true(leased.known);
			call = wants(lent[i], 8, 1, 1000);
			call.nodes = 3;
			assert_int_equal(script_lease(*state, key, &call, NOW).granted, 8);
			call = wants(lent[i], 9, 1, 5);
			assert_int_equal(script_lease(*state, key, &call, NOW).granted, 5);
			assert_int_equal(take_up_to(*state, key, minute[lent[i]], 34, NOW), 34);
			call = wants(lent[i], 10, 1, 5); /* three units are left */
			leased = script_lease(*state, key, &call, NOW);
			assert_int_equal(leased.granted, 0);
			assert_int_equal(leased.ttl_us, 0);
			assert_int_equal(take_up_to(*state, key, minute[lent[i]], 9, NOW), 3);
		}
}

/* Gives units back that were spent from a lease, after the report. */
static uint32_t left_after_return(void **state, const char *key, uint8_t algorithm, int64_t units,
				  uint64_t granted_us, uint64_t now_us)
{
	struct wr_redis_lease_call call = {.take = minute[algorithm]};

	call.take.cost = -units;
	call.take.decided_us = granted_us;
	return script_lease(*state, key, &call, now_us).taken.remaining;
}

/* Units that were spent from a lease and not used go back into the window in which they were granted:
 * after the report, after the lease has expired without a report, but not into the next window. */
static void test_spent_units_return(void **state)
{
	static const uint8_t windows[] = {WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER};

	for (size_t i = 0; i < 2; i++) {
		struct wr_redis_lease_call call = wants(windows[i], 7, 1, 40);
		char key[32];

		key_of(key, "spent", windows[i]);
		assert_int_equal(script_lease(*state, key, &call, NOW).granted, 40);
		call = wants(windows[i], 7, 2, 0); /* 30 of the 40 units are reported as spent */
		call.spent = 30;
		assert_int_equal(script_lease(*state, key, &call, NOW + 500).taken.remaining, 60);
		assert_int_equal(left_after_return(state, key, windows[i], 12, NOW, NOW + 900), 72);
		/* The holder dies. The other ten units were spent, but never reported; four of them
		 * were not used. */
		assert_int_equal(
			left_after_return(state, key, windows[i], 4, NOW, NOW + 10 * SECOND_US),
			76);
	}
	/* The next window has units of other requests only. */
	assert_int_equal(
		take_up_to(*state, "spent:3:", minute[WEIR_FIXED_WINDOW], 9, NOW + MINUTE_US), 9);
	assert_int_equal(
		left_after_return(state, "spent:3:", WEIR_FIXED_WINDOW, 5, NOW, NOW + MINUTE_US),
		91);
}

/* A bucket gets back what cannot have flowed in since the grant: 100 per minute are 5 in 3 s. */
static void test_spent_tokens_return(void **state)
{
	struct wr_redis_lease_call call = wants(WEIR_TOKEN_BUCKET, 7, 1, 40);

	assert_int_equal(script_lease(*state, "spent:t:", &call, NOW).granted, 40);
	call = wants(WEIR_TOKEN_BUCKET, 7, 2, 0);
	call.spent = 40;
	assert_int_equal(script_lease(*state, "spent:t:", &call, NOW).taken.remaining, 60);
	assert_int_equal(left_after_return(state, "spent:t:", WEIR_TOKEN_BUCKET, 15, NOW,
					   NOW + 3 * SECOND_US),
			 65 + 10);
	/* After an hour nothing comes back. */
	assert_int_equal(
		take_up_to(*state, "spent:t:", minute[WEIR_TOKEN_BUCKET], 50, NOW + 60 * MINUTE_US),
		50);
	assert_int_equal(left_after_return(state, "spent:t:", WEIR_TOKEN_BUCKET, 15, NOW,
					   NOW + 60 * MINUTE_US),
			 50);
}

/* Returned units are available to other holders. Spent and burnt units are not. */
static void test_settling(void **state)
{
	for
		EACH_LENT(i)
		{
			struct wr_redis_lease_call call = wants(lent[i], 7, 1, 40);
			struct wr_leased leased;
			char key[32];

			key_of(key, "settle", lent[i]);
			assert_int_equal(script_lease(*state, key, &call, NOW).granted, 40);
			assert_int_equal(take_up_to(*state, key, minute[lent[i]], 99, NOW), 60);
			call = wants(lent[i], 7, 2, 0);
			call.spent = 10;
			call.returned = 20;
			leased = script_lease(*state, key, &call, NOW);
			assert_true(leased.known);
			assert_int_equal(leased.taken.remaining, 20);
			assert_int_equal(leased.ttl_us, SECOND_US); /* the holder keeps ten units */
			assert_int_equal(take_up_to(*state, key, minute[lent[i]], 99, NOW), 20);
			/* The lease ends. The next reply tells the holder, and no units come
			 * back. */
			call = wants(lent[i], 7, 3, 0);
			call.returned = 10;
			leased = script_lease(*state, key, &call, NOW + SECOND_US);
			assert_false(leased.known);
			assert_in_range(leased.taken.remaining, 0,
					1); /* the tokens refilled within one second */
		}
}

/* A repeated call gets the lost answer again. Its units end no later than before. */
static void test_repeated(void **state)
{
	for
		EACH_LENT(i)
		{
			struct wr_redis_lease_call call = wants(lent[i], 7, 1, 30);
			struct wr_leased first, again;
			char key[32];

			key_of(key, "again", lent[i]);
			call.take.cost = 1;
			first = script_lease(*state, key, &call, NOW);
			again = script_lease(*state, key, &call, NOW + 300000);
			assert_int_equal(first.granted, 30);
			assert_int_equal(first.ttl_us, SECOND_US);
			assert_int_equal(again.granted, 30);
			assert_int_equal(again.ttl_us, SECOND_US - 300000);
			assert_int_equal(again.taken.remaining, 69);
			assert_int_equal(again.taken.decided_us, first.taken.decided_us);
			assert_true(again.taken.taken);
			assert_int_equal(take_up_to(*state, key, minute[lent[i]], 99, NOW + 300000),
					 69);
		}
}

/* A bucket does not refill the room of lent units: at most 100 units at once and 100 per minute can
 * be spent. */
static void test_bucket_reserves_room(void **state)
{
	struct wr_take second = {.algorithm = WEIR_TOKEN_BUCKET,
				 .limit = 100,
				 .burst = 50,
				 .period_us = 10 * SECOND_US};
	struct wr_redis_lease_call call = wants(WEIR_TOKEN_BUCKET, 7, 1, 20);
	struct wr_leased leased;

	call.take = second;
	assert_int_equal(script_lease(*state, "room:", &call, NOW).granted, 20);
	/* 0.9 s later 9 tokens are refilled, but 20 units are lent, so other holders get only
	 * 30. */
	assert_int_equal(take_up_to(*state, "room:", second, 99, NOW + 900000), 30);
	call.seq = 2;
	call.after = 1;
	call.wanted = 0;
	call.spent = 20;
	leased = script_lease(*state, "room:", &call, NOW + 900000);
	assert_true(leased.known);
	assert_int_equal(leased.taken.remaining, 0);
	assert_int_equal(take_up_to(*state, "room:", second, 99, NOW + 1900000), 10);
}

/* Units are entries of the log: spent units expire a minute after the report, burnt units a minute
 * after the end of their lease. */
static void test_log_stamps(void **state)
{
	struct wr_take log = minute[WEIR_SLIDING_LOG];
	struct wr_redis_lease_call call = wants(WEIR_SLIDING_LOG, 7, 1, 50);

	assert_int_equal(script_lease(*state, "stamp:", &call, NOW).granted, 50);
	call = wants(WEIR_SLIDING_LOG, 7, 2, 0);
	call.spent = 20;
	script_lease(*state, "stamp:", &call, NOW + 500000);
	/* The remaining 30 units end at 1.5 s. */
	assert_int_equal(take_up_to(*state, "stamp:", log, 99, NOW + 2 * SECOND_US), 50);
	assert_int_equal(take_up_to(*state, "stamp:", log, 99, NOW + MINUTE_US + 499999), 0);
	assert_int_equal(take_up_to(*state, "stamp:", log, 99, NOW + MINUTE_US + 500000), 20);
	assert_int_equal(take_up_to(*state, "stamp:", log, 99, NOW + MINUTE_US + 1499999), 0);
	assert_int_equal(take_up_to(*state, "stamp:", log, 99, NOW + MINUTE_US + 1500000), 30);
}

/* 50 of 100 units are spent. Their report comes while the limit is 10 for a moment. All of them
 * count when the limit is 100 again. */
static void test_log_lowered(void **state)
{
	struct wr_take log = minute[WEIR_SLIDING_LOG];
	struct wr_redis_lease_call call = wants(WEIR_SLIDING_LOG, 7, 1, 50);

	assert_int_equal(script_lease(*state, "lowered:", &call, NOW).granted, 50);
	call = wants(WEIR_SLIDING_LOG, 7, 2, 0);
	call.spent = 50;
	call.take.limit = 10;
	assert_int_equal(script_lease(*state, "lowered:", &call, NOW + 500000).taken.remaining, 0);
	assert_int_equal(take_up_to(*state, "lowered:", log, 99, NOW + SECOND_US), 50);
}

/* A lease ends with its window. Units that are returned late do not go into the next window. */
static void test_window_edge(void **state)
{
	for (int kind = WEIR_FIXED_WINDOW; kind <= WEIR_SLIDING_COUNTER; kind++) {
		uint8_t algorithm = (uint8_t)kind;
		uint64_t late_us = NOW + MINUTE_US - 400000;
		struct wr_redis_lease_call call = wants(algorithm, 7, 1, 40);
		struct wr_leased leased;
		char key[32];

		key_of(key, "edge", algorithm);
		leased = script_lease(*state, key, &call, late_us);
		assert_int_equal(leased.granted, 40);
		assert_int_equal(leased.ttl_us, 400000);
		call = wants(algorithm, 7, 2, 0);
		call.returned = 40;
		leased = script_lease(*state, key, &call, NOW + MINUTE_US);
		assert_false(leased.known);
		assert_int_equal(leased.taken.remaining, algorithm == WEIR_FIXED_WINDOW ? 100 : 60);
	}
}

/* A new master does not have the last grant, or no grant at all. The lease is unknown, its report
 * is ignored, and the next grant starts without units. */
static void test_lease_unknown(void **state)
{
	struct script_test *test = *state;

	for
		EACH_LENT(i)
		{
			struct wr_redis_lease_call call = wants(lent[i], 7, 5, 10);
			struct wr_leased leased;
			char key[32];

			key_of(key, "lost", lent[i]);
			call.after = 0;
			assert_int_equal(script_lease(*state, key, &call, NOW).granted, 10);
			/* The record is as if call 6 had been written and lost. */
			call = wants(lent[i], 7, 7, 10);
			call.spent = 2;
			call.returned = 8;
			leased = script_lease(*state, key, &call, NOW);
			assert_false(leased.known);
			assert_int_equal(leased.granted, 10);
			assert_int_equal(leased.taken.remaining, 80);
			redis_run(&test->server, "FLUSHALL");
			call = wants(lent[i], 7, 8, 10);
			call.returned = 10;
			leased = script_lease(*state, key, &call, NOW);
			assert_false(leased.known);
			assert_int_equal(leased.taken.remaining, 90);
			/* A repeated call gets the same answer. */
			assert_false(script_lease(*state, key, &call, NOW).known);
		}
}

/* The clock is an hour behind. Lent units end within a second by the new clock as well, and no more
 * than the limit is admitted. */
static void test_clock_behind(void **state)
{
	for
		EACH_LENT(i)
		{
			uint64_t behind_us = NOW - 60 * MINUTE_US;
			struct wr_redis_lease_call call = wants(lent[i], 7, 1, 50);
			struct wr_leased leased;
			char key[32];

			key_of(key, "behind", lent[i]);
			assert_int_equal(script_lease(*state, key, &call, NOW).granted, 50);
			assert_in_range(take_up_to(*state, key, minute[lent[i]], 99, behind_us), 0,
					50);
			call = (struct wr_redis_lease_call){.take = minute[lent[i]]};
			call.take.cost = 1;
			leased = script_lease(*state, key, &call, behind_us);
			assert_false(leased.taken.admitted);
			assert_in_range(leased.taken.retry_after_us, 1, 2 * MINUTE_US + SECOND_US);
			assert_true(script_lease(*state, key, &call,
						 behind_us + leased.taken.retry_after_us)
					    .taken.admitted);
		}
}

static void test_calendar(void **state)
{
	struct wr_redis_lease_call call = {.take = {.algorithm = WEIR_FIXED_WINDOW,
						    .limit = 100,
						    .window_start_us = NOW,
						    .window_end_us = NOW + DAY / US,
						    .window_after_us = NOW + 2 * DAY / US},
					   .holder = 7,
					   .seq = 1,
					   .wanted = 10};
	struct wr_leased leased = script_lease(*state, "day:", &call, NOW + DAY / US - 3);

	assert_int_equal(leased.granted, 10);
	assert_int_equal(leased.ttl_us, 3);
	call.seq = 2;
	leased = script_lease(*state, "day:", &call, NOW - 1);
	assert_true(leased.taken.outside_window);
	assert_int_equal(leased.granted, 0);
}

/* The script decides on leaky buckets, soft limits and limits that count rejected requests, but
 * does not lend their units. */
static void test_not_lent(void **state)
{
	struct wr_take leaky = {.algorithm = WEIR_LEAKY_BUCKET,
				.limit = 60,
				.queue_size = 1,
				.period_us = MINUTE_US,
				.cost = 1};
	struct wr_take soft = minute[WEIR_FIXED_WINDOW], counting = minute[WEIR_SLIDING_LOG];
	struct wr_redis_lease_call call = {.take = leaky, .holder = 7, .seq = 1, .wanted = 10};
	struct wr_leased leased;

	leased = script_lease(*state, "leaky:", &call, NOW);
	assert_true(leased.taken.admitted);
	assert_int_equal(leased.granted, 0);
	call = (struct wr_redis_lease_call){.take = leaky};
	assert_int_equal(script_lease(*state, "leaky:", &call, NOW).taken.delay_us, SECOND_US);
	soft.soft_ceiling = 120;
	soft.soft_for_us = SECOND_US;
	counting.flags = WEIR_COUNT_REJECTED;
	assert_false(wr_redis_lease_lends(&leaky));
	assert_false(wr_redis_lease_lends(&soft));
	assert_false(wr_redis_lease_lends(&counting));
	call = (struct wr_redis_lease_call){.take = soft, .holder = 7, .seq = 1, .wanted = 10};
	assert_int_equal(script_lease(*state, "soft:", &call, NOW).granted, 0);
	call.take = counting;
	assert_int_equal(script_lease(*state, "counting:", &call, NOW).granted, 0);
}

/* A give-back finds its own entry beside lent units. A report counts once. */
static void test_back_and_report(void **state)
{
	for
		EACH_LENT(i)
		{
			struct wr_redis_lease_call call = wants(lent[i], 7, 1, 30);
			struct wr_leased taken;
			char key[32];

			key_of(key, "back", lent[i]);
			script_lease(*state, key, &call, NOW);
			call = (struct wr_redis_lease_call){.take = minute[lent[i]]};
			call.take.cost = 5;
			taken = script_lease(*state, key, &call, NOW);
			assert_int_equal(taken.taken.remaining, 65);
			call.take.cost = -5;
			call.take.decided_us = taken.taken.decided_us;
			assert_int_equal(script_lease(*state, key, &call, NOW).taken.remaining, 70);
			call.take.mode = WR_MODE_REPORT;
			call.take.cost = 8;
			call.take.decided_us = NOW;
			assert_int_equal(script_lease(*state, key, &call, NOW).taken.remaining, 62);
			assert_int_equal(script_lease(*state, key, &call, NOW).taken.remaining, 62);
		}
}

/* A take by take.lua while units are lent can be given back. The entry of the log is found, and a
 * bucket gets back only units that were not refilled. The limit is 100 per minute, so 5 units are
 * refilled in 3 s. */
static void test_take_back_while_lent(void **state)
{
	for
		EACH_LENT(i)
		{
			struct wr_redis_lease_call call = wants(lent[i], 7, 1, 30);
			struct wr_take take = minute[lent[i]];
			uint64_t later_us = NOW + 3 * SECOND_US;
			uint32_t without;
			char key[32], other[32];

			/* Take.lua uses the key with a 0 appended. */
			key_of(key, "lent", lent[i]);
			key_of(other, "bare", lent[i]);
			snprintf(key + strlen(key), sizeof key - strlen(key), "0");
			snprintf(other + strlen(other), sizeof other - strlen(other), "0");
			script_lease(*state, key, &call, NOW);
			script_lease(*state, other, &call, NOW);
			key[strlen(key) - 1] = other[strlen(other) - 1] = '\0';
			take.cost = 5;
			take.decided_us = script_take(*state, key, take, NOW).decided_us;
			assert_int_equal(take.decided_us, NOW);
			take.cost = -5;
			script_take(*state, key, take, later_us);
			take.cost = 0;
			take.decided_us = 0;
			without = script_take(*state, other, take, later_us).remaining;
			assert_int_equal(script_take(*state, key, take, later_us).remaining,
					 lent[i] == WEIR_TOKEN_BUCKET ? 70 : without);
		}
}

/* A lease lasts for a second, or for a tenth of a shorter period. */
static void test_duration(void **state)
{
	struct wr_redis_lease_call call = wants(WEIR_FIXED_WINDOW, 7, 1, 30);

	(void)state;
	assert_int_equal(wr_redis_lease_ttl_us(&call.take), SECOND_US);
	call.take.period_us = 500000;
	assert_int_equal(wr_redis_lease_ttl_us(&call.take), 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_settling),
		cmocka_unit_test(test_spent_units_return),
		cmocka_unit_test(test_spent_tokens_return),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_bucket_reserves_room),
		cmocka_unit_test(test_log_stamps),
		cmocka_unit_test(test_log_lowered),
		cmocka_unit_test(test_window_edge),
		cmocka_unit_test(test_lease_unknown),
		cmocka_unit_test(test_clock_behind),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_not_lent),
		cmocka_unit_test(test_back_and_report),
		cmocka_unit_test(test_take_back_while_lent),
		cmocka_unit_test(test_duration),
	};

	return cmocka_run_group_tests(tests, script_lease_setup, script_teardown);
}
