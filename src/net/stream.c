/* Creates streams, and moves their bytes between the sockets and the protocols. */
#include "net/stream_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/client_count.h"
#include "net/log.h"
#include "net/listen.h"
#include "net/net.h"
#include "net/tls.h"

/* Flushing a stream may add other streams to net->dirty. After this many rounds of flushing, the
 * loop first polls its sockets and flushes the remaining streams later. */
#define FLUSH_ROUNDS 64
#define LINGER_MS 2000

/* ---- called by protocols ---- */

void *wr_stream_state(struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->state;
}

struct wr_loop *wr_stream_loop(struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->net->loop;
}

const struct wr_listener *wr_stream_listener(const struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->listener;
}

void *wr_stream_server(const struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->server;
}

int wr_stream_fd(const struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->fd;
}

bool wr_stream_hung(const struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->hung;
}

const struct sockaddr *wr_stream_peer(const struct wr_stream *stream)
{
	static _Thread_local struct sockaddr_storage peer;
	socklen_t len = sizeof peer;

	wr_assert_magic(stream, WR_STREAM_MAGIC);
	if (getpeername(stream->fd, (struct sockaddr *)&peer, &len) < 0)
		return NULL;
	return (const struct sockaddr *)&peer;
}

bool wr_stream_is_own(const struct wr_stream *stream)
{
	struct ucred peer;
	socklen_t len = sizeof peer;

	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return getsockopt(stream->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

size_t wr_stream_pending(const struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return wr_output_len(&stream->out) + wr_output_len(&stream->sealed);
}

/* Adds the stream to net->dirty. Before the loop sleeps, it flushes or frees the streams of this
 * list. */
static void mark_dirty(struct wr_stream *stream)
{
	if (stream->dirty || stream->inside)
		return;
	stream->dirty = true;
	stream->dirty_next = stream->net->dirty;
	stream->net->dirty = stream;
}

void wr_stream_account(struct wr_stream *stream)
{
	size_t pending = wr_stream_pending(stream);

	wr_assert(stream->net->buffered >= stream->counted);
	stream->net->buffered += pending - stream->counted;
	stream->counted = pending;
}

static void abort_slow_reader(struct wr_stream *stream)
{
	static struct wr_log_gate gate;

	wr_log_limited(&gate, WR_LOG_WARN,
		       "%s at %s: a client that does not read its responses was disconnected",
		       stream->listener->name, stream->listener->text);
	wr_stream_abort(stream);
}

uint8_t *wr_stream_reserve(struct wr_stream *stream, size_t len)
{
	uint8_t *room;

	wr_assert_magic(stream, WR_STREAM_MAGIC);
	if (stream->stage > WR_STREAM_OPEN)
		return NULL;
	if (wr_stream_pending(stream) + len > WR_OUTPUT_MAX ||
	    stream->net->buffered + len > WR_NET_BUFFERED_MAX) {
		abort_slow_reader(stream);
		return NULL;
	}
	room = wr_output_room(&stream->out, &stream->net->blocks, len);
	if (!room)
		wr_stream_abort(stream);
	return room;
}

void wr_stream_commit(struct wr_stream *stream, size_t used)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	wr_assert(used <= stream->out.cap - stream->out.tail);
	stream->out.tail += used;
	if (wr_output_len(&stream->out) == 0)
		wr_output_free(&stream->out, &stream->net->blocks);
	wr_stream_account(stream);
	/* note_progress sets `choked` after sending, but by then the kernel has perhaps accepted
	 * all output. So `choked` is set here too: otherwise the protocol's `writable` would not be
	 * called, although the output had exceeded WR_HIGH_BYTES. */
	if (stream->counted > WR_HIGH_BYTES)
		stream->choked = true;
	mark_dirty(stream);
}

int wr_stream_write(struct wr_stream *stream, const void *bytes, size_t len)
{
	uint8_t *room = wr_stream_reserve(stream, len);

	wr_assert(bytes || len == 0);
	if (!room)
		return -1;
	memcpy(room, bytes, len);
	wr_stream_commit(stream, len);
	return 0;
}

void wr_stream_pause(struct wr_stream *stream, bool paused)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	stream->paused = paused;
	mark_dirty(stream);
}

void wr_stream_busy(struct wr_stream *stream, bool busy)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	stream->busy = busy;
	stream->active_ms = uv_now(stream->net->uv);
	if (!busy && (stream->last_read || (stream->draining && !stream->protocol->drain)))
		wr_stream_close(stream);
}

void wr_stream_midway(struct wr_stream *stream, bool midway)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	if (!midway)
		stream->midway_ms = 0;
	else if (!stream->midway_ms)
		stream->midway_ms = uv_now(stream->net->uv);
}

