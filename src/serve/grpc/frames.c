/* The callbacks of nghttp2, which turn frames into calls. Also finds invalid frames that nghttp2
 * would ignore. Called by session.c. */
#include "serve/grpc/session.h"

#include "base/assert.h"
#include "base/error.h"

/* Header fields above the limit WR_GRPC_HEADER_BYTES are ignored. Above 4 times the limit, the
 * stream is reset. */
#define HEADER_PATIENCE 4u
/* The size of a field in HPACK is the length of its name and value plus 32. */
#define FIELD_OVERHEAD 32u
#define FRAME_HEAD 9u
#define PRIORITY_BYTES 5u

struct wr_serve_grpc_frame {
	uint32_t len;
	uint8_t type;
	int32_t stream;
};

static uint32_t read_u32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/* Returns the call of a stream, or NULL if the stream has no call. The call of the latest frame is
 * compared first, because frames of a call usually come together. */
static struct wr_serve_grpc_call *call_of(struct wr_serve_grpc_session *session, int32_t id)
{
	if (!session->recent || session->recent->id != id)
		session->recent = nghttp2_session_get_stream_user_data(session->h2, id);
	return session->recent;
}

/* ---- streams that have ended ---- */

/* Returns true if this server has reset the stream. Only the latest resets are stored, so the
 * function also returns true if the stream is too old to be known (session->forgotten). */
static bool was_reset(const struct wr_serve_grpc_session *session, int32_t id)
{
	for (size_t i = 0; i < WR_GRPC_RESETS_STORED; i++)
		if (session->resets[i] == id)
			return true;
	return id <= session->forgotten;
}

/* Returns whether the client skipped the stream `id`. A client that opens a stream skips all lower
 * ids that it has not used, and these streams count as closed (RFC 9113, 5.1.1). If `id` is higher
 * than all ids so far, records it and the range of ids that it skips. */
static bool was_skipped(struct wr_serve_grpc_scanner *scanner, int32_t id)
{
	if (id % 2 == 0)
		return false;
	if (id > scanner->newest) {
		int32_t next = scanner->newest ? scanner->newest + 2 : 1;
		unsigned at = scanner->skipped_at % WR_GRPC_GAPS_STORED;

		if (id > next) {
			scanner->skipped[at].from = next;
			scanner->skipped[at].to = id - 2;
			scanner->skipped_at++;
		}
		scanner->newest = id;
		return false;
	}
	for (size_t i = 0; i < WR_GRPC_GAPS_STORED; i++)
		if (id >= scanner->skipped[i].from && id <= scanner->skipped[i].to)
			return true;
	return false;
}

/* Returns the error for an invalid frame that nghttp2 would ignore, or NGHTTP2_NO_ERROR. `payload`
 * is the part of the frame that has been received. */
static uint32_t check_frame(struct wr_serve_grpc_session *session,
			    const struct wr_serve_grpc_frame *frame, const uint8_t *payload,
			    size_t len)
{
	if (frame->type == NGHTTP2_PRIORITY) {
		if (frame->stream == 0)
			return NGHTTP2_PROTOCOL_ERROR;
		if (frame->len != PRIORITY_BYTES)
			return NGHTTP2_FRAME_SIZE_ERROR;
		/* A stream must not depend on itself (RFC 7540, 5.3.1). */
		if (len >= 4 && (int32_t)(read_u32(payload) & INT32_MAX) == frame->stream)
			return NGHTTP2_PROTOCOL_ERROR;
	}
	if (frame->type == NGHTTP2_HEADERS && was_skipped(&session->scanner, frame->stream))
		return NGHTTP2_PROTOCOL_ERROR;
	if ((frame->type == NGHTTP2_DATA || frame->type == NGHTTP2_HEADERS) &&
	    frame->stream % 2 == 1 && frame->stream <= session->last_id &&
	    !nghttp2_session_find_stream(session->h2, frame->stream) &&
	    !was_reset(session, frame->stream))
		return NGHTTP2_STREAM_CLOSED;
	return NGHTTP2_NO_ERROR;
}

/* Charges points (guard.h) for frames that nghttp2 does not report: PRIORITY, unknown types, and
 * RST_STREAM and WINDOW_UPDATE for streams that have ended. */
