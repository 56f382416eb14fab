/* Memory for many objects that are freed together. An arena has a maximum size. */
#ifndef WR_BASE_ARENA_H
#define WR_BASE_ARENA_H

#include <stddef.h>

struct wr_arena_block;

struct wr_arena {
	struct wr_arena_block *blocks; /* list of all blocks, newest first */
	char *at;                      /* start of the free part of the newest block */
	char *end;
	size_t held; /* total size of all blocks, in bytes */
	size_t max;  /* maximum of `held` */
};

void wr_arena_init(struct wr_arena *arena, size_t max);

/* Returns zeroed memory aligned for any object. Returns NULL if malloc fails or the maximum would
 * be exceeded. */
void *wr_arena_alloc(struct wr_arena *arena, size_t size);

/* Like wr_arena_alloc, but the memory is aligned to a cache line (64 bytes). */
void *wr_arena_alloc_line(struct wr_arena *arena, size_t size);

/* Returns a copy of the bytes, followed by a zero byte. Returns NULL if malloc fails or the maximum
 * would be exceeded. */
char *wr_arena_copy(struct wr_arena *arena, const void *bytes, size_t len);

void wr_arena_free(struct wr_arena *arena);

#endif
