/* Responses: header fields and a body, written to the stream at once or in parts. Called by the
 * handlers. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "serve/http/server.h"
#include "serve/service.h"

#define FIELDS_INLINE 768u
#define FIELDS_MAX 65536u
#define HEAD_BYTES 256u /* bytes for the status line, date, length and connection */
#define PIECE_BYTES (64u << 10)

struct wr_serve_http_response {
	char *fields; /* lines "Name: value" CR LF */
	size_t fields_len, fields_cap;
	const char *body;
	size_t body_len;
	char *owned; /* the body, if the response has to free it; otherwise NULL */
	char few[FIELDS_INLINE];
	char copy[]; /* memory for a body that was copied */
};

/* ---- making responses ---- */

static struct wr_serve_http_response *make_response(struct weir_str body, size_t copied,
						    char *owned, const char *content_type)
{
	struct wr_serve_http_response *response = malloc(sizeof *response + copied);

	if (!response) {
		free(owned);
		return NULL;
	}
	response->fields = response->few;
	response->fields_len = 0;
	response->fields_cap = sizeof response->few;
	response->body = copied ? response->copy : body.ptr;
	response->body_len = body.len;
	response->owned = owned;
	if (copied)
		memcpy(response->copy, body.ptr, copied);
	if (content_type)
		wr_serve_http_header(response, WR_STR("Content-Type"), wr_str(content_type));
	return response;
}

struct wr_serve_http_response *wr_serve_http_response(struct weir_str body,
						      const char *content_type)
{
	wr_assert(body.ptr || body.len == 0);
	return make_response(body, body.len, NULL, content_type);
}

struct wr_serve_http_response *wr_serve_http_response_problem(const struct wr_problem *problem)
{
	char text[WR_PROBLEM_TEXT];
	struct wr_json_out json;
	struct wr_buf buf;

	wr_buf_init_fixed(&buf, text, sizeof text);
	wr_json_begin(&json, &buf);
	wr_problem_json(problem, &json);
	wr_buf_add_char(&buf, '\n');
	return wr_serve_http_response(wr_buf_str(&buf), "application/problem+json");
}

struct wr_serve_http_response *wr_serve_http_response_of(char *body, size_t len,
							 const char *content_type)
{
	wr_assert(body || len == 0);
	return make_response((struct weir_str){body, len}, 0, body, content_type);
}

struct wr_serve_http_response *wr_serve_http_response_static(struct weir_str body,
							     const char *content_type)
{
	wr_assert(body.ptr || body.len == 0);
	return make_response(body, 0, NULL, content_type);
}

void wr_serve_http_response_free(struct wr_serve_http_response *response)
{
	if (!response)
		return;
	if (response->fields != response->few)
		free(response->fields);
	free(response->owned);
	free(response);
}

static bool make_room(struct wr_serve_http_response *response, size_t need)
{
	size_t cap = response->fields_cap;
	char *larger;

	while (cap - response->fields_len < need)
		cap *= 2;
	if (cap == response->fields_cap)
		return true;
	if (cap > FIELDS_MAX)
		return false;
	larger = malloc(cap);
	if (!larger)
		return false;
	memcpy(larger, response->fields, response->fields_len);
	if (response->fields != response->few)
		free(response->fields);
	response->fields = larger;
	response->fields_cap = cap;
	return true;
}

/* Returns whether the text has no line end. A line end in a value would begin another header
 * field. */
static bool is_one_line(struct weir_str text)
{
	return !memchr(text.ptr, '\r', text.len) && !memchr(text.ptr, '\n', text.len) &&
	       !memchr(text.ptr, '\0', text.len);
}

void wr_serve_http_header(struct wr_serve_http_response *response, struct weir_str name,
			  struct weir_str value)
{
	char *at;

	wr_assert(value.ptr || value.len == 0);
	if (!response || !make_room(response, name.len + value.len + 4))
		return;
	if ((value.len && !is_one_line(value)) || !is_one_line(name))
		return;
	at = response->fields + response->fields_len;
	memcpy(at, name.ptr, name.len);
	at += name.len;
	*at++ = ':';
	*at++ = ' ';
	if (value.len)
		memcpy(at, value.ptr, value.len);
	at += value.len;
	*at++ = '\r';
	*at++ = '\n';
	response->fields_len = (size_t)(at - response->fields);
}

/* ---- writing responses ---- */

