/* Checks that a user id belongs to no account. Called by `gateway` and `serve`. */
#include "base/uid.h"

#include <grp.h>
#include <pwd.h>
#include <stdint.h>

bool wr_uid_is_free(const char *text, uid_t *uid)
{
	uint64_t n = 0;

	for (const char *c = text; *c; c++) {
		if (*c < '0' || *c > '9' || n > UINT32_MAX)
			return false;
		n = 10 * n + (uint64_t)(*c - '0');
	}
	/* In the kernel two ids mean "no user": the largest 32-bit number and the largest 16-bit
	 * number. */
	if (n == 0 || n >= UINT32_MAX || n == UINT16_MAX || getpwuid((uid_t)n) ||
	    getgrgid((gid_t)n))
		return false;
	*uid = (uid_t)n;
	return true;
}
