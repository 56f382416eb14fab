/* Patterns with `*`, which matches any number of bytes. As in envoyproxy/ratelimit, there is no
 * other special character and no escape. */
#ifndef WR_RULES_GLOB_H
#define WR_RULES_GLOB_H

#include "base/str.h"

/* Returns whether the text matches the pattern. The time is linear in the length of the text: each
 * piece between stars is searched once, from the left, and matching never backtracks. */
bool wr_glob_match(struct weir_str pattern, struct weir_str text);

/* Returns whether the pattern `wide` matches every text that the pattern `narrow` matches. A result
 * of true is always right, a result of false may be wrong. */
bool wr_glob_covers(struct weir_str wide, struct weir_str narrow);

#endif
