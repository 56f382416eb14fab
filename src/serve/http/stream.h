/* A response without an end: the handler sends text when it has some, one text at a time. */
#ifndef WR_SERVE_HTTP_STREAM_H
#define WR_SERVE_HTTP_STREAM_H

#include "serve/http/server.h"

struct wr_http_stream {
	struct wr_http_request *request; /* NULL: closed */
	bool ended;
	/* The client has disconnected, or the stream has ended and all text was sent. Called once;
	 * afterwards the caller may free the memory. */
	void (*closed)(struct wr_http_stream *stream);
};

/* Responds 200. The struct must stay until `closed`. Returns false without memory; then nothing was
 * sent. */
bool wr_http_stream_begin(struct wr_http_stream *stream, struct wr_http_request *request,
			  const char *content_type);

/* Whether all text was sent. */
bool wr_http_stream_idle(const struct wr_http_stream *stream);

/* Sends text from malloc and frees it. Only when idle. */
void wr_http_stream_put(struct wr_http_stream *stream, char *text, size_t len);

/* No more text. */
void wr_http_stream_end(struct wr_http_stream *stream);

#endif
