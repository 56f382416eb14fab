/* Ends streams: drains them, or aborts them when a time limit has passed. */
#include "net/stream_impl.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/client_count.h"
#include "net/log.h"
#include "net/listen.h"
#include "net/net.h"

#define SLOW_BYTES 4096    /* a client has to read this many bytes of output within slow_ms */
#define IDLE_GRACE_MS 5000 /* a client has this time to close a drained connection */

static void free_stream(uv_handle_t *handle)
{
	free(handle->data);
}

void wr_stream_destroy(struct wr_stream *stream)
{
	struct wr_net *net = stream->net;

	wr_assert_magic(stream, WR_STREAM_MAGIC);
	wr_assert(stream->stage == WR_STREAM_DEAD && !stream->dirty);
	/* The stream is being freed. `dirty` is set so that the stream is not added to net->dirty
	 * if `closed` writes output. */
	stream->dirty = true;
	if (stream->opened && stream->protocol->closed)
		stream->protocol->closed(stream);
	wr_list_remove(&stream->link);
	wr_assert(net->stream_count > 0);
	net->stream_count--;
	SSL_free(stream->tls);
	wr_output_free(&stream->out, &net->blocks);
	wr_output_free(&stream->sealed, &net->blocks);
	wr_stream_account(stream);
	/* uv_close() comes before close(), because uv_close() removes the descriptor from libuv's
	 * epoll set. After close(), another thread may get the same descriptor number. Every polled
	 * descriptor is closed in this order. */
	uv_close((uv_handle_t *)&stream->poll, free_stream);
	close(stream->fd);
	if (stream->is_counted)
		wr_client_counts_leave(stream->listener->client_counts, &stream->client);
	wr_listener_leave(stream->listener);
	stream->magic = 0; /* the memory is freed when libuv has closed the handle */
	net->stream_ended(net->loop);
}

static void drain_stream(struct wr_stream *stream)
{
	wr_assert_magic(stream, WR_STREAM_MAGIC);
	if (stream->draining || stream->stage > WR_STREAM_OPEN)
		return;
	stream->draining = true;
	if (stream->stage == WR_STREAM_HANDSHAKE)
		wr_stream_abort(stream);
	else if (stream->protocol->drain)
		stream->protocol->drain(stream);
	else if (!stream->busy)
		wr_stream_close(stream);
}

void wr_streams_drain(struct wr_net *net)
{
	for (struct wr_list *link = wr_list_first(&net->streams); link;
	     link = wr_list_after(&net->streams, link))
		drain_stream(wr_container_of(link, struct wr_stream, link));
}

void wr_streams_cut(struct wr_net *net)
{
	for (struct wr_list *link = wr_list_first(&net->streams); link;
	     link = wr_list_after(&net->streams, link))
		wr_stream_abort(wr_container_of(link, struct wr_stream, link));
}

/* Returns whether the peer reads too slowly: fewer than SLOW_BYTES were sent in the last slow_ms,
 * although output was waiting. If at least SLOW_BYTES were sent, starts the next period of
 * slow_ms. */
static bool reads_too_slowly(struct wr_stream *stream, uint64_t now_ms, uint64_t slow_ms)
{
	if (!stream->stuck_ms || now_ms - stream->stuck_ms < slow_ms)
		return false;
	if (stream->sent - stream->stuck_sent < SLOW_BYTES)
		return true;
	stream->stuck_ms = now_ms;
	stream->stuck_sent = stream->sent;
	return false;
}

static bool is_too_slow(struct wr_stream *stream, uint64_t now_ms, uint64_t slow_ms)
{
	if (slow_ms == 0)
		return false;
	if (stream->stage == WR_STREAM_HANDSHAKE && now_ms - stream->opened_ms >= slow_ms)
		return true;
	if (stream->midway_ms && now_ms - stream->midway_ms >= slow_ms)
		return true;
	return reads_too_slowly(stream, now_ms, slow_ms);
}

/* Returns the maximum age of this stream: max_age_ms ± 10 %. The maximum varies from stream to
 * stream, so that clients that connected at the same time are not disconnected at the same time. */
static uint64_t age_limit_ms(const struct wr_stream *stream, uint64_t max_age_ms)
{
	uint64_t mixed = ((uint64_t)(uintptr_t)stream >> 6) * 0x9e3779b97f4a7c15;

	return max_age_ms - max_age_ms / 10 + (mixed >> 32) % (max_age_ms / 5 + 1);
}

/* Returns whether the stream has reached the limit of its idle time or of its age. */
static bool is_expired(const struct wr_stream *stream, uint64_t now_ms,
		       const struct wr_net_times *times)
{
	if (times->idle_ms && !stream->busy && now_ms - stream->active_ms >= times->idle_ms)
		return true;
	return times->max_age_ms &&
	       now_ms - stream->opened_ms >= age_limit_ms(stream, times->max_age_ms);
}

static void sweep_stream(struct wr_stream *stream, uint64_t now_ms,
			 const struct wr_net_times *times)
{
	static struct wr_log_gate gate;

	wr_assert_magic(stream, WR_STREAM_MAGIC);
	if (stream->stage == WR_STREAM_DEAD)
		return;
	if (stream->cut_ms && now_ms >= stream->cut_ms) {
		wr_stream_abort(stream);
	} else if (is_too_slow(stream, now_ms, times->slow_ms)) {
		wr_log_limited(&gate, WR_LOG_INFO,
			       "%s at %s: a client was disconnected because it sent or read too "
			       "slowly; --slow sets the limit",
			       stream->listener->name, stream->listener->text);
		wr_stream_abort(stream);
	} else if (!stream->draining && is_expired(stream, now_ms, times)) {
		drain_stream(stream);
		stream->cut_ms = now_ms + (stream->busy ? times->drain_ms : 0) + IDLE_GRACE_MS;
	}
}

void wr_streams_sweep(struct wr_net *net, uint64_t now_ms)
{
	for (struct wr_list *link = wr_list_first(&net->streams); link;
	     link = wr_list_after(&net->streams, link))
		sweep_stream(wr_container_of(link, struct wr_stream, link), now_ms, &net->times);
}
