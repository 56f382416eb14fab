/* The hits of a descriptor are its cost. Negative hits give units back. The service accepts
 * negative hits from some clients only. */
#ifndef WR_LIMITER_REFUND_H
#define WR_LIMITER_REFUND_H

#include <stdbool.h>

struct weir_ask;

/* Returns whether a descriptor of the ask has negative hits. */
bool wr_ask_gives_back(const struct weir_ask *ask);

#endif
