/* Handles ShouldRateLimit, and Kuadrant's CheckRateLimit and Report: reads the message, decides,
 * and writes the response, perhaps after a leaky bucket's delay. During the delay the bytes of the
 * message are kept. The bytes are read again if the response has parts of the message
 * (dynamic_metadata). Called by run.c. */
#include "base/assert.h"
#include "base/container.h"
#include "serve/grpc/session.h"

#include <stddef.h>

#include "base/error.h"
#include "limiter/refund.h"
#include "serve/service.h"
#include "wire/rls/reserve.h"

/* A tenth of the client's timeout, but at most 5 ms, is reserved for sending the response. */
#define WAY_BACK_SHARE 10u
#define WAY_BACK_MOST_NS 5000000

/* Returns the time by which the response has to be sent, so that the client gets it before its
 * deadline. Most proxies let a request pass if the response comes later. Returns 0 if there is no
 * deadline. */
static uint64_t respond_by_ns(const struct wr_serve_grpc_call *call)
{
	uint64_t margin_ns = call->head.timeout_ns / WAY_BACK_SHARE;

	if (call->deadline_ns == 0)
		return 0;
	return call->deadline_ns - (margin_ns < WAY_BACK_MOST_NS ? margin_ns : WAY_BACK_MOST_NS);
}

static void send_response(struct wr_serve_grpc_call *call, int verdict,
			  const Pb__RateLimitRequest *request)
{
	struct wr_serve_grpc_loop *shared = call->session->shared;
	Pb__RateLimitResponse *response =
		wr_rls_answer(call->pending.ask, verdict, request, &shared->rls, &shared->memory);
	uint8_t *at;

	if (!response) {
		wr_serve_grpc_fail_text(call, WR_GRPC_RESOURCE_EXHAUSTED,
					"the response is too large");
		return;
	}
	at = wr_serve_grpc_reply_room(call, wr_rls_size(response));
	if (!at)
		return;
	wr_rls_pack(response, at);
	wr_serve_grpc_reply_send(call, true);
}

static const Pb__RateLimitRequest *read_again(struct wr_serve_grpc_call *call)
{
	struct wr_serve_grpc_loop *shared = call->session->shared;
	struct weir_error error;
	struct weir_str message;

	wr_rls_memory_reset(&shared->memory);
	if (!shared->rls.dynamic_metadata ||
	    wr_serve_grpc_call_message(call, &message, &error) != 0)
		return NULL;
	return wr_rls_read(message, &shared->memory, &error);
}

static void send_verdict(struct wr_serve_grpc_call *call, int verdict)
{
	send_response(call, verdict, call->request ? call->request : read_again(call));
}

/* Responds with the verdict. Ends the ask before the response is sent: sending can end the call,
 * and the end of a call that has an ask cancels the decision. */
static void on_decided(struct wr_pending *pending, int verdict)
{
	struct wr_serve_grpc_call *call =
		wr_container_of(pending, struct wr_serve_grpc_call, pending);
	struct wr_serve_grpc_session *session = call->session;

	if (verdict < 0)
		wr_serve_grpc_fail_text(call, WR_GRPC_UNAVAILABLE, weir_strerror(verdict));
	else
		call->respond(call, verdict);
	wr_pending_end(pending);
	wr_serve_grpc_send(session);
}

static int may_decide(const struct wr_serve_grpc_call *call, struct weir_error *error)
{
	const struct wr_serve_grpc_session *session = call->session;

	if (!wr_ask_gives_back(call->pending.ask) ||
	    wr_service_refunds(wr_loop_service(session->loop), session->stream))
		return 0;
	return wr_error(error, WR_GRPC_PERMISSION_DENIED,
			"is_negative_hits gives counted units back, and this client is not allowed "
			"to do that; add its address to --refunds");
}

int wr_serve_grpc_begin(struct wr_serve_grpc_call *call, const Pb__RateLimitRequest *request,
			void (*respond)(struct wr_serve_grpc_call *call, int verdict),
			struct weir_error *error)
{
	struct wr_serve_grpc_session *session = call->session;

	wr_assert(!call->pending.ask);
	if (wr_rls_check(request, error) != 0)
		return error->code;
	if (call->deadline_ns && wr_loop_now_ns(session->loop) >= call->deadline_ns)
		return wr_error(error, WR_GRPC_DEADLINE_EXCEEDED,
				"the deadline had passed before a decision; nothing was counted");
	if (wr_pending_init(&call->pending, session->loop, wr_rls_domain(request)) != 0)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
	call->respond = respond;
	call->pending.done = on_decided;
	call->pending.via = "grpc";
	call->pending.trace = call->head.trace;
	call->pending.deadline_ns = respond_by_ns(call);
	return 0;
}

/* The ways to handle a RateLimitRequest. */
enum rls_way {
	DECIDE,
	LOOK,   /* decides without counting */
	CHARGE, /* charges units that were already used */
};

static int add_descriptors(struct wr_serve_grpc_call *call, const Pb__RateLimitRequest *request,
			   enum rls_way way, struct weir_error *error)
{
	struct wr_rls_memory *memory = &call->session->shared->memory;

	if (way == LOOK)
		return wr_rls_ask_amount(request, 0, call->pending.ask, memory, error);
	return wr_rls_ask(request, call->pending.ask, memory, error);
}

static void handle_request(struct wr_serve_grpc_call *call, struct weir_str message,
			   enum rls_way way)
{
	struct weir_error error;
	const Pb__RateLimitRequest *request =
		wr_rls_read(message, &call->session->shared->memory, &error);

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(!call->pending.ask && !call->request);
	if (!request || wr_serve_grpc_begin(call, request, send_verdict, &error) != 0 ||
	    add_descriptors(call, request, way, &error) != 0 || may_decide(call, &error) != 0) {
		wr_pending_end(&call->pending);
		wr_serve_grpc_fail(call, &error);
		return;
	}
	call->request = request;
	if (way == CHARGE || wr_rls_charges(request))
		wr_pending_charge(&call->pending);
	else
		wr_pending_decide(&call->pending);
	call->request = NULL;
}

void wr_serve_grpc_rls(struct wr_serve_grpc_call *call, struct weir_str message)
{
	handle_request(call, message, DECIDE);
}

void wr_serve_grpc_look(struct wr_serve_grpc_call *call, struct weir_str message)
{
	handle_request(call, message, LOOK);
}

void wr_serve_grpc_report(struct wr_serve_grpc_call *call, struct weir_str message)
{
	handle_request(call, message, CHARGE);
}
