/* Reads and writes gRPC messages with their five-byte prefix. Called by serve/grpc/run.c and
 * reply.c. */
#include "wire/grpc/grpc.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

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
				"the first byte of a gRPC message must be 0 or 1, not %u", p[0]);
	reader->compressed = p[0] == 1;
	reader->len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (reader->len > reader->max)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
				"a message may have at most %u bytes, but this message has %u",
				reader->max, reader->len);
	wr_buf_init_first(&reader->message, reader->here, sizeof reader->here, reader->len,
			  reader->room);
	return 0;
}

/* Appends bytes to the message. The memory grows with the bytes that have arrived and not with the
 * announced length, so that a client cannot occupy memory by announcing a long message. */
static int append_to_frame(struct wr_grpc_reader *reader, const char *bytes, size_t len,
			   struct weir_error *error)
{
	if (wr_buf_add(&reader->message, bytes, len))
		return 0;
	return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
			reader->message.failed == WEIR_EROOM
				? "too many long messages at once on this connection"
				: "out of memory");
}

int wr_grpc_read(struct wr_grpc_reader *reader, struct weir_str *data, struct weir_error *error)
{
	size_t took;

	wr_assert(reader->room && reader->max);
	wr_assert(reader->prefix_used <= WR_GRPC_PREFIX && reader->message.len <= reader->max);
	if (reader->prefix_used < WR_GRPC_PREFIX) {
		took = take_prefix(reader, *data);
		*data = (struct weir_str){data->ptr + took, data->len - took};
		if (reader->prefix_used < WR_GRPC_PREFIX)
			return 0;
		if (begin_message(reader, error) != 0)
			return -1;
	}
	took = reader->len - reader->message.len;
	took = data->len < took ? data->len : took;
	if (append_to_frame(reader, data->ptr, took, error) != 0)
		return -1;
	*data = (struct weir_str){data->ptr + took, data->len - took};
	return reader->message.len == reader->len;
}

void wr_grpc_reader_reset(struct wr_grpc_reader *reader)
{
	wr_buf_free(&reader->message);
	reader->len = 0;
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
