/* Token bucket: smallest and largest numbers, changed limits, and the clock. */
#include "algo/algo_test.h"
#include "algo/token.h"

static struct weir_limit bucket(uint32_t limit, uint32_t burst, uint64_t period_ns)
{
	return LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = limit, .burst = burst,
		     .period_ns = period_ns);
}

static void state_words(void **unused)
{
	struct weir_limit l = bucket(3, 10, SECOND);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 2, T0);
	assert_int_equal(s.s0, T0);
	assert_int_equal(s.s1, 2);
	step(&l, &s, 1, T0 + SECOND / 2); /* half a token is missing: `since` stays */
	assert_int_equal(s.s0, T0);
	assert_int_equal(s.s1, 3);
	step(&l, &s, 5, T0 + SECOND); /* exactly full again: `since` is set to now */
	assert_int_equal(s.s0, T0 + SECOND);
	assert_int_equal(s.s1, 5);
	step(&l, &s, 5, T0 + 2 * SECOND); /* a whole period and its 3 tokens are subtracted */
	assert_int_equal(s.s0, T0 + 2 * SECOND);
	assert_int_equal(s.s1, 7);
}

static void three_thirds_are_one_token(void **unused)
{
	struct weir_limit l = bucket(3, 1, SECOND);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	assert_int_equal(step(&l, &s, 1, T0).reset_after_ns, 333333334);
	d = step(&l, &s, 1, T0 + 333333333);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 1, T0 + 333333334).admitted, 1);
	/* The token after it is ready at 2/3 s from the beginning, when the bucket was never full
	 * in between: it was, so it counts from there. */
	assert_int_equal(step(&l, &s, 0, T0 + 666666667).admitted, 0);
	assert_int_equal(step(&l, &s, 0, T0 + 666666668).admitted, 1);
}

static void several_tokens_per_ns(void **unused)
{
	struct weir_limit l = bucket(UINT32_MAX, 0, SECOND);
	struct weir_state s = {0};
	struct weir_decision d = step(&l, &s, UINT32_MAX, T0);

	(void)unused;
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.reset_after_ns, SECOND);
	d = step(&l, &s, 1, T0);
	assert_int_equal(d.retry_after_ns, 1);
	d = step(&l, &s, 0, T0 + 1);
	assert_int_equal(d.remaining, 4);
	d = step(&l, &s, 5, T0 + 1);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 4, T0 + 1).admitted, 1);
}

static void taken_has_33_bits(void **unused)
{
	struct weir_limit l = bucket(UINT32_MAX, UINT32_MAX, SECOND);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, UINT32_MAX, T0);
	struct weir_decision d = step(&l, &s, UINT32_MAX - 5, T0 + SECOND - 1);

	assert_int_equal(d.admitted, 1);
	assert_int_equal(s.s0, T0 | 1ull << 63);
	assert_int_equal(s.s1, (uint32_t)(2ull * UINT32_MAX - 5));
	assert_int_equal(d.remaining, 0);
	assert_int_equal(step(&l, &s, 0, T0 + SECOND).remaining, 5);
}

static void once_a_year(void **unused)
{
	struct weir_limit l = bucket(1, 100, YEAR);
	struct weir_state s = {0};
	struct weir_decision d = step(&l, &s, 100, T0);

	(void)unused;
	assert_int_equal(d.reset_after_ns, WEIR_SPAN_MAX_NS);
	assert_int_equal(step(&l, &s, 1, T0 + YEAR - 1).retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 1, T0 + YEAR).admitted, 1);
	assert_int_equal(step(&l, &s, 100, T0 + YEAR).retry_after_ns, WEIR_SPAN_MAX_NS);
}

static void costs(void **unused)
{
	struct weir_limit l = bucket(10, 0, SECOND);
	struct weir_state s = {0};
	struct weir_decision d = step(&l, &s, 11, T0);

	(void)unused;
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, WEIR_NEVER);
	assert_int_equal(d.remaining, 10);
	assert_int_equal(step(&l, &s, INT64_MAX, T0).retry_after_ns, WEIR_NEVER);
	assert_int_equal(s.s0, 0); /* a refusal does not change the state */
	assert_int_equal(step(&l, &s, 10, T0).remaining, 0);
	assert_int_equal(step(&l, &s, -3, T0).remaining, 3);
	assert_int_equal(step(&l, &s, -7, T0).remaining, 10);
	assert_int_equal(step(&l, &s, 10, T0).remaining, 0);
	d = step(&l, &s, INT64_MIN, T0);
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.remaining, 10);
	assert_int_equal(d.reset_after_ns, 0);
	assert_int_equal(step(&l, &s, 10, T0).admitted, 1); /* the bucket is not more than full */
	assert_int_equal(step(&l, &s, 1, T0).admitted, 0);
}

