/* A request on its way through libmicrohttpd: its body gathered, its answer given now or later. */
#include "serve/http_server.h"

#include <inttypes.h>
#include <stdlib.h>

#include <weir/error.h>

#include "serve/service.h"

/* ---- memory ---- */

static struct wr_http_request *take_request(struct wr_http_server *server)
{
	struct wr_http_request *request = server->spare;

	if (!request)
		return malloc(sizeof *request);
	server->spare = request->next;
	server->spare_count--;
	return request;
}

static void give_request(struct wr_http_server *server, struct wr_http_request *request)
{
	if (request->body != request->few) {
		free(request->body);
		server->body_bytes -= request->body_cap;
	}
	if (server->spare_count == WR_HTTP_REQUESTS_KEPT) {
		free(request);
		return;
	}
	request->next = server->spare;
	server->spare = request;
	server->spare_count++;
}

void wr_http_requests_free(struct wr_http_server *server)
{
	while (server->spare) {
		struct wr_http_request *request = server->spare;

		server->spare = request->next;
		free(request);
	}
}

/* ---- how long a client may take ---- */

static void set_deadline(struct wr_http_request *request, uint64_t in_ns)
{
	if (request->client)
		request->client->deadline_ms =
			in_ns ? uv_now(&request->server->loop->uv) + in_ns / 1000000 : 0;
}

static const struct wr_settings *settings_of(const struct wr_http_request *request)
{
	return wr_loop_settings(request->server->loop);
}

/* ---- reading ---- */

static struct wr_http_request *begin(struct wr_http_server *server,
				     struct MHD_Connection *connection, const char *method,
				     const char *path)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct wr_http_request *request = take_request(server);

	if (!request)
		return NULL;
	memset(request, 0, offsetof(struct wr_http_request, few));
	request->server = server;
	request->connection = connection;
	request->client = info ? info->socket_context : NULL;
	request->method = method;
	request->path = path;
	request->body = request->few;
	request->body_cap = sizeof request->few;
	request->result = MHD_NO;
	if (request->client)
		request->client->request = request;
	set_deadline(request, settings_of(request)->slow_ns);
	return request;
}

