/* Reads and compares the tokens of the admin API: the tokens of --admin-token-file, and the token
 * that is generated at start. Called by admin.c and when the service starts. */
#include "serve/admin/admin.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/error.h"

#define TOKENS_MAX 64
#define TOKEN_BYTES_MIN 16
#define LINE_BYTES 512
#define NAME_BYTES 64
/* Length of a SHA-256 digest. Digests are compared instead of tokens, so that the duration of the
 * comparison does not depend on the length of a token. */
#define DIGEST_BYTES 32

struct token {
	char name[NAME_BYTES];
	uint8_t digest[DIGEST_BYTES];
};

struct wr_tokens {
	const char *path;
	struct timespec changed;
	size_t count;
	struct token items[TOKENS_MAX];
};

static int digest_of(struct weir_str text, uint8_t digest[DIGEST_BYTES])
{
	return EVP_Digest(text.ptr, text.len, digest, NULL, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

/* Reads a line of the token file: TOKEN or NAME:TOKEN. */
static int read_line(struct wr_tokens *tokens, struct weir_str line, unsigned number,
		     struct weir_error *error)
{
	struct token *token = &tokens->items[tokens->count];
	size_t colon = wr_str_find(line, ':');
	struct weir_str text = colon < line.len ? wr_str_from(line, colon + 1) : line;

	if (tokens->count == TOKENS_MAX)
		return wr_error(error, WEIR_EINVAL, "%s: more than %d tokens", tokens->path,
				TOKENS_MAX);
	if (text.len < TOKEN_BYTES_MIN)
		return wr_error(error, WEIR_EINVAL,
				"%s:%u: a token needs at least %d characters; generate one with "
				"openssl rand -hex 24",
				tokens->path, number, TOKEN_BYTES_MIN);
	if (colon < line.len)
		snprintf(token->name, sizeof token->name, "%.*s", (int)colon, line.ptr);
	else
		snprintf(token->name, sizeof token->name, "line %u", number);
	if (digest_of(text, token->digest) != 0)
		return wr_error(error, WEIR_ESYS, "SHA-256 is not available");
	tokens->count++;
	return 0;
}

static int read_token_lines(struct wr_tokens *tokens, FILE *file, struct weir_error *error)
{
	char line[LINE_BYTES];
	unsigned number = 0;
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof line, file)) {
		struct weir_str text = wr_str(line);

		number++;
		while (text.len &&
		       (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r'))
			text.len--;
		text = wr_str_trim(text);
		if (text.len && text.ptr[0] != '#')
			rc = read_line(tokens, text, number, error);
	}
	OPENSSL_cleanse(line, sizeof line);
	if (rc == 0 && tokens->count == 0)
		rc = wr_error(error, WEIR_EINVAL, "%s has no tokens", tokens->path);
	return rc;
}

static int load_tokens(struct wr_tokens *tokens, struct weir_error *error)
{
	FILE *file = fopen(tokens->path, "re");
	struct stat info;
	int rc;

	if (!file)
		return wr_error_errno(error, WEIR_ESYS, "cannot read the tokens in %s",
				      tokens->path);
	if (fstat(fileno(file), &info) != 0) {
		rc = wr_error_errno(error, WEIR_ESYS, "cannot read the mode of %s", tokens->path);
	} else {
		tokens->changed = info.st_mtim;
		if (!S_ISREG(info.st_mode))
			rc = wr_error(error, WEIR_EACCESS, "%s is not a regular file",
				      tokens->path);
		else if (info.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
			rc = wr_error(error, WEIR_EACCESS,
				      "%s is readable for all users or writable for other users; "
				      "run chmod 640 on it",
				      tokens->path);
		else
			rc = read_token_lines(tokens, file, error);
	}
	fclose(file);
	return rc;
}

int wr_tokens_open(const char *path, struct wr_tokens **tokens, struct weir_error *error)
{
	struct wr_tokens *made = calloc(1, sizeof *made);
	int rc;

	*tokens = NULL;
	if (!made)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	made->path = path;
	rc = load_tokens(made, error);
	if (rc < 0)
		wr_tokens_free(made);
	else
		*tokens = made;
	return rc;
}

void wr_tokens_free(struct wr_tokens *tokens)
{
	if (tokens)
		OPENSSL_cleanse(tokens, sizeof *tokens);
	free(tokens);
}

/* Reads the token file again if it has changed. If that fails, the old tokens stay valid. If the
 * text of the file has an error, the error is logged once, and the file is not read again until
 * it changes. If the file cannot be read at all, for example because the process has too many
 * open files, the next request reads the file again. So a token that was removed from the file does
 * not stay valid until the next change of the file. */
static void refresh_tokens(struct wr_tokens *tokens)
{
	struct wr_tokens *fresh = NULL;
	struct weir_error error;
	struct stat info;
	int rc;

	if (stat(tokens->path, &info) != 0 || (info.st_mtim.tv_sec == tokens->changed.tv_sec &&
					       info.st_mtim.tv_nsec == tokens->changed.tv_nsec))
		return;
	rc = wr_tokens_open(tokens->path, &fresh, &error);
	if (rc < 0) {
		if (rc != WEIR_ESYS && rc != WEIR_EMEMORY)
			tokens->changed = info.st_mtim;
		wr_log(WR_LOG_ERROR, "admin: tokens not updated: %s", error.text);
		return;
	}
	wr_assert(fresh);
	*tokens = *fresh;
	wr_tokens_free(fresh);
	wr_log(WR_LOG_INFO, "admin: %zu tokens read from %s", tokens->count, tokens->path);
}

/* Computes the digest of the token in "Bearer TOKEN". Returns 0, or -1 if the field has another
 * form or the digest fails. */
static int digest_authorization(struct weir_str authorization, uint8_t digest[DIGEST_BYTES])
{
	static const struct weir_str scheme = {"bearer ", 7};

	if (authorization.len <= scheme.len ||
	    !wr_str_equal_nocase(wr_str_first(authorization, scheme.len), scheme))
		return -1;
	return digest_of(wr_str_trim(wr_str_from(authorization, scheme.len)), digest);
}

const char *wr_tokens_find(struct wr_tokens *tokens, struct weir_str authorization)
{
	const char *found = NULL;
	uint8_t digest[DIGEST_BYTES];

	wr_assert(tokens);
	refresh_tokens(tokens);
	if (digest_authorization(authorization, digest) != 0)
		return NULL;
	for (size_t i = 0; i < tokens->count; i++)
		if (CRYPTO_memcmp(digest, tokens->items[i].digest, DIGEST_BYTES) == 0)
			found = tokens->items[i].name;
	return found;
}

/* ---- the generated token ---- */

static char start_token[WR_ADMIN_START_TOKEN];

void wr_admin_random_hex(char *text, size_t size)
{
	uint8_t bytes[WR_ADMIN_START_TOKEN / 2];

	wr_assert(size % 2 == 1 && size / 2 <= sizeof bytes);
	if (getrandom(bytes, size / 2, 0) != (ssize_t)(size / 2))
		return;
	for (size_t i = 0; i < size / 2; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	OPENSSL_cleanse(bytes, sizeof bytes);
}

static void make_start_token(void)
{
	wr_admin_random_hex(start_token, sizeof start_token);
}

static bool wants_start_token(const struct wr_settings *settings)
{
	return !settings->admin_token_file && !settings->admin_open;
}

int wr_admin_make_start_token(const struct wr_settings *settings, struct weir_error *error)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!wants_start_token(settings))
		return 0;
	pthread_once(&once, make_start_token);
	return start_token[0] ? 0
			      : wr_error(error, WEIR_ESYS,
					 "the system has no random bytes for an admin token; "
					 "use --admin-token-file");
}

const char *wr_admin_start_token(const struct wr_settings *settings)
{
	return wants_start_token(settings) && start_token[0] ? start_token : NULL;
}

bool wr_admin_token_matches(const char *token, struct weir_str authorization)
{
	uint8_t wanted[DIGEST_BYTES], digest[DIGEST_BYTES];

	return digest_authorization(authorization, digest) == 0 &&
	       digest_of(wr_str(token), wanted) == 0 &&
	       CRYPTO_memcmp(digest, wanted, DIGEST_BYTES) == 0;
}
