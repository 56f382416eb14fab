/* Secrets in files that other users cannot read: passwords, and secret keys of 32 to 256
 * characters. "Key" below means a secret key. */
#ifndef WR_BASE_SECRET_H
#define WR_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>

#define WR_SECRET_MIN 32u
#define WR_SECRET_MAX 256u

struct wr_secret {
	size_t len; /* 0: no key */
	char text[WR_SECRET_MAX];
};

enum wr_secret_access {
	/* The file must belong to root or to the user of this process. Only its owner is allowed to
	 * have access to it (mode 0600). */
	WR_SECRET_PRIVATE,
	/* The file can belong to any user, and its group is allowed to read it too. A service needs
	 * this if root starts it and it then changes its user: it reads the file again as the new
	 * user. */
	WR_SECRET_SHARED,
};

/* Reads a file with secrets into `text` and sets *len. The file must have fewer than `cap` bytes.
 * The caller erases `text` after use; after an error `text` is already erased. Returns 0 or
 *   WEIR_EACCESS  the file is not regular, or `access` does not allow its owner or mode
 *   WEIR_EFORMAT  the file has `cap` bytes or more
 *   WEIR_ESYS     the file cannot be read; errno says why
 * The text of `error` begins with the path. */
int wr_secret_file_read(const char *path, enum wr_secret_access access, char *text, size_t cap,
			size_t *len, struct weir_error *error);

/* Reads a key, which is the only line of its file. The file has to meet the conditions of
 * WR_SECRET_PRIVATE. Returns 0, an error of wr_secret_file_read, or WEIR_EFORMAT if the file
 * contains no valid key. */
int wr_secret_read(const char *path, struct wr_secret *key, struct weir_error *error);

/* Creates a file of mode 0600 with a new random key. Replaces an existing file at `path`.
 * Returns 0 or an error. */
int wr_secret_make(const char *path, struct weir_error *error);

/* Returns whether `text` is the key. The duration of the comparison does not depend on the bytes of
 * the text or of the key. */
bool wr_secret_is(const struct wr_secret *key, const char *text, size_t len);

#endif
