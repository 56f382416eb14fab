#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 * 1024)

struct wr_arena_block {
	alignas(max_align_t) struct wr_arena_block *next;
};

void wr_arena_init(struct wr_arena *arena, size_t max)
{
	*arena = (struct wr_arena){.max = max};
}

/* Large blocks as the arena grows: few mallocs for big rule sets, little waste for small ones. */
static size_t block_size(const struct wr_arena *arena, size_t size)
{
	size_t usual = arena->held < BLOCK_BYTES        ? BLOCK_BYTES / 16
		       : arena->held < 64 * BLOCK_BYTES ? BLOCK_BYTES
							: 16 * BLOCK_BYTES;

	return size + sizeof(struct wr_arena_block) > usual ? size + sizeof(struct wr_arena_block)
							    : usual;
}

static int grow(struct wr_arena *arena, size_t size)
{
	size_t total = block_size(arena, size);
	struct wr_arena_block *block;

	if (total > arena->max - arena->held)
		total = size + sizeof *block; /* the last bytes below the maximum */
	if (total > arena->max - arena->held)
		return -1;
	block = malloc(total);
	if (!block)
		return -1;
	block->next = arena->blocks;
	arena->blocks = block;
	arena->at = (char *)(block + 1);
	arena->end = (char *)block + total;
	arena->held += total;
	return 0;
}

void *wr_arena_alloc(struct wr_arena *arena, size_t size)
{
	const size_t align = alignof(max_align_t);
	void *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + align - 1) / align * align;
	if (size > (size_t)(arena->end - arena->at) && grow(arena, size) != 0)
		return NULL;
	memory = arena->at;
	arena->at += size;
	return memset(memory, 0, size);
}

char *wr_arena_copy(struct wr_arena *arena, const void *bytes, size_t len)
{
	char *copy = wr_arena_alloc(arena, len + 1);

	if (copy && len)
		memcpy(copy, bytes, len);
	return copy;
}

void wr_arena_free(struct wr_arena *arena)
{
	while (arena->blocks) {
		struct wr_arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
	*arena = (struct wr_arena){.max = arena->max};
}
