/* The life of a call: with its stream, from its header fields to the end. */
#include "serve/grpc_session.h"

#include <stdlib.h>
#include <string.h>

/* Buffers at the end of a call need no zeroes. */
#define ZEROED (offsetof(struct wr_grpc_call, reader) + offsetof(struct wr_grpc_reader, here))

static struct wr_grpc_call *take(struct wr_grpc_loop *shared)
{
	struct wr_grpc_call *call = shared->spare;

	if (!call)
		return malloc(sizeof *call);
	shared->spare = call->next;
	shared->spare_count--;
	return call;
}

static void give(struct wr_grpc_loop *shared, struct wr_grpc_call *call)
{
	if (shared->spare_count == WR_GRPC_CALLS_KEPT) {
		free(call);
		return;
	}
	call->next = shared->spare;
	shared->spare = call;
	shared->spare_count++;
}

struct wr_grpc_call *wr_grpc_call_new(struct wr_grpc_session *session, int32_t id)
{
	struct wr_grpc_call *call = take(session->shared);

	if (!call)
		return NULL;
	memset(call, 0, ZEROED);
	call->session = session;
	call->id = id;
	call->reader.max = WR_GRPC_MESSAGE_MAX;
	call->reader.room = &session->room;
	call->next = session->calls;
	call->back = &session->calls;
	if (call->next)
		call->next->back = &call->next;
	session->calls = call;
	if (session->open++ == 0)
		wr_stream_busy(session->stream, true);
	wr_grpc_call_set_midway(call, true);
	return call;
}

void wr_grpc_call_set_midway(struct wr_grpc_call *call, bool midway)
{
	struct wr_grpc_session *session = call->session;

	if (call->midway == midway)
		return;
	call->midway = midway;
	session->midway += midway ? 1 : -1u;
	session->moved |= !midway;
}

void wr_grpc_call_set_unsent(struct wr_grpc_call *call, bool unsent)
{
	struct wr_grpc_session *session = call->session;

	session->moved |= !unsent;
	if (call->unsent == unsent)
		return;
	call->unsent = unsent;
	session->unsent += unsent ? 1 : -1u;
}

static void free_out(struct wr_grpc_call *call)
{
	if (call->out) {
		call->session->room.held -= call->out_cap;
		free(call->out);
	}
}

void wr_grpc_call_end(struct wr_grpc_call *call)
{
	struct wr_grpc_session *session = call->session;

	if (call->pending.ask) {
		wr_pending_cancel(&call->pending);
		wr_pending_end(&call->pending);
	}
	if (call->watching)
		wr_loop_unwatch_health(&call->watch);
	wr_grpc_call_set_midway(call, false);
	wr_grpc_call_set_unsent(call, false);
	wr_grpc_reader_reset(&call->reader);
	free_out(call);
	if (session->heading == call)
		session->heading = NULL;
	if (session->recent == call)
		session->recent = NULL;
	*call->back = call->next;
	if (call->next)
		call->next->back = call->back;
	if (--session->open == 0)
		wr_stream_busy(session->stream, false);
	give(session->shared, call);
}
