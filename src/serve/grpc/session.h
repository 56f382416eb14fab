/* The inside of grpc*.c: a session for each connection, a call for each of its streams, and what
 * all sessions of a loop share.
 *
 * Memory of one connection is bounded: WR_GRPC_STREAMS_MAX calls, WR_GRPC_ROOM_BYTES in long
 * messages and answers, WR_GRPC_H2_BYTES in nghttp2, WR_OUTPUT_MAX in output. All connections of a
 * loop together have WR_GRPC_LOOP_BYTES for calls; beyond it the connection with the most calls
 * that wait for its client is cut off. */
#ifndef WR_SERVE_GRPC_SESSION_H
#define WR_SERVE_GRPC_SESSION_H

#include <nghttp2/nghttp2.h>

#include "serve/grpc/grpc.h"
#include "serve/grpc/guard.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"
#include "wire/grpc/grpc.h"
#include "wire/grpc/reflection.h"
#include "wire/rls/rls.h"

#define WR_GRPC_STREAMS_MAX 1024u
#define WR_GRPC_MESSAGE_MAX (128u << 10)   /* of a message, unfolded */
#define WR_GRPC_SCRATCH_BYTES (768u << 10) /* for a message and its answer, per loop */
#define WR_GRPC_ROOM_BYTES (1u << 20)
#define WR_GRPC_H2_BYTES (2u << 20)
#define WR_GRPC_HEADER_BYTES 16384u /* of a request */
#define WR_GRPC_WINDOW (1 << 20)    /* of a connection */
#define WR_GRPC_CALLS_KEPT 2048u
#define WR_GRPC_OUT_INLINE 256u
#define WR_GRPC_LASTING_MAX 32u        /* watches and reflections of a connection */
#define WR_GRPC_LOOP_BYTES (64u << 20) /* of calls and what nghttp2 holds for them */
#define WR_GRPC_H2_IDLE_BYTES                                                                      \
	(64u << 10)                       /* of nghttp2 in each connection are not counted there   \
					   */
#define WR_GRPC_FOREIGN_BYTES (64u << 10) /* of a body are awaited before it is refused */
#define WR_GRPC_RESETS_KEPT 32u
#define WR_GRPC_GAPS_KEPT 4u

struct wr_grpc_session;

/* Pieces of memory of one size that nghttp2 has given back. */
struct wr_grpc_pieces {
	struct wr_grpc_piece *kept;
	size_t count;
};

#define WR_GRPC_PIECE_SIZES 32u /* in steps of 16 bytes; longer ones are not kept */

/* What the calls of a loop use in turn. */
struct wr_grpc_loop {
	struct wr_rls_memory memory;
	struct wr_grpc_inflater *inflater;
	struct wr_reflection *reflection;
	struct wr_rls_options rls;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct wr_grpc_call *spare;
	size_t spare_count;
	struct wr_grpc_pieces pieces[WR_GRPC_PIECE_SIZES];
	struct wr_grpc_session *sessions;
	size_t bytes;     /* of calls, see WR_GRPC_LOOP_BYTES */
	size_t bytes_max; /* the most since memory was last given back */
	size_t leaving;   /* … of sessions that were cut off and are not gone yet */
	struct wr_log_gate abuse, crowded;
};

struct wr_grpc_call {
	struct wr_grpc_session *session;
	struct wr_grpc_call *next, **back;             /* of the session */
	struct wr_grpc_call *owing_next, **owing_back; /* … of those that wait for the client */
	uint64_t owing_ms;                             /* since when; 0: it does not */
	int32_t id;
	uint32_t header_bytes;
	uint32_t foreign_bytes; /* of the body of a `foreign` one, which is read over */
	struct wr_grpc_head head;
	uint64_t deadline_ns; /* CLOCK_REALTIME; 0: none */

	bool midway;          /* the client is in the midst of a request */
	bool ended;           /* the client has sent all it will */
	bool whole;           /* the one message is there */
	bool answering;       /* header fields of the answer have been submitted */
	bool final;           /* what is in `out` is all there will be */
	bool stalled;         /* nghttp2 waits for more in `out` */
	bool unsent;          /* … or has not taken all of it */
	bool without_trailer; /* an HTTP response that is not gRPC */
	bool watching;
	bool lasting;            /* it has no end of its own: a watch or a reflection */
	bool too_long;           /* its header fields are */
	bool foreign;            /* no gRPC: answered with an HTTP status when its body is here */
	uint8_t status;          /* enum wr_grpc_code for the trailers */
	const char *status_text; /* a literal, or NULL */

	/* The answer's bytes, prefixes included. */
	uint8_t *out; /* NULL: in out_here */
	size_t out_len, out_sent, out_cap;

	const Pb__RateLimitRequest *request; /* while it is decided at once; else NULL */
	struct wr_pending pending;
	struct wr_health_watch watch;
	struct wr_grpc_reader reader;
	uint8_t out_here[WR_GRPC_OUT_INLINE];
};

/* Where one frame ends and the next begins. */
struct wr_grpc_scanner {
	uint32_t skip;  /* bytes to the next head */
	uint8_t have;   /* of the head */
	int32_t newest; /* the highest stream that a client has begun */
	struct {
		int32_t from, to;
	} skipped[WR_GRPC_GAPS_KEPT]; /* streams that it has left out, so that they are closed */
	unsigned skipped_at;
	uint8_t head[9];
};

