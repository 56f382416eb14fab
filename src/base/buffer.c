/* The functions of base/buffer.h that are not inline: they allocate memory, format text, and remove
 * content. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/error.h>

#include "base/assert.h"

#define FIRST_BYTES 64u

void wr_buf_init(struct wr_buf *buf, size_t max)
{
	wr_assert(max < SIZE_MAX / 2);
	*buf = (struct wr_buf){.max = max};
}

void wr_buf_init_fixed(struct wr_buf *buf, void *memory, size_t size)
{
	wr_assert(memory && size > 0);
	*buf = (struct wr_buf){.ptr = memory, .cap = size, .max = size - 1, .borrowed = true};
	buf->ptr[0] = '\0';
}

void wr_buf_init_first(struct wr_buf *buf, void *memory, size_t size, size_t max,
		       struct wr_buf_room *room)
{
	wr_assert(max < SIZE_MAX / 2);
	wr_buf_init_fixed(buf, memory, size);
	buf->max = max;
	buf->room = room;
}

void wr_buf_free(struct wr_buf *buf)
{
	if (!buf->borrowed) {
		if (buf->room)
			buf->room->held -= buf->cap;
		free(buf->ptr);
		buf->ptr = NULL;
		buf->cap = 0;
	}
	wr_buf_clear(buf);
}

void wr_buf_clear(struct wr_buf *buf)
{
	buf->len = 0;
	buf->failed = 0;
	if (buf->ptr)
		buf->ptr[0] = '\0';
}

/* Returns the size of the memory that has room for `more` bytes behind the content. */
static size_t larger_cap(const struct wr_buf *buf, size_t own, size_t more)
{
	size_t cap = own ? own : FIRST_BYTES;

	while (cap <= buf->len + more)
		cap *= 2;
	return cap <= buf->max ? cap : buf->max + 1;
}

char *wr_buf_grow(struct wr_buf *buf, size_t more)
{
	size_t own = buf->borrowed ? 0 : buf->cap; /* number of bytes that the buffer allocated */
	size_t cap;
	char *larger;

	if (buf->failed)
		return NULL;
	if (more > buf->max - buf->len) {
		buf->failed = WEIR_EROOM;
		return NULL;
	}
	cap = larger_cap(buf, own, more);
	if (buf->room && cap - own > buf->room->max - buf->room->held) {
		buf->failed = WEIR_EROOM;
		return NULL;
	}
	larger = realloc(own ? buf->ptr : NULL, cap);
	if (!larger) {
		buf->failed = WEIR_EMEMORY;
		return NULL;
	}
	if (buf->borrowed)
		memcpy(larger, buf->ptr, buf->len);
	if (buf->room)
		buf->room->held += cap - own;
	buf->ptr = larger;
	buf->cap = cap;
	buf->borrowed = false;
	buf->ptr[buf->len] = '\0';
	return buf->ptr + buf->len;
}

bool wr_buf_add_slow(struct wr_buf *buf, const void *bytes, size_t len)
{
	char *room = wr_buf_reserve(buf, len);

	if (!room)
		return false;
	if (len)
		memcpy(room, bytes, len);
	wr_buf_commit(buf, len);
	return true;
}

/* Does not use printf, because printf is slow and large texts consist mostly of numbers. */
bool wr_buf_add_uint(struct wr_buf *buf, uint64_t number)
{
	char digits[20];
	size_t at = sizeof digits;

	if (number < 10)
		return wr_buf_add_char(buf, (char)('0' + number));
	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	return wr_buf_add(buf, digits + at, sizeof digits - at);
}

/* clang's analyser warns here without reason: it does not recognize the va_start below. */
// NOLINTBEGIN(clang-analyzer-valist.Uninitialized)
bool wr_buf_printf(struct wr_buf *buf, const char *format, ...)
{
	size_t room = buf->cap - buf->len; /* `room` is 0 before the first allocation */
	va_list args;
	int len;

	if (buf->failed)
		return false;
	va_start(args, format);
	len = vsnprintf(room ? buf->ptr + buf->len : NULL, room, format, args);
	va_end(args);
	wr_assert(len >= 0);
	if ((size_t)len >= room) {
		if (room)
			buf->ptr[buf->len] = '\0'; /* restores the zero byte after the content */
		if (!wr_buf_reserve(buf, (size_t)len))
			return false;
		va_start(args, format);
		vsnprintf(buf->ptr + buf->len, (size_t)len + 1, format, args);
		va_end(args);
	}
	wr_buf_commit(buf, (size_t)len);
	return true;
}
// NOLINTEND(clang-analyzer-valist.Uninitialized)

void wr_buf_drop(struct wr_buf *buf, size_t len)
{
	wr_assert(len <= buf->len);
	if (len == 0)
		return;
	buf->len -= len;
	memmove(buf->ptr, buf->ptr + len, buf->len + 1);
}

char *wr_buf_release(struct wr_buf *buf, size_t *len)
{
	char *content = buf->failed ? NULL : buf->ptr;

	wr_assert(!buf->borrowed && !buf->room);
	if (!content) {
		*len = 0;
		wr_buf_free(buf);
		return NULL;
	}
	*len = buf->len;
	wr_buf_init(buf, buf->max);
	return content;
}
