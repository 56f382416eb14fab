/* A secret in a file that only its owner and root can read: one line of 32 to 256 characters. */
#ifndef WR_BASE_SECRET_H
#define WR_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>

#define WR_SECRET_MIN 32u
#define WR_SECRET_MAX 256u

struct wr_secret {
	size_t len; /* 0: there is none */
	char text[WR_SECRET_MAX];
};

/* Reads the file. WEIR_EACCESS: it belongs to a user who is neither this one nor root, or its mode
 * lets others in; WEIR_EFORMAT: it does not hold a key; WEIR_ESYS, with errno: it cannot be read.
 */
int wr_secret_read(const char *path, struct wr_secret *key, struct weir_error *error);

/* Makes a file with a new random key, mode 0600, in the place of one that is there. */
int wr_secret_make(const char *path, struct weir_error *error);

/* Whether `text` is the key. The time it takes depends on neither of them. */
bool wr_secret_is(const struct wr_secret *key, const char *text, size_t len);

#endif
