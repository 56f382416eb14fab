/* Leaky bucket: delays and the bounds of the queue. test_token.c tests the arithmetic of
 * bucket.h. */
#include "algo/algo_test.h"

static void a_position_is_free_when_a_request_leaves(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 4, .period_ns = SECOND,
				    .queue_size = 2);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	assert_int_equal(step(&l, &s, 1, T0).delay_ns, 0);
	assert_int_equal(step(&l, &s, 1, T0).delay_ns, 250 * MS);
	d = step(&l, &s, 1, T0);
	assert_int_equal(d.delay_ns, 500 * MS);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.reset_after_ns, 750 * MS);
	d = step(&l, &s, 1, T0 + 100 * MS);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.delay_ns, 0);
	assert_int_equal(d.retry_after_ns, 150 * MS);
	d = step(&l, &s, 1, T0 + 300 * MS);
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.delay_ns, 450 * MS); /* leaves at 750 ms */
	/* While the queue is empty, no credit is saved up. */
	assert_int_equal(step(&l, &s, 1, T0 + MINUTE).delay_ns, 0);
	assert_int_equal(step(&l, &s, 1, T0 + MINUTE).delay_ns, 250 * MS);
}

static void no_queue(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 3, .period_ns = SECOND);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, 1, T0).admitted, 1);
	assert_int_equal(step(&l, &s, 1, T0).retry_after_ns, 333333334);
	assert_int_equal(step(&l, &s, 1, T0 + 333333333).admitted, 0);
	assert_int_equal(step(&l, &s, 1, T0 + 333333334).delay_ns, 0);
}

static void a_bound_on_the_wait(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 10, .period_ns = SECOND,
		      .queue_size = 100, .max_wait_ns = 250 * MS);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(step(&l, &s, 1, T0).delay_ns, i * 100 * MS);
	d = step(&l, &s, 0, T0); /* a request would wait 300 ms */
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.retry_after_ns, 50 * MS);
	assert_int_equal(step(&l, &s, 1, T0 + 50 * MS - 1).admitted, 0);
	d = step(&l, &s, 1, T0 + 50 * MS);
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.delay_ns, 250 * MS);
	assert_int_equal(d.remaining, 0);
	/* Both the queue and max_wait refuse; the longer wait is reported. */
	d = step(&l, &s, 101, T0 + 50 * MS);
	assert_int_equal(d.retry_after_ns, 350 * MS);
}

static void a_large_request_takes_several_positions(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = SECOND,
				    .queue_size = 9);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, 4, T0).delay_ns, 0);
	assert_int_equal(step(&l, &s, 1, T0).delay_ns, 4 * SECOND);
	assert_int_equal(step(&l, &s, 6, T0).retry_after_ns, SECOND);
	assert_int_equal(step(&l, &s, 11, T0).retry_after_ns, WEIR_NEVER);
	assert_int_equal(step(&l, &s, -4, T0).delay_ns, 0);
	assert_int_equal(step(&l, &s, 0, T0).delay_ns, SECOND);
}

static void the_largest_queue(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = UINT32_MAX,
				    .period_ns = SECOND, .queue_size = UINT32_MAX - 1);
	struct weir_state s = {0};

	(void)unused;
	assert_int_equal(step(&l, &s, UINT32_MAX, T0).remaining, 0);
	assert_int_equal(step(&l, &s, 1, T0).retry_after_ns, 1);
	assert_int_equal(step(&l, &s, 1, T0 + 1).delay_ns, SECOND - 1);
}

/* 1 per 250 ms. The delay of a latecomer begins at its own time. */
static void latecomers(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .queue_size = 2,
				    .period_ns = 250 * MS, .max_wait_ns = 300 * MS);
	struct weir_state s = {0};
	struct weir_decision d;

	(void)unused;
	assert_int_equal(step(&l, &s, 1, T0).delay_ns, 0);
	assert_int_equal(step(&l, &s, 1, T0 - 100 * MS).delay_ns, 350 * MS);
	d = step(&l, &s, 1, T0 - 100 * MS); /* it leaves 500 ms after T0 */
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 300 * MS);
	assert_int_equal(d.reset_after_ns, 600 * MS);

	s = (struct weir_state){0};
	step(&l, &s, 1, T0);
	step(&l, &s, -1, T0 + 100 * MS); /* the queue is empty, and its state has the time 100 ms */
	d = step(&l, &s, 1, T0 + 60 * MS);
	assert_int_equal(d.delay_ns, 40 * MS);
	assert_int_equal(d.reset_after_ns, 290 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_position_is_free_when_a_request_leaves),
		cmocka_unit_test(no_queue),
		cmocka_unit_test(a_bound_on_the_wait),
		cmocka_unit_test(a_large_request_takes_several_positions),
		cmocka_unit_test(the_largest_queue),
		cmocka_unit_test(latecomers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
