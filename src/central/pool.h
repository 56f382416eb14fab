/* A pool of objects of one size. A pool grows block by block up to a maximum, and frees its memory
 * only at the end. So a decision allocates nothing once the pools are large enough. */
#ifndef WR_CENTRAL_POOL_H
#define WR_CENTRAL_POOL_H

#include <stddef.h>
#include <stdint.h>

struct wr_central_pool_block;

/* An empty pool is all zero. */
struct wr_central_pool {
	struct wr_central_pool_block *blocks;
	void *free; /* list of the free objects, linked by their first bytes */
	uint32_t made;
};

/* Returns an object of `size` bytes with undefined content. Returns NULL if the pool has `max`
 * objects, all of them in use, or if there is no memory. */
void *wr_central_pool_take(struct wr_central_pool *pool, size_t size, uint32_t max);
void wr_central_pool_give(struct wr_central_pool *pool, void *object);
/* Frees all objects, and leaves an empty pool. */
void wr_central_pool_free(struct wr_central_pool *pool);

#endif
