/* Parses and writes Redis URLs. Called by the configuration code of serve, cli and queue. */
#include "redis/url.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "redis/reply.h"

#define REDIS_PORT "6379"
#define SENTINEL_PORT "26379"

struct scheme {
	const char *text;
	enum wr_redis_kind kind;
	bool tls;
	bool path; /* true if the URL contains the path of a Unix socket instead of hosts */
};

static const struct scheme schemes[] = {
	{"redis", WR_REDIS_SINGLE, false, false},
	{"rediss", WR_REDIS_SINGLE, true, false},
	{"redis+unix", WR_REDIS_SINGLE, false, true},
	{"redis+sentinel", WR_REDIS_SENTINEL, false, false},
	{"rediss+sentinel", WR_REDIS_SENTINEL, true, false},
	{"redis+cluster", WR_REDIS_CLUSTER, false, false},
	{"rediss+cluster", WR_REDIS_CLUSTER, true, false},
};

static int url_error(struct weir_error *error, const char *why)
{
	return wr_error(error, WEIR_EINVAL, "the Redis URL %s", why);
}

/* Copies text and decodes %XX. Returns false if the text is too long or contains a zero byte, or if
 * a % is not followed by two hexadecimal digits. */
static bool decode_percent(struct weir_str text, char *out, size_t max)
{
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		int c = (unsigned char)text.ptr[i];

		if (c == '%') {
			if (text.len - i < 3 || wr_hex(text.ptr[i + 1]) < 0 ||
			    wr_hex(text.ptr[i + 2]) < 0)
				return false;
			c = wr_hex(text.ptr[i + 1]) * 16 + wr_hex(text.ptr[i + 2]);
			i += 2;
		}
		if (c == 0 || len == max)
			return false;
		out[len++] = (char)c;
	}
	out[len] = 0;
	return true;
}

static const struct scheme *parse_scheme(struct weir_str *rest)
{
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
		struct weir_str name = wr_str(schemes[i].text);

		if (wr_str_begins(*rest, name) &&
		    wr_str_begins(wr_str_from(*rest, name.len), WR_STR("://"))) {
			*rest = wr_str_from(*rest, name.len + 3);
			return &schemes[i];
		}
	}
	return NULL;
}

/* Parses the login, which ends at the last @ before the options. A password may contain an
 * unencoded @ or /. Hosts contain no @, and a path contains it only as %40. */
static int parse_login(struct weir_str *rest, struct wr_redis_login *login,
		       struct weir_error *error)
{
	struct weir_str before = wr_str_first(*rest, wr_str_find(*rest, '?'));
	struct weir_str user;
	size_t at = 0, colon;

	for (size_t i = 0; i < before.len; i++)
		if (before.ptr[i] == '@')
			at = i + 1;
	if (at == 0)
		return 0;
	user = wr_str_first(before, at - 1);
	colon = wr_str_find(user, ':');
	*rest = wr_str_from(*rest, at);
	if (!decode_percent(wr_str_first(user, colon), login->user, WR_REDIS_NAME_MAX) ||
	    (colon < user.len &&
	     !decode_percent(wr_str_from(user, colon + 1), login->password, WR_REDIS_PASSWORD_MAX)))
		return url_error(error,
				 "has a user or password that is too long, or a '%' that is not "
				 "followed by two hexadecimal digits");
	return 0;
}

static bool parse_db(struct weir_str text, uint32_t *db)
{
	uint64_t number;

	if (text.len > 5 || !wr_redis_number_read(text, WR_REDIS_DB_MAX, &number))
		return false;
	*db = (uint32_t)number;
	return true;
}

static int parse_option(struct weir_str option, struct wr_redis_target *target,
			struct weir_error *error)
{
	size_t equals = wr_str_find(option, '=');
	struct weir_str name = wr_str_first(option, equals);
	struct weir_str value = equals < option.len ? wr_str_from(option, equals + 1) : WR_STR("");

