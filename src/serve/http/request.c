/* Requests: collects head and body from pieces of input, and gives handlers access to header
 * fields, arguments and decisions. Called by server.c and by the handlers. */
#include <stdlib.h>

#include "serve/http/server.h"

#include "base/assert.h"

/* ---- memory ---- */

struct wr_serve_http_request *wr_serve_http_request_new(struct wr_serve_http_connection *client)
{
	struct wr_serve_http_server *server = client->server;
	struct wr_serve_http_request *request = wr_pool_take(&server->spare, sizeof *request);

	wr_assert(!client->request);
	if (!request)
		return NULL;
	memset(request, 0, offsetof(struct wr_serve_http_request, head_few));
	request->magic = WR_HTTP_REQUEST_MAGIC;
	request->server = server;
	request->client = client;
	request->method = "";
	request->path = "";
	wr_buf_init_first(&request->head_bytes, request->head_few, sizeof request->head_few,
			  WR_HTTP1_HEAD_MAX, &server->large);
	wr_buf_init_first(&request->body, request->body_few, sizeof request->body_few,
			  WR_HTTP_BODY_MAX, &server->large);
	return request;
}

void wr_serve_http_request_free(struct wr_serve_http_request *request)
{
	struct wr_serve_http_server *server = request->server;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!wr_list_holds(&request->ends_link));
	wr_buf_free(&request->head_bytes);
	wr_buf_free(&request->body);
	free(request->arguments);
	request->magic = 0;
	wr_pool_give(&server->spare, request, WR_HTTP_REQUESTS_SPARE_MAX);
}

/* ---- responses to requests that cannot be read ---- */

static const struct {
	int status;
	enum wr_problem_code code;
	const char *detail;
} refusals[] = {
	{413, WR_TOO_LARGE, "the body is larger than 262144 bytes"},
	{414, WR_LONG_TARGET, "the request line is longer than 8192 bytes"},
	{431, WR_TOO_LONG, "the header fields are larger than 32768 bytes"},
	{501, WR_BAD_CODING,
	 "the Transfer-Encoding is not supported; use chunked or Content-Length"},
	{503, WR_UNAVAILABLE,
	 "other large requests use all memory for large requests; try again later"},
	{505, WR_BAD_VERSION, "the HTTP version is not supported; use HTTP/1.1"},
};

static void refuse_request(struct wr_serve_http_request *request, int status)
{
	struct wr_problem problem;
	size_t i = 0;

	while (i < sizeof refusals / sizeof *refusals && refusals[i].status != status)
		i++;
	if (i < sizeof refusals / sizeof *refusals)
		wr_problem(&problem, refusals[i].code, "%s", refusals[i].detail);
	else
		wr_problem(&problem, WR_BAD_REQUEST, "the request is not valid HTTP");
	request->stage = WR_HTTP_HANDLED;
	request->close = true;
	wr_serve_http_reply_problem(request, &problem);
}

/* ---- the query ---- */

/* Decodes a part of the query, and writes it and a zero to `at`. If an escape is invalid, the part
 * is not decoded. Returns a pointer to the byte after the zero. */
static char *put_decoded(char *at, struct weir_str part)
{
	size_t len;

	memcpy(at, part.ptr, part.len);
	len = wr_http1_unescape(at, part.len, true);
	if (len == SIZE_MAX) {
		memcpy(at, part.ptr, part.len);
		len = part.len;
	}
	at[len] = '\0';
	return at + len + 1;
}

/* Splits the query into request->arguments. Returns false if there is no memory. */
static bool read_arguments(struct wr_serve_http_request *request)
{
	struct weir_str rest = request->head.query;
	char *at = malloc(2 * rest.len + 2);

	request->arguments = at;
	if (!at)
		return false;
	while (rest.len) {
		struct weir_str pair = wr_str_first(rest, wr_str_find(rest, '&'));
		size_t equals = wr_str_find(pair, '=');

		rest = wr_str_from(rest, pair.len < rest.len ? pair.len + 1 : pair.len);
		if (equals == 0)
			continue; /* the argument has no name */
		at = put_decoded(at, wr_str_first(pair, equals));
		at = put_decoded(at, wr_str_from(pair, equals < pair.len ? equals + 1 : equals));
	}
	*at = '\0';
	return true;
}

/* ---- reading ---- */

static void handle(struct wr_serve_http_request *request)
{
	request->stage = WR_HTTP_HANDLED;
	request->server->api->handle(request);
}

bool wr_serve_http_request_body(struct wr_serve_http_request *request, const char *data, size_t len)
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(data || len == 0);
	return wr_buf_add(&request->body, data, len);
}

static size_t take_counted(struct wr_serve_http_request *request, const char *data, size_t len)
{
	size_t left = (size_t)request->head.content_length - request->body.len;
	size_t used = len < left ? len : left;

	if (!wr_serve_http_request_body(request, data, used))
		refuse_request(request, 503);
	else if (used == left)
		handle(request);
	return used;
}

