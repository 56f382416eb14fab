/* The decision API over HTTP/1.1, for applications and proxies; docs/http-api.md describes it. */
#ifndef WR_SERVE_HTTP_HTTP_H
#define WR_SERVE_HTTP_HTTP_H

#include "serve/http/server.h"
#include "wire/memory.h"

/* X(path, methods, handler, description): the routes. A path that ends in a slash stands for all
 * paths below it. An empty list of methods allows any method. A test compares the routes with
 * docs/openapi.yaml. */
#define WR_HTTP_ROUTES(X)                                                                          \
	X("/v1/check", "POST", wr_serve_http_check, "one check or a list of checks, as JSON")      \
	X("/v1/reserve", "POST", wr_serve_http_reserve, "charges a request that is settled later") \
	X("/v1/commit", "POST", wr_serve_http_commit, "settles a reservation by its actual cost")  \
	X("/v1/cancel", "POST", wr_serve_http_cancel_reservation, "gives a reservation back")      \
	X("/v1/acquire", "POST", wr_serve_http_acquire, "takes slots; the same as /v1/reserve")    \
	X("/v1/release", "POST", wr_serve_http_release, "gives the slots of a reservation back")   \
	X("/json", "", wr_serve_http_json, "RateLimitRequest as protojson")                        \
	X("/check/", "", wr_serve_http_forward, "a proxy asks whether to admit a request")         \
	X("/healthz", "GET, HEAD", wr_serve_http_alive, "the process is alive")                    \
	X("/readyz", "GET, HEAD", wr_serve_http_ready, "the service is ready to decide requests")  \
	X("/healthcheck", "GET, HEAD", wr_serve_http_reference_health, "as in Envoy's ratelimit")

#define WR_HTTP_ROUTE_DECLARE(path, methods, handler, what)                                        \
	void handler(struct wr_serve_http_request *request);
WR_HTTP_ROUTES(WR_HTTP_ROUTE_DECLARE)
#undef WR_HTTP_ROUTE_DECLARE

/* The `context` of a struct wr_serve_http_server of the decision API. */
struct wr_serve_http_context {
	struct wr_rls_memory memory; /* memory for one message of /json at a time */
};

/* Returns true if the request came over a Unix socket, or from an address in a trusted network. The
 * sender of such a request is allowed to describe requests of other clients at /check/. */
bool wr_serve_http_trusts(const struct wr_serve_http_request *request);

/* Returns whether the client is allowed to ask for this decision. Hits below 0 are allowed only for
 * clients that may give hits back (--refunds). */
bool wr_serve_http_may_decide(const struct wr_serve_http_request *request,
			      const struct weir_ask *ask);

/* Checks the permission as wr_serve_http_may_decide does, and that hits below 0 have a time.
 * Returns 0, or -1 with `problem` set. */
int wr_serve_http_check_refund(const struct wr_serve_http_request *request,
			       const struct weir_ask *ask, struct wr_problem *problem);

/* Adds the header fields of the decision (--headers) to a response. Defined in forward.c. */
void wr_serve_http_add_fields(const struct wr_serve_http_request *request,
			      struct wr_serve_http_response *response, struct weir_ask *ask);

#define WR_HTTP_NO_REFUNDS                                                                         \
	"hits below 0 give counted units back, and this client is not allowed to do that; add "    \
	"its address to --refunds"

extern const struct wr_protocol wr_serve_http_protocol;

/* ---- routes, which the admin API uses too ---- */

struct wr_serve_http_route {
	const char *path;
	const char *methods;
	void (*handle)(struct wr_serve_http_request *request);
};

/* Calls the handler of the route. Responds with 404 if there is no route, and with 405 if the
 * method is wrong. */
void wr_serve_http_dispatch(const struct wr_serve_http_route *list, size_t count,
			    struct wr_serve_http_request *request);

#endif
