/* The rights of the shield's process. After its start it can change nftables, and little else. */
#ifndef WR_SHIELD_RIGHTS_H
#define WR_SHIELD_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include <weir/error.h>

/* The user to change to. */
struct wr_nft_user {
	bool change; /* false: keep the current user */
	uid_t uid;
	gid_t gid;
	const char *name;
};

/* Returns 0 if the process has CAP_NET_ADMIN, otherwise WEIR_EACCESS with the remedy. */
int wr_nft_rights_check(struct weir_error *error);

/* Changes the user, and gives up every capability except CAP_NET_ADMIN, also in the bounding set.
 * Sets no_new_privs. Returns 0 or WEIR_EACCESS. */
int wr_nft_rights_drop(const struct wr_nft_user *user, struct weir_error *error);

/* Loads the filter of system calls (filter.c). Called after wr_nft_rights_drop(), because a process
 * without no_new_privs may not load a filter. Returns 0 or WEIR_ESYS. */
int wr_nft_filter_load(struct weir_error *error);

#endif
