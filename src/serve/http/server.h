/* The HTTP/1.1 server: reads whole requests from the streams of a loop, calls a handler, and sends
 * the response at once or later. The decision API and the admin API use it. wire/http/http1.h
 * parses.
 *
 * A server is one port on one loop and runs in the loop's thread. Bounds: connections (listener),
 * bytes of a head (wire/http/http1.h), bytes of a body, memory of all large heads and bodies of a
 * server, and the timeouts of the stream. */
#ifndef WR_SERVE_HTTP_SERVER_H
#define WR_SERVE_HTTP_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "net/listen.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"
#include "wire/http/http1.h"
#include "wire/json.h"

#define WR_HTTP_BODY_MAX (256u << 10)
#define WR_HTTP_HEAD_INLINE 1536u /* so much of a head … */
#define WR_HTTP_BODY_INLINE 1024u /* … and of a body needs no allocation */
#define WR_HTTP_LARGE_MAX                                                                          \
	(32u << 20) /* memory of larger heads, bodies and queued input, of a server */
#define WR_HTTP_REQUESTS_KEPT 64u
#define WR_HTTP_TEXT_BYTES (64u << 10) /* of wr_http_text; a buffer of more than two is not kept */
#define WR_HTTP_BUFFER_MAX (4u << 20)  /* of wr_http_buffer */

struct wr_http_request;
struct wr_http_response;
struct wr_http_server;

/* What a server is for. */
struct wr_http_api {
	const char *name;
	/* Called with the whole request, or with its head only if the body is too large
	 * (request->too_large). Responds with wr_http_reply… at once, or later after
	 * wr_http_hold. */
	void (*handle)(struct wr_http_request *request);
	int (*open)(struct wr_http_server *server, struct weir_error *error);
	void (*close)(struct wr_http_server *server);
};

enum wr_http_stage {
	WR_HTTP_HEAD,
	WR_HTTP_BODY,
	WR_HTTP_HANDLED, /* the handler was called */
};

struct wr_http_request {
	struct wr_http_server *server;
	struct wr_http_connection *client;
	struct wr_http1 head;
	const char *method;
	const char *path; /* decoded; without the query */
	enum wr_http_stage stage;
	size_t scanned;                /* bytes of the head that were searched for its end */
	struct wr_http1_chunks chunks; /* of a chunked body */
	char *arguments; /* of the query, decoded: name, zero, value, zero, …, zero */
	char *head_bytes;
	size_t head_len, head_cap;
	char *body; /* terminated by a zero */
	size_t body_len, body_cap;
	bool too_large, held, answered, queued;
	bool soon;      /* held for another thread only: the response does not wait for a network */
	bool close;     /* the connection closes after the response */
	bool streaming; /* the response ends only with `gone`, or when the client disconnects */
	/* Of a request that is held or streams: the client has disconnected, or the server ends.
	 * The handler must not respond. */
	void (*gone)(struct wr_http_request *request);
	/* Of a request that streams: its connection has closed. The last callback. */
	void (*over)(struct wr_http_request *request);
	struct wr_pending pending;            /* the handler's */
	void *context;                        /* the handler's */
	struct wr_http_request *next, **back; /* in server->spare or server->ends */
	char head_few[WR_HTTP_HEAD_INLINE];
	char body_few[WR_HTTP_BODY_INLINE];
};

#define WR_HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n", 25u

/* The state of a stream. */
struct wr_http_connection {
	struct wr_http_server *server;
	struct wr_stream *stream;
	struct wr_http_request *request; /* the current request, or NULL */
	char *rest;                      /* input behind the current request */
	size_t rest_len;
	struct wr_http_response *sending; /* a large response that is sent in parts */
	size_t sent;
	uint64_t active_ms; /* when the connection opened or its last request ended */
	bool draining;
	bool going_on; /* `rest` is being read */
};

struct wr_http_server {
	const struct wr_http_api *api;
	struct wr_loop *loop;
	struct wr_listener *listener;
	uv_timer_t timer;             /* ends held requests after their response */
	struct wr_http_request *ends; /* the requests to end */
	size_t large_bytes;
	struct wr_http_request *spare;
	size_t spare_count;
	uint64_t date_s; /* the second of `date` */
	char date[40];
	struct wr_buf buf; /* of wr_http_buffer */
	void *context;     /* of the api */
};

/* ---- callbacks for struct wr_protocol ---- */

int wr_http_server_start(const struct wr_http_api *api, struct wr_loop *loop,
			 struct wr_listener *listener, void **state, struct weir_error *error);
