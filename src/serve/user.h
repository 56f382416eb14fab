/* The user that the service runs as, and the process's limit of open files. */
#ifndef WR_SERVE_USER_H
#define WR_SERVE_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/error.h>

struct wr_user {
	bool change; /* false: keep the current user */
	uid_t uid;
	gid_t gid;
	/* Name of the account. A user id without an account (base/uid.h) has its digits here, and
	 * no supplementary groups. */
	char name[64];
};

/* Sets *user to the user that the process has to change to. A process of root changes to the user
 * `name`. If `name` is NULL, it changes to the user `weir`; if there is no such user, it stays
 * root. A process of another user keeps its user, and any `name` but that of its user is an error.
 * Returns 0, or an error code with `error` filled in. */
int wr_user_find(const char *name, struct wr_user *user, struct weir_error *error);

/* Changes the process to the user and its groups for good. Drops all capabilities, unless the
 * process stays root. Sets no_new_privs, so that programs that the process runs cannot regain
 * privileges. Called before threads start. Returns 0, or an error code with `error` filled in. */
int wr_user_become(const struct wr_user *user, struct weir_error *error);

/* Returns true if the process stays root, that is, if --user (`name`) was not given and there is no
 * user `weir`. */
bool wr_user_stays_root(const char *name, const struct wr_user *user);

#define WR_USER_REMEDY                                                                             \
	"useradd --system --no-create-home --shell /usr/sbin/nologin weir creates a user for it, " \
	"and "                                                                                     \
	"--user NAME selects another"

/* Raises the limit of open files to `wanted` if possible. Returns the limit in force. */
uint64_t wr_serve_files_raise(uint64_t wanted);

#endif
