/* Takes, finds and frees blocks of the slab for sliding window logs. */
#include "table/slab.h"

#include "base/assert.h"
#include "table/span.h"

/* Number of blocks to look at after the block that was taken most recently. */
#define PROBES 16u
#define JUMPS 12u      /* number of other parts to search if the first PROBES blocks are in use */
#define PROBES_JUMP 4u /* number of blocks to look at in each of the JUMPS parts */
#define TRIES 4u       /* number of tries to take a block; other threads can be faster */

static uint32_t class_stamps(unsigned class)
{
	return (wr_block_bytes(class) - (uint32_t)sizeof(struct wr_block)) / 8;
}

static unsigned class_for(uint32_t stamps)
{
	unsigned class = 0;

	while (class < WR_SLAB_CLASSES && class_stamps(class) < stamps)
		class ++;
	return class;
}

uint32_t wr_slab_max_stamps(const struct weir_table *table)
{
	unsigned class = WR_SLAB_CLASSES;

	while (class > 0 &&
	       (table->span_count == 0 || wr_block_bytes(class - 1) > table->span_bytes))
		class --;
	return class ? class_stamps(class - 1) : 0;
}

static unsigned class_of_span(const struct weir_table *table, uint64_t span)
{
	return wr_span_class(table, __atomic_load_n(&table->spans[span].lo, __ATOMIC_ACQUIRE));
}

bool wr_slab_find(const struct weir_table *table, uint64_t name, struct wr_table_log_block *found)
{
	uint64_t offset = (name >> 32) * WR_BLOCK_MIN;
	uint64_t span = table->span_bytes ? offset / table->span_bytes : 0;
	unsigned class;

	if (span >= table->span_count)
		return false;
	class = class_of_span(table, span);
	if (class == WR_SLAB_CLASSES || offset % wr_block_bytes(class) != 0)
		return false;
	found->block = wr_block_at(table, offset);
	found->name = name;
	found->capacity = class_stamps(class);
	return wr_block_is(found->block, name);
}

uint64_t wr_slab_used(const struct weir_table *table)
{
	uint64_t used = 0;

	for (uint32_t span = 0; span < table->span_count; span++) {
		unsigned class = class_of_span(table, span);
		uint64_t start = (uint64_t)span * table->span_bytes;

		if (class == WR_SLAB_CLASSES)
			continue;
		for (uint32_t at = 0; at < table->span_bytes; at += wr_block_bytes(class)) {
			const struct wr_block *block = wr_block_at(table, start + at);
			uint64_t lo = __atomic_load_n(&block->tenure.lo, __ATOMIC_ACQUIRE);

			if (lo & WR_TAKEN && ((uint32_t)lo & WR_NO_CELL) != WR_NO_CELL)
				used += wr_block_bytes(class);
		}
	}
	return used;
}

/* Frees a block if its tenure is `held`. */
static void set_free(struct wr_block *block, struct wr_pair held)
{
	struct wr_pair free_now = {held.lo & ~WR_TAKEN & ~(uint64_t)WR_NO_CELL, held.hi};

	wr_pair_cas(&block->tenure, &held, free_now);
}

void wr_slab_release(struct weir_table *table, uint64_t name)
{
	struct wr_table_log_block found;
	struct wr_pair seen;

	if (!wr_slab_find(table, name, &found))
		return;
	seen = wr_pair_load(&found.block->tenure);
	if (seen.lo >> 32 == (uint32_t)name)
		set_free(found.block, seen);
}

/* The block with the lowest price (block.h) that was found so far, and its span. */
struct bargain {
	struct wr_victim victim;
	uint64_t word;
	uint32_t span;
};

/* Looks at up to `probes` blocks of a class from number `nth` on, and stores the cheapest in *best
 * if it is cheaper than *best. Stops at the first block that is free or whose key has expired. */
