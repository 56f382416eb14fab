/* Limits that weir_limit_check accepts, the numbers it computes, and the text of each error. */
#include "algo/algo_test.h"

#define HEAD .size = sizeof(struct weir_limit)

static void fills_in(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 10, .period_ns = SECOND);

	(void)unused;
	assert_int_equal(l.capacity, 10);
	assert_int_equal(l.ceiling, 10);
	assert_int_not_equal(l.checked, 0);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 10, .burst = 25, .period_ns = SECOND,
		  .soft_ceiling = 30, .soft_for_ns = 1);
	assert_int_equal(l.capacity, 25);
	assert_int_equal(l.ceiling, 30);
	l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 10, .queue_size = 4,
		  .period_ns = SECOND);
	assert_int_equal(l.capacity, 5);
	l = LIMIT(.algorithm = WEIR_CONCURRENT, .limit = 32766, .period_ns = SECOND);
	assert_int_equal(l.capacity, 32766);
	assert_int_equal(l.ceiling, 32766);
	assert_int_equal(l.narrow_ns, 0);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 0, .burst = 5, .period_ns = SECOND,
		  .soft_ceiling = 9, .soft_for_ns = 1);
	assert_int_equal(l.capacity, 0);
	assert_int_equal(l.ceiling, 0);
}

static void names_the_counter(void **unused)
{
	struct weir_limit a =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = SECOND);
	struct weir_limit size =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 11, .period_ns = SECOND,
		      .soft_ceiling = 20, .soft_for_ns = 1, .flags = WEIR_COUNT_REJECTED);
	struct weir_limit period =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = MINUTE);
	struct weir_limit kind =
		LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 10, .period_ns = SECOND);
	struct weir_limit other = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10,
					.period_ns = SECOND, .identity = 1);

	(void)unused;
	assert_int_equal(a.checked, size.checked);
	assert_int_not_equal(a.checked, period.checked);
	assert_int_not_equal(a.checked, kind.checked);
	assert_int_not_equal(a.checked, other.checked);
	/* Tables on disk contain this number. If its calculation changed, an upgrade would lose
	 * every counter. */
	assert_int_equal(a.checked, 0x7627312cdb3988e3);
}

