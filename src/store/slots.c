/* Limits on concurrent requests in the table. The key's cell names a block of the slab, as the cell
 * of a log does, and the block holds one pair for each slot:
 *
 *   pair.lo   the word of the slot (algo/slots.h)
 *   pair.hi   low 32 bits: generation of the block, so that a slow thread cannot change a slot after
 *             the block was given to another key; high 32 bits: see restamp(), usually 0
 *   cell s1   bit 29 WR_LOG_SLOTS, bits 12..28 number of changes, bits 0..11 average holding time
 *
 * To take or free a slot, a thread swaps first the pair of the slot and then the cell's hot pair,
 * with a new number of changes. If the cell has lost its key, or names another block, the second
 * swap fails, and the thread starts again. A thread that evicts the key, or moves it to a larger
 * block, swaps the hot pair that it read first. So that swap fails if a slot has changed since.
 *
 * A thread takes only slots whose number is below its limit. So if all threads have the same limit,
 * no more requests are admitted, whatever the order of the swaps is. After the limit was lowered,
 * higher slots may still be held. Then a thread takes a slot only if the hot pair has not changed
 * since it counted the held slots.
 *
 * A thread that is killed between its two swaps keeps a slot until max_hold has passed, or has
 * freed a slot that was its own. Both are harmless. */
#include "store/store.h"

#include "algo/slots.h"
#include "table/slab.h"

#define CHANGES_SHIFT WR_HOLD_BITS
#define CHANGES_MASK ((WR_LOG_SLOTS >> CHANGES_SHIFT) - 1)
#define HOLD_MASK ((1u << WR_HOLD_BITS) - 1)
/* A refusal is decided again if slots have changed meanwhile, up to so many times. */
#define TRIES 8u

/* The slots of a key as they were read. */
struct slots_reading {
	struct wr_spot spot;             /* spot.cell is NULL if the key has no cell */
	struct wr_table_log_block block; /* block.block is NULL if the key has no block */
	struct wr_pair *slots;
	uint32_t count;  /* number of slots in the block */
	int64_t lowest;  /* wr_slots_lowest() */
	uint32_t held;   /* number of held slots */
	uint32_t higher; /* number of held slots whose number is not below the limit */
	unsigned tries;
	/* The slot that this attempt has taken in an earlier block, while the key was moved to
	 * another block. `taken` is the stamp, or 0 if the attempt has taken no slot. */
	uint64_t taken;
	uint32_t taken_at;
};

static uint32_t hold_code(struct wr_pair hot)
{
	return wr_hot_s1(hot) & HOLD_MASK;
}

/* Returns the next value of the cell's s1, after a slot has changed: the number of changes is
 * raised by one, and the average holding time is set to `code`. */
static uint32_t next_s1(struct wr_pair hot, uint32_t code)
{
	uint32_t changes = (wr_hot_s1(hot) >> CHANGES_SHIFT) + 1;

	return WR_LOG_SLOTS | (changes & CHANGES_MASK) << CHANGES_SHIFT | code;
}

static uint64_t word_of(const struct slots_reading *reading, uint32_t i)
{
	return __atomic_load_n(&reading->slots[i].lo, __ATOMIC_RELAXED);
}

/* Replaces the pair of a slot. `seen` is the pair that was read. Returns false if the pair has
 * changed, or if it belongs to another block. While the block belongs to the key, only damage can
 * give a pair another generation. A damaged slot is emptied. */
static bool swap_slot(const struct slots_reading *reading, uint32_t i, struct wr_pair seen,
		      uint64_t word)
{
	struct wr_pair next = {word, (uint32_t)reading->block.name};

	if (__builtin_expect((uint32_t)seen.hi == next.hi, 1))
		return wr_pair_cas(&reading->slots[i], &seen, next);
	next.lo = 0;
	if (wr_block_is(reading->block.block, reading->block.name))
		wr_pair_cas(&reading->slots[i], &seen, next);
	return false;
}

