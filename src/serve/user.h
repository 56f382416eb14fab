/* Rights: whose they are when the service runs, and how many files it may open. */
#ifndef WR_SERVE_USER_H
#define WR_SERVE_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/error.h>

struct wr_user {
	bool change; /* false: stay who we are */
	uid_t uid;
	gid_t gid;
	char name[64]; /* digits: base/uid.h; without further groups */
};

/* Finds `name`; NULL means `weir` if that exists. Only root changes: for others it is an error to
 * name anybody but themselves. */
int wr_user_find(const char *name, struct wr_user *user, struct weir_error *error);

/* Takes on the user's rights for good, groups included. No capability is left, whoever this process
 * was before, unless it stays root; and no program that it could run gets any back
 * (no_new_privs). Before there are threads. */
int wr_user_become(const struct wr_user *user, struct weir_error *error);

/* Whether root goes on as root because nobody has said otherwise. `name` is that of --user. */
bool wr_user_stays_root(const char *name, const struct wr_user *user);

#define WR_USER_REMEDY                                                                             \
	"useradd --system --no-create-home --shell /usr/sbin/nologin weir makes a user for it, "   \
	"and "                                                                                     \
	"--user NAME names another"

/* Raises the limit of open files to `wanted` if that is possible; returns what it is then. */
uint64_t wr_files_raise(uint64_t wanted);

#endif
