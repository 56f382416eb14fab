/* A buffer of bytes that grows up to a maximum, which is set when the buffer is made.
 *
 * Appending fails when the content would exceed the maximum or there is no memory. The failure is
 * sticky: every later append fails too, so that a caller may append many pieces and check
 * wr_buf_failed() once at the end. The content is then a prefix of the pieces, in whole pieces.
 *
 * A zero byte that does not count always follows the content once there is memory, so that text can
 * be used as a C string. */
#ifndef WR_BASE_BUFFER_H
#define WR_BASE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"

struct wr_buf {
	char *ptr;  /* NULL until the first append of a growing buffer */
	size_t len; /* bytes of content */
	size_t cap; /* bytes at ptr, the zero byte included */
	size_t max; /* bytes of content that the buffer may hold */
	bool fixed; /* the memory is the caller's and does not grow */
	bool failed;
};

/* An empty buffer that allocates its memory. The owner calls wr_buf_free(). */
void wr_buf_init(struct wr_buf *buf, size_t max);

/* An empty buffer on memory of the caller, of `size` >= 1 bytes. It holds size - 1 bytes. */
void wr_buf_init_fixed(struct wr_buf *buf, void *memory, size_t size);

/* Frees the memory. The buffer is as after wr_buf_init() with the same maximum. */
void wr_buf_free(struct wr_buf *buf);

/* Empties the buffer and ends a failure. The memory is kept for the next content. */
void wr_buf_clear(struct wr_buf *buf);

/* Returns room for `more` bytes behind the content, or NULL. The caller writes to it and calls
 * wr_buf_commit(). The pointer is valid until the next call on the buffer. */
char *wr_buf_reserve(struct wr_buf *buf, size_t more);

/* Makes `used` bytes of the room part of the content; used <= more of the call before. */
void wr_buf_commit(struct wr_buf *buf, size_t used);

/* Appends; true on success. A piece of length 0 may be NULL. */
bool wr_buf_add_slow(struct wr_buf *buf, const void *bytes, size_t len); /* for wr_buf_add() only */
bool wr_buf_printf(struct wr_buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool wr_buf_vprintf(struct wr_buf *buf, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

static inline bool wr_buf_add(struct wr_buf *buf, const void *bytes, size_t len)
{
	if (__builtin_expect(buf->failed || len == 0 || len >= buf->cap - buf->len, 0))
		return wr_buf_add_slow(buf, bytes, len);
	memcpy(buf->ptr + buf->len, bytes, len);
	buf->len += len;
	buf->ptr[buf->len] = '\0';
	return true;
}

static inline bool wr_buf_add_str(struct wr_buf *buf, struct weir_str text)
{
	return wr_buf_add(buf, text.ptr, text.len);
}

static inline bool wr_buf_add_char(struct wr_buf *buf, char c)
{
	return wr_buf_add(buf, &c, 1);
}

/* Removes `len` <= buf->len bytes from the front. The rest moves to the front. */
void wr_buf_drop(struct wr_buf *buf, size_t len);

/* Returns the content, which the caller frees with free(), and empties the buffer. Returns NULL if
 * the buffer failed or has no memory. Not for a fixed buffer. */
char *wr_buf_release(struct wr_buf *buf, size_t *len);

static inline bool wr_buf_failed(const struct wr_buf *buf)
{
	return buf->failed;
}

/* The content, valid until the next call that changes the buffer. Its ptr is never NULL. */
static inline struct weir_str wr_buf_str(const struct wr_buf *buf)
{
	return (struct weir_str){buf->ptr ? buf->ptr : "", buf->len};
}

#endif
