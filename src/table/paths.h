/* Where a table's file lives and who may use it. */
#ifndef WR_TABLE_PATHS_H
#define WR_TABLE_PATHS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <weir/weir.h>

#define WR_SYSTEM_DIR "/run/weir" /* of tables that root or weir makes */

struct wr_place {
	char dir[400];
	char path[512];
	uid_t owner; /* of a file made here */
	gid_t group;
	mode_t mode;
};

/* The place of a table: `dir` if given, else the first that fits of /run/weir,
 * $XDG_RUNTIME_DIR/weir and /dev/shm. An existing table decides over a place that could hold a new
 * one. `make` creates the folder. WEIR_ENAME, WEIR_ESYS. */
int wr_place_find(const char *dir, const char *name, bool make, struct wr_place *place,
		  struct weir_error *error);

#define WR_PLACE_ADMIN 520

/* The path of the Unix socket for the admin API of services on this table: beside its file. */
void wr_place_admin(const struct wr_place *place, char path[WR_PLACE_ADMIN]);

/* Whether a table file may be trusted: a regular file of this user, root or weir, closed to
 * others. WEIR_EACCESS. */
int wr_place_check(const char *path, const struct stat *st, struct weir_error *error);

#endif