/* Finds the key's cell and its block. Returns false if the cell names a block that does not exist,
 * which only a damaged table does; the cell is then emptied. */
static bool find_slots(struct weir_table *table, struct wr_key key, struct slots_reading *reading)
{
	struct wr_spot *spot = &reading->spot;

	reading->block.block = NULL;
	reading->count = 0;
	if (!wr_table_find_any(table, key, spot)) {
		spot->cell = NULL;
		return true;
	}
	if (spot->hot.lo == 0)
		return true;
	if (!wr_hot_has_slots(spot->hot) || !wr_slab_find(table, spot->hot.lo, &reading->block)) {
		if (wr_pair_cas(&spot->cell->hot, &spot->hot, wr_hot_with(spot->hot, 0, 0, 0)))
			wr_tally(&table->tallies->log_lost);
		return false;
	}
	reading->slots = (struct wr_pair *)reading->block.block->stamps;
	reading->count = reading->block.capacity / 2;
	return true;
}

/* Returns the number of held slots from number `from` to number `to` - 1. The loop has no branches
 * and is unrolled, because it reads all slots for each request. */
static uint32_t count_range(const struct slots_reading *reading, uint32_t from, uint32_t to)
{
	const struct wr_pair *slots = reading->slots;
	int64_t lowest = reading->lowest;
	uint32_t held = 0;

#pragma GCC unroll 8
	for (uint32_t i = from; i < to; i++)
		held += wr_slots_held(__atomic_load_n(&slots[i].lo, __ATOMIC_RELAXED), lowest);
	return held;
}

static void count_held(const struct wr_attempt *attempt, struct slots_reading *reading)
{
	uint32_t limit = attempt->ceiling < reading->count ? attempt->ceiling : reading->count;

	reading->higher = count_range(reading, limit, reading->count);
	reading->held = reading->higher + count_range(reading, 0, limit);
}

/* Returns true if the slots that were read belong together: no thread has changed a slot since the
 * cell was read, or this was tried often enough and the block still belongs to the key. Otherwise
 * the slots have to be read again. Called before an attempt ends that changes nothing. */
static bool has_read_well(struct slots_reading *reading)
{
	if (!reading->block.block ||
	    wr_pair_equal(wr_pair_load(&reading->spot.cell->hot), reading->spot.hot))
		return true;
	return ++reading->tries > TRIES && wr_block_is(reading->block.block, reading->block.name);
}

/* Finds a slot to take. The search begins at another slot after each change, so that threads seldom
 * try to take the same slot. Returns UINT32_MAX if no slot is free. */
static uint32_t find_free(const struct wr_attempt *attempt, const struct slots_reading *reading)
{
	uint32_t usable = reading->count < attempt->ceiling ? reading->count : attempt->ceiling;
	uint32_t at = usable ? (wr_hot_s1(reading->spot.hot) >> CHANGES_SHIFT) % usable : 0;

	for (uint32_t i = 0; i < usable; i++, at = at + 1 < usable ? at + 1 : 0)
		if (!wr_slots_held(word_of(reading, at), reading->lowest))
			return at;
	return UINT32_MAX;
}

/* Returns the latest stamp of a held slot, or 0. */
static uint64_t newest_stamp(const struct slots_reading *reading)
{
	int64_t newest = 0;

#pragma GCC unroll 4
	for (uint32_t i = 0; i < reading->count; i++) {
		int64_t word = (int64_t)word_of(reading, i);

		newest = word > newest ? word : newest;
	}
	return wr_slots_held((uint64_t)newest, reading->lowest) ? (uint64_t)newest : 0;
}

