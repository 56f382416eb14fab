/* The admin server: checks whether the client has access, and passes the request to its route. The
 * functions with which all routes respond are here too. Called by the listeners of --admin and
 * --admin-socket. */
#include "serve/admin/admin.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/networks.h"
#include "serve/http/page.h"
#include "serve/service.h"

static const struct wr_serve_http_route routes[] = {
#define ROUTE_ROW(path, methods, handler, what) {path, methods, handler},
	WR_ADMIN_ROUTES(ROUTE_ROW)
#undef ROUTE_ROW
};

/* ---- the client ---- */

/* Writes the name of the client into `who`: the address of a TCP client, or the user and process id
 * of a client on the Unix socket. */
static void describe_peer(const struct wr_serve_http_request *request, char who[WR_ADMIN_WHO])
{
	const struct sockaddr *address = wr_serve_http_peer(request);
	char text[INET6_ADDRSTRLEN] = "?";
	struct ucred peer;
	socklen_t len = sizeof peer;

	if (request->server->listener->endpoint.kind == WR_ENDPOINT_UNIX) {
		if (getsockopt(wr_stream_fd(request->client->stream), SOL_SOCKET, SO_PEERCRED,
			       &peer, &len) == 0)
			snprintf(who, WR_ADMIN_WHO, "uid %u (pid %d)", (unsigned)peer.uid,
				 (int)peer.pid);
		return;
	}
	if (address && address->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)address;

		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
	} else if (address && address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)address;

		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
	}
	snprintf(who, WR_ADMIN_WHO, "%s", text);
}

void wr_admin_log(const struct wr_serve_http_request *request, uint64_t key, const char *format,
		  ...)
{
	const struct wr_admin *admin = request->server->context;
	char what[512];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	wr_log(WR_LOG_INFO, "admin: %s: %s", admin->who, what);
	wr_changes_note(wr_loop_service(request->server->loop)->changes,
			wr_loop_now_ns(request->server->loop), key, admin->who, what);
}

/* ---- access ---- */

/* Returns whether a browser loads the dashboard because a user followed a link. In this case the
 * browser sends Sec-Fetch-Dest: document. */
static bool follows_link(const struct wr_serve_http_request *request)
{
	return wr_admin_is_page(request->path) &&
	       wr_str_equal(wr_serve_http_field(request, "Sec-Fetch-Dest"), WR_STR("document"));
}

static int check_page(const struct wr_serve_http_request *request, struct wr_problem *problem)
{
	const struct wr_listener *listener = request->server->listener;
	struct weir_str host = wr_serve_http_field(request, "Host");

	if (listener->endpoint.kind == WR_ENDPOINT_UNIX)
		return 0;
	if (wr_listener_local(listener) && !wr_page_host_is_local(host))
		return wr_problem(
			problem, WR_MISDIRECTED,
			"the Host header names another machine; use 127.0.0.1 or localhost");
	if (wr_page_is_foreign(wr_serve_http_field(request, "Origin"), host) ||
	    (wr_str_equal(wr_serve_http_field(request, "Sec-Fetch-Site"), WR_STR("cross-site")) &&
	     !follows_link(request)))
		return wr_problem(problem, WR_FORBIDDEN,
				  "requests from web pages of other sites are refused");
	return 0;
}

/* Returns whether a path needs no token. Files of the dashboard never need a token. /metrics needs
 * no token if there is no token file, because then only this machine can reach the port, and
 * metrics name rules but never clients. */
static bool is_public(const struct wr_admin *admin, const char *path)
{
	return wr_admin_is_page(path) || (!admin->tokens && strcmp(path, "/metrics") == 0);
}

/* Refuses a request without a correct token. A wrong token is counted against the client's address.
 * A request without any token is not counted. */
static int refuse_token(const struct wr_serve_http_request *request, bool shown,
			struct wr_problem *problem)
{
	struct wr_admin *admin = request->server->context;
	struct wr_address address;

