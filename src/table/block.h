/* Who holds a block of the slab, and taking it away: for slab.c and span.c. */
#ifndef WR_TABLE_BLOCK_H
#define WR_TABLE_BLOCK_H

#include "table/slab.h"

#define WR_TAKEN (1ull << 31)
#define WR_NO_CELL 0x7fffffffu

/* Prices of a block. A live log's is WR_PRICE_LIVE and what its key weighs. */
#define WR_PRICE_FREE 0u
#define WR_PRICE_EXPIRED 1u
#define WR_PRICE_LIVE 2u
#define WR_PRICE_NONE 1000u /* in preparation, or of a log that has to stay exact */

/* A block, how gladly it is given away, and the cell that would lose it. */
struct wr_victim {
	struct wr_block *block;
	struct wr_pair tenure;
	struct wr_spot owner; /* cell NULL: nobody's */
	unsigned price;
};

static inline uint64_t wr_tenure(uint32_t generation, uint32_t cell)
{
	return (uint64_t)generation << 32 | WR_TAKEN | cell;
}

static inline uint32_t wr_block_bytes(unsigned class)
{
	return WR_BLOCK_MIN << class;
}

static inline struct wr_block *wr_block_at(const struct weir_table *table, uint64_t offset)
{
	return (struct wr_block *)(table->slab + offset);
}

/* Looks up who holds a block of the span, whose word was `word`. If the span has been cut anew
 * meanwhile, what was read may be another log's stamps: the price is then WR_PRICE_NONE, and
 * nothing of it may be swapped. */
struct wr_victim wr_block_appraise(struct weir_table *table, uint32_t span, uint64_t word,
				   struct wr_block *block, uint32_t now_s);

/* Takes the block from its key and swaps the tenure to `held`. A live log becomes a brief one in
 * its cell; a key as good as new loses its cell. False: somebody was faster. */
bool wr_block_seize(struct weir_table *table, struct wr_victim *victim, struct wr_pair held,
		    uint64_t now_ns);

/* Empties the word of a block held under `held`, so that helpers of its last holder fail on the
 * generation. A holder that slept may have lost the block: then it is not touched. Nor is it if the
 * span's word is not `word` any more: then its place may be in the midst of another log's stamps,
 * the tenure among them until it is written over. */
bool wr_block_reset(struct weir_table *table, uint32_t span, uint64_t word, struct wr_block *block,
		    struct wr_pair held);

/* A generation that no block had before. */
uint32_t wr_block_generation(struct weir_table *table);

#endif
