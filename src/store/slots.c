/* Limits on concurrent requests in the table. The key's cell names a block of the slab, as the cell
 * of a log does, and the block holds one pair for each slot:
 *
 *   pair.lo   the word of the slot (algo/slots.h)
 *   pair.hi   generation of the block, so that a slow thread cannot change a slot after the block
 *             was given to another key
 *   cell s1   bit 29 WR_LOG_SLOTS, bits 16..28 number of changes, bits 0..15 average holding time
 *
 * To take or free a slot, a thread swaps first the pair of the slot and then the cell's hot pair,
 * with a new number of changes. If the cell has lost its key, or names another block, the second
 * swap fails, and the thread starts again. A thread that evicts the key, or moves it to a larger
 * block, swaps the hot pair that it read first. So that swap fails if a slot has changed since.
 *
 * A thread that is killed between its two swaps keeps a slot until max_hold has passed, or has
 * freed a slot that was its own. Both are harmless. At most `ceiling` slots are used, so no more
 * requests are admitted, whatever the order of the swaps is. */
#include "store/store.h"

#include "algo/slots.h"
#include "table/slab.h"

#define CHANGES_SHIFT 16
#define CHANGES_MASK 0x1fffu
#define HOLD_MASK 0xffffu

/* The slots of a key as they were read. */
struct slots_reading {
	struct wr_spot spot;             /* spot.cell is NULL if the key has no cell */
	struct wr_table_log_block block; /* block.block is NULL if the key has no block */
	struct wr_pair *slots;
	uint32_t count; /* number of slots in the block */
	uint32_t held;
	/* A slot that can be taken, and its pair. `free` is UINT32_MAX if none was found. */
	uint32_t free;
	struct wr_pair free_pair;
	uint64_t newest_ns; /* the latest stamp of a held slot, or 0 */
};

static uint32_t hold_code(struct wr_pair hot)
{
	return wr_hot_s1(hot) & HOLD_MASK;
}

/* Returns s1 with another number of changes. */
static uint32_t next_s1(struct wr_pair hot, uint32_t code)
{
	uint32_t changes = (wr_hot_s1(hot) >> CHANGES_SHIFT) + 1;

	return WR_LOG_SLOTS | (changes & CHANGES_MASK) << CHANGES_SHIFT | code;
}

/* Finds the key's cell and its block. Returns false if the cell names a block that does not exist,
 * which only a damaged table does; the cell is then emptied. */
static bool find_slots(struct weir_table *table, const struct wr_attempt *attempt,
		       struct slots_reading *reading)
{
	*reading = (struct slots_reading){.free = UINT32_MAX};
	if (!wr_table_find_any(table, attempt->key, &reading->spot)) {
		reading->spot.cell = NULL;
		return true;
	}
	if (reading->spot.hot.lo == 0)
		return true;
	if (!wr_slab_find(table, reading->spot.hot.lo, &reading->block)) {
		reading->block.block = NULL;
		if (wr_pair_cas(&reading->spot.cell->hot, &reading->spot.hot,
				wr_hot_with(reading->spot.hot, 0, 0, 0)))
			wr_tally(&table->tallies->log_lost);
		return false;
	}
	reading->slots = (struct wr_pair *)reading->block.block->stamps;
	reading->count = reading->block.capacity / 2;
	return true;
}

/* If the clock stepped back after the slot was taken, gives the slot the stamp of now, so that it
 * is free after max_hold. The request that holds the slot cannot give it back any more. */
static void restamp(struct slots_reading *reading, uint32_t i, uint64_t now_ns)
{
	struct wr_pair seen = wr_pair_load(&reading->slots[i]);
	struct wr_pair next = {(now_ns & ~wr_slot_mask(reading->count)) | i, seen.hi};

	if (wr_slot_ahead(seen.lo, now_ns) && seen.hi == (uint32_t)reading->block.name)
		wr_pair_cas(&reading->slots[i], &seen, next);
}

/* Counts the held slots. This loop has no branches, because it reads all slots for each request. */
static void count_held(const struct wr_attempt *attempt, struct slots_reading *reading)
{
	struct wr_slot_range range = wr_slot_range(attempt->limit->period_ns, attempt->now_ns);
	uint64_t newest = 0;
	uint32_t held = 0;

	for (uint32_t i = 0; i < reading->count; i++) {
		uint64_t word = __atomic_load_n(&reading->slots[i].lo, __ATOMIC_RELAXED);
		bool is_held = wr_slot_in_range(range, word);

		held += is_held;
		word = is_held ? word : 0;
		newest = word > newest ? word : newest;
	}
	reading->held = held;
	reading->newest_ns = newest;
}

/* Finds a slot to take. The search begins at another slot after each change, so that threads seldom
 * try to take the same slot. */
