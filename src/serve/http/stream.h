/* A response without an end. The handler sends one text after the other; the next text may be sent
 * when all of the previous text was sent. */
#ifndef WR_SERVE_HTTP_STREAM_H
#define WR_SERVE_HTTP_STREAM_H

#include "serve/http/server.h"

struct wr_serve_http_stream {
	struct wr_serve_http_request *request; /* NULL: the stream is closed */
	bool ended;
	/* Called once, when the client has disconnected, or when the stream has ended and all text
	 * was sent. Afterwards the caller may free the struct. */
	void (*closed)(struct wr_serve_http_stream *stream);
};

/* Responds with 200 and begins the stream. The caller keeps the struct until `closed` is called. If
 * there is no memory, sends nothing and returns false. */
bool wr_serve_http_stream_begin(struct wr_serve_http_stream *stream,
				struct wr_serve_http_request *request, const char *content_type);

/* Returns whether all text was sent. */
bool wr_serve_http_stream_idle(const struct wr_serve_http_stream *stream);

/* Sends a text from malloc and frees it. Called only if wr_serve_http_stream_idle() returns true.
 * */
void wr_serve_http_stream_put(struct wr_serve_http_stream *stream, char *text, size_t len);

/* Ends the stream. The handler sends no more text. */
void wr_serve_http_stream_end(struct wr_serve_http_stream *stream);

#endif
