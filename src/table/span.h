/* Spans of the slab: cutting them into blocks, and emptying them for another size class.
 *
 * A span's word is swapped as one:
 *   lo  version 32 · zero 8 · class it is emptied for 8 · zero 7, emptied 1 · class + 1 8
 *   hi  generation of the marker 32 · how far it has been emptied, in blocks of class 0, 32
 * Each change of lo has a new version. A span without a class was never used.
 *
 * Emptying a span sets `emptied`: from then on no block of it is taken. Then each block is seized
 * under the marker, a tenure without a cell, by participants that found no block for themselves.
 * Each of them seizes a bounded number. Only one span at a time is emptied, so that none is left
 * half way. When all blocks and the headers of the new blocks have the marker, the word gets the
 * new class. A block with a marker in a span that is not being emptied is free. If a participant
 * dies, the next one continues. */
#ifndef WR_TABLE_SPAN_H
#define WR_TABLE_SPAN_H

#include "table/block.h"

/* The class of a span's word, or WR_SLAB_CLASSES if it has none or is invalid. */
static inline unsigned wr_span_class(const struct weir_table *table, uint64_t lo)
{
	unsigned word = lo & 0xff;

	if (word == 0 || word > WR_SLAB_CLASSES || wr_block_bytes(word - 1) > table->span_bytes)
		return WR_SLAB_CLASSES;
	return word - 1;
}

/* A walk over the blocks of a class. */
struct wr_walk {
	uint64_t word; /* lo of the span's word when the walk reached it */
	unsigned class;
	uint32_t span; /* span_count: the walk has ended */
	uint32_t at;   /* bytes into the span */
};

/* Starts a walk at block number `nth`, counted as if the whole slab were cut for the class. */
struct wr_walk wr_span_walk(const struct weir_table *table, unsigned class, uint32_t nth);

/* The number of a block, to start a walk there. */
static inline uint32_t wr_span_number(const struct weir_table *table, unsigned class,
				      const struct wr_block *block)
{
	return (uint32_t)((uint64_t)((const uint8_t *)block - table->slab) / wr_block_bytes(class));
}

/* Returns the next block, or NULL if the class has none nearby. */
struct wr_block *wr_span_next(const struct weir_table *table, struct wr_walk *walk, uint32_t *span,
			      uint64_t *word);

/* Gives the class a span that was never used. The next walk starts there. Returns false if there is
 * none. */
bool wr_span_open(struct weir_table *table, unsigned class);

/* Empties a part of the span that is being emptied, for whichever class. If there is none, starts
 * with another one for this class if its blocks are worth less than `price` on average. Returns
 * true if the class has got a span. The next walk starts in it. */
bool wr_span_empty(struct weir_table *table, unsigned class, unsigned price, uint64_t now_ns);

#endif
