/* Divides spans of the slab into blocks, walks over the blocks of a class, and empties spans for
 * another class. Called by slab.c. */
#include "table/span.h"

#include "base/assert.h"

#define SPANS_LOOKED_AT 64u /* number of spans to look at to find a span of a class */
#define SAMPLE 16u          /* number of blocks to look at to determine the price of a span */
#define EMPTY_STEP 128u     /* number of blocks that one call empties */
/* If no block of a class was requested for this many seconds, the class can lose its only remaining
 * span. */
#define IDLE_S 60u

#define EMPTIED (1ull << 8)

static uint64_t load_word(const struct weir_table *table, uint32_t span)
{
	return __atomic_load_n(&table->spans[span].lo, __ATOMIC_ACQUIRE);
}

static uint64_t next_version(uint64_t lo)
{
	return ((lo >> 32) + 1) << 32;
}

static unsigned target_of(uint64_t lo)
{
	return lo >> 16 & 0xff;
}

/* Continues the walk in the next span of its class that is not being emptied. The search begins
 * with `span`, and continues after the last span of the slab with the first one. If the search
 * finds no such span among SPANS_LOOKED_AT spans, the walk ends. */
static void enter_span(const struct weir_table *table, struct wr_walk *walk, uint32_t span)
{
	for (uint32_t i = 0; i < table->span_count && i < SPANS_LOOKED_AT; i++) {
		walk->span = (uint32_t)(((uint64_t)span + i) % table->span_count);
		walk->word = load_word(table, walk->span);
		if (!(walk->word & EMPTIED) && wr_span_class(table, walk->word) == walk->class)
			return;
	}
	walk->span = table->span_count;
}

struct wr_walk wr_span_walk(const struct weir_table *table, unsigned class, uint32_t nth)
{
	uint32_t per_span = table->span_bytes / wr_block_bytes(class);
	struct wr_walk walk = {.class = class, .at = nth % per_span * wr_block_bytes(class)};

	wr_assert(class < WR_SLAB_CLASSES);
	wr_assert(table->span_count > 0);
	enter_span(table, &walk, nth / per_span % table->span_count);
	return walk;
}

struct wr_block *wr_span_next(const struct weir_table *table, struct wr_walk *walk, uint32_t *span,
			      uint64_t *word)
{
	struct wr_block *block;

	wr_assert(walk->class < WR_SLAB_CLASSES);
	if (walk->span >= table->span_count)
		return NULL;
	block = wr_block_at(table, (uint64_t)walk->span * table->span_bytes + walk->at);
	*span = walk->span;
	*word = walk->word;
	walk->at += wr_block_bytes(walk->class);
	if (walk->at >= table->span_bytes) {
		walk->at = 0;
		enter_span(table, walk, walk->span + 1);
	}
	return block;
}

/* Makes the next walk over the blocks of the class start in the span that the class has just
 * got. */
static void start_walks_at(struct weir_table *table, unsigned class, uint32_t span)
{
	uint32_t per_span = table->span_bytes / wr_block_bytes(class);

	__atomic_store_n(&table->tallies->cursor[class], span * per_span, __ATOMIC_RELAXED);
	__atomic_fetch_add(&table->tallies->spans_of[class], 1, __ATOMIC_RELAXED);
}

