/* Addresses to listen on or to connect to, as they are written in options. */
#ifndef WR_BASE_ENDPOINT_H
#define WR_BASE_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

enum wr_endpoint_kind {
	WR_ENDPOINT_ANY,  /* a port on all addresses of the machine */
	WR_ENDPOINT_NAME, /* a host name, which DNS resolves */
	WR_ENDPOINT_V4,
	WR_ENDPOINT_V6,
	WR_ENDPOINT_UNIX,
};

#define WR_HOST_MAX 253      /* maximum length of a DNS name */
#define WR_UNIX_PATH_MAX 107 /* maximum length of the path in a struct sockaddr_un */
#define WR_ENDPOINT_TEXT 272 /* size of a buffer for any endpoint as text */

struct wr_endpoint {
	enum wr_endpoint_kind kind;
	uint16_t port; /* 0 for WR_ENDPOINT_UNIX */
	/* the host name, the address without brackets, or the absolute path of the Unix socket; ""
	 * for WR_ENDPOINT_ANY */
	char host[WR_HOST_MAX + 1];
};

#define WR_ENDPOINTS_MAX 16

struct wr_endpoint_list {
	size_t count;
	struct wr_endpoint items[WR_ENDPOINTS_MAX];
};

/* Reads an address to listen on: PORT, :PORT, *:PORT, HOST:PORT, [V6]:PORT, unix:/path. Returns 0
 * or WEIR_EINVAL. */
int wr_endpoint_parse(struct weir_str text, struct wr_endpoint *endpoint, struct weir_error *error);

/* Writes an endpoint: "127.0.0.1:8080", "[::1]:8080", "unix:/run/x" or "*:8080". Returns the length
 * of the text. */
size_t wr_endpoint_text(const struct wr_endpoint *endpoint, char text[WR_ENDPOINT_TEXT]);

bool wr_endpoint_equal(const struct wr_endpoint *a, const struct wr_endpoint *b);

struct wr_url {
	bool tls;
	struct wr_endpoint at;
	struct weir_str path; /* part of the parsed text; begins with a slash, or is empty */
};

/* Reads http://HOST[:PORT][/PATH], https://…, unix:/path or http://unix:/path. The URL must not
 * have a user, a query, a fragment, or a character that RFC 3986 does not allow in a URL, such as a
 * blank or a quote. Returns 0 or WEIR_EINVAL. */
int wr_url_parse(struct weir_str text, struct wr_url *url, struct weir_error *error);

#endif
