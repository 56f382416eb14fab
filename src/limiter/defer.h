/* Deferred requests: the key whose order they keep, and the wait behind queued requests. The calls
 * of hosts are in weir/host.h. */
#ifndef WR_LIMITER_DEFER_H
#define WR_LIMITER_DEFER_H

#include "limiter/ask.h"

/* Called by weir_ask_add for each limit that defers. Sets the key of the request's queue, unless
 * the ask already has a more specific key. */
void wr_defer_set_key(struct weir_ask *ask, const struct wr_ask_need *need,
		      const struct weir_entry *entries, size_t count);

/* Called by weir_ask_add after each descriptor of a recorded ask: appends it to the record. */
void wr_ask_record_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			      const struct weir_limit *override, int64_t hits);

/* Whether requests of the same key are queued. Then the need of the key is decided as refused. */
bool wr_defer_is_behind(struct weir_ask *ask);

/* Whether a refusal is not counted now: weir_ask_report_deferral counts it, or it was counted when
 * the request was deferred. */
static inline bool wr_defer_counts_later(const struct weir_ask *ask)
{
	return ask->is_delivery || (ask->record && ask->verdict == WEIR_DEFER);
}

/* The flags of a limit in questions to the store. A refused delivery is not charged by
 * `count_rejected`, because the first refusal was. */
static inline uint16_t wr_defer_flags(const struct weir_ask *ask, const struct weir_limit *limit)
{
	return (uint16_t)(limit->flags & ~(ask->is_delivery ? (uint32_t)WEIR_COUNT_REJECTED : 0u));
}

#endif
