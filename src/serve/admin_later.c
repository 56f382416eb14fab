/* Answers that are written by another thread, while the loop goes on. */
#include <stdlib.h>

#include "serve/admin.h"
#include "serve/service.h"

#define FIRST_BYTES ((size_t)64 << 10)
#define MOST_BYTES ((size_t)64 << 20) /* no answer is so long; if one were, it is not sent */

struct later {
	uv_work_t work;
	struct wr_http_request *request; /* NULL: nobody waits for it any more */
	const char *content_type;
	wr_admin_work_fn write;
	struct wr_admin_work view;
	struct wr_text out;
	int rc; /* below 0: there is no answer */
};

static void free_later(struct later *later)
{
	__atomic_fetch_sub(&later->view.service->admin_works, 1, __ATOMIC_RELAXED);
	wr_world_release(later->view.world);
	free(later->out.at);
	free(later);
}

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
	struct later *later = request->data;
	uint32_t *longest = &later->view.service->admin_longest;
	size_t cap = __atomic_load_n(longest, __ATOMIC_RELAXED) + FIRST_BYTES;

	do {
		if (!make_room(&later->out, cap)) {
			later->rc = WEIR_EMEMORY;
			return;
		}
		later->rc = later->write(&later->out, &later->view);
		cap = later->out.len + later->out.len / 8;
	} while (later->rc == 0 && !wr_text_fits(&later->out));
	if (later->rc == 0 && later->out.len > __atomic_load_n(longest, __ATOMIC_RELAXED))
		__atomic_store_n(longest, (uint32_t)later->out.len, __ATOMIC_RELAXED);
}

/* ---- in the loop ---- */

static void reply(struct later *later)
{
	struct wr_http_request *request = later->request;
	struct MHD_Response *response;
	struct wr_problem problem;

	if (later->rc < 0) {
		wr_problem(&problem, WR_UNAVAILABLE, "there is no answer: %s",
			   weir_strerror(later->rc));
		wr_http_reply_problem(request, &problem);
		return;
	}
	response = wr_http_response_of(later->out.at, later->out.len, later->content_type);
	later->out.at = NULL;
	wr_admin_harden(response);
	wr_http_reply(request, 200, response);
}

static void on_done(uv_work_t *request, int status)
{
	struct later *later = request->data;

	(void)status;
	if (later->request)
		reply(later);
	free_later(later);
}

static void on_gone(struct wr_http_request *request)
{
	struct later *later = request->context;

	later->request = NULL;
	uv_cancel((uv_req_t *)&later->work); /* if it has not been begun */
}

static struct later *begin(struct wr_http_request *request, const char *content_type,
			   wr_admin_work_fn write, unsigned choice)
{
	struct wr_loop *loop = request->server->loop;
	struct wr_service *service = wr_loop_service(loop);
	struct later *later;

	if (__atomic_fetch_add(&service->admin_works, 1, __ATOMIC_RELAXED) >= WR_ADMIN_WORKS_MAX ||
	    !(later = calloc(1, sizeof *later))) {
		__atomic_fetch_sub(&service->admin_works, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	later->work.data = later;
	later->request = request;
	later->content_type = content_type;
	later->write = write;
	later->view = (struct wr_admin_work){.service = service,
					     .world = wr_service_world(service),
					     .now_ns = wr_loop_now_ns(loop),
					     .choice = choice};
	return later;
}

void wr_admin_reply_later(struct wr_http_request *request, const char *content_type,
			  wr_admin_work_fn write, unsigned choice)
{
	struct later *later = begin(request, content_type, write, choice);
	struct wr_problem problem;

	if (!later ||
	    uv_queue_work(wr_loop_uv(request->server->loop), &later->work, work, on_done) < 0) {
		if (later)
			free_later(later);
		wr_problem(&problem, WR_UNAVAILABLE,
			   "%u answers are being written already; come again in a second",
			   WR_ADMIN_WORKS_MAX);
		wr_http_reply_problem(request, &problem);
		return;
	}
	request->context = later;
	wr_http_hold(request, on_gone);
}
