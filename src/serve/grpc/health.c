/* The methods Check, List and Watch of grpc.health.v1. The empty name and WR_GRPC_HEALTH_NAME both
 * stand for the whole service. Called by run.c. */
#include "base/assert.h"
#include "base/container.h"
#include "serve/grpc/session.h"

#include <stddef.h>

#include "wire/grpc/health.h"

static int status_of(const struct wr_serve_grpc_call *call)
{
	return wr_loop_health(call->session->loop) == WR_HEALTH_SERVING
		       ? PB__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
		       : PB__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

static void respond(struct wr_serve_grpc_call *call, struct weir_str message,
		    int (*read)(struct weir_str bytes, struct wr_rls_memory *memory,
				struct weir_error *error),
		    struct weir_str (*pack)(int status, struct wr_rls_memory *memory))
{
	struct wr_rls_memory *memory = &call->session->shared->memory;
	struct weir_error error;

	if (read(message, memory, &error) != 0) {
		wr_serve_grpc_fail(call, &error);
		return;
	}
	wr_serve_grpc_reply(call, pack(status_of(call), memory));
	wr_serve_grpc_reply_send(call, true);
}

void wr_serve_grpc_health_check(struct wr_serve_grpc_call *call, struct weir_str message)
{
	respond(call, message, wr_grpc_health_read, wr_grpc_health_pack);
}

void wr_serve_grpc_health_list(struct wr_serve_grpc_call *call, struct weir_str message)
{
	respond(call, message, wr_grpc_health_read_list, wr_grpc_health_pack_list);
}

static void send_status(struct wr_serve_grpc_call *call, int status)
{
	struct wr_rls_memory *memory = &call->session->shared->memory;

	wr_rls_memory_reset(memory);
	wr_serve_grpc_reply(call, wr_grpc_health_pack(status, memory));
	wr_serve_grpc_reply_send(call, false);
}

static void on_health_changed(struct wr_health_watch *watch)
{
	struct wr_serve_grpc_call *call = wr_container_of(watch, struct wr_serve_grpc_call, watch);
	struct wr_serve_grpc_session *session = call->session;

	send_status(call, status_of(call));
	wr_serve_grpc_send(session);
}

/* Sends the status of a service now and at each change. A client may also watch an unknown name,
 * whose status stays SERVICE_UNKNOWN. */
void wr_serve_grpc_health_watch(struct wr_serve_grpc_call *call, struct weir_str message)
{
	struct weir_error error;
	int rc = wr_grpc_health_read(message, &call->session->shared->memory, &error);

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(!wr_list_holds(&call->watch.link));
	if (rc != 0 && rc != WR_GRPC_NOT_FOUND) {
		wr_serve_grpc_fail(call, &error);
		return;
	}
	if (!wr_serve_grpc_call_last(call))
		return;
	if (rc == WR_GRPC_NOT_FOUND) {
		send_status(call, PB__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN);
		return;
	}
	call->watch.changed = on_health_changed;
	wr_list_add_first(&call->session->loop->health_watches, &call->watch.link);
	send_status(call, status_of(call));
}
