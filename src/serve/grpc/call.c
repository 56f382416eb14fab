/* Allocates and ends gRPC calls, and handles their timeouts. Called by frames.c and by the
 * methods. */
#include "serve/grpc/session.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* The size of the part of a call that is zeroed. The buffers at the end of a call are not
 * zeroed. */
#define ZEROED (offsetof(struct wr_serve_grpc_call, reader) + offsetof(struct wr_grpc_reader, here))

struct wr_serve_grpc_call *wr_serve_grpc_call_new(struct wr_serve_grpc_session *session, int32_t id)
{
	struct wr_serve_grpc_call *call = wr_pool_take(&session->shared->spare, sizeof *call);

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	if (!call)
		return NULL;
	memset(call, 0, ZEROED);
	call->magic = WR_GRPC_CALL_MAGIC;
	call->session = session;
	call->id = id;
	call->reader.max = WR_GRPC_MESSAGE_MAX;
	call->reader.room = &session->room;
	wr_buf_init_first(&call->out, call->out_here, sizeof call->out_here, WR_GRPC_ROOM_BYTES,
			  &session->room);
	wr_list_add_first(&session->calls, &call->link);
	if (session->open++ == 0)
		wr_stream_busy(session->stream, true);
	wr_serve_grpc_call_set_midway(call, true);
	return call;
}

/* If `owing` is true, makes the call the last in the list of calls that wait for the client, and
 * stores the time. The timeout for slow clients (--slow) counts from that time. If `owing` is
 * false, removes the call from the list. */
static void set_owing(struct wr_serve_grpc_call *call, bool owing)
{
	struct wr_serve_grpc_session *session = call->session;

	wr_assert(session->owing_count >= wr_list_holds(&call->owing_link));
	session->owing_count -= wr_list_holds(&call->owing_link);
	wr_list_remove(&call->owing_link);
	if (!owing)
		return;
	call->owing_ms = uv_now(wr_loop_uv(session->loop));
	wr_list_add_last(&session->owing, &call->owing_link);
	session->owing_count++;
}

void wr_serve_grpc_call_set_midway(struct wr_serve_grpc_call *call, bool midway)
{
	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	if (call->midway == midway)
		return;
	call->midway = midway;
	set_owing(call, midway || call->unsent);
}

void wr_serve_grpc_call_set_unsent(struct wr_serve_grpc_call *call, bool unsent)
{
	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	if (call->unsent == unsent)
		return;
	call->unsent = unsent;
	if (!call->midway)
		set_owing(call, unsent);
}

void wr_serve_grpc_call_moved(struct wr_serve_grpc_call *call)
{
	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	if (call->unsent && !call->midway)
		set_owing(call, true);
}

bool wr_serve_grpc_call_last(struct wr_serve_grpc_call *call)
{
	struct wr_serve_grpc_session *session = call->session;
	struct weir_error error;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(session->lasting <= WR_GRPC_LASTING_MAX);
	if (session->lasting < WR_GRPC_LASTING_MAX) {
		session->lasting += !call->lasting;
		call->lasting = true;
		return true;
	}
	wr_error(&error, WR_GRPC_RESOURCE_EXHAUSTED,
		 "the connection already has %u health watches and reflection calls, which is the "
		 "maximum; use another connection",
		 WR_GRPC_LASTING_MAX);
	wr_serve_grpc_fail(call, &error);
	return false;
}

void wr_serve_grpc_call_end(struct wr_serve_grpc_call *call)
{
	struct wr_serve_grpc_session *session = call->session;

	wr_assert_magic(call, WR_GRPC_CALL_MAGIC);
	wr_assert(session->open > 0 && session->lasting >= call->lasting);
	if (call->pending.ask) {
		wr_pending_cancel(&call->pending);
		wr_pending_end(&call->pending);
	}
	wr_serve_grpc_settle_end(call);
	wr_list_remove(&call->watch.link);
	set_owing(call, false);
	session->lasting -= call->lasting;
	wr_grpc_reader_reset(&call->reader);
	wr_buf_free(&call->out);
	if (session->heading == call)
		session->heading = NULL;
	if (session->recent == call)
		session->recent = NULL;
	wr_list_remove(&call->link);
	if (--session->open == 0)
		wr_stream_busy(session->stream, false);
	call->magic = 0;
	wr_pool_give(&session->shared->spare, call, WR_GRPC_CALLS_SPARE_MAX);
}
