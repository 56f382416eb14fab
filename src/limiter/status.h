/* The tightest limit of a request, and helpers for header fields and bodies. */
#ifndef WR_LIMITER_STATUS_H
#define WR_LIMITER_STATUS_H

#include "limiter/ask.h"

/* Returns the need of the tightest enforced limit of a decided ask, or NULL. */
static inline const struct wr_ask_need *wr_ask_tightest_need(const struct weir_ask *ask)
{
	return ask->tightest;
}

/* Returns the time until a fixed window ends or, for other algorithms, until the counter is as if
 * the key had never been used. */
uint64_t wr_ask_need_reset_ns(const struct weir_ask *ask, const struct wr_ask_need *need);

/* Returns whether header fields and bodies show the need. They show needs that can refuse and are
 * not replaced. */
static inline bool wr_ask_need_is_shown(const struct wr_ask_need *need)
{
	return need->class != WR_COUNTED && !need->replaced;
}

/* Returns the `response` of the tightest limit. If the limits did not fit into the ask, returns the
 * `response` of the first limit that did not fit. Returns NULL if there is no `response`. */
const struct wr_rules_response *wr_ask_response(const struct weir_ask *ask);

static inline bool wr_ask_refused(const struct weir_ask *ask)
{
	return ask->verdict == WEIR_REFUSE || ask->verdict == WEIR_DEFER;
}

/* Converts ns to whole seconds, rounded up. */
static inline uint64_t wr_limiter_seconds_rounded_up(uint64_t ns)
{
	return ns / 1000000000 + (ns % 1000000000 != 0);
}

/* Converts a wait to whole seconds, rounded up and at least 1. */
static inline uint64_t wr_limiter_wait_seconds(uint64_t ns)
{
	return ns ? wr_limiter_seconds_rounded_up(ns) : 1;
}

#endif
