/* Builds a URL of --redis from the Redis variables of envoyproxy/ratelimit. Called by
 * serve_environment.c. */
#include "cli/options/redis_environment.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

/* A URL that is being written. If len reaches cap, the URL does not fit. */
struct url_writer {
	char *at;
	size_t cap, len;
};

static void put_char(struct url_writer *out, char c)
{
	if (out->len + 1 < out->cap)
		out->at[out->len] = c;
	if (out->len < out->cap)
		out->len++;
}

static void put_text(struct url_writer *out, const char *text)
{
	for (; *text; text++)
		put_char(out, *text);
}

static void put_escaped(struct url_writer *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char code[4];

		if (isalnum((unsigned char)text[i]) || strchr("-._~", text[i])) {
			put_char(out, text[i]);
			continue;
		}
		snprintf(code, sizeof code, "%%%02X", (unsigned char)text[i]);
		put_text(out, code);
	}
}

/* Writes the login before the host. `auth` is "PASSWORD" or "USER:PASSWORD". */
static void put_login(struct url_writer *out, const char *auth)
{
	const char *colon = auth ? strchr(auth, ':') : NULL;

	if (!auth)
		return;
	if (colon)
		put_escaped(out, auth, (size_t)(colon - auth));
	put_char(out, ':');
	auth = colon ? colon + 1 : auth;
	put_escaped(out, auth, strlen(auth));
	put_char(out, '@');
}

static void put_sentinel_login(struct url_writer *out, const char *auth)
{
	const char *colon = auth ? strchr(auth, ':') : NULL;

	if (!auth)
		return;
	put_char(out, '?');
	if (colon) {
		put_text(out, "sentinel_user=");
		put_escaped(out, auth, (size_t)(colon - auth));
		put_char(out, '&');
		auth = colon + 1;
	}
	put_text(out, "sentinel_password=");
	put_escaped(out, auth, strlen(auth));
}

static int put_sentinel(struct url_writer *out, const struct wr_redis_environment *from,
			struct weir_error *error)
{
	size_t master = strcspn(from->url, ",");

	if (!from->url[master])
		return wr_error(error, WEIR_EINVAL,
				"REDIS_URL: with REDIS_TYPE=SENTINEL it is the master's name and "
				"the sentinels: mymaster,sentinel1:26379,sentinel2:26379");
	put_text(out, from->tls ? "rediss+sentinel://" : "redis+sentinel://");
	put_login(out, from->auth);
	put_text(out, from->url + master + 1);
	put_char(out, '/');
	put_escaped(out, from->url, master);
	put_sentinel_login(out, from->sentinel_auth);
	return 0;
}

static bool is_unix(const struct wr_redis_environment *from)
{
	return from->url[0] == '/' ||
	       (from->socket_type && strcasecmp(from->socket_type, "unix") == 0);
}

static int put_single(struct url_writer *out, const struct wr_redis_environment *from,
		      struct weir_error *error)
{
	if (!is_unix(from)) {
		put_text(out, from->tls ? "rediss://" : "redis://");
		put_login(out, from->auth);
		put_text(out, from->url);
		return 0;
	}
	if (from->tls)
		return wr_error(error, WEIR_EINVAL, "REDIS_TLS is not for a Unix socket");
	put_text(out, "redis+unix://");
	put_login(out, from->auth);
	put_text(out, from->url);
	return 0;
}

/* Returns whether the text is a whole URL, which the reference accepts too. */
static bool is_url(const char *text)
{
	return strncmp(text, "redis://", 8) == 0 || strncmp(text, "rediss://", 9) == 0;
}

int wr_redis_environment_url(const struct wr_redis_environment *from, char *url, size_t cap,
			     struct weir_error *error)
{
	const char *type = from->type ? from->type : "SINGLE";
	struct url_writer out = {url, cap, 0};
	int rc = 0;

	if (strcasecmp(type, "SENTINEL") == 0) {
		rc = put_sentinel(&out, from, error);
	} else if (strcasecmp(type, "CLUSTER") == 0) {
		put_text(&out, from->tls ? "rediss+cluster://" : "redis+cluster://");
		put_login(&out, from->auth);
		put_text(&out, from->url);
	} else if (strcasecmp(type, "SINGLE") != 0) {
		return wr_error(error, WEIR_EINVAL,
				"REDIS_TYPE=%s is none of SINGLE, SENTINEL, CLUSTER", type);
	} else if (is_url(from->url)) {
		put_text(&out, from->url);
	} else {
		rc = put_single(&out, from, error);
	}
	if (rc == 0 && out.len + 1 >= cap)
		return wr_error(error, WEIR_EINVAL, "REDIS_URL is too long");
	url[out.len < cap ? out.len : cap - 1] = '\0';
	return rc;
}