static void probe_blocks(struct weir_table *table, const struct wr_slab_wish *wish, unsigned class,
			 uint32_t nth, unsigned probes, uint32_t now_s, struct bargain *best)
{
	struct wr_walk walk = wr_span_walk(table, class, nth);

	while (probes-- && best->victim.price > WR_PRICE_EXPIRED) {
		struct bargain next;
		struct wr_block *block = wr_span_next(table, &walk, &next.span, &next.word);

		if (!block)
			break;
		next.victim = wr_block_appraise(table, next.span, next.word, block, now_s);
		if (next.victim.price < best->victim.price && next.victim.owner.cell != wish->cell)
			*best = next;
	}
}

/* Looks at the blocks after the block that was taken most recently. Returns true if it found a
 * block that is free or whose key has expired. */
static bool probe_next(struct weir_table *table, const struct wr_slab_wish *wish, unsigned class,
		       uint32_t now_s, struct bargain *best)
{
	uint32_t nth = __atomic_fetch_add(&table->tallies->cursor[class], 1, __ATOMIC_RELAXED);

	probe_blocks(table, wish, class, nth, PROBES, now_s, best);
	return best->victim.price <= WR_PRICE_EXPIRED;
}

/* Looks at other parts of the slab. Free blocks are usually close together, so another part may
 * have many of them. Returns true if it found a block that is free or whose key has expired. */
static bool probe_elsewhere(struct weir_table *table, const struct wr_slab_wish *wish,
			    unsigned class, uint32_t now_s, struct bargain *best)
{
	uint32_t *cursor = &table->tallies->cursor[class];
	uint32_t nth = __atomic_load_n(cursor, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < JUMPS && best->victim.price > WR_PRICE_EXPIRED; i++) {
		nth = (nth ^ nth >> 15) * 0x2c1b3c6du + 0x9e3779b9u;
		probe_blocks(table, wish, class, nth >> 3, PROBES_JUMP, now_s, best);
	}
	return best->victim.price <= WR_PRICE_EXPIRED;
}

/* Finds the block of the class with the lowest price, among a bounded number of blocks. Before it
 * chooses the block of a live log, tries to get another span for the class: a span that was never
 * used, or a span that is emptied for this class. If it finds no block that `wish` allows to take,
 * the price of the result is WR_PRICE_NONE. */
static struct bargain find_bargain(struct weir_table *table, const struct wr_slab_wish *wish,
				   unsigned class, uint64_t now_ns)
{
	struct bargain best = {.victim.price = WR_PRICE_NONE};
	unsigned most = WR_PRICE_LIVE + wish->weight;
	uint32_t now_s = wr_seconds(now_ns);

	__atomic_store_n(&table->tallies->asked_s[class], now_s, __ATOMIC_RELAXED);
	if (!probe_next(table, wish, class, now_s, &best) &&
	    !probe_elsewhere(table, wish, class, now_s, &best) &&
	    (wr_span_open(table, class) ||
	     wr_span_empty(table, class, best.victim.price < most ? best.victim.price : most,
			   now_ns)))
		probe_next(table, wish, class, now_s, &best);
	if (best.victim.price >= most)
		best.victim.price = WR_PRICE_NONE;
	else
		__atomic_store_n(&table->tallies->cursor[class],
				 wr_span_number(table, class, best.victim.block) + 1,
				 __ATOMIC_RELAXED);
	return best;
}

/* Takes the block that was found. Returns false if another thread was faster or the span is
 * being emptied. */
static bool take_bargain(struct weir_table *table, const struct wr_slab_wish *wish,
			 struct bargain *found, uint64_t now_ns, struct wr_table_log_block *taken)
{
	uint32_t generation = wr_block_generation(table);
	struct wr_pair held = {wr_tenure(generation, wr_cell_index(table, wish->cell)),
			       (uint64_t)wish->slot << 32 | wr_seconds(now_ns)};

