/* Decompresses gzip, xz and zstd in pieces. Files may consist of several compressed parts. */
#ifndef WR_LAB_LOG_UNPACK_H
#define WR_LAB_LOG_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wr_lab_packing {
	WR_LAB_PLAIN,
	WR_LAB_GZIP,
	WR_LAB_XZ,
	WR_LAB_ZSTD,
};

#define WR_LAB_MAGIC_BYTES 6u /* the first bytes that tell the packings apart */

struct wr_lab_unpacker;

/* Recognises a packing by the first bytes of a file. */
enum wr_lab_packing wr_lab_packing_of(const uint8_t *bytes, size_t len);

/* Returns NULL without memory. `packing` is not WR_LAB_PLAIN. */
struct wr_lab_unpacker *wr_lab_unpacker_new(enum wr_lab_packing packing);

/* A step of decompression: bytes from [in, in + in_len) to [out, out + out_len). */
struct wr_lab_unpack_step {
	const uint8_t *in;
	size_t in_len;
	char *out;
	size_t out_len;
	bool in_ends; /* the file has no bytes behind these */
};

/* Moves `in` and `out` of the step forward. Returns NULL, or why no further byte can be
 * decompressed. A step that moves neither is at the end of the file. */
const char *wr_lab_unpack(struct wr_lab_unpacker *unpacker, struct wr_lab_unpack_step *step);

void wr_lab_unpacker_free(struct wr_lab_unpacker *unpacker);

#endif
