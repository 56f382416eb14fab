/* /json: RLS over HTTP/1.1 as in Envoy's ratelimit. The statuses and bodies of errors are those of
 * Envoy's ratelimit, so the response to a bad request has no details. */
#include <stdlib.h>

#include "base/container.h"
#include "serve/grpc/grpc.h"
#include "serve/http/http.h"
#include "serve/decide/pending.h"
#include "wire/rls/rls.h"
#include "wire/rls/json.h"

static void reply_bad(struct wr_http_request *request)
{
	wr_http_reply_text(request, 400, WR_STR("Bad Request\n"), "text/plain; charset=utf-8");
}

static void reply_broken(struct wr_http_request *request)
{
	wr_http_reply_text(request, 500, WR_STR("Internal Server Error\n"),
			   "text/plain; charset=utf-8");
}

static struct wr_rls_memory *memory_of(const struct wr_http_request *request)
{
	return &((struct wr_http_context *)request->server->context)->memory;
}

static Pb__RateLimitRequest *read_message(const struct wr_http_request *request)
{
	struct wr_rls_memory *memory = memory_of(request);
	struct wr_problem problem = {0};

	wr_rls_memory_reset(memory);
	return (Pb__RateLimitRequest *)wr_rls_json_read(&pb__rate_limit_request__descriptor,
							wr_http_body(request), memory, &problem);
}

static unsigned status_of(const Pb__RateLimitResponse *response)
{
	switch (response->overall_code) {
	case PB__RATE_LIMIT_RESPONSE__CODE__OK:
		return 200;
	case PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT:
		return 429;
	default:
		return 500;
	}
}

static void reply_message(struct wr_http_request *request, const Pb__RateLimitResponse *response)
{
	struct wr_buf *buf = wr_http_buffer(request->server);
	struct wr_json_out json;

	wr_json_begin(&json, buf);
	wr_rls_json_write(&response->base, &json);
	if (wr_buf_failed(buf))
		reply_broken(request);
	else
		wr_http_reply_text(request, status_of(response), wr_buf_str(buf),
				   "application/json");
}

/* Responds with the verdict. Reads the message again if other requests have used the memory
 * meanwhile. */
static void on_decided(struct wr_pending *pending, int verdict)
{
	struct wr_http_request *request = wr_container_of(pending, struct wr_http_request, pending);
	struct wr_rls_options options =
		wr_grpc_rls_options(wr_loop_settings(request->server->loop));
	const Pb__RateLimitRequest *message =
		request->held ? read_message(request) : request->context;
	Pb__RateLimitResponse *response = NULL;

	if (verdict == WEIR_DELAY)
		verdict = WEIR_REFUSE;
	if (verdict > 0 && message)
		response =
			wr_rls_answer(pending->ask, verdict, message, &options, memory_of(request));
	if (response)
		reply_message(request, response);
	else
		reply_broken(request);
	wr_pending_end(pending);
}

static void on_gone(struct wr_http_request *request)
{
	wr_pending_cancel(&request->pending);
	wr_pending_end(&request->pending);
}

void wr_http_json(struct wr_http_request *request)
{
	struct wr_pending *pending = &request->pending;
	Pb__RateLimitRequest *message = read_message(request);
	struct weir_error error;

	if (!message || wr_rls_check(message, &error) != 0) {
		reply_bad(request);
		return;
	}
	if (wr_pending_init(pending, request->server->loop, wr_rls_domain(message)) < 0) {
		reply_broken(request);
		return;
	}
	if (wr_rls_ask(message, pending->ask, memory_of(request), &error) != 0) {
		wr_pending_end(pending);
		reply_bad(request);
		return;
	}
	if (!wr_http_may_decide(request, pending->ask)) {
		wr_pending_end(pending);
		wr_http_reply_text(request, 403, WR_STR("Forbidden: " WR_HTTP_NO_REFUNDS "\n"),
				   "text/plain; charset=utf-8");
		return;
	}
	request->context = message;
	pending->done = on_decided;
	wr_http_trace(request, "http");
	wr_pending_decide(pending);
	if (!request->answered)
		wr_http_hold(request, on_gone);
}
