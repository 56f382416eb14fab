/* Connections: splits the input into requests, and ends requests. Called by net through struct
 * wr_protocol. */
#include "serve/http/server.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/error.h"

/* When the server drains, a client that was active in the last LAST_REQUEST_MS may send one more
 * request. The client has LAST_REQUEST_MS for this request. */
#define LAST_REQUEST_MS 1000
/* maximum length of the input that a connection keeps while a request waits for its response */
#define REST_MAX (64u << 10)

/* ---- requests that end ---- */

static void end_request(struct wr_serve_http_connection *client)
{
	struct wr_serve_http_request *request = client->request;

	wr_assert(request);
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_list_remove(&request->ends_link);
	if (request->close)
		wr_stream_close(client->stream);
	client->request = NULL;
	client->active_ms = uv_now(&client->server->loop->uv);
	wr_serve_http_request_free(request);
	wr_stream_busy(client->stream, client->going_on || client->rest != NULL);
}

/* Returns true if the connection can read more input, that is, if the response to the previous
 * request has been written, and the stream has room for another response. */
static bool is_free(const struct wr_serve_http_connection *client)
{
	return !client->sending && wr_stream_pending(client->stream) <= WR_HIGH_BYTES &&
	       (!client->request || client->request->stage != WR_HTTP_HANDLED);
}

/* Ends the current request if its response is complete. Called after the handler has returned. */
static void after_handler(struct wr_serve_http_connection *client)
{
	const struct wr_serve_http_request *request = client->request;

	if (request->answered && !request->held && !request->streaming && !client->sending)
		end_request(client);
	else
		wr_stream_busy(client->stream, true);
}

/* ---- input ---- */

/* Copies input for later. Returns false if this client or all clients together would keep too much
 * input, or if there is no memory. */
static bool keep_input(struct wr_serve_http_connection *client, const char *data, size_t len)
{
	struct wr_serve_http_server *server = client->server;
	char *rest;

	if (client->rest_len + len > REST_MAX || len > server->large.max - server->large.held)
		return false;
	rest = realloc(client->rest, client->rest_len + len);
	if (!rest)
		return false;
	server->large.held += len;
	memcpy(rest + client->rest_len, data, len);
	client->rest = rest;
	client->rest_len += len;
	return true;
}

/* Consumes the bytes of one request, or the blank lines before it. */
static size_t take_some(struct wr_serve_http_connection *client, const char *data, size_t len)
{
	size_t used;

	if (!client->request) {
		if (*data == '\r' || *data == '\n')
			return 1;
		client->request = wr_serve_http_request_new(client);
		if (!client->request) {
			wr_stream_abort(client->stream);
			return len;
		}
		wr_stream_midway(client->stream, true);
	}
	used = wr_serve_http_request_take(client->request, data, len);
	if (client->request->stage == WR_HTTP_HANDLED) {
		wr_stream_midway(client->stream, false);
		after_handler(client);
	}
	return used;
}

/* Reads requests from input. Returns 0, or a negative number if the stream has to be closed. */
static int take_input(struct wr_serve_http_connection *client, const char *data, size_t len)
{
	while (len) {
		size_t used;

		if (wr_stream_ending(client->stream))
			return 0;
		if (!is_free(client))
			return keep_input(client, data, len) ? 0 : -1;
		used = take_some(client, data, len);
		data += used;
		len -= used;
	}
	return 0;
}

/* Reads the input that was kept while a request waited for its response. */
static void read_rest(struct wr_serve_http_connection *client)
{
	char *rest = client->rest;
	size_t len = client->rest_len;

	wr_assert(!rest || client->server->large.held >= len);
	if (!rest || !is_free(client))
		return;
	client->rest = NULL;
	client->rest_len = 0;
	client->server->large.held -= len;
	client->going_on = true;
	if (take_input(client, rest, len) < 0)
		wr_stream_close(client->stream);
	client->going_on = false;
	free(rest);
	if (!client->rest && (!client->request || client->request->stage != WR_HTTP_HANDLED))
		wr_stream_busy(client->stream, false);
}

int wr_serve_http_input(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	struct wr_serve_http_connection *client = wr_stream_state(stream);

	wr_assert(client->stream == stream);
	if (client->rest && !keep_input(client, (const char *)data, len))
		return -1;
	if (client->rest) {
		read_rest(client);
		return 0;
	}
	return take_input(client, (const char *)data, len);
}

/* ---- responses that come later ---- */

static void on_ends_timer(uv_timer_t *timer)
{
	struct wr_serve_http_server *server = timer->data;
	struct wr_list *link;

	while ((link = wr_list_pop(&server->ends))) {
		struct wr_serve_http_request *request =
			wr_container_of(link, struct wr_serve_http_request, ends_link);
		struct wr_serve_http_connection *client = request->client;

		if (client->sending) { /* wr_serve_http_writable will end the request */
			request->held = false;
			continue;
		}
		end_request(client);
		read_rest(client);
	}
}

void wr_serve_http_end_later(struct wr_serve_http_request *request)
{
	struct wr_serve_http_server *server = request->server;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(request->held && request->answered);
	wr_list_add_first(&server->ends, &request->ends_link);
	uv_timer_start(&server->timer, on_ends_timer, 0, 0);
}

