/* BLAKE2s (RFC 7693) without a key, cut to 16 bytes: names that have to be the same on every node
 * and for ever, so no secret can go in, and that nobody may be able to make collide. Several times
 * slower than base/hash.h. Written here because libweir links no library that has one: OpenSSL is
 * for the layers above it. */
#ifndef WR_BASE_BLAKE_H
#define WR_BASE_BLAKE_H

#include <stddef.h>
#include <stdint.h>

#define WR_BLAKE_BYTES 16u
#define WR_BLAKE_BLOCK 64u

struct wr_blake {
	uint32_t h[8];
	uint64_t fed; /* bytes that went into h */
	size_t held;  /* … and that are in block */
	uint8_t block[WR_BLAKE_BLOCK];
};

void wr_blake_begin(struct wr_blake *blake);

void wr_blake_feed(struct wr_blake *blake, const void *bytes, size_t len);

void wr_blake_end(struct wr_blake *blake, uint8_t digest[WR_BLAKE_BYTES]);

#endif
