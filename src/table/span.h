/* Spans of the slab: how they are cut into blocks, and emptied for another size class.
 *
 * A span's word is swapped as one:
 *   lo  version 32 · zero 8 · class that it is emptied for 8 · zero 7, emptied 1 · class + 1 8
 *   hi  generation of the marker 32 · how far it has been emptied, in blocks of class 0, 32
 * Each change of lo has a new version. A span without a class was never used.
 *
 * To empty a span, a participant first sets `emptied`: from then on no block of the span is taken.
 * Then participants that found no block for themselves seize the blocks of the span: each block
 * gets the marker as its tenure, which names no cell. Each participant seizes a bounded number of
 * blocks. Only one span at a time is emptied, so that no span is left half empty. When all blocks
 * and the headers of the new blocks have the marker, the word gets the new class. A block with a
 * marker in a span that is not being emptied is free. If a participant dies, the next one
 * continues its work. */
#ifndef WR_TABLE_SPAN_H
#define WR_TABLE_SPAN_H

#include "table/block.h"

/* Returns the class of a span from its word, or WR_SLAB_CLASSES if the span has no class or the
 * word is invalid. */
static inline unsigned wr_span_class(const struct weir_table *table, uint64_t lo)
{
	unsigned word = lo & 0xff;

	if (word == 0 || word > WR_SLAB_CLASSES || wr_block_bytes(word - 1) > table->span_bytes)
		return WR_SLAB_CLASSES;
	return word - 1;
}

/* A walk over the blocks of one class. */
struct wr_walk {
	uint64_t word; /* low half of the span's word when the walk reached the span */
	unsigned class;
	uint32_t span; /* number of the span; span_count: the walk has ended */
	uint32_t at;   /* offset of the next block in the span, in bytes */
};

/* Starts a walk at block number `nth`, where blocks are numbered as if the whole slab were cut for
 * this class. */
struct wr_walk wr_span_walk(const struct weir_table *table, unsigned class, uint32_t nth);

/* Returns the number of a block, with which a walk can start at this block. */
static inline uint32_t wr_span_number(const struct weir_table *table, unsigned class,
				      const struct wr_block *block)
{
	return (uint32_t)((uint64_t)((const uint8_t *)block - table->slab) / wr_block_bytes(class));
}

/* Returns the next block of the walk, or NULL if the class has none nearby. Sets *span and *word to
 * the span of the block and its word. */
struct wr_block *wr_span_next(const struct weir_table *table, struct wr_walk *walk, uint32_t *span,
			      uint64_t *word);

/* Gives a span that was never used to the class. The next walk starts in that span. Returns false
 * if there is no such span. */
bool wr_span_open(struct weir_table *table, unsigned class);

/* Continues to empty the span that is being emptied, for whichever class that is. If there is none,
 * starts to empty a span for this class, if the blocks of that span are worth less than `price` on
 * average. Returns true if this class has got a span; the next walk starts in it. */
bool wr_span_empty(struct weir_table *table, unsigned class, unsigned price, uint64_t now_ns);

#endif
