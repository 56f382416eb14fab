/* Implements the arena of wire/memory.h. */
#include "wire/memory.h"

#include <stdlib.h>

#include <weir/error.h>

#include "base/assert.h"

#define ALIGN 16u

void *wr_rls_alloc(struct wr_rls_memory *memory, size_t size)
{
	size_t need = (size + ALIGN - 1) / ALIGN * ALIGN;
	void *at = memory->bytes + memory->used;

	wr_assert(memory->bytes && memory->used <= memory->size);
	if (need < size || need > memory->size - memory->used) {
		memory->full = true;
		return NULL;
	}
	memory->used += need;
	return at;
}

void *wr_rls_alloc_many(struct wr_rls_memory *memory, size_t count, size_t size)
{
	size_t bytes;

	wr_assert(size > 0);
	if (__builtin_mul_overflow(count, size, &bytes)) {
		memory->full = true;
		return NULL;
	}
	return wr_rls_alloc(memory, bytes);
}

static void *alloc_from_arena(void *memory, size_t size)
{
	return wr_rls_alloc(memory, size);
}

static void ignore_free(void *memory, void *pointer)
{
	(void)memory;
	(void)pointer;
}

int wr_rls_memory_init(struct wr_rls_memory *memory, size_t size)
{
	wr_assert(memory && size);
	*memory = (struct wr_rls_memory){.size = size / ALIGN * ALIGN};
	memory->allocator = (ProtobufCAllocator){alloc_from_arena, ignore_free, memory};
	memory->bytes = aligned_alloc(ALIGN, memory->size);
	return memory->bytes ? 0 : WEIR_EMEMORY;
}

void wr_rls_memory_free(struct wr_rls_memory *memory)
{
	free(memory->bytes);
	*memory = (struct wr_rls_memory){0};
}
