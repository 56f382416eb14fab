/* Implements command.h: a buffer of RESP commands. Called by src/central and src/queue. */
#include "redis/command.h"

#include <stdlib.h>

#include "base/assert.h"

#define FIRST_BYTES 4096u
#define RETAINED_BYTES 65536u /* a buffer larger than this is freed when it is empty */
#define NUMBER_BYTES 21       /* size of a buffer for "-9223372036854775808" */
#define HEAD_BYTES (NUMBER_BYTES + 3)

void wr_commands_init(struct wr_commands *out, size_t max)
{
	*out = (struct wr_commands){.max = max};
}

void wr_commands_free(struct wr_commands *out)
{
	free(out->bytes);
	wr_commands_init(out, out->max);
}

void wr_commands_clear(struct wr_commands *out)
{
	if (out->cap > RETAINED_BYTES) {
		wr_commands_free(out);
		return;
	}
	out->start = out->end = out->mark = 0;
	out->full = false;
}

void wr_commands_sent(struct wr_commands *out, size_t len)
{
	wr_assert(len <= wr_commands_len(out));
	out->start += len;
	if (out->start == out->end)
		wr_commands_clear(out);
}

/* Makes room for `more` bytes after the unsent bytes. If the buffer is large enough, moves the
 * unsent bytes to its front. Otherwise moves them to a larger buffer, which replaces the old one.
 * Returns false if there is no memory. */
static bool grow_buffer(struct wr_commands *out, size_t more)
{
	size_t len = wr_commands_len(out);
	size_t cap = out->cap ? out->cap : FIRST_BYTES;
	uint8_t *bytes;

	while (cap < len + more)
		cap *= 2;
	bytes = cap == out->cap ? out->bytes : malloc(cap);
	if (!bytes)
		return false;
	if (len)
		memmove(bytes, out->bytes + out->start, len);
	if (bytes != out->bytes)
		free(out->bytes);
	out->mark -= out->start;
	out->bytes = bytes;
	out->cap = cap;
	out->start = 0;
	out->end = len;
	return true;
}

static uint8_t *reserve(struct wr_commands *out, size_t more)
{
	if (out->full)
		return NULL;
	if (wr_commands_len(out) + more > out->max ||
	    (out->cap - out->end < more && !grow_buffer(out, more))) {
		out->full = true;
		return NULL;
	}
	return out->bytes + out->end;
}

/* Writes the digits of a number. Returns the position after them. */
static uint8_t *put_digits(uint8_t *at, uint64_t number)
{
	uint8_t digits[NUMBER_BYTES];
	size_t count = 0;

	do {
		digits[count++] = (uint8_t)('0' + number % 10);
		number /= 10;
	} while (number);
	while (count)
		*at++ = digits[--count];
	return at;
}

static uint8_t *put_head(uint8_t *at, char mark, uint64_t number)
{
	*at++ = (uint8_t)mark;
	at = put_digits(at, number);
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

void wr_command_begin(struct wr_commands *out, size_t args)
{
	uint8_t *at;

	wr_assert(args > 0);
	out->mark = out->end;
	out->full = false;
	at = reserve(out, HEAD_BYTES);
	if (at)
		out->end = (size_t)(put_head(at, '*', args) - out->bytes);
}

void wr_command_arg(struct wr_commands *out, const void *bytes, size_t len)
{
	uint8_t *at = reserve(out, HEAD_BYTES + len + 2);

	if (!at)
		return;
	at = put_head(at, '$', len);
	if (len)
		memcpy(at, bytes, len);
	at += len;
	*at++ = '\r';
	*at++ = '\n';
	out->end = (size_t)(at - out->bytes);
}

void wr_command_number(struct wr_commands *out, int64_t number)
{
	uint8_t text[NUMBER_BYTES];
	uint8_t *at = text;

	if (number < 0)
		*at++ = '-';
	at = put_digits(at, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
	wr_command_arg(out, text, (size_t)(at - text));
}

bool wr_command_end(struct wr_commands *out)
{
	if (!out->full)
		return true;
	out->full = false;
	out->end = out->mark;
	if (out->start == out->end)
		wr_commands_clear(out);
	return false;
}
