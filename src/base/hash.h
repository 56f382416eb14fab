/* Hashes keys with a secret. Each table has its own secret, so that a client cannot choose keys
 * that all fall into the same part of the table, or a key that has the same hash as another key. */
#ifndef WR_BASE_HASH_H
#define WR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WR_SECRET_BYTES 192

/* The hash of a key. The hash identifies the key in a table. The rows of the key are computed from
 * the hash and the size of the table, so cells can be moved to a table of another size without
 * knowing the key itself. */
struct wr_key {
	uint64_t tag;
};

/* Hashes a key for a limit. `identity` is limit->checked, which differs from limit to limit, so
 * that different limits on the same key have different counters. limit->checked is a hash itself,
 * so an exclusive or suffices to combine it with the hash of the key. */
static inline struct wr_key wr_hash_key(const uint8_t *secret, const void *bytes, size_t len,
					uint64_t identity)
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(bytes, len, secret, WR_SECRET_BYTES);
	struct wr_key key = {hash.low64 ^ hash.high64 ^ identity};

	return key;
}

#endif