	if (shown && wr_networks_address(wr_serve_http_peer(request), &address))
		admin->wait_ms =
			wr_admin_guard_wrong(&wr_loop_service(request->server->loop)->admin_guard,
					     &address, uv_now(&request->server->loop->uv));
	if (admin->wait_ms)
		return wr_problem(problem, WR_TOO_OFTEN,
				  "too many wrong tokens from this address; a correct token is "
				  "always accepted");
	return wr_problem(problem, WR_UNAUTHORIZED,
			  "a token is required: send Authorization: Bearer TOKEN with %s",
			  admin->tokens ? "a token of --admin-token-file"
					: "the token in the dashboard address that weir printed at "
					  "start. weir's commands on this machine need no token if "
					  "they are called without --admin");
}

static int check_token(const struct wr_serve_http_request *request, struct wr_problem *problem)
{
	const struct wr_settings *settings = wr_loop_settings(request->server->loop);
	struct wr_admin *admin = request->server->context;
	struct weir_str authorization = wr_serve_http_field(request, "Authorization");
	const char *start = wr_admin_start_token(settings);
	size_t len = strlen(admin->who);

	admin->token_name = NULL;
	admin->wait_ms = 0;
	if (request->server->listener->endpoint.kind == WR_ENDPOINT_UNIX || settings->admin_open ||
	    is_public(admin, request->path))
		return 0;
	if (admin->tokens)
		admin->token_name = wr_tokens_find(admin->tokens, authorization);
	else if (start && wr_admin_token_matches(start, authorization))
		admin->token_name = "made at start";
	if (!admin->token_name)
		return refuse_token(request, authorization.len > 0, problem);
	if (admin->tokens)
		snprintf(admin->who + len, sizeof admin->who - len, ", token %s",
			 admin->token_name);
	return 0;
}

/* Accepts a POST only if its Content-Type is JSON, because a form on another site can make a
 * browser send text or form fields, but not JSON. */
static int check_media(const struct wr_serve_http_request *request, struct wr_problem *problem)
{
	if (strcmp(request->method, "POST") != 0 ||
	    wr_page_is_json(wr_serve_http_field(request, "Content-Type")))
		return 0;
	return wr_problem(problem, WR_BAD_MEDIA,
			  "send Content-Type: application/json; if there are no members to send, "
			  "the body is {}");
}

/* If a browser sends a POST (with Origin or Sec-Fetch-Site), checks the page token in X-Weir-Page.
 * Pages of other origins cannot read this token, so they cannot send it. If the token is wrong or
 * missing, returns -1 and fills in the problem. Otherwise returns 0. */
static int check_browser(const struct wr_serve_http_request *request, struct wr_problem *problem)
{
	const char *token = wr_admin_page_token();
	struct weir_str shown = wr_serve_http_field(request, "X-Weir-Page");

	if (strcmp(request->method, "POST") != 0 ||
	    (wr_serve_http_field(request, "Origin").len == 0 &&
	     wr_serve_http_field(request, "Sec-Fetch-Site").len == 0))
		return 0;
	if (token && shown.len == strlen(token) && CRYPTO_memcmp(shown.ptr, token, shown.len) == 0)
		return 0;
	return wr_problem(problem, WR_FORBIDDEN,
			  "a web page must send the header X-Weir-Page with the value of \"page\" "
			  "in GET /v1/session");
}

static int check_request(const struct wr_serve_http_request *request, struct wr_problem *problem)
{
	describe_peer(request, ((struct wr_admin *)request->server->context)->who);
	if (check_page(request, problem) != 0 || check_token(request, problem) != 0 ||
	    check_browser(request, problem) != 0)
		return -1;
	if (request->too_large)
		return wr_problem(problem, WR_TOO_LARGE, "the body is larger than %u bytes",
				  WR_HTTP_BODY_MAX);
	return check_media(request, problem);
}

/* Responds with a problem (RFC 9457), and adds one header field to the response. */
static void reply_refusal(struct wr_serve_http_request *request, const struct wr_problem *problem,
			  const char *name, const char *value)
{
	struct wr_serve_http_response *response = wr_serve_http_response_problem(problem);

	wr_serve_http_header(response, wr_str(name), wr_str(value));
	wr_serve_http_reply(request, (unsigned)wr_problem_status(problem->code), response);
}

/* Responds to a client that sent too many wrong tokens. The request is not logged, because the
 * client's earlier requests are in the log. */
