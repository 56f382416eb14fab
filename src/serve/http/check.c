/* POST /v1/check. The body describes one request, or a list of requests that are decided one after
 * the other. If a leaky bucket delays a described request, the response has the delay, and the
 * client has to wait by itself. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "serve/http/http.h"
#include "serve/decide/pending.h"
#include "wire/check/json.h"

/* A list of described requests that is being decided. */
struct list_run {
	struct wr_serve_http_request *request;
	struct wr_check check;
	size_t at;
	struct wr_buf buf;
	struct wr_json_out json;
	/* `deciding`: wr_pending_decide() is running. `decided`: wr_pending_decide() has called
	 * `done`. */
	bool deciding, decided;
};

#define LIST_BYTES_MAX (WR_CHECK_QUESTIONS_MAX * (WR_CHECK_ANSWER_MAX + 1u) + 3)

static void reply_error(struct wr_serve_http_request *request, int rc)
{
	struct wr_problem problem;

	wr_problem(&problem, rc == WEIR_EMEMORY ? WR_UNAVAILABLE : WR_INTERNAL,
		   "the check could not be decided: %s", weir_strerror(rc));
	wr_serve_http_reply_problem(request, &problem);
}

/* ---- one question ---- */

static void reply_json(struct wr_serve_http_request *request, struct wr_buf *buf)
{
	wr_buf_add_char(buf, '\n');
	if (wr_buf_failed(buf))
		reply_error(request, WEIR_EMEMORY);
	else
		wr_serve_http_reply_text(request, 200, wr_buf_str(buf), "application/json");
}

static void on_check_decided(struct wr_pending *pending, int verdict)
{
	struct wr_serve_http_request *request =
		wr_container_of(pending, struct wr_serve_http_request, pending);
	struct wr_buf *buf = wr_serve_http_buffer(request->server);
	struct wr_json_out json;

	if (verdict < 0) {
		reply_error(request, verdict);
	} else {
		wr_json_begin(&json, buf);
		wr_check_answer(pending->ask, verdict, &json);
		reply_json(request, buf);
	}
	wr_pending_end(pending);
}

static void decide_one(struct wr_serve_http_request *request)
{
	struct wr_problem problem;

	if (wr_serve_http_check_refund(request, request->pending.ask, &problem) != 0) {
		wr_pending_end(&request->pending);
		wr_serve_http_reply_problem(request, &problem);
		return;
	}
	request->pending.report_delay = true;
	wr_serve_http_decide(request, "http", on_check_decided);
}

/* If wr_check_quick() can read the body (it reads only the usual form), decides on the described
 * request and returns true. Otherwise, or if there is no memory, decides nothing and returns
 * false. */
static bool check_quickly(struct wr_serve_http_request *request)
{
	struct wr_check_quick quick;

	if (!wr_check_quick(wr_serve_http_body(request), &quick) ||
	    wr_pending_init(&request->pending, request->server->loop, quick.domain) < 0)
		return false;
	if (!wr_check_quick_add(&quick, request->pending.ask)) {
		wr_pending_end(&request->pending);
		return false;
	}
	decide_one(request);
	return true;
}

static void check_one(struct wr_serve_http_request *request, struct wr_check *check)
{
	struct wr_problem problem;
	int rc = wr_pending_init(&request->pending, request->server->loop,
				 wr_check_domain(check, 0));

	if (rc < 0) {
		reply_error(request, rc);
	} else if (wr_check_add(check, 0, request->pending.ask, &problem) != 0) {
		wr_pending_end(&request->pending);
		wr_serve_http_reply_problem(request, &problem);
	} else {
		decide_one(request);
	}
	wr_check_close(check);
}

/* ---- a list of questions ---- */

static void free_run(struct list_run *run)
{
	run->request->context = NULL;
	wr_check_close(&run->check);
	wr_buf_free(&run->buf);
	free(run);
}

static void on_list_gone(struct wr_serve_http_request *request)
{
	wr_serve_http_cancel(request);
	free_run(request->context);
}

static void write_problem(struct list_run *run, const struct wr_problem *problem)
{
	wr_json_object(&run->json);
	wr_json_key(&run->json, "problem");
	wr_problem_json(problem, &run->json);
	wr_json_end_object(&run->json);
}

static void write_error(struct list_run *run, int rc)
{
	struct wr_problem problem;

	wr_problem(&problem, WR_UNAVAILABLE, "the check could not be decided: %s",
		   weir_strerror(rc));
	write_problem(run, &problem);
}

static void decide_list(struct list_run *run);

static void on_list_decided(struct wr_pending *pending, int verdict)
{
	struct wr_serve_http_request *request =
		wr_container_of(pending, struct wr_serve_http_request, pending);
	struct list_run *run = request->context;

	if (verdict < 0)
		write_error(run, verdict);
	else
		wr_check_answer(pending->ask, verdict, &run->json);
	wr_pending_end(pending);
	run->at++;
	run->decided = true;
	if (!run->deciding)
		decide_list(run);
}

/* Decides on the next described request of the list. Returns false if the decision takes time;
 * on_list_decided then continues with the list. */
static bool decide_next(struct list_run *run)
{
	struct wr_pending *pending = &run->request->pending;
	struct wr_problem problem;
	int rc = wr_pending_init(pending, run->request->server->loop,
				 wr_check_domain(&run->check, run->at));

	if (rc < 0) {
		write_error(run, rc);
		run->at++;
		return true;
	}
	rc = wr_check_add(&run->check, run->at, pending->ask, &problem);
	if (rc == 0)
		rc = wr_serve_http_check_refund(run->request, pending->ask, &problem);
	if (rc != 0) {
		wr_pending_end(pending);
		write_problem(run, &problem);
		run->at++;
		return true;
	}
	pending->done = on_list_decided;
	pending->report_delay = true;
	wr_serve_http_trace(run->request, "http");
	run->deciding = true;
	run->decided = false;
	wr_pending_decide(pending);
	run->deciding = false;
	return run->decided;
}

static void decide_list(struct list_run *run)
{
	while (run->at < run->check.count)
		if (!decide_next(run)) {
			if (!run->request->held)
				wr_serve_http_hold(run->request, on_list_gone);
			return;
		}
	wr_json_end_array(&run->json);
	reply_json(run->request, &run->buf);
	free_run(run);
}

static void check_many(struct wr_serve_http_request *request, struct wr_check *check)
{
	struct list_run *run = calloc(1, sizeof *run);

	if (!run) {
		wr_check_close(check);
		reply_error(request, WEIR_EMEMORY);
		return;
	}
	run->request = request;
	run->check = *check;
	wr_buf_init(&run->buf, LIST_BYTES_MAX);
	wr_json_begin(&run->json, &run->buf);
	wr_json_array(&run->json);
	request->context = run;
	decide_list(run);
}

void wr_serve_http_check(struct wr_serve_http_request *request)
{
	struct wr_problem problem;
	struct wr_check check;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (check_quickly(request))
		return;
	if (wr_check_open(&check, wr_serve_http_body(request), &problem) != 0)
		wr_serve_http_reply_problem(request, &problem);
	else if (check.many)
		check_many(request, &check);
	else
		check_one(request, &check);
}
