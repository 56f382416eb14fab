/* This node's share of a limit of the central store, for the time when the store is unavailable. */
#ifndef WR_LIMITER_SHARE_H
#define WR_LIMITER_SHARE_H

#include "limiter/ask.h"

/* Returns a node's share of a limit in a fleet of `nodes` nodes: a limit of 1000 is 333 for each of
 * three nodes, a limit of 1 is 1 for each of five nodes. Burst, queue and soft ceiling are divided
 * in the same way. The share has the same counter as the limit. */
struct weir_limit wr_limit_share(const struct weir_limit *limit, uint32_t nodes);

/* Applies the rule's on_store_failure to a need that the store did not decide. */
void wr_need_store_failed(struct weir_ask *ask, struct wr_ask_need *need);

/* Adds the units that the store took to this node's own counters, and marks units that were
 * admitted without the store, so that they are reported to the store. Called after an admission. */
void wr_ask_book(struct weir_ask *ask);

/* Adds `cost` units of one need, which the store took or which were leased, to this node's own
 * counter. */
void wr_need_book(struct weir_ask *ask, struct wr_ask_need *need, int64_t cost);

/* Raises this node's own counters, so that the free units of the node's share are at most the
 * node's part of the units that remain in the store. The nodes can only divide the units that
 * remain. Called after an answer of the store and after wr_ask_book. */
void wr_ask_cap_shares(struct weir_ask *ask);

/* Does the work of wr_ask_cap_shares for one counter. `answer` is the store's decision, `limit` is
 * the whole limit. */
void wr_share_cap(struct weir_table *table, const struct weir_limit *limit, uint32_t nodes,
		  struct wr_key key, const struct weir_decision *answer, uint64_t now_ns);

/* Undoes wr_ask_book, as far as units can be given back. */
void wr_ask_unbook(struct weir_ask *ask, uint64_t now_ns);

#endif