struct wr_grpc_session {
	struct wr_stream *stream;
	struct wr_loop *loop;
	struct wr_grpc_loop *shared;
	nghttp2_session *h2;
	nghttp2_mem mem;
	size_t h2_bytes; /* held by nghttp2 */
	struct wr_grpc_room room;
	struct wr_grpc_guard guard;
	struct wr_grpc_scanner scanner;
	struct wr_grpc_call *calls;              /* newest first */
	struct wr_grpc_call *heading;            /* whose header fields are arriving */
	struct wr_grpc_call *recent;             /* last one that something arrived for, or NULL */
	struct wr_grpc_call *owing, **owing_end; /* calls that wait for the client, oldest first */
	unsigned open;                           /* calls */
	unsigned owing_count, lasting;           /* … of these kinds */
	size_t counted;                          /* what of it is in shared->bytes */
	size_t leaving;                          /* what of it is in shared->leaving */
	struct wr_grpc_session *next, **back;    /* of the loop */
	uint64_t opened_ms;
	/* Streams that we have reset: what the client had sent before it knew is read over. */
	int32_t resets[WR_GRPC_RESETS_KEPT];
	unsigned reset_at;
	int32_t forgotten; /* the highest one that had to make room for others */
	int32_t last_id;   /* of the newest call */
	bool greeted;      /* the client's SETTINGS are here */
	bool inside;       /* nghttp2 is at work, or is about to be: send later */
	bool draining;     /* GOAWAY was announced */
	bool pinged;       /* … and a ping sent behind it */
};

/* loop.c */
struct wr_grpc_loop *wr_grpc_loop_of(struct wr_loop *loop); /* NULL: no memory */

/* memory.c: what nghttp2 allocates, counted per session. */
void wr_grpc_mem_init(struct wr_grpc_session *session);
void wr_grpc_pieces_free(struct wr_grpc_pieces pieces[WR_GRPC_PIECE_SIZES]);

/* Counts the memory of the session's calls in that of the loop. When that is too much, cuts a
 * session off, perhaps this one. */
void wr_grpc_account(struct wr_grpc_session *session);

/* Gives memory back to the system when much less is used than was. */
void wr_grpc_give_back(struct wr_grpc_loop *shared);

/* session.c: writes what nghttp2 has, unless it is inside. That may end calls, so a caller
 * must hold none any more. Then sets the stream's clock to the call that has waited longest for the
 * client. */
void wr_grpc_send(struct wr_grpc_session *session);

/* frames.c: nghttp2's callbacks. Below 0: no memory. */
int wr_grpc_callbacks_new(nghttp2_session_callbacks **out);

/* Looks at input before nghttp2 has it. Returns how much of it nghttp2 may have before the next
 * call. *error is NGHTTP2_NO_ERROR, or the error to end the session with. */
size_t wr_grpc_scan(struct wr_grpc_session *session, const uint8_t *data, size_t len,
		    uint32_t *error);

/* ---- call.c ---- */

struct wr_grpc_call *wr_grpc_call_new(struct wr_grpc_session *session, int32_t id);

/* Its stream has ended, or the session: cancels what is under way. */
void wr_grpc_call_end(struct wr_grpc_call *call);

/* Whether the client is in the midst of a request and has to go on with it. */
void wr_grpc_call_set_midway(struct wr_grpc_call *call, bool midway);

/* Whether there is something of its answer that nghttp2 has not taken. */
void wr_grpc_call_set_unsent(struct wr_grpc_call *call, bool unsent);

/* A part of its answer has gone out: the client's time begins anew. */
void wr_grpc_call_moved(struct wr_grpc_call *call);

/* The call has no end of its own. False: the connection has too many of these, and the call has
 * failed. */
bool wr_grpc_call_last(struct wr_grpc_call *call);

/* ---- run.c ---- */

/* Bytes of the body. */
void wr_grpc_call_data(struct wr_grpc_call *call, const uint8_t *bytes, size_t len);

/* The client has ended: a unary call is decided now. */
void wr_grpc_call_finish(struct wr_grpc_call *call);

/* ---- rls.c, health.c: methods, with the message as it is after unfolding ---- */

void wr_grpc_rls(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_check(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_list(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_watch(struct wr_grpc_call *call, struct weir_str message);

/* The message of a call that is held, once more. 0, or a gRPC code. */
int wr_grpc_call_message(struct wr_grpc_call *call, struct weir_str *message,
			 struct weir_error *error);

/* ---- reply.c: given to nghttp2, and sent when input is done with or by wr_grpc_send ---- */

/* The whole answer is an HTTP status of 400 and above, or a gRPC status; both with their text. */
void wr_grpc_fail(struct wr_grpc_call *call, const struct weir_error *error);

/* Room for a message of `len` bytes in the answer, its prefix written; NULL: no memory, and the
 * call has failed. */
uint8_t *wr_grpc_reply_room(struct wr_grpc_call *call, size_t len);
void wr_grpc_reply(struct wr_grpc_call *call, struct weir_str message);

/* Passes on what was put into the answer; with `final`, trailers behind it. */
void wr_grpc_reply_send(struct wr_grpc_call *call, bool final);

/* Ends an answer that has begun. `text` is a literal. */
void wr_grpc_reply_end(struct wr_grpc_call *call, int status, const char *text);

#endif
