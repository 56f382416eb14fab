/* Functions that find the key that owns a block of the slab, and take the block away from it. Used
 * by slab.c and span.c. */
#ifndef WR_TABLE_BLOCK_H
#define WR_TABLE_BLOCK_H

#include "table/slab.h"

#define WR_TAKEN (1ull << 31)
#define WR_NO_CELL 0x7fffffffu

/* The price of a block tells how undesirable it is to take the block away from its log. The block
 * with the lowest price is taken away first. The block of a live log has the price WR_PRICE_LIVE
 * plus the weight of its key (wr_hot_weight()). */
#define WR_PRICE_FREE 0u
#define WR_PRICE_EXPIRED 1u
#define WR_PRICE_LIVE 2u
/* The block must not be taken away, because a thread is preparing it, or because its log has to
 * stay exact. */
#define WR_PRICE_NONE 1000u

/* A block that can be taken away, its price, and the cell that would lose the block. */
struct wr_victim {
	struct wr_block *block;
	struct wr_pair tenure;
	struct wr_spot owner; /* the cell that has the block; owner.cell is NULL: none */
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

/* Returns the name of a block, which consists of the block's number and this generation
 * (slab.h). */
static inline uint64_t wr_block_name(const struct weir_table *table, const struct wr_block *block,
				     uint32_t generation)
{
	uint64_t number = (uint64_t)((const uint8_t *)block - table->slab) / WR_BLOCK_MIN;

	return number << 32 | generation;
}

/* Finds the key that has a block, and the price of the block. `word` is the word that the block's
 * span had when the caller found the block. If the span's word has changed since, the bytes that
 * were read may be stamps of another log. The price is then WR_PRICE_NONE, and the caller must not
 * use the result in a swap. */
struct wr_victim wr_block_appraise(struct weir_table *table, uint32_t span, uint64_t word,
				   struct wr_block *block, uint32_t now_s);

/* Takes the block away from its key, if a key has it, and sets the block's tenure to `held`. If the
 * key is live, its log becomes brief (brief.h). If the key has expired, it loses its cell. Returns
 * false if another thread changed the block or the key's cell first. */
bool wr_block_seize(struct weir_table *table, struct wr_victim *victim, struct wr_pair held,
		    uint64_t now_ns);

/* If the tenure of the block is still `held`, and the word of its span is still `word`, empties the
 * word of the block and returns true. Threads that still write to the log of the previous key then
 * fail, because they expect another generation in the word of the block. Otherwise changes nothing
 * and returns false. If the word of the span has changed, the span may have been divided into
 * blocks of another size class. Then the bytes of this block can be stamps of another log. */
bool wr_block_reset(struct weir_table *table, uint32_t span, uint64_t word, struct wr_block *block,
		    struct wr_pair held);

/* Returns a generation that no block had before. */
uint32_t wr_block_generation(struct weir_table *table);

#endif
