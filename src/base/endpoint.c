/* Reads and writes addresses and URLs that are given in options. */
#include "base/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"

#define SHOWN_MAX 120 /* an error message quotes at most this many bytes of the text */

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Returns whether `c` is one of the characters of `set`. The zero byte that ends `set` is not one
 * of them, although strchr() finds it. */
static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static int not_usable(struct weir_error *error, struct weir_str text, const char *why)
{
	return wr_error(error, WEIR_EINVAL, "'%.*s' %s",
			(int)(text.len < SHOWN_MAX ? text.len : SHOWN_MAX), text.ptr, why);
}

static bool parse_port(struct weir_str text, uint16_t *port)
{
	unsigned value = 0;

	if (text.len == 0 || text.len > 5)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return false;
		value = value * 10 + (unsigned)(text.ptr[i] - '0');
	}
	*port = (uint16_t)value;
	return value >= 1 && value <= 65535;
}

/* Returns whether `host` can be a host name, which consists of letters, digits, dots, hyphens and
 * underscores. Underscores are accepted because some name servers have such names, although the
 * rules for host names in DNS forbid them. */
static bool is_name(struct weir_str host)
{
	if (host.len == 0 || host.len > WR_HOST_MAX || host.ptr[0] == '-' || host.ptr[0] == '.')
		return false;
	for (size_t i = 0; i < host.len; i++)
		if (!is_alnum(host.ptr[i]) && !is_one_of(host.ptr[i], "-._"))
			return false;
	return true;
}

static bool is_numeric(struct weir_str host)
{
	for (size_t i = 0; i < host.len; i++)
		if (!is_one_of(host.ptr[i], "0123456789."))
			return false;
	return true;
}

static bool is_address(int family, struct weir_str host)
{
	unsigned char bytes[16];
	char text[INET6_ADDRSTRLEN];

	if (host.len >= sizeof text)
		return false;
	memcpy(text, host.ptr, host.len);
	text[host.len] = 0;
	return inet_pton(family, text, bytes) == 1;
}

static void set_host(struct wr_endpoint *endpoint, enum wr_endpoint_kind kind, struct weir_str host)
{
	endpoint->kind = kind;
	memcpy(endpoint->host, host.ptr, host.len);
	endpoint->host[host.len] = 0;
}

/* Reads a host without a port. An IPv6 address must be in brackets. */
static bool parse_host(struct weir_str host, struct wr_endpoint *endpoint)
{
	if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']') {
		host = wr_str_first(wr_str_from(host, 1), host.len - 2);
		if (!is_address(AF_INET6, host))
			return false;
		set_host(endpoint, WR_ENDPOINT_V6, host);
		return true;
	}
	if (!is_name(host) || (is_numeric(host) && !is_address(AF_INET, host)))
		return false;
	set_host(endpoint, is_numeric(host) ? WR_ENDPOINT_V4 : WR_ENDPOINT_NAME, host);
	return true;
}

static int parse_unix(struct weir_str text, struct wr_endpoint *endpoint, struct weir_error *error)
{
	struct weir_str path = wr_str_from(text, strlen("unix:"));

	if (path.len == 0 || path.ptr[0] != '/')
		return not_usable(error, text, "needs an absolute path, as in unix:/run/api.sock");
	if (path.len > WR_UNIX_PATH_MAX)
		return not_usable(error, text,
				  "is longer than 107 bytes, the maximum of a socket path");
	for (size_t i = 0; i < path.len; i++)
		if (!is_alnum(path.ptr[i]) && !is_one_of(path.ptr[i], "/-._+@,=%~"))
			return not_usable(error, text,
					  "has a character that is not allowed in a socket path: "
					  "use letters, digits and / - . _ + @ , = % ~");
	set_host(endpoint, WR_ENDPOINT_UNIX, path);
	endpoint->port = 0;
	return 0;
}

/* Returns the index of the colon before the port, or text.len if the text has no port. Colons
 * inside [brackets] are skipped. */
static size_t find_port(struct weir_str text)
{
	size_t bracket = 0;

	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] == ']')
			bracket = i;
	return bracket + wr_str_find(wr_str_from(text, bracket), ':');
}

