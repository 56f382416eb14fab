/* This node's share of a limit of the central store, for the time when the store is unavailable. */
#ifndef WR_LIMITER_SHARE_H
#define WR_LIMITER_SHARE_H

#include "limiter/ask.h"

/* The share of one of `nodes` nodes: 1000 for three nodes are 333 each, 1 for five nodes is 1 each.
 * Burst, queue and soft ceiling shrink likewise. The counter is the same. */
struct weir_limit wr_limit_share(const struct weir_limit *limit, uint32_t nodes);

/* Applies the rule's on_store_failure to a need that the store did not decide. */
void wr_need_store_failed(struct weir_ask *ask, struct wr_ask_need *need);

/* After an admission: charges the units that the store took to this node's counter, and marks units
 * that were admitted without the store to be reported. */
void wr_ask_book(struct weir_ask *ask);

/* The same for one need, taken by the store or from a lease. */
void wr_need_book(struct weir_ask *ask, struct wr_ask_need *need, int64_t cost);

/* After an answer of the store: nodes can only divide the units that the store has left. So the
 * free share of this node is capped to its part of them. Called after wr_ask_book. */
void wr_ask_cap_shares(struct weir_ask *ask);

/* The same for one counter. `answer` is the store's decision, `limit` the whole limit. */
void wr_share_cap(struct weir_table *table, const struct weir_limit *limit, uint32_t nodes,
		  struct wr_key key, const struct weir_decision *answer, uint64_t now_ns);

/* Undoes wr_ask_book, where units can be given back. */
void wr_ask_unbook(struct weir_ask *ask, uint64_t now_ns);

#endif
