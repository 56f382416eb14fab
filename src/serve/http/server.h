/* HTTP/1.1 on the streams of a loop: requests are read whole, handed to a route, and answered at
 * once or later. The decision API and the admin API are two of these. wire/http/http1.h reads the
 * requests.
 *
 * A server is one port on one loop; all of it runs in the loop's thread. Bounds: places (listener),
 * bytes of a head (wire/http/http1.h), bytes of a body, memory of all large heads and bodies of a
 * server, and the stream's timeouts. */
#ifndef WR_SERVE_HTTP_SERVER_H
#define WR_SERVE_HTTP_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "serve/net/listen.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"
#include "wire/http/http1.h"
#include "wire/json.h"

#define WR_HTTP_BODY_MAX (256u << 10)
#define WR_HTTP_HEAD_INLINE 1536u     /* that much of a head … */
#define WR_HTTP_BODY_INLINE 1024u     /* … and of a body need no allocation */
#define WR_HTTP_LARGE_MAX (32u << 20) /* larger heads, bodies and input that waits, of a server */
#define WR_HTTP_REQUESTS_KEPT 64u
#define WR_HTTP_ANSWER_BYTES                                                                       \
	(64u << 10)                   /* of wr_http_answer; a buffer of more than two is not kept */
#define WR_HTTP_BUFFER_MAX (4u << 20) /* of wr_http_buffer */

struct wr_http_request;
struct wr_http_response;
struct wr_http_server;

/* What a server does with requests. */
struct wr_http_api {
	const char *name;
	/* Called with the whole request, or with its head alone if the body is too large to be read
	 * (request->too_large). Answers by wr_http_reply…, at once, or after wr_http_hold. */
	void (*handle)(struct wr_http_request *request);
	int (*open)(struct wr_http_server *server, struct weir_error *error);
	void (*close)(struct wr_http_server *server);
};

enum wr_http_stage {
	WR_HTTP_HEAD,
	WR_HTTP_BODY,
	WR_HTTP_HANDLED, /* the handler has it, or had */
};

struct wr_http_request {
	struct wr_http_server *server;
	struct wr_http_connection *client;
	struct wr_http1 head;
	const char *method;
	const char *path; /* decoded; without the query */
	enum wr_http_stage stage;
	size_t scanned;                /* bytes of the head in which its end was not found */
	struct wr_http1_chunks chunks; /* of a chunked body */
	char *arguments; /* of the query, decoded: name, zero, value, zero, …, zero */
	char *head_bytes;
	size_t head_len, head_cap;
	char *body; /* with a zero behind it */
	size_t body_len, body_cap;
	bool too_large, held, answered, queued;
	bool soon;      /* held for another thread alone: the answer never waits for a network */
	bool close;     /* the connection ends with the answer */
	bool streaming; /* its answer has no end but `gone`, or the client's leaving */
	/* One that is held or streams: the client has gone, or the server ends. No answer is
	 * wanted. */
	void (*gone)(struct wr_http_request *request);
	/* One that streams: its connection has closed. The last call about it. */
	void (*over)(struct wr_http_request *request);
	struct wr_pending pending;            /* the handler's */
	void *context;                        /* the handler's */
	struct wr_http_request *next, **back; /* spare ones; those to end */
	char head_few[WR_HTTP_HEAD_INLINE];
	char body_few[WR_HTTP_BODY_INLINE];
};

#define WR_HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n", 25u

/* A client: the state of its stream. */
struct wr_http_connection {
	struct wr_http_server *server;
	struct wr_stream *stream;
	struct wr_http_request *request; /* being read or answered; NULL: between requests */
	char *rest;                      /* input behind a request that is not answered yet */
	size_t rest_len;
	struct wr_http_response *sending; /* an answer of which the stream takes a part at a time */
	size_t sent;
	uint64_t active_ms; /* when it came, or its last request ended */
	bool draining;
	bool going_on; /* `rest` is being read */
};

struct wr_http_server {
	const struct wr_http_api *api;
	struct wr_loop *loop;
	struct wr_listener *listener;
	uv_timer_t timer;             /* ends requests that were answered after being held */
	struct wr_http_request *ends; /* … these */
	size_t large_bytes;
	struct wr_http_request *spare;
	size_t spare_count;
	uint64_t date_s; /* the second that `date` tells of */
	char date[40];
	struct wr_buf buf; /* of wr_http_buffer */
	void *context;     /* the api's */
};

/* ---- for a port: the members of its struct wr_protocol ---- */

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

/* The answer comes later. `gone` is called if it will not be wanted any more. */
void wr_http_hold(struct wr_http_request *request, void (*gone)(struct wr_http_request *request));

/* Answers, and gives the response up; NULL (there was no memory for it) closes the connection. */
void wr_http_reply(struct wr_http_request *request, unsigned status,
		   struct wr_http_response *response);

/* A response of text that is copied; NULL: no memory. */
struct wr_http_response *wr_http_response(struct weir_str body, const char *content_type);

/* The same of text that malloc gave and that is the response's from here on, whatever comes of it.
 */
struct wr_http_response *wr_http_response_of(char *body, size_t len, const char *content_type);

/* The same of text that outlives the response. */
struct wr_http_response *wr_http_response_static(struct weir_str body, const char *content_type);

/* Adds a header field. A NULL response is left alone. */
void wr_http_header(struct wr_http_response *response, struct weir_str name, struct weir_str value);

void wr_http_reply_text(struct wr_http_request *request, unsigned status, struct weir_str body,
			const char *content_type);
void wr_http_reply_problem(struct wr_http_request *request, const struct wr_problem *problem);

/* An empty buffer to write a response into. The next call on the same server empties it, so it is for
 * one response at a time, which wr_http_reply_text copies. */
struct wr_buf *wr_http_buffer(struct wr_http_server *server);

/* The same as a text of WR_HTTP_ANSWER_BYTES. */
struct wr_text wr_http_answer(struct wr_http_server *server);

/* Header fields of a request as struct weir_http_view wants them; the context is the request. */
size_t wr_http_fields(void *context, struct weir_str name, struct weir_str *values, size_t max);

/* The first field of that name, or empty. */
struct weir_str wr_http_field(const struct wr_http_request *request, const char *name);

/* The peer's address; NULL: none. As wr_stream_peer. */
const struct sockaddr *wr_http_peer(const struct wr_http_request *request);

/* For the decision log: by which door the request came, and its trace. */
void wr_http_trace(struct wr_http_request *request, const char *via);

/* An argument of the query, decoded; NULL: not there. */
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

/* Reads on; returns how much of the input was used. The request has been handled when its stage
 * says so. */
size_t wr_http_request_take(struct wr_http_request *request, const char *data, size_t len);

/* Takes bytes of a body. False: it is too large, or there is no memory for it. */
bool wr_http_request_body(struct wr_http_request *request, const char *data, size_t len);

/* Sends as much of client->sending as the stream takes; NULL afterwards: all of it. */
void wr_http_pump(struct wr_http_connection *client);

/* Writes the head of an answer; `length` is SIZE_MAX for one without an end. Below 0: the stream
 * closes. */
int wr_http_write_head(struct wr_http_request *request, unsigned status,
		       const struct wr_http_response *response, size_t length);

void wr_http_response_free(struct wr_http_response *response);

/* One that was held has been answered: ends it in the next turn of the loop, because the caller is
 * still at work with it. */
void wr_http_end_later(struct wr_http_request *request);

#endif
