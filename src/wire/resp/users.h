/* Users and passwords of the RESP listener, and the limit on wrong passwords.
 *
 * The password file has one user per line, NAME:PASSWORD. A line without a colon is the password of
 * the user `default`, for clients that send a password without a name. Failed logins of an address
 * are limited in the table, over all connections, loops and processes.
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
#define WR_USER_FAILURES_PER_MINUTE 60u /* limit of failed logins from one address */

struct wr_resp_user {
	uint32_t name_len, password_len;
	char name[WR_USER_NAME_MAX]; /* padded with zero bytes */
	char password[WR_PASSWORD_MAX];
};

struct wr_resp_users {
	uint32_t count; /* number of users; 0: no password is required */
	struct wr_resp_user user[WR_USERS_MAX];
};

/* Reads the content of a password file. Returns 0 or WEIR_EINVAL. The error has the number of the
 * wrong line, but not the content of the line. */
int wr_resp_users_read(struct wr_resp_users *users, const char *text, size_t len,
		       struct weir_error *error);

/* Returns whether the user exists and the password is right. The call takes the same time for any
 * name and password. */
bool wr_resp_users_know(const struct wr_resp_users *users, struct weir_str name,
			struct weir_str password);

enum wr_resp_login { WR_LOGIN_WRONG, WR_LOGIN_RIGHT, WR_LOGIN_TOO_OFTEN };

/* Checks a login from `address`. If it returns WR_LOGIN_TOO_OFTEN, the password was not compared,
 * and *wait_ns is the time until the next login is allowed. */
enum wr_resp_login wr_resp_login(const struct wr_resp_users *users, struct weir_table *table,
				 struct weir_str address, struct weir_str name,
				 struct weir_str password, uint64_t now_ns, uint64_t *wait_ns);

#endif