int wr_endpoint_parse(struct weir_str text, struct wr_endpoint *endpoint, struct weir_error *error)
{
	static const char forms[] = "is not PORT, HOST:PORT, [IPV6]:PORT or unix:/path";
	struct weir_str host;
	size_t colon = find_port(text);

	*endpoint = (struct wr_endpoint){.kind = WR_ENDPOINT_ANY};
	if (wr_str_begins(text, WR_STR("unix:")))
		return parse_unix(text, endpoint, error);
	if (colon == text.len)
		return parse_port(text, &endpoint->port) ? 0 : not_usable(error, text, forms);
	host = wr_str_first(text, colon);
	if (!parse_port(wr_str_from(text, colon + 1), &endpoint->port))
		return not_usable(error, text, forms);
	if (host.len == 0 || wr_str_equal(host, WR_STR("*")))
		return 0;
	return parse_host(host, endpoint) ? 0 : not_usable(error, text, forms);
}

size_t wr_endpoint_text(const struct wr_endpoint *endpoint, char text[WR_ENDPOINT_TEXT])
{
	static const char *const formats[] = {
		[WR_ENDPOINT_ANY] = "%s*:%u",   [WR_ENDPOINT_NAME] = "%s:%u",
		[WR_ENDPOINT_V4] = "%s:%u",     [WR_ENDPOINT_V6] = "[%s]:%u",
		[WR_ENDPOINT_UNIX] = "unix:%s",
	};

	return (size_t)snprintf(text, WR_ENDPOINT_TEXT, formats[endpoint->kind], endpoint->host,
				endpoint->port);
}

bool wr_endpoint_equal(const struct wr_endpoint *a, const struct wr_endpoint *b)
{
	return a->kind == b->kind && a->port == b->port &&
	       wr_str_equal_nocase(wr_str(a->host), wr_str(b->host));
}

/* Returns whether the path has only characters that RFC 3986 allows in a path. `$` is not accepted,
 * although RFC 3986 allows it: the path is written to nginx's configuration, where `$` begins a
 * variable. */
static bool is_path(struct weir_str path)
{
	for (size_t i = 0; i < path.len; i++)
		if (!is_alnum(path.ptr[i]) && !is_one_of(path.ptr[i], "/-._~%!&'()*+,;=:@"))
			return false;
	return true;
}

static int parse_authority(struct weir_str text, struct weir_str authority, struct wr_url *url,
			   struct weir_error *error)
{
	size_t colon = find_port(authority);

	url->at.port = url->tls ? 443 : 80;
	if (colon < authority.len && !parse_port(wr_str_from(authority, colon + 1), &url->at.port))
		return not_usable(error, text, "has no valid port");
	if (!parse_host(wr_str_first(authority, colon), &url->at))
		return not_usable(error, text, "has no valid host");
	return 0;
}

int wr_url_parse(struct weir_str text, struct wr_url *url, struct weir_error *error)
{
	struct weir_str rest = text;

	*url = (struct wr_url){.path = WR_STR("")};
	if (wr_str_begins(text, WR_STR("https://"))) {
		url->tls = true;
		rest = wr_str_from(text, strlen("https://"));
	} else if (wr_str_begins(text, WR_STR("http://"))) {
		rest = wr_str_from(text, strlen("http://"));
	} else if (!wr_str_begins(text, WR_STR("unix:"))) {
		return not_usable(error, text, "does not begin with http://, https:// or unix:");
	}
	/* This error does not quote the URL, because the part before an @ usually contains a
	 * password. */
	if (wr_str_has(wr_str_first(rest, wr_str_find(rest, '/')), '@'))
		return wr_error(error, WEIR_EINVAL, "the URL must not contain a user or password");
	if (wr_str_begins(rest, WR_STR("unix:")))
		return url->tls ? not_usable(error, text, "cannot be https:// on a Unix socket")
				: parse_unix(rest, &url->at, error);
	url->path = wr_str_from(rest, wr_str_find(rest, '/'));
	if (wr_str_has(rest, '?') || wr_str_has(rest, '#'))
		return not_usable(error, text, "must not have a query or a fragment");
	if (!is_path(url->path))
		return not_usable(error, text,
				  "has a character in its path that must be percent-encoded");
	return parse_authority(text, wr_str_first(rest, rest.len - url->path.len), url, error);
}