/* Returns the estimated time until one of the held slots is given back. */
static uint64_t shortest_wait(const struct wr_attempt *attempt, const struct slots_reading *reading)
{
	uint64_t hold_ns = wr_hold_ns(hold_code(reading->spot.hot)), shortest = UINT64_MAX;

	for (uint32_t i = 0; i < reading->count; i++) {
		uint64_t word = word_of(reading, i);
		uint64_t wait_ns =
			wr_slots_wait(word, attempt->limit->period_ns, hold_ns, attempt->now_ns);

		if (wr_slots_held(word, reading->lowest) && wait_ns < shortest)
			shortest = wait_ns;
	}
	return shortest > WR_SLOTS_WAIT_NS && shortest != UINT64_MAX ? shortest : WR_SLOTS_WAIT_NS;
}

/* Fills the decision of a request. `token` is the stamp of the slot that the request holds, or 0 if
 * it holds none. `held` is the number of held slots afterwards. */
static void fill_decision(const struct wr_attempt *attempt, const struct slots_reading *reading,
			  uint32_t held, bool admitted, uint64_t token)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t newest_ns = token ? token : newest_stamp(reading);
	uint64_t end_ns = newest_ns + limit->period_ns;
	uint64_t retry_ns = 0;

	if (!admitted)
		retry_ns = attempt->ceiling ? shortest_wait(attempt, reading) : WEIR_NEVER;
	*attempt->decision = (struct weir_decision){
		.admitted = admitted,
		.limit = limit->capacity,
		.remaining = wr_left(limit->capacity, held),
		.retry_after_ns = retry_ns,
		.reset_after_ns =
			newest_ns && end_ns > attempt->now_ns ? end_ns - attempt->now_ns : 0,
		.charged_ns = token,
	};
}

/* Called after a refusal. If the clock stepped back after slots were taken, gives these slots the
 * stamp of now, so that they are free after max_hold. The high 32 bits of the pair then get the low
 * bits of the old stamp, so that the request that holds the slot can still give it back. */
static void restamp(const struct wr_attempt *attempt, const struct slots_reading *reading)
{
	for (uint32_t i = 0; i < reading->count; i++) {
		struct wr_pair seen = wr_pair_load(&reading->slots[i]);
		uint64_t identity = seen.hi >> 32 ? seen.hi >> 32 : (uint32_t)seen.lo;
		struct wr_pair next = {
			wr_slots_stamp(0, i, wr_slots_mask(reading->count), attempt->now_ns),
			identity << 32 | (uint32_t)reading->block.name};

		if (wr_slots_ahead(seen.lo, attempt->now_ns) &&
		    (uint32_t)seen.hi == (uint32_t)next.hi)
			wr_pair_cas(&reading->slots[i], &seen, next);
	}
}

/* Writes a pair into a new block, whose name is in no cell yet. Returns false if another thread has
 * taken the block away meanwhile. */
static bool put_slot(const struct wr_table_log_block *into, uint32_t i, uint64_t word,
		     uint64_t identity)
{
	struct wr_pair *at = (struct wr_pair *)into->block->stamps + i;
	struct wr_pair seen = wr_pair_load(at);
	struct wr_pair next = {word, identity << 32 | (uint32_t)into->name};

	return wr_block_is(into->block, into->name) && wr_pair_cas(at, &seen, next);
}

/* Copies the held slots of `from` into a new block. The free slots get the latest stamp of all
 * slots, because a block of another size has another wr_slots_mask(): two slots could otherwise get
 * the same stamp. Returns false if another thread has taken the block away meanwhile. */
static bool fill_block(const struct wr_table_log_block *into, const struct slots_reading *from)
{
	const struct wr_pair *slots = (const struct wr_pair *)into->block->stamps;
	uint32_t count = into->capacity / 2;
	uint64_t last = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct wr_pair pair = {0};

		if (i < from->count)
			pair = wr_pair_load(&from->slots[i]);
		if ((pair.lo & ~WR_SLOTS_FREE) > last)
			last = pair.lo & ~WR_SLOTS_FREE;
		if (!put_slot(into, i, pair.lo, pair.hi >> 32))
			return false;
	}
	for (uint32_t i = 0; i < count && last; i++)
		if (!wr_slots_held(__atomic_load_n(&slots[i].lo, __ATOMIC_RELAXED), from->lowest) &&
		    !put_slot(into, i, WR_SLOTS_FREE | last, 0))
			return false;
	return wr_block_is(into->block, into->name);
}

