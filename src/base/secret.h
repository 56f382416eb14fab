/* A secret in a file that only its owner and root can read: one line of 32 to 256 characters. */
#ifndef WR_BASE_SECRET_H
#define WR_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>

#define WR_SECRET_MIN 32u
#define WR_SECRET_MAX 256u

struct wr_secret {
	size_t len; /* 0: no secret */
	char text[WR_SECRET_MAX];
};

/* Reads the file. Returns 0 or
 *   WEIR_EACCESS  the owner is neither the user of this process nor root, or others may read it
 *   WEIR_EFORMAT  the file holds no usable secret
 *   WEIR_ESYS     the file cannot be read; errno says why */
int wr_secret_read(const char *path, struct wr_secret *key, struct weir_error *error);

/* Creates a file of mode 0600 with a new random secret. Replaces an existing file at `path`.
 * Returns 0 or an error. */
int wr_secret_make(const char *path, struct weir_error *error);

/* Returns whether `text` is the secret. The duration of the comparison does not depend on the bytes
 * of the text or of the secret. */
bool wr_secret_is(const struct wr_secret *key, const char *text, size_t len);

#endif