/* A declared length is believed when it is too large; chunks are counted as they come. */
static bool declares_too_much(const struct wr_http_request *request)
{
	struct weir_str text = wr_http_field(request, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return text.len > 12 || (text.len && strtoull(text.ptr, NULL, 10) > WR_HTTP_BODY_MAX);
}

static bool grow(struct wr_http_request *request, size_t wanted)
{
	struct wr_http_server *server = request->server;
	size_t had = request->body == request->few ? 0 : request->body_cap;
	size_t cap = request->body_cap;
	char *body;

	while (cap < wanted)
		cap *= 4;
	if (server->body_bytes + cap - had > WR_HTTP_BODIES_MAX)
		return false;
	body = realloc(had ? request->body : NULL, cap);
	if (!body)
		return false;
	if (!had)
		memcpy(body, request->few, request->body_len);
	server->body_bytes += cap - had;
	request->body = body;
	request->body_cap = cap;
	return true;
}

/* In the middle of a body nothing can be answered: what is too much is dropped, and after as much
 * again the connection. */
static enum MHD_Result take_body(struct wr_http_request *request, const char *data, size_t *len)
{
	size_t total = request->body_len + *len;

	if (total > 2 * (size_t)WR_HTTP_BODY_MAX)
		return MHD_NO;
	if (total > WR_HTTP_BODY_MAX)
		request->too_large = true;
	if (!request->too_large) {
		if (total >= request->body_cap && !grow(request, total + 1))
			return MHD_NO;
		memcpy(request->body + request->body_len, data, *len);
	}
	request->body_len = total;
	*len = 0;
	return MHD_YES;
}

static enum MHD_Result handle(struct wr_http_request *request)
{
	if (!request->too_large)
		request->body[request->body_len] = '\0';
	set_deadline(request, 0);
	request->server->api->handle(request);
	return request->held ? MHD_YES : request->result;
}

static enum MHD_Result send_held(struct wr_http_request *request)
{
	struct MHD_Response *response = request->response;

	request->held = false;
	request->response = NULL;
	wr_http_reply(request, request->status, response);
	return request->result;
}

enum MHD_Result wr_http_on_request(void *server, struct MHD_Connection *connection, const char *url,
				   const char *method, const char *version, const char *upload,
				   size_t *upload_len, void **state)
{
	struct wr_http_request *request = *state;

	(void)version;
	if (!request) {
		request = *state = begin(server, connection, method, url);
		if (!request)
			return MHD_NO;
		request->too_large = declares_too_much(request);
		return request->too_large ? handle(request) : MHD_YES;
	}
	if (*upload_len)
		return take_body(request, upload, upload_len);
	if (request->held)
		return send_held(request);
	return handle(request);
}

/* ---- answering later ---- */

/* libmicrohttpd does not look at connections that are suspended, so somebody else has to see
 * whether the client is still there. */
struct wr_http_watch {
	uv_poll_t poll;
	struct wr_http_request *request;
};

static void free_watch(uv_handle_t *handle)
{
	free(handle->data);
}

static void unwatch(struct wr_http_request *request)
{
	struct wr_http_watch *watch = request->watch;

	if (!watch)
		return;
	request->watch = NULL;
	uv_poll_stop(&watch->poll);
	uv_close((uv_handle_t *)&watch->poll, free_watch);
}

/* With an epoll of the caller's libmicrohttpd has nothing to wake it. */
static void resume(struct wr_http_request *request)
{
	MHD_resume_connection(request->connection);
	wr_http_wake(request->server);
}

void wr_http_abandon(struct wr_http_request *request)
{
	if (request->streaming)
		request->gone(request);
	if (!request->held || request->answered)
		return;
	unwatch(request);
	request->answered = true;
	if (request->gone)
		request->gone(request);
	resume(request);
}

static void on_client_gone(uv_poll_t *poll, int status, int events)
{
	struct wr_http_watch *watch = poll->data;

	(void)status;
	(void)events;
	wr_http_abandon(watch->request);
}

static void watch_client(struct wr_http_request *request)
{
	struct wr_http_watch *watch;

	if (!request->client || request->client->fd < 0)
		return;
	watch = calloc(1, sizeof *watch);
	if (!watch)
		return;
	if (uv_poll_init(&request->server->loop->uv, &watch->poll, request->client->fd) < 0) {
		free(watch);
		return;
	}
	watch->poll.data = watch;
	watch->request = request;
	request->watch = watch;
	uv_poll_start(&watch->poll, UV_DISCONNECT, on_client_gone);
}

void wr_http_hold(struct wr_http_request *request, void (*gone)(struct wr_http_request *request))
{
	request->held = true;
	request->gone = gone;
	MHD_suspend_connection(request->connection);
	watch_client(request);
}

void wr_http_reply(struct wr_http_request *request, unsigned status, struct MHD_Response *response)
{
	if (request->held) {
		unwatch(request);
		request->answered = true;
		request->status = status;
		request->response = response;
		resume(request);
		return;
	}
	request->answered = true;
	if (!response) {
		request->result = MHD_NO;
		return;
	}
	if (request->server->draining || request->too_large ||
	    wr_service_is_ending(wr_loop_service(request->server->loop)))
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	request->result = MHD_queue_response(request->connection, status, response);
	MHD_destroy_response(response);
	set_deadline(request, settings_of(request)->slow_ns);
}

/* Between requests a client may be silent for a while, and then bring the next one. */
void wr_http_on_completed(void *server, struct MHD_Connection *connection, void **state,
			  enum MHD_RequestTerminationCode why)
{
	struct wr_http_request *request = *state;
	const struct wr_settings *settings;

	(void)connection;
	(void)why;
	if (!request)
		return;
	settings = settings_of(request);
	unwatch(request);
	if (request->response)
		MHD_destroy_response(request->response);
	set_deadline(request, settings->idle_ns ? settings->idle_ns + settings->slow_ns : 0);
	if (request->client) {
		request->client->request = NULL;
		request->client->active_ms = uv_now(&request->server->loop->uv);
		request->client->counted = false;
		request->client->begun_ms = 0;
		request->client->left_off = false;
	}
	*state = NULL;
	give_request(server, request);
}

/* ---- answers ---- */

struct MHD_Response *wr_http_response(struct weir_str body, const char *content_type)
{
	// NOLINTNEXTLINE(bugprone-casting-through-void): the body is copied, not written to
	struct MHD_Response *response = MHD_create_response_from_buffer(
		body.len, (void *)(uintptr_t)body.ptr, MHD_RESPMEM_MUST_COPY);

	if (response && content_type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	return response;
}

struct MHD_Response *wr_http_response_of(char *body, size_t len, const char *content_type)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);

	if (!response)
		free(body);
	else
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	return response;
}

