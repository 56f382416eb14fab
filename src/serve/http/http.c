/* The routes of the decision API, its health checks and its access checks. Called by server.c. */
#include "serve/http/http.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "limiter/refund.h"
#include "serve/http/page.h"
#include "serve/service.h"
#include "wire/check/forward_auth.h"

#define MEMORY_BYTES ((size_t)512 << 10) /* memory for a message of /json and its response */

/* ---- routes ---- */

static const struct wr_serve_http_route routes[] = {
#define ROUTE_ROW(path, methods, handler, what) {path, methods, handler},
	WR_HTTP_ROUTES(ROUTE_ROW)
#undef ROUTE_ROW
};

/* Returns whether the method is in the route's list, such as "GET, HEAD". */
static bool has_method(const struct wr_serve_http_route *route, const char *method)
{
	struct weir_str rest = wr_str(route->methods);

	while (rest.len) {
		size_t comma = wr_str_find(rest, ',');

		if (wr_str_equal(wr_str_trim(wr_str_first(rest, comma)), wr_str(method)))
			return true;
		rest = wr_str_from(rest, comma < rest.len ? comma + 1 : comma);
	}
	return route->methods[0] == '\0';
}

static void reply_not_allowed(struct wr_serve_http_request *request, const char *methods)
{
	struct wr_serve_http_response *response;
	struct wr_problem problem;

	wr_problem(&problem, WR_NOT_ALLOWED,
		   "the method is not allowed at %s; the allowed methods are: %s", request->path,
		   methods);
	response = wr_serve_http_response_problem(&problem);
	wr_serve_http_header(response, WR_STR("Allow"), wr_str(methods));
	wr_serve_http_reply(request, 405, response);
}

void wr_serve_http_dispatch(const struct wr_serve_http_route *list, size_t count,
			    struct wr_serve_http_request *request)
{
	struct weir_str path = wr_str(request->path);
	struct wr_problem problem;
	const char *methods = NULL;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered && count > 0);
	for (size_t i = 0; i < count; i++) {
		struct weir_str own = wr_str(list[i].path);
		bool folder = own.len > 1 && own.ptr[own.len - 1] == '/';

		if (folder ? !wr_str_begins(path, own) || path.len == own.len
			   : !wr_str_equal(path, own))
			continue;
		if (has_method(&list[i], request->method)) {
			list[i].handle(request);
			return;
		}
		methods = list[i].methods;
	}
	if (methods) {
		reply_not_allowed(request, methods);
		return;
	}
	wr_problem(&problem, WR_NOT_FOUND, "this path does not exist");
	wr_serve_http_reply_problem(request, &problem);
}

/* ---- access ---- */

/* Returns whether requests at this path come from proxies, that is, whether the path is below
 * /check/. A proxy passes on the fields Origin, Sec-Fetch-Site and often Host of its client, so
 * these fields do not show whether a web page has sent the request to weir. A web page cannot use
 * /check/ anyway: its browser would send the header fields that describe a request only after a
 * preflight request, and weir allows no preflight request. */
static bool is_relayed(const char *path)
{
	return strncmp(path, "/check/", strlen("/check/")) == 0;
}

/* Refuses requests of web pages, because such requests could use up or refill the limits of other
 * clients. Health checks are allowed: they show nothing of clients and change nothing. Returns 0,
 * or -1 with `problem` set. */
static int check_page(const struct wr_serve_http_request *request, struct wr_problem *problem)
{
	const struct wr_listener *listener = request->server->listener;
	struct weir_str host = wr_serve_http_field(request, "Host");

	if (listener->endpoint.kind == WR_ENDPOINT_UNIX || strcmp(request->path, "/healthz") == 0 ||
	    strcmp(request->path, "/readyz") == 0 || strcmp(request->path, "/healthcheck") == 0)
		return 0;
	if (wr_listener_local(listener) && host.len && !wr_page_host_is_local(host) &&
	    (!is_relayed(request->path) || wr_page_host_has_port(host, listener->endpoint.port)))
		return wr_problem(
			problem, WR_MISDIRECTED,
			"the Host header names another machine; use 127.0.0.1 or localhost");
	if (is_relayed(request->path))
		return 0;
	if (wr_serve_http_field(request, "Origin").len ||
	    wr_serve_http_field(request, "Sec-Fetch-Site").len)
		return wr_problem(problem, WR_FORBIDDEN,
				  "requests from web pages are refused: the request has an Origin "
				  "or Sec-Fetch-Site header");
	if (request->body.len && !wr_page_is_json(wr_serve_http_field(request, "Content-Type")))
		return wr_problem(problem, WR_BAD_MEDIA, "send Content-Type: application/json");
	return 0;
}

