/* How streams end: drained, out of time, cut. */
#include "serve/net/stream_impl.h"

#include <stdlib.h>
#include <unistd.h>

#include "serve/net/client_count.h"
#include "serve/log.h"
#include "serve/loop.h"

#define SLOW_BYTES 4096    /* an answer has to move by so much in slow_ns */
#define IDLE_GRACE_MS 5000 /* for an idle client to take its leave */

static void free_stream(uv_handle_t *handle)
{
	free(handle->data);
}

/* From wr_streams_flush alone, so that nobody has the stream in hand. */
void wr_stream_destroy(struct wr_stream *stream)
{
	struct wr_loop *loop = stream->loop;

	stream->dirty = true; /* what `closed` still writes does not bring it back */
	if (stream->opened && stream->protocol->closed)
		stream->protocol->closed(stream);
	*stream->back = stream->next;
	if (stream->next)
		stream->next->back = stream->back;
	loop->stream_count--;
	SSL_free(stream->tls);
	wr_buffer_free(&stream->out, &loop->blocks);
	wr_buffer_free(&stream->sealed, &loop->blocks);
	wr_stream_account(stream);
	/* libuv first: it takes the number out of its epoll set, and once it is closed, another
	 * thread may have it. So wherever a polled descriptor is closed. */
	uv_close((uv_handle_t *)&stream->poll, free_stream);
	close(stream->fd);
	if (stream->crowded)
		wr_crowd_leave(stream->listener->crowd, &stream->client);
	wr_listener_leave(stream->listener);
	wr_loop_check_drained(loop);
}

void wr_stream_drain(struct wr_stream *stream)
{
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

void wr_streams_drain(struct wr_loop *loop)
{
	for (struct wr_stream *s = loop->streams; s; s = s->next)
		wr_stream_drain(s);
}

void wr_streams_cut(struct wr_loop *loop)
{
	for (struct wr_stream *s = loop->streams; s; s = s->next)
		wr_stream_abort(s);
}

/* Not more than 4 KiB of what waits have gone out since a while: begins the next while otherwise.
 */
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

static bool too_slow(struct wr_stream *stream, uint64_t now_ms, uint64_t slow_ms)
{
	if (slow_ms == 0)
		return false;
	if (stream->stage == WR_STREAM_HANDSHAKE && now_ms - stream->opened_ms >= slow_ms)
		return true;
	if (stream->midway_ms && now_ms - stream->midway_ms >= slow_ms)
		return true;
	return reads_too_slowly(stream, now_ms, slow_ms);
}

static void log_slow(const struct wr_stream *stream)
{
	static struct wr_log_gate gate;
	uint64_t held;

	if (wr_log_due(&gate, &held))
		wr_log(WR_LOG_INFO,
		       "%s at %s: a client too slow to ask or to read was cut off (and %llu since "
		       "this was said last); --slow sets how long they have",
		       stream->listener->name, stream->listener->text, (unsigned long long)held);
}

/* Ages differ by a tenth either way, so that clients that came together do not leave together. */
static uint64_t age_limit_ms(const struct wr_stream *stream, uint64_t max_age_ms)
{
	uint64_t mixed = ((uint64_t)(uintptr_t)stream >> 6) * 0x9e3779b97f4a7c15;

	return max_age_ms - max_age_ms / 10 + (mixed >> 32) % (max_age_ms / 5 + 1);
}

static bool had_its_time(const struct wr_stream *stream, uint64_t now_ms,
			 const struct wr_settings *settings)
{
	uint64_t idle_ms = settings->idle_ns / 1000000, age_ms = settings->max_age_ns / 1000000;

	if (idle_ms && !stream->busy && now_ms - stream->active_ms >= idle_ms)
		return true;
	return age_ms && now_ms - stream->opened_ms >= age_limit_ms(stream, age_ms);
}

static void sweep(struct wr_stream *stream, uint64_t now_ms, const struct wr_settings *settings)
{
	if (stream->stage == WR_STREAM_DEAD)
		return;
	if (stream->cut_ms && now_ms >= stream->cut_ms) {
		wr_stream_abort(stream);
	} else if (too_slow(stream, now_ms, settings->slow_ns / 1000000)) {
		log_slow(stream);
		wr_stream_abort(stream);
	} else if (!stream->draining && had_its_time(stream, now_ms, settings)) {
		wr_stream_drain(stream);
		stream->cut_ms =
			now_ms + (stream->busy ? settings->drain_ns / 1000000 : 0) + IDLE_GRACE_MS;
	}
}

void wr_streams_sweep(struct wr_loop *loop, uint64_t now_ms)
{
	const struct wr_settings *settings = wr_loop_settings(loop);

	for (struct wr_stream *s = loop->streams; s; s = s->next)
		sweep(s, now_ms, settings);
}
