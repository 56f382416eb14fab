/* HTTP/1.1 on a loop, by libmicrohttpd: requests are read whole, handed to a route, and answered at
 * once or later. The decision API and the admin API are two of these.
 *
 * libmicrohttpd brings its own epoll; a uv_poll on it and a timer drive it. Sockets are accepted
 * here and handed over, so that places are counted as for every other listener.
 *
 * Bounds: places (listener), header bytes (WR_HTTP_CONNECTION_BYTES), body bytes of a request and
 * of all of a server, time from the end of one answer to the end of the next request. */
#ifndef WR_SERVE_HTTP_SERVER_H
#define WR_SERVE_HTTP_SERVER_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

#include "serve/listen.h"
#include "serve/loop.h"
#include "wire/json.h"

#define WR_HTTP_BODY_MAX (256u << 10)
#define WR_HTTP_BODY_INLINE 1024u      /* that much of a body needs no allocation */
#define WR_HTTP_BODIES_MAX (32u << 20) /* of a server, larger ones than that together */
/* Request line and header fields of a request. libmicrohttpd clears as much between requests, so
 * twice of it would cost a tenth of what a request does. */
#define WR_HTTP_CONNECTION_BYTES 16384u
#define WR_HTTP_REQUESTS_KEPT 64u
#define WR_HTTP_ANSWER_BYTES (64u << 10) /* room to write answers in; longer ones are allocated */

struct wr_http_request;
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

struct wr_http_request {
	struct wr_http_server *server;
	struct MHD_Connection *connection;
	struct wr_http_connection *client; /* NULL: there was no memory to note it */
	const char *method;
	const char *path; /* decoded; without the query */
	char *body;       /* with a zero behind it */
	size_t body_len, body_cap;
	struct MHD_Response *response; /* of one that was held, until it is asked for again */
	unsigned status;
	bool too_large, held, answered;
	bool streaming;         /* its answer has no end but `gone`, or the client's leaving */
	enum MHD_Result result; /* for libmicrohttpd: MHD_NO closes the connection */
	/* One that is held: the client has gone, or the server ends. No answer is wanted. */
	void (*gone)(struct wr_http_request *request);
	struct wr_http_watch *watch; /* for the client's leaving */
	struct wr_pending pending;   /* the handler's */
	void *context;               /* the handler's */
	struct wr_http_request *next;
	char few[WR_HTTP_BODY_INLINE];
};

/* A client. */
struct wr_http_connection {
	struct wr_http_server *server;
	struct wr_http_request *request; /* under way, or NULL */
	int fd;
	uint64_t deadline_ms; /* of the loop's clock; 0: none */
	uint64_t active_ms;   /* when it came, or its last request ended */
	bool counted;         /* `received` holds what had come before its next request */
	uint64_t received;
	uint64_t begun_ms; /* when more than that was there, a head under way; 0: not yet */
	bool left_off; /* its last byte had been read when we looked last; no request is whole */
	struct wr_http_connection *next, **back;
};

struct wr_http_server {
	const struct wr_http_api *api;
	struct wr_loop *loop;
	struct wr_listener *listener;
	struct MHD_Daemon *daemon;
	uv_poll_t accepting, polling;
	uv_timer_t timer, sweep;
	int fd; /* -1: closed */
	bool draining;
	unsigned handles;     /* not closed yet */
	uint64_t timer_at_ms; /* when it fires; 0: not set */
	struct wr_http_connection *connections;
	size_t connection_count;
	size_t started; /* connections so far */
	size_t body_bytes;
	struct wr_http_request *spare;
	size_t spare_count;
	char *answer;  /* WR_HTTP_ANSWER_BYTES */
	void *context; /* the api's */
};

int wr_http_server_start(const struct wr_http_api *api, struct wr_loop *loop,
			 struct wr_listener *listener, int fd, void **state,
			 struct weir_error *error);
void wr_http_server_turn_away(void *state);
void wr_http_server_drain(void *state);
size_t wr_http_server_open(void *state);
void wr_http_server_stop(void *state);

/* The answer comes later. `gone` is called if it will not be wanted any more. */
void wr_http_hold(struct wr_http_request *request, void (*gone)(struct wr_http_request *request));

/* Answers, and gives the response up. */
void wr_http_reply(struct wr_http_request *request, unsigned status, struct MHD_Response *response);

/* For http_server.c: what libmicrohttpd calls for a request, and when one has ended. */
enum MHD_Result wr_http_on_request(void *server, struct MHD_Connection *connection, const char *url,
				   const char *method, const char *version, const char *upload,
				   size_t *upload_len, void **state);
void wr_http_on_completed(void *server, struct MHD_Connection *connection, void **state,
			  enum MHD_RequestTerminationCode why);
void wr_http_requests_free(struct wr_http_server *server);

/* libmicrohttpd has work that its epoll does not tell of. */
void wr_http_wake(struct wr_http_server *server);

/* The server ends: whoever is held is told, and lets go of its connection. */
void wr_http_abandon(struct wr_http_request *request);

/* A response of text that is copied; NULL: no memory (then reply with that, which closes the
 * connection). */
struct MHD_Response *wr_http_response(struct weir_str body, const char *content_type);

/* The same of text that malloc gave and that is the response's from here on, whatever comes of it.
 */
struct MHD_Response *wr_http_response_of(char *body, size_t len, const char *content_type);
void wr_http_header(struct MHD_Response *response, struct weir_str name, struct weir_str value);

void wr_http_reply_text(struct wr_http_request *request, unsigned status, struct weir_str body,
			const char *content_type);
void wr_http_reply_problem(struct wr_http_request *request, const struct wr_problem *problem);

/* Text to write an answer into, at most one at a time; wr_http_reply_text may take it. */
struct wr_text wr_http_answer(struct wr_http_server *server);

/* Header fields of a request as struct weir_http_view wants them; the context is the connection. */
size_t wr_http_fields(void *connection, struct weir_str name, struct weir_str *values, size_t max);

/* The first field of that name, or empty. */
struct weir_str wr_http_field(const struct wr_http_request *request, const char *name);

/* For the decision log: by which door the request came, and its trace. */
void wr_http_trace(struct wr_http_request *request, const char *via);

/* An argument of the query, decoded; NULL: not there. */
const char *wr_http_argument(const struct wr_http_request *request, const char *name);

static inline struct weir_str wr_http_body(const struct wr_http_request *request)
{
	return (struct weir_str){request->body, request->body_len};
}

#endif
