/* User ids that belong to no account. A process with such an id is protected from other programs as
 * if it had a user account of its own. */
#ifndef WR_BASE_UID_H
#define WR_BASE_UID_H

#include <stdbool.h>
#include <sys/types.h>

/* Sets *uid and returns true if `text` is a user id that belongs to no account and no group.
 * Otherwise returns false. */
bool wr_uid_is_free(const char *text, uid_t *uid);

/* The error text for an id that belongs to an account or a group, or is not valid. */
#define WR_UID_TAKEN                                                                               \
	"the number is invalid, or belongs to an account or a group; use the name of an account, " \
	"or a number without account and group"

#endif
