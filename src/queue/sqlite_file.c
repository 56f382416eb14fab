/* Opens, locks and closes the folder and the file of a queue; moves a damaged file away. Called by
 * sqlite_backend.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "queue/sqlite_backend.h"

#define FILE_NAME "queue.db"
#define LOCK_NAME "queue.lock"
#define BUSY_MS 5000

/* Fills in *error from errno. Returns WR_QUEUE_NO_SPACE if the disk is full, otherwise
 * WR_QUEUE_READ_ONLY. */
static enum wr_queue_reason report_errno(struct weir_error *error, const char *what,
					 const char *path)
{
	int why = errno;

	wr_error_errno(error, WEIR_ESYS, "%s %s", what, path);
	return why == ENOSPC || why == EDQUOT ? WR_QUEUE_NO_SPACE : WR_QUEUE_READ_ONLY;
}

static void sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* an error of the sync is ignored, as SQLite does, because some file systems cannot sync
	 * folders */
	fsync(fd);
	close(fd);
}

/* Creates the folder and its missing parents with mode 0700. Returns false if this failed. */
static bool make_folders(const char *folder)
{
	char path[PATH_MAX];
	size_t len = strlen(folder);

	memcpy(path, folder, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		path[i] = 0;
		if (mkdir(path, 0700) < 0 && errno != EEXIST && access(path, F_OK) < 0)
			return false;
		path[i] = folder[i];
	}
	sync_folder(folder);
	return true;
}

/* Checks that only the folder's owner can write to it. A user who can write to the folder could
 * replace the queue's file. */
static enum wr_queue_reason check_folder(const char *folder, struct weir_error *error)
{
	struct stat st;

	if (!make_folders(folder) || stat(folder, &st) < 0)
		return report_errno(error, "the queue's folder", folder);
	if (!S_ISDIR(st.st_mode) || (st.st_mode & 022) ||
	    (st.st_uid != geteuid() && st.st_uid != 0)) {
		wr_error(error, WEIR_ESYS,
			 "other users can write to the queue's folder %s: chown it to user %u and "
			 "chmod 700 it, or name another",
			 folder, (unsigned)geteuid());
		return WR_QUEUE_READ_ONLY;
	}
	return WR_QUEUE_OK;
}

static enum wr_queue_reason lock_folder(struct wr_sqlite *sqlite, struct weir_error *error)
{
	char path[PATH_MAX], pid[32] = "";
	ssize_t len;

	snprintf(path, sizeof path, "%s/" LOCK_NAME, sqlite->folder);
	sqlite->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (sqlite->lock < 0)
		return report_errno(error, "the queue's lock", path);
	if (flock(sqlite->lock, LOCK_EX | LOCK_NB) < 0) {
		len = read(sqlite->lock, pid, sizeof pid - 1);
		pid[len > 0 ? strcspn(pid, "\n") : 0] = 0;
		wr_error(error, WEIR_ESYS,
			 "the queue %s is in use by another process (%s); to share a queue among "
			 "several gateways, use redis://",
			 sqlite->folder, pid[0] ? pid : "unknown");
		return WR_QUEUE_AWAY;
	}
	len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
	/* The process id in the lock file is only for people. It may be missing if the disk is
	 * full. */
	if (ftruncate(sqlite->lock, 0) == 0 && write(sqlite->lock, pid, (size_t)len) != len)
		return WR_QUEUE_OK;
	return WR_QUEUE_OK;
}

/* Creates the file with mode 0600, because SQLite would use the umask. SQLite gives its log file
 * the same mode as this file. */
static enum wr_queue_reason make_file(struct wr_sqlite *sqlite, struct weir_error *error)
{
	int fd = open(sqlite->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	enum wr_queue_reason reason = WR_QUEUE_OK;

	if (fd < 0 || fchmod(fd, 0600) < 0)
		reason = report_errno(error, "the queue's file", sqlite->path);
	if (fd >= 0)
		close(fd);
	if (reason == WR_QUEUE_OK)
		sync_folder(sqlite->folder);
	return reason;
}

static enum wr_queue_reason open_file(struct wr_sqlite *sqlite, uint64_t wall_us,
				      struct weir_error *error)
{
	enum wr_queue_reason reason = make_file(sqlite, error);
	int rc;

