/* The shared-memory table: finding a key's cell, claiming one, and nothing about what it holds.
 *
 * Any number of processes and threads; no locks; a participant may be killed at any instruction.
 * docs/threads.md tells the protocol, test/model proves its steps for small cases. */
#ifndef WR_TABLE_TABLE_H
#define WR_TABLE_TABLE_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "table/layout.h"

/* One process's mapping of a table. Sizes are kept here, out of other processes' reach. */
struct weir_table {
	struct wr_row *rows;
	uint64_t row_count;
	const uint8_t *secret; /* this process's copy */
	struct wr_tallies *tallies;
	uint32_t *spans;
	uint8_t *slab;
	uint32_t span_count;
	uint32_t span_bytes;
	uint8_t *base;
	size_t bytes;
	struct wr_header header; /* as checked when it was opened */
	char path[512];
};

/* A key's cell and the hot pair it had when it was seen. */
struct wr_spot {
	struct wr_cell *cell;
	struct wr_pair hot;
};

static inline struct wr_row *wr_row_first(const struct weir_table *table, struct wr_key key)
{
	return &table->rows[((key.tag >> 32) * table->row_count) >> 32];
}

/* Never the same as the first where there are two. */
static inline struct wr_row *wr_row_second(const struct weir_table *table, struct wr_key key)
{
	struct wr_row *second = &table->rows[((key.tag & 0xffffffff) * table->row_count) >> 32];

	if (second != wr_row_first(table, key))
		return second;
	return second + 1 < table->rows + table->row_count ? second + 1 : table->rows;
}

/* Bit i: cell i may hold a key with this hint. Reads 32 bytes that others may be writing: any
 * mixture will do, since hints only speed things up. */
WR_NO_TSAN static inline unsigned wr_row_hints(const struct wr_row *row, uint16_t hint)
{
	const __m128i *hints = (const __m128i *)row->hint;
	__m128i want = _mm_set1_epi16((short)hint);
	__m128i low = _mm_cmpeq_epi16(_mm_load_si128(hints), want);
	__m128i high = _mm_cmpeq_epi16(_mm_load_si128(hints + 1), want);

	return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high)) & 0x7fff;
}

/* Whether the cell is the key's, and its hot pair. id's upper word is read before its lower one:
 * id is swapped as a pair, so a version seen with a later claim's tag cannot match that claim's
 * hot pair. */
static inline bool wr_cell_holds(const struct wr_cell *cell, struct wr_key key, struct wr_pair *hot)
{
	uint64_t rest = __atomic_load_n(&cell->id.hi, __ATOMIC_ACQUIRE);
	uint64_t tag = __atomic_load_n(&cell->id.lo, __ATOMIC_ACQUIRE);

	if (tag != key.tag || rest >> 48 != key.hint)
		return false;
	*hot = wr_pair_load(&cell->hot);
	return wr_hot_state(*hot) == WR_LIVE && wr_hot_version(*hot) == (uint16_t)(rest >> 32);
}

static inline bool wr_row_find(struct wr_row *row, struct wr_key key, struct wr_spot *spot)
{
	for (unsigned mask = wr_row_hints(row, key.hint); mask; mask &= mask - 1) {
		spot->cell = &row->cell[__builtin_ctz(mask)];
		if (wr_cell_holds(spot->cell, key, &spot->hot))
			return true;
	}
	return false;
}

/* Finds a key by hints alone. False means "ask wr_table_claim or wr_table_search". */
static inline bool wr_table_find(const struct weir_table *table, struct wr_key key,
				 struct wr_spot *spot)
{
	struct wr_row *first = wr_row_first(table, key);
	struct wr_row *second = wr_row_second(table, key);

	__builtin_prefetch(second);
	return wr_row_find(first, key, spot) || wr_row_find(second, key, spot);
}

/* After a failed swap of spot->hot: whether the cell is still the key's. */
static inline bool wr_spot_still(const struct wr_spot *spot, struct wr_pair before)
{
	return wr_hot_state(spot->hot) == WR_LIVE &&
	       wr_hot_version(spot->hot) == wr_hot_version(before);
}

/* The same by looking at every candidate cell; mends a wrong hint. */
bool wr_table_search(struct weir_table *table, struct wr_key key, struct wr_spot *spot);

/* Finds the key or makes a cell for it, taking an empty, an expired or the least harmful one.
 * The key is then in exactly one cell, whoever else is claiming it. A new cell's state is zero. */
void wr_table_claim(struct weir_table *table, struct wr_key key, unsigned kind, uint32_t now_s,
		    struct wr_spot *spot);

/* Promises that the key is as good as new at fresh_s and not before. To be called before the
 * state that makes it true is written: whoever evicts may be early, never late. */
static inline void wr_cell_raise_fresh(struct wr_cell *cell, uint32_t fresh_s)
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

/* Seconds of a time, rounded up or down, as fresh_at keeps them. */
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

static inline void wr_tally(uint64_t *tally)
{
	__atomic_fetch_add(tally, 1, __ATOMIC_RELAXED);
}

/* Number of a cell in the whole table, and back; NULL when there is no such cell. */
static inline uint32_t wr_cell_index(const struct weir_table *table, const struct wr_cell *cell)
{
	size_t at = (size_t)((const uint8_t *)cell - (const uint8_t *)table->rows);

	return (uint32_t)(at / sizeof(struct wr_row) * WR_CELLS +
			  (at % sizeof(struct wr_row) - 32) / sizeof(struct wr_cell));
}

static inline struct wr_cell *wr_cell_at(const struct weir_table *table, uint32_t index)
{
	if (index / WR_CELLS >= table->row_count)
		return NULL;
	return &table->rows[index / WR_CELLS].cell[index % WR_CELLS];
}

#endif
