/* Tells whether a request gives units back, because the service allows that to some clients only. A
 * request gives units back if a descriptor has negative hits, that is, a negative cost. */
#ifndef WR_LIMITER_REFUND_H
#define WR_LIMITER_REFUND_H

#include <stdbool.h>

struct weir_ask;

/* Returns whether a descriptor of the ask has negative hits. */
bool wr_ask_gives_back(const struct weir_ask *ask);

/* Returns whether a descriptor has negative hits, and weir_ask_taken_at was not called. The ask can
 * then not be decided. */
bool wr_ask_lacks_time(const struct weir_ask *ask);

#endif
