/* Allocates many objects that are freed together, such as a set of rules, from large blocks. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_LINE 64
#define HUGE_PAGE ((size_t)2 * 1024 * 1024)
#define BLOCK_BYTES ((size_t)64 * 1024)

struct wr_arena_block {
	alignas(max_align_t) struct wr_arena_block *next;
};

void wr_arena_init(struct wr_arena *arena, size_t max)
{
	*arena = (struct wr_arena){.max = max};
}

/* Returns the size of the smallest block that has room for an object of `size` bytes. */
static size_t least_size(size_t size)
{
	const size_t align = alignof(max_align_t);

	return (size + sizeof(struct wr_arena_block) + align - 1) / align * align;
}

/* Returns the size of the next block. Blocks become larger as the arena grows, so that large rule
 * sets need few mallocs and small rule sets waste little memory. */
static size_t block_size(const struct wr_arena *arena, size_t size)
{
	size_t usual = arena->held < BLOCK_BYTES        ? BLOCK_BYTES / 16
		       : arena->held < 64 * BLOCK_BYTES ? BLOCK_BYTES
							: 16 * BLOCK_BYTES;

	size = least_size(size);
	if (size < usual)
		size = usual;
	return size < HUGE_PAGE / 2 ? size : (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Allocates a block. Large blocks use huge pages, which reduce the TLB misses of random lookups. */
static struct wr_arena_block *new_block(size_t total)
{
	struct wr_arena_block *block;

	if (total % HUGE_PAGE)
		return malloc(total);
	block = aligned_alloc(HUGE_PAGE, total);
	if (block)
		madvise(block, total, MADV_HUGEPAGE);
	return block;
}

static int add_block(struct wr_arena *arena, size_t size)
{
	size_t total = block_size(arena, size);
	struct wr_arena_block *block;

	if (total > arena->max - arena->held)
		total = least_size(size); /* a block of the usual size would exceed arena->max */
	if (total > arena->max - arena->held)
		return -1;
	block = new_block(total);
	if (!block)
		return -1;
	block->next = arena->blocks;
	arena->blocks = block;
	arena->at = (char *)(block + 1);
	arena->end = (char *)block + total;
	arena->held += total;
	return 0;
}

/* Returns memory that is neither aligned nor zeroed, or NULL. */
static char *take_bytes(struct wr_arena *arena, size_t size)
{
	char *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	if (size > (size_t)(arena->end - arena->at) && add_block(arena, size) != 0)
		return NULL;
	memory = arena->at;
	arena->at += size;
	return memory;
}

static void *alloc_aligned(struct wr_arena *arena, size_t size, size_t align)
{
	size_t slack =
		align - 1; /* aligning the object skips up to this many bytes of a new block */
	size_t odd;
	char *memory;

	if (size > SIZE_MAX / 4)
		return NULL;
	odd = (uintptr_t)arena->at % align;
	if (odd && align - odd <= (size_t)(arena->end - arena->at))
		arena->at += align - odd;
	if ((uintptr_t)arena->at % align || size > (size_t)(arena->end - arena->at)) {
		if (add_block(arena, size + slack) != 0)
			return NULL;
		odd = (uintptr_t)arena->at % align;
		arena->at += odd ? align - odd : 0;
	}
	memory = take_bytes(arena, size ? size : 1);
	return memory ? memset(memory, 0, size) : NULL;
}

void *wr_arena_alloc(struct wr_arena *arena, size_t size)
{
	return alloc_aligned(arena, size, alignof(max_align_t));
}

void *wr_arena_alloc_line(struct wr_arena *arena, size_t size)
{
	return alloc_aligned(arena, size, CACHE_LINE);
}

char *wr_arena_copy(struct wr_arena *arena, const void *bytes, size_t len)
{
	char *copy = take_bytes(arena, len + 1);

	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
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
