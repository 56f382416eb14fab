/* Sliding window counter: the estimate, its waits, the window's number. */
#include "algo/algo_test.h"
#include "algo/counter.h"

static struct weir_limit counter(uint32_t limit, uint64_t period_ns, uint32_t flags)
{
	return LIMIT(.algorithm = WEIR_SLIDING_COUNTER, .limit = limit, .period_ns = period_ns,
		     .flags = flags);
}

static void state_words(void **unused)
{
	struct weir_limit l = counter(10, MINUTE, 0);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 3, T0);
	assert_int_equal(s.s0, 3);
	assert_int_equal(s.s1, (uint32_t)(T0 / MINUTE));
	step(&l, &s, 4, T0 + MINUTE);
	assert_int_equal(s.s0, 3ull << 32 | 4);
	step(&l, &s, 1, T0 + 3 * MINUTE); /* both windows are too old */
	assert_int_equal(s.s0, 1);
}

static void the_example_of_counter_h(void **unused)
{
	struct weir_limit l = counter(7, MINUTE, 0);
	struct weir_state s = {5ull << 32 | 3, (uint32_t)(T0 / MINUTE)};
	uint64_t now_ns = T0 + 18 * SECOND;
	struct weir_decision d = step(&l, &s, 1, now_ns);

	(void)unused;
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.remaining, 0);
	d = step(&l, &s, 1, now_ns);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 6 * SECOND + 1);
	/* The 4 requests of this window weigh less than 1 when less than 15 s of the next window
	 * are left. */
	assert_int_equal(d.reset_after_ns, 42 * SECOND + 45 * SECOND + 1);
}

static void waits_into_the_next_window(void **unused)
{
	struct weir_limit l = counter(10, MINUTE, 0);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	step(&l, &s, 10, T0 + 20 * SECOND);
	d = step(&l, &s, 1, T0 + 20 * SECOND);
	assert_int_equal(d.retry_after_ns, 40 * SECOND + 1);
	d = step(&l, &s, 5, T0 + 20 * SECOND); /* 10 · x < 6 → x < 36 s left */
	assert_int_equal(d.retry_after_ns, 40 * SECOND + 24 * SECOND + 1);
	d = step(&l, &s, 10, T0 + 20 * SECOND);
	assert_int_equal(d.retry_after_ns, 40 * SECOND + 54 * SECOND + 1);
	assert_int_equal(step(&l, &s, 11, T0).retry_after_ns, WEIR_NEVER);
}

static void gives_back_from_both(void **unused)
{
	struct weir_limit l = counter(10, MINUTE, 0);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 4, T0);
	step(&l, &s, 2, T0 + MINUTE);
	assert_int_equal(step(&l, &s, -3, T0 + MINUTE).remaining, 7);
	assert_int_equal(s.s0, 3ull << 32);
	assert_int_equal(step(&l, &s, INT64_MIN, T0 + MINUTE).remaining, 10);
	assert_int_equal(s.s0, 0);
	assert_int_equal(step(&l, &s, 10, T0 + MINUTE).admitted, 1);
}

static void rejected_ones_count(void **unused)
{
	struct weir_limit l = counter(10, MINUTE, WEIR_COUNT_REJECTED);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 10, T0);
	/* 11 · x < 10 · minute */
	assert_int_equal(step(&l, &s, 1, T0).retry_after_ns, MINUTE + MINUTE - 10 * MINUTE / 11);
	step(&l, &s, INT64_MAX, T0);
	assert_int_equal(s.s0, UINT32_MAX);
	assert_int_equal(step(&l, &s, 1, T0 + 119 * SECOND).admitted, 0);
	assert_int_equal(wr_counter_charge(&l, &s, 2, T0 + 5 * MINUTE), true);
	assert_int_equal(s.s0, 2);
}

static void the_clock_steps_back(void **unused)
{
	struct weir_limit l = counter(10, MINUTE, 0);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	step(&l, &s, 10, T0 + DAY);
	d = step(&l, &s, 0, T0);
	assert_int_equal(d.admitted, 0);
	/* The counts were moved into this window permanently. */
	assert_int_equal(s.s1, (uint32_t)(T0 / MINUTE));
	assert_int_equal(d.retry_after_ns, MINUTE + 1);
	assert_int_equal(step(&l, &s, 1, T0 + MINUTE).admitted, 0);
	assert_int_equal(step(&l, &s, 10, T0 + 2 * MINUTE).admitted, 1);
}

