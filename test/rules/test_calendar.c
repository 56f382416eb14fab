/* Calendar windows, with the zone files of this machine, at times when zones change their
 * offsets. */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "rules/calendar.h"
#include "rules/zone.h"

#define NS 1000000000ull

static struct wr_zone *load_zone(struct wr_arena *arena, const char *name)
{
	struct wr_zone *zone;

	assert_int_equal(wr_zone_load(arena, WR_ZONE_DIRECTORY, wr_str(name), &zone), WR_ZONE_OK);
	return zone;
}

/* Converts a UTC time such as "2026-03-29T00:00:00" to ns. */
static uint64_t utc(const char *text)
{
	struct tm tm = {0};

	assert_non_null(strptime(text, "%Y-%m-%dT%H:%M:%S", &tm));
	return (uint64_t)timegm(&tm);
}

static const struct {
	const char *why;
	const char *zone;
	enum wr_calendar calendar;
	const char *now, *start, *end; /* UTC */
} cases[] = {
	{"a day", "UTC", WR_CALENDAR_DAY, "2026-11-16T13:00:00", "2026-11-16T00:00:00",
	 "2026-11-17T00:00:00"},
	{"a week begins on Monday", "UTC", WR_CALENDAR_WEEK, "2026-11-15T23:59:59",
	 "2026-11-09T00:00:00", "2026-11-16T00:00:00"},
	{"a leap February", "UTC", WR_CALENDAR_MONTH, "2028-02-29T12:00:00", "2028-02-01T00:00:00",
	 "2028-03-01T00:00:00"},
	{"a year", "UTC", WR_CALENDAR_YEAR, "2026-12-31T23:59:59", "2026-01-01T00:00:00",
	 "2027-01-01T00:00:00"},
	{"a month in Seoul", "Asia/Seoul", WR_CALENDAR_MONTH, "2026-10-31T15:00:00",
	 "2026-10-31T15:00:00", "2026-11-30T15:00:00"},
	{"a second earlier", "Asia/Seoul", WR_CALENDAR_MONTH, "2026-10-31T14:59:59",
	 "2026-09-30T15:00:00", "2026-10-31T15:00:00"},
	{"a day of 23 hours", "Europe/Berlin", WR_CALENDAR_DAY, "2026-03-29T12:00:00",
	 "2026-03-28T23:00:00", "2026-03-29T22:00:00"},
	{"a day of 25 hours", "Europe/Berlin", WR_CALENDAR_DAY, "2026-10-25T12:00:00",
	 "2026-10-24T22:00:00", "2026-10-25T23:00:00"},
	{"far in the future: by the rule of the zone", "Europe/Berlin", WR_CALENDAR_DAY,
	 "2199-07-01T12:00:00", "2199-06-30T22:00:00", "2199-07-01T22:00:00"},
	{"southern summer", "America/Santiago", WR_CALENDAR_MONTH, "2150-01-15T00:00:00",
	 "2150-01-01T03:00:00", "2150-02-01T03:00:00"},
	{"midnight is skipped (Beirut)", "Asia/Beirut", WR_CALENDAR_DAY, "2022-03-27T12:00:00",
	 "2022-03-26T22:00:00", "2022-03-27T21:00:00"},
	{"midnight comes twice (Havana)", "America/Havana", WR_CALENDAR_DAY, "2023-11-05T04:30:00",
	 "2023-11-05T04:00:00", "2023-11-06T05:00:00"},
	{"and its second coming", "America/Havana", WR_CALENDAR_DAY, "2023-11-05T05:30:00",
	 "2023-11-05T04:00:00", "2023-11-06T05:00:00"},
	{"a day that never was (Apia)", "Pacific/Apia", WR_CALENDAR_DAY, "2011-12-30T12:00:00",
	 "2011-12-30T10:00:00", "2011-12-31T10:00:00"},
	{"the day before it", "Pacific/Apia", WR_CALENDAR_DAY, "2011-12-30T09:00:00",
	 "2011-12-29T10:00:00", "2011-12-30T10:00:00"},
	{"an offset of 45 minutes", "Asia/Kathmandu", WR_CALENDAR_DAY, "2026-01-01T00:00:00",
	 "2025-12-31T18:15:00", "2026-01-01T18:15:00"},
	{"14 hours ahead", "Pacific/Kiritimati", WR_CALENDAR_YEAR, "2026-12-31T10:00:00",
	 "2026-12-31T10:00:00", "2027-12-31T10:00:00"},
	{"before 1970", "Asia/Seoul", WR_CALENDAR_YEAR, "1970-01-01T00:00:00",
	 "1970-01-01T00:00:00", "1970-12-31T15:00:00"},
};