void wr_stream_owed_since(struct wr_stream *stream, uint64_t begun_ms)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	wr_assert(begun_ms <= uv_now(stream->net->uv));
	stream->midway_ms = begun_ms;
}

void wr_stream_close(struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	if (stream->stage >= WR_STREAM_CLOSING)
		return;
	stream->stage = WR_STREAM_CLOSING;
	mark_dirty(stream);
}

void wr_stream_abort(struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	stream->stage = WR_STREAM_DEAD;
	mark_dirty(stream);
}

bool wr_stream_ending(const struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	return stream->stage >= WR_STREAM_CLOSING;
}

void wr_stream_cut_in(struct wr_stream *stream, uint64_t in_ms)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	stream->cut_ms = uv_now(stream->net->uv) + in_ms;
}

/* ---- bytes out ---- */

/* Calls send() once. Returns true if all bytes of the buffer were sent. Returns false if the kernel
 * accepts no more bytes for now, or if the connection is dead. */
static bool send_some(struct wr_stream *stream, struct wr_output *buffer)
{
	size_t len = wr_output_len(buffer);
	ssize_t n = send(stream->fd, wr_output_bytes(buffer), len, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
		stream->stage = WR_STREAM_DEAD;
		return false;
	}
	if (n <= 0)
		return false;
	stream->sent += (uint64_t)n;
	wr_output_eat(buffer, &stream->net->blocks, (size_t)n);
	return (size_t)n == len;
}

static void send_all(struct wr_stream *stream)
{
	struct wr_output *buffer = stream->tls ? &stream->sealed : &stream->out;
	bool more = true;

	while (more) {
		if (stream->tls)
			wr_stream_seal(stream);
		more = stream->stage != WR_STREAM_DEAD && wr_output_len(buffer) > 0 &&
		       send_some(stream, buffer);
	}
	wr_stream_account(stream);
}

/* Called after sending. Records when unsent output began to wait for the peer. The stream becomes
 * choked if it has more than WR_HIGH_BYTES of unsent output. When the unsent output of a choked
 * stream falls below WR_LOW_BYTES, calls the protocol's `writable`. */
static void note_progress(struct wr_stream *stream)
{
	uint64_t now_ms = uv_now(stream->net->uv);
	size_t left = wr_stream_pending(stream);

	if (left == 0) {
		stream->stuck_ms = 0;
	} else if (!stream->stuck_ms) {
		stream->stuck_ms = now_ms;
		stream->stuck_sent = stream->sent;
	}
	if (left > WR_HIGH_BYTES)
		stream->choked = true;
	if (stream->choked && left < WR_LOW_BYTES) {
		stream->choked = false;
		if (stream->stage == WR_STREAM_OPEN && stream->protocol->writable)
			stream->protocol->writable(stream);
	}
}

/* Called when all output has been sent. Shuts down the sending side, and gives the peer up to
 * LINGER_MS to close the connection. If we closed a socket with unread input, the kernel would
 * reset the connection, and the peer might not receive our last bytes. */
static void begin_lingering(struct wr_stream *stream)
{
	if (stream->tls) {
		wr_stream_seal_end(stream);
		send_all(stream);
		if (stream->stage == WR_STREAM_DEAD)
			return;
	}
	shutdown(stream->fd, SHUT_WR);
	stream->stage = WR_STREAM_LINGERING;
	stream->cut_ms = uv_now(stream->net->uv) + LINGER_MS;
}

/* ---- bytes in ---- */

void wr_stream_begin(struct wr_stream *stream)
{
	wr_assert(stream->stage == WR_STREAM_HANDSHAKE && !stream->opened);
	stream->stage = WR_STREAM_OPEN;
	stream->opened = true;
	if (stream->protocol->open && stream->protocol->open(stream) < 0)
		wr_stream_close(stream);
}

void wr_stream_deliver(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	wr_assert(len > 0 && len <= WR_READ_BYTES);
	if (stream->stage == WR_STREAM_OPEN && stream->protocol->input(stream, data, len) < 0)
		wr_stream_close(stream);
}

static void receive(struct wr_stream *stream)
{
	uint8_t *data = stream->net->input;
	ssize_t n = recv(stream->fd, data, WR_READ_BYTES, 0);

	if (n < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			stream->stage = WR_STREAM_DEAD;
		return;
	}
	stream->active_ms = uv_now(stream->net->uv);
	if (n == 0 &&
	    (stream->stage == WR_STREAM_LINGERING || stream->stage == WR_STREAM_HANDSHAKE))
		stream->stage = WR_STREAM_DEAD;
	if (n == 0 && stream->stage == WR_STREAM_OPEN && stream->protocol->outlives_input &&
	    stream->protocol->outlives_input(stream))
		stream->last_read = true;
	else if (n == 0)
		wr_stream_close(stream);
	else if (stream->stage <= WR_STREAM_OPEN && stream->tls)
		wr_stream_unseal(stream, data, (size_t)n);
	else
		wr_stream_deliver(stream, data, (size_t)n);
}