static void reply_too_often(struct wr_serve_http_request *request, const struct wr_problem *problem)
{
	const struct wr_admin *admin = request->server->context;
	char seconds[24];

	snprintf(seconds, sizeof seconds, "%llu",
		 (unsigned long long)(admin->wait_ms + 999) / 1000);
	request->close = true;
	reply_refusal(request, problem, "Retry-After", seconds);
}

static void handle_request(struct wr_serve_http_request *request)
{
	static struct wr_log_gate gate;
	const struct wr_admin *admin = request->server->context;
	struct wr_problem problem;

	if (check_request(request, &problem) == 0) {
		wr_serve_http_dispatch(routes, sizeof routes / sizeof *routes, request);
		return;
	}
	if (problem.code == WR_TOO_OFTEN) {
		reply_too_often(request, &problem);
		return;
	}
	if (problem.code != WR_BAD_MEDIA)
		wr_log_limited(&gate, WR_LOG_WARN, "admin: request of %s refused: %s", admin->who,
			       problem.detail);
	if (problem.code == WR_UNAUTHORIZED)
		reply_refusal(request, &problem, "WWW-Authenticate", "Bearer");
	else
		wr_serve_http_reply_problem(request, &problem);
}

/* ---- responses ---- */

struct wr_serve_http_response *wr_admin_response(struct wr_buf *body, const char *content_type)
{
	bool failed = wr_buf_failed(body);
	struct wr_serve_http_response *response;
	size_t len;
	char *text = wr_buf_release(body, &len);

	if (failed)
		return NULL;
	response = wr_serve_http_response_of(text, len, content_type);
	wr_serve_http_header(response, WR_STR("Cache-Control"), WR_STR("no-store"));
	wr_serve_http_header(response, WR_STR("X-Content-Type-Options"), WR_STR("nosniff"));
	return response;
}

void wr_admin_reply(struct wr_serve_http_request *request, unsigned status,
		    void (*write)(struct wr_json_out *json, void *context), void *context)
{
	struct wr_serve_http_response *response;
	struct wr_json_out json;
	struct wr_buf body;

	wr_assert(write);
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_buf_init(&body, WR_ADMIN_BODY_MAX);
	wr_json_begin(&json, &body);
	write(&json, context);
	wr_buf_add_char(&body, '\n');
	response = wr_admin_response(&body, "application/json");
	wr_serve_http_reply(request, response ? status : 500, response);
}

void wr_admin_reply_error(struct wr_serve_http_request *request, int rc, const char *text)
{
	struct wr_problem problem;
	enum wr_problem_code code = rc == WEIR_ENOENT                         ? WR_NOT_FOUND
				    : rc == WEIR_EMOVED || rc == WEIR_EMEMORY ? WR_UNAVAILABLE
				    : rc == WEIR_EMANY                        ? WR_TOO_MANY
									      : WR_BAD_VALUE;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_problem(&problem, code, "%s", text && text[0] ? text : weir_strerror(rc));
	wr_serve_http_reply_problem(request, &problem);
}

/* ---- the server ---- */

static int open_api(struct wr_serve_http_server *server, struct weir_error *error)
{
	const struct wr_settings *settings = wr_loop_settings(server->loop);
	struct wr_admin *admin = calloc(1, sizeof *admin);
	int rc = 0;

	if (!admin)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	if (settings->admin_token_file)
		rc = wr_tokens_open(settings->admin_token_file, &admin->tokens, error);
	else if (!wr_listener_local(server->listener))
		rc = wr_error(error, WEIR_EINVAL,
			      "--admin %s can be reached from other machines and needs "
			      "--admin-token-file",
			      server->listener->text);
	if (rc < 0)
		free(admin);
	else
		server->context = admin;
	return rc;
}

static void close_api(struct wr_serve_http_server *server)
{
	struct wr_admin *admin = server->context;

	wr_tokens_free(admin->tokens);
	free(admin);
}

static const struct wr_serve_http_api api = {"admin", handle_request, open_api, close_api};

static int start_server(struct wr_loop *loop, struct wr_listener *listener, void **server,
			struct weir_error *error)
{
	return wr_serve_http_server_start(&api, loop, listener, server, error);
}

const struct wr_protocol wr_admin_protocol = WR_HTTP_PROTOCOL("admin", start_server);
