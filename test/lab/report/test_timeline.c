/* Timelines: exact sums and peaks, before and after buckets are joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lab/report/timeline.h"

#define S 1000000000ull

static double x[WR_LAB_BUCKETS], y[WR_LAB_BUCKETS];

static double sum_of(const struct wr_lab_timeline *t, unsigned track)
{
	double sum = 0;

	for (uint32_t i = 0; i < t->used; i++)
		sum += t->counts[track][i];
	return sum;
}

static void has_no_rates_without_events(void **state)
{
	static struct wr_lab_timeline t;

	assert_int_equal(wr_lab_timeline_rates(&t, 0, x, y), 0);
	(void)state;
}

static void counts_single_seconds(void **state)
{
	static struct wr_lab_timeline t;

	wr_lab_timeline_add(&t, 0, 1000 * S, 2);
	wr_lab_timeline_add(&t, 0, 1000 * S + S - 1, 3);
	wr_lab_timeline_add(&t, 1, 1002 * S, 7);
	assert_int_equal(t.start_s, 1000);
	assert_int_equal(t.width_s, 1);
	assert_int_equal(wr_lab_timeline_rates(&t, 0, x, y), 3);
	assert_true(x[0] == 1000 && x[1] == 1001 && x[2] == 1002);
	assert_true(y[0] == 5 && y[1] == 0 && y[2] == 0);
	assert_int_equal(wr_lab_timeline_rates(&t, 1, x, y), 3);
	assert_true(y[0] == 0 && y[1] == 0 && y[2] == 7);
	(void)state;
}

static void keeps_the_largest_second(void **state)
{
	static struct wr_lab_timeline t;

	wr_lab_timeline_add(&t, 0, 10 * S, 4);
	wr_lab_timeline_add(&t, 0, 11 * S, 5);
	wr_lab_timeline_add(&t, 1, 11 * S, 1);
	wr_lab_timeline_add(&t, 0, 11 * S + 1, 1);
	wr_lab_timeline_add(&t, 0, 12 * S, 6);
	assert_int_equal(t.peak[0], 6);
	assert_int_equal(t.peak_s[0], 11);
	assert_int_equal(t.peak[1], 1);
	assert_int_equal(t.peak_s[1], 11);
	assert_int_equal(t.peak[2], 0);
	(void)state;
}

/* The start 1001 is odd, so the first bucket of two seconds begins at 1000 and has one second of
 * events. */
static void joins_pairs_when_full(void **state)
{
	static struct wr_lab_timeline t;

	for (uint64_t i = 0; i < WR_LAB_BUCKETS; i++)
		wr_lab_timeline_add(&t, 0, (1001 + i) * S, 10);
	assert_int_equal(t.width_s, 1);
	assert_int_equal(t.used, 1024);
	wr_lab_timeline_add(&t, 0, (1001 + 1024) * S, 10);
	assert_int_equal(t.width_s, 2);
	assert_int_equal(t.start_s, 1000);
	assert_int_equal(t.used, 513);
	assert_true(sum_of(&t, 0) == 10250);
	assert_true(t.counts[0][0] == 10);
	assert_true(t.counts[0][1] == 20);
	assert_true(t.counts[0][512] == 20);
	assert_int_equal(wr_lab_timeline_rates(&t, 0, x, y), 513);
	assert_true(x[0] == 1001 && x[1] == 1002 && x[512] == 2024);
	for (int i = 0; i < 513; i++)
		assert_true(y[i] == 10);
	assert_int_equal(t.peak[0], 10);
	assert_int_equal(t.peak_s[0], 1001);
	(void)state;
}

/* A year after the first event, a bucket is 2^15 s long: 2^10 buckets of 2^14 s are 194 days. The
 * first and the last bucket are not full. */
static void joins_until_a_far_time_fits(void **state)
{
	static struct wr_lab_timeline t;
	uint64_t start = 1600000000, year = 365 * 86400ull;

	wr_lab_timeline_add(&t, 2, start * S, 3);
	wr_lab_timeline_add(&t, 2, (start + 1) * S, 3);
	wr_lab_timeline_add(&t, 2, (start + year) * S, 8);
	assert_int_equal(t.width_s, 32768);
	assert_int_equal(t.start_s % 32768, 0);
	assert_int_equal(t.start_s, start - start % 32768);
	assert_true(sum_of(&t, 2) == 14);
	assert_true(t.counts[2][0] == 6);
	assert_true(t.counts[2][t.used - 1] == 8);
	wr_lab_timeline_rates(&t, 2, x, y);
	assert_true(x[0] == 1600000000);
	assert_true(y[0] == 6.0 / 28672);
	assert_true(y[t.used - 1] == 8.0 / 17281);
	(void)state;
}

static void accepts_any_time(void **state)
{
	static struct wr_lab_timeline t;

	wr_lab_timeline_add(&t, 0, 0, 1);
	wr_lab_timeline_add(&t, 0, UINT64_MAX, 2);
	assert_true(sum_of(&t, 0) == 3);
	assert_true(t.used <= WR_LAB_BUCKETS);
	assert_int_equal(t.start_s, 0);
	assert_int_equal(t.width_s, 33554432);
	(void)state;
}

static void counts_times_that_go_back(void **state)
{
	static struct wr_lab_timeline t;

	wr_lab_timeline_add(&t, 0, 100 * S, 1);
	wr_lab_timeline_add(&t, 0, 105 * S, 1);
	wr_lab_timeline_add(&t, 0, 103 * S, 4);
	wr_lab_timeline_add(&t, 0, 7 * S, 8);
	assert_int_equal(wr_lab_timeline_rates(&t, 0, x, y), 6);
	assert_true(y[0] == 9 && y[3] == 4 && y[5] == 1);
	/* Earlier seconds are over: their events count in the current second. */
	assert_int_equal(t.peak[0], 13);
	assert_int_equal(t.peak_s[0], 105);
	(void)state;
}

/* Each second of 10,000 has one event more than the second before it, modulo 7. */
static void sums_as_a_dull_count_does(void **state)
{
	static struct wr_lab_timeline t;
	static uint64_t dull[10000];
	uint64_t width;

	for (uint64_t s = 0; s < 10000; s++) {
		dull[s] = s % 7;
		wr_lab_timeline_add(&t, 3, (5003 + s) * S, dull[s]);
	}
	width = t.width_s;
	assert_int_equal(width, 16);
	for (uint32_t i = 0; i < t.used; i++) {
		uint64_t sum = 0;

		for (uint64_t s = t.start_s + i * width; s < t.start_s + (i + 1) * width; s++)
			sum += s >= 5003 && s < 15003 ? dull[s - 5003] : 0;
		assert_true(t.counts[3][i] == (double)sum);
	}
	assert_int_equal(t.peak[3], 6);
	assert_int_equal(t.peak_s[3], 5009);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_no_rates_without_events),
		cmocka_unit_test(counts_single_seconds),
		cmocka_unit_test(keeps_the_largest_second),
		cmocka_unit_test(joins_pairs_when_full),
		cmocka_unit_test(joins_until_a_far_time_fits),
		cmocka_unit_test(accepts_any_time),
		cmocka_unit_test(counts_times_that_go_back),
		cmocka_unit_test(sums_as_a_dull_count_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
