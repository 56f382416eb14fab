/* Gives up rights; see rights.h. */
#include "shield/rights.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define NET_ADMIN (1u << CAP_NET_ADMIN)

static struct __user_cap_header_struct header_of_this_process(void)
{
	return (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
}

int wr_nft_rights_check(struct weir_error *error)
{
	struct __user_cap_header_struct header = header_of_this_process();
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, data) == 0 && data[0].effective & NET_ADMIN)
		return 0;
	return wr_error(error, WEIR_EACCESS,
			"weir shield needs CAP_NET_ADMIN: run it as root, or as a systemd service "
			"with AmbientCapabilities=CAP_NET_ADMIN; --dry-run needs no rights");
}

/* Changes the user and its groups. Keeps the permitted capabilities, which the kernel would
 * otherwise clear. */
static int change_user(const struct wr_nft_user *user, struct weir_error *error)
{
	bool named = user->name[0] < '0' || user->name[0] > '9';

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
	    (named ? initgroups(user->name, user->gid) : setgroups(1, &user->gid)) < 0 ||
	    setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return wr_error_errno(error, WEIR_EACCESS, "cannot become user %s", user->name);
	return 0;
}

int wr_nft_rights_drop(const struct wr_nft_user *user, struct weir_error *error)
{
	struct __user_cap_header_struct header = header_of_this_process();
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{.effective = NET_ADMIN, .permitted = NET_ADMIN}};
	int rc;

	/* A process without CAP_SETPCAP cannot reduce its bounding set. With no_new_privs, which is
	 * set below, the bounding set has no effect on such a process. */
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	rc = user->change ? change_user(user, error) : 0;
	if (rc < 0)
		return rc;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return wr_error_errno(error, WEIR_EACCESS, "cannot give up capabilities");
	return 0;
}
