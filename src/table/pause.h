/* Paused rules: the hashes of their names, and a word with a bit that is set if any rule is paused.
 *
 * Pausing sets the bit, adds the hash, and sets the bit again. Resuming removes the hash, reads the
 * word, reads all hashes, and clears the bit if there are no hashes. The bit is cleared by a swap
 * that fails if the word has changed since it was read. So after a pause the bit is always set. The
 * bit is set for the first time before the hash is added. Otherwise a process that is killed after
 * it has added the hash would leave a hash without the bit, and the rule would not be paused. */
#ifndef WR_TABLE_PAUSE_H
#define WR_TABLE_PAUSE_H

#include <weir/rules.h>

#include "table/table.h"

enum wr_pause_state {
	WR_PAUSING_SOME = 1,
	WR_PAUSING_ALL = 2,
	WR_PAUSING_CHANGE = 4, /* the bits from this one on count the changes of `pausing` */
};

/* Returns the bits WR_PAUSING_SOME and WR_PAUSING_ALL. Every decision calls this function first. */
static inline unsigned wr_pause_state(const struct weir_table *table)
{
	/* Acquire: paired with the swaps of `pausing` in pause.c. A reader that sees the new value
	 * also sees the new hashes. */
	return __atomic_load_n(&table->control->pausing, __ATOMIC_ACQUIRE) & 3;
}

static inline uint64_t wr_pause_hash(const void *name, size_t len)
{
	return XXH3_64bits(name, len) | 1;
}

/* Pauses a rule, by the hash of its name. Returns false if there is no room. */
bool wr_pause_add(struct weir_table *table, uint64_t hash);

/* Resumes a rule. Returns false if it was not paused. */
bool wr_pause_drop(struct weir_table *table, uint64_t hash);

bool wr_pause_has(const struct weir_table *table, uint64_t hash);

/* Returns the length of the next longer part of a name that can be the name of a pause. Parts end
 * before a slash or at the end of the name: "api", then "api/ip", then "api/ip/1d". `len` is the
 * length of the previous part. Returns 0 after the whole name. */
size_t wr_pause_next_part(struct weir_str name, size_t len);

/* Returns whether a pause of a single name applies to the limit with this name in statistics. */
bool wr_pause_covers(const struct weir_table *table, struct weir_str name);

/* Returns a number that is different after each change of the pauses. */
uint64_t wr_pause_stamp(const struct weir_table *table);

/* Pauses or resumes all rules. Returns false if nothing changed. */
bool wr_pause_all(struct weir_table *table, bool paused);

/* Applies to `to` the differences between *then, an earlier state of the pauses of `from`, and the
 * present pauses of `from`. */
void wr_pauses_hand_over(struct weir_table *to, const struct weir_table *from,
			 const struct wr_control *then);

#endif
