/* A pool of freed memory blocks of one size, for reuse. A block in the pool begins with a pointer
 * to the next block. A pool is used by one thread only. */
#ifndef WR_SERVE_POOL_H
#define WR_SERVE_POOL_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct wr_pool {
	void *first;
	size_t count;
};

/* Returns a block of the pool, or memory from malloc if the pool is empty. The content is
 * undefined. Returns NULL if there is no memory. */
static inline void *wr_pool_take(struct wr_pool *pool, size_t size)
{
	void *block = pool->first;

	if (!block)
		return malloc(size);
	memcpy(&pool->first, block, sizeof pool->first);
	pool->count--;
	return block;
}

/* Puts the block into the pool, or frees it if the pool has `max` blocks. */
static inline void wr_pool_give(struct wr_pool *pool, void *block, size_t max)
{
	if (pool->count >= max) {
		free(block);
		return;
	}
	memcpy(block, &pool->first, sizeof pool->first);
	pool->first = block;
	pool->count++;
}

/* Frees all blocks of the pool. The pool can be used again. */
static inline void wr_pool_free(struct wr_pool *pool)
{
	while (pool->first)
		free(wr_pool_take(pool, 0));
}

#endif
