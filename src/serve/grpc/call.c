/* Calls: allocation, timeouts and end. Called by frames.c and by the methods. */
#include "serve/grpc/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The part of a call that is zeroed. The buffers at the end of a call are not. */
#define ZEROED (offsetof(struct wr_grpc_call, reader) + offsetof(struct wr_grpc_reader, here))

static struct wr_grpc_call *take_call(struct wr_grpc_loop *shared)
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
	struct wr_grpc_call *call = take_call(session->shared);

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

/* Appends the call to the list of calls that wait for their client, or removes it from there. The
 * client has the time of --slow for a whole request, and for each part of a response. */
static void set_owing(struct wr_grpc_call *call, bool owing)
{
	struct wr_grpc_session *session = call->session;

	if (call->owing_ms) {
		*call->owing_back = call->owing_next;
		if (call->owing_next)
			call->owing_next->owing_back = call->owing_back;
		else
			session->owing_end = call->owing_back;
		call->owing_ms = 0;
		session->owing_count--;
	}
	if (!owing)
		return;
	call->owing_ms = uv_now(wr_loop_uv(session->loop));
	call->owing_next = NULL;
	call->owing_back = session->owing_end;
	*session->owing_end = call;
	session->owing_end = &call->owing_next;
	session->owing_count++;
}

void wr_grpc_call_set_midway(struct wr_grpc_call *call, bool midway)
{
	if (call->midway == midway)
		return;
	call->midway = midway;
	set_owing(call, midway || call->unsent);
}

void wr_grpc_call_set_unsent(struct wr_grpc_call *call, bool unsent)
{
	if (call->unsent == unsent)
		return;
	call->unsent = unsent;
	if (!call->midway)
		set_owing(call, unsent);
}

void wr_grpc_call_moved(struct wr_grpc_call *call)
{
	if (call->unsent && !call->midway)
		set_owing(call, true);
}

bool wr_grpc_call_last(struct wr_grpc_call *call)
{
	struct wr_grpc_session *session = call->session;
	struct weir_error error;

	if (session->lasting < WR_GRPC_LASTING_MAX) {
		session->lasting += !call->lasting;
		call->lasting = true;
		return true;
	}
	wr_error(&error, WR_GRPC_RESOURCE_EXHAUSTED,
		 "a connection may have %u watches and reflections", WR_GRPC_LASTING_MAX);
	wr_grpc_fail(call, &error);
	return false;
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
	set_owing(call, false);
	session->lasting -= call->lasting;
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
