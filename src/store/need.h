/* Decisions on several limits of one request, in separate steps, for callers that have hashed the
 * keys and do something between looking and taking. */
#ifndef WR_STORE_NEED_H
#define WR_STORE_NEED_H

#include "store/store.h"

/* A counter that a request takes from. */
struct wr_need {
	const struct weir_limit *limit;
	struct wr_key key;
	int64_t cost; /* 0 or more */
	struct weir_decision decision;
};

/* Adds a need to a list, which stays sorted in the order of takes (wr_takes_before()). */
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

/* Takes from all counters or from none. Returns whether the request was admitted. After a refusal
 * each need has the decision of its own counter: those whose decision is `admitted` did not cause
 * the refusal. Refusals are marked and charged as the limits require. */
bool wr_needs_take(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Marks and charges the counters of a request that is refused, by one of these needs or for another
 * reason. Called after wr_needs_look(). */
void wr_needs_refuse(struct weir_table *table, struct wr_need *const *list, size_t count,
		     uint64_t now_ns);

/* Undoes the takes of a request that was refused later. Limits that count rejected requests keep
 * the units. */
void wr_needs_undo(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Gives back the take that need->decision belongs to, in the window or bucket that counted it.
 * Returns the number of whole units given back. */
uint64_t wr_need_return(struct weir_table *table, struct wr_need *need, uint64_t now_ns);

#endif
