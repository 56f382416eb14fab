/* /check/DOMAIN, for Traefik's ForwardAuth, Caddy's forward_auth and nginx's auth_request. If the
 * response is 2xx, the proxy lets the request pass. Otherwise the proxy sends the response to its
 * client. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "serve/http/http.h"
#include "serve/decide/pending.h"
#include "serve/service.h"
#include "wire/check/forward_auth.h"

#define BODY_BYTES 8192u
#define DENY_LOW 400
#define DENY_HIGH 599

/* The arguments in the URL that the proxy is configured with. */
struct choice {
	long deny; /* HTTP status of refusals, from ?deny=; 0: there is no ?deny= */
	int by;    /* enum wr_forward_by */
	const char *identity;
};

/* Reads one argument. Returns 0, or -1 with `problem` set. */
static int read_argument(struct choice *choice, const char *name, const char *value,
			 struct wr_problem *problem)
{
	char *end;

	if (strcmp(name, "deny") == 0) {
		choice->deny = strtol(value, &end, 10);
		if (*end || choice->deny < DENY_LOW || choice->deny > DENY_HIGH)
			return wr_problem(problem, WR_BAD_REQUEST,
					  "?deny= must be a status from %d to %d", DENY_LOW,
					  DENY_HIGH);
	} else if (strcmp(name, "by") == 0) {
		choice->by = wr_forward_by_name(wr_str(value));
		if (choice->by < 0)
			return wr_problem(problem, WR_BAD_REQUEST,
					  "?by= must be forwarded or original");
	} else if (strcmp(name, "identity") == 0) {
		choice->identity = value;
	} else {
		return wr_problem(
			problem, WR_BAD_REQUEST,
			"unknown query parameter; the parameters here are deny, by and identity");
	}
	return 0;
}

/* ---- answers ---- */

void wr_serve_http_add_fields(const struct wr_serve_http_request *request,
			      struct wr_serve_http_response *response, struct weir_ask *ask)
{
	int count = weir_ask_headers(ask, wr_loop_settings(request->server->loop)->headers);

	for (int i = 0; i < count; i++) {
		struct weir_str name, value;

		if (weir_ask_header(ask, (size_t)i, &name, &value) == 0)
			wr_serve_http_header(response, name, value);
	}
}

static void reply_admitted(struct wr_serve_http_request *request, struct weir_ask *ask)
{
	struct wr_serve_http_response *response = wr_serve_http_response(WR_STR(""), NULL);

	if (response && ask)
		wr_serve_http_add_fields(request, response, ask);
	wr_serve_http_reply(request, 200, response);
}

/* If the URL that the proxy is configured with has ?deny=, responds with the status of ?deny=, and
 * reports `status` in X-Weir-Status. Otherwise responds with `status`. ?deny= is for proxies that
 * pass on only certain statuses. */
static void reply_with(struct wr_serve_http_request *request, unsigned status,
		       struct wr_serve_http_response *response)
{
	unsigned deny = (unsigned)(uintptr_t)request->context;
	char text[16];

	if (deny && response) {
		snprintf(text, sizeof text, "%u", status);
		wr_serve_http_header(response, WR_STR("X-Weir-Status"), wr_str(text));
	}
	wr_serve_http_reply(request, deny ? deny : status, response);
}

static void reply_refused(struct wr_serve_http_request *request, struct weir_ask *ask)
{
	struct weir_result result = {.size = sizeof result};
	struct weir_str type = WR_STR("");
	struct wr_serve_http_response *response;
	char body[BODY_BYTES];
	int len = weir_ask_body(ask, weir_body_type(wr_serve_http_field(request, "Accept")), body,
				sizeof body, &type);

	weir_ask_result(ask, &result);
	len = len < 0 ? 0 : len > (int)sizeof body ? (int)sizeof body : len;
	response = wr_serve_http_response((struct weir_str){body, (size_t)len}, NULL);
	if (len)
		wr_serve_http_header(response, WR_STR("Content-Type"), type);
	if (response)
		wr_serve_http_add_fields(request, response, ask);
	reply_with(request, result.http_status, response);
}

