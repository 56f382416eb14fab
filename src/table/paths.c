/* Finds the folder and the file of a table, and checks who owns them. */
#include "table/table.h"
#include "table/paths.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

static bool name_ok(const char *name)
{
	size_t len = strnlen(name, 65);

	return len >= 1 && len <= 64 && name[0] != '.' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		       len;
}

/* Finds the user and group `weir`. Returns false if the system does not have them. */
static bool system_user(uid_t *uid, gid_t *gid)
{
	char text[4096];
	struct passwd entry, *found = NULL;

	if (getpwnam_r("weir", &entry, text, sizeof text, &found) != 0 || !found)
		return false;
	*uid = found->pw_uid;
	*gid = found->pw_gid;
	return true;
}

static int set_path(struct wr_table_paths *paths, const char *dir, const char *prefix,
		    const char *name, struct weir_error *error)
{
	int a = snprintf(paths->dir, sizeof paths->dir, "%s", dir);
	int b = snprintf(paths->path, sizeof paths->path, "%s/%s%s.v%d", dir, prefix, name,
			 WR_LAYOUT);

	paths->owner = geteuid();
	paths->group = getegid();
	paths->mode = 0600;
	if (a < 0 || (size_t)a >= sizeof paths->dir || b < 0 || (size_t)b >= sizeof paths->path)
		return wr_error(error, WEIR_EINVAL, "the folder's path is longer than %zu bytes",
				sizeof paths->dir - 1);
	return 0;
}

/* If root creates a file in /run/weir and the user weir exists, gives the file to that user and its
 * group. */
static void share_with_service(struct wr_table_paths *paths)
{
	if (geteuid() == 0 && strcmp(paths->dir, WR_SYSTEM_DIR) == 0 &&
	    system_user(&paths->owner, &paths->group))
		paths->mode = 0660;
}

/* Tries /run/weir. Only root creates this folder. */
static bool try_system(const char *name, bool make, struct wr_table_paths *paths,
		       struct weir_error *error)
{
	if (set_path(paths, WR_SYSTEM_DIR, "", name, error) < 0)
		return false;
	if (geteuid() != 0)
		return access(paths->path, R_OK | W_OK) == 0 ||
		       access(WR_SYSTEM_DIR, W_OK | X_OK) == 0;
	share_with_service(paths);
	if (make && mkdir(WR_SYSTEM_DIR, 0750) == 0 && chown(WR_SYSTEM_DIR, 0, paths->group) < 0)
		return false;
	return access(WR_SYSTEM_DIR, W_OK | X_OK) == 0;
}

static bool try_session(const char *name, bool make, struct wr_table_paths *paths,
			struct weir_error *error)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char dir[sizeof paths->dir];
	int len;

	if (!runtime || runtime[0] != '/')
		return false;
	len = snprintf(dir, sizeof dir, "%s/weir", runtime);
	if (len < 0 || (size_t)len >= sizeof dir || set_path(paths, dir, "", name, error) < 0)
		return false;
	if (make)
		mkdir(dir, 0700);
	return access(dir, W_OK | X_OK) == 0;
}

int wr_table_paths_find(const char *dir, const char *name, bool make, struct wr_table_paths *paths,
			struct weir_error *error)
{
	char prefix[32];

	wr_assert(paths);
	if (!name)
		name = "default";
	if (!name_ok(name))
		return wr_error(error, WEIR_ENAME, "\"%.64s\": %s", name,
				weir_strerror(WEIR_ENAME));
	if (dir) {
		int rc = set_path(paths, dir, "", name, error);

		share_with_service(paths);
		return rc;
	}
	if (try_system(name, make, paths, error) || try_session(name, make, paths, error))
		return 0;
	snprintf(prefix, sizeof prefix, "weir-%u-", (unsigned)geteuid());
	return set_path(paths, "/dev/shm", prefix, name, error);
}

int wr_table_paths_admin(const struct wr_table_paths *paths, char path[WR_TABLE_PATHS_ADMIN],
			 struct weir_error *error)
{
	const char *version = strrchr(paths->path, '.'); /* ".v1" */
	char current[WR_TABLE_PATHS_ADMIN] = "";
	int len;

	wr_assert(version);
	if (paths->path[0] != '/' && !getcwd(current, sizeof current))
		return wr_error_errno(error, WEIR_ESYS, "cannot find the path of the folder %s",
				      paths->dir);
	len = snprintf(path, WR_TABLE_PATHS_ADMIN, "%s%s%.*s.admin", current, current[0] ? "/" : "",
		       (int)(version - paths->path), paths->path);
	if (len >= WR_TABLE_PATHS_ADMIN)
		return wr_error(error, WEIR_EINVAL,
				"the path of the admin socket is longer than %d bytes",
				WR_TABLE_PATHS_ADMIN - 1);
	return 0;
}

int wr_table_paths_check(const char *path, const struct stat *st, struct weir_error *error)
{
	uid_t uid = 0;
	gid_t gid;
	bool user = system_user(&uid, &gid);

	if (!S_ISREG(st->st_mode))
		return wr_error(error, WEIR_EACCESS, "%s is not a regular file", path);
	if (st->st_uid != geteuid() && st->st_uid != 0 && !(user && st->st_uid == uid))
		return wr_error(error, WEIR_EACCESS,
				"%s belongs to user %u, not to this user, root or weir", path,
				(unsigned)st->st_uid);
	if (st->st_mode & 07)
		return wr_error(
			error, WEIR_EACCESS,
			"%s has mode %04o, which gives other users access: run chmod o= on it",
			path, (unsigned)st->st_mode & 07777);
	return 0;
}
