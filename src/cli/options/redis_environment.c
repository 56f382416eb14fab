/* Builds a URL of --redis from the Redis variables of envoyproxy/ratelimit. Called by
 * serve_environment.c. */
#include "cli/options/redis_environment.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/error.h"

static void add_escaped(struct wr_buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (isalnum((unsigned char)text[i]) || strchr("-._~", text[i]))
			wr_buf_add_char(out, text[i]);
		else
			wr_buf_printf(out, "%%%02X", (unsigned char)text[i]);
}

/* Writes the part of the URL before the host: the scheme and the login. REDIS_AUTH is PASSWORD or
 * USER:PASSWORD. */
static void add_scheme(struct wr_buf *out, const struct wr_cli_redis_environment *from,
		       const char *transport)
{
	const char *colon = from->auth ? strchr(from->auth, ':') : NULL;
	const char *password = colon ? colon + 1 : from->auth;

	wr_buf_printf(out, "%s%s://", from->tls ? "rediss" : "redis", transport);
	if (colon)
		add_escaped(out, from->auth, (size_t)(colon - from->auth));
	if (!password)
		return;
	wr_buf_add_char(out, ':');
	add_escaped(out, password, strlen(password));
	wr_buf_add_char(out, '@');
}

static void add_sentinel_login(struct wr_buf *out, const char *auth)
{
	const char *colon = auth ? strchr(auth, ':') : NULL;

	if (!auth)
		return;
	wr_buf_add_char(out, '?');
	if (colon) {
		wr_buf_printf(out, "sentinel_user=");
		add_escaped(out, auth, (size_t)(colon - auth));
		wr_buf_add_char(out, '&');
		auth = colon + 1;
	}
	wr_buf_printf(out, "sentinel_password=");
	add_escaped(out, auth, strlen(auth));
}

static int add_sentinel(struct wr_buf *out, const struct wr_cli_redis_environment *from,
			struct weir_error *error)
{
	size_t master = strcspn(from->url, ",");

	if (!from->url[master])
		return wr_error(error, WEIR_EINVAL,
				"REDIS_URL: with REDIS_TYPE=SENTINEL it is the master's name and "
				"the sentinels: mymaster,sentinel1:26379,sentinel2:26379");
	add_scheme(out, from, "+sentinel");
	wr_buf_printf(out, "%s/", from->url + master + 1);
	add_escaped(out, from->url, master);
	add_sentinel_login(out, from->sentinel_auth);
	return 0;
}

/* Writes the URL of a single Redis. REDIS_URL is a host with a port, a path, or a whole URL. */
static int add_single(struct wr_buf *out, const struct wr_cli_redis_environment *from,
		      struct weir_error *error)
{
	bool is_unix = from->url[0] == '/' ||
		       (from->socket_type && strcasecmp(from->socket_type, "unix") == 0);

	if (strncmp(from->url, "redis://", 8) != 0 && strncmp(from->url, "rediss://", 9) != 0) {
		if (is_unix && from->tls)
			return wr_error(error, WEIR_EINVAL, "REDIS_TLS is not for a Unix socket");
		add_scheme(out, from, is_unix ? "+unix" : "");
	}
	wr_buf_printf(out, "%s", from->url);
	return 0;
}

int wr_cli_redis_environment_url(const struct wr_cli_redis_environment *from, char *url, size_t cap,
				 struct weir_error *error)
{
	const char *type = from->type ? from->type : "SINGLE";
	struct wr_buf out;
	int rc = 0;

	wr_buf_init_fixed(&out, url, cap);
	if (strcasecmp(type, "SENTINEL") == 0) {
		rc = add_sentinel(&out, from, error);
	} else if (strcasecmp(type, "CLUSTER") == 0) {
		add_scheme(&out, from, "+cluster");
		wr_buf_printf(&out, "%s", from->url);
	} else if (strcasecmp(type, "SINGLE") == 0) {
		rc = add_single(&out, from, error);
	} else {
		return wr_error(error, WEIR_EINVAL,
				"REDIS_TYPE=%s is not one of: SINGLE, SENTINEL, CLUSTER", type);
	}
	if (rc == 0 && wr_buf_failed(&out))
		return wr_error(error, WEIR_EINVAL, "REDIS_URL is too long");
	return rc;
}
