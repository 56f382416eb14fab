/* Fields that hold credentials, sealed at rest: AES-256-GCM with a key that is kept elsewhere.
 *
 *   key id 4 · nonce 12 · ciphertext · tag 16
 *
 * What is sealed belongs to one request and one field: their names are authenticated with it, so
 * that who can write to the queue cannot move a token to a request of his own. */
#ifndef WR_QUEUE_SEAL_H
#define WR_QUEUE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_SEAL_EXTRA 32u /* bytes more than what is sealed */
#define WR_SEALS_MAX 16u
#define WR_SEAL_KEY_BYTES 32u

struct wr_seal_key {
	uint8_t id[4]; /* begin of its SHA-256 */
	uint8_t bytes[WR_SEAL_KEY_BYTES];
};

/* The first seals, all open: a new key is put in front of the old ones. */
struct wr_seals {
	size_t count;
	struct wr_seal_key keys[WR_SEALS_MAX];
};

/* Lines of 64 hexadecimal digits (blank ones and such as begin with # are passed over), or 32 bytes
 * as they are. Nobody but its owner may read the file. WEIR_EINVAL */
int wr_seals_read(const char *path, struct wr_seals *seals, struct weir_error *error);

/* Forgets the keys. */
void wr_seals_wipe(struct wr_seals *seals);

/* Writes value.len + WR_SEAL_EXTRA bytes. False: OpenSSL failed. */
bool wr_seal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	     struct weir_str value, uint8_t *sealed);

/* Opens it where it is; `value` is then within. False: no key fits, or it was changed. */
bool wr_unseal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	       uint8_t *sealed, size_t len, struct weir_str *value);

#endif
