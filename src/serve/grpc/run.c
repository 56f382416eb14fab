/* Collects the messages of a call and calls its method. Called by frames.c. */
#include "serve/grpc/session.h"

#include "base/assert.h"
#include "base/error.h"

int wr_serve_grpc_call_message(struct wr_serve_grpc_call *call, struct weir_str *message,
			       struct weir_error *error)
{
	struct wr_serve_grpc_loop *shared = call->session->shared;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	*message = wr_grpc_message(&call->reader);
	if (!call->reader.compressed)
		return 0;
	if (call->head.encoding != WR_GRPC_GZIP)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"the message is compressed, but the header grpc-encoding is "
				"missing or is not gzip");
	return wr_grpc_inflate(shared->inflater, *message, WR_GRPC_MESSAGE_MAX, &shared->memory,
			       message, error);
}

/* Responds to one request of a reflection call. A client may send any number of requests in a
 * call. */
static void reflect(struct wr_serve_grpc_call *call, struct weir_str message)
{
	struct wr_serve_grpc_loop *shared = call->session->shared;
	struct weir_error error;
	struct weir_str answer;

	if (wr_reflection_answer(shared->reflection, message, &shared->memory, &answer, &error) !=
	    0) {
		wr_serve_grpc_fail(call, &error);
		return;
	}
	wr_serve_grpc_reply(call, answer);
	if (!call->final)
		wr_serve_grpc_reply_send(call, false);
}

static void run_method(struct wr_serve_grpc_call *call)
{
	struct weir_error error;
	struct weir_str message;

	wr_rls_memory_reset(&call->session->shared->memory);
	if (wr_serve_grpc_call_message(call, &message, &error) != 0) {
		wr_serve_grpc_fail(call, &error);
		return;
	}
	switch (call->head.method) {
	case WR_GRPC_SHOULD_RATE_LIMIT:
		wr_serve_grpc_rls(call, message);
		break;
	case WR_GRPC_CHECK_RATE_LIMIT:
		wr_serve_grpc_look(call, message);
		break;
	case WR_GRPC_REPORT:
		wr_serve_grpc_report(call, message);
		break;
	case WR_GRPC_RESERVE:
	case WR_GRPC_ACQUIRE:
		wr_serve_grpc_reserve(call, message);
		break;
	case WR_GRPC_COMMIT:
		wr_serve_grpc_commit(call, message);
		break;
	case WR_GRPC_RELEASE:
	case WR_GRPC_CANCEL:
		wr_serve_grpc_give_up(call, message);
		break;
	case WR_GRPC_HEALTH_CHECK:
		wr_serve_grpc_health_check(call, message);
		break;
	case WR_GRPC_HEALTH_WATCH:
		wr_serve_grpc_health_watch(call, message);
		break;
	case WR_GRPC_HEALTH_LIST:
		wr_serve_grpc_health_list(call, message);
		break;
	default:
		reflect(call, message);
	}
}

/* Responds to a request that is not gRPC. */
static void refuse_foreign(struct wr_serve_grpc_call *call)
{
	struct weir_error error;

	wr_grpc_head_check(&call->head, &error);
	wr_serve_grpc_fail(call, &error);
}

void wr_serve_grpc_call_data(struct wr_serve_grpc_call *call, const uint8_t *bytes, size_t len)
{
	struct weir_str data = {(const char *)bytes, len};
	struct weir_error error;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(bytes || len == 0);
	if (call->foreign && !call->final) {
		call->foreign_bytes += (uint32_t)len;
		if (call->foreign_bytes > WR_GRPC_FOREIGN_BYTES)
			refuse_foreign(call);
		return;
	}
	while (data.len && !call->final) {
		int rc;

		if (call->whole) {
			wr_serve_grpc_fail_text(
				call, WR_GRPC_UNIMPLEMENTED,
				"this method accepts one message, but the call has more");
			return;
		}
		rc = wr_grpc_read(&call->reader, &data, &error);
		if (rc < 0) {
			wr_serve_grpc_fail(call, &error);
			return;
		}
		if (rc == 0)
			return;
		if (!wr_grpc_method_is_many(call->head.method)) {
			call->whole = true;
			continue;
		}
		run_method(call);
		wr_grpc_reader_reset(&call->reader);
	}
}

void wr_serve_grpc_call_finish(struct wr_serve_grpc_call *call)
{
	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	call->ended = true;
	wr_serve_grpc_call_set_midway(call, false);
	if (call->final)
		return;
	if (call->foreign)
		refuse_foreign(call);
	else if (!call->whole && wr_grpc_is_partial(&call->reader))
		wr_serve_grpc_fail_text(call, WR_GRPC_INVALID_ARGUMENT,
					"the call ended before its message was complete");
	else if (wr_grpc_method_is_many(call->head.method))
		wr_serve_grpc_reply_end(call, WR_GRPC_OK, NULL);
	else if (!call->whole)
		wr_serve_grpc_fail_text(call, WR_GRPC_UNIMPLEMENTED,
					"this method needs one message, but the call has none");
	else
		run_method(call);
}