bool wr_span_open(struct weir_table *table, unsigned class)
{
	uint32_t *opened = &table->tallies->opened;
	uint32_t span = __atomic_load_n(opened, __ATOMIC_ACQUIRE);

	wr_assert(class < WR_SLAB_CLASSES);
	wr_assert_magic(table, WR_TABLE_MAGIC);
	while (span < table->span_count) {
		struct wr_pair none = {0, 0};
		struct wr_pair cut = {next_version(0) | (class + 1), 0};
		bool mine = wr_pair_cas(&table->spans[span], &none, cut);
		uint32_t seen = span;

		/* tallies->opened, the number of spans with a class, is raised after the swap. If
		 * this thread dies in between, the next thread raises it. */
		__atomic_compare_exchange_n(opened, &seen, span + 1, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
		if (mine) {
			start_walks_at(table, class, span);
			return true;
		}
		span = __atomic_load_n(opened, __ATOMIC_ACQUIRE);
	}
	return false;
}

/* Returns the average price of the blocks of a span, from a sample. If the sample has a block that
 * is neither free nor expired, the result is at least WR_PRICE_LIVE. */
static unsigned price_of(struct weir_table *table, uint32_t span, uint64_t word, uint32_t now_s)
{
	unsigned class = wr_span_class(table, word);
	uint32_t blocks = table->span_bytes / wr_block_bytes(class);
	uint32_t step = blocks > SAMPLE ? blocks / SAMPLE : 1;
	unsigned sum = 0, looked_at = 0, least = 0;

	for (uint32_t i = 0; i < blocks; i += step) {
		uint64_t offset =
			(uint64_t)span * table->span_bytes + (uint64_t)i * wr_block_bytes(class);

		unsigned price =
			wr_block_appraise(table, span, word, wr_block_at(table, offset), now_s)
				.price;

		if (price > WR_PRICE_EXPIRED)
			least = WR_PRICE_LIVE;
		sum += price;
		looked_at++;
	}
	return sum / looked_at > least ? sum / looked_at : least;
}

/* Returns true if a span of this class may be given to another class. The only remaining span of a
 * class is given away only if its blocks are free or expired, and no block of the class was
 * requested for IDLE_S seconds. */
static bool can_spare(const struct weir_table *table, unsigned class, unsigned price,
		      uint32_t now_s)
{
	const struct wr_tallies *tallies = table->tallies;
	uint32_t asked_s = __atomic_load_n(&tallies->asked_s[class], __ATOMIC_RELAXED);
	uint32_t idle_s = now_s > asked_s ? now_s - asked_s : asked_s - now_s;

	return __atomic_load_n(&tallies->spans_of[class], __ATOMIC_RELAXED) > 1 ||
	       (price <= WR_PRICE_EXPIRED && idle_s > IDLE_S);
}

/* Considers the next span in turn, and starts to empty it if the average price of its blocks is
 * below `price`. Returns the number of the span, or span_count if no emptying was started. */
static uint32_t begin_emptying(struct weir_table *table, unsigned class, unsigned price,
			       uint32_t now_s)
{
	uint32_t span = __atomic_fetch_add(&table->tallies->empty_cursor, 1, __ATOMIC_RELAXED) %
			table->span_count;
	struct wr_pair word = wr_pair_load(&table->spans[span]);
	unsigned old = wr_span_class(table, word.lo), worth;
	struct wr_pair emptied = {
		next_version(word.lo) | (uint64_t) class << 16 | EMPTIED | (old + 1), 0};

	if (old == WR_SLAB_CLASSES)
		return table->span_count;
	if (!(word.lo & EMPTIED)) {
		worth = old == class ? price : price_of(table, span, word.lo, now_s);
		if (worth >= price || !can_spare(table, old, worth, now_s))
			return table->span_count;
		emptied.hi = (uint64_t)wr_block_generation(table) << 32;
		if (!wr_pair_cas(&table->spans[span], &word, emptied))
			return table->span_count;
	}
	__atomic_store_n(&table->tallies->emptying, span + 1, __ATOMIC_RELAXED);
	return span;
}

/* Takes one block away from its key, if a key has it, and sets the tenure of the block to `marker`
 * (span.h). Then empties the word of the block. Returns false if the block cannot be taken away
 * now. Sets *exact to true if that is because the log in the block has to stay exact. */
static bool mark_block(struct weir_table *table, uint32_t span, uint64_t word, uint64_t offset,
		       struct wr_pair marker, uint64_t now_ns, bool *exact)
{
	struct wr_block *block = wr_block_at(table, offset);
	struct wr_victim victim = wr_block_appraise(table, span, word, block, wr_seconds(now_ns));

	/* Another thread may have written the marker, but not emptied the word of the block yet. So
	 * the word is emptied here, before the emptying of the span continues with the next block.
	 * If it were emptied after the span has got its new class, the write would damage the
	 * contents of a new block. */
	if (wr_pair_equal(victim.tenure, marker))
		return wr_block_reset(table, span, word, block, marker);
	*exact = victim.owner.cell && victim.price == WR_PRICE_NONE;
	return victim.price != WR_PRICE_NONE && wr_block_seize(table, &victim, marker, now_ns) &&
	       wr_block_reset(table, span, word, block, marker);
}

/* Writes the marker (span.h) to the address at which a block of the new class will have its tenure.
 * This address is inside a block of the old class. Returns false if another thread changed the
 * tenure or the word of the span first. */
static bool mark_start(struct weir_table *table, uint32_t span, uint64_t word, uint64_t offset,
		       struct wr_pair marker)
{
	struct wr_block *block = wr_block_at(table, offset);
	struct wr_pair seen = wr_pair_load(&block->tenure);

	return load_word(table, span) == word &&
	       (wr_pair_equal(seen, marker) || wr_pair_cas(&block->tenure, &seen, marker));
}

/* Ends the emptying of a span. If `done`, the span gets the new class, otherwise it keeps the old
 * class. Returns true if the span has got its new class. */
static bool finish_emptying(struct weir_table *table, uint32_t span, struct wr_pair word, bool done)
{
	unsigned old = wr_span_class(table, word.lo);
	unsigned class = done ? target_of(word.lo) : old;
	struct wr_pair cut = {next_version(word.lo) | (class + 1), 0};

	if (!wr_pair_cas(&table->spans[span], &word, cut))
		return false;
	if (done) {
		__atomic_fetch_sub(&table->tallies->spans_of[old], 1, __ATOMIC_RELAXED);
		start_walks_at(table, class, span);
	}
	return done;
}

/* Writes the marker (span.h) as the tenure of up to EMPTY_STEP blocks. `at` tells where to begin.
 * In the first pass over the span (empty_some()), it is an offset in the span. In the second pass
 * it is the offset plus span_bytes. Stops at a block that cannot get the marker now. Returns the
 * value of `at` from which the next call has to continue. */
static uint64_t mark_some(struct weir_table *table, uint32_t span, struct wr_pair word, uint64_t at,
			  uint64_t end, uint64_t now_ns, bool *exact)
{
	struct wr_pair marker = {wr_tenure((uint32_t)(word.hi >> 32), WR_NO_CELL), 0};
	uint64_t start = (uint64_t)span * table->span_bytes;

	for (unsigned n = 0; n < EMPTY_STEP && at < end; n++) {
		bool old = at < table->span_bytes;

		if (!(old ? mark_block(table, span, word.lo, start + at, marker, now_ns, exact)
			  : mark_start(table, span, word.lo, start + at - table->span_bytes,
				       marker)))
			break;
		at += wr_block_bytes(old ? wr_span_class(table, word.lo) : target_of(word.lo));
	}
	return at;
}

/* Continues to empty a span. The first pass over the span takes away the blocks of the old class.
 * If the blocks of the new class are smaller, a second pass writes the marker (span.h) to the
 * headers of the new blocks. Returns true if the span has got its new class. */
static bool empty_some(struct weir_table *table, uint32_t span, uint64_t now_ns)
{
	struct wr_pair word = wr_pair_load(&table->spans[span]);
	unsigned old = wr_span_class(table, word.lo), class = target_of(word.lo);
	uint64_t at = (word.hi & UINT32_MAX) * WR_BLOCK_MIN, end = table->span_bytes;
	struct wr_pair further = word;
	bool exact = false;

	if (!(word.lo & EMPTIED) || old == WR_SLAB_CLASSES || class >= WR_SLAB_CLASSES ||
	    wr_block_bytes(class) > table->span_bytes || at % wr_block_bytes(0) != 0)
		return false;
	if (class < old)
		end *= 2;
	at = mark_some(table, span, word, at, end, now_ns, &exact);
	if (exact || at >= end)
		return finish_emptying(table, span, word, !exact);
	further.hi = (word.hi >> 32) << 32 | (uint32_t)(at / WR_BLOCK_MIN);
	wr_pair_cas(&table->spans[span], &word, further);
	return false;
}

bool wr_span_empty(struct weir_table *table, unsigned class, unsigned price, uint64_t now_ns)
{
	uint32_t span = __atomic_load_n(&table->tallies->emptying, __ATOMIC_RELAXED) - 1;
	uint64_t word = span < table->span_count ? load_word(table, span) : 0;

	wr_assert(class < WR_SLAB_CLASSES);
	wr_assert_magic(table, WR_TABLE_MAGIC);
	if (!(word & EMPTIED)) {
		span = begin_emptying(table, class, price, wr_seconds(now_ns));
		word = span < table->span_count ? load_word(table, span) : 0;
	}
	return word & EMPTIED && empty_some(table, span, now_ns) && target_of(word) == class;
}
