/* Numbers, durations and dates of header fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/ratelimit.h>

#include "base/str.h"
#include "client/moment.h"

#define NOW_NS 1800000000000000000ull /* 2027-01-15T08:00:00Z */

static uint64_t seconds(const char *text)
{
	uint64_t ns = 7;

	return wr_moment_seconds(wr_str(text), &ns) ? ns : UINT64_MAX;
}

static uint64_t duration(const char *text)
{
	uint64_t ns = 7;

	return wr_moment_duration(wr_str(text), &ns) ? ns : UINT64_MAX;
}

static uint64_t date(const char *text)
{
	uint64_t ns = 7;

	return wr_moment_date(wr_str(text), NOW_NS, &ns) ? ns : UINT64_MAX;
}

static void seconds_are_rounded_up(void **state)
{
	(void)state;
	assert_int_equal(seconds("0"), 0);
	assert_int_equal(seconds("3"), 3000000000);
	assert_int_equal(seconds("0.25"), 250000000);
	assert_int_equal(seconds("1."), 1000000000);
	assert_int_equal(seconds(".5"), 500000000);
	assert_int_equal(seconds("0.0000000001"), 1);
	assert_int_equal(seconds("0.0000000010"), 1);
	assert_int_equal(seconds("18446744073709551616"), WEIR_RATELIMIT_TIME_MAX_NS);
	assert_int_equal(seconds(""), UINT64_MAX);
	assert_int_equal(seconds("."), UINT64_MAX);
	assert_int_equal(seconds("1.2.3"), UINT64_MAX);
	assert_int_equal(seconds("-1"), UINT64_MAX);
	assert_int_equal(seconds("1e3"), UINT64_MAX);
	assert_int_equal(seconds("1s"), UINT64_MAX);
}

static void durations_of_go_are_read(void **state)
{
	(void)state;
	assert_int_equal(duration("6m0s"), 360000000000);
	assert_int_equal(duration("12ms"), 12000000);
	assert_int_equal(duration("1.2s"), 1200000000);
	assert_int_equal(duration("1h2m3.5s"), 3723500000000);
	assert_int_equal(duration("5\xc2\xb5s"), 5000);
	assert_int_equal(duration("7ns"), 7);
	assert_int_equal(duration("999999999999h"), WEIR_RATELIMIT_TIME_MAX_NS);
	assert_int_equal(duration("1"), UINT64_MAX);
	assert_int_equal(duration("s"), UINT64_MAX);
	assert_int_equal(duration("1m 2s"), UINT64_MAX);
	assert_int_equal(duration(""), UINT64_MAX);
}

static void dates_are_read(void **state)
{
	(void)state;
	assert_int_equal(date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777000000000);
	assert_int_equal(date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777000000000);
	assert_int_equal(date("Sun Nov  6 08:49:37 1994"), 784111777000000000);
	assert_int_equal(date("Thu, 31 Dec 2026 23:59:60 GMT"), date("2027-01-01T00:00:00Z"));
	assert_int_equal(date("Friday, 15-Jan-77 08:00:00 GMT"), date("2077-01-15T08:00:00Z"));
	assert_int_equal(date("Saturday, 15-Jan-78 08:00:00 GMT"), date("1978-01-15T08:00:00Z"));
	assert_int_equal(date("2027-01-15T08:00:00Z"), NOW_NS);
	assert_int_equal(date("2027-01-15 10:00:00+02:00"), NOW_NS);
	assert_int_equal(date("2027-01-15T06:30:00-0130"), NOW_NS);
	assert_int_equal(date("2027-01-15t08:00:00.000000001z"), NOW_NS + 1);
	assert_int_equal(date("1970-01-01T00:00:00Z"), 0);
}

static void later_years_are_the_year_2500(void **state)
{
	const uint64_t last_ns = 16756761599000000000ull; /* 2500-12-31T23:59:59Z */

	(void)state;
	assert_int_equal(date("2500-12-31T23:59:59Z"), last_ns);
	assert_int_equal(date("2501-12-31T23:59:59Z"), last_ns);
	assert_int_equal(date("9999-12-31T23:59:59Z"), last_ns);
	assert_int_equal(date("Fri, 31 Dec 9999 23:59:59 GMT"), last_ns);
	assert_int_equal(date("9999-12-31T23:59:60.999999999-23:59"),
			 last_ns + 86341ull * 1000000000 + 999999999);
}

static void other_texts_are_not_dates(void **state)
{
	static const char *const bad[] = {
		"",
		"2027-01-15",
		"2027-01-15T08:00:00",
		"2027-01-15T24:00:00Z",
		"2027-00-15T08:00:00Z",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+01:00",
		"Sun, 06 Nov 1994 08:49 GMT",
		"Sun, 06 Nov 08:49:37 GMT",
		"Sun, 06 Foo 1994 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 99999 08:49:37 GMT",
		"---,,,   ",
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (date(bad[i]) != UINT64_MAX)
			fail_msg("\"%s\" was read as a date", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seconds_are_rounded_up),
		cmocka_unit_test(durations_of_go_are_read),
		cmocka_unit_test(dates_are_read),
		cmocka_unit_test(later_years_are_the_year_2500),
		cmocka_unit_test(other_texts_are_not_dates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
