/* Keyed hashing. A table has a secret of its own, so a client cannot aim at a row or at another
 * key. */
#ifndef WR_BASE_HASH_H
#define WR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WR_SECRET_BYTES 192

/* Identifies a key in a table and names its candidate rows, its home in them and its hint, so that
 * a table of any size can be rebuilt from its cells. */
struct wr_key {
	uint64_t tag;
};

/* `identity` keeps the counters of different limits on one key apart; it is well mixed already
 * (weir_limit_check does that). */
static inline struct wr_key wr_hash_key(const uint8_t *secret, const void *bytes, size_t len,
					uint64_t identity)
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(bytes, len, secret, WR_SECRET_BYTES);
	struct wr_key key = {hash.low64 ^ hash.high64 ^ identity};

	return key;
}

#endif