	if (reason != WR_QUEUE_OK)
		return reason;
	rc = sqlite3_open_v2(sqlite->path, &sqlite->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
			     NULL);
	if (rc != SQLITE_OK) {
		wr_error(error, WEIR_ESYS, "the queue's file %s: %s", sqlite->path,
			 sqlite->db ? sqlite3_errmsg(sqlite->db) : sqlite3_errstr(rc));
		return wr_sqlite_reason(sqlite, rc);
	}
	sqlite3_extended_result_codes(sqlite->db, 1);
	sqlite3_busy_timeout(sqlite->db, BUSY_MS);
	return wr_sqlite_prepare(sqlite, wall_us, error);
}

static void close_file(struct wr_sqlite *sqlite)
{
	for (size_t i = 0; i < WR_SQL_COUNT; i++) {
		sqlite3_finalize(sqlite->sql[i]);
		sqlite->sql[i] = NULL;
	}
	sqlite3_close(sqlite->db);
	sqlite->db = NULL;
	wr_queue_lines_clear(&sqlite->lines);
}

/* Renames a damaged file and its log, so that an operator can recover the requests. `aside` gets
 * the new path. Returns false if renaming failed. */
static bool move_damaged_file(struct wr_sqlite *sqlite, uint64_t wall_us, char aside[PATH_MAX])
{
	static const char *const tails[] = {"", "-wal"};
	char from[PATH_MAX + 8], to[PATH_MAX + 8];
	unsigned n = 0;

	do {
		int len = snprintf(aside, PATH_MAX, "%s.corrupt-%llu%s%.0u", sqlite->path,
				   (unsigned long long)(wall_us / 1000000), n ? "-" : "", n);

		if (len < 0 || len >= PATH_MAX || n++ == 1000)
			return false;
	} while (access(aside, F_OK) == 0);
	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
		snprintf(from, sizeof from, "%s%s", sqlite->path, tails[i]);
		snprintf(to, sizeof to, "%s%s", aside, tails[i]);
		if (rename(from, to) < 0 && errno != ENOENT)
			return false;
	}
	sync_folder(sqlite->folder);
	return true;
}

/* Renames a damaged file and creates a new file. */
static enum wr_queue_reason replace_damaged_file(struct wr_sqlite *sqlite, uint64_t wall_us,
						 struct weir_error *error)
{
	char aside[PATH_MAX];

	close_file(sqlite);
	if (!move_damaged_file(sqlite, wall_us, aside))
		return WR_QUEUE_CORRUPT;
	wr_queue_backend_log(
		&sqlite->backend, WR_QUEUE_ERROR,
		"THE QUEUE'S FILE WAS DAMAGED (%s) and was renamed to %s; its requests are not "
		"delivered. `sqlite3 %s .recover` may restore them. A new file was created",
		error->text, aside, aside);
	return open_file(sqlite, wall_us, error);
}

enum wr_queue_reason wr_sqlite_open(struct wr_sqlite *sqlite, struct wr_queue_moment now,
				    struct weir_error *error)
{
	int len = snprintf(sqlite->path, sizeof sqlite->path, "%s/" FILE_NAME, sqlite->folder);
	enum wr_queue_reason reason;

	wr_assert(!sqlite->db);
	sqlite->lock = -1;
	sqlite->removed = false;
	if (len < 0 || (size_t)len >= sizeof sqlite->path - 32) {
		wr_error(error, WEIR_EINVAL, "the path of the queue's folder is too long");
		return WR_QUEUE_FAILED;
	}
	reason = check_folder(sqlite->folder, error);
	if (reason == WR_QUEUE_OK)
		reason = lock_folder(sqlite, error);
	if (reason == WR_QUEUE_OK)
		reason = open_file(sqlite, now.wall_us, error);
	if (reason == WR_QUEUE_CORRUPT)
		reason = replace_damaged_file(sqlite, now.wall_us, error);
	if (reason != WR_QUEUE_OK)
		wr_sqlite_close(sqlite);
	return reason;
}

void wr_sqlite_close(struct wr_sqlite *sqlite)
{
	close_file(sqlite);
	if (sqlite->lock >= 0)
		close(sqlite->lock);
	sqlite->lock = -1;
}

bool wr_sqlite_is_removed(struct wr_sqlite *sqlite)
{
	int moved = 0;
	int rc = sqlite3_file_control(sqlite->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);

	wr_assert(sqlite->db);
	return rc == SQLITE_OK && moved;
}

enum wr_queue_reason wr_sqlite_reason(struct wr_sqlite *sqlite, int rc)
{
	int system = sqlite->db ? sqlite3_system_errno(sqlite->db) : 0;

	switch (rc & 0xff) {
	case SQLITE_FULL:
		return WR_QUEUE_NO_SPACE;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return WR_QUEUE_CORRUPT;
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return system == ENOSPC || system == EDQUOT ? WR_QUEUE_NO_SPACE
							    : WR_QUEUE_READ_ONLY;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return WR_QUEUE_AWAY;
	case SQLITE_IOERR:
		if (system == EROFS)
			return WR_QUEUE_READ_ONLY;
		return system == ENOSPC || system == EDQUOT ? WR_QUEUE_NO_SPACE : WR_QUEUE_FAILED;
	default:
		return WR_QUEUE_FAILED;
	}
}
