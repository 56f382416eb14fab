/* The shared-memory table: finds the cell of a key, or gives the key a cell. It does not know the
 * algorithms.
 *
 * Any number of processes and threads use it without locks, and each may be killed at any
 * instruction. docs/threads.md describes the protocol, and test/model proves its steps for small
 * cases. */
#ifndef WR_TABLE_TABLE_H
#define WR_TABLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "table/layout.h"

/* A table as this process has mapped it. The sizes in this struct are this process's own copies, so
 * other processes cannot change them. */
#define WR_TABLE_MAGIC 0x7461626cu

struct weir_table {
	struct wr_row *rows;
	uint64_t row_count;
	const uint8_t *secret; /* secret of the key hash: this process's own copy */
	struct wr_tallies *tallies;
	struct wr_control *control;
	struct wr_note *notes;
	uint32_t note_count;
	struct wr_pair *spans;
	/* Span words that were converted from layout 1; NULL for a file of this layout. */
	struct wr_pair *spans_made;
	uint8_t *slab;
	uint32_t span_count;
	uint32_t span_bytes;
	uint8_t *base;
	size_t bytes;
	uint32_t magic; /* WR_TABLE_MAGIC until weir_close(); the file has its own magic number */
	struct wr_header header; /* copy of the header that was checked when the file was opened */
	char path[512];
};

/* A key's cell, and its hot pair as it was read. */
struct wr_spot {
	struct wr_cell *cell;
	struct wr_pair hot;
};

/* Returns the start of a section. */
static inline void *wr_section(const struct weir_table *table, enum wr_section section)
{
	return table->base + table->header.sections[section].offset;
}

static inline struct wr_row *wr_row_first(const struct weir_table *table, struct wr_key key)
{
	return &table->rows[((key.tag >> 32) * table->row_count) >> 32];
}

/* Returns the second row of a key. It differs from the first row, because a table has at least two
 * rows. */
static inline struct wr_row *wr_row_second(const struct weir_table *table, struct wr_key key)
{
	uint64_t first = ((key.tag >> 32) * table->row_count) >> 32;
	uint64_t second = ((key.tag & 0xffffffff) * (table->row_count - 1)) >> 32;

	return &table->rows[second + (second >= first)];
}

/* Returns the number of the first of the two cells of the key's home cache line in a row. The
 * number is computed from bits of the tag that hardly affect the choice of the rows. */
static inline unsigned wr_home(struct wr_key key)
{
	return (key.tag >> 32 & 7) * 2;
}

/* Returns which of the two home cells contains the key's hint. Each cell has four of the eight
 * hints. */
static inline unsigned wr_hint_cell(struct wr_key key)
{
	return key.tag >> 35 & 1;
}

static inline unsigned wr_hint_shift(struct wr_key key)
{
	return 48 + (key.tag >> 34 & 0xc);
}

/* Makes the processor load the cache line that wr_table_guess() reads. */
static inline void wr_table_prefetch(const struct weir_table *table, struct wr_key key)
{
	__builtin_prefetch(wr_row_first(table, key)->cell + wr_home(key), 1);
}

/* Returns the cell of the first row in which the key is expected: a cell of its home cache line, or
 * the cell in its hint. No branch depends on the memory that is read here, because the processor
 * could not predict such a branch. The cache line is prefetched first, because a processor starts a
 * prefetch at once, but delays a load until it knows the address of the preceding swap. */
static inline struct wr_cell *wr_table_guess(const struct weir_table *table, struct wr_key key)
{
	struct wr_cell *row = wr_row_first(table, key)->cell;
	uint64_t home = wr_home(key);
	struct wr_cell *at = row + home;

	wr_table_prefetch(table, key);

	uint64_t here0 = __atomic_load_n(&at[0].id.lo, __ATOMIC_RELAXED) == key.tag;
	uint64_t here1 = __atomic_load_n(&at[1].id.lo, __ATOMIC_RELAXED) == key.tag;
	uint64_t rest = __atomic_load_n(&at[wr_hint_cell(key)].id.hi, __ATOMIC_RELAXED);
	uint64_t hinted = rest >> wr_hint_shift(key) & 15;

	return row + (here0 | here1 ? home + here1 : hinted);
}

/* Returns true and fills *hot if the cell belongs to the key: the tag is the key's, and the id pair
 * and the hot pair have the same version. The version in `id` is read before the tag. If the cell
 * gets another key between the two reads, the two versions differ, so the result is false. */
static inline bool wr_cell_holds(const struct wr_cell *cell, struct wr_key key, struct wr_pair *hot)
{
	uint64_t rest = __atomic_load_n(&cell->id.hi, __ATOMIC_ACQUIRE);
	uint64_t tag = __atomic_load_n(&cell->id.lo, __ATOMIC_ACQUIRE);

	if (tag != key.tag)
		return false;
	*hot = wr_pair_load(&cell->hot);
	return wr_hot_state(*hot) == WR_LIVE && wr_hot_version(*hot) == (uint16_t)(rest >> 32);
}

/* Finds a key in the cell where it is expected. Most keys are in this cell. If it returns false,
 * the caller has to use wr_table_find(). */
static inline bool wr_table_find_quick(const struct weir_table *table, struct wr_key key,
				       struct wr_spot *spot)
{
	spot->cell = wr_table_guess(table, key);
	return wr_cell_holds(spot->cell, key, &spot->hot);
}

