/* Calendar windows: days, weeks (from Monday), months and years of a time zone.
 *
 * A window starts at the first instant whose local time is not before midnight of its first day.
 * Where summer time skips or repeats midnight that is still one instant, so windows touch and
 * never overlap; days last 23, 24 or 25 hours. */
#ifndef WR_RULES_CALENDAR_H
#define WR_RULES_CALENDAR_H

#include "rules/rules.h"

/* The window [*start_ns, *end_ns) that contains now_ns. A window that started before 1970 starts at
 * 0. `zone` NULL is UTC. */
void wr_calendar_window(const struct wr_zone *zone, enum wr_calendar calendar, uint64_t now_ns,
			uint64_t *start_ns, uint64_t *end_ns);

/* The length to use if there is no instant: a day, a week, 30 days or 365 days. */
uint64_t wr_calendar_period_ns(enum wr_calendar calendar);

#endif