	if (wr_str_equal(name, WR_STR("db")))
		return parse_db(value, &target->db)
			       ? 0
			       : url_error(error, "has a db= that is not a number from 0 to 65535");
	if (target->kind == WR_REDIS_SENTINEL && wr_str_equal(name, WR_STR("sentinel_user")))
		return decode_percent(value, target->sentinel.user, WR_REDIS_NAME_MAX)
			       ? 0
			       : url_error(error, "has a sentinel_user= that is too long or has a "
						  "wrong %XX");
	if (target->kind == WR_REDIS_SENTINEL && wr_str_equal(name, WR_STR("sentinel_password")))
		return decode_percent(value, target->sentinel.password, WR_REDIS_PASSWORD_MAX)
			       ? 0
			       : url_error(error, "has a sentinel_password= that is too long or "
						  "has a wrong %XX");
	return url_error(error, "has an unknown option after '?'; the options are db=, "
				"and for Sentinel sentinel_user= and sentinel_password=");
}

static int parse_options(struct weir_str *rest, struct wr_redis_target *target,
			 struct weir_error *error)
{
	size_t mark = wr_str_find(*rest, '?');
	struct weir_str options;

	if (mark == rest->len)
		return 0;
	options = wr_str_from(*rest, mark + 1);
	*rest = wr_str_first(*rest, mark);
	while (options.len) {
		size_t end = wr_str_find(options, '&');
		int rc = parse_option(wr_str_first(options, end), target, error);

		if (rc < 0)
			return rc;
		options = wr_str_from(options, end < options.len ? end + 1 : end);
	}
	return 0;
}

static bool has_port(struct weir_str host)
{
	size_t bracket = wr_str_find(host, ']');

	return wr_str_has(wr_str_from(host, bracket < host.len ? bracket : 0), ':');
}

static bool parse_host(struct weir_str host, const char *port, struct wr_endpoint *at)
{
	char text[WR_ENDPOINT_TEXT];

	if (host.len == 0 || host.len > sizeof text - 8)
		return false;
	snprintf(text, sizeof text, "%.*s%s%s", (int)host.len, host.ptr, has_port(host) ? "" : ":",
		 has_port(host) ? "" : port);
	return wr_endpoint_parse(wr_str(text), at, NULL) == 0 && at->kind != WR_ENDPOINT_ANY &&
	       at->kind != WR_ENDPOINT_UNIX;
}

static int parse_hosts(struct weir_str *rest, struct wr_redis_target *target,
		       struct weir_error *error)
{
	struct weir_str hosts = wr_str_first(*rest, wr_str_find(*rest, '/'));

	*rest = wr_str_from(*rest, hosts.len);
	for (bool more = true; more;) {
		size_t end = wr_str_find(hosts, ',');

		if (target->at.count == WR_ENDPOINTS_MAX)
			return url_error(error,
					 "names more than 16 hosts; a few suffice, weir finds "
					 "the others through them");
		if (!parse_host(wr_str_first(hosts, end),
				target->kind == WR_REDIS_SENTINEL ? SENTINEL_PORT : REDIS_PORT,
				&target->at.items[target->at.count++]))
			return url_error(error,
					 "needs HOST, HOST:PORT or [IPV6]:PORT, several of them "
					 "separated by commas");
		more = end < hosts.len;
		hosts = wr_str_from(hosts, more ? end + 1 : end);
	}
	if (target->kind == WR_REDIS_SINGLE && target->at.count > 1)
		return url_error(error, "names several hosts; use redis+cluster:// or "
					"redis+sentinel:// for them");
	return 0;
}

/* Parses the part after the hosts: /MASTER and /DB. */
static int parse_path(struct weir_str rest, struct wr_redis_target *target,
		      struct weir_error *error)
{
	if (rest.len)
		rest = wr_str_from(rest, 1);
	if (target->kind == WR_REDIS_SENTINEL) {
		size_t end = wr_str_find(rest, '/');

		if (end == 0 ||
		    !decode_percent(wr_str_first(rest, end), target->master, WR_REDIS_NAME_MAX))
			return url_error(error, "needs the name of the master in Sentinel, as in "
						"redis+sentinel://HOST,HOST/mymaster");
		rest = wr_str_from(rest, end < rest.len ? end + 1 : end);
	}
	if (rest.len && !parse_db(rest, &target->db))
		return url_error(error, "has a path that is not a database number from 0 to 65535");
	if (target->kind == WR_REDIS_CLUSTER && target->db)
		return url_error(error,
				 "names a database, but a cluster has only 0; use --redis-prefix "
				 "to separate applications");
	return 0;
}

static int parse_socket(struct weir_str rest, struct wr_redis_target *target,
			struct weir_error *error)
{
	char path[WR_UNIX_PATH_MAX + 1];
	char text[WR_ENDPOINT_TEXT];

