/* Patterns with `*`, which stands for any bytes or none. There is no other special character and
 * no escape, as in the reference. */
#ifndef WR_RULES_GLOB_H
#define WR_RULES_GLOB_H

#include "base/str.h"

/* Time grows with the text alone: each literal piece is searched once, leftmost, and there is
 * nothing to come back to. */
bool wr_glob_match(struct weir_str pattern, struct weir_str text);

/* Whether everything `narrow` matches, `wide` does too. May miss a case, never claims one. */
bool wr_glob_covers(struct weir_str wide, struct weir_str narrow);

#endif
