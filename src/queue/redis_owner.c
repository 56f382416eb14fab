/* The owner name under which a process takes lines of a shared queue. Called by redis_backend.c.
 *
 * A process that starts with the name of a killed one gets that process's lines at once. Two
 * running processes must therefore never have the same name: the name is random and in a file that
 * its user locks. The kernel releases the lock when the process has ended. A process that cannot
 * lock the file uses a random name, and if it is killed its lines are free when their lease
 * expires. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "queue/redis_backend.h"

static int make_name(char name[WR_QUEUE_OWNER_TEXT], struct weir_error *error)
{
	uint64_t random;

	if (RAND_bytes((unsigned char *)&random, sizeof random) != 1)
		return wr_error(error, WEIR_ESYS, "the system has no random numbers");
	snprintf(name, WR_QUEUE_OWNER_TEXT, "%016llx", (unsigned long long)random);
	return 0;
}

/* A file that another user can write to could contain the name of another process. */
static bool is_private(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 022) == 0;
}

/* Returns a descriptor, or below 0 if another process has locked the file or it cannot be used. */
static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

	if (fd < 0)
		return -1;
	if (is_private(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Replaces `name` by the name in the file. If the file has no valid name, writes `name` to it. */
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
	char own[WR_QUEUE_OWNER_TEXT];
	int rc = make_name(owner->name, error);

	owner->path = path;
	owner->fd = -1;
	if (rc < 0 || !path)
		return rc;
	owner->fd = lock_file(path);
	if (owner->fd < 0)
		return 0;
	memcpy(own, owner->name, sizeof own);
	if (!read_or_write_name(owner->fd, owner->name)) {
		memcpy(owner->name, own, sizeof own);
		close(owner->fd);
		owner->fd = -1;
	}
	return 0;
}

/* Called after all lines were released, so the name is not needed any more. A process that has
 * opened the file before the unlink gets this name, a later one makes a new file. */
void wr_queue_owner_close(struct wr_queue_owner *owner)
{
	if (owner->fd < 0)
		return;
	unlink(owner->path);
	close(owner->fd);
	owner->fd = -1;
}
