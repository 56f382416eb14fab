/* The tightest limit of a request, and helpers for header fields and bodies. */
#ifndef WR_LIMITER_STATUS_H
#define WR_LIMITER_STATUS_H

#include "limiter/ask.h"

/* The need of the tightest enforced limit of a decided ask, or NULL. */
static inline const struct wr_ask_need *wr_ask_tightest_need(const struct weir_ask *ask)
{
	return ask->tightest;
}

/* Time until the window ends or no use is left. */
uint64_t wr_need_reset_ns(const struct weir_ask *ask, const struct wr_ask_need *need);

/* Whether header fields show the need: it is enforced and not replaced. */
static inline bool wr_need_is_shown(const struct wr_ask_need *need)
{
	return need->class != WR_COUNTED && !need->replaced;
}

/* The `response` of the rule of the tightest limit, or NULL. */
const struct wr_rules_response *wr_ask_response(const struct weir_ask *ask);

static inline bool wr_ask_refused(const struct weir_ask *ask)
{
	return ask->verdict == WEIR_REFUSE || ask->verdict == WEIR_DEFER;
}

/* Whole seconds, rounded up. */
static inline uint64_t wr_seconds_rounded_up(uint64_t ns)
{
	return ns / 1000000000 + (ns % 1000000000 != 0);
}

#endif
