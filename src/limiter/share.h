/* This node's share of a limit that a central store keeps. */
#ifndef WR_LIMITER_SHARE_H
#define WR_LIMITER_SHARE_H

#include "limiter/ask.h"

/* The limit as one of `nodes` may use it up alone: 1000 for three are 333 each, 1 for five is 1
 * each. Burst, queue and soft ceiling shrink likewise. Its counter stays the same. */
struct weir_limit wr_limit_share(const struct weir_limit *limit, uint32_t nodes);

/* Nobody can decide this need, which is asked for: what the rule says for that case. */
void wr_ask_fail(struct weir_ask *ask, struct wr_ask_need *need);

/* The request is admitted: what the store took is this node's own use of it too, and what was taken
 * here for want of the store is to be reported. */
void wr_ask_book(struct weir_ask *ask);

/* The same for one need of it, taken by the store or from a lease. */
void wr_ask_book_one(struct weir_ask *ask, struct wr_ask_need *need, int64_t cost);

/* The store has spoken: what it has left of the limits is all that nodes can divide, should it fail
 * from now on. After wr_ask_book. */
void wr_ask_heed(struct weir_ask *ask);

/* The same for one counter, of which the store has `said` what remains. The whole limit. */
void wr_share_heed(struct weir_table *table, const struct weir_limit *limit, uint32_t nodes,
		   struct wr_key key, const struct weir_decision *said, uint64_t now_ns);

/* Undoes what wr_ask_book did, as far as it can be undone. */
void wr_ask_unbook(struct weir_ask *ask, uint64_t now_ns);

#endif
