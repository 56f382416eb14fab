#include "serve/http_stream.h"

#include <stdlib.h>

#define BLOCK_BYTES 4096u /* that libmicrohttpd asks for at a time */

/* libmicrohttpd asks again and again while a connection is not suspended. */
static ssize_t read_more(void *cls, uint64_t at, char *buffer, size_t max)
{
	struct wr_http_stream *stream = cls;
	size_t len = stream->len - stream->sent;

	(void)at;
	if (stream->text) {
		if (len > max)
			len = max;
		memcpy(buffer, stream->text + stream->sent, len);
		stream->sent += len;
		if (stream->sent == stream->len) {
			free(stream->text);
			stream->text = NULL;
		}
		return (ssize_t)len;
	}
	if (stream->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	stream->suspended = true;
	MHD_suspend_connection(stream->request->connection);
	return 0;
}

static void on_free(void *cls)
{
	struct wr_http_stream *stream = cls;

	free(stream->text);
	stream->text = NULL;
	stream->request = NULL;
	stream->closed(stream);
}

static void resume(struct wr_http_stream *stream)
{
	if (!stream->suspended)
		return;
	stream->suspended = false;
	MHD_resume_connection(stream->request->connection);
	wr_http_wake(stream->request->server);
}

static void on_gone(struct wr_http_request *request)
{
	wr_http_stream_end(request->context);
}

bool wr_http_stream_begin(struct wr_http_stream *stream, struct wr_http_request *request,
			  const char *content_type)
{
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_more, stream, on_free);

	if (!response)
		return false;
	stream->request = request;
	request->context = stream;
	request->gone = on_gone;
	request->streaming = true;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	/* Nothing comes behind it: when it ends, so does the connection. */
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	wr_http_reply(request, 200, response);
	/* It may take as long as it likes; a client that does not read is silent, and the time for
	 * that is libmicrohttpd's to keep. */
	if (stream->request && request->client)
		request->client->deadline_ms = 0;
	return true;
}

bool wr_http_stream_idle(const struct wr_http_stream *stream)
{
	return stream->text == NULL;
}

void wr_http_stream_put(struct wr_http_stream *stream, char *text, size_t len)
{
	stream->text = text;
	stream->len = len;
	stream->sent = 0;
	resume(stream);
}

void wr_http_stream_end(struct wr_http_stream *stream)
{
	stream->ended = true;
	resume(stream);
}
