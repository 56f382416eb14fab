/* Calendar windows: days, weeks (from Monday), months and years of a time zone.
 *
 * A window starts at the first instant whose local time is not before midnight of its first day.
 * There is exactly one such instant, even if a change to or from summer time skips or repeats
 * midnight. So each window starts where the previous one ends; days last 23, 24 or 25 hours. */
#ifndef WR_RULES_CALENDAR_H
#define WR_RULES_CALENDAR_H

#include "rules/rules.h"

/* Finds the window [*start_ns, *end_ns) that contains now_ns. If the window started before 1970,
 * *start_ns is 0. If `zone` is NULL, the zone is UTC. */
void wr_calendar_window(const struct wr_zone *zone, enum wr_calendar calendar, uint64_t now_ns,
			uint64_t *start_ns, uint64_t *end_ns);

/* Returns the nominal length of a calendar window: a day, a week, 30 days or 365 days. The nominal
 * length is used where the time of the request is not known. */
uint64_t wr_calendar_period_ns(enum wr_calendar calendar);

#endif
