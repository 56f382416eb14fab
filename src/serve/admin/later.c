/* Sends responses whose bodies are written by a thread of libuv's pool, while the loop serves other
 * requests. Called by live.c and by the routes that read the whole table or many rules. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "serve/admin/admin.h"
#include "serve/service.h"

/* First size of the buffer for a body. Most bodies fit into this size, so the buffer does not have
 * to grow. */
#define FIRST_BYTES ((size_t)64 << 10)

/* ---- jobs ---- */

/* Writes the body of a job. Called in a thread of libuv's pool. */
static void write_body(uv_work_t *request)
{
	struct wr_admin_job *job = request->data;
	struct wr_json_out json;

	wr_json_begin(&json, &job->out);
	job->rc = job->write(&json, &job->view);
	if (job->rc == 0 && wr_buf_failed(&job->out))
		job->rc = WEIR_EMEMORY;
}

static void on_work_done(uv_work_t *request, int status)
{
	struct wr_admin_job *job = request->data;

	(void)status;
	job->on_written(job);
}

bool wr_admin_job_start(struct wr_admin_job *job, struct wr_loop *loop)
{
	struct wr_service *service = wr_loop_service(loop);

	wr_assert(job->write && job->on_written);
	if (__atomic_fetch_add(&service->admin_works, 1, __ATOMIC_RELAXED) >= WR_ADMIN_WORKS_MAX) {
		__atomic_fetch_sub(&service->admin_works, 1, __ATOMIC_RELAXED);
		return false;
	}
	job->work.data = job;
	wr_buf_init(&job->out, WR_ADMIN_BODY_MAX);
	wr_buf_reserve(&job->out, FIRST_BYTES);
	job->view.service = service;
	job->view.core = wr_service_core(service);
	job->view.now_ns = wr_loop_now_ns(loop);
	if (uv_queue_work(wr_loop_uv(loop), &job->work, write_body, on_work_done) == 0)
		return true;
	wr_admin_job_end(job);
	return false;
}

void wr_admin_job_end(struct wr_admin_job *job)
{
	wr_assert(__atomic_load_n(&job->view.service->admin_works, __ATOMIC_RELAXED) > 0);
	__atomic_fetch_sub(&job->view.service->admin_works, 1, __ATOMIC_RELAXED);
	wr_core_release(job->view.core);
	wr_buf_free(&job->out);
}

/* ---- responses ---- */

struct later {
	struct wr_admin_job job;
	struct wr_serve_http_request *request; /* NULL: the client has disconnected */
	const char *content_type;
};

static void reply_written(struct later *later)
{
	struct wr_serve_http_response *response;

	if (later->job.rc == WEIR_ENOENT) {
		wr_admin_reply_error(later->request, WEIR_ENOENT, "there is no such rule");
		return;
	}
	if (later->job.rc < 0) {
		struct wr_problem problem;

		wr_problem(&problem, WR_UNAVAILABLE, "the response could not be written: %s",
			   weir_strerror(later->job.rc));
		wr_serve_http_reply_problem(later->request, &problem);
		return;
	}
	response = wr_admin_response(&later->job.out, later->content_type);
	wr_serve_http_reply(later->request, 200, response);
}

static void on_written(struct wr_admin_job *job)
{
	struct later *later = wr_container_of(job, struct later, job);

	if (later->request)
		reply_written(later);
	wr_admin_job_end(job);
	free(later->job.view.context);
	free(later);
}

static void on_gone(struct wr_serve_http_request *request)
{
	struct later *later = request->context;

	later->request = NULL;
	uv_cancel((uv_req_t *)&later->job.work); /* no effect if the job has already begun */
}

void wr_admin_reply_later(struct wr_serve_http_request *request, const char *content_type,
			  wr_admin_work_fn write, unsigned choice, void *context)
{
	struct later *later = calloc(1, sizeof *later);
	struct wr_problem problem;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (later) {
		later->request = request;
		later->content_type = content_type;
		later->job.write = write;
		later->job.on_written = on_written;
		later->job.view.choice = choice;
		later->job.view.context = context;
	}
	if (later && wr_admin_job_start(&later->job, request->server->loop)) {
		request->context = later;
		wr_serve_http_hold(request, on_gone);
		request->soon = true;
		return;
	}
	free(later);
	free(context);
	wr_problem(&problem, WR_UNAVAILABLE,
		   "%u responses are being written already; try again in a second",
		   WR_ADMIN_WORKS_MAX);
	wr_serve_http_reply_problem(request, &problem);
}
