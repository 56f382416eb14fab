/* User ids without an account. A process with such an id shares files and sockets with no other
 * program, as with a user of its own, but needs no account. */
#ifndef WR_BASE_UID_H
#define WR_BASE_UID_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether `text` is a user id that belongs to no account and no group. Sets *uid if it is. */
bool wr_uid_is_free(const char *text, uid_t *uid);

/* The error text for an id that is not free. */
#define WR_UID_TAKEN                                                                               \
	"this is not a number that is free of accounts and groups; use the name of an account, "   \
	"or a free number"

#endif
