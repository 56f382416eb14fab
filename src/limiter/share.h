/* Computes this node's share of a limit, by which the node decides while the central store is
 * unavailable. */
#ifndef WR_LIMITER_SHARE_H
#define WR_LIMITER_SHARE_H

#include "limiter/ask.h"

/* Returns a node's share of a limit in a fleet of `nodes` nodes: a limit of 1000 is 333 for each of
 * three nodes, a limit of 1 is 1 for each of five nodes. Burst, queue and soft ceiling are divided
 * in the same way. The share has the same counter as the limit. */
struct weir_limit wr_limiter_limit_share(const struct weir_limit *limit, uint32_t nodes);

/* Applies the rule's on_store_failure to a need that the central store did not decide. */
void wr_ask_need_store_failed(struct weir_ask *ask, struct wr_ask_need *need);

/* Adds to this node's own counters the units that the central store took or leased. Marks units
 * that were admitted without the central store, so that they are reported to it. Called after an
 * admission. */
void wr_ask_book(struct weir_ask *ask);

/* Gives back to this node's own counter up to `units` of the units that were added for the need. */
void wr_ask_need_unbook(struct weir_ask *ask, struct wr_ask_need *need, int64_t units,
			uint64_t now_ns);

/* Adds units that a request used beyond its reservation to this node's own counter. */
void wr_ask_need_book_more(struct weir_ask *ask, struct wr_ask_need *need, int64_t units,
			   uint64_t now_ns);

/* Adds `cost` units of one need to this node's own counter. The central store has taken or leased
 * these units. */
void wr_ask_need_book(struct weir_ask *ask, struct wr_ask_need *need, int64_t cost);

/* Reduces the free units of this node's share of each limit. The units that remain in the central
 * store are divided by the number of nodes. If the share has more free units than that, the
 * difference is added to this node's own counter as if it had been used. Called after an answer of
 * the central store and after wr_ask_book. */
void wr_ask_cap_shares(struct weir_ask *ask);

/* Does the work of wr_ask_cap_shares for one counter. `answer` is the decision of the central
 * store, `limit` is the whole limit. */
void wr_share_cap(struct weir_table *table, const struct weir_limit *limit, uint32_t nodes,
		  struct wr_key key, const struct weir_decision *answer, uint64_t now_ns);

/* Undoes wr_ask_book, as far as units can be given back. */
void wr_ask_unbook(struct weir_ask *ask, uint64_t now_ns);

#endif
