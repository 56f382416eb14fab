/* A connection of HTTP/2: passes bytes to nghttp2 and back, and drains the session. Called by net
 * through wr_serve_grpc_protocol. */
#include "serve/grpc/session.h"

#include "base/assert.h"
#include "net/log.h"

static int submit_settings(struct wr_serve_grpc_session *session)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WR_GRPC_STREAMS_MAX},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WR_GRPC_HEADER_BYTES},
		{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
	};
	int rc = nghttp2_submit_settings(session->h2, NGHTTP2_FLAG_NONE, settings,
					 sizeof settings / sizeof *settings);

	if (rc == 0)
		rc = nghttp2_session_set_local_window_size(session->h2, NGHTTP2_FLAG_NONE, 0,
							   WR_GRPC_WINDOW);
	return rc;
}

static uint64_t now_ms(const struct wr_serve_grpc_session *session)
{
	return uv_now(wr_loop_uv(session->loop));
}

static int open_session(struct wr_stream *stream)
{
	struct wr_serve_grpc_session *session = wr_stream_state(stream);

	session->magic = WR_GRPC_SESSION_MAGIC;
	session->stream = stream;
	session->loop = wr_stream_loop(stream);
	wr_list_init(&session->calls);
	wr_list_init(&session->owing);
	session->opened_ms = now_ms(session);
	session->scanner.skip = NGHTTP2_CLIENT_MAGIC_LEN;
	session->room.max = WR_GRPC_ROOM_BYTES;
	session->shared = wr_serve_grpc_loop_of(session->loop);
	if (!session->shared)
		return -1;
	wr_list_add_first(&session->shared->sessions, &session->link);
	wr_serve_grpc_mem_init(session);
	wr_serve_grpc_guard_init(&session->guard, now_ms(session));
	if (nghttp2_session_server_new3(&session->h2, session->shared->callbacks, session,
					session->shared->option, &session->mem) != 0)
		return -1;
	if (submit_settings(session) != 0)
		return -1;
	wr_serve_grpc_send(session);
	return 0;
}

/* Writes output, but stops while the client does not read. Responses then stay in nghttp2, within
 * the limits of nghttp2. Also sets the beginning of the timeout for slow clients. Until the client
 * has sent its SETTINGS, the timeout begins when the connection was opened. After that, it begins
 * when the first call in session->owing began to wait for the client. If no call waits for the
 * client, there is no timeout. */
void wr_serve_grpc_send(struct wr_serve_grpc_session *session)
{
	const struct wr_list *first;
	uint64_t since_ms = session->opened_ms;
	const uint8_t *bytes;
	ssize_t len;

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	if (session->inside)
		return;
	session->inside = true;
	while (wr_stream_pending(session->stream) < WR_HIGH_BYTES &&
	       (len = nghttp2_session_mem_send(session->h2, &bytes)) != 0) {
		if (len < 0) {
			wr_stream_abort(session->stream);
			break;
		}
		if (wr_stream_write(session->stream, bytes, (size_t)len) < 0)
			break;
	}
	session->inside = false;
	first = wr_list_first(&session->owing);
	if (session->greeted)
		since_ms = first ? wr_container_of(first, struct wr_serve_grpc_call, owing_link)
					   ->owing_ms
				 : 0;
	wr_stream_owed_since(session->stream, since_ms);
	wr_serve_grpc_account(session);
	if (!nghttp2_session_want_read(session->h2) && !nghttp2_session_want_write(session->h2))
		wr_stream_close(session->stream);
}

static void disconnect_abuser(struct wr_serve_grpc_session *session)
{
	nghttp2_session_terminate_session(session->h2, NGHTTP2_ENHANCE_YOUR_CALM);
	wr_log_limited(&session->shared->abuse, WR_LOG_WARN,
		       "grpc: a client was disconnected: it sent too many resets, pings or "
		       "settings for the number of its calls");
}

/* Passes input to nghttp2. Returns 0 or an error of nghttp2. */
static int read_frames(struct wr_serve_grpc_session *session, const uint8_t *data, size_t len)
{
	ssize_t took = 0;

	while (len && took >= 0) {
		uint32_t error;
		size_t part = wr_serve_grpc_scan(session, data, len, &error);

		if (error != NGHTTP2_NO_ERROR)
			return nghttp2_session_terminate_session(session->h2, error);
		took = nghttp2_session_mem_recv(session->h2, data, part);
		data += part;
		len -= part;
	}
	return took < 0 ? (int)took : 0;
}

static bool is_flood(int error)
{
	return error == NGHTTP2_ERR_FLOODED || error == NGHTTP2_ERR_TOO_MANY_SETTINGS ||
	       error == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS;
}

static int feed_session(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	struct wr_serve_grpc_session *session = wr_stream_state(stream);
	int rc;

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	wr_assert(!session->inside);
	session->inside = true;
	rc = read_frames(session, data, len);
	session->inside = false;
	if (is_flood(rc) ||
	    (rc == 0 && !wr_serve_grpc_guard_passes(&session->guard, len, now_ms(session))))
		disconnect_abuser(session);
	wr_serve_grpc_send(session);
	return rc;
}

static void on_writable(struct wr_stream *stream)
{
	wr_serve_grpc_send(wr_stream_state(stream));
}

/* Drains the session with two GOAWAYs. The first GOAWAY allows all calls, so that calls in flight
 * still get a response. The second GOAWAY is sent when the client has answered a ping that followed
 * the first GOAWAY. Ends the calls that do not end by themselves. */
static void drain_session(struct wr_stream *stream)
{
	struct wr_serve_grpc_session *session = wr_stream_state(stream);

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	session->draining = true;
	session->inside = true;
	nghttp2_submit_shutdown_notice(session->h2);
	for (struct wr_list *link = wr_list_first(&session->calls); link;
	     link = wr_list_after(&session->calls, link)) {
		struct wr_serve_grpc_call *call =
			wr_container_of(link, struct wr_serve_grpc_call, link);

		if (call->answering && !call->final)
			wr_serve_grpc_reply_end(call, WR_GRPC_UNAVAILABLE, "shutting down");
	}
	session->inside = false;
	wr_serve_grpc_send(session);
}

static void close_session(struct wr_stream *stream)
{
	struct wr_serve_grpc_session *session = wr_stream_state(stream);
	struct wr_list *link;

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	session->inside = true;
	while ((link = wr_list_first(&session->calls)))
		wr_serve_grpc_call_end(wr_container_of(link, struct wr_serve_grpc_call, link));
	if (session->h2)
		nghttp2_session_del(session->h2);
	if (wr_list_holds(&session->link)) {
		wr_list_remove(&session->link);
		wr_assert(session->shared->leaving >= session->leaving);
		session->shared->leaving -= session->leaving;
		wr_serve_grpc_account(session);
		wr_serve_grpc_give_back(session->shared);
	}
	session->magic = 0;
}

const struct wr_protocol wr_serve_grpc_protocol = {
	.name = "grpc",
	.alpn = "h2",
	.state_bytes = sizeof(struct wr_serve_grpc_session),
	.open = open_session,
	.input = feed_session,
	.writable = on_writable,
	.drain = drain_session,
	.closed = close_session,
};
