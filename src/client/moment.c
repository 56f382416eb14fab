/* Implements moment.h. */
#include "client/moment.h"

#include <weir/ratelimit.h>

#include "base/civil.h"
#include "base/str.h"

#define SECOND_NS 1000000000ull
#define DAY_S 86400
#define YEAR_MAX 2500 /* keeps times in ns within 64 bits; later years are read as this one */

/* A cursor in a text. */
struct moment_scan {
	const char *at, *end;
};

static bool at_digit(const struct moment_scan *scan)
{
	return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

static bool take(struct moment_scan *scan, char c)
{
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t mul_capped(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Reads digits. Returns how many there were. */
static int take_number(struct moment_scan *scan, uint64_t *value)
{
	int digits = 0;

	for (*value = 0; at_digit(scan); digits++)
		*value = add_capped(mul_capped(*value, 10), (uint64_t)(*scan->at++ - '0'));
	return digits;
}

/* Reads the digits behind a decimal point, in units of `unit_ns`, rounded up. Digits behind the
 * ninth count only as "more than 0". */
static uint64_t take_fraction(struct moment_scan *scan, uint64_t unit_ns)
{
	uint64_t billionths = 0, place = SECOND_NS / 10;
	bool more = false;

	for (; at_digit(scan); scan->at++) {
		billionths += (uint64_t)(*scan->at - '0') * place;
		more |= place == 0 && *scan->at != '0';
		place /= 10;
	}
	return (uint64_t)(((__uint128_t)(billionths + more) * unit_ns + SECOND_NS - 1) / SECOND_NS);
}

/* Reads a decimal number of `unit_ns`. */
static bool take_decimal(struct moment_scan *scan, uint64_t *whole, uint64_t *billionths)
{
	int digits = take_number(scan, whole);

	*billionths = 0;
	if (take(scan, '.')) {
		const char *start = scan->at;

		*billionths = take_fraction(scan, SECOND_NS);
		digits += (int)(scan->at > start);
	}
	return digits > 0;
}

static uint64_t scale(uint64_t whole, uint64_t billionths, uint64_t unit_ns)
{
	uint64_t part = (uint64_t)(((__uint128_t)billionths * unit_ns + SECOND_NS - 1) / SECOND_NS);

	return add_capped(mul_capped(whole, unit_ns), part);
}

static uint64_t cap_time(uint64_t ns)
{
	return ns < WEIR_RATELIMIT_TIME_MAX_NS ? ns : WEIR_RATELIMIT_TIME_MAX_NS;
}

bool wr_moment_count(struct weir_str text, uint64_t *count)
{
	struct moment_scan scan = {text.ptr, text.ptr + text.len};
	uint64_t billionths;

	return text.len && take_decimal(&scan, count, &billionths) && scan.at == scan.end;
}

bool wr_moment_units(struct weir_str text, uint64_t unit_ns, uint64_t *ns)
{
	struct moment_scan scan = {text.ptr, text.ptr + text.len};
	uint64_t whole, billionths;

	if (!text.len || !take_decimal(&scan, &whole, &billionths) || scan.at != scan.end)
		return false;
	*ns = scale(whole, billionths, unit_ns);
	return true;
}

bool wr_moment_seconds(struct weir_str text, uint64_t *ns)
{
	if (!wr_moment_units(text, SECOND_NS, ns))
		return false;
	*ns = cap_time(*ns);
	return true;
}

/* Reads a unit of Go's durations. The micro sign is U+00B5 or U+03BC. Returns 0 for another unit. */
static uint64_t take_unit(struct moment_scan *scan)
{
	static const struct {
		struct weir_str name;
		uint64_t ns;
	} units[] = {
		{{"ns", 2}, 1},
		{{"us", 2}, 1000},
		{{"\xc2\xb5s", 3}, 1000},
		{{"\xce\xbcs", 3}, 1000},
		{{"ms", 2}, 1000000},
		{{"s", 1}, SECOND_NS},
		{{"m", 1}, 60 * SECOND_NS},
		{{"h", 1}, 3600 * SECOND_NS},
		{{"d", 1}, DAY_S * SECOND_NS},
	};
	struct weir_str rest = {scan->at, (size_t)(scan->end - scan->at)};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (wr_str_begins(rest, units[i].name)) {
			scan->at += units[i].name.len;
			return units[i].ns;
		}
	return 0;
}

bool wr_moment_duration(struct weir_str text, uint64_t *ns)
{
	struct moment_scan scan = {text.ptr, text.ptr + text.len};
	uint64_t sum = 0;

	if (!text.len)
		return false;
	while (scan.at < scan.end) {
		uint64_t whole, billionths, unit_ns;

		if (!take_decimal(&scan, &whole, &billionths) || !(unit_ns = take_unit(&scan)))
			return false;
		sum = add_capped(sum, scale(whole, billionths, unit_ns));
	}
	*ns = cap_time(sum);
	return true;
}

/* The parts of a date. -1: not read yet. */
struct parts {
	int64_t year, month, day, second_of_day;
	uint64_t fraction_ns;
	int64_t offset_s; /* of the time zone */
};

static bool join(const struct parts *parts, uint64_t *at_ns)
{
	int64_t year = parts->year < YEAR_MAX ? parts->year : YEAR_MAX, seconds;

	if (year < 1970 || parts->month < 1 || parts->month > 12 || parts->day < 1 ||
	    parts->day > 31 || parts->second_of_day < 0)
		return false;
	seconds = wr_days_from_date(year, (int)parts->month, (int)parts->day) * DAY_S +
		  parts->second_of_day - parts->offset_s;
	if (seconds < 0)
		return false;
	*at_ns = (uint64_t)seconds * SECOND_NS + parts->fraction_ns;
	return true;
}

/* Reads exactly `digits` digits. Returns -1 if there are others. */
static int64_t take_exactly(struct moment_scan *scan, int digits)
{
	int64_t value = 0;

	for (int i = 0; i < digits; i++) {
		if (!at_digit(scan))
			return -1;
		value = value * 10 + (*scan->at++ - '0');
	}
	return at_digit(scan) ? -1 : value;
}

/* Reads "hh:mm:ss". Second 60 is a leap second. Returns the second of the day, or -1. */
static int64_t take_clock(struct moment_scan *scan)
{
	int64_t hour = take_exactly(scan, 2), minute, second;

	if (!take(scan, ':'))
		return -1;
	minute = take_exactly(scan, 2);
	if (!take(scan, ':'))
		return -1;
	second = take_exactly(scan, 2);
	if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
		return -1;
	return (hour * 60 + minute) * 60 + second;
}

/* Reads "Z", "+02:00" or "-0200". */
static bool take_zone(struct moment_scan *scan, int64_t *offset_s)
{
	int64_t sign = 1, hours, minutes;

	if (take(scan, 'Z') || take(scan, 'z'))
		return true;
	if (!take(scan, '+')) {
		if (!take(scan, '-'))
			return false;
		sign = -1;
	}
	if (scan->end - scan->at == 4) {
		hours = take_exactly(scan, 4);
		minutes = hours % 100;
		hours = hours < 0 ? -1 : hours / 100;
	} else {
		hours = take_exactly(scan, 2);
		if (!take(scan, ':'))
			return false;
		minutes = take_exactly(scan, 2);
	}
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return false;
	*offset_s = sign * (hours * 60 + minutes) * 60;
	return true;
}

static bool read_rfc3339(struct weir_str text, uint64_t *at_ns)
{
	struct moment_scan scan = {text.ptr, text.ptr + text.len};
	struct parts parts = {.year = take_exactly(&scan, 4)};

	if (!take(&scan, '-'))
		return false;
	parts.month = take_exactly(&scan, 2);
	if (!take(&scan, '-'))
		return false;
	parts.day = take_exactly(&scan, 2);
	if (!take(&scan, 'T') && !take(&scan, 't') && !take(&scan, ' '))
		return false;
	parts.second_of_day = take_clock(&scan);
	if (take(&scan, '.'))
		parts.fraction_ns = take_fraction(&scan, SECOND_NS);
	return take_zone(&scan, &parts.offset_s) && scan.at == scan.end && join(&parts, at_ns);
}

/* Returns the month whose name begins with these three letters, or 0. */
static int64_t find_month(struct weir_str word)
{
	static const char names[] = "janfebmaraprmayjunjulaugsepoctnovdec";

	if (word.len < 3)
		return 0;
	for (int64_t i = 0; i < 12; i++)
		if (wr_str_equal_nocase(wr_str_first(word, 3), (struct weir_str){names + 3 * i, 3}))
			return i + 1;
	return 0;
}

/* Returns a year for two digits: the last one that is at most 50 years in the future. */
static int64_t complete_year(int64_t year, uint64_t now_ns)
{
	int64_t now = wr_date_from_days((int64_t)(now_ns / SECOND_NS / DAY_S)).year;
	int64_t full = now - now % 100 + year;

	return full > now + 50 ? full - 100 : full;
}

/* Reads one word of an HTTP date: a month, a day, a year, a clock, or a word to ignore. */
static bool read_word(struct weir_str word, struct parts *parts, uint64_t now_ns)
{
	struct moment_scan scan = {word.ptr, word.ptr + word.len};
	uint64_t number;
	int digits;

	if (!at_digit(&scan)) {
		if (find_month(word))
			parts->month = find_month(word);
		return true;
	}
	if (wr_str_has(word, ':')) {
		parts->second_of_day = take_clock(&scan);
		return scan.at == scan.end;
	}
	digits = take_number(&scan, &number);
	if (scan.at != scan.end || digits > 4)
		return false;
	if (parts->day < 0)
		parts->day = (int64_t)number;
	else
		parts->year =
			digits == 2 ? complete_year((int64_t)number, now_ns) : (int64_t)number;
	return true;
}

static bool is_between_words(char c)
{
	return c == ' ' || c == ',' || c == '-';
}

/* Sun, 06 Nov 1994 08:49:37 GMT    Sunday, 06-Nov-94 08:49:37 GMT    Sun Nov  6 08:49:37 1994 */
static bool read_http_date(struct weir_str text, uint64_t now_ns, uint64_t *at_ns)
{
	struct parts parts = {.year = -1, .month = -1, .day = -1, .second_of_day = -1};

	for (size_t start = 0, end; start < text.len; start = end + 1) {
		for (end = start; end < text.len && !is_between_words(text.ptr[end]);)
			end++;
		if (end > start &&
		    !read_word((struct weir_str){text.ptr + start, end - start}, &parts, now_ns))
			return false;
	}
	return join(&parts, at_ns);
}

bool wr_moment_date(struct weir_str text, uint64_t now_ns, uint64_t *at_ns)
{
	return text.len && (read_rfc3339(text, at_ns) || read_http_date(text, now_ns, at_ns));
}