void wr_serve_http_hold(struct wr_serve_http_request *request,
			void (*gone)(struct wr_serve_http_request *request))
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	request->held = true;
	request->gone = gone;
}

void wr_serve_http_writable(struct wr_stream *stream)
{
	struct wr_serve_http_connection *client = wr_stream_state(stream);

	wr_assert(client->stream == stream);
	if (client->sending) {
		wr_serve_http_pump(client);
		if (client->sending)
			return;
		if (client->request && !wr_list_holds(&client->request->ends_link))
			after_handler(client);
	}
	read_rest(client);
}

/* ---- beginning and end of a connection ---- */

int wr_serve_http_open(struct wr_stream *stream)
{
	struct wr_serve_http_connection *client = wr_stream_state(stream);

	client->server = wr_stream_server(stream);
	wr_assert_magic(client->server, WR_HTTP_SERVER_MAGIC);
	client->stream = stream;
	client->active_ms = uv_now(&client->server->loop->uv);
	return 0;
}

/* Drains a connection. A client that was active a moment ago is perhaps sending a request now, so
 * the server still responds to one more request, with Connection: close. */
void wr_serve_http_drain(struct wr_stream *stream)
{
	struct wr_serve_http_connection *client = wr_stream_state(stream);
	struct wr_serve_http_request *request = client->request;

	wr_assert(client->stream == stream);
	client->draining = true;
	if (request && request->streaming)
		request->gone(request);
	else if (!request &&
		 uv_now(&client->server->loop->uv) - client->active_ms < LAST_REQUEST_MS)
		wr_stream_cut_in(stream, LAST_REQUEST_MS);
	else if (!request)
		wr_stream_close(stream);
}

/* Called when the client has closed its side. Returns whether the stream stays open to send a
 * response. The client either still reads (`nc -N`), or has disconnected. TCP shows the difference
 * only when the server sends. So, if a request still waits for its response, the server sends an
 * interim response, which every client of HTTP/1.1 has to accept (RFC 9110, 15.2). If the client
 * has disconnected, its kernel answers with a reset, and the stream ends. HTTP/1.0 has no interim
 * responses, so a client of HTTP/1.0 counts as disconnected, and the result is false. */
bool wr_serve_http_outlives_input(struct wr_stream *stream)
{
	const struct wr_serve_http_connection *client = wr_stream_state(stream);
	const struct wr_serve_http_request *request = client->request;
	const struct sockaddr *peer;

	wr_assert(client->stream == stream);
	if (request && (request->stage != WR_HTTP_HANDLED || request->streaming))
		return false;
	if (!request || request->answered || client->sending)
		return request || client->sending || client->rest;
	if (request->soon)
		return true;
	peer = wr_stream_peer(stream);
	if (peer && peer->sa_family == AF_UNIX)
		return true; /* no interim response: a Unix socket reports a disconnect */
	return request->head.minor > 0 && wr_stream_write(stream, WR_HTTP_CONTINUE) == 0;
}

void wr_serve_http_closed(struct wr_stream *stream)
{
	struct wr_serve_http_connection *client = wr_stream_state(stream);
	struct wr_serve_http_request *request = client->request;

	wr_assert(client->server->large.held >= client->rest_len);
	wr_serve_http_response_free(client->sending);
	client->sending = NULL;
	free(client->rest);
	client->rest = NULL;
	client->server->large.held -= client->rest_len;
	client->rest_len = 0;
	if (!request)
		return;
	if (request->streaming)
		request->over(request);
	else if (request->held && !request->answered && request->gone)
		request->gone(request);
	end_request(client);
}

/* ---- beginning and end of a server ---- */

static void free_server(uv_handle_t *handle)
{
	struct wr_serve_http_server *server = handle->data;

	wr_pool_free(&server->spare);
	wr_buf_free(&server->buf);
	server->magic = 0;
	free(server);
}

int wr_serve_http_server_start(const struct wr_serve_http_api *api, struct wr_loop *loop,
			       struct wr_listener *listener, void **state, struct weir_error *error)
{
	struct wr_serve_http_server *server = calloc(1, sizeof *server);
	int rc;

	wr_assert(api && loop && listener);
	if (!server)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	wr_buf_init(&server->buf, WR_HTTP_BUFFER_MAX);
	wr_list_init(&server->ends);
	server->magic = WR_HTTP_SERVER_MAGIC;
	server->large.max = WR_HTTP_LARGE_MAX;
	server->api = api;
	server->loop = loop;
	server->listener = listener;
	rc = api->open(server, error);
	if (rc < 0) {
		free(server);
		return rc;
	}
	uv_timer_init(&loop->uv, &server->timer);
	server->timer.data = server;
	*state = server;
	return 0;
}

void wr_serve_http_server_stop(void *state)
{
	struct wr_serve_http_server *server = state;

	wr_assert_magic(server, WR_HTTP_SERVER_MAGIC);
	wr_assert(wr_list_is_empty(&server->ends));
	server->api->close(server);
	uv_close((uv_handle_t *)&server->timer, free_server);
}
