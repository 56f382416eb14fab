/* POST /v1/reserve, /v1/acquire, /v1/commit, /v1/cancel and /v1/release. A reservation is decided
 * like a check (check.c), and is then settled by a second request. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "limiter/refund.h"
#include "serve/decide/settling.h"
#include "serve/fleet/redis.h"
#include "serve/http/http.h"
#include "wire/check/reserve_json.h"

#define SECOND_NS 1000000000ull

static void reply_error(struct wr_serve_http_request *request, int rc)
{
	struct wr_problem problem;

	wr_problem(&problem, rc == WEIR_EMEMORY ? WR_UNAVAILABLE : WR_INTERNAL,
		   "the reservation could not be made: %s", weir_strerror(rc));
	wr_serve_http_reply_problem(request, &problem);
}

/* Responds with the JSON in the buffer. If `ask` is not NULL, the response has the header fields of
 * the decision. */
static void reply_json(struct wr_serve_http_request *request, unsigned status, struct wr_buf *buf,
		       struct weir_ask *ask)
{
	struct wr_serve_http_response *response;

	wr_buf_add_char(buf, '\n');
	if (wr_buf_failed(buf)) {
		reply_error(request, WEIR_EMEMORY);
		return;
	}
	response = wr_serve_http_response(wr_buf_str(buf), "application/json");
	if (response && ask)
		wr_serve_http_add_fields(request, response, ask);
	wr_serve_http_reply(request, status, response);
}

/* ---- reserve and acquire ---- */

static void reply_reserved(struct wr_serve_http_request *request, int verdict)
{
	struct wr_pending *pending = &request->pending;
	uint64_t ttl_ns = (uintptr_t)request->context * SECOND_NS;
	char token[WR_RESERVATION_TEXT_MAX];
	struct wr_buf *buf;
	struct wr_json_out json;
	int len = wr_pending_token(pending, &ttl_ns, token);

	if (len < 0) {
		reply_error(request, len);
		return;
	}
	buf = wr_serve_http_buffer(request->server);
	wr_json_begin(&json, buf);
	wr_check_answer_reserved(pending->ask, verdict, (struct weir_str){token, (size_t)len},
				 ttl_ns, &json);
	reply_json(request, 200, buf, NULL);
}

static void reply_refused(struct wr_serve_http_request *request, int verdict)
{
	struct weir_result result = {.size = sizeof result};
	struct wr_buf *buf = wr_serve_http_buffer(request->server);
	struct wr_json_out json;

	weir_ask_result(request->pending.ask, &result);
	wr_json_begin(&json, buf);
	wr_check_answer(request->pending.ask, verdict, &json);
	reply_json(request, result.http_status, buf, request->pending.ask);
}

static void on_reserve_decided(struct wr_pending *pending, int verdict)
{
	struct wr_serve_http_request *request =
		wr_container_of(pending, struct wr_serve_http_request, pending);

	if (verdict < 0)
		reply_error(request, verdict);
	else if (verdict == WEIR_ADMIT || verdict == WEIR_DELAY)
		reply_reserved(request, verdict);
	else
		reply_refused(request, verdict);
	wr_pending_end(pending);
}

/* Adds the descriptors of the body to the ask. Returns 0, or -1 with `problem` set. */
static int add_descriptors(struct wr_serve_http_request *request, const struct wr_check *check,
			   struct wr_problem *problem)
{
	struct weir_ask *ask = request->pending.ask;

	if (wr_check_add(check, 0, ask, problem) != 0)
		return -1;
	if (wr_ask_gives_back(ask))
		return wr_problem(problem, WR_BAD_VALUE,
				  "a reservation cannot have hits below 0; /v1/commit and "
				  "/v1/cancel give units back");
	if (!wr_reservation_fits(ask))
		return wr_problem(problem, WR_BAD_VALUE,
				  "a reservation cannot have limits of its own, and its "
				  "descriptors must fit into a token of %u bytes",
				  WR_RESERVATION_TEXT_MAX);
	return 0;
}

static void reserve(struct wr_serve_http_request *request, const struct wr_check *check)
{
	struct wr_pending *pending = &request->pending;
	struct wr_problem problem;
	int rc = wr_pending_init(pending, request->server->loop, wr_check_domain(check, 0));

	if (rc == 0)
		rc = wr_pending_reserve(pending);
	if (rc < 0) {
		wr_pending_end(pending);
		reply_error(request, rc);
	} else if (add_descriptors(request, check, &problem) != 0) {
		wr_pending_end(pending);
		wr_serve_http_reply_problem(request, &problem);
	} else {
		pending->report_delay = true;
		wr_serve_http_decide(request, "http", on_reserve_decided);
	}
}

