/* Requests that are put off for later: which key's order they keep, and when they come behind
 * others. weir/engine.h has what hosts call. */
#ifndef WR_LIMITER_DEFER_H
#define WR_LIMITER_DEFER_H

#include "limiter/ask.h"

/* What weir_ask_add calls for a limit that defers: the request's order is kept by this one's key
 * unless a more specific one has been named. */
void wr_defer_name(struct weir_ask *ask, const struct wr_ask_need *need,
		   const struct weir_entry *entries, size_t count);

/* What weir_ask_add calls behind a descriptor, if it is recorded. */
void wr_record_add(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
		   const struct weir_limit *override, int64_t hits);

/* Whether others of its key have been put off before. Then the key's limit has refused. */
bool wr_defer_is_behind(struct weir_ask *ask);

/* Whether a refusal is not to be counted yet, or not once more. */
static inline bool wr_defer_counts_later(const struct weir_ask *ask)
{
	return ask->drains || (ask->record && ask->verdict == WEIR_DEFER);
}

/* A limit's flags as the store is told them: what was counted as rejected once is not counted again
 * each time it might be delivered. */
static inline uint16_t wr_defer_flags(const struct weir_ask *ask, const struct weir_limit *limit)
{
	return (uint16_t)(limit->flags & ~(ask->drains ? (uint32_t)WEIR_COUNT_REJECTED : 0u));
}

#endif