	if (!decode_percent(rest, path, WR_UNIX_PATH_MAX))
		return url_error(
			error,
			"has a socket path that is longer than 107 bytes or has a wrong %XX");
	snprintf(text, sizeof text, "unix:%s", path);
	target->at.count = 1;
	return wr_endpoint_parse(wr_str(text), &target->at.items[0], error);
}

int wr_redis_target_parse(struct weir_str text, struct wr_redis_target *target,
			  struct weir_error *error)
{
	struct weir_str rest = text;
	const struct scheme *scheme = parse_scheme(&rest);
	int rc;

	*target = (struct wr_redis_target){0};
	if (!scheme)
		return url_error(error, "must begin with redis://, rediss://, redis+unix://, "
					"redis+sentinel://, rediss+sentinel://, redis+cluster://, "
					"or rediss+cluster://");
	target->kind = scheme->kind;
	target->tls = scheme->tls;
	if ((rc = parse_login(&rest, &target->login, error)) < 0 ||
	    (rc = parse_options(&rest, target, error)) < 0)
		return rc;
	if (scheme->path)
		return parse_socket(rest, target, error);
	rc = parse_hosts(&rest, target, error);
	return rc < 0 ? rc : parse_path(rest, target, error);
}

int wr_redis_target_password(struct wr_redis_target *target, struct weir_str password,
			     struct weir_error *error)
{
	while (password.len &&
	       (password.ptr[password.len - 1] == '\n' || password.ptr[password.len - 1] == '\r'))
		password.len--;
	if (password.len == 0)
		return wr_error(error, WEIR_EINVAL, "the Redis password is empty");
	if (password.len > WR_REDIS_PASSWORD_MAX || memchr(password.ptr, 0, password.len))
		return wr_error(
			error, WEIR_EINVAL,
			"the Redis password is longer than %d bytes, or contains a zero byte",
			WR_REDIS_PASSWORD_MAX);
	memcpy(target->login.password, password.ptr, password.len);
	target->login.password[password.len] = 0;
	return 0;
}

int wr_redis_prefix_check(const char *prefix, struct weir_error *error)
{
	size_t len = strlen(prefix);

	if (len == 0 || len > WR_REDIS_PREFIX_MAX)
		return wr_error(error, WEIR_EINVAL,
				"the prefix of keys in Redis must have 1 to %u characters",
				WR_REDIS_PREFIX_MAX);
	for (size_t i = 0; i < len; i++)
		if (prefix[i] <= ' ' || prefix[i] > '~' || prefix[i] == '{' || prefix[i] == '}')
			return wr_error(error, WEIR_EINVAL,
					"the prefix '%s' must be printable ASCII without "
					"blanks and braces",
					prefix);
	return 0;
}

static const char *scheme_of(const struct wr_redis_target *target)
{
	bool path = target->at.count && target->at.items[0].kind == WR_ENDPOINT_UNIX;

	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (schemes[i].kind == target->kind && schemes[i].tls == target->tls &&
		    schemes[i].path == path)
			return schemes[i].text;
	return "redis";
}

/* Appends as much of the text as fits into the buffer. */
__attribute__((format(printf, 3, 4))) static void append_text(char text[WR_REDIS_TEXT], size_t *len,
							      const char *format, ...)
{
	va_list args;
	int more;

	va_start(args, format);
	more = vsnprintf(text + *len, WR_REDIS_TEXT - *len, format, args);
	va_end(args);
	if (more > 0)
		*len += (size_t)more < WR_REDIS_TEXT - *len ? (size_t)more
							    : WR_REDIS_TEXT - *len - 1;
}

size_t wr_redis_target_text(const struct wr_redis_target *target, char text[WR_REDIS_TEXT])
{
	char host[WR_ENDPOINT_TEXT];
	size_t len = 0;

	append_text(text, &len, "%s://", scheme_of(target));
	for (size_t i = 0; i < target->at.count; i++) {
		bool path = target->at.items[i].kind == WR_ENDPOINT_UNIX;

		wr_endpoint_text(&target->at.items[i], host);
		append_text(text, &len, "%s%s", i ? "," : "",
			    path ? target->at.items[i].host : host);
	}
	if (target->kind == WR_REDIS_SENTINEL)
		append_text(text, &len, "/%s", target->master);
	if (target->db)
		append_text(text, &len,
			    strcmp(scheme_of(target), "redis+unix") == 0 ? "?db=%u" : "/%u",
			    target->db);
	return len;
}