void wr_serve_http_reserve(struct wr_serve_http_request *request)
{
	struct wr_problem problem;
	struct wr_check check;
	uint64_t ttl_ns;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (wr_check_open_reserve(&check, wr_serve_http_body(request), &ttl_ns, &problem) != 0) {
		wr_serve_http_reply_problem(request, &problem);
		return;
	}
	request->context = (void *)(uintptr_t)(ttl_ns / SECOND_NS);
	reserve(request, &check);
	wr_check_close(&check);
}

void wr_serve_http_acquire(struct wr_serve_http_request *request)
{
	wr_serve_http_reserve(request);
}

/* ---- commit, cancel and release ---- */

/* A settlement, which perhaps waits for Redis. */
struct settle_run {
	struct wr_settling settling; /* has to be first: it is cast to a struct settle_run */
	struct wr_serve_http_request *request;
	struct wr_check_settle body;
	/* `inside`: wr_settling_begin() is running. `settled`: it has called `done`. */
	bool inside, settled;
};

static void free_run(struct settle_run *run)
{
	run->request->context = NULL;
	wr_check_close(&run->body.check);
	free(run);
}

static void on_settle_gone(struct wr_serve_http_request *request)
{
	struct settle_run *run = request->context;

	wr_settling_leave(&run->settling);
	free_run(run);
}

/* The reservation is unknown: charges the actual cost to the described request. Returns 0, or -1
 * with `problem` set. */
static int charge(struct settle_run *run, struct wr_problem *problem)
{
	struct wr_loop *loop = run->request->server->loop;
	struct wr_pending *pending = &run->request->pending;
	uint64_t now_ns = wr_loop_now_ns(loop);
	int rc = wr_pending_init(pending, loop, wr_check_domain(&run->body.check, 0));

	if (rc < 0)
		return wr_problem(problem, WR_UNAVAILABLE, "%s", weir_strerror(rc));
	weir_ask_hits(pending->ask, run->body.actual);
	if (wr_check_add(&run->body.check, 0, pending->ask, problem) != 0) {
		wr_pending_end(pending);
		return -1;
	}
	wr_ask_charge(pending->ask, now_ns);
	wr_ask_settled_units(pending->ask, &run->settling.charged);
	wr_serve_redis_send_rest(loop, pending->ask, now_ns);
	wr_pending_end(pending);
	return 0;
}

static void on_settled(struct wr_settling *settling)
{
	struct settle_run *run = (struct settle_run *)settling;
	struct wr_serve_http_request *request = run->request;
	struct wr_problem problem;
	struct wr_json_out json;
	struct wr_buf *buf;
	int rc = 0;

	if (settling->result == WR_SETTLED_FAILED)
		rc = wr_problem(&problem, WR_UNAVAILABLE, WR_SETTLING_FAILED);
	else if (settling->result == WR_SETTLED_UNKNOWN && run->body.check.count)
		rc = charge(run, &problem);
	if (rc != 0) {
		wr_serve_http_reply_problem(request, &problem);
	} else {
		buf = wr_serve_http_buffer(request->server);
		wr_json_begin(&json, buf);
		wr_check_answer_settled(wr_settling_word(settling), settling->refunded,
					settling->charged, &json);
		reply_json(request, 200, buf, NULL);
	}
	run->settled = true;
	if (!run->inside)
		free_run(run);
}

static void settle(struct wr_serve_http_request *request, enum wr_settle_action action)
{
	struct settle_run *run = calloc(1, sizeof *run);
	struct wr_problem problem;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (!run) {
		wr_problem(&problem, WR_UNAVAILABLE, "out of memory");
		wr_serve_http_reply_problem(request, &problem);
		return;
	}
	if (wr_check_open_settle(&run->body, wr_serve_http_body(request),
				 action == WR_SETTLE_COMMIT, &problem) != 0) {
		free(run);
		wr_serve_http_reply_problem(request, &problem);
		return;
	}
	run->request = request;
	request->context = run;
	run->inside = true;
	wr_settling_begin(&run->settling, request->server->loop, action, run->body.actual,
			  run->body.token, on_settled);
	run->inside = false;
	if (run->settled)
		free_run(run);
	else
		wr_serve_http_hold(request, on_settle_gone);
}

void wr_serve_http_commit(struct wr_serve_http_request *request)
{
	settle(request, WR_SETTLE_COMMIT);
}

void wr_serve_http_cancel_reservation(struct wr_serve_http_request *request)
{
	settle(request, WR_SETTLE_CANCEL);
}

void wr_serve_http_release(struct wr_serve_http_request *request)
{
	settle(request, WR_SETTLE_RELEASE);
}
