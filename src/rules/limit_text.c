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

size_t wr_rules_ban_text(const struct wr_rules_ban *ban, char *text, size_t cap)
{
	char first[WR_DURATION_TEXT], within[WR_DURATION_TEXT], most[WR_DURATION_TEXT];
	char after[WR_DURATION_TEXT + 48] = "the first refusal", growth[WR_DURATION_TEXT + 64] = "";

	wr_assert(text || cap == 0);
	wr_duration_text(ban->for_ns, first);
	wr_duration_text(ban->within_ns, within);
	wr_duration_text(ban->max_ns, most);
	if (ban->after > 1)
		snprintf(after, sizeof after, "%u refusals within %s", ban->after, within);
	if (ban->grow > 1 && ban->max_ns > ban->for_ns)
		snprintf(growth, sizeof growth, ", each further ban %u times as long, up to %s",
			 ban->grow, most);
	return (size_t)snprintf(text, cap, "for %s after %s%s%s", first, after, growth,
				ban->shield ? ", also by weir shield" : "");
}
