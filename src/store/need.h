/* Several limits on one request, by parts: what weir_take_all does at once, for a caller that has
 * hashed its keys and has to do something between looking and taking. */
#ifndef WR_STORE_NEED_H
#define WR_STORE_NEED_H

#include "store/store.h"

/* A counter a request wants to take from. */
struct wr_need {
	const struct weir_limit *limit;
	struct wr_key key;
	int64_t cost; /* 0 or more */
	struct weir_decision decision;
};

/* Lists are pointers in the order of takes. */
static inline void wr_needs_add(struct wr_need **list, size_t *count, struct wr_need *need)
{
	size_t at = (*count)++;

	for (; at > 0 &&
	       wr_takes_before(need->limit, need->key, list[at - 1]->limit, list[at - 1]->key);
	     at--)
		list[at] = list[at - 1];
	list[at] = need;
}

/* What each would say, nothing written. True: all admit. */
bool wr_needs_look(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Takes from all or from none. After a refusal each decision says what its counter said; one that
 * admits was not the reason. Refusals are marked and charged as the limits want it. */
bool wr_needs_take(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* After a look: the request was refused, by one of these or by something else. */
void wr_needs_refuse(struct weir_table *table, struct wr_need *const *list, size_t count,
		     uint64_t now_ns);

/* Undoes takes of a request that was refused after all; a limit that counts rejected requests keeps
 * them. */
void wr_needs_undo(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns);

/* Gives back a take where it was counted, as its decision says. Returns how many whole units. */
uint64_t wr_need_return(struct weir_table *table, struct wr_need *need, uint64_t now_ns);

#endif