static void handle(struct wr_serve_http_request *request)
{
	struct wr_problem problem;

	if (check_page(request, &problem) != 0) {
		wr_serve_http_reply_problem(request, &problem);
		return;
	}
	if (request->too_large) {
		wr_problem(&problem, WR_TOO_LARGE, "the body is larger than %u bytes",
			   WR_HTTP_BODY_MAX);
		wr_serve_http_reply_problem(request, &problem);
		return;
	}
	wr_serve_http_dispatch(routes, sizeof routes / sizeof *routes, request);
}

/* ---- health ---- */

void wr_serve_http_alive(struct wr_serve_http_request *request)
{
	wr_serve_http_reply_text(request, 200, WR_STR("ok\n"), "text/plain; charset=utf-8");
}

void wr_serve_http_ready(struct wr_serve_http_request *request)
{
	struct wr_loop *loop = request->server->loop;
	struct weir_engine_info info = {.size = sizeof info};
	struct wr_problem problem;

	if (wr_service_is_ending(wr_loop_service(loop))) {
		wr_problem(&problem, WR_UNAVAILABLE, "the service is shutting down");
	} else if (wr_loop_health(loop) != WR_HEALTH_SERVING) {
		wr_problem(&problem, WR_UNAVAILABLE,
			   "Redis is unavailable, and every rule has on_store_failure: deny");
	} else if (weir_engine_info(wr_loop_engine(loop), &info) != 0 || info.generation == 0) {
		wr_problem(&problem, WR_UNAVAILABLE, "no rules have been loaded yet");
	} else {
		wr_serve_http_reply_text(request, 200, WR_STR("ready\n"),
					 "text/plain; charset=utf-8");
		return;
	}
	wr_serve_http_reply_problem(request, &problem);
}

void wr_serve_http_reference_health(struct wr_serve_http_request *request)
{
	bool fine = wr_loop_health(request->server->loop) == WR_HEALTH_SERVING;

	wr_serve_http_reply_text(request, fine ? 200 : 500, fine ? WR_STR("OK") : WR_STR(""),
				 "text/plain; charset=utf-8");
}

/* ---- trusted peers ---- */

bool wr_serve_http_trusts(const struct wr_serve_http_request *request)
{
	const struct wr_networks *trusted = &wr_loop_service(request->server->loop)->trusted;
	struct wr_address address;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	if (request->server->listener->endpoint.kind == WR_ENDPOINT_UNIX)
		return true;
	return wr_networks_address(wr_serve_http_peer(request), &address) &&
	       wr_address_ranges_hold(trusted->ranges.count ? &trusted->ranges
							    : wr_forward_neighbours(),
				      &address);
}

bool wr_serve_http_may_decide(const struct wr_serve_http_request *request,
			      const struct weir_ask *ask)
{
	return !wr_ask_gives_back(ask) ||
	       wr_service_refunds(wr_loop_service(request->server->loop), request->client->stream);
}

int wr_serve_http_check_refund(const struct wr_serve_http_request *request,
			       const struct weir_ask *ask, struct wr_problem *problem)
{
	if (!wr_serve_http_may_decide(request, ask))
		return wr_problem(problem, WR_FORBIDDEN, WR_HTTP_NO_REFUNDS);
	if (wr_ask_lacks_time(ask))
		return wr_problem(
			problem, WR_MISSING_MEMBER,
			"hits below 0 need \"taken_at\", the time at which the units were "
			"taken; /v1/reserve and /v1/commit give units back exactly");
	return 0;
}

/* ---- beginning and end ---- */

static void free_context(struct wr_serve_http_context *context)
{
	wr_rls_memory_free(&context->memory);
	free(context);
}

static int open_api(struct wr_serve_http_server *server, struct weir_error *error)
{
	struct wr_serve_http_context *context = calloc(1, sizeof *context);

	if (!context || wr_rls_memory_init(&context->memory, MEMORY_BYTES) < 0) {
		free(context);
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	server->context = context;
	return 0;
}

static void close_api(struct wr_serve_http_server *server)
{
	free_context(server->context);
}

static const struct wr_serve_http_api api = {"http", handle, open_api, close_api};

static int start_server(struct wr_loop *loop, struct wr_listener *listener, void **server,
			struct weir_error *error)
{
	return wr_serve_http_server_start(&api, loop, listener, server, error);
}

const struct wr_protocol wr_serve_http_protocol = WR_HTTP_PROTOCOL("http", start_server);
