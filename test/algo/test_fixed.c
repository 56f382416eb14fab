/* Fixed window: calendar windows, the clock, saturation. */
#include "algo/algo_test.h"
#include "algo/fixed.h"

static struct weir_limit five(uint32_t flags)
{
	return LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .period_ns = MINUTE,
		     .flags = flags);
}

static void counts_down(void **unused)
{
	struct weir_limit l = five(0);
	struct weir_state s = {0};
	struct weir_decision d = step(&l, &s, 2, T0 + SECOND);

	(void)unused;
	assert_int_equal(d.remaining, 3);
	assert_int_equal(d.reset_after_ns, 59 * SECOND);
	assert_int_equal(s.s0, T0);
	assert_int_equal(s.s1, 2);
	d = step(&l, &s, 4, T0 + SECOND); /* all or nothing */
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 3);
	assert_int_equal(d.retry_after_ns, 59 * SECOND);
	assert_int_equal(step(&l, &s, 6, T0 + SECOND).retry_after_ns, WEIR_NEVER);
	assert_int_equal(step(&l, &s, -1, T0 + SECOND).remaining, 4);
	d = step(&l, &s, INT64_MIN, T0 + SECOND);
	assert_int_equal(d.remaining, 5);
	assert_int_equal(d.reset_after_ns, 0);
	assert_int_equal(step(&l, &s, 5, T0 + MINUTE - 1).remaining, 0);
	assert_int_equal(step(&l, &s, 5, T0 + MINUTE).remaining, 0);
	/* Units taken in an earlier window are not given back in this one. */
	assert_int_equal(step(&l, &s, -2, T0 + 2 * MINUTE).remaining, 5);
}

/* Months in Asia/Seoul (UTC+9): January, February and March 2024. */
static void months(void **unused)
{
	static const uint64_t starts[] = {1704034800, 1706713200, 1709218800, 1711897200};
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10000,
		      .window_start_ns = 1704034800 * SECOND, .window_end_ns = 1706713200 * SECOND);
	uint64_t counter = l.checked;
	struct weir_state s = {0};

	(void)unused;
	for (int month = 0; month < 3; month++) {
		l.window_start_ns = starts[month] * SECOND;
		l.window_end_ns = starts[month + 1] * SECOND;
		assert_int_equal(weir_limit_check(&l, NULL), 0);
		assert_int_equal(l.checked, counter); /* all months have the same counter */
		assert_int_equal(step(&l, &s, 10000, l.window_start_ns).admitted, 1);
		struct weir_decision d = step(&l, &s, 1, l.window_end_ns - 1);

		assert_int_equal(d.admitted, 0);
		assert_int_equal(d.retry_after_ns, 1);
		d = step(&l, &s, 1, l.window_start_ns + DAY);
		assert_int_equal(d.retry_after_ns,
				 (starts[month + 1] - starts[month]) * SECOND - DAY);
	}
}

/* The day on which summer time begins in Berlin lasts 23 hours. */
static void a_short_day(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 1,
		      .window_start_ns = 1711839600 * SECOND, .window_end_ns = 1711922400 * SECOND);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, 1, l.window_start_ns).reset_after_ns, 23 * HOUR);
}

static void the_wrong_window(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 1,
				    .window_start_ns = T0, .window_end_ns = T0 + DAY);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, 1, T0 + DAY).admitted, 1);
	assert_int_equal(step(&l, &s, 1, T0 + 2 * DAY).retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 1, T0 - 1).retry_after_ns, DAY + 1);
}

static void rejected_ones_count(void **unused)
{
	struct weir_limit l = five(WEIR_COUNT_REJECTED);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 4, T0);
	assert_int_equal(step(&l, &s, 2, T0).remaining, 0);
	assert_int_equal(s.s1, 6);
	assert_int_equal(step(&l, &s, 0, T0).admitted, 0);
	assert_int_equal(s.s1, 6); /* a request of cost 0 is never counted */
	assert_int_equal(step(&l, &s, -2, T0).remaining, 1);
	step(&l, &s, INT64_MAX, T0);
	assert_int_equal(s.s1, UINT32_MAX);
	step(&l, &s, INT64_MAX, T0);
	assert_int_equal(s.s1, UINT32_MAX);
	assert_int_equal(step(&l, &s, 5, T0 + MINUTE).admitted, 1);
}

