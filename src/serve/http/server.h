/* The HTTP/1.1 server: reads whole requests from the streams of a loop, calls a handler, and sends
 * the response at once or later. The decision API and the admin API use this server.
 * wire/http/http1.h parses the requests.
 *
 * A server is one port on one loop and runs in the loop's thread. Its memory and time are limited:
 * the listener limits connections, wire/http/http1.h limits the length of a head, and this server
 * limits the length of a body and the memory of all its large heads and bodies. Streams have
 * timeouts. */
#ifndef WR_SERVE_HTTP_SERVER_H
#define WR_SERVE_HTTP_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "base/buffer.h"
#include "base/list.h"
#include "net/listen.h"
#include "serve/loop.h"
#include "serve/pool.h"
#include "serve/decide/pending.h"
#include "wire/http/http1.h"
#include "wire/json.h"

#define WR_HTTP_BODY_MAX (256u << 10)
#define WR_HTTP_HEAD_INLINE 1536u /* a shorter head needs no allocation */
#define WR_HTTP_BODY_INLINE 1024u /* a shorter body needs no allocation */
/* Maximum memory of a server for heads and bodies that need an allocation, and for input that is
 * kept while a request waits for its response. */
#define WR_HTTP_LARGE_MAX (32u << 20)
#define WR_HTTP_REQUESTS_SPARE_MAX 64u /* maximum number of freed requests kept for reuse */
#define WR_HTTP_BUFFER_MAX (4u << 20)  /* maximum size of the buffer of wr_serve_http_buffer */
/* If the buffer of wr_serve_http_buffer is larger than this, it is freed instead of reused. */
#define WR_HTTP_BUFFER_REUSE_MAX (128u << 10)

struct wr_serve_http_request;
struct wr_serve_http_response;
struct wr_serve_http_server;

/* The callbacks of an API that a server serves. */
struct wr_serve_http_api {
	const char *name;
	/* Called when a request is complete. If the body is too large, request->too_large is set,
	 * and the request has no body. The handler calls wr_serve_http_reply… at once, or calls
	 * wr_serve_http_hold and responds later. */
	void (*handle)(struct wr_serve_http_request *request);
	int (*open)(struct wr_serve_http_server *server, struct weir_error *error);
	void (*close)(struct wr_serve_http_server *server);
};

enum wr_serve_http_stage {
	WR_HTTP_HEAD,
	WR_HTTP_BODY,
	WR_HTTP_HANDLED, /* the handler was called */
};

#define WR_HTTP_REQUEST_MAGIC 0x68726571u
#define WR_HTTP_SERVER_MAGIC 0x68737276u

struct wr_serve_http_request {
	uint32_t magic; /* WR_HTTP_REQUEST_MAGIC until wr_serve_http_request_free() */
	struct wr_serve_http_server *server;
	struct wr_serve_http_connection *client;
	struct wr_http1 head;
	const char *method;
	const char *path; /* the decoded path, without the query */
	enum wr_serve_http_stage stage;
	/* Number of bytes of the head that were already searched for the end of the head. */
	size_t scanned;
	struct wr_http1_chunks chunks; /* state of reading a chunked body */
	/* The decoded arguments of the query, each as name, zero, value, zero. One more zero
	 * follows the last argument. */
	char *arguments;
	struct wr_buf head_bytes;
	struct wr_buf body;
	bool too_large; /* the body is longer than WR_HTTP_BODY_MAX */
	bool held;      /* wr_serve_http_hold was called */
	bool answered;  /* the handler has responded */
	/* True if the request is held and waits for another thread of this process, not for a
	 * network. The response then comes soon. */
	bool soon;
	bool close;     /* the connection closes after the response */
	bool streaming; /* the response has no end; see stream.h */
	/* For a held request: called if its connection closes before the handler has responded.
	 * Afterwards the handler must not respond. If `streaming` is set: called when the server
	 * drains, to end the response. */
	void (*gone)(struct wr_serve_http_request *request);
	/* If `streaming` is set: called when the connection has closed. No other callback
	 * follows. */
	void (*over)(struct wr_serve_http_request *request);
	struct wr_pending pending; /* for use by the handler */
	void *context;             /* for use by the handler */
	struct wr_list ends_link;  /* links the request in server->ends after its response */
	char head_few[WR_HTTP_HEAD_INLINE]; /* the first memory of head_bytes */
	char body_few[WR_HTTP_BODY_INLINE]; /* the first memory of body */
};