static void a_limit_of_0_admits_nothing(void **unused)
{
	struct weir_limit l = bucket(0, 5, SECOND);
	struct weir_state s = {T0, 3};

	(void)unused;
	for (int64_t cost = 0; cost < 2; cost++) {
		struct weir_decision d = step(&l, &s, cost, T0);

		assert_int_equal(d.admitted, 0);
		assert_int_equal(d.remaining, 0);
		assert_int_equal(d.retry_after_ns, WEIR_NEVER);
		assert_int_equal(d.reset_after_ns, 0);
	}
	assert_int_equal(step(&l, &s, -1, T0).admitted, 1);
	assert_int_equal(s.s1, 3);
}

static void a_changed_limit_counts_what_was_taken(void **unused)
{
	struct weir_limit ten = bucket(10, 0, MINUTE), five = bucket(5, 0, MINUTE);
	struct weir_limit twenty = bucket(20, 0, MINUTE);
	struct weir_state s = {0};

	(void)unused;
	step(&ten, &s, 8, T0);
	assert_int_equal(step(&ten, &s, 0, T0).remaining, 2);
	struct weir_state raised = s;

	assert_int_equal(step(&twenty, &raised, 0, T0).remaining, 12);
	/* 8 taken are 3 more than 5 hold, and another one does not fit: 4 tokens of 12 s. */
	struct weir_decision d = step(&five, &s, 1, T0);

	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.retry_after_ns, 48 * SECOND);
	assert_int_equal(step(&five, &s, 1, T0 + 48 * SECOND - 1).admitted, 0);
	assert_int_equal(step(&five, &s, 1, T0 + 48 * SECOND).admitted, 1);
}

static void a_changed_burst(void **unused)
{
	struct weir_limit small = bucket(1, 5, SECOND), large = bucket(1, 50, SECOND);
	struct weir_state s = {0};

	(void)unused;
	step(&small, &s, 4, T0);
	assert_int_equal(step(&large, &s, 0, T0).remaining, 46);
	assert_int_equal(step(&large, &s, 46, T0).remaining, 0);
	assert_int_equal(step(&small, &s, 1, T0).retry_after_ns, 46 * SECOND);
}

/* A smaller limit must not admit units again that the larger limit has counted. */
static void two_limits_on_one_state(void **unused)
{
	struct weir_limit hundred = bucket(100, 0, MINUTE), ten = bucket(10, 0, MINUTE);
	struct weir_state s = {0};
	int admitted = 0;

	(void)unused;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 100; i++)
			admitted += step(&hundred, &s, 1, T0).admitted;
		for (int64_t cost = 0; cost < 2; cost++)
			assert_int_equal(step(&ten, &s, cost, T0).admitted, 0);
	}
	assert_int_equal(admitted, 100);
}

/* From 2^32-1 per second to one per century: the wait is huge but does not overflow. */
static void lowered_beyond_time(void **unused)
{
	struct weir_limit all = bucket(UINT32_MAX, 0, SECOND), one = bucket(1, 0, WEIR_SPAN_MAX_NS);
	struct weir_state s = {0};

	(void)unused;
	step(&all, &s, UINT32_MAX, T0);
	assert_int_equal(step(&one, &s, 1, T0).retry_after_ns, INT64_MAX / 2);
	assert_int_equal(step(&one, &s, 1, T0).reset_after_ns, INT64_MAX / 2);
}

static void the_clock_steps_back(void **unused)
{
	struct weir_limit l = bucket(10, 0, MINUTE);
	struct weir_state s = {0};
	int admitted = 0;

	(void)unused;
	step(&l, &s, 10, T0 + DAY);
	struct weir_decision d = step(&l, &s, 1, T0);

	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 6 * SECOND);
	assert_int_equal(d.reset_after_ns, MINUTE);
	/* In the minute after the step back, no more tokens are admitted than flow in. */
	for (uint64_t t = 0; t < 60; t++)
		admitted += step(&l, &s, 1, T0 + t * SECOND).admitted;
	assert_int_equal(admitted, 9);
}

static void a_look_notices_the_clock(void **unused)
{
	struct weir_limit l = bucket(10, 0, MINUTE);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 10, T0 + DAY);
	assert_int_equal(step(&l, &s, 0, T0).admitted, 0);
	assert_int_equal(s.s0, T0); /* otherwise the refill would begin again with every request */
	assert_int_equal(step(&l, &s, 0, T0 + MINUTE).remaining, 10);
}

