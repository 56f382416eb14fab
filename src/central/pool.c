/* Implements pool.h, and makes parts and calls, which come from pools. Called by all files of this
 * folder. */
#include <stdlib.h>
#include <string.h>

#include "central/inner.h"

#include "base/assert.h"

#define BLOCK_OBJECTS 128u

struct wr_central_pool_block {
	struct wr_central_pool_block *next;
	_Alignas(max_align_t) uint8_t bytes[];
};

static void set_next(void *object, void *next)
{
	memcpy(object, &next, sizeof next);
}

static bool pool_grow(struct wr_central_pool *pool, size_t size, uint32_t max)
{
	struct wr_central_pool_block *block;

	if (pool->made + BLOCK_OBJECTS > max)
		return false;
	block = malloc(sizeof *block + BLOCK_OBJECTS * size);
	if (!block)
		return false;
	block->next = pool->blocks;
	pool->blocks = block;
	pool->made += BLOCK_OBJECTS;
	for (size_t i = BLOCK_OBJECTS; i > 0; i--) {
		set_next(block->bytes + (i - 1) * size, pool->free);
		pool->free = block->bytes + (i - 1) * size;
	}
	return true;
}

void *wr_central_pool_take(struct wr_central_pool *pool, size_t size, uint32_t max)
{
	void *object;

	wr_assert(size >= sizeof pool->free);
	if (!pool->free && !pool_grow(pool, size, max))
		return NULL;
	object = pool->free;
	memcpy(&pool->free, object, sizeof pool->free);
	return object;
}

void wr_central_pool_give(struct wr_central_pool *pool, void *object)
{
	wr_assert(object);
	set_next(object, pool->free);
	pool->free = object;
}

void wr_central_pool_free(struct wr_central_pool *pool)
{
	while (pool->blocks) {
		struct wr_central_pool_block *block = pool->blocks;

		pool->blocks = block->next;
		free(block);
	}
	*pool = (struct wr_central_pool){0};
}

struct wr_central_part *wr_central_part_new(struct wr_central *central)
{
	struct wr_central_part *part =
		wr_central_pool_take(&central->parts, sizeof *part, WR_CENTRAL_PARTS_MAX);

	/* Clears all fields of the part except the last one, the text of the limit's id. */
	if (part)
		memset(part, 0, offsetof(struct wr_central_part, id));
	return part;
}

void wr_central_part_free(struct wr_central *central, struct wr_central_part *part)
{
	wr_central_pool_give(&central->parts, part);
}

/* The maximum number of calls is twice the maximum number of parts, because connections need calls
 * without parts. */
struct wr_call *wr_call_new(struct wr_central *central, enum wr_call_kind kind)
{
	struct wr_call *call =
		wr_central_pool_take(&central->calls, sizeof *call, 2 * WR_CENTRAL_PARTS_MAX);

	wr_assert(kind < WR_CALL_KINDS);
	if (call)
		*call = (struct wr_call){.magic = WR_CALL_MAGIC, .kind = (uint8_t)kind};
	return call;
}

static void free_parts(struct wr_central *central, struct wr_central_part *parts)
{
	while (parts) {
		struct wr_central_part *part = parts;

		parts = part->call_next;
		wr_central_part_free(central, part);
	}
}

void wr_call_free(struct wr_central *central, struct wr_call *call)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	free_parts(central, call->first);
	free_parts(central, call->later);
	if (!call->written)
		central->batch++; /* begins a new batch, so that no take joins this call */
	if (call->busy)
		*call->busy = false;
	call->magic = 0;
	wr_central_pool_give(&central->calls, call);
}

void wr_call_add(struct wr_call *call, struct wr_central_part *part)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	wr_assert((call->count == 0) == !call->first);
	part->call = call;
	part->call_next = NULL;
	if (call->last)
		call->last->call_next = part;
	else
		call->first = part;
	call->last = part;
	call->count++;
}

struct wr_central_part *wr_call_detach_parts(struct wr_call *call)
{
	struct wr_central_part *first = call->first;

	wr_assert_magic(call, WR_CALL_MAGIC);
	call->first = call->last = NULL;
	call->count = 0;
	return first;
}
