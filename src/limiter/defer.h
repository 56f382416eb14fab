/* Functions for deferred requests. They choose the line (the queue of one key) in which a request
 * waits, and make a request wait behind requests that are already queued. The functions that hosts
 * call are in weir/host.h. */
#ifndef WR_LIMITER_DEFER_H
#define WR_LIMITER_DEFER_H

#include "limiter/ask.h"

/* Called by weir_ask_add for each need whose limit has `on_limit: defer`. If the limit is only
 * counted, or an earlier such limit of the ask is at least as specific, changes nothing. Otherwise
 * the request will be queued under the key of this need. */
void wr_limiter_defer_set_key(struct weir_ask *ask, const struct wr_ask_need *need,
			      const struct weir_entry *entries, size_t count);

/* Appends a descriptor to the record. Called by weir_ask_add after each descriptor of a recorded
 * ask. */
void wr_ask_record_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			      const struct weir_limit *override, int64_t hits);

/* Returns whether this request must wait behind other requests. If the line in which it would wait
 * already has requests, refuses the need to which the line belongs, and returns true. Returns false
 * if the line is empty, or if the request cannot be deferred. */
bool wr_limiter_defer_is_behind(struct weir_ask *ask);

/* Returns true if the verdict must not count the refusal, because it is counted elsewhere. The
 * refusal of a delivery was counted when the request was deferred. A refusal that becomes a
 * deferral is counted by weir_ask_report_deferral. */
static inline bool wr_limiter_defer_counts_later(const struct weir_ask *ask)
{
	return ask->is_delivery || (ask->record && ask->verdict == WEIR_DEFER);
}

/* Returns the flags of a limit for a question to the central store. For the delivery of a deferred
 * request, the flag of `count_rejected` is removed, because the refusal was counted when the
 * request was deferred. */
static inline uint16_t wr_limiter_defer_flags(const struct weir_ask *ask,
					      const struct weir_limit *limit)
{
	return (uint16_t)(limit->flags & ~(ask->is_delivery ? (uint32_t)WEIR_COUNT_REJECTED : 0u));
}

#endif
