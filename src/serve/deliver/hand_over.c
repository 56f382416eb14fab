/* Changes the owner of the queue's files to the service's user. Called before the change of
 * user. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "queue/seal.h"
#include "queue/backend.h"
#include "serve/deliver/queue_host.h"
#include "serve/service.h"
#include "table/table.h"

#define QUEUE_FILES "queue." /* prefix of queue.db, queue.db-wal, queue.lock, … */

struct new_owner {
	uid_t uid;
	gid_t gid;
};

/* Opens the folder `name` inside the folder `above`. Creates the folder if it is missing. Follows a
 * symbolic link only if no user but root can create files in `above`. Returns a file descriptor or
 * a negative number. */
static int open_subfolder(int above, const char *name, mode_t mode)
{
	struct stat st;
	bool only_roots = fstat(above, &st) == 0 && st.st_uid == 0 && (st.st_mode & 022) == 0;

	if (mkdirat(above, name, mode) < 0 && errno != EEXIST)
		return -1;
	return openat(above, name,
		      O_RDONLY | O_DIRECTORY | O_CLOEXEC | (only_roots ? 0 : O_NOFOLLOW));
}

/* Opens the folder at this path. Missing parent folders are created with mode 0711. Returns a file
 * descriptor or a negative number. */
static int open_folder(const char *path)
{
	char part[NAME_MAX + 1];
	int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (folder >= 0 && *(path += strspn(path, "/"))) {
		size_t len = strcspn(path, "/");
		bool last = path[len + strspn(path + len, "/")] == 0;
		int above = folder;

		errno = ENAMETOOLONG;
		folder = -1;
		if (len < sizeof part) {
			memcpy(part, path, len);
			part[len] = 0;
			folder = open_subfolder(above, part, last ? 0700 : 0711);
		}
		close(above);
		path += len;
	}
	return folder;
}

/* Returns whether the folder contains only files of a queue. */
static bool has_only_queue(DIR *entries)
{
	const struct dirent *entry;

	while ((entry = readdir(entries)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    strncmp(entry->d_name, QUEUE_FILES, strlen(QUEUE_FILES)) != 0)
			return false;
	return true;
}

static void give_files(int folder, DIR *entries, struct new_owner to)
{
	const struct dirent *entry;
	struct stat st;

	rewinddir(entries);
	while ((entry = readdir(entries)))
		if (fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_uid == 0 && st.st_nlink == 1 &&
		    fchownat(folder, entry->d_name, to.uid, to.gid, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* a file that cannot be used is reported when it is opened */
}

/* Changes the owner of a folder that belongs to root. A folder of another user stays as it is. */
static int give_folder(const char *path, struct new_owner to, struct weir_error *error)
{
	int folder = open_folder(path), copy = folder < 0 ? -1 : fcntl(folder, F_DUPFD_CLOEXEC, 0);
	DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	struct stat st;
	int rc = 0;

	if (!entries || fstat(folder, &st) < 0) {
		rc = wr_error_errno(error, WEIR_ESYS, "the queue's folder %s", path);
	} else if (st.st_uid == 0 && !has_only_queue(entries)) {
		rc = wr_error(error, WEIR_EACCESS,
			      "the queue's folder %s belongs to root and contains other files: "
			      "choose another, or chown it to the user of the service",
			      path);
	} else if (st.st_uid == 0) {
		give_files(folder, entries, to);
		if (fchown(folder, to.uid, to.gid) < 0)
			rc = wr_error_errno(error, WEIR_ESYS, "the queue's folder %s", path);
	}
	if (entries)
		closedir(entries);
	else if (copy >= 0)
		close(copy);
	if (folder >= 0)
		close(folder);
	return rc;
}

/* Changes the owner of the file that identifies this process as the owner of lines of a shared
 * queue. Creates the file if it is missing. Without the file, the process would have a new name in
 * the queue after each start. */
static void give_owner_file(const char *table, struct new_owner to)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!table[0] || snprintf(path, sizeof path, "%s.queue", table) >= (int)sizeof path)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid != to.uid && st.st_nlink == 1 &&
	    fchown(fd, to.uid, to.gid) < 0)
		unlink(path);
	close(fd);
}

void wr_serve_queue_forget_seals(struct wr_service *service)
{
	if (service->seals)
		wr_seals_wipe(service->seals);
	free(service->seals);
	service->seals = NULL;
}

int wr_serve_queue_give(struct wr_service *service, uid_t uid, gid_t gid, struct weir_error *error)
{
	const char *folder;
	struct new_owner to = {uid, gid};

	if (!wr_serve_queue_wanted(&service->settings.queue))
		return 0;
	if (service->settings.queue.key_file) {
		service->seals = malloc(sizeof *service->seals);
		if (!service->seals)
			return wr_error(error, WEIR_EMEMORY, "out of memory");
		if (wr_seals_read(service->settings.queue.key_file, service->seals, error) < 0)
			return WEIR_EINVAL;
	}
	folder = wr_sqlite_folder(service->settings.queue.url);
	if (folder)
		return give_folder(folder, to, error);
	give_owner_file(service->core->table->path, to);
	return 0;
}

int wr_serve_queue_check_given(const struct wr_serve_queue_settings *settings, const char *user,
			       struct weir_error *error)
{
	const char *folder =
		wr_serve_queue_wanted(settings) ? wr_sqlite_folder(settings->url) : NULL;

	if (!folder || access(folder, R_OK | W_OK | X_OK) == 0)
		return 0;
	/* A read-only disk is not an error, because the disk may become writable later. The queue
	 * refuses requests until then. */
	if (errno == EROFS && access(folder, R_OK | X_OK) == 0)
		return 0;
	return wr_error_errno(error, WEIR_EACCESS,
			      "user %s cannot access the queue's folder %s: chmod o+x the folders "
			      "above it, or choose another with --queue",
			      user, folder);
}
