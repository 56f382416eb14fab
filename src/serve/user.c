/* Changes the user of the process and drops privileges. Called by the commands serve and gateway,
 * and by service.c. */
#include "serve/user.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/uid.h"

#define DEFAULT_USER "weir"

int wr_user_find(const char *name, struct wr_user *user, struct weir_error *error)
{
	char text[4096];
	struct passwd entry, *found = NULL;
	const char *wanted = name ? name : DEFAULT_USER;

	*user = (struct wr_user){.uid = geteuid(), .gid = getegid()};
	if (!name && geteuid() != 0)
		return 0;
	if (name && geteuid() == 0 && wr_uid_is_free(name, &user->uid)) {
		user->change = true;
		user->gid = user->uid;
		snprintf(user->name, sizeof user->name, "%s", name);
		return 0;
	}
	if (name && name[0] >= '0' && name[0] <= '9')
		return wr_error(error, WEIR_EINVAL, "--user %s: %s", name,
				geteuid() == 0 ? WR_UID_TAKEN
					       : "only root can become another user");
	if (getpwnam_r(wanted, &entry, text, sizeof text, &found) != 0 || !found)
		return name ? wr_error(error, WEIR_EINVAL,
				       "--user %s: there is no such user; useradd --system "
				       "--no-create-home %s creates it",
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

bool wr_user_stays_root(const char *name, const struct wr_user *user)
{
	return !name && geteuid() == 0 && !user->change;
}

static int drop_capabilities(struct weir_error *error)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return wr_error_errno(error, WEIR_EACCESS, "cannot give up capabilities");
	return 0;
}

/* Changes the user. First empties the capability bounding set, which only root can do, so that no
 * program that this process runs can regain a capability. After the change, the kernel forbids core
 * files and tracing of this process. The process leaves them forbidden, because it holds keys. */
static int change_user(const struct wr_user *user, struct weir_error *error)
{
	bool named = user->name[0] < '0' || user->name[0] > '9';

	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if ((named ? initgroups(user->name, user->gid) : setgroups(1, &user->gid)) < 0 ||
	    setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return wr_error_errno(error, WEIR_EACCESS, "cannot become user %s", user->name);
	if (setuid(0) == 0)
		return wr_error(error, WEIR_EACCESS, "user %s can become root again", user->name);
	return 0;
}

int wr_user_become(const struct wr_user *user, struct weir_error *error)
{
	int rc = user->change ? change_user(user, error) : 0;

	if (rc < 0)
		return rc;
	if (geteuid() == 0)
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
			       ? wr_error_errno(error, WEIR_EACCESS, "prctl")
			       : 0;
	return drop_capabilities(error);
}

uint64_t wr_serve_files_raise(uint64_t wanted)
{
	struct rlimit limit, higher;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return wanted;
	if (limit.rlim_cur >= wanted)
		return limit.rlim_cur;
	higher = limit;
	higher.rlim_cur = wanted;
	if (higher.rlim_max < wanted)
		higher.rlim_max = wanted; /* setrlimit() allows this to root only */
	if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
		return wanted;
	higher.rlim_cur = higher.rlim_max = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &higher) == 0 ? limit.rlim_max : limit.rlim_cur;
}
