/* Finds the key that owns a block of the slab, determines the block's price (block.h) and takes the
 * block away. Called by slab.c and span.c. */
#include "table/block.h"

#include "base/assert.h"

/* If a thread has taken a block, but has not written the block's name into a cell for this many
 * seconds, other threads can take the block. */
#define GARBAGE_S 60u

static unsigned price_of_owner(const struct wr_victim *victim, uint32_t now_s)
{
	if (wr_cell_fresh_s(victim->owner.cell) <= now_s)
		return WR_PRICE_EXPIRED;
	if (victim->tenure.hi >> 32 == 0)
		return WR_PRICE_NONE;
	return WR_PRICE_LIVE + (wr_hot_override(victim->owner.hot)
					? WR_HARM_MOST + WR_HARM_REFUSED_WEIGHT
					: wr_hot_weight(victim->owner.hot));
}

/* Finds the cell whose number is in the block's tenure (layout.h). Returns false unless that cell
 * contains the name of this block, with the same generation as the tenure. */
static bool find_owner(const struct weir_table *table, struct wr_victim *victim)
{
	struct wr_cell *cell = wr_cell_at(table, (uint32_t)victim->tenure.lo & WR_NO_CELL);

	if (!cell)
		return false;
	victim->owner = (struct wr_spot){cell, wr_pair_load(&cell->hot)};
	if (wr_hot_names_block(victim->owner.hot) &&
	    victim->owner.hot.lo ==
		    wr_block_name(table, victim->block, (uint32_t)(victim->tenure.lo >> 32)))
		return true;
	victim->owner.cell = NULL;
	return false;
}

struct wr_victim wr_block_appraise(struct weir_table *table, uint32_t span, uint64_t word,
				   struct wr_block *block, uint32_t now_s)
{
	struct wr_victim victim = {.block = block, .tenure = wr_pair_load(&block->tenure)};
	uint32_t taken_s = (uint32_t)victim.tenure.hi;
	uint32_t age_s = now_s > taken_s ? now_s - taken_s : taken_s - now_s;

	/* If the span's word has changed, the span may have been divided into blocks of another
	 * size class. Then the bytes that were read are possibly not a tenure. If the span's word
	 * changes later, a swap that expects this tenure fails: every block of a span gets a new
	 * tenure before the span gets another class, and no tenure is used twice. */
	if (__atomic_load_n(&table->spans[span].lo, __ATOMIC_ACQUIRE) != word)
		victim.price = WR_PRICE_NONE;
	else if (!(victim.tenure.lo & WR_TAKEN) ||
		 ((uint32_t)victim.tenure.lo & WR_NO_CELL) == WR_NO_CELL)
		victim.price = WR_PRICE_FREE;
	else if (find_owner(table, &victim))
		victim.price = price_of_owner(&victim, now_s);
	else
		victim.price = age_s > GARBAGE_S ? WR_PRICE_FREE : WR_PRICE_NONE;
	return victim;
}

/* Empties the cell of the block's key, which has expired. An append to a ring does not change the
 * cell, so the swap alone would not notice that the key is in use again. Therefore the ring is
 * sealed first, and then the expiry is read again. If the key is in use, the function returns
 * false, and the next request of the key moves the log to another ring. */
static bool forget_owner(struct weir_table *table, const struct wr_victim *victim, uint32_t now_s)
{
	struct wr_pair seen = victim->owner.hot;
	struct wr_pair empty = wr_hot(0, 0, (uint16_t)(wr_hot_version(seen) + 1), 0, WR_EMPTY);

	if (!wr_table_log_retire(table, seen.lo) || wr_cell_fresh_s(victim->owner.cell) > now_s ||
	    !wr_pair_cas(&victim->owner.cell->hot, &seen, empty))
		return false;
	wr_tally(&table->tallies->expired);
	return true;
}

/* Makes the log of the block's key brief. First seals the ring, so that no entry can be appended
 * that would be missing in the cell. Then writes the counts of the entries into the cell. If the
 * cell has changed, returns false, and the next request of the key moves its log to another
 * ring. */
static bool shrink_owner(struct weir_table *table, const struct wr_victim *victim, uint64_t now_ns)
{
	struct wr_pair seen = victim->owner.hot;
	struct wr_pair word = wr_pair_load(&victim->block->word);
	struct wr_table_log_block log;
	struct wr_brief brief;

	if (!wr_slab_find(table, seen.lo, &log) || !wr_table_log_seal(log.block, &word, seen.lo) ||
	    !wr_table_log_brief(&log, word, (uint32_t)(victim->tenure.hi >> 32), now_ns, &brief) ||
	    !wr_pair_cas(
		    &victim->owner.cell->hot, &seen,
		    wr_hot_with(seen, wr_brief_s0(&brief), wr_brief_s1(&brief), wr_hot_harm(seen))))
		return false;
	wr_tally(&table->tallies->log_evicted);
	return true;
}

bool wr_block_seize(struct weir_table *table, struct wr_victim *victim, struct wr_pair held,
		    uint64_t now_ns)
{
	wr_assert(victim->block);
	if (victim->owner.cell &&
	    !(victim->price == WR_PRICE_EXPIRED ? forget_owner(table, victim, wr_seconds(now_ns))
						: shrink_owner(table, victim, now_ns)))
		return false;
	return wr_pair_cas(&victim->block->tenure, &victim->tenure, held);
}

bool wr_block_reset(struct weir_table *table, uint32_t span, uint64_t word, struct wr_block *block,
		    struct wr_pair held)
{
	struct wr_table_log_word empty = {.generation = held.lo >> 32 & 0x7fff};

	for (;;) {
		struct wr_pair seen = wr_pair_load(&block->word);

		if (!wr_pair_equal(wr_pair_load(&block->tenure), held) ||
		    __atomic_load_n(&table->spans[span].lo, __ATOMIC_ACQUIRE) != word)
			return false;
		if (wr_pair_cas(&block->word, &seen, wr_table_log_word_pair(empty)))
			return true;
	}
}

/* The generation is never 0, because the name of block 0 would then be 0, which is not a valid
 * name. */
uint32_t wr_block_generation(struct weir_table *table)
{
	uint32_t generation = __atomic_add_fetch(&table->tallies->generation, 1, __ATOMIC_RELAXED);

	wr_assert_magic(table, WR_TABLE_MAGIC);
	return generation ? generation
			  : __atomic_add_fetch(&table->tallies->generation, 1, __ATOMIC_RELAXED);
}
