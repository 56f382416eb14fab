/* An allocator for the memory that the caller provides for one request. Memory is allocated from
 * `at` on. The latest allocations are freed by setting `at` back. */
#ifndef WR_RULES_HTTP_MEMORY_H
#define WR_RULES_HTTP_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct wr_rules_http_memory {
	char *at;
	char *end;
};

/* Allocates `size` bytes. Returns NULL if the memory is used up. */
static inline void *wr_rules_http_memory_take(struct wr_rules_http_memory *memory, size_t size,
					      size_t align)
{
	size_t odd = (uintptr_t)memory->at % align;
	size_t pad = odd ? align - odd : 0;
	char *taken = memory->at + pad;

	if (pad > (size_t)(memory->end - memory->at) || size > (size_t)(memory->end - taken))
		return NULL;
	memory->at = taken + size;
	return taken;
}

#endif
