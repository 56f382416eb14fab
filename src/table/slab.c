#include "table/slab.h"

#define PROBES 64u       /* blocks looked at before the slab counts as full */
#define PROBES_SHORT 16u /* … before another span is opened */
#define GARBAGE_S 60u    /* age of a taken block without an owner */

#define TAKEN (1ull << 31)
#define NO_CELL 0x7fffffffu

static uint64_t tenure(uint32_t generation, uint32_t cell)
{
	return (uint64_t)generation << 32 | TAKEN | cell;
}

static uint32_t block_bytes(unsigned class)
{
	return WR_BLOCK_MIN << class;
}

static uint32_t class_stamps(unsigned class)
{
	return (block_bytes(class) - (uint32_t)sizeof(struct wr_block)) / 8;
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

	while (class > 0 && (table->span_count == 0 || block_bytes(class - 1) > table->span_bytes))
		class --;
	return class ? class_stamps(class - 1) : 0;
}

/* Class of a span, or WR_SLAB_CLASSES when it has none (or nonsense). */
static unsigned span_class(const struct weir_table *table, uint32_t span)
{
	uint32_t word = __atomic_load_n(&table->spans[span], __ATOMIC_ACQUIRE);

	if (word == 0 || word > WR_SLAB_CLASSES || block_bytes(word - 1) > table->span_bytes)
		return WR_SLAB_CLASSES;
	return word - 1;
}

static struct wr_block *block_at(const struct weir_table *table, uint64_t offset)
{
	return (struct wr_block *)(table->slab + offset);
}

static uint64_t name_of(const struct weir_table *table, const struct wr_block *block,
			uint32_t generation)
{
	uint64_t number = (uint64_t)((const uint8_t *)block - table->slab) / WR_BLOCK_MIN;

	return number << 32 | generation;
}

bool wr_slab_find(const struct weir_table *table, uint64_t name, struct wr_log_block *found)
{
	uint64_t offset = (name >> 32) * WR_BLOCK_MIN;
	uint64_t span = table->span_bytes ? offset / table->span_bytes : 0;
	unsigned class;

	if (span >= table->span_count)
		return false;
	class = span_class(table, (uint32_t)span);
	if (class == WR_SLAB_CLASSES || offset % block_bytes(class) != 0)
		return false;
	found->block = block_at(table, offset);
	found->name = name;
	found->capacity = class_stamps(class);
	return __atomic_load_n(&found->block->tenure.lo, __ATOMIC_ACQUIRE) >> 31 ==
	       ((name & 0xffffffff) << 1 | 1);
}

uint64_t wr_slab_used(const struct weir_table *table)
{
	uint64_t used = 0;

	for (uint32_t span = 0; span < table->span_count; span++) {
		unsigned class = span_class(table, span);
		uint64_t start = (uint64_t)span * table->span_bytes;

		if (class == WR_SLAB_CLASSES)
			continue;
		for (uint32_t at = 0; at < table->span_bytes; at += block_bytes(class))
			if (__atomic_load_n(&block_at(table, start + at)->tenure.lo,
					    __ATOMIC_ACQUIRE) &
			    TAKEN)
				used += block_bytes(class);
	}
	return used;
}

/* Gives a block back if it is held as `held`. */
static void set_free(struct wr_block *block, struct wr_pair held)
{
	struct wr_pair free_now = {held.lo & ~TAKEN & ~(uint64_t)NO_CELL, held.hi};

	wr_pair_cas(&block->tenure, &held, free_now);
}

void wr_slab_release(struct weir_table *table, uint64_t name)
{
	struct wr_log_block found;
	struct wr_pair seen;

	if (!wr_slab_find(table, name, &found))
		return;
	seen = wr_pair_load(&found.block->tenure);
	if (seen.lo >> 32 == (uint32_t)name)
		set_free(found.block, seen);
}

/* How gladly a block is given away, and the cell that would lose it. */
struct victim {
	struct wr_block *block;
	struct wr_pair tenure;
	struct wr_spot owner; /* cell NULL: nobody's */
	unsigned price;       /* 0 free or garbage, 1 expired, 2 + harm live */
};

#define PRICE_EXPIRED 1u
#define PRICE_LIVE 2u
#define PRICE_NONE 1000u /* in preparation, of a refused key, or of one with an override */

/* Looks up who holds a block. */
static struct victim appraise(struct weir_table *table, struct wr_block *block, uint32_t now_s)
{
	struct victim victim = {.block = block, .tenure = wr_pair_load(&block->tenure)};
	uint32_t taken_s = (uint32_t)victim.tenure.hi;
	uint32_t age_s = now_s > taken_s ? now_s - taken_s : taken_s - now_s;
	struct wr_cell *cell;

