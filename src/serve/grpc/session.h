/* Private to serve/grpc: a session for each connection, a call for each of its streams, and the
 * state that all sessions of a loop share.
 *
 * The memory of a connection is bounded: WR_GRPC_STREAMS_MAX calls, WR_GRPC_ROOM_BYTES in long
 * messages and responses, WR_GRPC_H2_BYTES in nghttp2, WR_OUTPUT_MAX in output. All connections of
 * a loop together have WR_GRPC_LOOP_BYTES for calls. Beyond that the connection with the most calls
 * that wait for their client is closed. */
#ifndef WR_SERVE_GRPC_SESSION_H
#define WR_SERVE_GRPC_SESSION_H

#include <nghttp2/nghttp2.h>

#include "net/log.h"
#include "serve/grpc/grpc.h"
#include "serve/grpc/guard.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"
#include "wire/grpc/grpc.h"
#include "wire/grpc/reflection.h"
#include "wire/rls/rls.h"

#define WR_GRPC_STREAMS_MAX 1024u
#define WR_GRPC_MESSAGE_MAX (128u << 10)   /* of a message, inflated */
#define WR_GRPC_SCRATCH_BYTES (768u << 10) /* for a message and its response, per loop */
#define WR_GRPC_ROOM_BYTES (1u << 20)
#define WR_GRPC_H2_BYTES (2u << 20)
#define WR_GRPC_HEADER_BYTES 16384u /* of a request */
#define WR_GRPC_WINDOW (1 << 20)    /* of a connection */
#define WR_GRPC_CALLS_KEPT 2048u
#define WR_GRPC_OUT_INLINE 256u
#define WR_GRPC_LASTING_MAX 32u        /* open watches and reflections of a connection */
#define WR_GRPC_LOOP_BYTES (64u << 20) /* of calls and their memory in nghttp2 */
#define WR_GRPC_H2_IDLE_BYTES                                                                      \
	(64u << 10) /* of nghttp2 in each connection, which are not counted there */
#define WR_GRPC_FOREIGN_BYTES                                                                      \
	(64u << 10) /* of a body that is not gRPC are read before the response */
#define WR_GRPC_RESETS_KEPT 32u
#define WR_GRPC_GAPS_KEPT 4u

struct wr_grpc_session;

/* Memory blocks of one size that nghttp2 has freed. */
struct wr_grpc_pieces {
	struct wr_grpc_piece *kept;
	size_t count;
};

#define WR_GRPC_PIECE_SIZES 32u /* in steps of 16 bytes; larger blocks are not kept */

/* Shared by the calls of a loop, one at a time. */
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
	size_t bytes_max; /* the maximum since memory was last returned to the system */
	size_t leaving;   /* … of sessions that are being closed */
	struct wr_log_gate abuse, crowded;
};

struct wr_grpc_call {
	struct wr_grpc_session *session;
	struct wr_grpc_call *next, **back; /* of the session */
	struct wr_grpc_call *owing_next,
		**owing_back; /* … in session->owing: calls that wait for the client */
	uint64_t owing_ms;    /* since when; 0: not waiting */
	int32_t id;
	uint32_t header_bytes;
	uint32_t foreign_bytes; /* bytes of the body that were skipped, if `foreign` */
	struct wr_grpc_head head;
	uint64_t deadline_ns; /* CLOCK_REALTIME; 0: none */

	bool midway;          /* the request is incomplete */
	bool ended;           /* the client has ended its side of the stream */
	bool whole;           /* the message of a unary call is complete */
	bool answering;       /* the header fields of the response were submitted */
	bool final;           /* `out` has the rest of the response */
	bool stalled;         /* nghttp2 waits for bytes in `out` */
	bool unsent;          /* nghttp2 has not taken all bytes of `out` */
	bool without_trailer; /* an HTTP response that is not gRPC */
	bool watching;
	bool lasting;            /* a call without an end: a watch or a reflection */
	bool too_long;           /* header fields above the limit */
	bool foreign;            /* not gRPC: gets an HTTP status after its body was read */
	uint8_t status;          /* enum wr_grpc_code for the trailers */
	const char *status_text; /* a literal, or NULL */

	/* The bytes of the response, with prefixes. */
	uint8_t *out; /* NULL: in out_here */
	size_t out_len, out_sent, out_cap;

	const Pb__RateLimitRequest *request; /* valid inside wr_grpc_rls; NULL later */
	struct wr_pending pending;
	struct wr_health_watch watch;
	struct wr_grpc_reader reader;
	uint8_t out_here[WR_GRPC_OUT_INLINE];
};

