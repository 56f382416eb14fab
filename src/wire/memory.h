/* Memory for one message at a time: handed out from the front, taken back all at once. It is made
 * once for each loop, so reading and answering a request allocates nothing, and a message that
 * would unfold into more than this is refused. */
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
	bool full;                    /* something did not fit since the last reset */
	ProtobufCAllocator allocator; /* hands out from here; frees nothing */
};

/* WEIR_EMEMORY */
int wr_rls_memory_init(struct wr_rls_memory *memory, size_t size);
void wr_rls_memory_free(struct wr_rls_memory *memory);

/* All that was handed out is void. */
static inline void wr_rls_memory_reset(struct wr_rls_memory *memory)
{
	memory->used = 0;
	memory->full = false;
}

/* Aligned for any object, not zeroed; NULL when it is full. */
void *wr_rls_alloc(struct wr_rls_memory *memory, size_t size);

/* The same for `count` of them. */
void *wr_rls_alloc_many(struct wr_rls_memory *memory, size_t count, size_t size);

#endif