	if (!(victim.tenure.lo & TAKEN))
		return victim;
	cell = wr_cell_at(table, (uint32_t)victim.tenure.lo & NO_CELL);
	if (cell) {
		victim.owner = (struct wr_spot){cell, wr_pair_load(&cell->hot)};
		if (wr_hot_state(victim.owner.hot) == WR_LIVE &&
		    wr_hot_kind(victim.owner.hot) == WR_KIND_LOG &&
		    victim.owner.hot.lo ==
			    name_of(table, block, (uint32_t)(victim.tenure.lo >> 32))) {
			unsigned harm = wr_hot_weight(victim.owner.hot);

			if (wr_cell_fresh_s(cell) <= now_s)
				victim.price = PRICE_EXPIRED;
			else if (wr_hot_refused(victim.owner.hot) ||
				 wr_hot_override(victim.owner.hot))
				victim.price = PRICE_NONE;
			else
				victim.price = PRICE_LIVE + harm;
			return victim;
		}
		victim.owner.cell = NULL;
	}
	victim.price = age_s > GARBAGE_S ? 0 : PRICE_NONE;
	return victim;
}

/* Takes the cell away from a block's key: the key is then as good as never seen. What it is counted
 * as is read after the swap: an append does not touch the cell but promises it more time first. */
static bool evict_owner(struct weir_table *table, const struct victim *victim, uint32_t now_s)
{
	struct wr_pair seen = victim->owner.hot;
	struct wr_pair empty = wr_hot(0, 0, (uint16_t)(wr_hot_version(seen) + 1), 0, WR_EMPTY);

	if (!wr_pair_cas(&victim->owner.cell->hot, &seen, empty))
		return false;
	wr_tally(wr_cell_fresh_s(victim->owner.cell) <= now_s ? &table->tallies->expired
							      : &table->tallies->log_evicted);
	return true;
}

/* A generation nobody had before; 0 would make a name that says "none". */
static uint32_t new_generation(struct weir_table *table)
{
	uint32_t generation = __atomic_add_fetch(&table->tallies->generation, 1, __ATOMIC_RELAXED);

	return generation ? generation
			  : __atomic_add_fetch(&table->tallies->generation, 1, __ATOMIC_RELAXED);
}

/* Swaps the tenure: from then on the block is held under `held`. */
static bool seize(struct weir_table *table, struct victim *victim, struct wr_pair held,
		  uint32_t now_s)
{
	if (victim->owner.cell && !evict_owner(table, victim, now_s))
		return false;
	return wr_pair_cas(&victim->block->tenure, &victim->tenure, held);
}

/* Empties the word of a block held under `held`, so that helpers of its last holder fail on the
 * generation. A holder that slept may have lost the block: then it is not touched. */
static bool reset_word(struct wr_block *block, struct wr_pair held)
{
	struct wr_log_word empty = {.generation = held.lo >> 32 & 0x7fff};

	for (;;) {
		struct wr_pair word = wr_pair_load(&block->word);

		if (!wr_pair_equal(wr_pair_load(&block->tenure), held))
			return false;
		if (wr_pair_cas(&block->word, &word, wr_log_word_pair(empty)))
			return true;
	}
}

