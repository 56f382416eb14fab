/* Several limits on one request, in steps. For callers that have hashed the keys and do something
 * between looking and taking. */
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

/* Adds to a list, which is sorted in the order of takes. */
static inline void wr_needs_add(struct wr_need **list, size_t *count, struct wr_need *need)
{
	size_t at = (*count)++;

	for (; at > 0 &&
	       wr_takes_before(need->limit, need->key, list[at - 1]->limit, list[at - 1]->key);
	     at--)
		list[at] = list[at - 1];
	list[at] = need;
}

/* Fills the decision of each as if it were taken, and writes nothing. Returns whether all admit. */
bool wr_needs_look(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Takes from all or from none. After a refusal each decision is that of its counter; a counter that
 * admits was not the reason. Refusals are marked and charged as the limits require. */
bool wr_needs_take(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Called after a look, when the request is refused, by one of these or for another reason. */
void wr_needs_refuse(struct weir_table *table, struct wr_need *const *list, size_t count,
		     uint64_t now_ns);

/* Undoes takes of a request that was refused later. A limit that counts rejected requests keeps
 * them. */
void wr_needs_undo(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Gives back a take where it was counted, by its decision. Returns the number of whole units. */
uint64_t wr_need_return(struct weir_table *table, struct wr_need *need, uint64_t now_ns);

#endif