static const struct {
	const char *sentence;
	struct weir_limit limit;
} refused[] = {
	{"unknown algorithm 0", {HEAD, .limit = 1, .period_ns = 1}},
	{"unknown algorithm 7", {HEAD, .algorithm = 7, .limit = 1, .period_ns = 1}},
	{"unknown algorithm 4294967295",
	 {HEAD, .algorithm = UINT32_MAX, .limit = 1, .period_ns = 1}},
	{"period_ns is 0", {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1}},
	{"the period is longer than 100 years; shorten it",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .period_ns = WEIR_SPAN_MAX_NS + 1}},
	{"burst is for token_bucket, not for fixed_window",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .period_ns = 1, .burst = 1}},
	{"burst is for token_bucket, not for leaky_bucket",
	 {HEAD, .algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = 1, .burst = 1}},
	{"queue_size is for leaky_bucket, not for token_bucket",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = 1, .queue_size = 1}},
	{"max_wait_ns is for leaky_bucket, not for sliding_window_log",
	 {HEAD, .algorithm = WEIR_SLIDING_LOG, .limit = 1, .period_ns = 1, .max_wait_ns = 1}},
	{"queue_size is above 4294967294",
	 {HEAD, .algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = 1,
	  .queue_size = UINT32_MAX}},
	{"leaky_bucket has no soft mode: its outflow is fixed",
	 {HEAD, .algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = 1, .soft_ceiling = 2,
	  .soft_for_ns = 1}},
	{"soft_ceiling 4 is below the capacity 5",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 3, .burst = 5, .period_ns = 1,
	  .soft_ceiling = 4, .soft_for_ns = 1}},
	{"soft mode has a ceiling, but its duration is 0; set a duration",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 3, .period_ns = 1, .soft_ceiling = 4}},
	{"soft mode has a duration, but its ceiling is 0; raise the ceiling or the limit",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 3, .period_ns = 1, .soft_for_ns = 4}},
	{"the duration of soft mode is longer than 100 years; shorten it",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 3, .period_ns = 1, .soft_ceiling = 4,
	  .soft_for_ns = WEIR_SPAN_MAX_NS + 1}},
	{"count_rejected is for windows, not for token_bucket",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = 1,
	  .flags = WEIR_COUNT_REJECTED}},
	{"count_rejected is for windows, not for concurrent",
	 {HEAD, .algorithm = WEIR_CONCURRENT, .limit = 1, .period_ns = 1,
	  .flags = WEIR_COUNT_REJECTED}},
	{"on_full is for sliding_window_log, not for concurrent",
	 {HEAD, .algorithm = WEIR_CONCURRENT, .limit = 1, .period_ns = 1,
	  .flags = WEIR_FULL_REFUSES}},
	{"burst is for token_bucket, not for concurrent",
	 {HEAD, .algorithm = WEIR_CONCURRENT, .limit = 1, .period_ns = 1, .burst = 1}},
	{"concurrent has no soft mode: raise the number of slots",
	 {HEAD, .algorithm = WEIR_CONCURRENT, .limit = 1, .period_ns = 1, .soft_ceiling = 2,
	  .soft_for_ns = 1}},
	{"concurrent has at most 32766 slots, not 32767; lower the limit",
	 {HEAD, .algorithm = WEIR_CONCURRENT, .limit = 32767, .period_ns = 1}},
	{"concurrent has no max_debt, because it cannot be settled",
	 {HEAD, .algorithm = WEIR_CONCURRENT, .limit = 1, .period_ns = 1, .max_debt = 1}},
	{"leaky_bucket has no max_debt, because it cannot be settled",
	 {HEAD, .algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = 1, .max_debt = 1}},
	{"leaky_bucket has no max_debt, because it cannot be settled",
	 {HEAD, .algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = 1, .flags = WEIR_NO_DEBT}},
	{"max_debt is 3, but WEIR_NO_DEBT is set; remove one of them",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = 1, .max_debt = 3,
	  .flags = WEIR_NO_DEBT}},
	{"the reserved field is not 0",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = 1, .reserved = 1}},
	{"unknown flags 0x82",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .period_ns = 1, .flags = 0x82}},
	{"the reserved field is not 0",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .period_ns = 1, .shares = 1}},
	{"window_start_ns and window_end_ns are for fixed_window, not for token_bucket",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = 1, .window_end_ns = 1}},
	{"the window ends at 5 ns and does not begin before that",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .window_start_ns = 5,
	  .window_end_ns = 5}},
	{"the window ends at 0 ns and does not begin before that",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .period_ns = 1, .window_start_ns = 5}},
	{"window_end_ns is beyond 2^63-1",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .window_end_ns = 1ull << 63}},
	{"the window is longer than 100 years",
	 {HEAD, .algorithm = WEIR_FIXED_WINDOW, .limit = 1, .window_end_ns = WEIR_SPAN_MAX_NS + 1}},
	{"sliding_window_log stores at most 65532 requests, not 65533; lower the limit or use "
	 "sliding_window_counter",
	 {HEAD, .algorithm = WEIR_SLIDING_LOG, .limit = 65533, .period_ns = 1}},
	{"sliding_window_log stores at most 65532 requests, not 65533; lower the limit or use "
	 "sliding_window_counter",
	 {HEAD, .algorithm = WEIR_SLIDING_LOG, .limit = 65532, .period_ns = 1,
	  .soft_ceiling = 65533, .soft_for_ns = 1}},
	{"a bucket of 101 units takes more than 100 years to fill at 1 per period; make the bucket "
	 "smaller or the rate higher",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 101, .period_ns = YEAR}},
	{"a bucket of 101 units takes more than 100 years to fill at 1 per period; make the bucket "
	 "smaller or the rate higher",
	 {HEAD, .algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .queue_size = 100, .period_ns = YEAR}},
	{"a bucket of 101 units takes more than 100 years to fill at 1 per period; make the bucket "
	 "smaller or the rate higher",
	 {HEAD, .algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 100, .period_ns = YEAR,
	  .soft_ceiling = 101, .soft_for_ns = 1}},
};

