/* The decision API over HTTP/1.1, for applications and proxies: docs/http-api.md. */
#ifndef WR_SERVE_HTTP_HTTP_H
#define WR_SERVE_HTTP_HTTP_H

#include "serve/http/server.h"
#include "net/networks.h"
#include "wire/memory.h"

/* X(path, methods, handler, description). A path that ends in a slash stands for all paths below
 * it. No methods: any. A test compares the list with docs/openapi.yaml. */
#define WR_HTTP_ROUTES(X)                                                                          \
	X("/v1/check", "POST", wr_http_check, "one question or many, as JSON")                     \
	X("/json", "", wr_http_json, "RateLimitRequest as protojson")                              \
	X("/check/", "", wr_http_forward, "a proxy asks about a request it holds")                 \
	X("/healthz", "GET, HEAD", wr_http_alive, "the process is alive")                          \
	X("/readyz", "GET, HEAD", wr_http_ready, "the service accepts questions")                  \
	X("/healthcheck", "GET, HEAD", wr_http_reference_health, "as in Envoy's ratelimit")

#define WR_HTTP_ROUTE_DECLARE(path, methods, handler, what)                                        \
	void handler(struct wr_http_request *request);
WR_HTTP_ROUTES(WR_HTTP_ROUTE_DECLARE)
#undef WR_HTTP_ROUTE_DECLARE

/* The context of a server. */
struct wr_http_context {
	struct wr_rls_memory memory; /* one message of /json at a time */
	struct wr_networks trusted;  /* by --trust; none: wr_forward_neighbours */
};

/* Whether the peer may describe requests of others: it is trusted, or on a Unix socket. */
bool wr_http_trusts(const struct wr_http_request *request);

/* Whether the client may ask this: hits below 0 need --refunds. */
bool wr_http_may_decide(const struct wr_http_request *request, const struct weir_ask *ask);

#define WR_HTTP_NO_REFUNDS                                                                         \
	"hits below 0 give back what was counted, and this client may not do that; --refunds "     \
	"grants it"

extern const struct wr_protocol wr_http_protocol;

/* ---- routes, for the admin API too ---- */

struct wr_http_route {
	const char *path;
	const char *methods;
	void (*handle)(struct wr_http_request *request);
};

/* Calls the handler of the route. Without a route it responds 404, with a wrong method 405. */
void wr_http_dispatch(const struct wr_http_route *list, size_t count,
		      struct wr_http_request *request);

#endif
