/* Patterns with `*`, which matches any bytes or none. There is no other special character and no
 * escape, as in envoyproxy/ratelimit. */
#ifndef WR_RULES_GLOB_H
#define WR_RULES_GLOB_H

#include "base/str.h"

/* The time is linear in the text: each literal piece is searched once, leftmost, and matching never
 * backtracks. */
bool wr_glob_match(struct weir_str pattern, struct weir_str text);

/* Whether `wide` matches every text that `narrow` matches. May return false wrongly, but never
 * true. */
bool wr_glob_covers(struct weir_str wide, struct weir_str narrow);

#endif