static void charge_frame(struct wr_serve_grpc_session *session,
			 const struct wr_serve_grpc_frame *frame)
{
	bool ended = frame->stream &&
		     (frame->type == NGHTTP2_RST_STREAM || frame->type == NGHTTP2_WINDOW_UPDATE) &&
		     !nghttp2_session_find_stream(session->h2, frame->stream);

	if (frame->type == NGHTTP2_PRIORITY || frame->type > NGHTTP2_CONTINUATION)
		wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_EMPTY);
	else if (ended)
		wr_serve_grpc_guard_charge(&session->guard, frame->type == NGHTTP2_RST_STREAM
								    ? WR_GUARD_UNFINISHED
								    : WR_GUARD_WINDOW);
}

/* Checks the header of each frame before nghttp2 reads the frame. RFC 9113 (5.1, 6.3) requires
 * errors for frames of ended streams and for invalid PRIORITY frames, but nghttp2 ignores such
 * frames. The function returns after each RST_STREAM, so that nghttp2 ends the stream before later
 * frames of that stream are checked. A response can end a stream too, but responses are sent only
 * after the whole input was read. */
size_t wr_serve_grpc_scan(struct wr_serve_grpc_session *session, const uint8_t *data, size_t len,
			  uint32_t *error)
{
	struct wr_serve_grpc_scanner *scanner = &session->scanner;
	const uint8_t *begin = data;
	struct wr_serve_grpc_frame frame;
	bool reset = false;

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	wr_assert(scanner->have < sizeof scanner->head);
	*error = NGHTTP2_NO_ERROR;
	while (len && *error == NGHTTP2_NO_ERROR) {
		size_t take = scanner->skip < len ? scanner->skip : len;

		data += take;
		len -= take;
		scanner->skip -= (uint32_t)take;
		if (reset && scanner->skip == 0)
			break;
		while (len && scanner->skip == 0 && scanner->have < FRAME_HEAD) {
			scanner->head[scanner->have++] = *data++;
			len--;
		}
		if (scanner->have < FRAME_HEAD)
			continue;
		scanner->have = 0;
		scanner->skip = read_u32(scanner->head) >> 8;
		frame = (struct wr_serve_grpc_frame){
			.len = scanner->skip,
			.type = scanner->head[3],
			.stream = (int32_t)(read_u32(scanner->head + 5) & INT32_MAX)};
		charge_frame(session, &frame);
		*error = check_frame(session, &frame, data, len);
		reset = frame.type == NGHTTP2_RST_STREAM;
	}
	return (size_t)(data - begin);
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct wr_serve_grpc_session *session = user;
	struct wr_serve_grpc_call *call;

	session->heading = NULL; /* trailers of a client are ignored */
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = wr_serve_grpc_call_new(session, frame->hd.stream_id);
	if (!call)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	session->heading = call;
	session->recent = call;
	session->last_id = frame->hd.stream_id;
	return nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, call);
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, nghttp2_rcbuf *name,
		     nghttp2_rcbuf *value, uint8_t flags, void *user)
{
	struct wr_serve_grpc_session *session = user;
	struct wr_serve_grpc_call *call = session->heading;
	nghttp2_vec n, v;

	(void)h2;
	(void)frame;
	(void)flags;
	if (!call)
		return 0;
	n = nghttp2_rcbuf_get_buf(name);
	v = nghttp2_rcbuf_get_buf(value);
	call->header_bytes += (uint32_t)(n.len + v.len) + FIELD_OVERHEAD;
	if (call->header_bytes > WR_GRPC_HEADER_BYTES) {
		if (!call->too_long)
			wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_HEADERS);
		call->too_long = true;
		return call->header_bytes > HEADER_PATIENCE * WR_GRPC_HEADER_BYTES
			       ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
			       : 0;
	}
	wr_grpc_head_field(&call->head, (struct weir_str){(const char *)n.base, n.len},
			   (struct weir_str){(const char *)v.base, v.len});
	return 0;
}

static void headers_whole(struct wr_serve_grpc_call *call)
{
	struct weir_error error;

	if (call->too_long) {
		wr_error(&error, WR_GRPC_RESOURCE_EXHAUSTED,
			 "the header fields of the call are larger than %u bytes",
			 WR_GRPC_HEADER_BYTES);
		wr_serve_grpc_fail(call, &error);
		return;
	}
	if (wr_grpc_head_check(&call->head, &error) != 0) {
		call->foreign = error.code >= 400;
		if (!call->foreign)
			wr_serve_grpc_fail(call, &error);
		return;
	}
	if (call->head.has_timeout)
		call->deadline_ns = wr_loop_now_ns(call->session->loop) + call->head.timeout_ns;
	/* A call with a stream of messages is allowed to stay incomplete, so the timeout for slow
	 * clients is not applied to the call. */
	if (wr_grpc_method_is_many(call->head.method) && wr_serve_grpc_call_last(call))
		wr_serve_grpc_call_set_midway(call, false);
}