void wr_http_header(struct MHD_Response *response, struct weir_str name, struct weir_str value)
{
	char text[256 + 4096];

	if (!response || name.len > 255 || value.len > 4095)
		return;
	memcpy(text, name.ptr, name.len);
	text[name.len] = '\0';
	memcpy(text + 256, value.ptr, value.len);
	text[256 + value.len] = '\0';
	MHD_add_response_header(response, text, text + 256);
}

struct wr_text wr_http_answer(struct wr_http_server *server)
{
	return (struct wr_text){server->answer, WR_HTTP_ANSWER_BYTES, 0};
}

void wr_http_reply_text(struct wr_http_request *request, unsigned status, struct weir_str body,
			const char *content_type)
{
	wr_http_reply(request, status, wr_http_response(body, content_type));
}

void wr_http_reply_problem(struct wr_http_request *request, const struct wr_problem *problem)
{
	char text[WR_PROBLEM_TEXT];
	struct wr_text out = {text, sizeof text, 0};

	wr_problem_write(problem, &out);
	wr_http_reply_text(request, (unsigned)wr_problem_status(problem->code),
			   (struct weir_str){text, wr_text_fits(&out) ? out.len : out.cap},
			   "application/problem+json");
}

/* ---- looking at a request ---- */

struct field_search {
	struct weir_str name;
	struct weir_str *values;
	size_t max, count;
};

static enum MHD_Result match_field(void *cls, enum MHD_ValueKind kind, const char *name,
				   size_t name_len, const char *value, size_t value_len)
{
	struct field_search *search = cls;

	(void)kind;
	if (!wr_str_equal_nocase(search->name, (struct weir_str){name, name_len}))
		return MHD_YES;
	if (search->count < search->max)
		search->values[search->count] =
			(struct weir_str){value ? value : "", value ? value_len : 0};
	search->count++;
	return MHD_YES;
}

size_t wr_http_fields(void *connection, struct weir_str name, struct weir_str *values, size_t max)
{
	struct field_search search = {name, values, max, 0};

	MHD_get_connection_values_n(connection, MHD_HEADER_KIND, match_field, &search);
	return search.count;
}

struct weir_str wr_http_field(const struct wr_http_request *request, const char *name)
{
	const char *value = NULL;
	size_t len = 0;

	if (MHD_lookup_connection_value_n(request->connection, MHD_HEADER_KIND, name, strlen(name),
					  &value, &len) != MHD_YES ||
	    !value)
		return WR_STR("");
	return (struct weir_str){value, len};
}

const char *wr_http_argument(const struct wr_http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

void wr_http_trace(struct wr_http_request *request, const char *via)
{
	request->pending.via = via;
	if (request->server->loop->decisions)
		wr_trace_read(wr_http_field(request, "traceparent"), &request->pending.trace);
}