static void charged_by_another_limit(void **unused)
{
	struct weir_limit l = five(WEIR_COUNT_REJECTED);
	struct weir_state s = {0};

	(void)unused;
	assert_true(wr_fixed_charge(&l, &s, 3, T0));
	assert_int_equal(step(&l, &s, 0, T0).remaining, 2);
	assert_true(wr_fixed_charge(&l, &s, UINT64_MAX, T0));
	assert_int_equal(s.s1, UINT32_MAX);
}

static void the_clock_steps_back(void **unused)
{
	struct weir_limit l = five(0);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 4, T0 + HOUR);
	struct weir_decision d = step(&l, &s, 2, T0 + 10 * SECOND);

	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 50 * SECOND); /* not an hour */
	assert_int_equal(s.s0, T0);
	assert_int_equal(s.s1, 4);
	assert_int_equal(step(&l, &s, 5, T0 + MINUTE).admitted, 1);
}

static void a_changed_limit(void **unused)
{
	struct weir_limit l = five(0);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 5, T0);
	l.limit = 3;
	weir_limit_check(&l, NULL);
	assert_int_equal(step(&l, &s, 0, T0).remaining, 0);
	l.limit = 8;
	weir_limit_check(&l, NULL);
	assert_int_equal(step(&l, &s, 0, T0).remaining, 3);
	l.limit = 0;
	weir_limit_check(&l, NULL);
	assert_int_equal(step(&l, &s, 0, T0).retry_after_ns, WEIR_NEVER);
}

static void edges(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = UINT32_MAX,
				    .period_ns = WEIR_SPAN_MAX_NS);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, UINT32_MAX, TIME_MAX).remaining, 0);
	assert_int_equal(step(&l, &s, 1, TIME_MAX).retry_after_ns,
			 WEIR_SPAN_MAX_NS - TIME_MAX % WEIR_SPAN_MAX_NS);
	l.period_ns = 1;
	weir_limit_check(&l, NULL);
	s = (struct weir_state){0};
	assert_int_equal(step(&l, &s, UINT32_MAX, 0).reset_after_ns, 1);
	assert_int_equal(step(&l, &s, 1, 0).retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 1, 1).admitted, 1);
}

static void latecomers(void **unused)
{
	struct weir_limit l = five(0);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	step(&l, &s, 5, T0 - 10 * SECOND);
	step(&l, &s, 4, T0);
	d = step(&l, &s, 1, T0 - SECOND); /* counted in the window that has begun */
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.reset_after_ns, 61 * SECOND);
	assert_int_equal(s.s0, T0);
	d = step(&l, &s, 1, T0 - 600 * MS);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 60600 * MS);
	assert_int_equal(s.s0, T0);
	assert_int_equal(s.s1, 5);
	d = step(&l, &s, 1, T0 - SECOND - 1); /* a step back */
	assert_int_equal(d.retry_after_ns, SECOND + 1);
	assert_int_equal(s.s0, T0 - MINUTE);
}

/* The limit of a latecomer has the window of the previous day. The state keeps its window even if
 * its count is 0. */
static void a_late_day(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 2,
				    .window_start_ns = T0 - DAY, .window_end_ns = T0);
	struct weir_state s = {.s0 = T0, .s1 = 0};

	(void)unused;
	assert_int_equal(step(&l, &s, 2, T0 - 1).reset_after_ns, DAY + 1);
	assert_int_equal(s.s0, T0);
	assert_int_equal(step(&l, &s, 1, T0 - 1).retry_after_ns, DAY + 1);
	assert_true(wr_fixed_charge(&l, &s, 3, T0 - SECOND));
	assert_int_equal(s.s0, T0);
	assert_int_equal(s.s1, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_down),
		cmocka_unit_test(months),
		cmocka_unit_test(a_short_day),
		cmocka_unit_test(the_wrong_window),
		cmocka_unit_test(rejected_ones_count),
		cmocka_unit_test(charged_by_another_limit),
		cmocka_unit_test(the_clock_steps_back),
		cmocka_unit_test(latecomers),
		cmocka_unit_test(a_late_day),
		cmocka_unit_test(a_changed_limit),
		cmocka_unit_test(edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
