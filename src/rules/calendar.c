/* Finds the calendar window that contains a time, for limits with `calendar`. */
#include "rules/calendar.h"

#include "base/assert.h"
#include "base/civil.h"
#include "rules/zone.h"

#define DAY_S 86400
#define NS_PER_S 1000000000

static int32_t offset_at(const struct wr_zone *zone, int64_t at_s, int64_t *until_s)
{
	*until_s = INT64_MAX;
	return zone ? wr_zone_offset(zone, at_s, until_s) : 0;
}

/* Returns the first instant whose local time is not before the midnight at which `day` starts.
 * Begins the search 27 hours before midnight UTC. At that time it is before midnight in every
 * zone, because offsets from UTC are at most 26 hours. Each step of the search covers a time in
 * which the offset is constant. */
static int64_t day_start_s(const struct wr_zone *zone, int64_t day)
{
	int64_t local_s = day * DAY_S;
	int64_t from_s = local_s - 27 * 3600;

	for (;;) {
		int64_t until_s;
		int64_t at_s = local_s - offset_at(zone, from_s, &until_s);

		if (at_s < from_s)
			at_s = from_s;
		if (at_s < until_s)
			return at_s;
		from_s = until_s;
	}
}

/* Returns the first day of the period (day, week, month or year) that contains `day`. */
static int64_t period_day(enum wr_calendar calendar, int64_t day)
{
	struct wr_date date = wr_date_from_days(day);

	switch (calendar) {
	case WR_CALENDAR_WEEK:
		return wr_floor_div(day + 3, 7) * 7 - 3; /* day -3 (1969-12-29) was a Monday */
	case WR_CALENDAR_MONTH:
		return wr_days_from_date(date.year, date.month, 1);
	case WR_CALENDAR_YEAR:
		return wr_days_from_date(date.year, 1, 1);
	case WR_CALENDAR_DAY:
	default:
		return day;
	}
}

/* Returns the first day of the period after the period that starts on `day`. */
static int64_t next_period_day(enum wr_calendar calendar, int64_t day)
{
	static const int reach[] = {[WR_CALENDAR_DAY] = 1,
				    [WR_CALENDAR_WEEK] = 7,
				    [WR_CALENDAR_MONTH] = 31,
				    [WR_CALENDAR_YEAR] = 366};

	return period_day(calendar, day + reach[calendar]);
}

static uint64_t to_ns(int64_t s)
{
	return s < 0 ? 0 : (uint64_t)s * NS_PER_S;
}

void wr_calendar_window(const struct wr_zone *zone, enum wr_calendar calendar, uint64_t now_ns,
			uint64_t *start_ns, uint64_t *end_ns)
{
	int64_t now_s = (int64_t)(now_ns / NS_PER_S);
	int64_t until_s;
	int64_t local_s = now_s + offset_at(zone, now_s, &until_s);
	int64_t day = period_day(calendar, wr_floor_div(local_s, DAY_S));
	int64_t next = next_period_day(calendar, day);
	int64_t start_s = day_start_s(zone, day);
	int64_t end_s = day_start_s(zone, next);

	wr_assert(calendar >= WR_CALENDAR_DAY && calendar <= WR_CALENDAR_YEAR);
	/* If clocks are set back at midnight, midnight comes twice. Between the two midnights, the
	 * local date of now_ns is that of the old window, although the new window has already
	 * started. The loop then goes on to the new window. */
	while (end_s <= now_s) {
		day = next;
		next = next_period_day(calendar, day);
		start_s = end_s;
		end_s = day_start_s(zone, next);
	}
	*start_ns = to_ns(start_s);
	*end_ns = to_ns(end_s);
}

uint64_t wr_calendar_period_ns(enum wr_calendar calendar)
{
	static const uint64_t days[] = {[WR_CALENDAR_DAY] = 1,
					[WR_CALENDAR_WEEK] = 7,
					[WR_CALENDAR_MONTH] = 30,
					[WR_CALENDAR_YEAR] = 365};

	wr_assert(calendar >= WR_CALENDAR_DAY && calendar <= WR_CALENDAR_YEAR);
	return days[calendar] * DAY_S * NS_PER_S;
}
