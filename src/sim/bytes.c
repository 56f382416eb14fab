/* Growable buffers and memory of the simulator. Every file of the simulator calls these
 * functions. */
#include "sim/bytes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 64u
#define FIRST_ELEMENTS 8u

void wr_sim_no_memory(void)
{
	fputs("sim: no memory\n", stderr);
	abort();
}

void *wr_sim_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		wr_sim_no_memory();
	return memory;
}

void *wr_sim_grow(void *array, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? 2 * *cap : FIRST_ELEMENTS;
	array = realloc(array, *cap * size);
	if (!array)
		wr_sim_no_memory();
	return array;
}

uint8_t *wr_bytes_more(struct wr_bytes *bytes, size_t len)
{
	if (bytes->len + len > bytes->cap) {
		size_t cap = bytes->cap ? bytes->cap : FIRST_BYTES;
		uint8_t *at;

		while (cap < bytes->len + len)
			cap *= 2;
		at = realloc(bytes->at, cap);
		if (!at)
			wr_sim_no_memory();
		bytes->at = at;
		bytes->cap = cap;
	}
	bytes->len += len;
	return bytes->at + bytes->len - len;
}

void wr_bytes_add(struct wr_bytes *bytes, const void *from, size_t len)
{
	if (len)
		memcpy(wr_bytes_more(bytes, len), from, len);
}

void wr_bytes_set(struct wr_bytes *bytes, const void *from, size_t len)
{
	bytes->len = 0;
	wr_bytes_add(bytes, from, len);
}

void wr_bytes_print(struct wr_bytes *bytes, const char *format, ...)
{
	char text[1024];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	assert(len >= 0 && (size_t)len < sizeof text);
	wr_bytes_add(bytes, text, (size_t)len);
}

void wr_bytes_drop(struct wr_bytes *bytes, size_t len)
{
	bytes->len -= len;
	if (bytes->len)
		memmove(bytes->at, bytes->at + len, bytes->len);
}

void wr_bytes_free(struct wr_bytes *bytes)
{
	free(bytes->at);
	*bytes = (struct wr_bytes){0};
}
