/* Who may speak to the RESP listener: names and passwords, and how often one may be wrong.
 *
 * A file has one user a line, NAME:PASSWORD; a line without a colon is the password of the user
 * `default`, whom clients mean that give a password alone. Attempts of an address that fail are
 * limited like any request, in the table: over connections, loops and processes.
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
	uint32_t count; /* 0: no password is asked for */
	struct wr_resp_user user[WR_USERS_MAX];
};

/* Reads the content of a password file. WEIR_EINVAL; the error names the line, not what is in it.
 */
int wr_resp_users_read(struct wr_resp_users *users, const char *text, size_t len,
		       struct weir_error *error);

/* Takes as long for any name and password. */
bool wr_resp_users_know(const struct wr_resp_users *users, struct weir_str name,
			struct weir_str password);

enum wr_resp_login { WR_LOGIN_WRONG, WR_LOGIN_RIGHT, WR_LOGIN_TOO_OFTEN };

/* One attempt from `address`. Too often: nothing was compared; *wait_ns is for how long. */
enum wr_resp_login wr_resp_login(const struct wr_resp_users *users, struct weir_table *table,
				 struct weir_str address, struct weir_str name,
				 struct weir_str password, uint64_t now_ns, uint64_t *wait_ns);

#endif
