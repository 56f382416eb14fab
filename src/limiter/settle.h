/* Settling: after the response, unused units are given back, units beyond the reserved ones are
 * charged even beyond the limit, and slots of concurrent limits are given back. */
#ifndef WR_LIMITER_SETTLE_H
#define WR_LIMITER_SETTLE_H

#include "limiter/ask.h"
#include "rules/http.h"
#include "table/override.h"

/* Returns whether the cost of the need's descriptor is known only after the response, or after the
 * body of the request was received. */
static inline bool wr_ask_need_settles(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct wr_ask_descriptor *descriptor = &ask->descriptors[need->descriptor];
	const struct wr_rules_request *request = descriptor->request;

	if (need->need.limit->algorithm == WEIR_LEAKY_BUCKET)
		return false;
	return request && ((request->cost && request->cost->settles) || request->count ||
			   descriptor->cost_note == WR_COST_LENGTH_LATER);
}

/* Sets the operator's grant for the key of the need. The central store does not store grants, so each
 * message to it contains the grant. The largest debt of the key includes the grant. */
static inline void wr_ask_need_find_grant(const struct weir_ask *ask, struct wr_ask_need *need,
					  uint64_t now_ns)
{
	need->granted =
		wr_override_find(ask->engine->table, need->need.key, wr_seconds(now_ns)).granted;
}

/* Returns whether this node admitted the need without the central store, and has sent the report of
 * the reserved units. The central store counts these units from then on, and they are not given
 * back to it any more. If such a need was restored from a reservation, its report was sent. */
static inline bool wr_ask_need_is_reported(const struct weir_ask *ask,
					   const struct wr_ask_need *need)
{
	return need->failed && need->message != WR_MESSAGE_REPORT && !ask->no_secret &&
	       !need->eventual && !wr_ask_need_is_slot(need);
}

/* Returns the number of units that were in use after the take, if it is known together with
 * need->given; otherwise 0. */
uint32_t wr_ask_need_used_after(const struct wr_ask_need *need);

/* Adds a need to the statistics of costs: the units that it was charged at arrival, and whether its
 * cost was replaced by `default` or lowered to `max`. Called for each need when an ask with costs
 * is admitted. */
void wr_ask_count_charged(struct weir_ask *ask, struct wr_lane *lane,
			  const struct wr_ask_need *need);

/* Adds a settled need to the statistics of costs: `charged` units were charged at arrival, `actual`
 * units were used, `returned` units were given back and `owed` units were charged at settling. Does
 * nothing for a need without costs whose units did not change. Also sets ask->settlement. */
void wr_ask_count_settled(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t charged,
			  uint64_t actual, uint64_t returned, uint64_t owed, uint64_t now_ns);

/* Counts a need whose units were given back because the ask was cancelled, as if it had been
 * settled with 0 units. A need that was not counted when it was charged is not counted. */
void wr_ask_count_cancelled(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t returned,
			    uint64_t now_ns);

#endif
