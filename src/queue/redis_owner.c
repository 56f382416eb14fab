/* The owner name under which a process takes lines of a shared queue. Called by redis_backend.c.
 *
 * A process that starts with the name of a killed process gets the lines of that process at once.
 * Two running processes must therefore never have the same name. So the name is random, and it is
 * in a file that the process locks while it uses the name. The kernel releases the lock when the
 * process has ended. A process that cannot lock the file uses a random name that is in no file; if
 * such a process is killed, its lines become free when lease_us have passed since their take. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "queue/redis_backend.h"

/* Opens and locks the file. Returns a file descriptor, or a number below 0 if the file cannot be
 * used or another process has locked it. Refuses a file to which other users can write, because
 * they could write the name of another process into it. */
static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    (st.st_mode & 022) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Replaces `name` by the name in the file. If the file contains no valid name, writes `name` to the
 * file. Returns false if writing failed. */
static bool read_or_write_name(int fd, char name[WR_QUEUE_OWNER_TEXT])
{
	char found[WR_QUEUE_OWNER_TEXT] = "";
	ssize_t len = pread(fd, found, sizeof found - 1, 0);

	if (len == WR_QUEUE_OWNER_TEXT - 1 &&
	    strspn(found, "0123456789abcdef") == WR_QUEUE_OWNER_TEXT - 1) {
		memcpy(name, found, WR_QUEUE_OWNER_TEXT);
		return true;
	}
	return ftruncate(fd, 0) == 0 &&
	       pwrite(fd, name, WR_QUEUE_OWNER_TEXT - 1, 0) == WR_QUEUE_OWNER_TEXT - 1;
}

int wr_queue_owner_open(struct wr_queue_owner *owner, const char *path, struct weir_error *error)
{
	uint64_t random;

	owner->path = path;
	owner->fd = -1;
	if (RAND_bytes((unsigned char *)&random, sizeof random) != 1)
		return wr_error(error, WEIR_ESYS, "the system has no random numbers");
	snprintf(owner->name, sizeof owner->name, "%016llx", (unsigned long long)random);
	if (path)
		owner->fd = lock_file(path);
	if (owner->fd >= 0 && !read_or_write_name(owner->fd, owner->name)) {
		close(owner->fd);
		owner->fd = -1;
	}
	return 0;
}

/* Removes the file. Called after all lines were released, when the name is no longer needed. If
 * another process has already opened the file, it may get this name. This does no harm, because the
 * name is no longer in use. */
void wr_queue_owner_close(struct wr_queue_owner *owner)
{
	wr_assert(owner->fd < 0 || owner->path);
	if (owner->fd < 0)
		return;
	unlink(owner->path);
	close(owner->fd);
	owner->fd = -1;
}
