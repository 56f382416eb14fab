/* BLAKE2s (RFC 7693) without a key, cut to 16 bytes. It is for names that must be equal on every
 * node and in every version, and so cannot depend on a secret. A client cannot find two texts with
 * the same hash. Several times slower than base/hash.h. It is implemented here because libweir
 * links no library that has it; OpenSSL is used only by the layers above libweir. */
#ifndef WR_BASE_BLAKE_H
#define WR_BASE_BLAKE_H

#include <stddef.h>
#include <stdint.h>

#define WR_BLAKE_BYTES 16u
#define WR_BLAKE_BLOCK 64u

struct wr_blake {
	uint32_t h[8];
	uint64_t fed; /* bytes compressed into h */
	size_t held;  /* bytes in block that are not compressed yet */
	uint8_t block[WR_BLAKE_BLOCK];
};

void wr_blake_begin(struct wr_blake *blake);

void wr_blake_feed(struct wr_blake *blake, const void *bytes, size_t len);

void wr_blake_end(struct wr_blake *blake, uint8_t digest[WR_BLAKE_BYTES]);

#endif
