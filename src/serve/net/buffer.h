/* Bytes on their way out: appended behind, taken in front, with a bound. An empty one holds no
 * memory, so ten thousand idle connections have none. */
#ifndef WR_SERVE_NET_BUFFER_H
#define WR_SERVE_NET_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#define WR_BLOCK_BYTES 16384u /* what a buffer begins with */
#define WR_BLOCKS_KEPT 64u

/* Blocks that buffers of one loop have given back. */
struct wr_blocks {
	void *first;
	size_t count;
};

struct wr_buffer {
	uint8_t *base;
	size_t head, tail, cap;
};

void *wr_block_take(struct wr_blocks *blocks); /* NULL: no memory */
void wr_block_give(struct wr_blocks *blocks, void *block);
void wr_blocks_free(struct wr_blocks *blocks);

static inline size_t wr_buffer_len(const struct wr_buffer *buffer)
{
	return buffer->tail - buffer->head;
}

static inline uint8_t *wr_buffer_bytes(const struct wr_buffer *buffer)
{
	return buffer->base + buffer->head;
}

/* Room for `more` bytes behind, or NULL: no memory. */
uint8_t *wr_buffer_room(struct wr_buffer *buffer, struct wr_blocks *blocks, size_t more);

/* Takes away `used` bytes in front; the memory goes back when nothing is left. */
void wr_buffer_eat(struct wr_buffer *buffer, struct wr_blocks *blocks, size_t used);

void wr_buffer_free(struct wr_buffer *buffer, struct wr_blocks *blocks);

#endif
