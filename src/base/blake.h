/* BLAKE2s (RFC 7693) without a key, with a digest of 16 bytes. It is used for names whose hash must
 * be the same on every node and in every version, so the hash cannot depend on a secret. A client
 * cannot find two texts with the same digest. BLAKE2s is several times slower than the hash of
 * base/hash.h. BLAKE2s is implemented here, because libweir links no library that provides it; only
 * the layers above libweir use OpenSSL. */
#ifndef WR_BASE_BLAKE_H
#define WR_BASE_BLAKE_H

#include <stddef.h>
#include <stdint.h>

#define WR_BLAKE_BYTES 16u
#define WR_BLAKE_BLOCK 64u

struct wr_blake {
	uint32_t h[8];
	uint64_t fed; /* number of bytes that were compressed into h */
	size_t held;  /* number of bytes in `block`, which are not compressed yet */
	uint8_t block[WR_BLAKE_BLOCK];
};

void wr_blake_begin(struct wr_blake *blake);

void wr_blake_feed(struct wr_blake *blake, const void *bytes, size_t len);

void wr_blake_end(struct wr_blake *blake, uint8_t digest[WR_BLAKE_BYTES]);

#endif
