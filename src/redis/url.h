/* Where Redis or Valkey is, as a URL says it.
 *
 *   redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]            one server
 *   redis+unix://[USER[:PASSWORD]@]/PATH[?db=DB]          one server, by a Unix socket
 *   redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],…/MASTER[/DB]
 *   redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],…       some of the cluster's nodes
 *
 * rediss, rediss+sentinel and rediss+cluster are the same by TLS. ":PASSWORD@" has no user, which
 * is how passwords without ACL are said; "USER@" wants wr_redis_target_password. User, password,
 * master and path may have %XX. Behind a ? there may be db=, sentinel_user= and sentinel_password=,
 * joined by &. */
#ifndef WR_REDIS_URL_H
#define WR_REDIS_URL_H

#include "base/endpoint.h"

enum wr_redis_kind {
	WR_REDIS_SINGLE,
	WR_REDIS_SENTINEL,
	WR_REDIS_CLUSTER,
};

#define WR_REDIS_NAME_MAX 128     /* of a user or a master */
#define WR_REDIS_PASSWORD_MAX 512 /* of a password */
#define WR_REDIS_DB_MAX 65535
#define WR_REDIS_TEXT 1024

struct wr_redis_login {
	char user[WR_REDIS_NAME_MAX + 1];         /* "": the default user */
	char password[WR_REDIS_PASSWORD_MAX + 1]; /* "": no AUTH */
};

#define WR_REDIS_PREFIX_MAX 64u

struct wr_redis_target {
	enum wr_redis_kind kind;
	bool tls;
	uint32_t db;
	struct wr_endpoint_list at; /* the server; sentinels; some nodes */
	struct wr_redis_login login;
	struct wr_redis_login sentinel;     /* for the sentinels themselves */
	char master[WR_REDIS_NAME_MAX + 1]; /* what the sentinels call it */
};

/* WEIR_EINVAL. No error repeats anything of the text that might be a password. */
int wr_redis_target_parse(struct weir_str text, struct wr_redis_target *target,
			  struct weir_error *error);

/* Replaces the password, as a file says it: newlines at the end are no part of it. WEIR_EINVAL */
int wr_redis_target_password(struct wr_redis_target *target, struct weir_str password,
			     struct weir_error *error);

/* What keys begin with: letters that a log can show, and no braces, which mark what a cluster
 * hashes. WEIR_EINVAL */
int wr_redis_prefix_check(const char *prefix, struct weir_error *error);

/* The URL without user and passwords, for people; returns its length. */
size_t wr_redis_target_text(const struct wr_redis_target *target, char text[WR_REDIS_TEXT]);

#endif
