/* The circuit breaker of a host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/breaker.h"

#define SECOND_NS 1000000000ull
#define NOW_NS (1000 * SECOND_NS)

static void fail_times(struct wr_breaker *breaker, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		wr_polite_breaker_report(breaker, WR_POLITE_FAILED, NOW_NS, 0);
}

static void five_failures_open_it_for_a_second(void **state)
{
	struct wr_breaker breaker = {0};
	uint64_t again_ns;

	(void)state;
	fail_times(&breaker, 4);
	wr_polite_breaker_report(&breaker, WR_POLITE_WORKS, NOW_NS, 0);
	fail_times(&breaker, 4);
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS, &again_ns));
	fail_times(&breaker, 1);
	assert_false(wr_polite_breaker_pass(&breaker, NOW_NS, &again_ns));
	assert_int_equal(again_ns, NOW_NS + SECOND_NS);
	assert_false(wr_polite_breaker_pass(&breaker, NOW_NS + SECOND_NS - 1, &again_ns));
}

static void one_probe_decides(void **state)
{
	struct wr_breaker breaker = {0};
	uint64_t again_ns;

	(void)state;
	fail_times(&breaker, 5);
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS + SECOND_NS, &again_ns));
	assert_false(wr_polite_breaker_pass(&breaker, NOW_NS + SECOND_NS, &again_ns));
	wr_polite_breaker_report(&breaker, WR_POLITE_FAILED, NOW_NS + SECOND_NS, 0);
	assert_false(wr_polite_breaker_pass(&breaker, NOW_NS + 3 * SECOND_NS - 1, &again_ns));
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS + 3 * SECOND_NS, &again_ns));
	wr_polite_breaker_report(&breaker, WR_POLITE_WORKS, NOW_NS + 3 * SECOND_NS, 0);
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS + 3 * SECOND_NS, &again_ns));
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS + 3 * SECOND_NS, &again_ns));
}

static void a_probe_without_result_is_repeated(void **state)
{
	struct wr_breaker breaker = {0};
	uint64_t again_ns;

	(void)state;
	fail_times(&breaker, 5);
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS + SECOND_NS, &again_ns));
	wr_polite_breaker_report(&breaker, WR_POLITE_UNKNOWN, NOW_NS + SECOND_NS, 0);
	assert_true(wr_polite_breaker_pass(&breaker, NOW_NS + SECOND_NS, &again_ns));
}

static void pauses_end_at_a_minute_and_are_shortened_at_random(void **state)
{
	struct wr_breaker breaker = {0};
	uint64_t now_ns = NOW_NS, again_ns;

	(void)state;
	fail_times(&breaker, 5);
	for (int i = 0; i < 10; i++) {
		now_ns = breaker.probe_at_ns;
		assert_true(wr_polite_breaker_pass(&breaker, now_ns, &again_ns));
		wr_polite_breaker_report(&breaker, WR_POLITE_FAILED, now_ns, 0);
	}
	assert_int_equal(breaker.probe_at_ns, now_ns + 60 * SECOND_NS);
	now_ns = breaker.probe_at_ns;
	assert_true(wr_polite_breaker_pass(&breaker, now_ns, &again_ns));
	wr_polite_breaker_report(&breaker, WR_POLITE_FAILED, now_ns, 30 * SECOND_NS - 1);
	assert_int_equal(breaker.probe_at_ns, now_ns + 30 * SECOND_NS + 1);
}

static void a_429_is_no_failure(void **state)
{
	(void)state;
	assert_int_equal(wr_polite_outcome(false, 429, 0), WR_POLITE_WORKS);
	assert_int_equal(wr_polite_outcome(false, 200, 0), WR_POLITE_WORKS);
	assert_int_equal(wr_polite_outcome(false, 404, 0), WR_POLITE_WORKS);
	assert_int_equal(wr_polite_outcome(false, 501, 0), WR_POLITE_WORKS);
	assert_int_equal(wr_polite_outcome(false, 503, SECOND_NS), WR_POLITE_WORKS);
	assert_int_equal(wr_polite_outcome(false, 500, 0), WR_POLITE_FAILED);
	assert_int_equal(wr_polite_outcome(false, 503, 0), WR_POLITE_FAILED);
	assert_int_equal(wr_polite_outcome(true, 0, 0), WR_POLITE_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_failures_open_it_for_a_second),
		cmocka_unit_test(one_probe_decides),
		cmocka_unit_test(a_probe_without_result_is_repeated),
		cmocka_unit_test(pauses_end_at_a_minute_and_are_shortened_at_random),
		cmocka_unit_test(a_429_is_no_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
