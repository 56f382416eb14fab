/* The unsent output of a stream. Bytes are appended at the end and removed at the front. An empty
 * buffer holds no memory, so an idle connection needs no memory for output. The streams limit the
 * size of their buffers. */
#ifndef WR_NET_OUTPUT_H
#define WR_NET_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#define WR_OUTPUT_BLOCK_BYTES 16384u /* initial size of a buffer */
#define WR_OUTPUT_BLOCKS_MAX 64u     /* a loop keeps at most this many free blocks */

/* A list of free blocks, which the buffers of one loop reuse. */
struct wr_output_blocks {
	void *first;
	size_t count;
};

struct wr_output {
	uint8_t *base;
	size_t head, tail, cap;
};

/* Adds a block to the list, or frees it if the list is full. */
void wr_output_block_give(struct wr_output_blocks *blocks, void *block);
void wr_output_blocks_free(struct wr_output_blocks *blocks);

static inline size_t wr_output_len(const struct wr_output *buffer)
{
	return buffer->tail - buffer->head;
}

static inline uint8_t *wr_output_bytes(const struct wr_output *buffer)
{
	return buffer->base + buffer->head;
}

/* Returns a pointer to free memory for `more` bytes at the end of the buffer, or NULL if there is
 * no memory. */
uint8_t *wr_output_room(struct wr_output *buffer, struct wr_output_blocks *blocks, size_t more);

/* Removes `used` bytes at the front. If no bytes remain, frees the memory of the buffer. */
void wr_output_eat(struct wr_output *buffer, struct wr_output_blocks *blocks, size_t used);

void wr_output_free(struct wr_output *buffer, struct wr_output_blocks *blocks);

#endif
