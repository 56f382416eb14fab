/* Calls ShouldRateLimit of a gRPC service once, over HTTP/2 on a blocking socket. Called by
 * `weir ask`. */
#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/str.h"
#include "cli/client/client.h"

#define FRAME_HEAD 5
#define MESSAGE_MAX ((size_t)16 << 20)

struct grpc_client_call {
	int fd;
	struct wr_buf message; /* the request message with its five-byte prefix */
	size_t sent;
	struct wr_buf answer;
	int http_status, grpc_status; /* -1: no such status was received */
	char grpc_message[200];
	bool closed;
};

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags,
		       void *context)
{
	const struct grpc_client_call *call = context;
	ssize_t sent;

	(void)session;
	(void)flags;
	do
		sent = send(call->fd, data, len, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : sent;
}

static ssize_t on_read_body(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t room,
			    uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct grpc_client_call *call = context;
	size_t left = call->message.len - call->sent;
	size_t len = left < room ? left : room;

	(void)session;
	(void)stream;
	(void)source;
	memcpy(buffer, call->message.ptr + call->sent, len);
	call->sent += len;
	if (call->sent == call->message.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *context)
{
	struct grpc_client_call *call = context;
	struct weir_str field = {(const char *)name, name_len};

	(void)session;
	(void)frame;
	(void)flags;
	if (wr_str_equal(field, WR_STR(":status")))
		call->http_status = (int)strtol((const char *)value, NULL, 10);
	else if (wr_str_equal(field, WR_STR("grpc-status")))
		call->grpc_status = (int)strtol((const char *)value, NULL, 10);
	else if (wr_str_equal(field, WR_STR("grpc-message")))
		snprintf(call->grpc_message, sizeof call->grpc_message, "%.*s", (int)value_len,
			 (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t len, void *context)
{
	struct grpc_client_call *call = context;

	(void)session;
	(void)flags;
	(void)stream;
	return wr_buf_add(&call->answer, data, len) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *context)
{
	(void)session;
	(void)stream;
	(void)code;
	((struct grpc_client_call *)context)->closed = true;
	return 0;
}

static nghttp2_session *make_session(struct grpc_client_call *call)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_client_new(&session, callbacks, call);
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

#define FIELD(name, value)                                                                         \
	{                                                                                          \
		(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,        \
			NGHTTP2_NV_FLAG_NONE                                                       \
	}

static int submit_call(nghttp2_session *session, struct grpc_client_call *call)
{
	static const nghttp2_nv fields[] = {
		FIELD(":method", "POST"),
		FIELD(":scheme", "http"),
		FIELD(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
		FIELD(":authority", "localhost"),
		FIELD("content-type", "application/grpc"),
		FIELD("te", "trailers"),
		FIELD("user-agent", "weir-ask"),
	};
	nghttp2_data_provider body = {.read_callback = on_read_body};

	if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0) != 0)
		return -1;
	return nghttp2_submit_request(session, NULL, fields, sizeof fields / sizeof *fields, &body,
				      call);
}

/* Exchanges frames until the call has ended. Retries after EINTR, because with SO_RCVTIMEO the
 * kernel does not restart recv() after a stop signal. */
static int run_session(nghttp2_session *session, struct grpc_client_call *call)
{
	uint8_t bytes[16384];

	while (!call->closed) {
		ssize_t got;

		if (nghttp2_session_send(session) != 0)
			return -1;
		do
			got = recv(call->fd, bytes, sizeof bytes, 0);
		while (got < 0 && errno == EINTR);
		if (got <= 0 || nghttp2_session_mem_recv(session, bytes, (size_t)got) < 0)
			return -1;
	}
	return 0;
}

static int make_call(struct grpc_client_call *call, const char *address, struct weir_error *error)
{
	nghttp2_session *session = make_session(call);
	int rc = session && submit_call(session, call) >= 0 ? run_session(session, call) : -1;

	nghttp2_session_del(session);
	if (rc != 0)
		return wr_error(
			error, WEIR_ESYS,
			"%s does not speak gRPC without TLS; is it another port, or does it need "
			"TLS?",
			address);
	if (call->grpc_status != 0)
		return wr_error(error, WEIR_EINVAL, "%s answered with gRPC status %d: %s", address,
				call->grpc_status, call->grpc_message);
	return 0;
}

/* Reads the response message. The first byte must be 0 (not compressed), because the request did
 * not offer compression. */
static Pb__RateLimitResponse *read_answer(const struct grpc_client_call *call,
					  struct wr_rls_memory *memory, struct weir_error *error)
{
	Pb__RateLimitResponse *response = NULL;

	if (call->answer.len >= FRAME_HEAD && call->answer.ptr[0] == 0)
		response = pb__rate_limit_response__unpack(
			&memory->allocator, call->answer.len - FRAME_HEAD,
			(const uint8_t *)call->answer.ptr + FRAME_HEAD);
	if (!response)
		wr_error(error, WEIR_EFORMAT, "the answer is not a RateLimitResponse");
	return response;
}

static bool pack_request(struct wr_buf *message, const Pb__RateLimitRequest *request)
{
	size_t len = pb__rate_limit_request__get_packed_size(request);
	uint32_t big_endian = htonl((uint32_t)len);
	char *room;

	wr_buf_add_char(message, 0); /* not compressed */
	wr_buf_add(message, &big_endian, sizeof big_endian);
	room = wr_buf_reserve(message, len);
	if (!room)
		return false;
	pb__rate_limit_request__pack(request, (uint8_t *)room);
	wr_buf_commit(message, len);
	return true;
}

Pb__RateLimitResponse *wr_client_grpc(const char *address, const Pb__RateLimitRequest *request,
				      struct wr_rls_memory *memory, struct weir_error *error)
{
	struct grpc_client_call call = {.http_status = -1, .grpc_status = -1};
	Pb__RateLimitResponse *response = NULL;

	wr_buf_init(&call.message, MESSAGE_MAX);
	wr_buf_init(&call.answer, MESSAGE_MAX);
	if (!pack_request(&call.message, request)) {
		wr_error(error, WEIR_EMEMORY, "out of memory");
	} else {
		call.fd = wr_client_connect(address, error);
		if (call.fd >= 0) {
			if (make_call(&call, address, error) == 0)
				response = read_answer(&call, memory, error);
			close(call.fd);
		}
	}
	wr_buf_free(&call.message);
	wr_buf_free(&call.answer);
	return response;
}
