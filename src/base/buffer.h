/* A buffer of bytes that grows up to a maximum. The maximum is set when the buffer is initialized.
 *
 * Appending fails if the content would exceed the maximum or there is no memory. After a failure
 * every later append fails too, so that a caller can append many pieces and check wr_buf_failed()
 * once at the end. After a failure, the content consists of the pieces that were appended before
 * it. A piece is never appended in part.
 *
 * Once the buffer has memory, a zero byte always follows the content, so that text can be used as a
 * C string. The zero byte is not part of the content. */
#ifndef WR_BASE_BUFFER_H
#define WR_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

/* A limit on the memory that several buffers allocate together. One thread at a time may use the
 * buffers of a room. */
struct wr_buf_room {
	size_t held; /* number of bytes that the buffers have allocated */
	size_t max;  /* maximum of `held` */
};

struct wr_buf {
	char *ptr;                /* the content; NULL: no memory was allocated yet */
	size_t len;               /* number of bytes of content */
	size_t cap;               /* number of bytes of memory at ptr, including the zero byte */
	size_t max;               /* maximum of `len` */
	struct wr_buf_room *room; /* limits the memory of this and other buffers; may be NULL */
	bool borrowed;            /* the memory at ptr belongs to the caller */
	int failed; /* 0, WEIR_EROOM (`max` or `room` was exceeded) or WEIR_EMEMORY (no memory) */
};

/* Initializes an empty buffer that allocates its memory. The caller frees the memory with
 * wr_buf_free(). */
void wr_buf_init(struct wr_buf *buf, size_t max);

/* Initializes an empty buffer that uses `size` bytes of the caller's memory. `size` is at least 1,
 * and the content has at most size - 1 bytes. */
void wr_buf_init_fixed(struct wr_buf *buf, void *memory, size_t size);

/* Initializes an empty buffer that uses `size` bytes of the caller's memory first, and allocates
 * memory for a content of `size` bytes or more. `size` is at least 1. The memory that is allocated
 * counts in `room`, which may be NULL. The caller calls wr_buf_free(). */
void wr_buf_init_first(struct wr_buf *buf, void *memory, size_t size, size_t max,
		       struct wr_buf_room *room);

/* Frees the memory that was allocated. Afterwards the buffer is empty and can be used again with
 * the same maximum. */
void wr_buf_free(struct wr_buf *buf);

/* Empties the buffer and sets `failed` to 0. The memory stays allocated for the next content. */
void wr_buf_clear(struct wr_buf *buf);

char *wr_buf_grow(struct wr_buf *buf, size_t more); /* for wr_buf_reserve() only */

/* Returns room for `more` bytes behind the content, or NULL. The caller writes to it and calls
 * wr_buf_commit(). The pointer is valid until the next call on the buffer. */
static inline char *wr_buf_reserve(struct wr_buf *buf, size_t more)
{
	if (__builtin_expect(buf->failed || more >= buf->cap - buf->len, 0))
		return wr_buf_grow(buf, more);
	return buf->ptr + buf->len;
}

/* Adds the first `used` bytes of the reserved room to the content. `used` must not be larger than
 * `more` of the preceding wr_buf_reserve(). */
static inline void wr_buf_commit(struct wr_buf *buf, size_t used)
{
	wr_assert(buf->ptr && used < buf->cap - buf->len);
	buf->len += used;
	buf->ptr[buf->len] = '\0';
}

/* The functions below append a piece and return true on success. `bytes` may be NULL if `len` is 0.
 */
bool wr_buf_add_slow(struct wr_buf *buf, const void *bytes, size_t len); /* for wr_buf_add() only */
bool wr_buf_printf(struct wr_buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline bool wr_buf_add(struct wr_buf *buf, const void *bytes, size_t len)
{
	if (__builtin_expect(buf->failed || len == 0 || len >= buf->cap - buf->len, 0))
		return wr_buf_add_slow(buf, bytes, len);
	wr_assert(buf->ptr);
	memcpy(buf->ptr + buf->len, bytes, len);
	buf->len += len;
	buf->ptr[buf->len] = '\0';
	return true;
}

bool wr_buf_add_uint(struct wr_buf *buf, uint64_t number); /* appends decimal digits */

static inline bool wr_buf_add_str(struct wr_buf *buf, struct weir_str text)
{
	return wr_buf_add(buf, text.ptr, text.len);
}

static inline bool wr_buf_add_char(struct wr_buf *buf, char c)
{
	return wr_buf_add(buf, &c, 1);
}

/* Removes the first `len` bytes of the content and moves the rest to the front. `len` must not be
 * larger than buf->len. */
void wr_buf_drop(struct wr_buf *buf, size_t len);

/* Empties the buffer and returns its content, which the caller frees with free(). Returns NULL if
 * the buffer has failed or has no memory. `buf` must not use memory of the caller, and has no
 * room. */
char *wr_buf_release(struct wr_buf *buf, size_t *len);

static inline bool wr_buf_failed(const struct wr_buf *buf)
{
	return buf->failed != 0;
}

/* Returns the content, which is valid until the next call that changes the buffer. The pointer is
 * never NULL. */
static inline struct weir_str wr_buf_str(const struct wr_buf *buf)
{
	return (struct weir_str){buf->ptr ? buf->ptr : "", buf->len};
}

#endif