/* Finds the boundaries of frames in the input. */
struct wr_grpc_scanner {
	uint32_t skip;  /* bytes until the next head */
	uint8_t have;   /* bytes of the head */
	int32_t newest; /* the highest stream that the client has opened */
	struct {
		int32_t from, to;
	} skipped
		[WR_GRPC_GAPS_KEPT]; /* streams that the client skipped; HTTP/2 counts them as closed */
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
	struct wr_grpc_call *calls;   /* newest first */
	struct wr_grpc_call *heading; /* the call whose header fields are being received */
	struct wr_grpc_call *recent;  /* the call of the last input, or NULL */
	struct wr_grpc_call *owing, **owing_end; /* calls that wait for the client, oldest first */
	unsigned open;                           /* calls */
	unsigned owing_count, lasting;           /* … of these kinds */
	size_t counted;                          /* its part of shared->bytes */
	size_t leaving;                          /* its part of shared->leaving */
	struct wr_grpc_session *next, **back;    /* of the loop */
	uint64_t opened_ms;
	/* Streams that we have reset. Frames that the client sent before it knew are ignored. */
	int32_t resets[WR_GRPC_RESETS_KEPT];
	unsigned reset_at;
	int32_t forgotten; /* the highest stream that was dropped from `resets` */
	int32_t last_id;   /* of the newest call */
	bool greeted;      /* the client's SETTINGS were received */
	bool inside;       /* nghttp2 is reading or about to: do not send now */
	bool draining;     /* the first GOAWAY was sent */
	bool pinged;       /* … followed by a ping */
};

/* loop.c */
struct wr_grpc_loop *wr_grpc_loop_of(struct wr_loop *loop); /* NULL: no memory */

/* memory.c: the allocator of nghttp2, which counts per session. */
void wr_grpc_mem_init(struct wr_grpc_session *session);
void wr_grpc_pieces_free(struct wr_grpc_pieces pieces[WR_GRPC_PIECE_SIZES]);

/* Updates the loop's count of memory by that of the session's calls. Above WR_GRPC_LOOP_BYTES it
 * closes a session, perhaps this one. */
void wr_grpc_account(struct wr_grpc_session *session);

/* Returns memory to the system if much less is used than at the maximum. */
void wr_grpc_give_back(struct wr_grpc_loop *shared);

/* session.c: writes the output of nghttp2, unless the session is inside nghttp2. Calls may end
 * during this, so the caller must not use a call afterwards. Then sets the timeout of the stream by
 * the call that has waited longest for the client. */
void wr_grpc_send(struct wr_grpc_session *session);

/* frames.c: the callbacks of nghttp2. Returns 0, or a negative number without memory. */
int wr_grpc_callbacks_new(nghttp2_session_callbacks **out);

/* Checks input before nghttp2 reads it. Returns how many bytes nghttp2 may read before the next
 * call. *error is NGHTTP2_NO_ERROR, or the error to end the session with. */
size_t wr_grpc_scan(struct wr_grpc_session *session, const uint8_t *data, size_t len,
		    uint32_t *error);

/* ---- call.c ---- */

struct wr_grpc_call *wr_grpc_call_new(struct wr_grpc_session *session, int32_t id);

/* The stream or the session has ended: cancels the decision and frees the call. */
void wr_grpc_call_end(struct wr_grpc_call *call);

/* Sets whether the request is incomplete, so that the timeout for slow clients runs. */
void wr_grpc_call_set_midway(struct wr_grpc_call *call, bool midway);

/* Sets whether nghttp2 still has to take bytes of the response. */
void wr_grpc_call_set_unsent(struct wr_grpc_call *call, bool unsent);

/* A part of the response was sent: the timeout of the client starts again. */
void wr_grpc_call_moved(struct wr_grpc_call *call);

/* Marks a call without an end. Returns false after failing the call, if the connection has too many
 * of them. */
bool wr_grpc_call_last(struct wr_grpc_call *call);

/* ---- run.c ---- */

/* Receives bytes of the body. */
void wr_grpc_call_data(struct wr_grpc_call *call, const uint8_t *bytes, size_t len);

/* The client has ended its side: runs a unary call. */
void wr_grpc_call_finish(struct wr_grpc_call *call);

/* ---- rls.c, health.c: methods, with the inflated message ---- */

void wr_grpc_rls(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_check(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_list(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_watch(struct wr_grpc_call *call, struct weir_str message);

/* Inflates the message of a waiting call again. Returns 0 or a gRPC code. */
int wr_grpc_call_message(struct wr_grpc_call *call, struct weir_str *message,
			 struct weir_error *error);

/* ---- reply.c: hands responses to nghttp2, which sends them after the input or in wr_grpc_send ---- */

/* Responds with an error and its text: error->code is an HTTP status from 400, or a gRPC code. */
void wr_grpc_fail(struct wr_grpc_call *call, const struct weir_error *error);

/* Writes the prefix of a message and returns room for its `len` bytes. Returns NULL after failing
 * the call, if there is no memory. */
uint8_t *wr_grpc_reply_room(struct wr_grpc_call *call, size_t len);
void wr_grpc_reply(struct wr_grpc_call *call, struct weir_str message);

/* Sends the messages written so far; with `final` also the trailers. */
void wr_grpc_reply_send(struct wr_grpc_call *call, bool final);

/* Ends a response with a status. `text` is a literal. */
void wr_grpc_reply_end(struct wr_grpc_call *call, int status, const char *text);

#endif
