/* Which rules are paused: a few hashes of their names, and a word that says whether there are any.
 *
 * Pausing raises the word, adds the hash, and raises the word again; resuming takes the hash away,
 * then lowers the word if nothing is left, by a swap that fails when the word has changed since
 * before it was known that nothing is left. So the word says yes whenever a pause has returned. The
 * first raise is for those who are killed before the second: their pause has happened, too. */
#ifndef WR_TABLE_PAUSE_H
#define WR_TABLE_PAUSE_H

#include "table/table.h"

enum wr_pausing {
	WR_PAUSING_SOME = 1,
	WR_PAUSING_ALL = 2,
	WR_PAUSING_CHANGE = 4, /* the rest counts changes */
};

/* Whether anything is paused: what a decision asks first. */
static inline unsigned wr_pausing(const struct weir_table *table)
{
	/* Paired with the swaps in pause.c: who sees the word sees the hashes. */
	return __atomic_load_n(&table->control->pausing, __ATOMIC_ACQUIRE) & 3;
}

static inline uint64_t wr_pause_hash(const void *name, size_t len)
{
	return XXH3_64bits(name, len) | 1;
}

/* False: there is no room. */
bool wr_pause_add(struct weir_table *table, uint64_t hash);

/* False: it was not there. */
bool wr_pause_drop(struct weir_table *table, uint64_t hash);

bool wr_pause_has(const struct weir_table *table, uint64_t hash);

/* All of them at once. False: it was so already. */
bool wr_pause_all(struct weir_table *table, bool paused);

/* Makes `to`, which nobody else knows yet, pause what `from` does. */
void wr_pauses_import(struct weir_table *to, const struct weir_table *from);

/* Carries over what has changed in `from` since `to` was as `then`. */
void wr_pauses_hand_over(struct weir_table *to, const struct weir_table *from,
			 const struct wr_control *then);

#endif