static size_t take_chunked(struct wr_serve_http_request *request, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const char *piece;
		size_t used, piece_len;
		enum wr_http1_chunk what = wr_http1_dechunk(&request->chunks, data + done,
							    len - done, &used, &piece, &piece_len);

		done += used;
		if (what == WR_CHUNK_BAD) {
			refuse_request(request, 400);
			break;
		}
		if (what == WR_CHUNK_END) {
			handle(request);
			break;
		}
		if (what != WR_CHUNK_DATA)
			continue;
		if (request->body.len + piece_len > WR_HTTP_BODY_MAX) {
			request->too_large = true;
			handle(request);
			break;
		}
		if (!wr_serve_http_request_body(request, piece, piece_len)) {
			refuse_request(request, 503);
			break;
		}
	}
	return done;
}

/* Parses the head, then calls the handler or begins to read the body. Called when the head is
 * complete. */
static void begin_body(struct wr_serve_http_request *request, bool more_input)
{
	struct wr_http1 *head = &request->head;
	int status = wr_http1_read(head, request->head_bytes.ptr, request->head_bytes.len);

	if (head->method.ptr)
		request->method = head->method.ptr;
	if (status == 0 && head->query.len && !read_arguments(request))
		status = 503;
	if (status) {
		refuse_request(request, status);
		return;
	}
	request->path = head->path.ptr;
	request->too_large = !head->chunked && head->content_length > WR_HTTP_BODY_MAX;
	if (request->too_large || (!head->chunked && head->content_length == 0)) {
		handle(request);
		return;
	}
	request->stage = WR_HTTP_BODY;
	if (head->expects_continue && !more_input)
		wr_stream_write(request->client->stream, WR_HTTP_CONTINUE);
}

static size_t take_head(struct wr_serve_http_request *request, const char *data, size_t len)
{
	struct wr_buf *bytes = &request->head_bytes;
	size_t had = bytes->len;
	int status;
	size_t room = WR_HTTP1_HEAD_MAX - had;
	size_t most = len < room ? len : room;
	size_t end = 0;

	/* If the first input has the whole head, which is usual, only the head is copied.
	 * Otherwise all input is copied, up to the maximum length of a head. */
	if (had == 0)
		end = wr_http1_head_end(data, most, &request->scanned);
	if (!wr_buf_add(bytes, data, end ? end : most)) {
		refuse_request(request, 503);
		return most;
	}
	if (had != 0)
		end = wr_http1_head_end(bytes->ptr, bytes->len, &request->scanned);
	if (!end) {
		status = wr_http1_part_check(bytes->ptr, bytes->len, had);
		if (status) /* the head is incomplete, but already invalid */
			refuse_request(request, status);
		return most;
	}
	bytes->len = end; /* the rest of the input is not part of the head */
	begin_body(request, end - had < len);
	return end - had;
}

size_t wr_serve_http_request_take(struct wr_serve_http_request *request, const char *data,
				  size_t len)
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(request->stage != WR_HTTP_HANDLED && len > 0);
	if (request->stage == WR_HTTP_HEAD)
		return take_head(request, data, len);
	return request->head.chunked ? take_chunked(request, data, len)
				     : take_counted(request, data, len);
}

/* ---- access to header fields ---- */

size_t wr_serve_http_fields(void *context, struct weir_str name, struct weir_str *values,
			    size_t max)
{
	const struct wr_serve_http_request *request = context;
	struct wr_http1_field field;
	size_t count = 0;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(values || max == 0);
	for (const char *at = request->head.fields;
	     (at = wr_http1_next(&request->head, at, &field));) {
		if (!wr_str_equal_nocase(name, field.name))
			continue;
		if (count < max)
			values[count] = field.value;
		count++;
	}
	return count;
}

struct weir_str wr_serve_http_field(const struct wr_serve_http_request *request, const char *name)
{
	struct weir_str value = wr_http1_field(&request->head, wr_str(name));

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	return value.ptr ? value : WR_STR("");
}

const struct sockaddr *wr_serve_http_peer(const struct wr_serve_http_request *request)
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	return wr_stream_peer(request->client->stream);
}

void wr_serve_http_trace(struct wr_serve_http_request *request, const char *via)
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(via);
	request->pending.via = via;
	if (request->server->loop->decisions)
		wr_trace_read(wr_serve_http_field(request, "traceparent"), &request->pending.trace);
}

void wr_serve_http_cancel(struct wr_serve_http_request *request)
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_pending_cancel(&request->pending);
	wr_pending_end(&request->pending);
}

void wr_serve_http_decide(struct wr_serve_http_request *request, const char *via,
			  void (*done)(struct wr_pending *pending, int verdict))
{
	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(done && !request->answered);
	request->pending.done = done;
	wr_serve_http_trace(request, via);
	wr_pending_decide(&request->pending);
	if (!request->answered)
		wr_serve_http_hold(request, wr_serve_http_cancel);
}

/* ---- arguments of the query ---- */

const char *wr_serve_http_next_argument(const struct wr_serve_http_request *request,
					const char *before, const char **value)
{
	const char *name = before ? before + strlen(before) + 1 : request->arguments;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	if (!name || !*name)
		return NULL;
	*value = name + strlen(name) + 1;
	return name;
}

const char *wr_serve_http_argument(const struct wr_serve_http_request *request, const char *name)
{
	const char *value = NULL;

	for (const char *found; (found = wr_serve_http_next_argument(request, value, &value));)
		if (strcmp(found, name) == 0)
			return value;
	return NULL;
}