/* Refuses a request that cannot wait in its leaky bucket. */
static void reply_no_room(struct wr_serve_http_request *request, const struct weir_ask *ask)
{
	struct weir_result result = {.size = sizeof result};
	struct wr_serve_http_response *response =
		wr_serve_http_response(WR_STR("too many requests are waiting\n"), "text/plain");
	char text[24];

	weir_ask_result(ask, &result);
	snprintf(text, sizeof text, "%" PRIu64, result.delay_ns / 1000000000 + 1);
	wr_serve_http_header(response, WR_STR("Retry-After"), wr_str(text));
	wr_serve_http_header(response, WR_STR("Cache-Control"), WR_STR("no-store"));
	reply_with(request, 429, response);
}

/* Lets the request pass, because weir cannot decide. */
static void reply_failed(struct wr_serve_http_request *request, int rc)
{
	static struct wr_log_gate gate;

	wr_log_limited(&gate, WR_LOG_ERROR,
		       "a request at %s was admitted because it could not be decided: %s",
		       request->path, weir_strerror(rc));
	reply_admitted(request, NULL);
}

static void on_forward_decided(struct wr_pending *pending, int verdict)
{
	struct wr_serve_http_request *request =
		wr_container_of(pending, struct wr_serve_http_request, pending);

	if (verdict < 0)
		reply_failed(request, verdict);
	else if (verdict == WEIR_ADMIT)
		reply_admitted(request, pending->ask);
	else if (verdict == WEIR_DELAY)
		reply_no_room(request, pending->ask);
	else
		reply_refused(request, pending->ask);
	wr_pending_end(pending);
}

/* ---- the question ---- */

static void ask_about(struct wr_serve_http_request *request, const struct weir_http_view *view)
{
	struct wr_pending *pending = &request->pending;
	struct weir_str domain = wr_str(request->path + strlen("/check/"));
	int rc = wr_pending_init(pending, request->server->loop, domain);

	if (rc < 0) {
		reply_failed(request, rc);
		return;
	}
	rc = weir_ask_http(pending->ask, view);
	if (rc < 0) {
		wr_pending_end(pending);
		reply_failed(request, rc);
		return;
	}
	wr_serve_http_decide(request, "forward_auth", on_forward_decided);
}

/* Reads the request that the proxy asks about. Returns 0, or -1 with `problem` set. */
static int read_question(struct wr_serve_http_request *request, struct weir_http_view *view,
			 struct wr_problem *problem)
{
	const struct wr_networks *trusted = &wr_loop_service(request->server->loop)->trusted;
	struct choice choice = {.identity = ""};
	const char *value = NULL;
	struct wr_forward forward;

	if (!wr_serve_http_trusts(request))
		return wr_problem(problem, WR_FORBIDDEN,
				  "this client is not allowed to describe requests of other "
				  "clients; if it is your proxy, add its address to --trust");
	for (const char *name; (name = wr_serve_http_next_argument(request, value, &value));)
		if (read_argument(&choice, name, value, problem) != 0)
			return -1;
	request->context = (void *)(uintptr_t)choice.deny;
	forward = (struct wr_forward){.header = wr_serve_http_fields,
				      .context = request,
				      .host = wr_serve_http_field(request, "Host"),
				      .identity = wr_str(choice.identity),
				      .by = (enum wr_forward_by)choice.by,
				      .proxies = trusted->ranges.count ? &trusted->ranges : NULL};
	return wr_forward_view(&forward, view, problem);
}

void wr_serve_http_forward(struct wr_serve_http_request *request)
{
	struct weir_http_view view;
	struct wr_problem problem;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (read_question(request, &view, &problem) != 0)
		wr_serve_http_reply_problem(request, &problem);
	else
		ask_about(request, &view);
}
