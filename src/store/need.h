/* Decisions on several limits of one request. Looking at the counters and taking from them are
 * separate functions, because the limiter asks Redis in between. The caller has already hashed the
 * keys. */
#ifndef WR_STORE_NEED_H
#define WR_STORE_NEED_H

#include "store/store.h"

/* A need: a counter that a request takes from, the limit that applies, and the decision. */
struct wr_need {
	const struct weir_limit *limit;
	struct wr_key key;
	int64_t cost; /* 0 or more */
	struct weir_decision decision;
};

/* Adds a need to a list. The list stays sorted in the order in which units are taken
 * (wr_takes_before()). */
static inline void wr_needs_add(struct wr_need **list, size_t *count, struct wr_need *need)
{
	size_t at = (*count)++;

	for (; at > 0 &&
	       wr_takes_before(need->limit, need->key, list[at - 1]->limit, list[at - 1]->key);
	     at--)
		list[at] = list[at - 1];
	list[at] = need;
}

/* Fills the decision of each need as if its cost were taken, and writes nothing. Returns whether
 * all counters admit the request. */
bool wr_needs_look(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Takes units from all counters or from none. Returns whether the request was admitted. After a
 * refusal each need has the decision of its own counter: needs whose decision is `admitted` did not
 * cause the refusal. A refusal is recorded as by wr_needs_refuse(), so the caller must not call
 * that function too. */
bool wr_needs_take(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Records that a request was refused, by one of these needs or for another reason. A limit with
 * WEIR_COUNT_REJECTED counts the cost. A key whose limit refused the request is marked as refused,
 * so that it is evicted later than other keys. Called after wr_needs_look(). */
void wr_needs_refuse(struct weir_table *table, struct wr_need *const *list, size_t count,
		     uint64_t now_ns);

/* Gives back the units of a request that was refused after they were taken. Limits with
 * WEIR_COUNT_REJECTED keep the units. */
void wr_needs_undo(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Gives back the units that were taken with need->decision, to the window or bucket that counted
 * them. Returns the number of whole units given back. */
uint64_t wr_need_return(struct weir_table *table, struct wr_need *need, uint64_t now_ns);

#endif
