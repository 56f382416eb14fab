/* The memory of records: slots, and the blocks of text that the records refer to. Only the thread
 * that reads a log uses the pool. */
#ifndef WR_LAB_LOG_POOL_H
#define WR_LAB_LOG_POOL_H

#include "lab/log/lines.h"
#include "lab/log/order.h"

#define WR_LAB_STREAMS 16u /* files that are read at the same time */

/* How many blocks of text records and readers can use at most: the records of the window, those
 * ahead of it, and for each file the current block and two records. The other blocks are for
 * batches. */
#define WR_LAB_TEXTS (WR_LAB_WINDOW_TEXTS + WR_LAB_AHEAD_LINES + 3 * WR_LAB_STREAMS + 22)

struct wr_lab_slab;

struct wr_lab_pool {
	struct wr_lab_slab *slabs;  /* the memory of all slots */
	struct wr_lab_slot *slots;  /* unused slots */
	struct wr_lab_text *memory; /* the memory of all blocks */
	struct wr_lab_text *texts;  /* unused blocks */
};

/* Returns 0, or WEIR_EMEMORY. */
int wr_lab_pool_init(struct wr_lab_pool *pool);
void wr_lab_pool_free(struct wr_lab_pool *pool);

/* Returns an unused slot, or NULL without memory. */
struct wr_lab_slot *wr_lab_pool_slot(struct wr_lab_pool *pool);

/* Gives back a slot that refers to no block. */
void wr_lab_pool_give(struct wr_lab_pool *pool, struct wr_lab_slot *slot);

/* Gives back a list of slots, without the references of their records to blocks. */
void wr_lab_pool_give_chain(struct wr_lab_pool *pool, const struct wr_lab_chain *chain);

/* Returns an unused block with one reference, or NULL if all are in use. */
struct wr_lab_text *wr_lab_pool_text(struct wr_lab_pool *pool);

/* Gives back references to a block. */
void wr_lab_pool_drop(struct wr_lab_pool *pool, struct wr_lab_text *text, uint32_t refs);

#endif
