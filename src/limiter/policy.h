/* Limits in the RateLimit header fields: a name, a quota and a window in seconds. */
#ifndef WR_LIMITER_POLICY_H
#define WR_LIMITER_POLICY_H

#include "limiter/status.h"
#include "limiter/text.h"

#define WR_POLICY_NAME 64

/* Bytes of two quotes, a name with a backslash before each character, ";q=4294967295;w=" and the
 * seconds. */
#define WR_POLICY_TEXT (2 + 2 * WR_POLICY_NAME + 16 + 20)
_Static_assert(WR_POLICY_TEXT <= UINT8_MAX, "fits struct wr_policy_text");

/* Writes the limit's own name, or the keys of its rule and its period: "route.ip/1d". Values are
 * left out, because they may be personal data. The name may be cut within a UTF-8 character, so the
 * caller must escape it to ASCII. Returns its length. */
size_t wr_policy_name(const struct wr_ask_need *need, char name[WR_POLICY_NAME]);

/* Writes the name as a String of RFC 9651, in quotes. */
void wr_policy_put_name(struct wr_text *text, const struct wr_ask_need *need);

/* Writes the policies of all limits of a generation. Returns false if there is no memory. */
bool wr_policies_write(struct wr_generation *generation, uint32_t count);

/* The quota is the number of units that can be taken at once. The window is the number of seconds
 * in which they are refilled, at least 1. A token bucket of 2 per second with a burst of 5 is 5 in
 * 3 seconds. */
uint64_t wr_policy_quota(const struct weir_ask *ask, const struct wr_ask_need *need);
uint64_t wr_policy_window_s(const struct wr_ask_need *need);

/* Seconds until more units are available, rounded up. */
uint64_t wr_policy_more_s(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
