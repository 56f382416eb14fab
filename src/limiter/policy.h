/* Writes limits for the RateLimit header fields: a name, the number of units that can be taken at
 * once (q) and a window in seconds (w). */
#ifndef WR_LIMITER_POLICY_H
#define WR_LIMITER_POLICY_H

#include "limiter/status.h"
#include "limiter/text.h"

#define WR_POLICY_NAME 64

/* Length of the longest policy: two quotes, a name with a backslash before each character,
 * ";q=4294967295;w=" and the seconds. */
#define WR_POLICY_TEXT (2 + 2 * WR_POLICY_NAME + 16 + 20)
_Static_assert(WR_POLICY_TEXT <= UINT8_MAX, "fits struct wr_policy_text");

/* Writes the `name` of the limit in the rule file. If the limit has no `name`, writes the
 * descriptor keys of its rule and its period: "route.ip/1d". Values are left out, because they may
 * be personal data. If the limit came with the request, writes "override" and the period. The name
 * may be cut within a UTF-8 character, so the caller must escape it to ASCII. Returns the length of
 * the name. */
size_t wr_policy_name(const struct wr_ask_need *need, char name[WR_POLICY_NAME]);

/* Writes the name as a String of RFC 9651, in quotes. */
void wr_policy_put_name(struct wr_limiter_text *text, const struct wr_ask_need *need);

/* Writes the policies of all limits of a generation. Returns false if there is no memory. */
bool wr_policies_write(struct wr_generation *generation, uint32_t count);

/* Returns w, the window of a limit in the header fields: the number of seconds in which an
 * exhausted limit is refilled, rounded up and at least 1. Example: a token bucket of 2 per second
 * with a burst of 5 is refilled in 2.5 seconds, so its window is 3 seconds. */
uint64_t wr_policy_window_s(const struct wr_ask_need *need);

/* Returns the seconds until more units are available, rounded up. */
uint64_t wr_policy_more_s(const struct weir_ask *ask, const struct wr_ask_need *need);

#endif
