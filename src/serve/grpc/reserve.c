/* The methods of reservations: Reserve, Commit, Acquire, Release and Cancel. Called by run.c. */
#include "wire/rls/reserve.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "base/error.h"
#include "limiter/refund.h"
#include "serve/decide/settling.h"
#include "serve/fleet/redis.h"
#include "serve/grpc/session.h"

static void send_message(struct wr_serve_grpc_call *call, const ProtobufCMessage *message)
{
	uint8_t *at = wr_serve_grpc_reply_room(call, protobuf_c_message_get_packed_size(message));

	if (!at)
		return;
	protobuf_c_message_pack(message, at);
	wr_serve_grpc_reply_send(call, true);
}

/* ---- Reserve and Acquire ---- */

static void send_reserved(struct wr_serve_grpc_call *call, int verdict)
{
	Pb__ReserveResponse response = PB__RESERVE_RESPONSE__INIT;
	char token[WR_RESERVATION_TEXT_MAX];
	int len = 0;

	response.code = PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT;
	if (verdict == WEIR_ADMIT) {
		len = wr_pending_token(&call->pending, &call->ttl_ns, token);
		if (len < 0) {
			wr_serve_grpc_fail_text(call, WR_GRPC_UNAVAILABLE, weir_strerror(len));
			return;
		}
		response.code = PB__RATE_LIMIT_RESPONSE__CODE__OK;
		response.reservation_id.data = (uint8_t *)token;
		response.reservation_id.len = (size_t)len;
	}
	send_message(call, &response.base);
}

static int begin_reserve(struct wr_serve_grpc_call *call, const Pb__ReserveRequest *request,
			 struct weir_error *error)
{
	Pb__RateLimitRequest described =
		wr_rls_described(request->domain, request->descriptors, request->n_descriptors);

	if (wr_rls_ttl(request->ttl, &call->ttl_ns, error) != 0 ||
	    wr_serve_grpc_begin(call, &described, send_reserved, error) != 0)
		return error->code;
	if (wr_pending_reserve(&call->pending) != 0)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
	if (wr_rls_ask_amount(&described, request->amount, call->pending.ask,
			      &call->session->shared->memory, error) != 0)
		return error->code;
	if (!wr_reservation_fits(call->pending.ask))
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"a reservation cannot have limits of its own, and its descriptors "
				"must fit into a token of %u bytes",
				WR_RESERVATION_TEXT_MAX);
	return 0;
}

void wr_serve_grpc_reserve(struct wr_serve_grpc_call *call, struct weir_str message)
{
	struct weir_error error;
	const Pb__ReserveRequest *request = (const Pb__ReserveRequest *)wr_rls_unpack(
		&pb__reserve_request__descriptor, "ReserveRequest", message,
		&call->session->shared->memory, &error);

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	if (!request || begin_reserve(call, request, &error) != 0) {
		wr_pending_end(&call->pending);
		wr_serve_grpc_fail(call, &error);
		return;
	}
	wr_pending_decide(&call->pending);
}

/* ---- Commit, Release and Cancel ---- */

struct wr_serve_grpc_settle {
	struct wr_settling settling;
	struct wr_serve_grpc_call *call;
	/* `inside`: wr_settling_begin() is running. `settled`: it has called `done`. */
	bool inside, settled;
};

void wr_serve_grpc_settle_end(struct wr_serve_grpc_call *call)
{
	if (!call->settle)
		return;
	wr_settling_leave(&call->settle->settling);
	free(call->settle);
	call->settle = NULL;
}

static void send_settled(struct wr_serve_grpc_call *call, const struct wr_settling *settling)
{
	static const int statuses[] = {
		[WR_SETTLED_DONE] = PB__SETTLE_RESPONSE__STATUS__DONE,
		[WR_SETTLED_ALREADY] = PB__SETTLE_RESPONSE__STATUS__ALREADY,
		[WR_SETTLED_EXPIRED] = PB__SETTLE_RESPONSE__STATUS__EXPIRED,
		[WR_SETTLED_UNKNOWN] = PB__SETTLE_RESPONSE__STATUS__UNKNOWN,
		[WR_SETTLED_GONE] = PB__SETTLE_RESPONSE__STATUS__UNKNOWN,
	};
	Pb__CommitResponse committed = PB__COMMIT_RESPONSE__INIT;
	Pb__SettleResponse settled = PB__SETTLE_RESPONSE__INIT;

	if (settling->result == WR_SETTLED_FAILED) {
		wr_serve_grpc_fail_text(call, WR_GRPC_UNAVAILABLE, WR_SETTLING_FAILED);
	} else if (call->head.method == WR_GRPC_COMMIT) {
		committed.reservation_released = settling->result == WR_SETTLED_DONE ||
						 settling->result == WR_SETTLED_ALREADY;
		send_message(call, &committed.base);
	} else {
		settled.status = (Pb__SettleResponse__Status)statuses[settling->result];
		settled.refunded = settling->refunded;
		send_message(call, &settled.base);
	}
}

