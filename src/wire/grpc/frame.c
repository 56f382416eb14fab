/* Reads and writes gRPC messages with their five-byte prefix. Called by serve/grpc/run.c and
 * reply.c. */
#include "wire/grpc/grpc.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* Size of the first allocation for a message that does not fit into the reader. */
#define FIRST_CAP 2048u

static size_t take_prefix(struct wr_grpc_reader *reader, struct weir_str data)
{
	size_t want = WR_GRPC_PREFIX - (size_t)reader->prefix_used;
	size_t got = data.len < want ? data.len : want;

	if (got)
		memcpy(reader->prefix + reader->prefix_used, data.ptr, got);
	reader->prefix_used = (uint8_t)(reader->prefix_used + got);
	return got;
}

static int begin_message(struct wr_grpc_reader *reader, struct weir_error *error)
{
	const uint8_t *p = reader->prefix;

	if (p[0] > 1)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"a message begins with 0 or 1, not with %u", p[0]);
	reader->compressed = p[0] == 1;
	reader->len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (reader->len > reader->max)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
				"a message has at most %u bytes, this one has %u", reader->max,
				reader->len);
	return 0;
}

/* Grows the buffer to at least `want` bytes. `want` counts the bytes that have arrived and not the
 * announced length, so that a client cannot occupy memory by announcing a long message. */
static int grow_message(struct wr_grpc_reader *reader, size_t want, struct weir_error *error)
{
	size_t cap = reader->cap ? reader->cap : FIRST_CAP;
	struct wr_grpc_room *room = reader->room;
	uint8_t *more;

	while (cap < want)
		cap *= 2;
	cap = cap < reader->len ? cap : reader->len;
	if (cap - reader->cap > room->max - room->held)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
				"too many long messages at once on this connection");
	more = realloc(reader->more, cap);
	if (!more)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
	if (!reader->more && reader->used)
		memcpy(more, reader->here, reader->used);
	room->held += cap - reader->cap;
	reader->more = more;
	reader->cap = (uint32_t)cap;
	return 0;
}

static int append_bytes(struct wr_grpc_reader *reader, const char *bytes, size_t len,
			struct weir_error *error)
{
	size_t want = reader->used + len;
	uint8_t *to = reader->here;

	if (reader->more || want > sizeof reader->here) {
		if (want > reader->cap && grow_message(reader, want, error) != 0)
			return -1;
		to = reader->more;
		wr_assert(to);
	}
	if (len)
		memcpy(to + reader->used, bytes, len);
	reader->used = (uint32_t)want;
	return 0;
}

int wr_grpc_read(struct wr_grpc_reader *reader, struct weir_str *data, struct weir_error *error)
{
	size_t took;

	wr_assert(reader->room && reader->max);
	wr_assert(reader->prefix_used <= WR_GRPC_PREFIX && reader->used <= reader->max);
	if (reader->prefix_used < WR_GRPC_PREFIX) {
		took = take_prefix(reader, *data);
		*data = (struct weir_str){data->ptr + took, data->len - took};
		if (reader->prefix_used < WR_GRPC_PREFIX)
			return 0;
		if (begin_message(reader, error) != 0)
			return -1;
	}
	took = reader->len - reader->used;
	took = data->len < took ? data->len : took;
	if (append_bytes(reader, data->ptr, took, error) != 0)
		return -1;
	*data = (struct weir_str){data->ptr + took, data->len - took};
	return reader->used == reader->len;
}

void wr_grpc_reader_reset(struct wr_grpc_reader *reader)
{
	wr_assert((reader->more == NULL) == (reader->cap == 0));
	wr_assert(!reader->more || reader->room->held >= reader->cap);
	if (reader->more) {
		reader->room->held -= reader->cap;
		free(reader->more);
	}
	reader->more = NULL;
	reader->cap = 0;
	reader->len = 0;
	reader->used = 0;
	reader->prefix_used = 0;
	reader->compressed = false;
}

void wr_grpc_prefix_write(uint8_t prefix[WR_GRPC_PREFIX], size_t len)
{
	wr_assert(len <= UINT32_MAX);
	prefix[0] = 0;
	prefix[1] = (uint8_t)(len >> 24);
	prefix[2] = (uint8_t)(len >> 16);
	prefix[3] = (uint8_t)(len >> 8);
	prefix[4] = (uint8_t)len;
}
