/* /json: RLS over HTTP/1.1, compatible with Envoy's ratelimit. The statuses and bodies of errors
 * are those of Envoy's ratelimit, so the response to a bad request has no details. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "serve/grpc/grpc.h"
#include "serve/http/http.h"
#include "serve/decide/pending.h"
#include "wire/rls/rls.h"
#include "wire/rls/json.h"

#define BAD WR_STR("Bad Request\n")
#define BROKEN WR_STR("Internal Server Error\n")

static void reply_error(struct wr_serve_http_request *request, unsigned status,
			struct weir_str text)
{
	wr_serve_http_reply_text(request, status, text, "text/plain; charset=utf-8");
}

static struct wr_rls_memory *memory_of(const struct wr_serve_http_request *request)
{
	return &((struct wr_serve_http_context *)request->server->context)->memory;
}

static Pb__RateLimitRequest *read_message(const struct wr_serve_http_request *request)
{
	struct wr_rls_memory *memory = memory_of(request);
	struct wr_problem problem = {0};

	wr_rls_memory_reset(memory);
	return (Pb__RateLimitRequest *)wr_rls_json_read(
		&pb__rate_limit_request__descriptor, wr_serve_http_body(request), memory, &problem);
}

static void reply_message(struct wr_serve_http_request *request,
			  const Pb__RateLimitResponse *response)
{
	bool ok = response->overall_code == PB__RATE_LIMIT_RESPONSE__CODE__OK;
	struct wr_buf *buf = wr_serve_http_buffer(request->server);
	struct wr_json_out json;

	wr_json_begin(&json, buf);
	wr_rls_json_write(&response->base, &json);
	if (wr_buf_failed(buf))
		reply_error(request, 500, BROKEN);
	else
		wr_serve_http_reply_text(request, ok ? 200 : 429, wr_buf_str(buf),
					 "application/json");
}

/* Responds with the verdict. If the request was held, reads the message again, because other
 * requests can have used the memory of the message meanwhile. */
static void on_rls_json_decided(struct wr_pending *pending, int verdict)
{
	struct wr_serve_http_request *request =
		wr_container_of(pending, struct wr_serve_http_request, pending);
	struct wr_rls_options options =
		wr_serve_grpc_rls_options(wr_loop_settings(request->server->loop));
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
		reply_error(request, 500, BROKEN);
	wr_pending_end(pending);
}

void wr_serve_http_json(struct wr_serve_http_request *request)
{
	struct wr_pending *pending = &request->pending;
	Pb__RateLimitRequest *message = read_message(request);
	struct weir_error error;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	wr_assert(!request->answered);
	if (!message || wr_rls_check(message, &error) != 0) {
		reply_error(request, 400, BAD);
		return;
	}
	if (wr_pending_init(pending, request->server->loop, wr_rls_domain(message)) < 0) {
		reply_error(request, 500, BROKEN);
		return;
	}
	if (wr_rls_ask(message, pending->ask, memory_of(request), &error) != 0) {
		wr_pending_end(pending);
		reply_error(request, 400, BAD);
		return;
	}
	if (!wr_serve_http_may_decide(request, pending->ask)) {
		wr_pending_end(pending);
		reply_error(request, 403, WR_STR("Forbidden: " WR_HTTP_NO_REFUNDS "\n"));
		return;
	}
	request->context = message;
	if (wr_rls_charges(message)) {
		pending->done = on_rls_json_decided;
		wr_pending_charge(pending);
		return;
	}
	wr_serve_http_decide(request, "http", on_rls_json_decided);
}
