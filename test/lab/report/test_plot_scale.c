/* Ranges, ticks and their texts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lab/report/plot_scale.h"

#define MAY_17_2015 1431820800.0 /* 00:00 UTC */

/* Fits a scale and compares its ticks with the expected texts, separated by '|'. A date follows its
 * text after '/'. */
static void expect_ticks(struct wr_lab_scale scale, unsigned most, bool round, const char *expected)
{
	static struct wr_lab_tick ticks[WR_LAB_TICKS_MAX];
	char all[4096] = "";
	size_t count;

	wr_lab_scale_fit(&scale, most, round);
	count = wr_lab_scale_ticks(&scale, most, ticks);
	assert_true(count <= WR_LAB_TICKS_MAX);
	for (size_t i = 0; i < count; i++) {
		size_t used = strlen(all);

		snprintf(all + used, sizeof(all) - used, "%s%s%s%s", i ? "|" : "", ticks[i].text,
			 ticks[i].date[0] ? "/" : "", ticks[i].date);
	}
	assert_string_equal(all, expected);
}

static struct wr_lab_scale linear(enum wr_lab_plot_axis axis, double low, double high)
{
	return (struct wr_lab_scale){axis, false, low, high, 0, 100};
}

static struct wr_lab_scale logarithmic(enum wr_lab_plot_axis axis, double low, double high)
{
	return (struct wr_lab_scale){axis, true, low, high, 0, 100};
}

static void numbers_are_round(void **state)
{
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 93), 5, true, "0|20|40|60|80|100");
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 0.7), 5, true, "0|0.2|0.4|0.6|0.8");
	expect_ticks(linear(WR_LAB_NUMBERS, -7, 12), 5, true, "-10|-5|0|5|10|15");
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 12345), 5, true, "0|5,000|10,000|15,000");
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 2.3e6), 5, true, "0|500,000|1 M|1.5 M|2 M|2.5 M");
	expect_ticks(linear(WR_LAB_NUMBERS, 3, 9), 3, false, "4|6|8");
	expect_ticks(linear(WR_LAB_PERCENT, 0, 1), 4, true, "0 %|0.5 %|1.0 %");
	(void)state;
}

static void equal_values_get_a_range(void **state)
{
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 0), 4, true, "-0.5|0|0.5");
	expect_ticks(linear(WR_LAB_NUMBERS, 8, 8), 4, true, "4|6|8|10|12");
	expect_ticks(logarithmic(WR_LAB_NUMBERS, 10, 10), 6, true, "5|10|20");
	expect_ticks(linear(WR_LAB_TIMES, MAY_17_2015, MAY_17_2015), 4, false,
		     "23:59:30/16 May 2015|23:59:45|00:00:00/17 May 2015|00:00:15|00:00:30");
	(void)state;
}

static void huge_and_tiny_numbers_have_ticks(void **state)
{
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 1e300), 2, true, "0|5e+287 T|1e+288 T");
	expect_ticks(linear(WR_LAB_NUMBERS, -1e300, 1e300), 2, true, "-1e+288 T|0|1e+288 T");
	expect_ticks(linear(WR_LAB_NUMBERS, 0, 2e-9), 2, true, "0|1e-09|2e-09");
	expect_ticks(logarithmic(WR_LAB_NUMBERS, 1e-300, 1e300), 2, true, "1e-300|1|1e+288 T");
	(void)state;
}

static void times_are_round_in_utc(void **state)
{
	double start = MAY_17_2015 + 10 * 3600 + 320;

	expect_ticks(linear(WR_LAB_TIMES, start, start + 200), 5, false,
		     "10:06/17 May 2015|10:07|10:08");
	expect_ticks(linear(WR_LAB_TIMES, start, start + 86400), 5, false,
		     "12:00/17 May 2015|18:00|00:00/18 May 2015|06:00");
	expect_ticks(linear(WR_LAB_TIMES, start, start + 5 * 86400), 6, false,
		     "18 May/2015|19 May|20 May|21 May|22 May");
	expect_ticks(linear(WR_LAB_TIMES, start, start + 60 * 86400), 9, false,
		     "18 May/2015|25 May|1 Jun|8 Jun|15 Jun|22 Jun|29 Jun|6 Jul|13 Jul");
	expect_ticks(linear(WR_LAB_TIMES, start, start + 400 * 86400.0), 6, false,
		     "Jul/2015|Oct|Jan/2016|Apr");
	expect_ticks(linear(WR_LAB_TIMES, 0, 4e9), 5, false, "2000|2050");
	expect_ticks(linear(WR_LAB_TIMES, start, start + 0.01), 3, false,
		     "10:05:20.000/17 May 2015|10:05:20.005|10:05:20.010");
	(void)state;
}

static void a_leap_day_is_a_day(void **state)
{
	double feb_28_2024 = 1709078400;

	expect_ticks(linear(WR_LAB_TIMES, feb_28_2024, feb_28_2024 + 2 * 86400), 3, false,
		     "28 Feb/2024|29 Feb|1 Mar");
	(void)state;
}

