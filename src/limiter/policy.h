/* A limit as clients hear of it: a name, so many in so many seconds. */
#ifndef WR_LIMITER_POLICY_H
#define WR_LIMITER_POLICY_H

#include "limiter/status.h"
#include "limiter/text.h"

#define WR_POLICY_NAME 64

/* Two quotes and every character with a backslash, ";q=4294967295;w=" and the seconds. */
#define WR_POLICY_TEXT (2 + 2 * WR_POLICY_NAME + 16 + 20)
_Static_assert(WR_POLICY_TEXT <= UINT8_MAX, "fits struct wr_said");

/* The limit's own name, or the keys that lead to it and its period: "route.ip/1d". Values stay out
 * of it: they are nobody's business. Cut to fit; not the end of a character is what it may be cut
 * at, so it is for ASCII escapers. Returns its length. */
size_t wr_policy_name(const struct wr_ask_need *need, char name[WR_POLICY_NAME]);

/* The name as a String of RFC 9651, in quotes. */
void wr_policy_put_name(struct wr_text *text, const struct wr_ask_need *need);

/* Makes what is said of each limit of a generation. False: no memory. */
bool wr_policies_make(struct wr_generation *generation, uint32_t count);

/* Quota and the seconds it is for: what can be taken at once, and how long that takes to be there
 * again. A token bucket of 2 per second with a burst of 5 is 5 in 3 seconds. At least 1. */
uint64_t wr_policy_quota(const struct weir_ask *ask, const struct wr_ask_need *need);
uint64_t wr_policy_window_s(const struct wr_ask_need *need);

/* Seconds until there is more than now. */
uint64_t wr_policy_more_s(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
