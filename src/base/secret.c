/* Reads, creates and compares secrets in files: passwords, and secret keys. */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define RANDOM_BYTES 32
#define FILE_BYTES (WR_SECRET_MAX + 3) /* longest secret + \r\n + a byte to detect longer files */

/* Checks the type, the owner and the mode of an open file. */
static int check_rights(int fd, const char *path, enum wr_secret_access access,
			struct weir_error *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return wr_error_errno(error, WEIR_ESYS, "%s", path);
	if (!S_ISREG(st.st_mode))
		return wr_error(error, WEIR_EACCESS, "%s is not a regular file", path);
	if (access == WR_SECRET_PRIVATE && st.st_uid != 0 && st.st_uid != geteuid())
		return wr_error(error, WEIR_EACCESS,
				"%s belongs to user %u, neither to this user nor to root", path,
				(unsigned)st.st_uid);
	if (st.st_mode & (access == WR_SECRET_PRIVATE ? 077 : 027))
		return wr_error(error, WEIR_EACCESS,
				"%s is accessible to other users: run chmod 600 on it", path);
	return 0;
}

int wr_secret_file_read(const char *path, enum wr_secret_access access, char *text, size_t cap,
			size_t *len, struct weir_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = -1;
	int rc;

	*len = 0;
	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "%s", path);
	rc = check_rights(fd, path, access, error);
	if (rc == 0 && (n = read(fd, text, cap)) < 0)
		rc = wr_error_errno(error, WEIR_ESYS, "%s", path);
	close(fd);
	if (rc == 0 && (size_t)n == cap)
		rc = wr_error(error, WEIR_EFORMAT, "%s is larger than %zu bytes", path, cap - 1);
	if (rc == 0)
		*len = (size_t)n;
	else
		explicit_bzero(text, cap);
	return rc;
}

int wr_secret_read(const char *path, struct wr_secret *key, struct weir_error *error)
{
	char text[FILE_BYTES];
	size_t len;
	int rc = wr_secret_file_read(path, WR_SECRET_PRIVATE, text, sizeof text, &len, error);

	*key = (struct wr_secret){0};
	if (rc < 0 && rc != WEIR_EFORMAT)
		return rc;
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len < WR_SECRET_MIN || len > WR_SECRET_MAX || memchr(text, '\n', len))
		return wr_error(error, WEIR_EFORMAT,
				"%s does not contain one line of %u to %u characters; openssl rand "
				"-hex 32 prints such a line",
				path, WR_SECRET_MIN, WR_SECRET_MAX);
	memcpy(key->text, text, len);
	key->len = len;
	return 0;
}

static int write_key(int fd, const char *path, struct weir_error *error)
{
	unsigned char bytes[RANDOM_BYTES];
	char text[2 * RANDOM_BYTES + 2];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return wr_error_errno(error, WEIR_ESYS, "no random numbers for a key");
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	text[2 * RANDOM_BYTES] = '\n';
	if (write(fd, text, 2 * RANDOM_BYTES + 1) != 2 * RANDOM_BYTES + 1)
		return wr_error_errno(error, WEIR_ESYS, "cannot write %s", path);
	return 0;
}

int wr_secret_make(const char *path, struct weir_error *error)
{
	int fd, rc;

	if (unlink(path) < 0 && errno != ENOENT)
		return wr_error_errno(error, WEIR_ESYS, "cannot replace %s", path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot create %s", path);
	rc = write_key(fd, path, error);
	if (close(fd) < 0 && rc == 0)
		rc = wr_error_errno(error, WEIR_ESYS, "cannot write %s", path);
	if (rc < 0)
		unlink(path);
	return rc;
}

bool wr_secret_is(const struct wr_secret *key, const char *text, size_t len)
{
	size_t differ = key->len ^ len;

	for (size_t i = 0; i < WR_SECRET_MAX; i++)
		differ |= (size_t)((unsigned char)key->text[i] ^
				   (i < len ? (unsigned char)text[i] : 0u));
	return key->len > 0 && differ == 0;
}
