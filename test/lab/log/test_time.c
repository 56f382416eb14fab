/* Times of logs: zones, fractions, units, and texts that are no times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "lab/log/time.h"

static const struct {
	const char *text;
	uint64_t ns;
	bool whole;
} good[] = {
	/* common log format */
	{"20/Feb/2016:00:00:45 -0500", 1455944445000000000, true},
	{"[20/Feb/2016:00:00:45 -0500]", 1455944445000000000, true},
	{"20/Feb/2016:10:30:45 +0530", 1455944445000000000, true},
	{"20/Feb/2016:00:00:45.250 -0500", 1455944445250000000, false},
	{"29/Feb/2016:05:00:45 +0000", 1456722045000000000, true},
	/* the hour that a clock repeats in autumn, and the one it leaves out in spring */
	{"06/Nov/2016:01:30:00 -0400", 1478410200000000000, true},
	{"06/Nov/2016:01:30:00 -0500", 1478413800000000000, true},
	{"13/Mar/2016:01:59:59 -0500", 1457852399000000000, true},
	{"13/Mar/2016:03:00:00 -0400", 1457852400000000000, true},
	/* a leap second */
	{"31/Dec/2016:23:59:60 +0000", 1483228800000000000, true},
	/* ISO 8601 */
	{"2016-02-20T05:00:45Z", 1455944445000000000, true},
	{"2016-02-20t05:00:45z", 1455944445000000000, true},
	{"2016-02-20T05:00:45", 1455944445000000000, true},
	{"2016-02-20 05:00:45", 1455944445000000000, true},
	{"2016-02-20 05:00:45 UTC", 1455944445000000000, true},
	{"2016/02/20 05:00:45", 1455944445000000000, true},
	{"2016-02-20T00:00:45-05:00", 1455944445000000000, true},
	{"2016-02-20T10:30:45+0530", 1455944445000000000, true},
	{"2016-02-20T06:00:45+01", 1455944445000000000, true},
	{"2023-11-16 18:17:03.9799600", 1700158623979960000, false},
	{"2023-11-16T18:17:03,97", 1700158623970000000, false},
	{"2023-11-16T18:17:03.1234567891Z", 1700158623123456789, false},
	{"2016-02-20T05:00:45.000Z", 1455944445000000000, false},
	/* Unix times */
	{"1455944445", 1455944445000000000, true},
	{"1455944445.25", 1455944445250000000, false},
	{"1455944445250", 1455944445250000000, false},
	{"1455944445250.125", 1455944445250125000, false},
	{"1455944445250125", 1455944445250125000, false},
	{"1455944445250125375", 1455944445250125375, false},
	/* the first and the last second */
	{"0", 0, true},
	{"1970-01-01T00:00:00Z", 0, true},
	{"01/Jan/1970:01:00:00 +0100", 0, true},
	{"2262-04-11T23:47:15Z", 9223372035000000000, true},
};

static const char *const bad[] = {
	"",
	"-",
	"[]",
	"yesterday",
	"20/Feb/2016:00:00:45",
	"20/Feb/2016:00:00:45 -05000",
	"20/Feb/2016:00:00:45 x0500",
	"20/Feb/2016:00:00:45 -2500",
	"20/Feb/2016:24:00:00 +0000",
	"20/Feb/2016:00:60:00 +0000",
	"20/Feb/2016:00:00:61 +0000",
	"20/Feb/2016:00:00:4: +0000",
	"20/Feb/2016:0 :00:45 +0000",
	"20/Feb/2016 00:00:45 +0000",
	"20/Foo/2016:00:00:45 +0000",
	"30/Feb/2016:00:00:45 +0000",
	"29/Feb/2015:00:00:45 +0000",
	"00/Feb/2016:00:00:45 +0000",
	"20/Feb/2016:00:00:45. +0000",
	"01/Jan/1970:00:59:59 +0100",
	"31/Dec/1969:23:59:59 +0000",
	"1969-12-31T23:59:59Z",
	"01/Jan/10000:00:00:00 +0000",
	"10000-01-01T00:00:00Z",
	"2262-04-11T23:47:16Z",
	"9999-12-31T23:59:59Z",
	"2016-02-30T05:00:45Z",
	"2016-13-01T05:00:45Z",
	"2016-02-20T05:00:45.Z",
	"2016-02-20T05:00:45+25:00",
	"2016-02-20T05:00:45Zx",
	"2016-02-20T05:00",
	"-1",
	"1455944445x",
	"1455944445.",
	"9223372036854775808",
	"99999999999999999999999999",
};

static void times_are_read(void **state)
{
	struct wr_lab_day day = {.start_s = 0};
	struct wr_lab_time time;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		if (!wr_lab_time_read(wr_str(good[i].text), &day, &time))
			fail_msg("%s", good[i].text);
		if (time.ns != good[i].ns || time.whole != good[i].whole)
			fail_msg("%s: %llu, %d", good[i].text, (unsigned long long)time.ns,
				 time.whole);
	}
	(void)state;
}

static void other_texts_are_no_times(void **state)
{
	struct wr_lab_day day = {.start_s = 0};
	struct wr_lab_time time;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (wr_lab_time_read(wr_str(bad[i]), &day, &time))
			fail_msg("%s: %llu", bad[i], (unsigned long long)time.ns);
	(void)state;
}

/* The cache of the day must not make another day, another zone, or an invalid time readable. */
static void cached_day_changes_nothing(void **state)
{
	struct wr_lab_time time, again;
	struct wr_lab_day day = {.start_s = 0};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
			assert_true(wr_lab_time_read(wr_str(good[i].text), &day, &time));
			assert_false(wr_lab_time_read(wr_str(bad[j]), &day, &again));
			assert_true(wr_lab_time_read(wr_str(good[i].text), &day, &again));
			assert_int_equal(again.ns, time.ns);
		}
	}
	(void)state;
}

static void numbers_are_read(void **state)
{
	struct wr_lab_time time;

	assert_true(wr_lab_time_integer(1455944445, &time));
	assert_int_equal(time.ns, 1455944445000000000);
	assert_true(time.whole);
	assert_true(wr_lab_time_integer(1455944445250, &time));
	assert_int_equal(time.ns, 1455944445250000000);
	assert_false(time.whole);
	assert_false(wr_lab_time_integer(-1, &time));
	assert_true(wr_lab_time_integer(INT64_MAX - 1000000000, &time));
	assert_false(wr_lab_time_integer(INT64_MAX, &time));
	assert_false(wr_lab_time_integer(9223372036, &time));

	assert_true(wr_lab_time_real(1646861401.5241024, &time));
	assert_int_equal(time.ns, 1646861401524102000);
	assert_false(time.whole);
	assert_true(wr_lab_time_real(1646861401.9999999, &time));
	assert_int_equal(time.ns, 1646861402000000000);
	assert_true(wr_lab_time_real(1646861401524.25, &time));
	assert_int_equal(time.ns, 1646861401524250000);
	assert_true(wr_lab_time_real(0.0, &time));
	assert_int_equal(time.ns, 0);
	assert_false(wr_lab_time_real(-0.5, &time));
	assert_false(wr_lab_time_real(1e300, &time));
	assert_false(wr_lab_time_real(9.3e9, &time));
	assert_false(wr_lab_time_real(__builtin_nan(""), &time));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(other_texts_are_no_times),
		cmocka_unit_test(cached_day_changes_nothing),
		cmocka_unit_test(numbers_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
