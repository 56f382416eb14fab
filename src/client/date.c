/* Reads the dates of HTTP. */
#include "client/date.h"

#include <stdbool.h>
#include <string.h>

#include "base/civil.h"
#include "base/str.h"

struct date {
	unsigned year, month, day, hour, minute, second; /* month and day begin with 1 */
};

/* Reads the text from left to right. Each function returns whether the text has the expected piece,
 * and removes it. */

static bool take_text(struct weir_str *rest, const char *text)
{
	if (!wr_str_begins(*rest, wr_str(text)))
		return false;
	*rest = wr_str_from(*rest, strlen(text));
	return true;
}

static bool take_number(struct weir_str *rest, size_t digits, unsigned *number)
{
	*number = 0;
	if (rest->len < digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (rest->ptr[i] < '0' || rest->ptr[i] > '9')
			return false;
		*number = *number * 10 + (unsigned)(rest->ptr[i] - '0');
	}
	*rest = wr_str_from(*rest, digits);
	return true;
}

static bool take_month(struct weir_str *rest, unsigned *month)
{
	static const char names[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
					"Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

	for (unsigned i = 0; i < 12; i++)
		if (take_text(rest, names[i])) {
			*month = i + 1;
			return true;
		}
	return false;
}

static bool take_weekday(struct weir_str *rest, const char *end)
{
	static const char *const names[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
	static const char *const tails[] = {"day", "sday",  "nesday", "rsday",
					    "day", "urday", "day"};

	for (unsigned i = 0; i < 7; i++)
		if (take_text(rest, names[i])) {
			take_text(rest, tails[i]);
			return take_text(rest, end);
		}
	return false;
}

static bool take_time(struct weir_str *rest, struct date *date)
{
	return take_number(rest, 2, &date->hour) && take_text(rest, ":") &&
	       take_number(rest, 2, &date->minute) && take_text(rest, ":") &&
	       take_number(rest, 2, &date->second);
}

/* "06 Nov 1994 08:49:37 GMT", or "06-Nov-94 08:49:37 GMT" */
static bool read_with_comma(struct weir_str rest, struct date *date)
{
	bool is_short;

	if (!take_number(&rest, 2, &date->day))
		return false;
	is_short = take_text(&rest, "-");
	if (!is_short && !take_text(&rest, " "))
		return false;
	if (!take_month(&rest, &date->month) || !take_text(&rest, is_short ? "-" : " ") ||
	    !take_number(&rest, is_short ? 2 : 4, &date->year))
		return false;
	if (is_short)
		date->year += date->year < 70 ? 2000 : 1900;
	return take_text(&rest, " ") && take_time(&rest, date) && take_text(&rest, " GMT") &&
	       rest.len == 0;
}

/* "Nov  6 08:49:37 1994" */
static bool read_asctime(struct weir_str rest, struct date *date)
{
	return take_month(&rest, &date->month) && take_text(&rest, " ") &&
	       take_number(&rest, take_text(&rest, " ") ? 1 : 2, &date->day) &&
	       take_text(&rest, " ") && take_time(&rest, date) && take_text(&rest, " ") &&
	       take_number(&rest, 4, &date->year) && rest.len == 0;
}

static bool is_leap(unsigned year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool is_valid(const struct date *date)
{
	static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	unsigned last = days[date->month - 1];

	if (date->month == 2 && is_leap(date->year))
		last++;
	return date->year >= 1970 && date->day >= 1 && date->day <= last && date->hour <= 23 &&
	       date->minute <= 59 && date->second <= 60; /* 60: a leap second */
}

int wr_fetch_date_parse(struct weir_str text, uint64_t *seconds)
{
	struct weir_str rest = wr_str_trim(text);
	struct date date;
	bool found = wr_str_has(rest, ',')
			     ? take_weekday(&rest, ", ") && read_with_comma(rest, &date)
			     : take_weekday(&rest, " ") && read_asctime(rest, &date);

	if (!found || !is_valid(&date))
		return -1;
	*seconds = (uint64_t)wr_days_from_date(date.year, (int)date.month, (int)date.day) * 86400 +
		   date.hour * 3600 + date.minute * 60 + date.second;
	return 0;
}
