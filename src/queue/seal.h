/* Encryption ("sealing") of header fields with credentials: AES-256-GCM with a key that is not
 * stored in the queue. A sealed value has these parts, with their lengths in bytes:
 *
 *   key id 4 · nonce 12 · ciphertext · tag 16
 *
 * The ticket's hash and the field's name are authenticated together with the value. An attacker who
 * can write to the queue therefore cannot move a credential to another request or field. */
#ifndef WR_QUEUE_SEAL_H
#define WR_QUEUE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_SEAL_EXTRA 32u /* bytes that sealing adds to a value */
#define WR_SEALS_MAX 16u
#define WR_SEAL_KEY_BYTES 32u

struct wr_seal_key {
	uint8_t id[4]; /* identifies the key: the first bytes of its SHA-256 */
	uint8_t bytes[WR_SEAL_KEY_BYTES];
};

/* A list of keys. The first key seals; all keys can unseal. To replace a key, put the new key
 * before the old keys. */
struct wr_seals {
	size_t count;
	struct wr_seal_key keys[WR_SEALS_MAX];
};

/* Reads a key file: lines of 64 hexadecimal digits (blank lines and lines that begin with # are
 * skipped), or a single key as 32 raw bytes. Only the file's owner may have access to it. Returns 0
 * or WEIR_EINVAL. */
int wr_seals_read(const char *path, struct wr_seals *seals, struct weir_error *error);

/* Overwrites the keys in memory. */
void wr_seals_wipe(struct wr_seals *seals);

/* Seals a value: writes value.len + WR_SEAL_EXTRA bytes to `sealed`. Returns false if OpenSSL
 * failed. */
bool wr_seal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	     struct weir_str value, uint8_t *sealed);

/* Decrypts `sealed` in place; *value then points into `sealed`. Returns false if the value was
 * sealed with a key that is not in the list, or if its bytes were changed. */
bool wr_unseal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	       uint8_t *sealed, size_t len, struct weir_str *value);

#endif
