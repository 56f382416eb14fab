/* Server-sent events: an answer of the admin API, written again every second. */
#include <stdlib.h>
#include <time.h>

#include "serve/admin/admin.h"
#include "serve/http/stream.h"
#include "serve/service.h"

#define EVERY_MS 1000u
#define AGAIN_MS 250u    /* when too many answers are being written */
#define COSTS_ONE_IN 20u /* of the time; a table that takes long is told of less often */

struct live {
	struct wr_admin_job job;
	struct wr_http_stream stream;
	uv_timer_t timer;
	struct wr_loop *loop;
	wr_admin_work_fn write;
	uint64_t begun_ns;
	bool writing, closed;
};

static struct live *live_of(struct wr_http_stream *stream)
{
	return (struct live *)((char *)stream - offsetof(struct live, stream));
}

static uint64_t mono_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct live *live = handle->data;

	__atomic_fetch_sub(&wr_loop_service(live->loop)->admin_lives, 1, __ATOMIC_RELAXED);
	free(live->job.view.context);
	free(live);
}

/* When neither the connection nor the pool know of it any more. */
static void close_if_over(struct live *live)
{
	if (live->closed && !live->writing)
		uv_close((uv_handle_t *)&live->timer, on_timer_closed);
}

static void on_stream_closed(struct wr_http_stream *stream)
{
	struct live *live = live_of(stream);

	live->closed = true;
	uv_timer_stop(&live->timer);
	if (live->writing)
		uv_cancel((uv_req_t *)&live->job.work); /* if it has not been begun */
	close_if_over(live);
}

/* ---- an event ---- */

static void on_timer(uv_timer_t *timer);

/* JSON has no line ends but the one behind it, so it is one line of data. */
static int write_event(struct wr_text *out, const struct wr_admin_work *work)
{
	const struct wr_admin_job *job =
		(const struct wr_admin_job *)((const char *)work -
					      offsetof(struct wr_admin_job, view));
	const struct live *live = (const struct live *)job;
	int rc;

	wr_text_put(out, WR_STR("data: "));
	rc = live->write(out, work);
	wr_text_put(out, WR_STR("\n\n"));
	return rc;
}

static char *failure(int rc, size_t *len)
{
	char *text = malloc(256);
	struct wr_text out = {text, 256, 0};

	if (!text)
		return NULL;
	wr_text_put(&out, WR_STR("event: failure\ndata: {\"status\":"));
	wr_text_number(&out, rc == WEIR_ENOENT ? 404 : 503);
	wr_text_put(&out, WR_STR(",\"detail\":"));
	wr_json_put_text(&out,
			 wr_str(rc == WEIR_ENOENT ? "there is no such rule" : weir_strerror(rc)));
	wr_text_put(&out, WR_STR("}\n\n"));
	*len = out.len;
	return text;
}

static void send_written(struct live *live)
{
	char *text = live->job.out.at;
	size_t len = live->job.out.len;

	if (live->job.rc < 0) {
		text = failure(live->job.rc, &len);
		if (!text)
			return;
	} else {
		live->job.out.at = NULL;
	}
	if (wr_http_stream_idle(&live->stream))
		wr_http_stream_put(&live->stream, text, len);
	else
		free(text);
}

static void on_written(struct wr_admin_job *job)
{
	struct live *live = (struct live *)job;
	uint64_t rest_ms = (mono_ns() - live->begun_ns) / 1000000 * COSTS_ONE_IN;

	live->writing = false;
	if (!live->closed) {
		send_written(live);
		uv_timer_start(&live->timer, on_timer, rest_ms > EVERY_MS ? rest_ms : EVERY_MS, 0);
	}
	wr_admin_job_end(job);
	close_if_over(live);
}

static void on_timer(uv_timer_t *timer)
{
	struct live *live = timer->data;

	if (live->stream.ended)
		return;
	live->begun_ns = mono_ns();
	live->writing = wr_admin_job_start(&live->job, live->loop);
	if (!live->writing)
		uv_timer_start(&live->timer, on_timer, AGAIN_MS, 0);
}

/* ---- the beginning ---- */

static void begin(struct live *live, struct wr_http_request *request)
{
	live->timer.data = live;
	uv_timer_init(wr_loop_uv(live->loop), &live->timer);
	if (wr_http_stream_begin(&live->stream, request, "text/event-stream")) {
		uv_timer_start(&live->timer, on_timer, 0, 0);
		return;
	}
	wr_http_reply(request, 500, NULL);
	live->closed = true;
	close_if_over(live);
}

static bool take_place(struct wr_service *service)
{
	if (__atomic_fetch_add(&service->admin_lives, 1, __ATOMIC_RELAXED) < WR_ADMIN_LIVE_MAX)
		return true;
	__atomic_fetch_sub(&service->admin_lives, 1, __ATOMIC_RELAXED);
	return false;
}

void wr_admin_live(struct wr_http_request *request, wr_admin_work_fn write, void *context)
{
	struct wr_service *service = wr_loop_service(request->server->loop);
	struct wr_problem problem;
	struct live *live;

	if (request->server->loop->draining || !take_place(service)) {
		wr_problem(&problem, WR_UNAVAILABLE,
			   "%u pages are following already, or the service is shutting down",
			   WR_ADMIN_LIVE_MAX);
		wr_http_reply_problem(request, &problem);
		free(context);
		return;
	}
	live = calloc(1, sizeof *live);
	if (!live) {
		__atomic_fetch_sub(&service->admin_lives, 1, __ATOMIC_RELAXED);
		free(context);
		wr_http_reply(request, 500, NULL);
		return;
	}
	live->loop = request->server->loop;
	live->write = write;
	live->job.write = write_event;
	live->job.done = on_written;
	live->job.view.context = context;
	live->stream.closed = on_stream_closed;
	begin(live, request);
}

bool wr_admin_wants_events(const struct wr_http_request *request)
{
	struct weir_str accept = wr_http_field(request, "Accept");

	return strcmp(request->method, "GET") == 0 &&
	       wr_str_begins(accept, WR_STR("text/event-stream"));
}