static void the_ends_of_time(void **unused)
{
	struct weir_limit l = bucket(1, 0, WEIR_SPAN_MAX_NS);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, 1, 0).admitted, 1);
	assert_int_equal(step(&l, &s, 1, 0).retry_after_ns, WEIR_SPAN_MAX_NS);
	assert_int_equal(step(&l, &s, 1, TIME_MAX).admitted, 1);
	assert_int_equal(step(&l, &s, 1, TIME_MAX).retry_after_ns, WEIR_SPAN_MAX_NS);
	assert_int_equal(step(&l, &s, 1, 0).retry_after_ns, WEIR_SPAN_MAX_NS);
}

static void reports_changes(void **unused)
{
	struct weir_limit l = bucket(2, 0, SECOND);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	assert_false(wr_token_step(&l, 2, &s, 0, T0, &d));
	assert_false(wr_token_step(&l, 2, &s, 3, T0, &d));
	assert_false(wr_token_step(&l, 2, &s, -1, T0, &d));
	assert_true(wr_token_step(&l, 2, &s, 2, T0, &d));
	assert_false(wr_token_step(&l, 2, &s, 1, T0, &d));
	assert_false(wr_token_step(&l, 2, &s, 1, T0 - SECOND, &d)); /* late */
	/* The state is moved to the new time. */
	assert_true(wr_token_step(&l, 2, &s, 1, T0 - SECOND - 1, &d));
	assert_false(wr_token_step(&l, 2, &s, 1, T0 - SECOND - 1, &d));
	assert_true(wr_token_step(&l, 2, &s, -1, T0 - SECOND, &d));
}

/* Any 96 bits are a valid state: after the time in which a bucket fills, the key is reset. */
static void any_words(void **unused)
{
	struct rnd r = {rnd_seed()};

	(void)unused;
	for (int i = 0; i < 100000; i++) {
		struct weir_limit l = bucket((uint32_t)rnd_magnitude(&r, UINT32_MAX),
					     (uint32_t)rnd_magnitude(&r, 1000), SECOND);
		struct weir_state s = {rnd(&r) >> 1, (uint32_t)rnd(&r) >> 8};
		uint64_t now_ns = rnd(&r) >> 2;
		struct weir_decision d = step(&l, &s, 0, now_ns);

		assert_true(d.reset_after_ns <= (SECOND << 24) + SECOND);
		d = step(&l, &s, l.capacity, now_ns + d.reset_after_ns);
		assert_int_equal(d.admitted, 1);
	}
}

/* 10 per minute, 6 s a token. */
static void latecomers(void **unused)
{
	struct weir_limit l = bucket(10, 0, MINUTE);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	step(&l, &s, 10, T0);
	struct weir_state before = s;

	d = step(&l, &s, 1, T0 - SECOND / 2); /* before `since`: counted at `since` */
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 6 * SECOND + SECOND / 2);
	assert_int_equal(d.reset_after_ns, MINUTE + SECOND / 2);
	assert_memory_equal(&s, &before, sizeof s);
	step(&l, &s, 2, T0 + 12 * SECOND);
	before = s;
	d = step(&l, &s, 1, T0 + 11 * SECOND); /* before the requests of the last second */
	assert_int_equal(d.retry_after_ns, 7 * SECOND);
	assert_int_equal(d.reset_after_ns, MINUTE + SECOND);
	assert_memory_equal(&s, &before, sizeof s);
	d = step(&l, &s, 1, T0 + 11 * SECOND - 1); /* a step back, but not before `since` */
	assert_int_equal(d.reset_after_ns, MINUTE + SECOND + 1);
	assert_memory_equal(&s, &before, sizeof s);
	d = step(&l, &s, 1, T0 - SECOND - 1); /* before `since`: the taken tokens are carried */
	assert_int_equal(d.reset_after_ns, MINUTE);
	assert_int_equal(s.s0, T0 - SECOND - 1);
	assert_int_equal(s.s1, 10);
}

/* A latecomer waits until all tokens taken after its time have flowed in. */
static void a_latecomer_waits_for_later_takes(void **unused)
{
	struct weir_limit l = bucket(10, 0, 10 * SECOND);
	struct weir_state s = {0}, copy;

	(void)unused;
	step(&l, &s, 10, T0);
	step(&l, &s, 1, T0 + SECOND);
	copy = s;
	assert_int_equal(step(&l, &copy, 1, T0).reset_after_ns, 11 * SECOND);
	assert_memory_equal(&copy, &s, sizeof s);
	assert_int_equal(step(&l, &copy, 1, T0 - SECOND / 2).reset_after_ns, 11500000000);
	assert_int_equal(step(&l, &copy, 1, T0 - SECOND).reset_after_ns, 12 * SECOND);
	assert_memory_equal(&copy, &s, sizeof s);
}

