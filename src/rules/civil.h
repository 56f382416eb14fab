/* Converts between days since 1970-01-01 and dates of the Gregorian calendar. */
#ifndef WR_RULES_CIVIL_H
#define WR_RULES_CIVIL_H

#include <stdint.h>
#include <string.h>

#include <weir/rules.h>

struct wr_date {
	int64_t year;
	int month; /* 1–12 */
	int day;   /* 1–31 */
};

/* Returns the number of days from 1970-01-01 to a date. Years begin in March here, so that the leap
 * day is the last day of its year. An era is 400 years or 146097 days, after which the calendar
 * repeats. */
static inline int64_t wr_days_from_date(int64_t year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
	       day_of_year - 719468;
}

static inline struct wr_date wr_date_from_days(int64_t days)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t day_of_era = z - era * 146097;
	int64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t day_of_year =
		day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t month = (5 * day_of_year + 2) / 153;
	struct wr_date date = {.day = (int)(day_of_year - (153 * month + 2) / 5 + 1),
			       .month = (int)(month < 10 ? month + 3 : month - 9)};

	date.year = year_of_era + era * 400 + (date.month <= 2);
	return date;
}

/* Writes a time as "2026-11-18T20:00:00Z" to `text`. Times end in the year 2554, because they are
 * 64-bit numbers of ns. */
#define WR_CIVIL_TIME sizeof "2026-11-18T20:00:00Z"
static inline struct weir_str wr_civil_time(uint64_t ns, char text[WR_CIVIL_TIME])
{
	uint64_t s = ns / 1000000000u;
	struct wr_date date = wr_date_from_days((int64_t)(s / 86400));
	const struct {
		uint8_t at;
		uint64_t number;
	} pairs[] = {
		{0, (uint64_t)date.year / 100},
		{2, (uint64_t)date.year % 100},
		{5, (uint64_t)date.month},
		{8, (uint64_t)date.day},
		{11, s / 3600 % 24},
		{14, s / 60 % 60},
		{17, s % 60},
	};

	memcpy(text, "0000-00-00T00:00:00Z", WR_CIVIL_TIME);
	for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		text[pairs[i].at] = (char)('0' + pairs[i].number / 10);
		text[pairs[i].at + 1] = (char)('0' + pairs[i].number % 10);
	}
	return (struct weir_str){text, WR_CIVIL_TIME - 1};
}

/* Divides and rounds down, even if `a` is negative. `b` must be above 0. */
static inline int64_t wr_floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

#endif
