/* The address of Redis or Valkey as a URL.
 *
 *   redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]            one server
 *   redis+unix://[USER[:PASSWORD]@]/PATH[?db=DB]          one server, by a Unix socket
 *   redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],…/MASTER[/DB]
 *   redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],…       some of the cluster's servers
 *
 * rediss, rediss+sentinel and rediss+cluster use TLS. ":PASSWORD@" has no user: the server uses
 * requirepass instead of ACLs. "USER@" has no password: set it with wr_redis_target_password. User,
 * password, master and path may contain %XX. Options after ? are db=, sentinel_user= and
 * sentinel_password=, separated by &. */
#ifndef WR_REDIS_URL_H
#define WR_REDIS_URL_H

#include "base/endpoint.h"

enum wr_redis_kind {
	WR_REDIS_SINGLE,
	WR_REDIS_SENTINEL,
	WR_REDIS_CLUSTER,
};

#define WR_REDIS_NAME_MAX 128     /* maximum length of a user or master name */
#define WR_REDIS_PASSWORD_MAX 512 /* maximum length of a password */
#define WR_REDIS_DB_MAX 65535
#define WR_REDIS_TEXT 1024

struct wr_redis_login {
	char user[WR_REDIS_NAME_MAX + 1];         /* "": the default user */
	char password[WR_REDIS_PASSWORD_MAX + 1]; /* "": AUTH is not sent */
};

#define WR_REDIS_PREFIX_MAX 64u

struct wr_redis_target {
	enum wr_redis_kind kind;
	bool tls;
	uint32_t db;
	struct wr_endpoint_list at; /* the server, the Sentinels, or some servers of the cluster */
	struct wr_redis_login login;
	struct wr_redis_login sentinel;     /* login for the Sentinels */
	char master[WR_REDIS_NAME_MAX + 1]; /* the master's name in Sentinel */
};

/* Parses a URL. Returns 0 or WEIR_EINVAL. Error texts contain no part of the URL that might be a
 * password. */
int wr_redis_target_parse(struct weir_str text, struct wr_redis_target *target,
			  struct weir_error *error);

/* Sets a password that was read from a file. Newlines at its end are ignored. Returns 0 or
 * WEIR_EINVAL. */
int wr_redis_target_password(struct wr_redis_target *target, struct weir_str password,
			     struct weir_error *error);

/* Checks the prefix of all keys. It must be printable ASCII without blanks. It must not contain
 * braces, because they mark the part of a key that a cluster hashes. Returns 0 or WEIR_EINVAL. */
int wr_redis_prefix_check(const char *prefix, struct weir_error *error);

/* Writes the URL without user and passwords, for logs. Returns its length. */
size_t wr_redis_target_text(const struct wr_redis_target *target, char text[WR_REDIS_TEXT]);

#endif
