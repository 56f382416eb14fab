/* The decision API over HTTP/1.1: what applications and proxies ask. docs/http-api.md. */
#ifndef WR_SERVE_HTTP_HTTP_H
#define WR_SERVE_HTTP_HTTP_H

#include "serve/http/server.h"
#include "net/networks.h"
#include "wire/memory.h"

/* One list of routes: X(path, methods, handler, what it is). A path that ends in a slash is all
 * below it; no methods means any. docs/openapi.yaml has the same ones, and a test sees to that. */
#define WR_HTTP_ROUTES(X)                                                                          \
	X("/v1/check", "POST", wr_http_check, "one question or many, as JSON")                     \
	X("/json", "", wr_http_json, "RateLimitRequest as protojson")                              \
	X("/check/", "", wr_http_forward, "a proxy asks about a request it holds")                 \
	X("/healthz", "GET, HEAD", wr_http_alive, "the process is alive")                          \
	X("/readyz", "GET, HEAD", wr_http_ready, "questions are welcome")                          \
	X("/healthcheck", "GET, HEAD", wr_http_reference_health, "as the reference has it")

#define WR_HTTP_ROUTE_DECLARE(path, methods, handler, what)                                        \
	void handler(struct wr_http_request *request);
WR_HTTP_ROUTES(WR_HTTP_ROUTE_DECLARE)
#undef WR_HTTP_ROUTE_DECLARE

/* A server's own: in struct wr_http_server's context. */
struct wr_http_context {
	struct wr_rls_memory memory; /* one message of /json at a time */
	struct wr_networks trusted;  /* by --trust; none: the neighbours */
};

/* Whether whoever asks may describe requests: a peer that is trusted, or on a Unix socket. */
bool wr_http_trusts(const struct wr_http_request *request);

/* Whether this ask may be decided for this client: hits below 0 need --refunds. */
bool wr_http_may_decide(const struct wr_http_request *request, const struct weir_ask *ask);

#define WR_HTTP_NO_REFUNDS                                                                         \
	"hits below 0 give back what was counted, and this client may not; --refunds names those " \
	"that may"

extern const struct wr_protocol wr_http_protocol;

/* ---- routes, for the admin API too ---- */

struct wr_http_route {
	const char *path;
	const char *methods;
	void (*handle)(struct wr_http_request *request);
};

/* Hands the request to its route, or answers that there is none, or not for this method. */
void wr_http_dispatch(const struct wr_http_route *list, size_t count,
		      struct wr_http_request *request);

#endif
