/* An arena: memory for one protobuf message and its response at a time. Each loop allocates its
 * arena once, so reading a request and writing its response need no malloc. A message that needs
 * more memory than the arena has is refused. */
#ifndef WR_WIRE_MEMORY_H
#define WR_WIRE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct wr_rls_memory {
	uint8_t *bytes;
	size_t size;
	size_t used;
	bool full;                    /* an allocation has failed since the arena was last reset */
	ProtobufCAllocator allocator; /* lets protobuf-c allocate from this arena, but not free */
};

/* Allocates the arena. Returns 0, or WEIR_EMEMORY if there is no memory. */
int wr_rls_memory_init(struct wr_rls_memory *memory, size_t size);
void wr_rls_memory_free(struct wr_rls_memory *memory);

/* Frees all allocations of the arena. */
static inline void wr_rls_memory_reset(struct wr_rls_memory *memory)
{
	memory->used = 0;
	memory->full = false;
}

/* Allocates `size` bytes, which are aligned for any object and not zeroed. Returns NULL if the
 * arena is full. */
void *wr_rls_alloc(struct wr_rls_memory *memory, size_t size);

/* Allocates an array of `count` objects of `size` bytes, like wr_rls_alloc. */
void *wr_rls_alloc_many(struct wr_rls_memory *memory, size_t count, size_t size);

#endif
