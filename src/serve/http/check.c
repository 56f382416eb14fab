/* POST /v1/check. Questions are decided one after the other; the caller is told of a leaky bucket's
 * delay and waits itself. */
#include <stdlib.h>

#include "serve/http/http.h"
#include "serve/decide/pending.h"
#include "wire/check/json.h"

/* A list of questions on its way. */
struct list_run {
	struct wr_http_request *request;
	struct wr_check check;
	size_t at;
	char *memory;
	struct wr_text out;
	bool deciding, decided; /* whether `done` came before the call returned */
	bool failed;            /* no memory */
};

#define LIST_ROOM 4096u

static void reply_json(struct wr_http_request *request, const struct wr_text *out)
{
	wr_http_reply_text(request, 200, (struct weir_str){out->at, out->len}, "application/json");
}

static void reply_error(struct wr_http_request *request, int rc)
{
	struct wr_problem problem;

	wr_problem(&problem, rc == WEIR_EMEMORY ? WR_UNAVAILABLE : WR_INTERNAL,
		   "the question could not be decided: %s", weir_strerror(rc));
	wr_http_reply_problem(request, &problem);
}

static void on_gone(struct wr_http_request *request)
{
	wr_pending_cancel(&request->pending);
	wr_pending_end(&request->pending);
}

/* ---- one question ---- */

/* An answer has a few hundred bytes unless rules have very long names; then it is written again
 * where there is room. */
static void reply_answer(struct wr_http_request *request, const struct weir_ask *ask, int verdict)
{
	struct wr_text out = wr_http_answer(request->server);
	char *more;

	wr_check_answer(ask, verdict, &out);
	wr_text_char(&out, '\n');
	if (wr_text_fits(&out)) {
		reply_json(request, &out);
		return;
	}
	more = malloc(out.len);
	if (!more) {
		reply_error(request, WEIR_EMEMORY);
		return;
	}
	out = (struct wr_text){more, out.len, 0};
	wr_check_answer(ask, verdict, &out);
	wr_text_char(&out, '\n');
	reply_json(request, &out);
	free(more);
}

static void on_decided(struct wr_pending *pending, int verdict)
{
	struct wr_http_request *request =
		(struct wr_http_request *)((char *)pending -
					   offsetof(struct wr_http_request, pending));

	if (verdict < 0)
		reply_error(request, verdict);
	else
		reply_answer(request, pending->ask, verdict);
	wr_pending_end(pending);
}

static void decide(struct wr_http_request *request)
{
	struct wr_problem problem;

	if (!wr_http_may_decide(request, request->pending.ask)) {
		wr_pending_end(&request->pending);
		wr_problem(&problem, WR_FORBIDDEN, WR_HTTP_NO_REFUNDS);
		wr_http_reply_problem(request, &problem);
		return;
	}
	request->pending.done = on_decided;
	request->pending.tell_delay = true;
	wr_http_trace(request, "http");
	wr_pending_decide(&request->pending);
	if (!request->answered)
		wr_http_hold(request, on_gone);
}

/* False: nothing has been done. */
static bool check_quickly(struct wr_http_request *request)
{
	struct wr_check_quick quick;

	if (!wr_check_quick(wr_http_body(request), &quick) ||
	    wr_pending_init(&request->pending, request->server->loop, quick.domain) < 0)
		return false;
	if (!wr_check_quick_add(&quick, request->pending.ask)) {
		wr_pending_end(&request->pending);
		return false;
	}
	decide(request);
	return true;
}

static void check_one(struct wr_http_request *request, struct wr_check *check)
{
	struct wr_problem problem;
	int rc = wr_pending_init(&request->pending, request->server->loop,
				 wr_check_domain(check, 0));

	if (rc < 0) {
		reply_error(request, rc);
	} else if (wr_check_add(check, 0, request->pending.ask, &problem) != 0) {
		wr_pending_end(&request->pending);
		wr_http_reply_problem(request, &problem);
	} else {
		decide(request);
	}
	wr_check_close(check);
}

/* ---- many ---- */

static void free_run(struct list_run *run)
{
	run->request->context = NULL;
	wr_check_close(&run->check);
	free(run->memory);
	free(run);
}

