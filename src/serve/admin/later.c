/* Answers that are written by another thread, while the loop goes on. */
#include <stdlib.h>

#include "serve/admin/admin.h"
#include "serve/service.h"

#define FIRST_BYTES ((size_t)64 << 10)
#define MOST_BYTES ((size_t)64 << 20) /* no answer is so long; if one were, it is not sent */

/* ---- in the pool ---- */

static bool make_room(struct wr_text *out, size_t cap)
{
	free(out->at);
	*out = (struct wr_text){cap <= MOST_BYTES ? malloc(cap) : NULL, cap, 0};
	return out->at != NULL;
}

/* There is room for as much as the longest answer so far: then it is written once. */
static void work(uv_work_t *request)
{
	struct wr_admin_job *job = request->data;
	uint32_t *longest = &job->view.service->admin_longest;
	size_t cap = __atomic_load_n(longest, __ATOMIC_RELAXED) + FIRST_BYTES;

	do {
		if (!make_room(&job->out, cap)) {
			job->rc = WEIR_EMEMORY;
			return;
		}
		job->rc = job->write(&job->out, &job->view);
		cap = job->out.len + job->out.len / 8;
	} while (job->rc == 0 && !wr_text_fits(&job->out));
	if (job->rc == 0 && job->out.len > __atomic_load_n(longest, __ATOMIC_RELAXED))
		__atomic_store_n(longest, (uint32_t)job->out.len, __ATOMIC_RELAXED);
}

/* ---- in the loop ---- */

static void on_done(uv_work_t *request, int status)
{
	struct wr_admin_job *job = request->data;

	(void)status;
	job->done(job);
}

bool wr_admin_job_start(struct wr_admin_job *job, struct wr_loop *loop)
{
	struct wr_service *service = wr_loop_service(loop);

	if (__atomic_fetch_add(&service->admin_works, 1, __ATOMIC_RELAXED) >= WR_ADMIN_WORKS_MAX) {
		__atomic_fetch_sub(&service->admin_works, 1, __ATOMIC_RELAXED);
		return false;
	}
	job->work.data = job;
	job->out = (struct wr_text){NULL, 0, 0};
	job->view.service = service;
	job->view.core = wr_service_core(service);
	job->view.now_ns = wr_loop_now_ns(loop);
	if (uv_queue_work(wr_loop_uv(loop), &job->work, work, on_done) == 0)
		return true;
	wr_admin_job_end(job);
	return false;
}

void wr_admin_job_end(struct wr_admin_job *job)
{
	__atomic_fetch_sub(&job->view.service->admin_works, 1, __ATOMIC_RELAXED);
	wr_core_release(job->view.core);
	free(job->out.at);
	job->out.at = NULL;
}

/* ---- an answer ---- */

struct later {
	struct wr_admin_job job;
	struct wr_http_request *request; /* NULL: nobody waits for it any more */
	const char *content_type;
};

static void reply(struct later *later)
{
	struct wr_http_request *request = later->request;
	struct wr_http_response *response;

	if (later->job.rc == WEIR_ENOENT) {
		wr_admin_reply_error(request, WEIR_ENOENT, "there is no such rule");
		return;
	}
	if (later->job.rc < 0) {
		struct wr_problem problem;

		wr_problem(&problem, WR_UNAVAILABLE, "there is no answer: %s",
			   weir_strerror(later->job.rc));
		wr_http_reply_problem(request, &problem);
		return;
	}
	response = wr_http_response_of(later->job.out.at, later->job.out.len, later->content_type);
	later->job.out.at = NULL;
	wr_admin_harden(response);
	wr_http_reply(request, 200, response);
}

static void free_later(struct later *later)
{
	free(later->job.view.context);
	free(later);
}

static void on_written(struct wr_admin_job *job)
{
	struct later *later = (struct later *)job;

	if (later->request)
		reply(later);
	wr_admin_job_end(job);
	free_later(later);
}

static void on_gone(struct wr_http_request *request)
{
	struct later *later = request->context;

	later->request = NULL;
	uv_cancel((uv_req_t *)&later->job.work); /* if it has not been begun */
}

static void begin(struct wr_http_request *request, const char *content_type, wr_admin_work_fn write,
		  unsigned choice, void *context)
{
	struct later *later = calloc(1, sizeof *later);
	struct wr_problem problem;

	if (later) {
		later->request = request;
		later->content_type = content_type;
		later->job.write = write;
		later->job.done = on_written;
		later->job.view.choice = choice;
		later->job.view.context = context;
	}
	if (later && wr_admin_job_start(&later->job, request->server->loop)) {
		request->context = later;
		wr_http_hold(request, on_gone);
		request->soon = true;
		return;
	}
	if (later)
		free_later(later);
	else
		free(context);
	wr_problem(&problem, WR_UNAVAILABLE,
		   "%u answers are being written already; come again in a second",
		   WR_ADMIN_WORKS_MAX);
	wr_http_reply_problem(request, &problem);
}

void wr_admin_reply_later(struct wr_http_request *request, const char *content_type,
			  wr_admin_work_fn write, unsigned choice)
{
	begin(request, content_type, write, choice, NULL);
}

void wr_admin_reply_with(struct wr_http_request *request, const char *content_type,
			 wr_admin_work_fn write, void *context)
{
	begin(request, content_type, write, 0, context);
}