/* Called at once or, if Redis was asked, later. An unknown reservation is handled by the caller of
 * wr_settling_begin(), because its units may have to be charged. */
static void on_call_settled(struct wr_settling *settling)
{
	struct wr_serve_grpc_settle *settle =
		wr_container_of(settling, struct wr_serve_grpc_settle, settling);
	struct wr_serve_grpc_call *call = settle->call;
	struct wr_serve_grpc_session *session = call->session;

	settle->settled = true;
	if (settle->inside)
		return;
	send_settled(call, settling);
	wr_serve_grpc_settle_end(call);
	wr_serve_grpc_send(session);
}

/* The reservation is unknown: charges the descriptors of the message. */
static int charge(struct wr_serve_grpc_call *call, const Pb__CommitRequest *request,
		  struct weir_error *error)
{
	Pb__RateLimitRequest described =
		wr_rls_described(request->domain, request->descriptors, request->n_descriptors);
	struct wr_loop *loop = call->session->loop;
	struct wr_pending *pending = &call->pending;
	uint64_t now_ns = wr_loop_now_ns(loop);
	int rc = wr_serve_grpc_begin(call, &described, send_reserved, error);

	if (rc == 0)
		rc = wr_rls_ask_amount(&described, request->actual_amount, pending->ask,
				       &call->session->shared->memory, error);
	if (rc == 0) {
		wr_ask_charge(pending->ask, now_ns);
		wr_serve_redis_send_rest(loop, pending->ask, now_ns);
	}
	wr_pending_end(pending);
	return rc;
}

/* Settles the reservation. `commit` is the message of Commit, or NULL. */
static void settle(struct wr_serve_grpc_call *call, struct weir_str token,
		   const Pb__CommitRequest *commit)
{
	enum wr_settle_action action = commit                                ? WR_SETTLE_COMMIT
				       : call->head.method == WR_GRPC_CANCEL ? WR_SETTLE_CANCEL
									     : WR_SETTLE_RELEASE;
	uint64_t amount = commit ? commit->actual_amount : 0;
	struct wr_serve_grpc_settle *made = calloc(1, sizeof *made);
	struct weir_error error;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(!call->settle);
	if (!made) {
		wr_serve_grpc_fail_text(call, WR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	made->call = call;
	call->settle = made;
	made->inside = true;
	wr_settling_begin(&made->settling, call->session->loop, action,
			  amount < INT64_MAX ? (int64_t)amount : INT64_MAX, token, on_call_settled);
	made->inside = false;
	if (!made->settled)
		return;
	if (commit && made->settling.result == WR_SETTLED_UNKNOWN && commit->n_descriptors &&
	    charge(call, commit, &error) != 0)
		wr_serve_grpc_fail(call, &error);
	else
		send_settled(call, &made->settling);
	wr_serve_grpc_settle_end(call);
}

void wr_serve_grpc_commit(struct wr_serve_grpc_call *call, struct weir_str message)
{
	struct weir_error error;
	const Pb__CommitRequest *request = (const Pb__CommitRequest *)wr_rls_unpack(
		&pb__commit_request__descriptor, "CommitRequest", message,
		&call->session->shared->memory, &error);

	if (request)
		settle(call, wr_rls_text(request->reservation_id), request);
	else
		wr_serve_grpc_fail(call, &error);
}

void wr_serve_grpc_give_up(struct wr_serve_grpc_call *call, struct weir_str message)
{
	struct weir_error error;
	const Pb__SettleRequest *request = (const Pb__SettleRequest *)wr_rls_unpack(
		&pb__settle_request__descriptor, "SettleRequest", message,
		&call->session->shared->memory, &error);

	if (request)
		settle(call, wr_rls_text(request->reservation_id), NULL);
	else
		wr_serve_grpc_fail(call, &error);
}
