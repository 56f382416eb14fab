/* Functions that find the folder and the file of a table, and check who may access the file. */
#ifndef WR_TABLE_PATHS_H
#define WR_TABLE_PATHS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <weir/weir.h>

#define WR_SYSTEM_DIR "/run/weir" /* default folder of tables that root or the user weir makes */

struct wr_table_paths {
	char dir[400];
	char path[512];
	uid_t owner; /* owner of files that are created in `dir` */
	gid_t group;
	mode_t mode;
};

/* Finds the folder and the path of a table. The folder is `dir` if it is given, otherwise the first
 * usable one of /run/weir, $XDG_RUNTIME_DIR/weir and /dev/shm. A folder is usable if the table
 * exists there or can be created there. If `make` is true, a missing folder is created. Returns 0,
 * WEIR_ENAME or WEIR_ESYS. */
int wr_table_paths_find(const char *dir, const char *name, bool make, struct wr_table_paths *paths,
			struct weir_error *error);

#define WR_TABLE_PATHS_ADMIN 520

/* Writes the absolute path of the Unix socket for the admin API of services on this table. The
 * socket is in the same folder as the table. Returns 0, WEIR_EINVAL if the path is too long, or
 * WEIR_ESYS if the current folder has no path. */
int wr_table_paths_admin(const struct wr_table_paths *paths, char path[WR_TABLE_PATHS_ADMIN],
			 struct weir_error *error);

/* Returns 0 if a table file can be trusted, otherwise WEIR_EACCESS. The file must be a regular
 * file. It must belong to this user, to root or to the user weir. Other users must not be able to
 * read or write it. */
int wr_table_paths_check(const char *path, const struct stat *st, struct weir_error *error);

#endif
