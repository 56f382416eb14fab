/* Describes the statuses of `count`; see cost_text.h. */
#include "rules/cost_text.h"

#include <stdio.h>

#include "base/assert.h"

#define FIRST_STATUS 100

bool wr_rules_count_is_except(const struct wr_rules_count *count)
{
	uint32_t counting = 0;

	for (uint32_t status = FIRST_STATUS; status < WR_STATUSES; status++)
		counting += wr_rules_counts_status(count, status);
	return counting > (WR_STATUSES - FIRST_STATUS) / 2;
}

static bool is_whole_class(const struct wr_rules_count *count, bool counts, uint32_t first)
{
	for (uint32_t status = first; status < first + 100; status++)
		if (wr_rules_counts_status(count, status) != counts)
			return false;
	return true;
}

bool wr_rules_count_next(const struct wr_rules_count *count, bool counts, uint32_t *status,
			 char text[WR_STATUS_TEXT])
{
	wr_assert(*status >= FIRST_STATUS);
	for (uint32_t at = *status; at < WR_STATUSES; at++) {
		bool whole;

		if (wr_rules_counts_status(count, at) != counts)
			continue;
		whole = at % 100 == 0 && is_whole_class(count, counts, at);
		*status = at + (whole ? 100 : 1);
		snprintf(text, WR_STATUS_TEXT, whole ? "%uxx" : "%u",
			 whole ? at / 100 % 10 : at % 1000);
		return true;
	}
	*status = WR_STATUSES;
	return false;
}