#define WR_HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n", 25u

/* The state of a stream, which is one connection. */
struct wr_serve_http_connection {
	struct wr_serve_http_server *server;
	struct wr_stream *stream;
	struct wr_serve_http_request *request; /* the current request, or NULL */
	char *rest; /* input after the current request; NULL: no such input */
	size_t rest_len;
	struct wr_serve_http_response *sending; /* a large response that is sent in parts */
	size_t sent;
	uint64_t active_ms; /* when the connection was opened or its last request ended */
	bool draining;
	bool going_on; /* `rest` is being read */
};

struct wr_serve_http_server {
	uint32_t magic; /* WR_HTTP_SERVER_MAGIC until the server is freed */
	const struct wr_serve_http_api *api;
	struct wr_loop *loop;
	struct wr_listener *listener;
	uv_timer_t timer;         /* ends the requests in `ends`, in the loop's next turn */
	struct wr_list ends;      /* held requests whose response was sent */
	struct wr_buf_room large; /* memory that WR_HTTP_LARGE_MAX limits */
	struct wr_pool spare;     /* freed requests */
	uint64_t date_s;          /* the second for which `date` was formatted */
	char date[40];
	struct wr_buf buf; /* the buffer that wr_serve_http_buffer returns */
	void *context;     /* data of the API that the server serves */
};

/* ---- callbacks for struct wr_protocol ---- */

int wr_serve_http_server_start(const struct wr_serve_http_api *api, struct wr_loop *loop,
			       struct wr_listener *listener, void **state,
			       struct weir_error *error);