void wr_http_server_stop(void *state);
int wr_http_open(struct wr_stream *stream);
int wr_http_input(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_http_writable(struct wr_stream *stream);
void wr_http_drain(struct wr_stream *stream);
bool wr_http_outlives_input(struct wr_stream *stream);
void wr_http_closed(struct wr_stream *stream);

#define WR_HTTP_PROTOCOL(port, start_server)                                                       \
	{                                                                                          \
		.name = (port), .state_bytes = sizeof(struct wr_http_connection),                  \
		.open = wr_http_open, .input = wr_http_input, .writable = wr_http_writable,        \
		.outlives_input = wr_http_outlives_input, .drain = wr_http_drain,                  \
		.closed = wr_http_closed, .start = (start_server), .stop = wr_http_server_stop,    \
	}

/* ---- for handlers ---- */

/* The handler will respond later. `gone` is called instead if the client disconnects or the server
 * ends. */
void wr_http_hold(struct wr_http_request *request, void (*gone)(struct wr_http_request *request));

/* Sends the response and frees it. NULL (no memory) closes the connection. */
void wr_http_reply(struct wr_http_request *request, unsigned status,
		   struct wr_http_response *response);

/* Makes a response; the body is copied. Returns NULL without memory. */
struct wr_http_response *wr_http_response(struct weir_str body, const char *content_type);

/* The same with a body from malloc. The response owns the body, also if this fails. */
struct wr_http_response *wr_http_response_of(char *body, size_t len, const char *content_type);

/* The same with a body that outlives the response. */
struct wr_http_response *wr_http_response_static(struct weir_str body, const char *content_type);

/* Adds a header field. Does nothing if the response is NULL. */
void wr_http_header(struct wr_http_response *response, struct weir_str name, struct weir_str value);

void wr_http_reply_text(struct wr_http_request *request, unsigned status, struct weir_str body,
			const char *content_type);
void wr_http_reply_problem(struct wr_http_request *request, const struct wr_problem *problem);

/* An empty buffer to write a response into. The next call on the same server empties it, so it is
 * for one response at a time, which wr_http_reply_text copies. */
struct wr_buf *wr_http_buffer(struct wr_http_server *server);

/* The same as a text of WR_HTTP_TEXT_BYTES. */
struct wr_text wr_http_text(struct wr_http_server *server);

/* The header fields of a request, for struct weir_http_view; `context` is the request. */
size_t wr_http_fields(void *context, struct weir_str name, struct weir_str *values, size_t max);

/* The first field of that name, or empty. */
struct weir_str wr_http_field(const struct wr_http_request *request, const char *name);

/* The peer's address; NULL: none. As wr_stream_peer. */
const struct sockaddr *wr_http_peer(const struct wr_http_request *request);

/* Sets the protocol and the trace of request->pending for the decision log. */
void wr_http_trace(struct wr_http_request *request, const char *via);

/* The decoded value of an argument of the query, or NULL. */
const char *wr_http_argument(const struct wr_http_request *request, const char *name);

/* Calls `each` for every argument until it returns false. */
void wr_http_arguments(const struct wr_http_request *request,
		       bool (*each)(void *context, const char *name, const char *value),
		       void *context);

static inline struct weir_str wr_http_body(const struct wr_http_request *request)
{
	return (struct weir_str){request->body, request->body_len};
}

/* ---- between server.c, request.c and response.c ---- */

struct wr_http_request *wr_http_request_new(struct wr_http_connection *client);
void wr_http_request_free(struct wr_http_request *request);
void wr_http_requests_free(struct wr_http_server *server);

/* Consumes input; returns how many bytes. Calls the handler when the request is complete; then the
 * stage is WR_HTTP_HANDLED. */
size_t wr_http_request_take(struct wr_http_request *request, const char *data, size_t len);

/* Appends bytes of a body. Returns false if it is too large or there is no memory. */
bool wr_http_request_body(struct wr_http_request *request, const char *data, size_t len);

/* Sends as much of client->sending as the stream takes. client->sending is NULL when all is
 * sent. */
void wr_http_pump(struct wr_http_connection *client);

/* Writes the head of a response; `length` SIZE_MAX: it streams. Returns a negative number if the
 * stream is closing. */
int wr_http_write_head(struct wr_http_request *request, unsigned status,
		       const struct wr_http_response *response, size_t length);

void wr_http_response_free(struct wr_http_response *response);

/* A held request has its response. It ends in the next turn of the loop, because the caller still
 * uses it. */
void wr_http_end_later(struct wr_http_request *request);

#endif