static void find_free(const struct wr_attempt *attempt, struct slots_reading *reading)
{
	struct wr_slot_range range = wr_slot_range(attempt->limit->period_ns, attempt->now_ns);
	uint32_t usable = reading->count < attempt->ceiling ? reading->count : attempt->ceiling;
	uint32_t at = usable ? (wr_hot_s1(reading->spot.hot) >> CHANGES_SHIFT) % usable : 0;

	for (uint32_t i = 0; i < usable; i++, at = at + 1 < usable ? at + 1 : 0) {
		uint64_t word = __atomic_load_n(&reading->slots[at].lo, __ATOMIC_RELAXED);

		if (wr_slot_in_range(range, word))
			continue;
		reading->free = at;
		reading->free_pair = wr_pair_load(&reading->slots[at]);
		return;
	}
}

/* Returns the estimated time until one of the held slots is given back. */
static uint64_t shortest_wait(const struct wr_attempt *attempt, const struct slots_reading *reading)
{
	struct wr_slot_range range = wr_slot_range(attempt->limit->period_ns, attempt->now_ns);
	uint64_t hold_ns = wr_hold_ns(hold_code(reading->spot.hot)), shortest = UINT64_MAX;

	for (uint32_t i = 0; i < reading->count; i++) {
		uint64_t word = __atomic_load_n(&reading->slots[i].lo, __ATOMIC_RELAXED);
		uint64_t wait_ns =
			wr_slot_wait(word, attempt->limit->period_ns, hold_ns, attempt->now_ns);

		if (wr_slot_in_range(range, word) && wait_ns < shortest)
			shortest = wait_ns;
	}
	return shortest > WR_SLOT_WAIT_NS && shortest != UINT64_MAX ? shortest : WR_SLOT_WAIT_NS;
}

static void read_slots(const struct wr_attempt *attempt, struct slots_reading *reading)
{
	count_held(attempt, reading);
	if (__builtin_expect(wr_slot_ahead(reading->newest_ns, attempt->now_ns), 0))
		for (uint32_t i = 0; i < reading->count; i++)
			restamp(reading, i, attempt->now_ns);
}

static void fill_decision(const struct wr_attempt *attempt, const struct slots_reading *reading,
			  uint32_t held, bool admitted, uint64_t token)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t end_ns = reading->newest_ns + limit->period_ns;
	uint64_t reset_ns = held && end_ns > attempt->now_ns ? end_ns - attempt->now_ns : 0;

	*attempt->decision = (struct weir_decision){
		.admitted = admitted,
		.limit = limit->capacity,
		.remaining = wr_left(limit->capacity, held),
		.retry_after_ns = admitted           ? 0
				  : attempt->ceiling ? shortest_wait(attempt, reading)
						     : WEIR_NEVER,
		.reset_after_ns = token ? limit->period_ns : reset_ns,
		.charged_ns = token,
	};
}

/* Writes the slots of `from`, or empty slots, into a new block, whose name is in no cell yet.
 * Returns false if another thread has taken the block away meanwhile. */
static bool fill_block(const struct wr_table_log_block *into, const struct slots_reading *from,
		       const struct wr_attempt *attempt)
{
	struct wr_pair *slots = (struct wr_pair *)into->block->stamps;
	uint32_t count = into->capacity / 2;

	for (uint32_t i = 0; i < count; i++) {
		struct wr_pair seen = wr_pair_load(&slots[i]);
		struct wr_pair next = {0, (uint32_t)into->name};

		if (i < from->count)
			next.lo = __atomic_load_n(&from->slots[i].lo, __ATOMIC_ACQUIRE);
		if (!wr_slot_held(next.lo, attempt->limit->period_ns, attempt->now_ns))
			next.lo |= next.lo ? WR_SLOT_FREE : 0;
		if (!wr_block_is(into->block, into->name) || !wr_pair_cas(&slots[i], &seen, next))
			return false;
	}
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
	struct wr_pair hot = reading->spot.hot;
	struct wr_table_log_block next;

	if (!wr_slab_take(table, &wish, attempt->now_ns, &next))
		return false;
	if (fill_block(&next, reading, attempt) &&
	    wr_pair_cas(
		    &reading->spot.cell->hot, &hot,
		    wr_hot_with(hot, next.name, next_s1(hot, hold_code(hot)), wr_hot_harm(hot)))) {
		if (wr_hot_names_block(reading->spot.hot))
			wr_slab_release(table, reading->spot.hot.lo);
		return true;
	}
	wr_slab_release(table, next.name);
	return true;
}

/* Swaps the cell's hot pair after a slot has changed. Other threads may change slots of the same
 * block at the same time. Returns false if the key has lost the cell or has another block. */
static bool commit_change(struct slots_reading *reading, const struct weir_decision *decision,
			  uint64_t held_ns)
{
	struct wr_spot *spot = &reading->spot;
	struct wr_pair before = spot->hot;

	for (;;) {
		uint32_t code = hold_code(spot->hot);
		unsigned harm = decision->admitted && decision->charged_ns
					? wr_store_harm_after(spot->hot, decision)
					: wr_hot_harm(spot->hot);

		if (held_ns)
			code = wr_hold_average(code, held_ns);
		if (wr_pair_cas(
			    &spot->cell->hot, &spot->hot,
			    wr_hot_with(spot->hot, spot->hot.lo, next_s1(spot->hot, code), harm)))
			return true;
		if (!wr_spot_still(spot, before) || spot->hot.lo != before.lo)
			return false;
	}
}