/* The window's number wraps at 2^32. A state before the wrap does not look like a state from the
 * future. */
static void numbers_wrap(void **unused)
{
	struct weir_limit l = counter(10, MS, 0);
	uint64_t wrap_ns = (400ull << 32) * MS;
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 10, wrap_ns - 1);
	assert_int_equal(s.s1, UINT32_MAX);
	assert_int_equal(step(&l, &s, 1, wrap_ns).admitted, 0);
	assert_int_equal(step(&l, &s, 1, wrap_ns + 1).admitted, 1);
	assert_int_equal(s.s0, 10ull << 32 | 1);
	assert_int_equal(s.s1, 0);
	assert_int_equal(step(&l, &s, 10, wrap_ns + (MS << 31) - 1).admitted, 1);
}

static void edges(void **unused)
{
	struct weir_limit l = counter(UINT32_MAX, WEIR_SPAN_MAX_NS, 0);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, UINT32_MAX, 0).remaining, 0);
	assert_int_equal(step(&l, &s, 1, 0).retry_after_ns, WEIR_SPAN_MAX_NS + 1);
	assert_int_equal(step(&l, &s, 1, WEIR_SPAN_MAX_NS).admitted, 0);
	assert_int_equal(step(&l, &s, 1, WEIR_SPAN_MAX_NS + 1).admitted, 1);
	assert_int_equal(step(&l, &s, UINT32_MAX, TIME_MAX).admitted, 1);

	/* Windows of 1 ns, so that no share of the previous window is counted. */
	l = counter(3, 1, 0);
	s = (struct weir_state){0};
	assert_int_equal(step(&l, &s, 3, 7).reset_after_ns, 2);
	assert_int_equal(step(&l, &s, 1, 8).retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 3, 9).admitted, 1);
}

static void latecomers(void **unused)
{
	struct weir_limit l = counter(10, MINUTE, 0);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	step(&l, &s, 10, T0);
	struct weir_state before = s;

	d = step(&l, &s, 1, T0 - SECOND / 2); /* counted at T0 */
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 60 * SECOND + SECOND / 2 + 1);
	assert_int_equal(d.reset_after_ns, 114 * SECOND + SECOND / 2 + 1);
	assert_memory_equal(&s, &before, sizeof s);
	step(&l, &s, 1, T0 - SECOND - 1); /* a step back */
	assert_int_equal(s.s1, before.s1 - 1);
}

/* All units were given back in the window of T0. The counts of earlier windows are not stored any
 * more. */
static void late_after_a_give_back(void **unused)
{
	struct weir_limit l = counter(1, 100 * MS, 0);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, 1, T0 - 101 * MS).admitted, 1);
	assert_int_equal(step(&l, &s, 1, T0).retry_after_ns, 0);
	step(&l, &s, -1, T0);
	assert_int_equal(s.s0, 0);
	assert_int_equal(step(&l, &s, 1, T0 - 100 * MS).admitted, 1);
	assert_int_equal(s.s1,
			 /* Not counted in an earlier window, which may be full. */
			 (uint32_t)(T0 / (100 * MS)));
}

/* The distance to a window far ahead must not wrap to a small number: half a second is left of this
 * window, and 2^30 windows of 2^34 ns lie in between. */
static void far_ahead_is_not_late(void **unused)
{
	struct weir_limit l = counter(10, 1ull << 34, 0);
	uint32_t index = (uint32_t)(T0 >> 34);
	struct weir_state s = {.s0 = 10, .s1 = index + 1 + (1u << 30)};

	(void)unused;
	assert_int_equal(step(&l, &s, 1, (((T0 >> 34) + 1) << 34) - SECOND / 2).admitted, 0);
	assert_int_equal(s.s1, index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_words),
		cmocka_unit_test(the_example_of_counter_h),
		cmocka_unit_test(waits_into_the_next_window),
		cmocka_unit_test(gives_back_from_both),
		cmocka_unit_test(rejected_ones_count),
		cmocka_unit_test(the_clock_steps_back),
		cmocka_unit_test(latecomers),
		cmocka_unit_test(late_after_a_give_back),
		cmocka_unit_test(far_ahead_is_not_late),
		cmocka_unit_test(numbers_wrap),
		cmocka_unit_test(edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