static void on_list_gone(struct wr_http_request *request)
{
	on_gone(request);
	free_run(request->context);
}

static bool make_room(struct list_run *run, size_t wanted)
{
	size_t cap = run->out.cap ? run->out.cap : LIST_ROOM;
	char *memory;

	while (cap < wanted)
		cap *= 2;
	memory = realloc(run->memory, cap);
	if (!memory) {
		run->failed = true;
		return false;
	}
	run->memory = run->out.at = memory;
	run->out.cap = cap;
	return true;
}

static void put_answer(struct list_run *run, const struct weir_ask *ask, int verdict,
		       const struct wr_problem *problem)
{
	size_t before = run->out.len;

	for (int tries = 0; tries < 2; tries++) {
		run->out.len = before;
		wr_text_char(&run->out, run->at ? ',' : '[');
		if (ask) {
			wr_check_answer(ask, verdict, &run->out);
		} else {
			wr_text_put(&run->out, WR_STR("{\"problem\":"));
			wr_problem_write(problem, &run->out);
			wr_text_char(&run->out, '}');
		}
		if (run->out.len + 2 <= run->out.cap || !make_room(run, run->out.len + 2))
			return;
	}
}

static void put_error(struct list_run *run, int rc)
{
	struct wr_problem problem;

	wr_problem(&problem, WR_UNAVAILABLE, "the question could not be decided: %s",
		   weir_strerror(rc));
	put_answer(run, NULL, 0, &problem);
}

static void step(struct list_run *run);

static void on_list_decided(struct wr_pending *pending, int verdict)
{
	struct wr_http_request *request =
		(struct wr_http_request *)((char *)pending -
					   offsetof(struct wr_http_request, pending));
	struct list_run *run = request->context;

	if (verdict < 0)
		put_error(run, verdict);
	else
		put_answer(run, pending->ask, verdict, NULL);
	wr_pending_end(pending);
	run->at++;
	run->decided = true;
	if (!run->deciding)
		step(run);
}

/* Decides the next one. False: the answer comes later. */
static bool decide_next(struct list_run *run)
{
	struct wr_pending *pending = &run->request->pending;
	struct wr_problem problem;
	int rc = wr_pending_init(pending, run->request->server->loop,
				 wr_check_domain(&run->check, run->at));

	if (rc < 0) {
		put_error(run, rc);
		run->at++;
		return true;
	}
	rc = wr_check_add(&run->check, run->at, pending->ask, &problem);
	if (rc == 0 && !wr_http_may_decide(run->request, pending->ask))
		rc = wr_problem(&problem, WR_FORBIDDEN, WR_HTTP_NO_REFUNDS);
	if (rc != 0) {
		wr_pending_end(pending);
		put_answer(run, NULL, 0, &problem);
		run->at++;
		return true;
	}
	pending->done = on_list_decided;
	pending->tell_delay = true;
	wr_http_trace(run->request, "http");
	run->deciding = true;
	run->decided = false;
	wr_pending_decide(pending);
	run->deciding = false;
	return run->decided;
}

static void finish(struct list_run *run)
{
	struct wr_http_request *request = run->request;

	if (run->failed || !run->out.at) {
		reply_error(request, WEIR_EMEMORY);
	} else {
		wr_text_put(&run->out, WR_STR("]\n"));
		reply_json(request, &run->out);
	}
	free_run(run);
}

static void step(struct list_run *run)
{
	while (run->at < run->check.count)
		if (!decide_next(run)) {
			if (!run->request->held)
				wr_http_hold(run->request, on_list_gone);
			return;
		}
	finish(run);
}

static void check_many(struct wr_http_request *request, struct wr_check *check)
{
	struct list_run *run = calloc(1, sizeof *run);

	if (!run) {
		wr_check_close(check);
		reply_error(request, WEIR_EMEMORY);
		return;
	}
	run->request = request;
	run->check = *check;
	request->context = run;
	step(run);
}

void wr_http_check(struct wr_http_request *request)
{
	struct wr_problem problem;
	struct wr_check check;

	if (check_quickly(request))
		return;
	if (wr_check_open(&check, wr_http_body(request), &problem) != 0)
		wr_http_reply_problem(request, &problem);
	else if (check.many)
		check_many(request, &check);
	else
		check_one(request, &check);
}
