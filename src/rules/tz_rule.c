/* Reads POSIX TZ strings. The TZ string of a zone file describes the offsets from UTC after the
 * last transition in the file. */
#include "rules/zone.h"

#include "base/str.h"
#include "base/civil.h"

#define DAY_S 86400

static bool take_char(struct weir_str *text, char c)
{
	if (text->len == 0 || text->ptr[0] != c)
		return false;
	*text = wr_str_from(*text, 1);
	return true;
}

static int take_number(struct weir_str *text, int max, int *number)
{
	size_t digits = 0;

	*number = 0;
	while (digits < text->len && text->ptr[digits] >= '0' && text->ptr[digits] <= '9') {
		*number = *number * 10 + (text->ptr[digits++] - '0');
		if (*number > max)
			return -1;
	}
	*text = wr_str_from(*text, digits);
	return digits ? 0 : -1;
}

/* Skips the name of a zone, such as EST or <+0330>. */
static int take_name(struct weir_str *text)
{
	size_t len = 0;

	if (take_char(text, '<')) {
		len = wr_str_find(*text, '>');
		if (len == text->len)
			return -1;
		*text = wr_str_from(*text, len + 1);
		return 0;
	}
	while (len < text->len && wr_lower(text->ptr[len]) >= 'a' &&
	       wr_lower(text->ptr[len]) <= 'z')
		len++;
	*text = wr_str_from(*text, len);
	return len ? 0 : -1;
}

/* Reads [+-]hh[:mm[:ss]], with hours up to 167, as RFC 8536 allows. */
static int take_time(struct weir_str *text, int32_t *time_s)
{
	int sign = take_char(text, '-') ? -1 : 1;
	int hours, minutes = 0, seconds = 0;

	if (sign > 0)
		take_char(text, '+');
	if (take_number(text, 167, &hours) != 0)
		return -1;
	if (take_char(text, ':') && take_number(text, 59, &minutes) != 0)
		return -1;
	if (take_char(text, ':') && take_number(text, 59, &seconds) != 0)
		return -1;
	*time_s = sign * (hours * 3600 + minutes * 60 + seconds);
	return 0;
}

static int take_day(struct weir_str *text, struct wr_tz_date *date)
{
	int month, week, day;

	if (take_char(text, 'M')) {
		if (take_number(text, 12, &month) || !take_char(text, '.') ||
		    take_number(text, 5, &week) || !take_char(text, '.') ||
		    take_number(text, 6, &day) || month == 0 || week == 0)
			return -1;
		*date = (struct wr_tz_date){'M', (int16_t)month, (int16_t)week, (int16_t)day, 0};
		return 0;
	}
	date->kind = take_char(text, 'J') ? 'J' : 'N';
	if (take_number(text, 365, &day) != 0 || (date->kind == 'J' && day == 0))
		return -1;
	date->day = (int16_t)day;
	return 0;
}

static int take_date(struct weir_str *text, struct wr_tz_date *date)
{
	if (!take_char(text, ',') || take_day(text, date) != 0)
		return -1;
	date->time_s = 2 * 3600;
	return take_char(text, '/') ? take_time(text, &date->time_s) : 0;
}

int wr_tz_rule_parse(struct weir_str text, struct wr_tz_rule *rule)
{
	int32_t west_s;

	*rule = (struct wr_tz_rule){0};
	if (take_name(&text) != 0 || take_time(&text, &west_s) != 0)
		return -1;
	rule->standard_s = -west_s;
	rule->summer_s = rule->standard_s + 3600;
	if (text.len == 0)
		return rule->standard_s < -26 * 3600 || rule->standard_s > 26 * 3600 ? -1 : 0;
	rule->has_summer = true;
	if (take_name(&text) != 0)
		return -1;
	if (text.len && text.ptr[0] != ',') {
		if (take_time(&text, &west_s) != 0)
			return -1;
		rule->summer_s = -west_s;
	}
	if (take_date(&text, &rule->start) != 0 || take_date(&text, &rule->end) != 0 || text.len)
		return -1;
	return rule->standard_s < -26 * 3600 || rule->standard_s > 26 * 3600 ||
			       rule->summer_s < -26 * 3600 || rule->summer_s > 26 * 3600
		       ? -1
		       : 0;
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Returns a date of kind 'M' in this year, in days since 1970-01-01. Week 2 and day 0 are the
 * second Sunday of the month; week 5 and day 0 are its last Sunday. */
static int64_t weekday_of_month(int64_t year, const struct wr_tz_date *date)
{
	int64_t first = wr_days_from_date(year, date->month, 1);
	int64_t next = date->month == 12 ? wr_days_from_date(year + 1, 1, 1)
					 : wr_days_from_date(year, date->month + 1, 1);
	int64_t weekday = ((first + 4) % 7 + 7) % 7; /* day 0 was a Thursday: weekday 4 */
	int64_t day = first + (date->day - weekday + 7) % 7 + 7 * (date->week - 1);

	return day >= next ? day - 7 : day;
}

static int64_t change_s(int64_t year, const struct wr_tz_date *date, int32_t offset_s)
{
	int64_t day;

	if (date->kind == 'M')
		day = weekday_of_month(year, date);
	else if (date->kind == 'J')
		day = wr_days_from_date(year, 1, 1) + date->day - 1 +
		      (is_leap(year) && date->day >= 60);
	else
		day = wr_days_from_date(year, 1, 1) + date->day;
	return day * DAY_S + date->time_s - offset_s;
}

int32_t wr_tz_rule_offset(const struct wr_tz_rule *rule, int64_t at_s, int64_t *until_s)
{
	int64_t year = wr_date_from_days(wr_floor_div(at_s, DAY_S)).year;
	int64_t latest_s = INT64_MIN;
	int32_t offset_s = rule->standard_s;

	*until_s = INT64_MAX;
	if (!rule->has_summer)
		return offset_s;
	/* In a zone with summer time all year, each end of summer time is at the same instant as a
	 * start. The end is handled first, so that the start wins. */
	for (int64_t y = year - 1; y <= year + 1; y++) {
		int64_t changes[2] = {change_s(y, &rule->end, rule->summer_s),
				      change_s(y, &rule->start, rule->standard_s)};

		for (int i = 0; i < 2; i++) {
			if (changes[i] > at_s) {
				*until_s = changes[i] < *until_s ? changes[i] : *until_s;
			} else if (changes[i] >= latest_s) {
				latest_s = changes[i];
				offset_s = i ? rule->summer_s : rule->standard_s;
			}
		}
	}
	return offset_s;
}
