/* Reads key files; encrypts and decrypts header fields. Called by record.c, queue.c and
 * src/serve. */
#include "queue/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "queue/deferred.h"

#define ID_BYTES 4u
#define NONCE_BYTES 12u
#define TAG_BYTES 16u
#define FILE_BYTES_MAX 4096u

_Static_assert(ID_BYTES + NONCE_BYTES + TAG_BYTES == WR_SEAL_EXTRA, "bytes that sealing adds");

/* ---- key files ---- */

static void add_key(struct wr_seals *seals, const uint8_t *bytes)
{
	struct wr_seal_key *key = &seals->keys[seals->count++];
	uint8_t hash[SHA256_DIGEST_LENGTH];

	memcpy(key->bytes, bytes, sizeof key->bytes);
	SHA256(bytes, WR_SEAL_KEY_BYTES, hash);
	memcpy(key->id, hash, sizeof key->id);
}

/* Adds an encryption key that is written as 64 hexadecimal digits. Returns false if the text is not
 * such a key or the list of encryption keys is full. */
static bool add_hex_key(struct wr_seals *seals, struct weir_str digits)
{
	uint8_t bytes[WR_SEAL_KEY_BYTES];

	if (seals->count == WR_SEALS_MAX || !wr_queue_parse_hex(digits, bytes, sizeof bytes))
		return false;
	add_key(seals, bytes);
	OPENSSL_cleanse(bytes, sizeof bytes);
	return true;
}

static bool read_key_lines(struct wr_seals *seals, struct weir_str text)
{
	while (text.len) {
		size_t end = wr_str_find(text, '\n');
		struct weir_str line = wr_str_trim(wr_str_first(text, end));

		if (line.len && line.ptr[line.len - 1] == '\r')
			line.len--;
		if (line.len && line.ptr[0] != '#' && !add_hex_key(seals, line))
			return false;
		text = wr_str_from(text, end < text.len ? end + 1 : end);
	}
	return seals->count > 0;
}

int wr_seals_read(const char *path, struct wr_seals *seals, struct weir_error *error)
{
	char bytes[FILE_BYTES_MAX];
	struct weir_error why;
	size_t len;
	bool good = true;

	wr_assert(seals);
	*seals = (struct wr_seals){0};
	if (wr_secret_file_read(path, WR_SECRET_PRIVATE, bytes, sizeof bytes, &len, &why) < 0)
		return wr_error(error, WEIR_EINVAL, "the key file %s", why.text);
	if (len == WR_SEAL_KEY_BYTES)
		add_key(seals, (const uint8_t *)bytes);
	else
		good = read_key_lines(seals, (struct weir_str){bytes, len});
	OPENSSL_cleanse(bytes, sizeof bytes);
	if (good)
		return 0;
	wr_seals_wipe(seals);
	return wr_error(error, WEIR_EINVAL,
			"the key file %s contains no valid keys; it needs 1 to %u lines of 64 "
			"hexadecimal digits, as `openssl rand -hex 32` prints them",
			path, WR_SEALS_MAX);
}

void wr_seals_wipe(struct wr_seals *seals)
{
	OPENSSL_cleanse(seals, sizeof *seals);
}

/* ---- sealing ---- */

/* Adds the ticket's hash and the field's name to the authenticated data. The name is in lower case,
 * because case does not matter in header names. */
static bool authenticate_names(EVP_CIPHER_CTX *cipher, const uint8_t *ticket_hash,
			       struct weir_str name)
{
	int len;

	if (EVP_CipherUpdate(cipher, NULL, &len, ticket_hash, SHA256_DIGEST_LENGTH) != 1)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = (uint8_t)wr_lower(name.ptr[i]);

		if (EVP_CipherUpdate(cipher, NULL, &len, &c, 1) != 1)
			return false;
	}
	return true;
}

static bool run_cipher(const struct wr_seal_key *key, const uint8_t *ticket_hash,
		       struct weir_str name, const uint8_t *nonce, struct weir_str in, uint8_t *out,
		       uint8_t *tag, bool seal)
{
	EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
	int len = 0, rest = 0;
	bool good =
		cipher && in.len <= INT32_MAX &&
		EVP_CipherInit_ex(cipher, EVP_aes_256_gcm(), NULL, key->bytes, nonce, seal) == 1 &&
		authenticate_names(cipher, ticket_hash, name) &&
		(in.len == 0 ||
		 EVP_CipherUpdate(cipher, out, &len, (const uint8_t *)in.ptr, (int)in.len) == 1) &&
		(seal || EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1) &&
		EVP_CipherFinal_ex(cipher, out + len, &rest) == 1 &&
		(!seal || EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1);

	EVP_CIPHER_CTX_free(cipher);
	return good;
}

bool wr_seal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	     struct weir_str value, uint8_t *sealed)
{
	const struct wr_seal_key *key = &seals->keys[0];
	uint8_t *nonce = sealed + ID_BYTES;

	wr_assert(seals->count > 0);
	/* With random nonces of 96 bits, one encryption key is safe for 2^32 values. A queue never
	 * encrypts so many values. */
	memcpy(sealed, key->id, ID_BYTES);
	return RAND_bytes(nonce, NONCE_BYTES) == 1 &&
	       run_cipher(key, ticket_hash, name, nonce, value, nonce + NONCE_BYTES,
			  nonce + NONCE_BYTES + value.len, true);
}

bool wr_unseal(const struct wr_seals *seals, const uint8_t *ticket_hash, struct weir_str name,
	       uint8_t *sealed, size_t len, struct weir_str *value)
{
	uint8_t *text = sealed + ID_BYTES + NONCE_BYTES;

	if (len < WR_SEAL_EXTRA)
		return false;
	len -= WR_SEAL_EXTRA;
	*value = (struct weir_str){(const char *)text, len};
	for (size_t i = 0; i < seals->count; i++)
		if (memcmp(seals->keys[i].id, sealed, ID_BYTES) == 0)
			return run_cipher(&seals->keys[i], ticket_hash, name, sealed + ID_BYTES,
					  *value, text, text + len, false);
	return false;
}
