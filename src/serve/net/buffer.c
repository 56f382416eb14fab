#include "serve/net/buffer.h"

#include <stdlib.h>
#include <string.h>

void *wr_block_take(struct wr_blocks *blocks)
{
	void *block = blocks->first;

	if (!block)
		return malloc(WR_BLOCK_BYTES);
	memcpy(&blocks->first, block, sizeof blocks->first);
	blocks->count--;
	return block;
}

void wr_block_give(struct wr_blocks *blocks, void *block)
{
	if (!block || blocks->count >= WR_BLOCKS_KEPT) {
		free(block);
		return;
	}
	memcpy(block, &blocks->first, sizeof blocks->first);
	blocks->first = block;
	blocks->count++;
}

void wr_blocks_free(struct wr_blocks *blocks)
{
	while (blocks->first) {
		void *block = blocks->first;

		memcpy(&blocks->first, block, sizeof blocks->first);
		free(block);
	}
	blocks->count = 0;
}

/* Moves what is there to the front of memory for at least `need` bytes. */
static int grow(struct wr_buffer *buffer, struct wr_blocks *blocks, size_t need)
{
	size_t len = wr_buffer_len(buffer);
	size_t cap = WR_BLOCK_BYTES;
	uint8_t *base;

	while (cap < need)
		cap *= 2;
	base = cap == WR_BLOCK_BYTES ? wr_block_take(blocks) : malloc(cap);
	if (!base)
		return -1;
	if (len)
		memcpy(base, wr_buffer_bytes(buffer), len);
	wr_buffer_free(buffer, blocks);
	*buffer = (struct wr_buffer){base, 0, len, cap};
	return 0;
}

uint8_t *wr_buffer_room(struct wr_buffer *buffer, struct wr_blocks *blocks, size_t more)
{
	size_t len = wr_buffer_len(buffer);

	if (buffer->cap - buffer->tail >= more && buffer->base)
		return buffer->base + buffer->tail;
	if (buffer->base && buffer->cap / 2 >= len + more) { /* cheap: at most half is moved */
		memmove(buffer->base, wr_buffer_bytes(buffer), len);
		buffer->head = 0;
		buffer->tail = len;
	} else if (grow(buffer, blocks, len + more) < 0) {
		return NULL;
	}
	return buffer->base + buffer->tail;
}

void wr_buffer_eat(struct wr_buffer *buffer, struct wr_blocks *blocks, size_t used)
{
	buffer->head += used;
	if (buffer->head == buffer->tail)
		wr_buffer_free(buffer, blocks);
}

void wr_buffer_free(struct wr_buffer *buffer, struct wr_blocks *blocks)
{
	if (buffer->cap == WR_BLOCK_BYTES)
		wr_block_give(blocks, buffer->base);
	else
		free(buffer->base);
	*buffer = (struct wr_buffer){0};
}
