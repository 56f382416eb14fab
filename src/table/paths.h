/* The folder and the file of a table, and their access rights. */
#ifndef WR_TABLE_PATHS_H
#define WR_TABLE_PATHS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <weir/weir.h>

#define WR_SYSTEM_DIR "/run/weir" /* folder of tables that root or the user weir makes */

struct wr_place {
	char dir[400];
	char path[512];
	uid_t owner; /* owner of a file made here */
	gid_t group;
	mode_t mode;
};

/* Finds the folder and the path of a table: `dir` if given, else the first usable one of /run/weir,
 * $XDG_RUNTIME_DIR/weir and /dev/shm. A folder where the table exists is preferred to one where it
 * could be created. `make` creates the folder. Returns 0, WEIR_ENAME or WEIR_ESYS. */
int wr_place_find(const char *dir, const char *name, bool make, struct wr_place *place,
		  struct weir_error *error);

#define WR_PLACE_ADMIN 520

/* The path of the Unix socket for the admin API of services on this table, in the same folder. */
void wr_place_admin(const struct wr_place *place, char path[WR_PLACE_ADMIN]);

/* Returns 0 if a table file can be trusted: a regular file of this user, root or weir that others
 * can neither read nor write. Otherwise WEIR_EACCESS. */
int wr_place_check(const char *path, const struct stat *st, struct weir_error *error);

#endif