/* Gives the key a block with `ceiling` slots, or with all slots of its present block if these are
 * more. Returns false if the slab has no room. If it returns true, the caller reads the key
 * again. */
static bool take_block(struct weir_table *table, const struct wr_attempt *attempt,
		       struct slots_reading *reading)
{
	uint32_t slots = attempt->ceiling > reading->count ? attempt->ceiling : reading->count;
	struct wr_slab_wish wish = {.cell = reading->spot.cell,
				    .stamps = slots * 2,
				    .slot = 0,
				    .weight = WR_WEIGHT_ALL};
	struct wr_pair hot = reading->spot.hot, next_hot;
	struct wr_table_log_block next;

	if (!wr_slab_take(table, &wish, attempt->now_ns, &next))
		return false;
	next_hot = wr_hot_with(hot, next.name, next_s1(hot, hold_code(hot)), wr_hot_harm(hot));
	if (fill_block(&next, reading) &&
	    wr_pair_cas(&reading->spot.cell->hot, &hot, wr_hot_of_kind(next_hot, WR_KIND_LOG))) {
		if (wr_hot_names_block(reading->spot.hot))
			wr_slab_release(table, reading->spot.hot.lo);
		return true;
	}
	wr_slab_release(table, next.name);
	return true;
}

/* Swaps the cell's hot pair after a slot has changed: raises the number of changes, and sets the
 * average holding time and the harm. If another thread was faster, sets spot->hot to its pair and
 * returns false. */
static bool swap_hot(struct wr_spot *spot, uint32_t code, unsigned harm)
{
	struct wr_pair next = wr_hot_with(spot->hot, spot->hot.lo, next_s1(spot->hot, code), harm);

	if (!wr_pair_cas(&spot->cell->hot, &spot->hot, next))
		return false;
	spot->hot = next;
	return true;
}

/* Returns true if the cell still belongs to the key and names the same block, after a failed
 * swap_hot(). Then other threads have changed slots of the block at the same time. */
static bool is_same_block(const struct wr_spot *spot, struct wr_pair before)
{
	return wr_spot_still(spot, before) && spot->hot.lo == before.lo;
}

/* Swaps the cell's hot pair after a slot was taken. Returns false if the key has lost the cell or
 * has another block. Also returns false if higher slots are held and another slot has changed since
 * the held slots were counted, because the limit could then be exceeded. */
static bool commit_take(struct slots_reading *reading, const struct weir_decision *decision)
{
	struct wr_spot *spot = &reading->spot;
	struct wr_pair before = spot->hot;

	do
		if (swap_hot(spot, hold_code(spot->hot), wr_store_harm_after(spot->hot, decision)))
			return true;
	while (reading->higher == 0 && is_same_block(spot, before));
	return false;
}

/* Swaps the cell's hot pair after a slot was freed. Adds held_ns to the average holding time,
 * unless it is 0. Returns false if the key has lost the cell or has another block. */
static bool commit_free(struct slots_reading *reading, uint64_t held_ns)
{
	struct wr_spot *spot = &reading->spot;
	struct wr_pair before = spot->hot;

	do {
		uint32_t code = hold_code(spot->hot);

		if (held_ns)
			code = wr_hold_average(code, held_ns);
		if (swap_hot(spot, code, wr_hot_harm(spot->hot)))
			return true;
	} while (is_same_block(spot, before));
	return false;
}

/* Returns true if this attempt holds a slot of the block that was read. */
static bool has_taken(const struct slots_reading *reading)
{
	return reading->taken && reading->taken_at < reading->count &&
	       word_of(reading, reading->taken_at) == reading->taken;
}

/* Frees the slot that this attempt has taken, because the request is not admitted. Returns false if
 * the slots have to be read again. */