/* Gives a class a span nobody uses yet. */
static bool open_span(struct weir_table *table, unsigned class)
{
	for (uint32_t span = 0; span < table->span_count; span++) {
		uint32_t none = 0;

		if (__atomic_load_n(&table->spans[span], __ATOMIC_RELAXED) == 0 &&
		    __atomic_compare_exchange_n(&table->spans[span], &none, class + 1, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* A place among the blocks of one class. */
struct walk {
	unsigned class;
	uint32_t span;
	uint32_t at; /* bytes into the span */
};

/* Next span of the class from `span` on, around; span_count when there is none. */
static uint32_t next_span(const struct weir_table *table, unsigned class, uint32_t span)
{
	for (uint32_t i = 0; i < table->span_count; i++) {
		uint32_t candidate = (uint32_t)(((uint64_t)span + i) % table->span_count);

		if (span_class(table, candidate) == class)
			return candidate;
	}
	return table->span_count;
}

/* Where the class's cursor points, which is moved past what will be looked at. */
static struct walk walk_from_cursor(struct weir_table *table, unsigned class, unsigned probes)
{
	uint32_t per_span = table->span_bytes / block_bytes(class);
	uint32_t nth = __atomic_fetch_add(&table->tallies->cursor[class], probes, __ATOMIC_RELAXED);
	uint32_t span = nth / per_span % table->span_count;
	struct walk walk = {class, next_span(table, class, span),
			    nth % per_span * block_bytes(class)};

	return walk;
}

static struct wr_block *walk_next(const struct weir_table *table, struct walk *walk)
{
	struct wr_block *block;

	if (walk->span >= table->span_count)
		return NULL;
	block = block_at(table, (uint64_t)walk->span * table->span_bytes + walk->at);
	walk->at += block_bytes(walk->class);
	if (walk->at >= table->span_bytes) {
		walk->at = 0;
		walk->span = next_span(table, walk->class, walk->span + 1);
	}
	return block;
}

/* The cheapest of the next `probes` blocks of a class; stops at the first that costs nothing. */
static struct victim cheapest(struct weir_table *table, const struct wr_cell *asking,
			      unsigned class, unsigned probes, uint32_t now_s)
{
	struct walk walk = walk_from_cursor(table, class, probes);
	struct victim best = {.price = PRICE_NONE};

	while (probes-- && best.price > PRICE_EXPIRED) {
		struct wr_block *block = walk_next(table, &walk);
		struct victim victim;

		if (!block)
			break;
		victim = appraise(table, block, now_s);
		if (victim.price < best.price && victim.owner.cell != asking)
			best = victim;
	}
	return best;
}

/* Seizes every block of a span under one marker, unless one is in use. Those seized when it fails
 * half way are garbage in a minute. */
static bool seize_span(struct weir_table *table, uint64_t start, unsigned class,
		       struct wr_pair marker, uint32_t now_s)
{
	for (uint32_t at = 0; at < table->span_bytes; at += block_bytes(class))
		if (appraise(table, block_at(table, start + at), now_s).price > PRICE_EXPIRED)
			return false;
	for (uint32_t at = 0; at < table->span_bytes; at += block_bytes(class)) {
		struct victim victim = appraise(table, block_at(table, start + at), now_s);

		if (victim.price > PRICE_EXPIRED || !seize(table, &victim, marker, now_s))
			return false;
	}
	return true;
}

/* Puts the marker where blocks of the new class will begin inside blocks of the old one, as long as
 * those are still held. */
static bool mark_starts(struct weir_table *table, uint64_t start, unsigned old, unsigned class,
			struct wr_pair marker)
{
	for (uint32_t at = 0; at < table->span_bytes; at += block_bytes(class)) {
		uint32_t holder_at = at / block_bytes(old) * block_bytes(old);
		struct wr_block *holder = block_at(table, start + holder_at);
		struct wr_block *block = block_at(table, start + at);
		struct wr_pair seen = wr_pair_load(&block->tenure);

		if (!wr_pair_equal(wr_pair_load(&holder->tenure), marker))
			return false;
		if (!wr_pair_equal(seen, marker) && !wr_pair_cas(&block->tenure, &seen, marker))
			return false;
	}
	return true;
}

/* Cuts a span that holds nothing anybody needs into blocks of another class. A span keeps its class
 * while one block of it is in use. */
static bool recut_span(struct weir_table *table, uint32_t span, unsigned class, uint32_t now_s)
{
	unsigned old = span_class(table, span);
	uint64_t start = (uint64_t)span * table->span_bytes;
	struct wr_pair marker = {tenure(new_generation(table), NO_CELL), now_s};
	uint32_t word = old + 1;

	if (old == WR_SLAB_CLASSES || old == class ||
	    !seize_span(table, start, old, marker, now_s) ||
	    !mark_starts(table, start, old, class, marker) ||
	    !__atomic_compare_exchange_n(&table->spans[span], &word, class + 1, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	for (uint32_t at = 0; at < table->span_bytes; at += block_bytes(class))
		set_free(block_at(table, start + at), marker);
	return true;
}

/* Tries one span a call, in turn: under a flood every request comes by here. */
static bool recut_next(struct weir_table *table, unsigned class, uint32_t now_s)
{
	uint32_t turn =
		__atomic_fetch_add(&table->tallies->cursor[WR_SLAB_CLASSES], 1, __ATOMIC_RELAXED);

	return recut_span(table, turn % table->span_count, class, now_s);
}

/* A block of the class at the best price there is. */
static struct victim bargain(struct weir_table *table, const struct wr_cell *asking, unsigned class,
			     uint32_t now_s)
{
	struct victim best = cheapest(table, asking, class, PROBES_SHORT, now_s);
	struct victim more;

	if (best.price <= PRICE_EXPIRED)
		return best;
	/* Others may be faster with what a new span holds: no reason to evict while there are more.
	 */
	for (uint32_t i = 0; i < table->span_count; i++) {
		if (!open_span(table, class) && !recut_next(table, class, now_s))
			break;
		best = cheapest(table, asking, class, PROBES, now_s);
		if (best.price <= PRICE_EXPIRED)
			return best;
	}
	more = cheapest(table, asking, class, PROBES - PROBES_SHORT, now_s);
	return more.price < best.price ? more : best;
}

bool wr_slab_take(struct weir_table *table, const struct wr_cell *cell, uint32_t stamps,
		  uint32_t now_s, struct wr_log_block *taken)
{
	unsigned class = class_for(stamps);

	if (stamps > wr_slab_max_stamps(table))
		return false;
	/* A try fails when others take the same block first, or cut its span anew. */
	for (unsigned tries = 0; tries < 8; tries++) {
		struct victim victim = bargain(table, cell, class, now_s);
		uint32_t generation = new_generation(table);
		struct wr_pair held = {tenure(generation, wr_cell_index(table, cell)), now_s};

		if (victim.price == PRICE_NONE)
			return false;
		if (seize(table, &victim, held, now_s) &&
		    wr_slab_find(table, name_of(table, victim.block, generation), taken) &&
		    taken->capacity == class_stamps(class) && reset_word(taken->block, held))
			return true;
	}
	return false;
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
