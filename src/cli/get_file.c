/* The files of `weir get --out DIR`.
 *
 *     DIR/NAME                a complete file
 *     DIR/.weir-get/NAME      a partial file
 *     DIR/.weir-get/~NAME     the validator of the partial file: its ETag or Last-Modified
 *
 * A partial file gets its name by a rename, when it is complete. The validator is written before the
 * first byte of the body, so that a process killed at any instruction leaves no partial file that
 * another version of the resource could continue. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blake.h"
#include "cli/get.h"

#define PARTIAL ".weir-get"
#define VALIDATOR_MAX 4096u

/* ---- the folder ---- */

/* Checks that no other user can change the partial files: DIR may be a folder of all users. */
static int check_partial(const struct get_files *files)
{
	struct stat info;

	if (fstat(files->partial, &info) == 0 && info.st_uid == geteuid() && !(info.st_mode & 022))
		return 0;
	fprintf(stderr,
		"weir get: %s/" PARTIAL " belongs to another user, or other users can write to it; "
		"use another folder\n",
		files->path);
	return -1;
}

int wr_cli_get_files_open(struct get_files *files, const char *path)
{
	files->path = path;
	files->partial = -1;
	if (mkdir(path, 0777) < 0 && errno != EEXIST) {
		fprintf(stderr, "weir get: cannot make the folder %s: %s\n", path, strerror(errno));
		return -1;
	}
	files->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (files->dir >= 0 && (mkdirat(files->dir, PARTIAL, 0700) == 0 || errno == EEXIST))
		files->partial = openat(files->dir, PARTIAL,
					O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (files->partial >= 0)
		return check_partial(files);
	fprintf(stderr, "weir get: cannot use the folder %s: %s\n", path, strerror(errno));
	return -1;
}

void wr_cli_get_files_close(struct get_files *files)
{
	close(files->partial);
	unlinkat(files->dir, PARTIAL, AT_REMOVEDIR); /* fails if there are partial files */
	close(files->dir);
}

/* ---- names ---- */

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr(".-=&,@+", c));
}

/* Replaces the end of a long name by a digest of the URL without its fragment. No other name has a '~'. */
static void shorten(const char *url, char name[GET_NAME_MAX + 1])
{
	uint8_t digest[WR_BLAKE_BYTES];
	struct wr_blake blake;
	char *at = name + GET_NAME_MAX - 2 * WR_BLAKE_BYTES - 1;

	wr_blake_begin(&blake);
	wr_blake_feed(&blake, url, strcspn(url, "#"));
	wr_blake_end(&blake, digest);
	*at++ = '~';
	for (unsigned i = 0; i < WR_BLAKE_BYTES; i++)
		at += snprintf(at, 3, "%02x", digest[i]);
}

void wr_cli_get_name(const char *url, char name[GET_NAME_MAX + 1])
{
	const char *from = url;
	size_t len = 0;

	if (strncmp(url, "https://", 8) == 0)
		from = url + 8;
	for (; *from && *from != '#'; from++) {
		char text[4] = {*from == '/' ? '_' : *from};

		if (*from != '/' && (!is_plain(*from) || (len == 0 && *from == '.')))
			snprintf(text, sizeof text, "%%%02X", (unsigned char)*from);
		if (len + strlen(text) > GET_NAME_MAX) {
			shorten(url, name);
			return;
		}
		memcpy(name + len, text, strlen(text));
		len += strlen(text);
	}
	name[len] = '\0';
}

static void validator_name(const struct get_item *item, char name[GET_NAME_MAX + 2])
{
	snprintf(name, GET_NAME_MAX + 2, "~%s", item->name);
}

/* ---- before the request ---- */

