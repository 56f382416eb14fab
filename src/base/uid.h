/* Numbers of users that have no account. A process with such a number shares its files and sockets
 * with no program of others, as with a user of its own, and nothing has to be made for it. */
#ifndef WR_BASE_UID_H
#define WR_BASE_UID_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether `text` is the number of a user that no account has, nor any group. *uid is it then. */
bool wr_uid_is_free(const char *text, uid_t *uid);

/* What to say of a number that is not free. */
#define WR_UID_TAKEN                                                                               \
	"an account or a group has that number, or it is none; name the account, or a number "     \
	"that nobody has"

#endif