static void windows_of_odd_days(void **state)
{
	struct wr_arena arena;
	int wrong = 0;

	wr_arena_init(&arena, 64 << 20);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_zone *zone = load_zone(&arena, cases[i].zone);
		uint64_t start, end;

		wr_calendar_window(zone, cases[i].calendar, utc(cases[i].now) * NS, &start, &end);
		if (start == utc(cases[i].start) * NS && end == utc(cases[i].end) * NS)
			continue;
		print_message("%s: from %lld to %lld\n", cases[i].why,
			      (long long)(start / NS - utc(cases[i].start)),
			      (long long)(end / NS - utc(cases[i].end)));
		wrong++;
	}
	assert_int_equal(wrong, 0);
	wr_arena_free(&arena);
	(void)state;
}

/* The offsets are those of the C library, and each window starts where the previous one ends. */
static void agrees_with_the_c_library(void **state)
{
	static const char *const names[] = {
		"Europe/Berlin",       "America/New_York", "Africa/Casablanca", "Asia/Kolkata",
		"Australia/Lord_Howe", "America/St_Johns", "Europe/Dublin",     "Africa/Cairo",
		"America/Sao_Paulo",   "Antarctica/Troll", "Asia/Tehran"};
	struct wr_arena arena;

	wr_arena_init(&arena, 64 << 20);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct wr_zone *zone = load_zone(&arena, names[i]);

		setenv("TZ", names[i], 1);
		tzset();
		for (int64_t s = 0; s < 6000000000; s += 86400 * 3 + 12347) {
			time_t t = (time_t)s;
			struct tm tm;
			int64_t until;
			uint64_t start, end, next_start, next_end;

			localtime_r(&t, &tm);
			assert_int_equal(wr_zone_offset(zone, s, &until), tm.tm_gmtoff);
			assert_true(until > s);
			for (int c = WR_CALENDAR_DAY; c <= WR_CALENDAR_YEAR; c++) {
				wr_calendar_window(zone, c, (uint64_t)s * NS, &start, &end);
				assert_true(start <= (uint64_t)s * NS && (uint64_t)s * NS < end);
				wr_calendar_window(zone, c, end, &next_start, &next_end);
				assert_int_equal(next_start, end);
			}
		}
	}
	wr_arena_free(&arena);
	(void)state;
}

static void posix_rules(void **state)
{
	static const char *const good[] = {"UTC0",
					   "EST5EDT,M3.2.0,M11.1.0",
					   "<+0330>-3:30",
					   "IST-1GMT0,M10.5.0,M3.5.0/1",
					   "XXX3YYY,J60,J300/-1:30",
					   "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
					   "A-14B,0,365/167"};
	static const char *const bad[] = {"",
					  "EST",
					  "5",
					  "EST5EDT",
					  "EST5EDT,M13.1.0,M1.1.0",
					  "EST5EDT,M3.2.0",
					  "<EST5",
					  "EST5EDT,J0,J1",
					  "EST200",
					  "EST5EDT,M3.6.0,M1.1.0",
					  "UTC0 "};
	struct wr_tz_rule rule;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(wr_tz_rule_parse(wr_str(good[i]), &rule), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(wr_tz_rule_parse(wr_str(bad[i]), &rule), -1);
	(void)state;
}

/* Truncated and damaged zone files are refused, and never read beyond their end. */
static void damaged_files_are_refused(void **state)
{
	FILE *file = fopen(WR_ZONE_DIRECTORY "/Europe/Berlin", "rb");
	static uint8_t bytes[65536];
	struct wr_arena arena;
	size_t len;

	assert_non_null(file);
	len = fread(bytes, 1, sizeof bytes, file);
	fclose(file);
	wr_arena_init(&arena, (size_t)1 << 30);
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *copy = malloc(cut + 1);
		struct wr_zone zone = {0};

		memcpy(copy, bytes, cut);
		assert_int_equal(wr_zone_parse(&arena, copy, cut, &zone), WR_ZONE_DAMAGED);
		free(copy);
	}
	for (size_t i = 0; i < len; i++) {
		struct wr_zone zone = {0};
		uint64_t start, end;

		bytes[i] ^= 0xff;
		if (wr_zone_parse(&arena, bytes, len, &zone) == WR_ZONE_OK) {
			wr_calendar_window(&zone, WR_CALENDAR_DAY, 1800000000 * NS, &start, &end);
			assert_true(start <= 1800000000 * NS && end > 1800000000 * NS);
		}
		bytes[i] ^= 0xff;
		wr_arena_free(&arena);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_of_odd_days),
		cmocka_unit_test(agrees_with_the_c_library),
		cmocka_unit_test(posix_rules),
		cmocka_unit_test(damaged_files_are_refused),
	};

	return cmocka_run_group_tests_name("rules_calendar", tests, NULL, NULL);
}
