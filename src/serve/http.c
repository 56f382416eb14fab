#include "serve/http.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "base/error.h"
#include "serve/service.h"
#include "wire/forward_auth.h"

#define MEMORY_BYTES ((size_t)512 << 10) /* of a message of /json and its answer */

/* ---- routes ---- */

static const struct wr_http_route routes[] = {
#define ROUTE_ROW(path, methods, handler, what) {path, methods, handler},
	WR_HTTP_ROUTES(ROUTE_ROW)
#undef ROUTE_ROW
};

static bool leads_to(const struct wr_http_route *route, struct weir_str path)
{
	struct weir_str own = wr_str(route->path);

	return own.ptr[own.len - 1] == '/' && own.len > 1
		       ? wr_str_begins(path, own) && path.len > own.len
		       : wr_str_equal(path, own);
}

/* Whether the method is one of "GET, HEAD". */
static bool takes(const struct wr_http_route *route, const char *method)
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

static void reply_not_allowed(struct wr_http_request *request, const char *methods)
{
	struct wr_problem problem;
	char text[WR_PROBLEM_TEXT];
	struct wr_text out = {text, sizeof text, 0};
	struct MHD_Response *response;

	wr_problem(&problem, WR_NOT_ALLOWED, "%s takes: %s", request->path, methods);
	wr_problem_write(&problem, &out);
	response = wr_http_response((struct weir_str){text, out.len}, "application/problem+json");
	wr_http_header(response, WR_STR("Allow"), wr_str(methods));
	wr_http_reply(request, 405, response);
}

void wr_http_dispatch(const struct wr_http_route *list, size_t count,
		      struct wr_http_request *request)
{
	struct weir_str path = wr_str(request->path);
	struct wr_problem problem;
	const char *methods = NULL;

	for (size_t i = 0; i < count; i++) {
		if (!leads_to(&list[i], path))
			continue;
		if (takes(&list[i], request->method)) {
			list[i].handle(request);
			return;
		}
		methods = list[i].methods;
	}
	if (methods) {
		reply_not_allowed(request, methods);
		return;
	}
	wr_problem(&problem, WR_NOT_FOUND, "there is nothing at this path");
	wr_http_reply_problem(request, &problem);
}

static void handle(struct wr_http_request *request)
{
	struct wr_problem problem;

	if (request->too_large) {
		wr_problem(&problem, WR_TOO_LARGE, "a body may have %u bytes", WR_HTTP_BODY_MAX);
		wr_http_reply_problem(request, &problem);
		return;
	}
	wr_http_dispatch(routes, sizeof routes / sizeof *routes, request);
}

/* ---- health ---- */

void wr_http_alive(struct wr_http_request *request)
{
	wr_http_reply_text(request, 200, WR_STR("ok\n"), "text/plain; charset=utf-8");
}

static bool has_rules(const struct wr_http_request *request)
{
	struct weir_engine_info info = {.size = sizeof info};

	return weir_engine_info(wr_loop_engine(request->server->loop), &info) == 0 &&
	       info.generation > 0;
}

void wr_http_ready(struct wr_http_request *request)
{
	struct wr_problem problem;

	if (wr_service_is_ending(wr_loop_service(request->server->loop))) {
		wr_problem(&problem, WR_UNAVAILABLE, "the service is shutting down");
	} else if (wr_loop_health(request->server->loop) != WR_HEALTH_SERVING) {
		wr_problem(&problem, WR_UNAVAILABLE,
			   "Redis is away, and every rule says on_store_failure: deny");
	} else if (!has_rules(request)) {
		wr_problem(&problem, WR_UNAVAILABLE, "no rules have been loaded yet");
	} else {
		wr_http_reply_text(request, 200, WR_STR("ready\n"), "text/plain; charset=utf-8");
		return;
	}
	wr_http_reply_problem(request, &problem);
}

void wr_http_reference_health(struct wr_http_request *request)
{
	bool fine = wr_loop_health(request->server->loop) == WR_HEALTH_SERVING;

	wr_http_reply_text(request, fine ? 200 : 500, fine ? WR_STR("OK") : WR_STR(""),
			   "text/plain; charset=utf-8");
}

/* ---- who is trusted ---- */

static bool peer_address(const struct wr_http_request *request, struct wr_address *address)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *peer = info ? info->client_addr : NULL;

	if (peer && peer->sa_family == AF_INET) {
		*address = wr_address_from(
			(const uint8_t *)&((const struct sockaddr_in *)(const void *)peer)
				->sin_addr,
			4);
		return true;
	}
	if (peer && peer->sa_family == AF_INET6) {
		*address = wr_address_from(
			(const uint8_t *)&((const struct sockaddr_in6 *)(const void *)peer)
				->sin6_addr,
			16);
		return true;
	}
	return false;
}

bool wr_http_trusts(const struct wr_http_request *request)
{
	const struct wr_http_context *context = request->server->context;
	struct wr_address address;

	if (request->server->listener->endpoint.kind == WR_ENDPOINT_UNIX)
		return true;
	return peer_address(request, &address) &&
	       wr_ranges_hold(context->trusted.count ? &context->trusted : wr_forward_neighbours(),
			      &address);
}

static int read_trusted(struct wr_http_context *context, const struct wr_text_list *list,
			struct weir_error *error)
{
	unsigned bits;

	context->ranges = calloc(list->count + 1, sizeof *context->ranges);
	if (!context->ranges)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	for (size_t i = 0; i < list->count; i++)
		if (wr_prefix_parse(wr_str(list->items[i]), &context->ranges[i], &bits) !=
		    WR_PREFIX_OK)
			return wr_error(error, WEIR_EINVAL,
					"--trust '%s' is not a network such as 192.0.2.0/24",
					list->items[i]);
	context->trusted.items = context->ranges;
	context->trusted.count = (uint32_t)wr_ranges_join(context->ranges, list->count);
	return 0;
}

/* ---- beginning and end ---- */

static void free_context(struct wr_http_context *context)
{
	wr_rls_memory_free(&context->memory);
	free(context->ranges);
	free(context);
}

static int open_api(struct wr_http_server *server, struct weir_error *error)
{
	struct wr_http_context *context = calloc(1, sizeof *context);
	int rc;

	if (!context || wr_rls_memory_init(&context->memory, MEMORY_BYTES) < 0) {
		free(context);
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	rc = read_trusted(context, &wr_loop_settings(server->loop)->trust, error);
	if (rc < 0)
		free_context(context);
	else
		server->context = context;
	return rc;
}

static void close_api(struct wr_http_server *server)
{
	free_context(server->context);
}

static const struct wr_http_api api = {"http", handle, open_api, close_api};

static int start(struct wr_loop *loop, struct wr_listener *listener, int fd, void **state,
		 struct weir_error *error)
{
	return wr_http_server_start(&api, loop, listener, fd, state, error);
}

const struct wr_host wr_http_host = {"http",
				     start,
				     wr_http_server_turn_away,
				     wr_http_server_drain,
				     wr_http_server_open,
				     wr_http_server_stop};
