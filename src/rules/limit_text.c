/* Describes a limit in words, for listings and explanations. */
#include "rules/limit_text.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/duration.h"
#include "rules/zone.h"

size_t wr_rules_limit_text(const struct wr_rules_limit *limit, char *text, size_t cap)
{
	static const char *const calendars[] = {"", "day", "week", "month", "year"};
	static const char *const units[] = {"",    "second", "minute", "hour",
					    "day", "month",  "year",   "week"};
	char period[WR_DURATION_TEXT];

	wr_assert(text || cap == 0);
	if (limit->unlimited)
		return (size_t)snprintf(text, cap, "unlimited");
	if (limit->calendar)
		return (size_t)snprintf(text, cap, "%u per calendar %s in %s", limit->limit.limit,
					calendars[limit->calendar],
					limit->zone ? limit->zone->name.ptr : "UTC");
	wr_duration_text(limit->limit.period_ns, period);
	if (limit->limit.algorithm == WEIR_CONCURRENT)
		return (size_t)snprintf(text, cap, "%u concurrent request%s (max_hold %s)",
					limit->limit.limit, limit->limit.limit == 1 ? "" : "s",
					period);
	return (size_t)snprintf(text, cap, "%u per %s", limit->limit.limit,
				limit->unit ? units[limit->unit] : period);
}
