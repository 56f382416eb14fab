/* Sends server-sent events. Once a second, a stream writes the body of its route again and sends it
 * as an event. Called by the routes that the dashboard shows. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/container.h"
#include "serve/admin/admin.h"
#include "serve/http/stream.h"
#include "serve/service.h"

#define EVENT_EVERY_MS 1000u
#define RETRY_MS 250u    /* if a job cannot start, the next try is after this time */
#define COSTS_ONE_IN 20u /* the pause after an event is at least 20 times as long as its writing */

struct live {
	struct wr_admin_job job;
	struct wr_serve_http_stream stream;
	uv_timer_t timer;
	struct wr_loop *loop;
	wr_admin_work_fn write;
	uint64_t begun_ns;
	bool writing, closed;
};

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct live *live = handle->data;

	__atomic_fetch_sub(&wr_loop_service(live->loop)->admin_lives, 1, __ATOMIC_RELAXED);
	free(live->job.view.context);
	free(live);
}

/* If the connection has ended and no job is in progress, closes the timer. The stream is freed when
 * the timer has closed. */
static void close_if_over(struct live *live)
{
	if (live->closed && !live->writing)
		uv_close((uv_handle_t *)&live->timer, on_timer_closed);
}

static void on_stream_closed(struct wr_serve_http_stream *stream)
{
	struct live *live = wr_container_of(stream, struct live, stream);

	live->closed = true;
	uv_timer_stop(&live->timer);
	/* uv_cancel() has no effect if a thread has already begun the job. The job then ends by
	 * itself. */
	if (live->writing)
		uv_cancel((uv_req_t *)&live->job.work);
	close_if_over(live);
}

/* ---- events ---- */

static void on_live_timer(uv_timer_t *timer);

/* Writes an event. Called in a thread of libuv's pool. An event needs only one line of "data:",
 * because the JSON has no line feed except at its end. */
static int write_event(struct wr_json_out *json, const struct wr_admin_work *work)
{
	const struct live *live = wr_container_of(work, const struct live, job.view);
	int rc;

	wr_buf_add_str(json->buf, WR_STR("data: "));
	rc = live->write(json, work);
	wr_buf_add_str(json->buf, WR_STR("\n\n"));
	return rc;
}

/* Replaces the content of `out` by an event that reports the error `rc`. Called if the body of the
 * event could not be written. */
static void write_failure(struct wr_buf *out, int rc)
{
	struct wr_json_out json;

	wr_buf_clear(out);
	wr_buf_add_str(out, WR_STR("event: failure\ndata: "));
	wr_json_begin(&json, out);
	wr_json_object(&json);
	wr_json_member_uint(&json, "status", rc == WEIR_ENOENT ? 404 : 503);
	wr_json_member_string(
		&json, "detail",
		wr_str(rc == WEIR_ENOENT ? "there is no such rule" : weir_strerror(rc)));
	wr_json_end_object(&json);
	wr_buf_add_str(out, WR_STR("\n\n"));
}

static void send_event(struct live *live)
{
	size_t len;
	char *text;

	if (live->job.rc < 0)
		write_failure(&live->job.out, live->job.rc);
	if (!wr_serve_http_stream_idle(&live->stream))
		return;
	text = wr_buf_release(&live->job.out, &len);
	if (text)
		wr_serve_http_stream_put(&live->stream, text, len);
}

static void on_written(struct wr_admin_job *job)
{
	struct live *live = wr_container_of(job, struct live, job);
	uint64_t rest_ms = (wr_clock_mono_ns() - live->begun_ns) / 1000000 * COSTS_ONE_IN;

	live->writing = false;
	if (!live->closed) {
		send_event(live);
		uv_timer_start(&live->timer, on_live_timer,
			       rest_ms > EVENT_EVERY_MS ? rest_ms : EVENT_EVERY_MS, 0);
	}
	wr_admin_job_end(job);
	close_if_over(live);
}

static void on_live_timer(uv_timer_t *timer)
{
	struct live *live = timer->data;

	if (live->stream.ended)
		return;
	live->begun_ns = wr_clock_mono_ns();
	live->writing = wr_admin_job_start(&live->job, live->loop);
	if (!live->writing)
		uv_timer_start(&live->timer, on_live_timer, RETRY_MS, 0);
}

/* ---- the start ---- */

static void begin_stream(struct live *live, struct wr_serve_http_request *request)
{
	live->timer.data = live;
	uv_timer_init(wr_loop_uv(live->loop), &live->timer);
	if (wr_serve_http_stream_begin(&live->stream, request, "text/event-stream")) {
		uv_timer_start(&live->timer, on_live_timer, 0, 0);
		return;
	}
	wr_serve_http_reply(request, 500, NULL);
	live->closed = true;
	close_if_over(live);
}

void wr_admin_live(struct wr_serve_http_request *request, wr_admin_work_fn write, void *context)
{
	unsigned *lives = &wr_loop_service(request->server->loop)->admin_lives;
	struct wr_problem problem;
	struct live *live = NULL;
	bool admitted = !request->server->loop->draining;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (admitted && __atomic_fetch_add(lives, 1, __ATOMIC_RELAXED) >= WR_ADMIN_LIVE_MAX) {
		__atomic_fetch_sub(lives, 1, __ATOMIC_RELAXED);
		admitted = false;
	}
	if (!admitted) {
		wr_problem(&problem, WR_UNAVAILABLE,
			   "%u streams of events are open already, or the service is shutting down",
			   WR_ADMIN_LIVE_MAX);
		wr_serve_http_reply_problem(request, &problem);
		free(context);
		return;
	}
	live = calloc(1, sizeof *live);
	if (!live) {
		__atomic_fetch_sub(lives, 1, __ATOMIC_RELAXED);
		free(context);
		wr_serve_http_reply(request, 500, NULL);
		return;
	}
	live->loop = request->server->loop;
	live->write = write;
	live->job.write = write_event;
	live->job.on_written = on_written;
	live->job.view.context = context;
	live->stream.closed = on_stream_closed;
	begin_stream(live, request);
}

bool wr_admin_wants_events(const struct wr_serve_http_request *request)
{
	struct weir_str accept = wr_serve_http_field(request, "Accept");

	return strcmp(request->method, "GET") == 0 &&
	       wr_str_begins(accept, WR_STR("text/event-stream"));
}
