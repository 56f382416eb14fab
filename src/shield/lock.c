/* The lock of the shield; see lock.h. */
#include "shield/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "net/log.h"

#define SOCKET_NAME "weir-shield"
#define BACKLOG 64   /* processes that wait for an answer */
#define TRY_MS 10    /* interval of attempts to reach the holder of the name */
#define TRIES_MAX 50 /* a shield listens, or writes its id, at once after it has the lock */

/* ---- one shield per table ---- */

/* Returns the process id in the file, or 0. */
static long read_pid(int fd)
{
	char text[24] = "";

	return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

/* hugetlbfs locks files, but write() fails with EINVAL. The id is only for the error message of
 * another shield. */
static int write_pid(int fd)
{
	char text[24];
	int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	return ftruncate(fd, 0) == 0 && (pwrite(fd, text, (size_t)len, 0) == len || errno == EINVAL)
		       ? 0
		       : -1;
}

/* In a folder that other users can write to, the file may be somebody else's. */
static bool is_own_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

static int refuse_file(const char *path, struct weir_error *error)
{
	return wr_error(error, WEIR_EACCESS, "%s does not belong to this user; remove it", path);
}

/* Returns the error of an open() that has failed, with a remedy. */
static int report_file(const char *path, struct weir_error *error)
{
	int reason = errno;
	bool denied = reason == EACCES || reason == EROFS;
	struct stat st;

	if (denied && lstat(path, &st) == 0 && st.st_uid != geteuid())
		return refuse_file(path, error);
	errno = reason;
	return wr_error_errno(error, WEIR_ESYS,
			      denied ? "the user of weir shield has to be able to make files in "
				       "the folder of the table: cannot make %s"
				     : "cannot open %s",
			      path);
}

static int refuse_table(long pid, struct weir_error *error)
{
	if (!wr_nft_is_shield(pid))
		return wr_error(error, WEIR_EINVAL,
				"weir shield already runs on this table, perhaps in another "
				"container; stop it first");
	return wr_error(error, WEIR_EINVAL,
			"weir shield already runs on this table: process %ld; stop it first", pid);
}

int wr_nft_lock(const char *table_path, struct weir_error *error)
{
	char path[600];
	int fd, rc = 0;
	long pid;

	snprintf(path, sizeof path, "%s.shield", table_path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return report_file(path, error);
	if (!is_own_file(fd)) {
		close(fd);
		return refuse_file(path, error);
	}
	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 && write_pid(fd) == 0)
			return fd;
		/* The holder writes its id a moment after it has locked the file. Until then the
		 * file is empty, or has the id of an earlier shield. */
		if (errno != EWOULDBLOCK) {
			rc = wr_error_errno(error, WEIR_ESYS, "cannot lock %s", path);
			break;
		}
		pid = read_pid(fd);
		rc = refuse_table(pid, error);
		if (wr_nft_is_shield(pid))
			break;
		poll(NULL, 0, TRY_MS);
	}
	close(fd);
	return rc;
}

/* ---- one shield per network namespace ---- */

static socklen_t socket_address(struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(address->sun_path + 1, SOCKET_NAME, strlen(SOCKET_NAME));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(SOCKET_NAME));
}

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Returns the bound and listening socket, or -1 with errno. */
static int bind_name(void)
{
	struct sockaddr_un address;
	socklen_t len = socket_address(&address);
	int fd = open_socket(), saved;

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Finds the process that holds the name. Returns false if it does not answer. The process id is 0
 * if the process is in another namespace of process ids. */
static bool find_holder(struct ucred *holder)
{
	struct sockaddr_un address;
	socklen_t len = socket_address(&address), size = sizeof *holder;
	int fd = open_socket();
	bool found;

	if (fd < 0)
		return false;
	found = connect(fd, (struct sockaddr *)&address, len) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, holder, &size) == 0;
	close(fd);
	return found;
}

static int refuse(const struct ucred *holder, struct weir_error *error)
{
	if (holder->pid == 0)
		return wr_error(error, WEIR_EINVAL,
				"weir shield already runs in this network namespace, in another "
				"container; stop it first");
	return wr_error(error, WEIR_EINVAL,
			"weir shield already runs in this network namespace: process %ld; stop it "
			"first",
			(long)holder->pid);
}

int wr_nft_lock_namespace(uid_t user, struct weir_error *error)
{
	struct ucred holder = {0};
	bool found = false;

	/* Another shield may be between bind() and listen(), or end at this moment. */
	for (unsigned tries = 0; tries < TRIES_MAX && !found; tries++) {
		int fd = bind_name();

		if (fd >= 0)
			return fd;
		if (errno != EADDRINUSE)
			return wr_error_errno(error, WEIR_ESYS,
					      "cannot bind the socket @" SOCKET_NAME);
		found = find_holder(&holder);
		if (!found)
			poll(NULL, 0, TRY_MS);
	}
	if (found && (holder.uid == 0 || holder.uid == geteuid() || holder.uid == user))
		return refuse(&holder, error);
	if (found)
		wr_log(WR_LOG_WARN,
		       "process %ld of user %lu holds the socket @" SOCKET_NAME
		       " and is no shield; weir shield continues without this lock",
		       (long)holder.pid, (unsigned long)holder.uid);
	else
		wr_log(WR_LOG_WARN, "an unknown process holds the socket @" SOCKET_NAME
				    "; weir shield continues without this lock");
	return wr_error(error, WEIR_ENOENT, "no lock");
}

void wr_nft_lock_answer(int fd)
{
	for (unsigned i = 0; i < BACKLOG && fd >= 0; i++) {
		int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (peer < 0)
			return;
		close(peer);
	}
}

/* Reads the first `cap` - 1 bytes of a file in the folder of a process, and puts a zero byte behind
 * them. Returns their number, or 0 if there is no such process. */
static size_t read_proc(const char *pid, const char *file, char *text, size_t cap)
{
	char path[64];
	ssize_t len;
	int fd;

	text[0] = 0;
	snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	len = read(fd, text, cap - 1);
	close(fd);
	text[len > 0 ? len : 0] = 0;
	return len > 0 ? (size_t)len : 0;
}

static bool has_own_name(const char *pid)
{
	char own[32], other[32];

	return read_proc(pid, "comm", other, sizeof other) &&
	       read_proc("self", "comm", own, sizeof own) && strcmp(own, other) == 0;
}

/* Returns whether the first argument of the process is "shield". */
static bool runs_shield(const char *pid)
{
	char line[PATH_MAX + 16];
	size_t len = read_proc(pid, "cmdline", line, sizeof line), first = strlen(line) + 1;

	return len > first && strcmp(line + first, "shield") == 0;
}

bool wr_nft_is_shield(long pid)
{
	char text[24];

	snprintf(text, sizeof text, "%ld", pid);
	return pid > 0 && pid != (long)getpid() && has_own_name(text) && runs_shield(text);
}
