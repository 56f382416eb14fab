/* Spans of the slab. A span is divided into blocks of one size class. It can be emptied and then
 * divided into blocks of another class.
 *
 * The word of a span is a pair that is changed by one compare-and-swap. The number of bits
 * of each field is in brackets:
 *   lo  version (32), unused (8), class for which it is emptied (8), unused (7), being
 *       emptied (1), class + 1 (8)
 *   hi  generation of the marker, which is explained below (32), how far the span has been emptied,
 *       as a number of blocks of class 0 (32)
 * Each change of lo has a new version. A span without a class was never used.
 *
 * To empty a span, a thread first sets the bit "being emptied": from then on no block of the span
 * is taken for a log. Then threads that found no block for their own log take away the blocks of
 * the span: each block gets the marker as its tenure. The marker is a tenure that names no cell.
 * Each thread takes away a bounded number of blocks. Only one span at a time is emptied, so that
 * all threads finish the same span. The blocks of the new class begin at other places of the span.
 * The marker is written there too. When all old and all new blocks have the marker, the new class
 * is written into the word of the span. A block with the marker is free as soon as its span is not
 * being emptied any more. If a thread dies, another thread continues its work. */
#ifndef WR_TABLE_SPAN_H
#define WR_TABLE_SPAN_H

#include "table/block.h"

/* Returns the class of a span. `lo` is the lower half of the span's word. Returns WR_SLAB_CLASSES
 * if the span has no class, or if the class in `lo` is invalid. */
static inline unsigned wr_span_class(const struct weir_table *table, uint64_t lo)
{
	unsigned word = lo & 0xff;

	if (word == 0 || word > WR_SLAB_CLASSES || wr_block_bytes(word - 1) > table->span_bytes)
		return WR_SLAB_CLASSES;
	return word - 1;
}

/* A walk over the blocks of one size class: wr_span_next() returns them one after the other, span
 * by span. */
struct wr_walk {
	uint64_t word; /* the word of the span (its `lo`) when the walk reached the span */
	unsigned class;
	uint32_t span; /* number of the span; span_count: the walk has ended */
	uint32_t at;   /* offset of the next block in the span, in bytes */
};

/* Starts a walk at block number `nth`. Blocks are numbered as if all spans of the slab had this
 * class. */
struct wr_walk wr_span_walk(const struct weir_table *table, unsigned class, uint32_t nth);

/* Returns the number of a block. A walk that is started with this number returns this block
 * first. */
static inline uint32_t wr_span_number(const struct weir_table *table, unsigned class,
				      const struct wr_block *block)
{
	return (uint32_t)((uint64_t)((const uint8_t *)block - table->slab) / wr_block_bytes(class));
}

/* Returns the next block of the walk, and sets *span and *word to the number and the word of the
 * block's span. Returns NULL if the walk has ended: no further span of the class was found. */
struct wr_block *wr_span_next(const struct weir_table *table, struct wr_walk *walk, uint32_t *span,
			      uint64_t *word);

/* Divides a span that was never used into blocks of the class. The next walk of the class starts in
 * that span. Returns false if all spans are in use. */
bool wr_span_open(struct weir_table *table, unsigned class);

/* Continues to empty the span that is being emptied, even if it is emptied for another class. If no
 * span is being emptied, starts to empty a span whose blocks have an average price below `price`,
 * for this class. Returns true if this class has got a span; the next walk of the class starts in
 * that span. */
bool wr_span_empty(struct weir_table *table, unsigned class, unsigned price, uint64_t now_ns);

#endif
