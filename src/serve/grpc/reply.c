/* Writes responses: header fields, messages, trailers. The header fields of successful responses
 * are constants that nghttp2 does not copy. Called by the methods and by run.c. */
#include "serve/grpc/session.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define FIXED(name, value)                                                                         \
	{                                                                                          \
		(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,        \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE               \
	}

static const nghttp2_nv ok_head[] = {FIXED(":status", "200"),
				     FIXED("content-type", "application/grpc")};
static const nghttp2_nv ok_trailer[] = {FIXED("grpc-status", "0")};

/* Returns a header field for nghttp2. nghttp2 copies the value, and does not store the field in the
 * table of HPACK. */
static nghttp2_nv field(const char *name, const char *value, size_t len)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), len,
			    NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX};
}

/* ---- trailers ---- */

/* Memory for the values of grpc-status and grpc-message. */
struct status_text {
	char number[4];
	char text[WR_GRPC_TEXT_MAX];
};

static size_t status_fields(int status, const char *text, struct status_text *room,
			    nghttp2_nv fields[2])
{
	int len = snprintf(room->number, sizeof room->number, "%d", status);

	fields[0] = field("grpc-status", room->number, (size_t)len);
	if (!text)
		return 1;
	fields[1] = field("grpc-message", room->text, wr_grpc_text_encode(text, room->text));
	return 2;
}

static int submit_trailer(const struct wr_serve_grpc_call *call)
{
	nghttp2_session *h2 = call->session->h2;
	struct status_text room = {0};
	nghttp2_nv fields[2];
	size_t count;

	if (call->status == WR_GRPC_OK)
		return nghttp2_submit_trailer(h2, call->id, ok_trailer, 1);
	count = status_fields(call->status, call->status_text, &room, fields);
	return nghttp2_submit_trailer(h2, call->id, fields, count);
}

/* ---- data ---- */

static ssize_t read_out(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t cap, uint32_t *flags,
			nghttp2_data_source *source, void *user)
{
	struct wr_serve_grpc_call *call = source->ptr;
	size_t left = call->out.len - call->out_sent;
	size_t len = left < cap ? left : cap;

	(void)h2;
	(void)id;
	(void)user;
	if (len == 0 && !call->final) {
		call->stalled = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (len)
		memcpy(buf, call->out.ptr + call->out_sent, len);
	call->out_sent += len;
	if (len == left)
		wr_serve_grpc_call_set_unsent(call, false);
	else if (len)
		wr_serve_grpc_call_moved(call);
	if (!call->final || len < left)
		return (ssize_t)len;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!call->without_trailer) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (submit_trailer(call) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)len;
}

static uint8_t *fail_without_room(struct wr_serve_grpc_call *call)
{
	if (call->answering)
		wr_serve_grpc_reply_end(
			call, WR_GRPC_RESOURCE_EXHAUSTED,
			"the client does not read its responses, and they use all memory "
			"of its connection");
	else
		wr_serve_grpc_fail_text(
			call, WR_GRPC_RESOURCE_EXHAUSTED,
			"the messages in flight use all memory of this connection; send "
			"fewer long messages at once");
	return NULL;
}

uint8_t *wr_serve_grpc_reply_room(struct wr_serve_grpc_call *call, size_t len)
{
	uint8_t *at;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(call->out_sent <= call->out.len);
	if (call->out_sent) {
		wr_buf_drop(&call->out, call->out_sent);
		call->out_sent = 0;
	}
	at = (uint8_t *)wr_buf_reserve(&call->out, WR_GRPC_PREFIX + len);
	if (!at)
		return fail_without_room(call);
	wr_grpc_prefix_write(at, len);
	wr_buf_commit(&call->out, WR_GRPC_PREFIX + len);
	return at + WR_GRPC_PREFIX;
}

void wr_serve_grpc_reply(struct wr_serve_grpc_call *call, struct weir_str message)
{
	uint8_t *at = wr_serve_grpc_reply_room(call, message.len);

	wr_assert(message.ptr || message.len == 0);
	if (at && message.len)
		memcpy(at, message.ptr, message.len);
}

void wr_serve_grpc_reply_send(struct wr_serve_grpc_call *call, bool final)
{
	nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_out};
	nghttp2_session *h2 = call->session->h2;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	call->final |= final;
	wr_serve_grpc_call_set_unsent(call, true);
	if (!call->answering) {
		call->answering = true;
		nghttp2_submit_response(h2, call->id, ok_head, 2, &provider);
	} else if (call->stalled) {
		call->stalled = false;
		nghttp2_session_resume_data(h2, call->id);
	}
}

void wr_serve_grpc_reply_end(struct wr_serve_grpc_call *call, int status, const char *text)
{
	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	if (call->final)
		return;
	call->status = (uint8_t)status;
	call->status_text = text;
	wr_serve_grpc_reply_send(call, true);
}

/* ---- failures ---- */

static void submit_failure(struct wr_serve_grpc_call *call, const struct weir_error *error)
{
	struct status_text room = {0};
	nghttp2_nv fields[5] = {ok_head[0], ok_head[1]};
	size_t count = 2 + status_fields(error->code, error->text, &room, fields + 2);

	if (call->head.encoding == WR_GRPC_OTHER_ENCODING)
		fields[count++] = (nghttp2_nv)FIXED("grpc-accept-encoding", WR_GRPC_ACCEPTED);
	nghttp2_submit_response(call->session->h2, call->id, fields, count, NULL);
}

/* Responds with an HTTP status and the reason as text. The client does not use gRPC; it is a
 * browser, for example. */
static void submit_http_status(struct wr_serve_grpc_call *call, const struct weir_error *error)
{
	nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_out};
	char text[4];
	int len = snprintf(text, sizeof text, "%d", error->code % 1000);
	nghttp2_nv fields[] = {field(":status", text, (size_t)len),
			       FIXED("content-type", "text/plain; charset=utf-8"),
			       FIXED("allow", "POST")};
	size_t count = error->code == 405 ? 3 : 2;

	if (call->head.head) {
		nghttp2_submit_response(call->session->h2, call->id, fields, count, NULL);
		return;
	}
	wr_buf_printf(&call->out, "%s\n", error->text);
	call->without_trailer = true;
	wr_serve_grpc_call_set_unsent(call, true);
	nghttp2_submit_response(call->session->h2, call->id, fields, count, &provider);
}

void wr_serve_grpc_fail_text(struct wr_serve_grpc_call *call, int code, const char *text)
{
	struct weir_error error;

	wr_error(&error, code, "%s", text);
	wr_serve_grpc_fail(call, &error);
}

void wr_serve_grpc_fail(struct wr_serve_grpc_call *call, const struct weir_error *error)
{
	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	if (call->answering) {
		wr_serve_grpc_reply_end(call, error->code, NULL);
		return;
	}
	call->answering = true;
	call->final = true;
	if (error->code >= 400)
		submit_http_status(call, error);
	else
		submit_failure(call, error);
}