static void refuses(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct weir_limit l = refused[i].limit;
		struct weir_error error = {0};
		struct weir_state s = {0};
		struct weir_decision d;

		l.checked = 1;
		assert_int_equal(weir_limit_check(&l, &error), WEIR_ELIMIT);
		assert_string_equal(error.text, refused[i].sentence);
		assert_int_equal(error.code, WEIR_ELIMIT);
		assert_int_equal(weir_limit_check(&l, NULL), WEIR_ELIMIT);
		assert_int_equal(weir_step(&l, &s, NULL, 1, T0, &d), WEIR_ELIMIT);
	}
}

static void refuses_unusable_limits(void **unused)
{
	struct weir_limit l = {.size = 8, .algorithm = WEIR_TOKEN_BUCKET};
	struct weir_error error = {0};

	(void)unused;
	assert_int_equal(weir_limit_check(NULL, &error), WEIR_EINVAL);
	assert_string_equal(error.text, "there is no limit to check");
	assert_int_equal(weir_limit_check(&l, &error), WEIR_EINVAL);
	assert_int_equal(error.code, WEIR_EINVAL);
}

static void arguments_of_a_step(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 3, .period_ns = SECOND);
	struct weir_limit soft = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 3,
				       .period_ns = SECOND, .soft_ceiling = 4, .soft_for_ns = 1);
	struct weir_limit log =
		LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 0, .period_ns = SECOND);
	struct weir_limit slots =
		LIMIT(.algorithm = WEIR_CONCURRENT, .limit = 3, .period_ns = SECOND);
	struct weir_log ring = {0};
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	assert_int_equal(weir_step(NULL, &s, NULL, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_step(&l, NULL, NULL, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_step(&l, &s, NULL, 1, T0, NULL), WEIR_EINVAL);
	assert_int_equal(weir_step(&soft, &s, NULL, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_step(&l, &s, NULL, 1, TIME_MAX + 1, &d), WEIR_ETIME);
	assert_int_equal(weir_step(&l, &s, NULL, 1, TIME_MAX, &d), 0);
	assert_int_equal(weir_step(&log, &s, NULL, 1, T0, &d), WEIR_ELIMIT);
	assert_int_equal(weir_log_step(&l, &ring, NULL, 1, T0, &d), WEIR_ELIMIT);
	assert_int_equal(weir_step(&slots, &s, NULL, 1, T0, &d), WEIR_ELIMIT);
	assert_int_equal(weir_log_step(&slots, &ring, NULL, 1, T0, &d), WEIR_ELIMIT);
	assert_int_equal(weir_log_step(&log, NULL, NULL, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_log_step(&log, &ring, NULL, 1, TIME_MAX + 1, &d), WEIR_ETIME);
	assert_int_equal(weir_log_step(&log, &ring, NULL, 1, T0, &d), 0);
	l.checked = 0;
	assert_int_equal(weir_step(&l, &s, NULL, 1, T0, &d), WEIR_ELIMIT);
}

static void names(void **unused)
{
	(void)unused;
	for (int a = WEIR_TOKEN_BUCKET; a <= WEIR_CONCURRENT; a++) {
		const char *name = weir_algorithm_name(a);

		assert_int_equal(weir_algorithm_by_name(name, strlen(name)), a);
		assert_int_equal(weir_algorithm_by_name(name, strlen(name) - 1), 0);
	}
	assert_string_equal(weir_algorithm_name(4), "sliding_window_counter");
	assert_null(weir_algorithm_name(0));
	assert_string_equal(weir_algorithm_name(6), "concurrent");
	assert_null(weir_algorithm_name(7));
	assert_int_equal(weir_algorithm_by_name("", 0), 0);
	assert_string_equal(weir_strerror(0), "no error");
	assert_string_equal(weir_strerror(WEIR_ETIME), "now_ns is outside 0 … 2^63-1");
	assert_string_equal(weir_strerror(7), "an error code that weir does not know");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fills_in),
		cmocka_unit_test(names_the_counter),
		cmocka_unit_test(refuses),
		cmocka_unit_test(refuses_unusable_limits),
		cmocka_unit_test(arguments_of_a_step),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
