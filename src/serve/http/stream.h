/* An answer that has no end: text goes out when there is some. One text is kept at a time. */
#ifndef WR_SERVE_HTTP_STREAM_H
#define WR_SERVE_HTTP_STREAM_H

#include "serve/http/server.h"

struct wr_http_stream {
	struct wr_http_request *request; /* NULL: it is over */
	bool ended;
	/* The client has left, or the stream has ended and all of it was sent. Called once; the
	 * memory is the caller's again. */
	void (*closed)(struct wr_http_stream *stream);
};

/* Answers 200. The memory stays until `closed`. False: no memory, nothing was begun. */
bool wr_http_stream_begin(struct wr_http_stream *stream, struct wr_http_request *request,
			  const char *content_type);

/* Whether all that was put has gone out. */
bool wr_http_stream_idle(const struct wr_http_stream *stream);

/* Takes the text, which malloc gave. Only when idle. */
void wr_http_stream_put(struct wr_http_stream *stream, char *text, size_t len);

/* No more text. */
void wr_http_stream_end(struct wr_http_stream *stream);

#endif