	if (!wr_block_seize(table, &found->victim, held, now_ns))
		return false;
	if (__atomic_load_n(&table->spans[found->span].lo, __ATOMIC_ACQUIRE) == found->word &&
	    wr_slab_find(table, wr_block_name(table, found->victim.block, generation), taken) &&
	    wr_block_reset(table, found->span, found->word, taken->block, held))
		return true;
	set_free(found->victim.block, held);
	return false;
}

bool wr_slab_take(struct weir_table *table, const struct wr_slab_wish *wish, uint64_t now_ns,
		  struct wr_table_log_block *taken)
{
	unsigned class = class_for(wish->stamps);

	wr_assert(wish->cell);
	if (wish->stamps > wr_slab_max_stamps(table))
		return false;
	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct bargain found = find_bargain(table, wish, class, now_ns);

		if (found.victim.price == WR_PRICE_NONE)
			return false;
		if (take_bargain(table, wish, &found, now_ns, taken))
			return true;
	}
	return false;
}

bool wr_table_log_seal(struct wr_block *block, struct wr_pair *word, uint64_t name)
{
	struct wr_table_log_word sealed = wr_table_log_word_of(*word);

	if (sealed.generation != (name & 0x7fff))
		return false;
	if (sealed.sealed)
		return true;
	sealed.sealed = true;
	if (!wr_pair_cas(&block->word, word, wr_table_log_word_pair(sealed)))
		return false;
	*word = wr_table_log_word_pair(sealed);
	return true;
}

bool wr_table_log_retire(struct weir_table *table, uint64_t name)
{
	struct wr_table_log_block log;
	struct wr_pair word;

	if (!wr_slab_find(table, name, &log))
		return true;
	word = wr_pair_load(&log.block->word);
	if (!wr_block_is(log.block, name) ||
	    wr_table_log_word_of(word).generation != (name & 0x7fff))
		return true;
	return wr_table_log_seal(log.block, &word, name);
}

/* Returns the stamp of the i-th oldest entry. */
static uint64_t stamp_of(const struct wr_table_log_block *log, const struct wr_table_log_word *word,
			 uint32_t i)
{
	uint32_t back = word->count - 1 - i;
	uint32_t slot =
		word->head >= back ? word->head - back : word->head + (log->capacity - back);
	uint64_t stamp;

	if (i >= word->count - word->pending)
		return word->newest_ns;
	stamp = __atomic_load_n(&log->block->stamps[slot], __ATOMIC_ACQUIRE);
	return stamp < word->newest_ns ? stamp : word->newest_ns;
}

/* Returns the number of entries older than then_ns. */
static uint32_t older_than(const struct wr_table_log_block *log,
			   const struct wr_table_log_word *word, uint64_t then_ns)
{
	uint32_t low = 0;

	for (uint32_t high = word->count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (stamp_of(log, word, middle) < then_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool wr_table_log_brief(const struct wr_table_log_block *log, struct wr_pair pair,
			uint32_t slot_code, uint64_t now_ns, struct wr_brief *brief)
{
	struct wr_table_log_word word = wr_table_log_word_of(pair);
	uint64_t slot_ns = wr_brief_slot_ns(slot_code);
	uint32_t after = word.count;

	if (word.head >= log->capacity || word.count > log->capacity || word.pending > word.count)
		return false;
	brief->slot = wr_brief_now_ns(word.newest_ns, now_ns) / slot_ns;
	for (uint64_t i = 0; i < WR_BRIEF_SLOTS; i++) {
		uint32_t before =
			brief->slot < i ? 0 : older_than(log, &word, (brief->slot - i) * slot_ns);

		brief->count[i] = after - before;
		after = before;
	}
	return true;
}

bool wr_block_put(struct wr_block *block, struct wr_pair word, uint32_t slot, uint64_t stamp_ns)
{
	uint64_t *at = &block->stamps[slot];

	for (;;) {
		uint64_t seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);

		if (!wr_pair_equal(wr_pair_load(&block->word), word))
			return false;
		if (seen == stamp_ns ||
		    __atomic_compare_exchange_n(at, &seen, stamp_ns, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return true;
	}
}
