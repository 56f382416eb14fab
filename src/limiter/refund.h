/* Giving back: hits below 0, which not every client of a service may ask for. */
#ifndef WR_LIMITER_REFUND_H
#define WR_LIMITER_REFUND_H

#include <stdbool.h>

struct weir_ask;

/* Whether a descriptor that was added has hits below 0. */
bool wr_ask_gives_back(const struct weir_ask *ask);

#endif