static bool drop_taken(struct slots_reading *reading)
{
	struct wr_pair seen = wr_pair_load(&reading->slots[reading->taken_at]);

	return seen.lo == reading->taken &&
	       swap_slot(reading, reading->taken_at, seen, seen.lo | WR_SLOTS_FREE) &&
	       commit_free(reading, 0);
}

/* Takes slot i. Returns false if the slots have to be read again. */
static bool take_slot(struct wr_attempt *attempt, struct slots_reading *reading, uint32_t i)
{
	struct wr_pair seen = wr_pair_load(&reading->slots[i]);
	uint64_t stamp = wr_slots_stamp(seen.lo, i, wr_slots_mask(reading->count), attempt->now_ns);

	if (wr_slots_held(seen.lo, reading->lowest))
		return false;
	wr_cell_raise_fresh(reading->spot.cell, stamp + attempt->limit->period_ns, attempt->now_ns);
	if (!swap_slot(reading, i, seen, stamp))
		return false;
	reading->taken = stamp;
	reading->taken_at = i;
	fill_decision(attempt, reading, reading->held + 1, true, stamp);
	return commit_take(reading, attempt->decision);
}

/* Called if this attempt has taken a slot, but could not swap the hot pair. The key may have
 * another block now, into which the slot was copied. Returns true if the request is admitted, and
 * false if the slots have to be read again. */
static bool keep_or_drop(struct wr_attempt *attempt, struct slots_reading *reading)
{
	if (reading->held > attempt->ceiling) {
		drop_taken(reading);
		return false;
	}
	fill_decision(attempt, reading, reading->held, true, reading->taken);
	return commit_take(reading, attempt->decision);
}

static void refuse_full(struct weir_table *table, struct wr_attempt *attempt)
{
	wr_tally(&table->tallies->log_full);
	attempt->decision->admitted = 0;
	attempt->decision->full = 1;
	attempt->decision->charged_ns = 0;
	attempt->decision->retry_after_ns = WR_SLOTS_WAIT_NS;
}

/* Decides an attempt that takes no slot, because the attempt only reads the counter, or because all
 * slots are held. Returns false if the slots have to be read again. */
static bool attempt_look(struct wr_attempt *attempt, struct slots_reading *reading)
{
	bool admitted = reading->held < attempt->ceiling;
	/* A request that would be admitted is decided as if its slot were taken. */
	uint32_t held = reading->held + (admitted && attempt->cost > 0);

	fill_decision(attempt, reading, held, admitted, 0);
	if (!has_read_well(reading))
		return false;
	if (admitted)
		return true;
	if (wr_slots_ahead(newest_stamp(reading), attempt->now_ns))
		restamp(attempt, reading);
	if (wr_leaves_mark(attempt) && reading->spot.cell)
		wr_mark_refused(&reading->spot);
	return true;
}

/* Decides a request for a slot. Returns false if the slots have to be read again. */
static bool attempt_take(struct weir_table *table, struct wr_attempt *attempt,
			 struct slots_reading *reading)
{
	bool takes =
		attempt->cost > 0 && (attempt->purpose == WR_TAKE || attempt->purpose == WR_TRY);
	uint32_t free;

	count_held(attempt, reading);
	if (has_taken(reading))
		return keep_or_drop(attempt, reading);
	reading->taken = 0;
	if (!takes || reading->held >= attempt->ceiling)
		return attempt_look(attempt, reading);
	if (!reading->spot.cell) {
		wr_table_claim(table, attempt->key, WR_KIND_LOG, wr_seconds(attempt->now_ns),
			       &reading->spot);
		return false;
	}
	if (reading->count < attempt->ceiling && take_block(table, attempt, reading))
		return false;
	free = find_free(attempt, reading);
	if (free != UINT32_MAX)
		return take_slot(attempt, reading, free);
	if (reading->count >= attempt->ceiling)
		return false;
	fill_decision(attempt, reading, reading->held, false, 0);
	refuse_full(table, attempt);
	return true;
}

