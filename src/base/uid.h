/* User ids without an account. A process with such an id shares no files or sockets with other
 * programs, like a process with its own user account, but needs no account. */
#ifndef WR_BASE_UID_H
#define WR_BASE_UID_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether `text` is a user id that belongs to no account and no group. If so, sets *uid. */
bool wr_uid_is_free(const char *text, uid_t *uid);

/* The error text for an id that is not free. */
#define WR_UID_TAKEN                                                                               \
	"this is not a number that is free of accounts and groups; use the name of an account, "   \
	"or a free number"

#endif
