/* How the spans of the slab are cut into blocks, and emptied to be cut for another size class.
 *
 * A span's word is swapped as one:
 *   lo  version 32 · zero 8 · class it is emptied for 8 · zero 7, emptied 1 · class + 1 8
 *   hi  generation of the marker 32 · how far it has been emptied, in blocks of class 0, 32
 * Each change of lo has a version of its own. A span without a class was never used.
 *
 * To empty a span, `emptied` is set: from then on nobody takes a block of it. Then each block is
 * seized under the marker, a tenure of no cell, by participants that find no block for themselves,
 * a bounded number of blocks by each. One span at a time is emptied, so that none is left half way.
 * When all blocks have the marker, and the headers of the new blocks as well, the word becomes the
 * new class's. Blocks with a marker in a span that is not being emptied are free. A participant
 * that dies leaves the rest to the next one. */
#ifndef WR_TABLE_SPAN_H
#define WR_TABLE_SPAN_H

#include "table/block.h"

/* Class of a span's word, or WR_SLAB_CLASSES when it has none (or nonsense). */
static inline unsigned wr_span_class(const struct weir_table *table, uint64_t lo)
{
	unsigned word = lo & 0xff;

	if (word == 0 || word > WR_SLAB_CLASSES || wr_block_bytes(word - 1) > table->span_bytes)
		return WR_SLAB_CLASSES;
	return word - 1;
}

/* Where to look for a block. */
struct wr_walk {
	uint64_t word; /* lo of the span's when the walk came to it */
	unsigned class;
	uint32_t span; /* span_count: nowhere */
	uint32_t at;   /* bytes into the span */
};

/* The blocks of a class from number `nth` of the slab on, as if all of it were cut for the class.
 */
struct wr_walk wr_span_walk(const struct weir_table *table, unsigned class, uint32_t nth);

/* The number of a block, for a walk that is to begin there. */
static inline uint32_t wr_span_number(const struct weir_table *table, unsigned class,
				      const struct wr_block *block)
{
	return (uint32_t)((uint64_t)((const uint8_t *)block - table->slab) / wr_block_bytes(class));
}

/* The next block, or NULL when the class has none nearby. */
struct wr_block *wr_span_next(const struct weir_table *table, struct wr_walk *walk, uint32_t *span,
			      uint64_t *word);

/* Gives the class a span that nobody uses yet. The next walk begins there. */
bool wr_span_open(struct weir_table *table, unsigned class);

/* Empties some of the span that is being emptied, whoever for, or begins with another one for the
 * class, if its blocks are worth less than `price` on average. True when the class has got a span,
 * in which the next walk begins. */
bool wr_span_drain(struct weir_table *table, unsigned class, unsigned price, uint64_t now_ns);

#endif
