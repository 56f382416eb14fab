/* Decompresses gzip with zlib, xz with liblzma, and zstd with libzstd. */
#include "lab/log/unpack.h"

#include <stdlib.h>
#include <string.h>

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/assert.h"

#define XZ_MEMORY_BYTES (128ull << 20) /* `xz -9` needs 65 MiB to decompress */
#define ENDED_EARLY "the file is cut off"

struct wr_lab_unpacker {
	enum wr_lab_packing packing;
	/* The last compressed part is complete. */
	bool between;
	z_stream gzip;
	lzma_stream xz;
	ZSTD_DStream *zstd;
};

enum wr_lab_packing wr_lab_packing_of(const uint8_t *bytes, size_t len)
{
	if (len >= 3 && memcmp(bytes, "\x1f\x8b\x08", 3) == 0)
		return WR_LAB_GZIP;
	if (len >= 6 && memcmp(bytes, "\xfd\x37zXZ\0", 6) == 0)
		return WR_LAB_XZ;
	if (len >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0)
		return WR_LAB_ZSTD;
	return WR_LAB_PLAIN;
}

static bool start(struct wr_lab_unpacker *unpacker)
{
	lzma_stream empty = LZMA_STREAM_INIT;

	switch (unpacker->packing) {
	case WR_LAB_GZIP:
		return inflateInit2(&unpacker->gzip, 15 + 16) == Z_OK;
	case WR_LAB_XZ:
		unpacker->xz = empty;
		return lzma_stream_decoder(&unpacker->xz, XZ_MEMORY_BYTES, LZMA_CONCATENATED) ==
		       LZMA_OK;
	default:
		unpacker->zstd = ZSTD_createDStream();
		return unpacker->zstd != NULL;
	}
}

struct wr_lab_unpacker *wr_lab_unpacker_new(enum wr_lab_packing packing)
{
	struct wr_lab_unpacker *unpacker = calloc(1, sizeof *unpacker);

	wr_assert(packing != WR_LAB_PLAIN);
	if (!unpacker)
		return NULL;
	unpacker->packing = packing;
	if (start(unpacker))
		return unpacker;
	free(unpacker);
	return NULL;
}

/* ---- gzip ---- */

/* Between two parts of a gzip file. Zeros may follow the last part, as on a tape. */
static const char *next_gzip_part(struct wr_lab_unpacker *unpacker, struct wr_lab_unpack_step *step)
{
	while (step->in_len && *step->in == 0) {
		step->in++;
		step->in_len--;
	}
	if (step->in_len == 0)
		return NULL;
	if (*step->in != 0x1f)
		return "the bytes behind its compressed part are not gzip";
	unpacker->between = false;
	inflateReset(&unpacker->gzip);
	return NULL;
}

static const char *unpack_gzip(struct wr_lab_unpacker *unpacker, struct wr_lab_unpack_step *step)
{
	z_stream *gzip = &unpacker->gzip;
	const char *reason;
	int rc;

	if (unpacker->between) {
		reason = next_gzip_part(unpacker, step);
		if (reason || unpacker->between)
			return reason;
	}
	gzip->next_in = (uint8_t *)(uintptr_t)step->in; /* zlib does not write to its input */
	gzip->avail_in = (uInt)step->in_len;
	gzip->next_out = (uint8_t *)step->out;
	gzip->avail_out = (uInt)step->out_len;
	rc = inflate(gzip, Z_NO_FLUSH);
	step->in += step->in_len - gzip->avail_in;
	step->in_len = gzip->avail_in;
	step->out += step->out_len - gzip->avail_out;
	step->out_len = gzip->avail_out;
	unpacker->between = rc == Z_STREAM_END;
	if (rc == Z_BUF_ERROR && step->in_ends)
		return ENDED_EARLY;
	return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR ? NULL
								     : "its gzip data is damaged";
}

/* ---- xz ---- */

static const char *unpack_xz(struct wr_lab_unpacker *unpacker, struct wr_lab_unpack_step *step)
{
	lzma_stream *xz = &unpacker->xz;
	lzma_ret rc;

	if (unpacker->between)
		return NULL;
	xz->next_in = step->in;
	xz->avail_in = step->in_len;
	xz->next_out = (uint8_t *)step->out;
	xz->avail_out = step->out_len;
	rc = lzma_code(xz, step->in_ends ? LZMA_FINISH : LZMA_RUN);
	step->in = xz->next_in;
	step->in_len = xz->avail_in;
	step->out += step->out_len - xz->avail_out;
	step->out_len = xz->avail_out;
	switch (rc) {
	case LZMA_STREAM_END:
		unpacker->between = true;
		return NULL;
	case LZMA_OK:
		return NULL;
	case LZMA_BUF_ERROR:
		return step->in_ends ? ENDED_EARLY : NULL;
	case LZMA_MEMLIMIT_ERROR:
		return "its xz dictionary is larger than 128 MiB";
	default:
		return "its xz data is damaged";
	}
}

/* ---- zstd ---- */

static const char *unpack_zstd(struct wr_lab_unpacker *unpacker, struct wr_lab_unpack_step *step)
{
	ZSTD_inBuffer in = {step->in, step->in_len, 0};
	ZSTD_outBuffer out = {step->out, step->out_len, 0};
	size_t rc;

	if (unpacker->between && step->in_len == 0)
		return NULL;
	rc = ZSTD_decompressStream(unpacker->zstd, &out, &in);
	step->in += in.pos;
	step->in_len -= in.pos;
	step->out += out.pos;
	step->out_len -= out.pos;
	if (ZSTD_isError(rc))
		return "its zstd data is damaged";
	unpacker->between = rc == 0;
	return step->in_ends && rc != 0 && in.pos == 0 && out.pos == 0 ? ENDED_EARLY : NULL;
}

const char *wr_lab_unpack(struct wr_lab_unpacker *unpacker, struct wr_lab_unpack_step *step)
{
	switch (unpacker->packing) {
	case WR_LAB_GZIP:
		return unpack_gzip(unpacker, step);
	case WR_LAB_XZ:
		return unpack_xz(unpacker, step);
	default:
		return unpack_zstd(unpacker, step);
	}
}

void wr_lab_unpacker_free(struct wr_lab_unpacker *unpacker)
{
	if (!unpacker)
		return;
	if (unpacker->packing == WR_LAB_GZIP)
		inflateEnd(&unpacker->gzip);
	else if (unpacker->packing == WR_LAB_XZ)
		lzma_end(&unpacker->xz);
	else
		ZSTD_freeDStream(unpacker->zstd);
	free(unpacker);
}