/* A give-back does not make an earlier time valid again. */
static void late_after_a_give_back(void **unused)
{
	struct weir_limit l = bucket(1, 5, SECOND);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 5, T0);
	step(&l, &s, 1, T0 + SECOND);
	step(&l, &s, -1, T0 + 5 * SECOND);
	assert_int_equal(s.s0, T0 + 5 * SECOND);
	assert_int_equal(s.s1, 0);
	assert_int_equal(step(&l, &s, 5, T0 + 4 * SECOND).reset_after_ns, 6 * SECOND);
	assert_int_equal(s.s0, T0 + 5 * SECOND);
	assert_int_equal(step(&l, &s, 1, T0 + 5 * SECOND).retry_after_ns, SECOND);
}

static uint64_t in_use(const struct weir_decision *d)
{
	return (uint64_t)d->limit - d->remaining + d->debt;
}

static void tokens_that_can_certainly_be_given_back(void **unused)
{
	struct weir_limit l = bucket(100, 1000, SECOND);

	(void)unused;
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 5 * SECOND), 200);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 7990 * MS), 200);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 7990 * MS + 1), 199);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 8 * SECOND), 199);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 8 * SECOND + 1), 198);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 10 * SECOND), 0);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0, T0 + 1000 * SECOND), 0);
	assert_int_equal(wr_token_sure(&l, 200, 200, T0, T0), 199);
	assert_int_equal(wr_token_sure(&l, 200, 201, T0, T0), 200);
	assert_int_equal(wr_token_sure(&l, 200, 0, T0, T0), 0);
	assert_int_equal(wr_token_sure(&l, 200, 1000, T0 + 1, T0), 0);
}

/* Compares a bucket from which n tokens were taken with a bucket from which they were not taken. All
 * other requests are the same. The first bucket never lacks fewer tokens than the second after the
 * certain tokens are given back. */
static void certain_tokens_are_never_too_many(void **unused)
{
	struct rnd r = {rnd_seed()};
	unsigned given = 0;

	(void)unused;
	for (int round = 0; round < 20000; round++) {
		struct weir_limit l = bucket(1 + (uint32_t)rnd_below(&r, 50),
					     1 + (uint32_t)rnd_below(&r, 200), SECOND);
		struct weir_state with = {0}, without = {0};
		uint64_t now_ns = T0, charged_ns, n = 1 + rnd_below(&r, l.burst), sure;
		struct weir_decision taken;

		for (uint64_t i = rnd_below(&r, 20); i; i--) {
			now_ns += rnd_below(&r, 2 * SECOND);
			step(&l, &with, (int64_t)(1 + rnd_below(&r, l.burst)), now_ns);
		}
		without = with;
		taken = step(&l, &with, (int64_t)n, now_ns);
		if (!taken.admitted)
			continue;
		charged_ns = now_ns;
		for (uint64_t i = rnd_below(&r, 10); i; i--) {
			int64_t cost = (int64_t)(1 + rnd_below(&r, l.burst));

			now_ns += rnd_below(&r, SECOND);
			if (step(&l, &with, cost, now_ns).admitted)
				assert_true(step(&l, &without, cost, now_ns).admitted);
		}
		sure = wr_token_sure(&l, n, in_use(&taken), charged_ns, now_ns);
		assert_true(sure <= n);
		given += sure > 0;
		assert_true(wr_bucket_load(&l, &with, now_ns).backlog >=
			    wr_bucket_load(&l, &without, now_ns).backlog +
				    (unsigned __int128)sure * l.period_ns);
	}
	assert_true(given > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_words),
		cmocka_unit_test(three_thirds_are_one_token),
		cmocka_unit_test(several_tokens_per_ns),
		cmocka_unit_test(taken_has_33_bits),
		cmocka_unit_test(once_a_year),
		cmocka_unit_test(costs),
		cmocka_unit_test(a_limit_of_0_admits_nothing),
		cmocka_unit_test(a_changed_limit_counts_what_was_taken),
		cmocka_unit_test(a_changed_burst),
		cmocka_unit_test(the_clock_steps_back),
		cmocka_unit_test(latecomers),
		cmocka_unit_test(a_latecomer_waits_for_later_takes),
		cmocka_unit_test(two_limits_on_one_state),
		cmocka_unit_test(lowered_beyond_time),
		cmocka_unit_test(late_after_a_give_back),
		cmocka_unit_test(a_look_notices_the_clock),
		cmocka_unit_test(the_ends_of_time),
		cmocka_unit_test(reports_changes),
		cmocka_unit_test(any_words),
		cmocka_unit_test(tokens_that_can_certainly_be_given_back),
		cmocka_unit_test(certain_tokens_are_never_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
