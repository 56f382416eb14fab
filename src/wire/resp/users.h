/* Users and passwords of the RESP listener, and the limit on wrong passwords.
 *
 * The file has one user a line, NAME:PASSWORD. A line without a colon is the password of the user
 * `default`, for clients that send a password without a name. Failed logins of an address are
 * limited in the table, over all connections, loops and processes.
 */
#ifndef WR_WIRE_RESP_USERS_H
#define WR_WIRE_RESP_USERS_H

#include <stdbool.h>

#include <weir/error.h>
#include <weir/rules.h>
#include <weir/weir.h>

#define WR_USERS_MAX 16u
#define WR_USER_NAME_MAX 64u
#define WR_PASSWORD_MAX 256u
#define WR_USER_FAILURES_PER_MINUTE 60u /* of one address */

struct wr_resp_user {
	uint32_t name_len, password_len;
	char name[WR_USER_NAME_MAX]; /* zeros behind */
	char password[WR_PASSWORD_MAX];
};

struct wr_resp_users {
	uint32_t count; /* 0: no password is needed */
	struct wr_resp_user user[WR_USERS_MAX];
};

/* Reads the content of a password file. Returns 0 or WEIR_EINVAL; the error shows the number of the
 * line and never its content. */
int wr_resp_users_read(struct wr_resp_users *users, const char *text, size_t len,
		       struct weir_error *error);

/* Whether the password is right. Takes the same time for any name and password. */
bool wr_resp_users_know(const struct wr_resp_users *users, struct weir_str name,
			struct weir_str password);

enum wr_resp_login { WR_LOGIN_WRONG, WR_LOGIN_RIGHT, WR_LOGIN_TOO_OFTEN };

/* One login from `address`. WR_LOGIN_TOO_OFTEN: the password was not compared; *wait_ns is the time
 * until the next attempt is allowed. */
enum wr_resp_login wr_resp_login(const struct wr_resp_users *users, struct weir_table *table,
				 struct weir_str address, struct weir_str name,
				 struct weir_str password, uint64_t now_ns, uint64_t *wait_ns);

#endif
