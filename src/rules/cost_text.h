/* Describes `count` of an entry of `requests:`, for explanations. */
#ifndef WR_RULES_COST_TEXT_H
#define WR_RULES_COST_TEXT_H

#include "rules/requests.h"

#define WR_STATUS_TEXT 4 /* bytes of "404" or "4xx" */

/* Returns whether the statuses that do not count make the shorter description. */
bool wr_rules_count_is_except(const struct wr_rules_count *count);

/* Writes the next status, or class of statuses, that counts (if `counts` is true) or does not
 * count. *status is where the search begins, 100 at first, and is moved on. Returns false if there
 * is no further status. */
bool wr_rules_count_next(const struct wr_rules_count *count, bool counts, uint32_t *status,
			 char text[WR_STATUS_TEXT]);

#endif