/* Returns the slot that the request with this stamp holds, or UINT32_MAX, and its pair in *seen. */
static uint32_t find_token(const struct slots_reading *reading, uint64_t token,
			   struct wr_pair *seen)
{
	uint64_t guess = token & wr_slots_mask(reading->count);

	for (uint32_t i = 0; i <= reading->count; i++) {
		uint32_t at = i ? i - 1 : (uint32_t)guess; /* most often the guess is right */

		if (at >= reading->count)
			continue;
		*seen = wr_pair_load(&reading->slots[at]);
		if (seen->lo == token || (seen->hi >> 32 == (uint32_t)token && seen->hi >> 32 &&
					  !(seen->lo & WR_SLOTS_FREE)))
			return at;
	}
	return UINT32_MAX;
}

/* Frees the slot that attempt->charged_ns identifies. Does nothing if the slot was freed before, or
 * if another request has got it after max_hold. Returns false if the slots have to be read
 * again. */
static bool attempt_free(struct wr_attempt *attempt, struct slots_reading *reading)
{
	uint64_t token = attempt->cost ? attempt->charged_ns : 0;
	struct wr_pair seen;
	uint32_t i = token ? find_token(reading, token, &seen) : UINT32_MAX;

	if (i != UINT32_MAX) {
		if (!swap_slot(reading, i, seen, seen.lo | WR_SLOTS_FREE))
			return false;
		attempt->returned = 1;
		if (!commit_free(reading,
				 attempt->now_ns > seen.lo ? attempt->now_ns - seen.lo : 1))
			return false;
	} else if (reading->block.block &&
		   !wr_block_is(reading->block.block, reading->block.name)) {
		return false;
	}
	if (attempt->quiet)
		return true;
	count_held(attempt, reading);
	fill_decision(attempt, reading, reading->held, true, 0);
	return has_read_well(reading);
}

void wr_store_slots_attempt(struct weir_table *table, struct wr_attempt *attempt)
{
	struct slots_reading reading = {
		.lowest = wr_slots_lowest(attempt->limit->period_ns, attempt->now_ns)};
	bool done = false;

	attempt->returned = 0;
	while (!done) {
		if (!find_slots(table, attempt->key, &reading))
			continue;
		if (reading.spot.cell && !wr_knows_override(attempt, reading.spot.hot)) {
			while (has_taken(&reading) && !drop_taken(&reading))
				find_slots(table, attempt->key, &reading);
			return;
		}
		if (attempt->purpose == WR_RETURN)
			done = attempt_free(attempt, &reading);
		else
			done = attempt_take(table, attempt, &reading);
	}
}

/* Frees each slot of the block that was read once. */
static void free_all(struct slots_reading *reading)
{
	for (uint32_t i = 0; i < reading->count; i++) {
		struct wr_pair seen = wr_pair_load(&reading->slots[i]);

		while (seen.lo && !(seen.lo & WR_SLOTS_FREE) &&
		       !swap_slot(reading, i, seen, seen.lo | WR_SLOTS_FREE) &&
		       wr_block_is(reading->block.block, reading->block.name))
			seen = wr_pair_load(&reading->slots[i]);
	}
}

/* The stamps of the slots are kept, so that the next stamps are later. A request that held a slot
 * before the reset can then not free the slot of another request. */
void wr_store_slots_reset(struct weir_table *table, struct wr_key key)
{
	struct slots_reading reading = {0};
	struct wr_pair before;

	do {
		while (!find_slots(table, key, &reading))
			;
		if (!reading.block.block)
			return;
		before = reading.spot.hot;
		free_all(&reading);
		do
			if (swap_hot(&reading.spot, hold_code(reading.spot.hot), 0))
				return;
		while (is_same_block(&reading.spot, before));
	} while (wr_spot_still(&reading.spot, before));
}