/* Takes the slot that was found. Returns false if the slots have to be read again. */
static bool take_slot(struct wr_attempt *attempt, struct slots_reading *reading)
{
	uint32_t i = reading->free;
	struct wr_pair seen = reading->free_pair;
	struct wr_pair taken = {
		wr_slot_stamp(seen.lo, i, wr_slot_mask(reading->count), attempt->now_ns), seen.hi};
	struct wr_pair freed = {taken.lo | WR_SLOT_FREE, taken.hi};

	if (seen.hi != (uint32_t)reading->block.name ||
	    wr_slot_held(seen.lo, attempt->limit->period_ns, attempt->now_ns))
		return false;
	wr_cell_raise_fresh(reading->spot.cell, taken.lo + attempt->limit->period_ns,
			    attempt->now_ns);
	if (!wr_pair_cas(&reading->slots[i], &seen, taken))
		return false;
	fill_decision(attempt, reading, reading->held + 1, true, taken.lo);
	if (commit_change(reading, attempt->decision, 0))
		return true;
	wr_pair_cas(&reading->slots[i], &taken, freed);
	return false;
}

static void refuse_full(struct weir_table *table, struct wr_attempt *attempt)
{
	wr_tally(&table->tallies->log_full);
	attempt->decision->admitted = 0;
	attempt->decision->full = 1;
	attempt->decision->charged_ns = 0;
	attempt->decision->retry_after_ns = WR_SLOT_WAIT_NS;
}

/* Decides a request for a slot. Returns false if the slots have to be read again. */
static bool attempt_take(struct weir_table *table, struct wr_attempt *attempt,
			 struct slots_reading *reading)
{
	bool admitted = reading->held < attempt->ceiling;

	fill_decision(attempt, reading, reading->held, admitted, 0);
	if (attempt->cost == 0 || wr_writes_nothing(attempt) || !admitted) {
		if (!admitted && wr_leaves_mark(attempt) && reading->spot.cell)
			wr_mark_refused(&reading->spot);
		if (admitted && attempt->cost > 0) /* as if the slot were taken */
			fill_decision(attempt, reading, reading->held + 1, true, 0);
		return true;
	}
	if (!reading->spot.cell) {
		wr_table_claim(table, attempt->key, WR_KIND_LOG, wr_seconds(attempt->now_ns),
			       &reading->spot);
		return false;
	}
	if ((!reading->block.block || reading->count < attempt->ceiling) &&
	    take_block(table, attempt, reading))
		return false;
	find_free(attempt, reading);
	if (reading->free == UINT32_MAX && reading->count < attempt->ceiling) {
		refuse_full(table, attempt);
		return true;
	}
	return reading->free != UINT32_MAX && take_slot(attempt, reading);
}

/* Returns the slot whose word is `token`, or UINT32_MAX. */
static uint32_t find_token(const struct slots_reading *reading, uint64_t token)
{
	uint64_t guess = token & wr_slot_mask(reading->count);

	if (guess < reading->count &&
	    __atomic_load_n(&reading->slots[guess].lo, __ATOMIC_RELAXED) == token)
		return (uint32_t)guess;
	for (uint32_t i = 0; i < reading->count; i++)
		if (__atomic_load_n(&reading->slots[i].lo, __ATOMIC_RELAXED) == token)
			return i;
	return UINT32_MAX;
}

/* Frees the slot that attempt->charged_ns identifies. Does nothing if the slot was freed before, or
 * if another request has got it after max_hold. Returns false if the slots have to be read again. */
static bool attempt_free(struct wr_attempt *attempt, struct slots_reading *reading)
{
	uint64_t token = attempt->charged_ns;
	uint32_t i = reading->count ? find_token(reading, token) : UINT32_MAX;
	struct wr_pair seen, freed;

	fill_decision(attempt, reading, reading->held, true, 0);
	if (token == 0 || i == UINT32_MAX)
		return true;
	seen = wr_pair_load(&reading->slots[i]);
	freed = (struct wr_pair){token | WR_SLOT_FREE, seen.hi};
	if (seen.lo != token || seen.hi != (uint32_t)reading->block.name ||
	    !wr_pair_cas(&reading->slots[i], &seen, freed))
		return false;
	attempt->returned = 1;
	if (reading->held)
		fill_decision(attempt, reading, reading->held - 1, true, 0);
	return commit_change(reading, attempt->decision,
			     attempt->now_ns > token ? attempt->now_ns - token : 1);
}

void wr_store_slots_attempt(struct weir_table *table, struct wr_attempt *attempt)
{
	struct slots_reading reading;
	bool done = false;

	attempt->returned = 0;
	while (!done) {
		if (!find_slots(table, attempt, &reading))
			continue;
		if (reading.spot.cell && !wr_knows_override(attempt, reading.spot.hot))
			return;
		read_slots(attempt, &reading);
		if (attempt->purpose == WR_RETURN)
			done = attempt_free(attempt, &reading);
		else
			done = attempt_take(table, attempt, &reading);
	}
}
