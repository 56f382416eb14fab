/* Inflates gzip messages. Called by serve/grpc/run.c. */
#include "wire/grpc/grpc.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#include "base/assert.h"
#include "base/error.h"

/* The argument windowBits of zlib: 15 for the largest history, plus 16 to accept only gzip
 * input. */
#define GZIP_ONLY (15 + 16)

/* The state of zlib. Each loop has one inflater and reuses its 40 KiB of memory. */
struct wr_grpc_inflater {
	z_stream zip;
};

int wr_grpc_inflater_new(struct wr_grpc_inflater **out)
{
	struct wr_grpc_inflater *inflater = calloc(1, sizeof *inflater);

	if (!inflater)
		return WEIR_EMEMORY;
	if (inflateInit2(&inflater->zip, GZIP_ONLY) != Z_OK) {
		free(inflater);
		return WEIR_EMEMORY;
	}
	*out = inflater;
	return 0;
}

void wr_grpc_inflater_free(struct wr_grpc_inflater *inflater)
{
	if (!inflater)
		return;
	inflateEnd(&inflater->zip);
	free(inflater);
}

int wr_grpc_inflate(struct wr_grpc_inflater *inflater, struct weir_str packed, size_t max,
		    struct wr_rls_memory *memory, struct weir_str *message,
		    struct weir_error *error)
{
	z_stream *zip = &inflater->zip;
	/* room for one byte more than `max`, so that a longer message is detected */
	uint8_t *room = wr_rls_alloc(memory, max + 1);
	int rc;

	wr_assert(inflater && memory && max);
	if (!room)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
	inflateReset(zip);
	zip->next_in = (const Bytef *)packed.ptr;
	zip->avail_in = (uInt)packed.len;
	zip->next_out = room;
	zip->avail_out = (uInt)(max + 1);
	rc = inflate(zip, Z_FINISH);
	if (zip->avail_out == 0)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
				"a message may have at most %zu bytes, but this message has more "
				"after decompression",
				max);
	if (rc != Z_STREAM_END || zip->avail_in != 0)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"the message is not valid gzip data");
	*message = (struct weir_str){(const char *)room, max + 1 - zip->avail_out};
	return 0;
}