static void on_headers(struct wr_serve_grpc_session *session, const nghttp2_frame *frame)
{
	struct wr_serve_grpc_call *call = call_of(session, frame->hd.stream_id);

	if (!call)
		return;
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		headers_whole(call);
	session->heading = NULL;
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		wr_serve_grpc_call_finish(call);
}

static void on_data(struct wr_serve_grpc_session *session, const nghttp2_frame *frame)
{
	struct wr_serve_grpc_call *call;

	if (frame->hd.length == frame->data.padlen)
		wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_EMPTY);
	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return;
	call = call_of(session, frame->hd.stream_id);
	if (call)
		wr_serve_grpc_call_finish(call);
}

/* Handles a ping of the client, or the client's answer to a ping of this server. This server sends
 * its ping after the first of the two GOAWAYs of a drain. The answer shows that the client has read
 * that GOAWAY, so all calls that the client began before have arrived. Then the second GOAWAY can
 * be sent. */
static void on_ping(struct wr_serve_grpc_session *session, const nghttp2_frame *frame)
{
	wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_EMPTY);
	if (frame->hd.flags & NGHTTP2_FLAG_ACK && session->draining)
		nghttp2_submit_goaway(session->h2, NGHTTP2_FLAG_NONE,
				      nghttp2_session_get_last_proc_stream_id(session->h2),
				      NGHTTP2_NO_ERROR, NULL, 0);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct wr_serve_grpc_session *session = user;

	(void)h2;
	wr_serve_grpc_guard_known(&session->guard, FRAME_HEAD + frame->hd.length);
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		on_headers(session, frame);
		break;
	case NGHTTP2_DATA:
		on_data(session, frame);
		break;
	case NGHTTP2_PING:
		on_ping(session, frame);
		break;
	case NGHTTP2_SETTINGS:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_SETTINGS);
		session->greeted = true;
		break;
	case NGHTTP2_RST_STREAM: /* points are charged when the stream closes */
		break;
	case NGHTTP2_WINDOW_UPDATE:
		wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_WINDOW);
		break;
	default:
		wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_EMPTY);
	}
	return 0;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes,
			 size_t len, void *user)
{
	struct wr_serve_grpc_call *call = call_of(user, id);

	(void)h2;
	(void)flags;
	if (call)
		wr_serve_grpc_call_data(call, bytes, len);
	return 0;
}

static int on_invalid_frame(nghttp2_session *h2, const nghttp2_frame *frame, int error, void *user)
{
	struct wr_serve_grpc_session *session = user;

	(void)h2;
	(void)frame;
	(void)error;
	wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_UNFINISHED);
	return 0;
}

/* Called when nghttp2 has sent a frame. Handles these frames:
 *
 * End of a response: if the client has not ended its side of the stream, resets the stream, which
 * would stay open otherwise. The reset is not sent earlier, because it could overtake the response.
 * RST_STREAM: records the id of the stream.
 * First GOAWAY of a drain: sends a ping, which the client answers after it has read the GOAWAY. */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct wr_serve_grpc_session *session = user;
	int32_t id = frame->hd.stream_id;

	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		const struct wr_serve_grpc_call *call = call_of(session, id);

		if (call && !call->ended)
			nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
	}
	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		int32_t *oldest = &session->resets[session->reset_at++ % WR_GRPC_RESETS_STORED];

		if (*oldest > session->forgotten)
			session->forgotten = *oldest;
		*oldest = id;
	}
	if (frame->hd.type == NGHTTP2_GOAWAY && session->draining && !session->pinged) {
		session->pinged = true;
		return nghttp2_submit_ping(h2, NGHTTP2_FLAG_NONE, NULL);
	}
	return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t error, void *user)
{
	struct wr_serve_grpc_session *session = user;
	struct wr_serve_grpc_call *call = call_of(session, id);

	(void)h2;
	if (error == NGHTTP2_NO_ERROR)
		wr_serve_grpc_guard_answered(&session->guard);
	else
		wr_serve_grpc_guard_charge(&session->guard, WR_GUARD_UNFINISHED);
	if (call)
		wr_serve_grpc_call_end(call);
	return 0;
}

int wr_serve_grpc_callbacks_new(nghttp2_session_callbacks **out)
{
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return WEIR_EMEMORY;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	*out = callbacks;
	return 0;
}