/* Reads the validator of a partial file. Returns NULL if there is none. */
static char *read_validator(const struct get_item *item)
{
	char name[GET_NAME_MAX + 2], text[VALIDATOR_MAX + 1];
	ssize_t len;
	int fd;

	validator_name(item, name);
	fd = openat(item->files->partial, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	len = read(fd, text, sizeof text);
	close(fd);
	if (len < 2 || len > (ssize_t)VALIDATOR_MAX || text[len - 1] != '\n')
		return NULL;
	text[--len] = '\0';
	for (ssize_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 127)
			return NULL;
	return strdup(text);
}

enum get_end wr_cli_get_file_find(struct get_item *item)
{
	const struct get_files *files = item->files;
	struct stat info;

	if (fstatat(files->dir, item->name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
		if (files->resume)
			return GET_SKIPPED;
		if (!files->overwrite || !S_ISREG(info.st_mode)) {
			item->failed = S_ISREG(info.st_mode)
					       ? "the file exists; use --overwrite to "
						 "replace it, or --resume to keep it"
					       : "a file of another kind has its name";
			return GET_FAILED;
		}
	}
	if (!files->resume || fstatat(files->partial, item->name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(info.st_mode) || info.st_size == 0)
		return GET_COMPLETE;
	item->validator = read_validator(item);
	item->offset = item->validator ? (uint64_t)info.st_size : 0;
	return GET_COMPLETE;
}

/* ---- writing ---- */

static int fail(struct get_item *item, const char *why)
{
	item->failed = why;
	item->failed_errno = why ? 0 : errno;
	return -1;
}

static int write_all(int fd, const char *bytes, size_t len, uint64_t at)
{
	while (len) {
		ssize_t put = pwrite(fd, bytes, len, (off_t)at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		bytes += put;
		at += (uint64_t)put;
		len -= (size_t)put;
	}
	return 0;
}

/* Returns whether the open file still has its name. Another process may have completed and renamed it
 * before this one got the lock. */
static bool has_its_name(const struct get_item *item, const struct stat *opened)
{
	struct stat named;

	return fstatat(item->files->partial, item->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_ino == opened->st_ino && named.st_dev == opened->st_dev;
}

/* Opens the partial file. The lock excludes other processes that load the same URL. */
static int open_partial(struct get_item *item)
{
	struct stat info;

	item->fd = openat(item->files->partial, item->name,
			  O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
	if (item->fd < 0)
		return fail(item, NULL);
	if (flock(item->fd, LOCK_EX | LOCK_NB) < 0)
		return fail(item,
			    "another weir get, or another line of the list, loads the same URL");
	if (fstat(item->fd, &info) < 0)
		return fail(item, NULL);
	if (!has_its_name(item, &info))
		return fail(item, "another weir get has loaded the same URL meanwhile");
	if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != item->offset) {
		if (item->offset)
			return fail(item, "the partial file has changed; start weir get again");
	}
	item->written = item->offset;
	return 0;
}

/* Stores the validator of the body that begins now. Without a validator the file can not be
 * continued later. */
static int write_validator(const struct get_item *item, const struct weir_response *response)
{
	const char *validator = weir_response_validator(response);
	char name[GET_NAME_MAX + 2], text[VALIDATOR_MAX + 2];
	int fd, rc;

	validator_name(item, name);
	unlinkat(item->files->partial, name, 0);
	if (!validator || strlen(validator) >= VALIDATOR_MAX)
		return 0;
	fd = openat(item->files->partial, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	rc = snprintf(text, sizeof text, "%s\n", validator);
	rc = write_all(fd, text, (size_t)rc, 0);
	return close(fd) < 0 ? -1 : rc;
}

/* Empties the partial file, for a body that begins anew. The order matters to a process that is
 * killed in between: an empty file is never continued. */
static int begin_body(struct get_item *item, const struct weir_response *response)
{
	if (ftruncate(item->fd, 0) < 0 || write_validator(item, response) < 0)
		return fail(item, NULL);
	item->written = 0;
	return 0;
}

/* Standard output cannot take bytes back. */
static int write_output(struct get_item *item, uint64_t offset, const void *bytes, size_t len)
{
	item->broken = offset != item->written;
	if (item->broken)
		return fail(item, "the connection broke, and the server cannot continue the body; "
				  "use --out DIR");
	if (fwrite(bytes, 1, len, stdout) != len)
		return fail(item, NULL);
	item->written += len;
	return 0;
}

int wr_cli_get_write(void *context, const struct weir_response *response, uint64_t offset,
		     const void *bytes, size_t len)
{
	struct get_item *item = context;
	bool is_success = response->status >= 200 && response->status < 300;

	if (!is_success && !item->with_errors)
		return 0;
	if (!item->files)
		return write_output(item, offset, bytes, len);
	if (!is_success)
		return 0;
	if (item->fd < 0 && open_partial(item) < 0)
		return -1;
	if (offset == 0 && begin_body(item, response) < 0)
		return -1;
	if (offset != item->written)
		return fail(item, "the server sent another part of the body than was asked for");
	if (write_all(item->fd, bytes, len, offset) < 0)
		return fail(item, NULL);
	item->written += len;
	return 0;
}

/* ---- after the response ---- */

int wr_cli_get_file_finish(struct get_item *item, const struct weir_response *response)
{
	bool is_part = response->status == 206 || response->status == 416;
	char name[GET_NAME_MAX + 2];

	if (item->fd < 0 && open_partial(item) < 0) /* an empty body, or nothing was missing */
		return -1;
	/* An empty body replaces the bytes of an earlier run or attempt. */
	if (!is_part && response->body_len == 0 && begin_body(item, response) < 0)
		return -1;
	if (!item->files->overwrite &&
	    faccessat(item->files->dir, item->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return fail(item, "the file exists; use --overwrite to replace it");
	if (renameat(item->files->partial, item->name, item->files->dir, item->name) < 0)
		return fail(item, NULL);
	validator_name(item, name);
	unlinkat(item->files->partial, name, 0);
	return 0;
}

int wr_cli_get_output_finish(struct get_item *item)
{
	return fflush(stdout) == 0 ? 0 : fail(item, NULL);
}

void wr_cli_get_file_discard(struct get_item *item)
{
	char name[GET_NAME_MAX + 2];

	if (item->fd >= 0)
		close(item->fd);
	item->fd = -1;
	validator_name(item, name);
	unlinkat(item->files->partial, name, 0);
	unlinkat(item->files->partial, item->name, 0);
	free(item->validator);
	item->validator = NULL;
	item->offset = item->written = 0;
}
