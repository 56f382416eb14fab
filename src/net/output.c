/* Manages the output buffers of streams; see output.h. Each free block begins with a pointer to the
 * next free block. */
#include "net/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Returns a free block, or NULL if there is no memory. */
static void *take_block(struct wr_output_blocks *blocks)
{
	void *block = blocks->first;

	if (!block)
		return malloc(WR_OUTPUT_BLOCK_BYTES);
	memcpy(&blocks->first, block, sizeof blocks->first);
	blocks->count--;
	return block;
}

void wr_output_block_give(struct wr_output_blocks *blocks, void *block)
{
	wr_assert(blocks->count <= WR_OUTPUT_BLOCKS_MAX);
	if (!block || blocks->count >= WR_OUTPUT_BLOCKS_MAX) {
		free(block);
		return;
	}
	memcpy(block, &blocks->first, sizeof blocks->first);
	blocks->first = block;
	blocks->count++;
}

void wr_output_blocks_free(struct wr_output_blocks *blocks)
{
	wr_assert((blocks->count == 0) == !blocks->first);
	while (blocks->first) {
		void *block = blocks->first;

		memcpy(&blocks->first, block, sizeof blocks->first);
		free(block);
	}
	blocks->count = 0;
}

/* Moves the buffer to a larger block of at least `need` bytes. Returns 0, or -1 if there is no
 * memory. */
static int grow_output(struct wr_output *buffer, struct wr_output_blocks *blocks, size_t need)
{
	size_t len = wr_output_len(buffer);
	size_t cap = WR_OUTPUT_BLOCK_BYTES;
	uint8_t *base;

	while (cap < need)
		cap *= 2;
	base = cap == WR_OUTPUT_BLOCK_BYTES ? take_block(blocks) : malloc(cap);
	if (!base)
		return -1;
	if (len)
		memcpy(base, wr_output_bytes(buffer), len);
	wr_output_free(buffer, blocks);
	*buffer = (struct wr_output){base, 0, len, cap};
	return 0;
}

uint8_t *wr_output_room(struct wr_output *buffer, struct wr_output_blocks *blocks, size_t more)
{
	size_t len = wr_output_len(buffer);

	wr_assert(buffer->head <= buffer->tail && buffer->tail <= buffer->cap);
	if (buffer->cap - buffer->tail >= more && buffer->base)
		return buffer->base + buffer->tail;
	/* The content is moved to the front of the block only if the content and the new bytes fill
	 * at most half of the block. Otherwise the same bytes would be moved again and again. */
	if (buffer->base && buffer->cap / 2 >= len + more) {
		memmove(buffer->base, wr_output_bytes(buffer), len);
		buffer->head = 0;
		buffer->tail = len;
	} else if (grow_output(buffer, blocks, len + more) < 0) {
		return NULL;
	}
	return buffer->base + buffer->tail;
}

void wr_output_eat(struct wr_output *buffer, struct wr_output_blocks *blocks, size_t used)
{
	wr_assert(used <= wr_output_len(buffer));
	buffer->head += used;
	if (buffer->head == buffer->tail)
		wr_output_free(buffer, blocks);
}

void wr_output_free(struct wr_output *buffer, struct wr_output_blocks *blocks)
{
	wr_assert((buffer->cap == 0) == !buffer->base);
	if (buffer->cap == WR_OUTPUT_BLOCK_BYTES)
		wr_output_block_give(blocks, buffer->base);
	else
		free(buffer->base);
	*buffer = (struct wr_output){0};
}