/* Returns the value of Date, which is formatted once a second. */
static const char *date_of(struct wr_serve_http_server *server)
{
	uint64_t now_s = wr_loop_now_ns(server->loop) / 1000000000;
	time_t seconds = (time_t)now_s;
	struct tm when;

	if (now_s != server->date_s && gmtime_r(&seconds, &when)) {
		strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &when);
		server->date_s = now_s;
	}
	return server->date;
}

/* Returns whether a response with this status has neither a body nor Content-Length. */
static bool is_bare(unsigned status)
{
	return status < 200 || status == 204 || status == 304;
}

static size_t put_head(char *at, struct wr_serve_http_request *request, unsigned status,
		       const struct wr_serve_http_response *response, size_t length)
{
	int len = snprintf(at, HEAD_BYTES, "HTTP/1.1 %u %s\r\nDate: %s\r\n%s", status,
			   wr_problem_phrase((int)status), date_of(request->server),
			   request->close             ? "Connection: close\r\n"
			   : request->head.minor == 0 ? "Connection: keep-alive\r\n"
						      : "");

	if (length == SIZE_MAX && request->head.minor > 0)
		len += snprintf(at + len, HEAD_BYTES - (size_t)len,
				"Transfer-Encoding: chunked\r\n");
	else if (length != SIZE_MAX && !is_bare(status))
		len += snprintf(at + len, HEAD_BYTES - (size_t)len, "Content-Length: %zu\r\n",
				length);
	at += len;
	memcpy(at, response->fields, response->fields_len);
	at[response->fields_len] = '\r';
	at[response->fields_len + 1] = '\n';
	return (size_t)len + response->fields_len + 2;
}

int wr_serve_http_write_head(struct wr_serve_http_request *request, unsigned status,
			     const struct wr_serve_http_response *response, size_t length)
{
	struct wr_stream *stream = request->client->stream;
	uint8_t *room = wr_stream_reserve(stream, HEAD_BYTES + response->fields_len + 2);

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(request->answered && status >= 200 && status <= 599);
	if (!room)
		return -1;
	wr_stream_commit(stream, put_head((char *)room, request, status, response, length));
	return 0;
}

void wr_serve_http_pump(struct wr_serve_http_connection *client)
{
	struct wr_serve_http_response *response = client->sending;

	wr_assert(response && client->sent <= response->body_len);
	while (client->sent < response->body_len &&
	       wr_stream_pending(client->stream) <= WR_HIGH_BYTES) {
		size_t left = response->body_len - client->sent;
		size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;

		if (wr_stream_write(client->stream, response->body + client->sent, piece) < 0) {
			client->sent = response->body_len;
			break;
		}
		client->sent += piece;
	}
	if (client->sent < response->body_len)
		return;
	client->sending = NULL;
	wr_serve_http_response_free(response);
}

static void send_response(struct wr_serve_http_request *request, unsigned status,
			  struct wr_serve_http_response *response)
{
	struct wr_serve_http_connection *client = request->client;
	bool bodyless = is_bare(status) || strcmp(request->method, "HEAD") == 0;

	if (wr_serve_http_write_head(request, status, response, response->body_len) < 0 ||
	    bodyless) {
		wr_serve_http_response_free(response);
		return;
	}
	client->sending = response;
	client->sent = 0;
	wr_serve_http_pump(client);
}

void wr_serve_http_reply(struct wr_serve_http_request *request, unsigned status,
			 struct wr_serve_http_response *response)
{
	wr_assert(!request->answered);
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	request->answered = true;
	request->close |= !request->head.keep_alive || request->too_large ||
			  request->client->draining || request->server->loop->draining ||
			  wr_service_is_ending(wr_loop_service(request->server->loop));
	if (response)
		send_response(request, status, response);
	else
		request->close = true;
	if (request->held)
		wr_serve_http_end_later(request);
}

void wr_serve_http_reply_text(struct wr_serve_http_request *request, unsigned status,
			      struct weir_str body, const char *content_type)
{
	wr_serve_http_reply(request, status, wr_serve_http_response(body, content_type));
}

void wr_serve_http_reply_problem(struct wr_serve_http_request *request,
				 const struct wr_problem *problem)
{
	wr_serve_http_reply(request, (unsigned)wr_problem_status(problem->code),
			    wr_serve_http_response_problem(problem));
}

struct wr_buf *wr_serve_http_buffer(struct wr_serve_http_server *server)
{
	if (server->buf.cap > WR_HTTP_BUFFER_REUSE_MAX)
		wr_buf_free(&server->buf);
	wr_buf_clear(&server->buf);
	return &server->buf;
}
