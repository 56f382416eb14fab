/* Responses without an end. Called by the admin API for live updates. */
#include "serve/http/stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

#define CHUNK_HEAD_BYTES 24

static struct wr_stream *connection_of(const struct wr_serve_http_stream *stream)
{
	return stream->request->client->stream;
}

/* Called when the connection has closed. Calls `closed` of the stream. */
static void on_over(struct wr_serve_http_request *request)
{
	struct wr_serve_http_stream *stream = request->context;

	stream->request = NULL;
	stream->closed(stream);
}

static void on_gone(struct wr_serve_http_request *request)
{
	wr_serve_http_stream_end(request->context);
}

bool wr_serve_http_stream_begin(struct wr_serve_http_stream *stream,
				struct wr_serve_http_request *request, const char *content_type)
{
	struct wr_serve_http_response *response =
		wr_serve_http_response_static(WR_STR(""), content_type);

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(stream->closed && !request->answered);
	if (!response)
		return false;
	stream->request = request;
	request->context = stream;
	request->gone = on_gone;
	request->over = on_over;
	request->streaming = true;
	request->answered = true;
	request->close = true; /* the response has no length, so it ends with the connection */
	wr_serve_http_header(response, WR_STR("Cache-Control"), WR_STR("no-store"));
	wr_serve_http_header(response, WR_STR("X-Content-Type-Options"), WR_STR("nosniff"));
	wr_serve_http_write_head(request, 200, response, SIZE_MAX);
	wr_serve_http_response_free(response);
	return true;
}

bool wr_serve_http_stream_idle(const struct wr_serve_http_stream *stream)
{
	return stream->request && wr_stream_pending(connection_of(stream)) == 0;
}

void wr_serve_http_stream_put(struct wr_serve_http_stream *stream, char *text, size_t len)
{
	bool chunked = stream->request->head.minor > 0;
	char head[CHUNK_HEAD_BYTES];

	wr_assert(text || len == 0);
	if (chunked)
		wr_stream_write(connection_of(stream), head,
				(size_t)snprintf(head, sizeof head, "%zx\r\n", len));
	wr_stream_write(connection_of(stream), text, len);
	if (chunked)
		wr_stream_write(connection_of(stream), "\r\n", 2);
	free(text);
}

void wr_serve_http_stream_end(struct wr_serve_http_stream *stream)
{
	if (stream->ended || !stream->request)
		return;
	stream->ended = true;
	if (stream->request->head.minor > 0)
		wr_stream_write(connection_of(stream), "0\r\n\r\n", 5);
	wr_stream_close(connection_of(stream));
}
