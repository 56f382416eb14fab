/* Encryption of header fields that contain credentials. In names, "seal" means to encrypt. The
 * cipher is AES-256-GCM, with an encryption key that is not stored in the queue. An encrypted value
 * has these parts, one after the other:
 *
 *   id of the encryption key (4 bytes), nonce (12 bytes), ciphertext,
 *   authentication code (16 bytes)
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

#define WR_SEAL_EXTRA 32u /* number of bytes that encryption adds to a value */
#define WR_SEALS_MAX 16u
#define WR_SEAL_KEY_BYTES 32u

struct wr_seal_key {
	uint8_t id[4]; /* first bytes of the SHA-256 of the encryption key; they identify it */
	uint8_t bytes[WR_SEAL_KEY_BYTES];
};

/* A list of encryption keys. New values are encrypted with the first key. A value can be decrypted
 * if the key that encrypted it is in the list. To replace a key, put the new key before the old
 * keys. */
struct wr_seals {
	size_t count;
	struct wr_seal_key keys[WR_SEALS_MAX];
};

/* Reads a key file: lines of 64 hexadecimal digits (blank lines and lines that begin with # are
 * skipped), or a single key as 32 raw bytes. Only the file's owner may have access to it. Returns 0
 * or WEIR_EINVAL. */
int wr_seals_read(const char *path, struct wr_seals *seals, struct weir_error *error);

/* Overwrites the encryption keys with zeros, so that they do not stay in memory. */
void wr_seals_wipe(struct wr_seals *seals);

/* Encrypts a value: writes value.len + WR_SEAL_EXTRA bytes to `sealed`. Returns false if OpenSSL
 * failed. */
bool wr_seal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	     struct weir_str value, uint8_t *sealed);

/* Decrypts `sealed` in place; *value then points into `sealed`. Returns false if the value was
 * encrypted with a key that is not in the list, or if its bytes were changed. */
bool wr_unseal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	       uint8_t *sealed, size_t len, struct weir_str *value);

#endif
