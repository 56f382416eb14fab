/* A limit as clients hear of it: a name, so many in so many seconds. */
#ifndef WR_LIMITER_POLICY_H
#define WR_LIMITER_POLICY_H

#include "limiter/status.h"

#define WR_POLICY_NAME 64

/* The limit's own name, or the keys that lead to it and its period: "route.ip/1d". Values stay out
 * of it: they are nobody's business. Cut to fit; not the end of a character is what it may be cut
 * at, so it is for ASCII escapers. Returns its length. */
size_t wr_policy_name(const struct wr_ask_need *need, char name[WR_POLICY_NAME]);

/* Quota and the seconds it is for: what can be taken at once, and how long that takes to be there
 * again. A token bucket of 2 per second with a burst of 5 is 5 in 3 seconds. At least 1. */
uint64_t wr_policy_quota(const struct wr_ask_need *need);
uint64_t wr_policy_window_s(const struct wr_ask_need *need);

/* Seconds until there is more than now. */
uint64_t wr_policy_more_s(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
