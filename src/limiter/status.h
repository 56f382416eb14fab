/* Which limit speaks for a descriptor or for a request, and what it says. */
#ifndef WR_LIMITER_STATUS_H
#define WR_LIMITER_STATUS_H

#include "limiter/ask.h"

/* What weir_ask_tightest tells of. NULL: no limit is enforced. */
const struct wr_ask_need *wr_ask_tightest_need(const struct weir_ask *ask);

/* Until the window ends, or until all is free again. */
uint64_t wr_ask_reset_ns(const struct weir_ask *ask, const struct wr_ask_need *need);

/* Whether a need shows in header fields: it applies, and is enforced. */
static inline bool wr_ask_shows(const struct wr_ask_need *need)
{
	return need->class != WR_COUNTED && !need->replaced;
}

/* A refusal's own words, from the rule of the tightest limit, or NULL. */
const struct wr_rules_response *wr_ask_response(const struct weir_ask *ask);

static inline bool wr_ask_refused(const struct weir_ask *ask)
{
	return ask->verdict == WEIR_REFUSE || ask->verdict == WEIR_DEFER;
}

/* Whole seconds, rounded up. */
static inline uint64_t wr_seconds_over(uint64_t ns)
{
	return ns / 1000000000 + (ns % 1000000000 != 0);
}

#endif