/* ---- events ---- */

static void on_event(uv_poll_t *poll, int status, int events);

static void poll_as_needed(struct wr_stream *stream)
{
	int events = 0;

	if (stream->stage == WR_STREAM_LINGERING || stream->stage == WR_STREAM_HANDSHAKE ||
	    (stream->stage == WR_STREAM_OPEN && !stream->paused && !stream->choked &&
	     !stream->last_read))
		events |= UV_READABLE | UV_DISCONNECT;
	else if (stream->stage == WR_STREAM_OPEN && stream->last_read)
		events |= UV_PRIORITIZED; /* reports a reset, or that both directions were closed */
	if (wr_stream_pending(stream) > 0)
		events |= UV_WRITABLE;
	if (events == stream->polled)
		return;
	stream->polled = events;
	if (events)
		uv_poll_start(&stream->poll, events, on_event);
	else
		uv_poll_stop(&stream->poll);
}

static void flush_and_poll(struct wr_stream *stream)
{
	if (stream->stage != WR_STREAM_DEAD) {
		if (wr_stream_pending(stream) > 0)
			send_all(stream);
		note_progress(stream);
		if (stream->stage == WR_STREAM_CLOSING && wr_stream_pending(stream) == 0)
			begin_lingering(stream);
	}
	if (stream->stage == WR_STREAM_DEAD) {
		uv_poll_stop(&stream->poll);
		stream->inside = false;
		mark_dirty(stream);
		return;
	}
	poll_as_needed(stream);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct wr_stream *stream = poll->data;

	wr_assert_magic(stream, WR_STREAM_MAGIC);
	wr_assert(!stream->inside);
	stream->inside = true;
	stream->hung = status >= 0 && events & UV_DISCONNECT;
	if (status < 0 || (stream->last_read && events & UV_PRIORITIZED))
		stream->stage = WR_STREAM_DEAD;
	else if (events & (UV_READABLE | UV_DISCONNECT))
		receive(stream);
	flush_and_poll(stream);
	stream->inside = false;
}

void wr_streams_flush(struct wr_net *net)
{
	for (int i = 0; net->dirty && i < FLUSH_ROUNDS; i++) {
		struct wr_stream *stream = net->dirty;

		net->dirty = NULL;
		while (stream) {
			struct wr_stream *next = stream->dirty_next;

			wr_assert_magic(stream, WR_STREAM_MAGIC);
			stream->dirty = false;
			if (stream->stage != WR_STREAM_DEAD)
				flush_and_poll(stream);
			else
				wr_stream_destroy(stream);
			stream = next;
		}
	}
	if (net->dirty)
		net->wake(net->loop);
}

/* ---- new streams ---- */

void wr_net_init(struct wr_net *net)
{
	wr_list_init(&net->streams);
}

static void link_stream(struct wr_net *net, struct wr_stream *stream)
{
	wr_list_add_first(&net->streams, &stream->link);
	net->stream_count++;
}

void wr_stream_accept(struct wr_net *net, struct wr_listener *listener, void *server, int fd,
		      const struct wr_address *client)
{
	struct wr_stream *stream = calloc(1, sizeof *stream + listener->protocol->state_bytes);

	wr_assert_magic(listener, WR_LISTENER_MAGIC);
	wr_assert(fd >= 0 && (!client || listener->client_counts));
	if (!stream || uv_poll_init(net->uv, &stream->poll, fd) < 0) {
		free(stream);
		close(fd);
		if (client)
			wr_client_counts_leave(listener->client_counts, client);
		wr_listener_leave(listener);
		return;
	}
	stream->magic = WR_STREAM_MAGIC;
	stream->poll.data = stream;
	stream->net = net;
	stream->listener = listener;
	stream->protocol = listener->protocol;
	stream->server = server;
	stream->is_counted = client != NULL;
	if (client)
		stream->client = *client;
	stream->fd = fd;
	stream->opened_ms = stream->active_ms = uv_now(net->uv);
	link_stream(net, stream);
	if (listener->tls) {
		stream->tls = wr_tls_session(listener->tls, stream->protocol->alpn);
		if (!stream->tls)
			wr_stream_abort(stream);
	} else {
		wr_stream_begin(stream);
	}
	mark_dirty(stream);
}
