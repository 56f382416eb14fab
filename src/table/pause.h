/* Paused rules: a few hashes of their names, and a word that says whether there are any.
 *
 * Pausing sets the bit of the word, adds the hash, and sets the bit again. Resuming removes the
 * hash, and then clears the bit if no hash is left, by a swap that fails if the word has changed
 * since before the hashes were read. So the bit is set whenever a pause has returned. The first
 * write is for a process that is killed before the second: its pause is in force, too. */
#ifndef WR_TABLE_PAUSE_H
#define WR_TABLE_PAUSE_H

#include "table/table.h"

enum wr_pausing {
	WR_PAUSING_SOME = 1,
	WR_PAUSING_ALL = 2,
	WR_PAUSING_CHANGE = 4, /* the rest counts changes */
};

/* Whether anything is paused. A decision reads it first. */
static inline unsigned wr_pausing(const struct weir_table *table)
{
	/* Paired with the swaps in pause.c: a reader that sees the word sees the hashes. */
	return __atomic_load_n(&table->control->pausing, __ATOMIC_ACQUIRE) & 3;
}

static inline uint64_t wr_pause_hash(const void *name, size_t len)
{
	return XXH3_64bits(name, len) | 1;
}

/* Returns false if there is no room. */
bool wr_pause_add(struct weir_table *table, uint64_t hash);

/* Returns false if the hash was not there. */
bool wr_pause_drop(struct weir_table *table, uint64_t hash);

bool wr_pause_has(const struct weir_table *table, uint64_t hash);

/* Pauses or resumes everything. Returns false if nothing changed. */
bool wr_pause_all(struct weir_table *table, bool paused);

/* Copies the pauses of `from` to `to`. No other process has opened `to`. */
void wr_pauses_import(struct weir_table *to, const struct weir_table *from);

/* Carries over changes of `from` since `to` was the same as `then`. */
void wr_pauses_hand_over(struct weir_table *to, const struct weir_table *from,
			 const struct wr_control *then);

#endif
