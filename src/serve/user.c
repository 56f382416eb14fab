#include "serve/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"

#define DEFAULT_USER "weir"

int wr_user_find(const char *name, struct wr_user *user, struct weir_error *error)
{
	char text[4096];
	struct passwd entry, *found = NULL;
	const char *wanted = name ? name : DEFAULT_USER;

	*user = (struct wr_user){.uid = geteuid(), .gid = getegid()};
	if (!name && geteuid() != 0)
		return 0;
	if (getpwnam_r(wanted, &entry, text, sizeof text, &found) != 0 || !found)
		return name ? wr_error(error, WEIR_EINVAL,
				       "--user %s: there is no such user; useradd --system "
				       "--no-create-home %s makes one",
				       name, name)
			    : 0;
	if (geteuid() != 0)
		return found->pw_uid == geteuid()
			       ? 0
			       : wr_error(error, WEIR_EACCESS,
					  "--user %s: only root can become another user", name);
	user->change = found->pw_uid != 0;
	user->uid = found->pw_uid;
	user->gid = found->pw_gid;
	snprintf(user->name, sizeof user->name, "%s", wanted);
	return 0;
}

int wr_user_become(const struct wr_user *user, struct weir_error *error)
{
	if (!user->change)
		return 0;
	if (initgroups(user->name, user->gid) < 0 || setgid(user->gid) < 0 || setuid(user->uid) < 0)
		return wr_error_errno(error, WEIR_EACCESS, "cannot become user %s", user->name);
	prctl(PR_SET_DUMPABLE, 1); /* cleared with the rights; core files should be possible */
	return 0;
}

uint64_t wr_files_raise(uint64_t wanted)
{
	struct rlimit limit, higher;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return wanted;
	if (limit.rlim_cur >= wanted)
		return limit.rlim_cur;
	higher = limit;
	higher.rlim_cur = wanted;
	if (higher.rlim_max < wanted)
		higher.rlim_max = wanted; /* root may */
	if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
		return wanted;
	higher.rlim_cur = higher.rlim_max = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &higher) == 0 ? limit.rlim_max : limit.rlim_cur;
}
