/* The lock of the shield; see lock.h. */
#include "shield/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* Returns the process id in the file, or 0. */
static long read_pid(int fd)
{
	char text[24] = "";

	return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static int write_pid(int fd)
{
	char text[24];
	int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)len, 0) == len ? 0 : -1;
}

/* In a folder that other users can write to, the file may be somebody else's. */
static bool is_own_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

int wr_nft_lock(const char *table_path, struct weir_error *error)
{
	char path[600];
	int fd, rc;

	snprintf(path, sizeof path, "%s.shield", table_path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot open %s", path);
	if (!is_own_file(fd)) {
		close(fd);
		return wr_error(error, WEIR_EACCESS, "%s does not belong to this user; remove it",
				path);
	}
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && write_pid(fd) == 0)
		return fd;
	rc = errno == EWOULDBLOCK
		     ? wr_error(
			       error, WEIR_EINVAL,
			       "weir shield already runs on this table: process %ld; stop it first",
			       read_pid(fd))
		     : wr_error_errno(error, WEIR_ESYS, "cannot lock %s", path);
	close(fd);
	return rc;
}

/* Reads the name of a process. Returns false if there is no such process. */
static bool read_name(const char *pid, char name[32])
{
	char path[64];
	ssize_t len;
	int fd;

	snprintf(path, sizeof path, "/proc/%s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, name, 31);
	close(fd);
	name[len > 0 ? len : 0] = 0;
	return len > 0;
}

bool wr_nft_is_shield(long pid)
{
	char text[24], own[32], other[32];

	snprintf(text, sizeof text, "%ld", pid);
	return pid > 0 && pid != (long)getpid() && read_name(text, other) &&
	       read_name("self", own) && strcmp(own, other) == 0;
}
