/* The methods Check, List and Watch of grpc.health.v1. The empty name and WR_HEALTH_NAME both have
 * the health of the service. Called by run.c. */
#include "base/container.h"
#include "serve/grpc/session.h"

#include <stddef.h>

#include "wire/grpc/health.h"

static int status_of(const struct wr_grpc_call *call)
{
	return wr_loop_health(call->session->loop) == WR_HEALTH_SERVING
		       ? PB__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
		       : PB__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

void wr_grpc_health_check(struct wr_grpc_call *call, struct weir_str message)
{
	struct wr_rls_memory *memory = &call->session->shared->memory;
	struct weir_error error;

	if (wr_health_read(message, memory, &error) != 0) {
		wr_grpc_fail(call, &error);
		return;
	}
	wr_grpc_reply(call, wr_health_answer(status_of(call), memory));
	wr_grpc_reply_send(call, true);
}

void wr_grpc_health_list(struct wr_grpc_call *call, struct weir_str message)
{
	struct wr_rls_memory *memory = &call->session->shared->memory;
	struct weir_error error;

	if (wr_health_read_list(message, memory, &error) != 0) {
		wr_grpc_fail(call, &error);
		return;
	}
	wr_grpc_reply(call, wr_health_list(status_of(call), memory));
	wr_grpc_reply_send(call, true);
}

static void send_status(struct wr_grpc_call *call, int status)
{
	struct wr_rls_memory *memory = &call->session->shared->memory;

	wr_rls_memory_reset(memory);
	wr_grpc_reply(call, wr_health_answer(status, memory));
	wr_grpc_reply_send(call, false);
}

static void changed(struct wr_health_watch *watch, enum wr_health health)
{
	struct wr_grpc_call *call = wr_container_of(watch, struct wr_grpc_call, watch);
	struct wr_grpc_session *session = call->session;

	(void)health;
	send_status(call, status_of(call));
	wr_grpc_send(session);
}

/* Watches a name. An unknown name may be watched too; its status stays SERVICE_UNKNOWN. */
void wr_grpc_health_watch(struct wr_grpc_call *call, struct weir_str message)
{
	struct weir_error error;
	int rc = wr_health_read(message, &call->session->shared->memory, &error);

	if (rc == WR_GRPC_NOT_FOUND && !wr_grpc_call_last(call))
		return;
	if (rc == WR_GRPC_NOT_FOUND) {
		send_status(call, PB__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN);
		return;
	}
	if (rc != 0) {
		wr_grpc_fail(call, &error);
		return;
	}
	if (!wr_grpc_call_last(call))
		return;
	call->watching = true;
	call->watch.changed = changed;
	wr_loop_watch_health(call->session->loop, &call->watch);
	send_status(call, status_of(call));
}