static void durations_have_units(void **state)
{
	expect_ticks(linear(WR_LAB_SECONDS, 0, 0.4), 4, true, "0 s|100 ms|200 ms|300 ms|400 ms");
	expect_ticks(linear(WR_LAB_SECONDS, 0, 50), 4, true, "0 s|15 s|30 s|45 s|1 min");
	expect_ticks(linear(WR_LAB_SECONDS, 0, 5400), 3, true, "0 s|30 min|1 h|1.5 h");
	expect_ticks(linear(WR_LAB_SECONDS, 0, 30 * 86400), 3, true, "0 s|10 d|20 d|30 d");
	expect_ticks(logarithmic(WR_LAB_SECONDS, 0.01, 1), 8, false,
		     "10 ms|20 ms|50 ms|100 ms|200 ms|500 ms|1 s");
	expect_ticks(logarithmic(WR_LAB_SECONDS, 1e-6, 86400), 8, false,
		     "1 µs|100 µs|10 ms|1 s|10 s|1 min|10 min|1 h|10 h|1 d");
	(void)state;
}

static void bytes_have_binary_units(void **state)
{
	expect_ticks(linear(WR_LAB_BYTES, 0, 300 * 0x1p20), 3, true, "0 B|100 MiB|200 MiB|300 MiB");
	expect_ticks(linear(WR_LAB_BYTES, 0, 3), 3, true, "0 B|1 B|2 B|3 B");
	expect_ticks(logarithmic(WR_LAB_BYTES, 1024, 0x1p30), 4, false,
		     "1 KiB|32 KiB|1 MiB|32 MiB|1 GiB");
	(void)state;
}

static void logarithmic_ticks_thin_out(void **state)
{
	expect_ticks(logarithmic(WR_LAB_NUMBERS, 3, 70), 6, true, "2|5|10|20|50|100");
	expect_ticks(logarithmic(WR_LAB_NUMBERS, 3, 700), 6, true, "1|10|100|1,000");
	expect_ticks(logarithmic(WR_LAB_NUMBERS, 1, 1e5), 6, true, "1|10|100|1,000|10,000|100,000");
	expect_ticks(logarithmic(WR_LAB_NUMBERS, 1, 1e6), 4, true, "1|100|10,000|1 M");
	(void)state;
}

static void expect_text(enum wr_lab_plot_axis axis, double value, const char *expected)
{
	char text[WR_LAB_TICK_TEXT];

	wr_lab_plot_value(axis, value, text);
	assert_string_equal(text, expected);
}

static void values_have_three_digits_or_all_before_the_point(void **state)
{
	expect_text(WR_LAB_NUMBERS, 0, "0");
	expect_text(WR_LAB_NUMBERS, 12030, "12,030");
	expect_text(WR_LAB_NUMBERS, 123.456, "123");
	expect_text(WR_LAB_NUMBERS, 12.3456, "12.3");
	expect_text(WR_LAB_NUMBERS, -1.0 / 3, "-0.333");
	expect_text(WR_LAB_NUMBERS, 1234567, "1.23 M");
	expect_text(WR_LAB_PERCENT, 0.003, "0.003 %");
	expect_text(WR_LAB_PERCENT, 100, "100 %");
	expect_text(WR_LAB_SECONDS, 0.0125, "12.5 ms");
	expect_text(WR_LAB_SECONDS, 90, "1.5 min");
	expect_text(WR_LAB_SECONDS, 2e-9, "2 ns");
	expect_text(WR_LAB_BYTES, 1536, "1.5 KiB");
	expect_text(WR_LAB_BYTES, 0x1p60, "1,024 PiB");
	(void)state;
}

static void values_have_coordinates(void **state)
{
	struct wr_lab_scale scale = {WR_LAB_NUMBERS, false, 0, 50, 200, 100};

	assert_true(wr_lab_scale_at(&scale, 0) == 200);
	assert_true(wr_lab_scale_at(&scale, 25) == 150);
	assert_true(wr_lab_scale_at(&scale, 50) == 100);
	scale = logarithmic(WR_LAB_NUMBERS, 1, 10000);
	assert_true(fabs(wr_lab_scale_at(&scale, 100) - 50) < 1e-9);
	(void)state;
}

static void some_values_are_not_shown(void **state)
{
	struct wr_lab_scale numbers = linear(WR_LAB_NUMBERS, 0, 1);
	struct wr_lab_scale logs = logarithmic(WR_LAB_NUMBERS, 1, 10);
	struct wr_lab_scale times = linear(WR_LAB_TIMES, 0, 1);

	assert_true(wr_lab_scale_shows(&numbers, 0));
	assert_true(wr_lab_scale_shows(&numbers, -1e300));
	assert_false(wr_lab_scale_shows(&numbers, NAN));
	assert_false(wr_lab_scale_shows(&numbers, INFINITY));
	assert_false(wr_lab_scale_shows(&numbers, -INFINITY));
	assert_false(wr_lab_scale_shows(&numbers, 1.7e308));
	assert_false(wr_lab_scale_shows(&logs, 0));
	assert_false(wr_lab_scale_shows(&logs, -5));
	assert_false(wr_lab_scale_shows(&logs, 5e-324));
	assert_true(wr_lab_scale_shows(&times, 253402300799)); /* the last second of 9999 */
	assert_false(wr_lab_scale_shows(&times, 253402300800));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_round),
		cmocka_unit_test(equal_values_get_a_range),
		cmocka_unit_test(huge_and_tiny_numbers_have_ticks),
		cmocka_unit_test(times_are_round_in_utc),
		cmocka_unit_test(a_leap_day_is_a_day),
		cmocka_unit_test(durations_have_units),
		cmocka_unit_test(bytes_have_binary_units),
		cmocka_unit_test(logarithmic_ticks_thin_out),
		cmocka_unit_test(values_have_three_digits_or_all_before_the_point),
		cmocka_unit_test(values_have_coordinates),
		cmocka_unit_test(some_values_are_not_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
