/* Describes a limit in words. */
#ifndef WR_RULES_LIMIT_TEXT_H
#define WR_RULES_LIMIT_TEXT_H

#include "rules/rules.h"

/* Writes a limit as text: "2 per second", "300 per 3h", "10000 per calendar month in Asia/Seoul",
 * "20 concurrent requests (max_hold 2m)". Returns the length of the text. */
size_t wr_rules_limit_text(const struct wr_rules_limit *limit, char *text, size_t cap);

/* Writes a ban as text: "for 10m after 50 refusals within 1m, each further ban 2 times as long, up to 1d, also by
 * weir shield". Returns the length of the text. */
size_t wr_rules_ban_text(const struct wr_rules_ban *ban, char *text, size_t cap);

#endif
