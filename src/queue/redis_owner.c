/* Who takes lines out of a queue that others use too.
 *
 * Lines are held by a name. Whoever has it takes back at once what was held by it before, so no two
 * processes may have one name at a time: it is random, and in a file that is locked by whoever goes
 * by it. The system gives up the lock of a process that was killed, and not before it is gone. Who
 * cannot have the file goes by a name of his own, and what he holds is free when its lease ends. */
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

static bool is_name(const char *text, ssize_t len)
{
	return len == WR_OWNER_TEXT - 1 && strspn(text, "0123456789abcdef") == WR_OWNER_TEXT - 1;
}

static int make_name(char name[WR_OWNER_TEXT], struct weir_error *error)
{
	uint64_t random;

	if (RAND_bytes((unsigned char *)&random, sizeof random) != 1)
		return wr_error(error, WEIR_ESYS, "there are no random numbers");
	snprintf(name, WR_OWNER_TEXT, "%016llx", (unsigned long long)random);
	return 0;
}

/* One that others could have written might say the name of another process. */
static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 022) == 0;
}

/* Below 0: somebody else has it, or it cannot be had. */
static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

	if (fd < 0)
		return -1;
	if (is_ours(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -1;
}

/* A file without a name, or with half of one, gets the new one. */
static bool agree(int fd, char name[WR_OWNER_TEXT])
{
	char found[WR_OWNER_TEXT] = "";
	ssize_t len = pread(fd, found, sizeof found - 1, 0);

	if (is_name(found, len)) {
		memcpy(name, found, WR_OWNER_TEXT);
		return true;
	}
	return ftruncate(fd, 0) == 0 && pwrite(fd, name, WR_OWNER_TEXT - 1, 0) == WR_OWNER_TEXT - 1;
}

int wr_queue_owner_open(struct wr_queue_owner *owner, const char *path, struct weir_error *error)
{
	char own[WR_OWNER_TEXT];
	int rc = make_name(owner->name, error);

	owner->path = path;
	owner->fd = -1;
	if (rc < 0 || !path)
		return rc;
	owner->fd = lock_file(path);
	if (owner->fd < 0)
		return 0;
	memcpy(own, owner->name, sizeof own);
	if (!agree(owner->fd, owner->name)) {
		memcpy(owner->name, own, sizeof own);
		close(owner->fd);
		owner->fd = -1;
	}
	return 0;
}

/* What it held has gone back, so nobody needs its name any more. Who has opened the file meanwhile
 * goes by this name, others by that of a new file. */
void wr_queue_owner_close(struct wr_queue_owner *owner)
{
	if (owner->fd < 0)
		return;
	unlink(owner->path);
	close(owner->fd);
	owner->fd = -1;
}