/* Does the same as wr_table_find_quick(), for a caller that uses the hot pair only as the expected
 * value of a swap. The two words of the pair may belong to different states; then the swap fails.
 * Returns false for keys with an override. */
static inline bool wr_table_find_to_swap(const struct weir_table *table, struct wr_key key,
					 struct wr_spot *spot)
{
	struct wr_cell *cell = wr_table_guess(table, key);
	uint64_t rest = __atomic_load_n(&cell->id.hi, __ATOMIC_ACQUIRE);

	spot->cell = cell;
	spot->hot.lo = __atomic_load_n(&cell->hot.lo, __ATOMIC_RELAXED);
	spot->hot.hi = __atomic_load_n(&cell->hot.hi, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&cell->id.lo, __ATOMIC_RELAXED) == key.tag &&
	       wr_hot_plain(spot->hot) && (uint16_t)((rest ^ spot->hot.hi) >> 32) == 0;
}

/* Searches all cells in which the key can be. If the key is found, writes a hint to the key's home
 * cache line. Returns false if the key has no cell. A cell that is only claimed for the key
 * (claim.c) does not count. */
bool wr_table_find(struct weir_table *table, struct wr_key key, struct wr_spot *spot);

/* Finds a key in the cell where it is expected, or else in any of its cells. Returns false if the
 * key has no cell. */
static inline bool wr_table_find_any(struct weir_table *table, struct wr_key key,
				     struct wr_spot *spot)
{
	return wr_table_find_quick(table, key, spot) || wr_table_find(table, key, spot);
}

/* Returns true if the cell still belongs to the key. Called after a swap failed and has set
 * spot->hot to the current pair. `before` is the pair that the swap expected. */
static inline bool wr_spot_still(const struct wr_spot *spot, struct wr_pair before)
{
	return wr_hot_state(spot->hot) == WR_LIVE &&
	       wr_hot_version(spot->hot) == wr_hot_version(before);
}

/* Finds the key's cell, or gives the key a cell: an empty cell, the cell of an expired key, or the
 * cell of the key with the least weight. Afterwards the key is in exactly one cell, even if other
 * threads claim a cell for it at the same time. The state in a new cell is zero. */
void wr_table_claim(struct weir_table *table, struct wr_key key, unsigned kind, uint32_t now_s,
		    struct wr_spot *spot);

/* wr_seconds_up() converts ns to seconds and rounds up, wr_seconds() rounds down. The expiry of a
 * cell (fresh_at) is rounded up, and the present time is rounded down before it is compared with
 * the expiry. So a cell never expires too early. */
static inline uint32_t wr_seconds_up(uint64_t ns)
{
	uint64_t s = ns / 1000000000 + (ns % 1000000000 != 0);

	return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

static inline uint32_t wr_seconds(uint64_t ns)
{
	uint64_t s = ns / 1000000000;

	return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX - 1;
}

/* Raises the expiry of the cell (fresh_at) to fresh_ns or later. Called before the new state is
 * written, so that the cell can expire too late, but never too early. The new expiry is later than
 * fresh_ns by half of the time from now_ns to fresh_ns, so that a key in steady use does not write
 * the expiry with each request. */
static inline void wr_cell_raise_fresh(struct wr_cell *cell, uint64_t fresh_ns, uint64_t now_ns)
{
	uint32_t *at = (uint32_t *)&cell->id.hi;
	uint32_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);
	uint64_t spare_ns = (fresh_ns - now_ns) / 2;

	if (__builtin_expect(seen * 1000000000ull >= fresh_ns, 1))
		return;
	while (seen < wr_seconds_up(fresh_ns) &&
	       !__atomic_compare_exchange_n(at, &seen, wr_seconds_up(fresh_ns + spare_ns), true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Raises the expiry of the cell to fresh_s, in whole seconds. */
static inline void wr_cell_raise_fresh_s(struct wr_cell *cell, uint32_t fresh_s)
{
	uint32_t *at = (uint32_t *)&cell->id.hi;
	uint32_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (seen < fresh_s && !__atomic_compare_exchange_n(at, &seen, fresh_s, true,
							      __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static inline uint32_t wr_cell_fresh_s(const struct wr_cell *cell)
{
	return __atomic_load_n((const uint32_t *)&cell->id.hi, __ATOMIC_ACQUIRE);
}

static inline uint64_t wr_cell_fresh_ns(const struct wr_cell *cell)
{
	return wr_cell_fresh_s(cell) * 1000000000ull;
}

static inline void wr_tally(uint64_t *tally)
{
	__atomic_fetch_add(tally, 1, __ATOMIC_RELAXED);
}

/* wr_cell_index() returns the number of a cell in the whole table, and wr_cell_at() the cell of a
 * number, or NULL if the number is invalid. */
static inline uint32_t wr_cell_index(const struct weir_table *table, const struct wr_cell *cell)
{
	size_t at = (size_t)((const uint8_t *)cell - (const uint8_t *)table->rows);

	return (uint32_t)(at / sizeof(struct wr_cell));
}

static inline struct wr_cell *wr_cell_at(const struct weir_table *table, uint32_t index)
{
	return index / WR_CELLS < table->row_count ? &table->rows[0].cell[0] + index : NULL;
}

#endif