void wr_serve_http_server_stop(void *state);
int wr_serve_http_open(struct wr_stream *stream);
int wr_serve_http_input(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_serve_http_writable(struct wr_stream *stream);
void wr_serve_http_drain(struct wr_stream *stream);
bool wr_serve_http_outlives_input(struct wr_stream *stream);
void wr_serve_http_closed(struct wr_stream *stream);

#define WR_HTTP_PROTOCOL(port, start_server)                                                       \
	{                                                                                          \
		.name = (port), .state_bytes = sizeof(struct wr_serve_http_connection),            \
		.open = wr_serve_http_open, .input = wr_serve_http_input,                          \
		.writable = wr_serve_http_writable,                                                \
		.outlives_input = wr_serve_http_outlives_input, .drain = wr_serve_http_drain,      \
		.closed = wr_serve_http_closed, .start = (start_server),                           \
		.stop = wr_serve_http_server_stop,                                                 \
	}

/* ---- functions for handlers ---- */

/* Holds a request: the handler will respond later. If the client disconnects or the server ends
 * before, `gone` is called, and the handler must not respond. */
void wr_serve_http_hold(struct wr_serve_http_request *request,
			void (*gone)(struct wr_serve_http_request *request));

/* Sends the response and frees it. If `response` is NULL (there was no memory), closes the
 * connection. */
void wr_serve_http_reply(struct wr_serve_http_request *request, unsigned status,
			 struct wr_serve_http_response *response);

/* Returns a response with a copy of the body, or NULL if there is no memory. */
struct wr_serve_http_response *wr_serve_http_response(struct weir_str body,
						      const char *content_type);

/* Returns a response whose body is the problem as JSON, or NULL if there is no memory. */
struct wr_serve_http_response *wr_serve_http_response_problem(const struct wr_problem *problem);

/* Like wr_serve_http_response, with a body from malloc that is not copied. The response frees the
 * body; if there is no memory for a response, this function frees the body. */
struct wr_serve_http_response *wr_serve_http_response_of(char *body, size_t len,
							 const char *content_type);

/* Like wr_serve_http_response, with a body that is not copied, because it outlives the response. */
struct wr_serve_http_response *wr_serve_http_response_static(struct weir_str body,
							     const char *content_type);

/* Adds a header field. Does nothing if the response is NULL. */
void wr_serve_http_header(struct wr_serve_http_response *response, struct weir_str name,
			  struct weir_str value);

void wr_serve_http_reply_text(struct wr_serve_http_request *request, unsigned status,
			      struct weir_str body, const char *content_type);
void wr_serve_http_reply_problem(struct wr_serve_http_request *request,
				 const struct wr_problem *problem);

/* Returns an empty buffer to write a response into. The next call for this server empties the
 * buffer, so the buffer holds one response at a time. wr_serve_http_reply_text copies the response.
 * */
struct wr_buf *wr_serve_http_buffer(struct wr_serve_http_server *server);

/* Finds the header fields of a request by name. `context` is the request. Used as the callback
 * `header` of struct weir_http_view. The comment on that struct describes the other arguments of
 * this function. */
size_t wr_serve_http_fields(void *context, struct weir_str name, struct weir_str *values,
			    size_t max);

/* Returns the first header field of this name, or an empty string. */
struct weir_str wr_serve_http_field(const struct wr_serve_http_request *request, const char *name);

/* Returns the client's address, which is valid until the next call in this thread. Returns NULL if
 * the address is unknown. */
const struct sockaddr *wr_serve_http_peer(const struct wr_serve_http_request *request);

/* Sets two fields of request->pending that the decision log uses: `via`, and `trace`, which is read
 * from the header field traceparent. */
void wr_serve_http_trace(struct wr_serve_http_request *request, const char *via);

/* Decides request->pending and calls `done`, at once or later. The caller has added the descriptors
 * to the ask before. If the decision takes time, holds the request. If the client disconnects
 * meanwhile, cancels the decision. */
void wr_serve_http_decide(struct wr_serve_http_request *request, const char *via,
			  void (*done)(struct wr_pending *pending, int verdict));

/* Cancels and ends request->pending. Used as the callback `gone`. */
void wr_serve_http_cancel(struct wr_serve_http_request *request);

/* Returns the decoded value of an argument of the query, or NULL. */
const char *wr_serve_http_argument(const struct wr_serve_http_request *request, const char *name);

/* Goes through the arguments of the query. `before` is NULL in the first call, and the value of the
 * previous argument in later calls. Returns the name of the next argument and sets *value. Returns
 * NULL if there are no more arguments. */
const char *wr_serve_http_next_argument(const struct wr_serve_http_request *request,
					const char *before, const char **value);

static inline struct weir_str wr_serve_http_body(const struct wr_serve_http_request *request)
{
	return wr_buf_str(&request->body);
}

/* ---- functions shared by server.c, request.c and response.c ---- */

struct wr_serve_http_request *wr_serve_http_request_new(struct wr_serve_http_connection *client);
void wr_serve_http_request_free(struct wr_serve_http_request *request);

/* Consumes input and returns the number of bytes consumed. When the request is complete, calls the
 * handler and sets the stage to WR_HTTP_HANDLED. */
size_t wr_serve_http_request_take(struct wr_serve_http_request *request, const char *data,
				  size_t len);

/* Appends bytes to the body of a request. Returns false if the server's requests use too much
 * memory, or if there is no memory. */
bool wr_serve_http_request_body(struct wr_serve_http_request *request, const char *data,
				size_t len);

/* Sends as much of the response client->sending as the stream accepts. When the whole response is
 * sent, frees it and sets client->sending to NULL. */
void wr_serve_http_pump(struct wr_serve_http_connection *client);

/* Writes the head of a response. A `length` of SIZE_MAX means that the response has no end
 * (stream.h). Returns a negative number if the stream is closing. */
int wr_serve_http_write_head(struct wr_serve_http_request *request, unsigned status,
			     const struct wr_serve_http_response *response, size_t length);

void wr_serve_http_response_free(struct wr_serve_http_response *response);

/* Ends a held request whose response was sent. The request ends in the next turn of the loop,
 * because the caller still uses the request. */
void wr_serve_http_end_later(struct wr_serve_http_request *request);

#endif
