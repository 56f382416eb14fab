/* Reads the times of logs. Every reader of a format uses these functions. */
#include "lab/log/time.h"

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "lab/log/scan.h"
#include "base/civil.h"

#define DAY_S 86400
#define CLF_BYTES 26u      /* "20/Feb/2016:00:00:45 -0500" */
#define CLF_DATE_BYTES 12u /* "20/Feb/2016:" */

/* A cursor in a text. A function that finds something else than it expects sets `bad`. */
struct time_text {
	const char *at, *end;
	bool bad;
};

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : -1;
}

/* Reads a number of exactly `count` digits. */
static int64_t take_digits(struct time_text *scan, int count)
{
	int64_t value = 0;

	for (int i = 0; i < count; i++) {
		if (scan->at == scan->end || digit(*scan->at) < 0) {
			scan->bad = true;
			return 0;
		}
		value = value * 10 + digit(*scan->at++);
	}
	return value;
}

static bool take_char(struct time_text *scan, char c)
{
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

/* Reads a required character. */
static void need_char(struct time_text *scan, char c)
{
	if (!take_char(scan, c))
		scan->bad = true;
}

/* Reads the digits of a fraction of a second. Digits after the ninth are ignored. */
static uint64_t take_fraction(struct time_text *scan)
{
	uint64_t ns = 0, unit = WR_LAB_SECOND_NS / 10;

	if (scan->at == scan->end || digit(*scan->at) < 0)
		scan->bad = true;
	for (; scan->at < scan->end && digit(*scan->at) >= 0; scan->at++) {
		ns += (uint64_t)digit(*scan->at) * unit;
		unit /= 10;
	}
	return ns;
}

/* Reads "hh:mm:ss". A leap second is read as the first second of the next minute. */
static int64_t take_clock(struct time_text *scan)
{
	int64_t hour = take_digits(scan, 2), minute, second;

	need_char(scan, ':');
	minute = take_digits(scan, 2);
	need_char(scan, ':');
	second = take_digits(scan, 2);
	if (hour > 23 || minute > 59 || second > 60)
		scan->bad = true;
	return hour * 3600 + minute * 60 + second;
}

/* Reads "+0100", "+01:00" or "+01" and returns the offset in seconds. */
static int64_t take_offset(struct time_text *scan)
{
	int64_t sign = 1, hours, minutes = 0;

	if (take_char(scan, '-'))
		sign = -1;
	else
		need_char(scan, '+');
	hours = take_digits(scan, 2);
	if (take_char(scan, ':') || scan->at < scan->end)
		minutes = take_digits(scan, 2);
	if (hours > 23 || minutes > 59)
		scan->bad = true;
	return sign * (hours * 3600 + minutes * 60);
}

/* Sets *time unless the second is out of range. */
static bool set_time(struct wr_lab_time *time, int64_t second, uint64_t fraction_ns, bool whole)
{
	if (second < 0 || (uint64_t)second >= WR_LAB_END_S)
		return false;
	time->ns = (uint64_t)second * WR_LAB_SECOND_NS + fraction_ns;
	time->whole = whole;
	return true;
}

static bool valid_date(int64_t year, int month, int day)
{
	static const int8_t days[12] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (month < 1 || month > 12 || day < 1 || day > days[month - 1])
		return false;
	return month != 2 || day < 29 || (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
}

/* ---- common log format ---- */

/* Returns the month of a name such as "Feb", or 0. */
static int month_of(const char *name)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (int i = 0; i < 12; i++)
		if (memcmp(names + (size_t)3 * (size_t)i, name, 3) == 0)
			return i + 1;
	return 0;
}

/* Reads "20/Feb/2016:" and a zone into the cache. */
static bool read_day(const char *date, struct weir_str zone, struct wr_lab_day *day)
{
	struct time_text scan = {date, date + CLF_DATE_BYTES, false};
	struct time_text offset = {zone.ptr, zone.ptr + zone.len, false};
	int64_t year, start_s;
	int month, day_of_month = (int)take_digits(&scan, 2);

	need_char(&scan, '/');
	month = month_of(date + 3);
	scan.at = date + 6;
	need_char(&scan, '/');
	year = take_digits(&scan, 4);
	need_char(&scan, ':');
	start_s = -take_offset(&offset);
	if (scan.bad || offset.bad || offset.at != offset.end || zone.len != sizeof day->zone ||
	    !valid_date(year, month, day_of_month))
		return false;
	day->start_s = start_s + wr_days_from_date(year, month, day_of_month) * DAY_S;
	memcpy(day->text, date, CLF_DATE_BYTES);
	memcpy(day->zone, zone.ptr, zone.len);
	return true;
}

/* Returns whether the cache has the day of a time with this zone. If not, reads the day into it. */
static bool find_day(const char *date, struct weir_str zone, struct wr_lab_day *day)
{
	if (memcmp(day->text, date, sizeof day->text) == 0 &&
	    memcmp(day->zone, zone.ptr, sizeof day->zone) == 0)
		return true;
	return read_day(date, zone, day);
}

bool wr_lab_time_clf(struct weir_str text, struct wr_lab_day *day, struct wr_lab_time *time)
{
	struct time_text scan = {text.ptr, text.ptr + text.len, false};
	uint64_t fraction_ns = 0;
	bool whole = true;
	struct weir_str zone;
	int64_t second;

	if (text.len < CLF_BYTES)
		return false;
	scan.at += CLF_DATE_BYTES;
	if (text.len == CLF_BYTES) {
		zone = wr_str_from(text, CLF_BYTES - sizeof day->zone);
		return zone.ptr[-1] == ' ' && wr_lab_clock(scan.at, &second) &&
		       find_day(text.ptr, zone, day) &&
		       set_time(time, day->start_s + second, 0, true);
	}
	second = take_clock(&scan);
	if (take_char(&scan, '.')) {
		fraction_ns = take_fraction(&scan);
		whole = false;
	}
	need_char(&scan, ' ');
	zone = (struct weir_str){scan.at, (size_t)(scan.end - scan.at)};
	if (scan.bad || zone.len != sizeof day->zone)
		return false;
	if (!find_day(text.ptr, zone, day))
		return false;
	return set_time(time, day->start_s + second, fraction_ns, whole);
}

/* ---- ISO 8601 ---- */

/* Reads the zone at the end of an ISO time: "Z", " UTC", " +0100" or nothing. */
static int64_t take_zone(struct time_text *scan)
{
	take_char(scan, ' ');
	if (scan->at == scan->end)
		return 0;
	if (take_char(scan, 'Z') || take_char(scan, 'z'))
		return 0;
	if (scan->end - scan->at == 3 && memcmp(scan->at, "UTC", 3) == 0) {
		scan->at += 3;
		return 0;
	}
	return take_offset(scan);
}

bool wr_lab_time_iso(struct weir_str text, struct wr_lab_time *time)
{
	struct time_text scan = {text.ptr, text.ptr + text.len, false};
	uint64_t fraction_ns = 0;
	bool whole = true;
	int64_t year, second, offset;
	int month, day;
	char separator;

	if (text.len < sizeof "2023-11-16T18:17:03" - 1)
		return false;
	separator = text.ptr[4] == '/' ? '/' : '-';
	year = take_digits(&scan, 4);
	need_char(&scan, separator);
	month = (int)take_digits(&scan, 2);
	need_char(&scan, separator);
	day = (int)take_digits(&scan, 2);
	if (!take_char(&scan, 'T') && !take_char(&scan, 't'))
		need_char(&scan, ' ');
	second = take_clock(&scan);
	if (take_char(&scan, '.') || take_char(&scan, ',')) {
		fraction_ns = take_fraction(&scan);
		whole = false;
	}
	offset = take_zone(&scan);
	if (scan.bad || scan.at != scan.end || !valid_date(year, month, day))
		return false;
	second += wr_days_from_date(year, month, day) * DAY_S - offset;
	return set_time(time, second, fraction_ns, whole);
}

/* ---- Unix times ---- */

/* Returns how many units of a Unix time are one second. Each unit is known by its number of digits
 * since 2001. */
static uint64_t units_per_second(uint64_t number)
{
	if (number < 1000000000000ull)
		return 1;
	if (number < 1000000000000000ull)
		return 1000;
	if (number < 1000000000000000000ull)
		return 1000000;
	return WR_LAB_SECOND_NS;
}

/* Sets *time from a number of units and a fraction of a unit in billionths. */
static bool set_unix(struct wr_lab_time *time, uint64_t number, uint64_t billionths, bool whole)
{
	uint64_t per_second = units_per_second(number);

	return set_time(time, (int64_t)(number / per_second),
			number % per_second * (WR_LAB_SECOND_NS / per_second) +
				billionths / per_second,
			whole && per_second == 1);
}

bool wr_lab_time_unix(struct weir_str text, struct wr_lab_time *time)
{
	struct time_text scan = {text.ptr, text.ptr + text.len, false};
	uint64_t number = 0, billionths = 0;
	bool whole = true;

	if (text.len == 0 || digit(*text.ptr) < 0)
		return false;
	for (; scan.at < scan.end && digit(*scan.at) >= 0; scan.at++) {
		if (scan.at - text.ptr >= 19)
			return false;
		number = number * 10 + (uint64_t)digit(*scan.at);
	}
	if (take_char(&scan, '.')) {
		billionths = take_fraction(&scan);
		whole = false;
	}
	if (scan.bad || scan.at != scan.end)
		return false;
	return set_unix(time, number, billionths, whole);
}

bool wr_lab_time_integer(int64_t number, struct wr_lab_time *time)
{
	return number >= 0 && set_unix(time, (uint64_t)number, 0, true);
}

/* Converts the fraction apart from the whole part, because a product of both would lose digits. */
bool wr_lab_time_real(double number, struct wr_lab_time *time)
{
	uint64_t whole, per_second, us;

	if (!(number >= 0 && number < 9.2e18))
		return false;
	whole = (uint64_t)number;
	per_second = units_per_second(whole);
	us = (uint64_t)round((number - (double)whole) * 1e6 / (double)per_second);
	if (us * per_second >= 1000000) {
		us = 0;
		whole++;
	}
	return set_unix(time, whole, us * 1000 * per_second, false);
}

bool wr_lab_time_read(struct weir_str text, struct wr_lab_day *day, struct wr_lab_time *time)
{
	text = wr_str_trim(text);
	if (text.len >= 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']')
		text = (struct weir_str){text.ptr + 1, text.len - 2};
	return wr_lab_time_iso(text, time) || wr_lab_time_clf(text, day, time) ||
	       wr_lab_time_unix(text, time);
}
