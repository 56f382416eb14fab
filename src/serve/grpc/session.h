/* Private to serve/grpc: a session for each connection, a call for each stream of a session, and
 * the state that all sessions of a loop share.
 *
 * The memory of a connection is bounded: WR_GRPC_STREAMS_MAX calls, WR_GRPC_ROOM_BYTES in long
 * messages and responses, WR_GRPC_H2_BYTES in nghttp2, WR_OUTPUT_MAX in output. All connections of
 * a loop together have WR_GRPC_LOOP_BYTES for calls. If they need more, the connection with the
 * most calls that wait for their client is closed. */
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
#define WR_GRPC_MESSAGE_MAX (128u << 10)   /* maximum length of a message after inflating */
#define WR_GRPC_SCRATCH_BYTES (768u << 10) /* memory of a loop for one message and its response */
#define WR_GRPC_ROOM_BYTES (1u << 20)
#define WR_GRPC_H2_BYTES (2u << 20)
#define WR_GRPC_HEADER_BYTES 16384u /* maximum length of the header fields of a request */
#define WR_GRPC_WINDOW (1 << 20)    /* flow-control window of a connection */
#define WR_GRPC_CALLS_KEPT 2048u
#define WR_GRPC_OUT_INLINE 256u
/* Maximum number of open watches and reflections of a connection. */
#define WR_GRPC_LASTING_MAX 32u
/* Maximum memory of the calls of a loop, with their memory in nghttp2. */
#define WR_GRPC_LOOP_BYTES (64u << 20)
#define WR_GRPC_H2_IDLE_BYTES                                                                      \
	(64u << 10) /* nghttp2's memory per connection that WR_GRPC_LOOP_BYTES does not count */
#define WR_GRPC_FOREIGN_BYTES                                                                      \
	(64u << 10) /* bytes that are read of a body that is not gRPC, before the response */
#define WR_GRPC_RESETS_KEPT 32u
#define WR_GRPC_GAPS_KEPT 4u

struct wr_grpc_session;

/* A list of memory blocks of one size that nghttp2 has freed. */
struct wr_grpc_pieces {
	struct wr_grpc_piece *kept;
	size_t count;
};

/* Number of sizes, in steps of 16 bytes; larger blocks are not kept. */
#define WR_GRPC_PIECE_SIZES 32u

/* The state that the sessions of a loop share. Only one call uses it at a time. */
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
	size_t bytes;     /* memory of calls, which WR_GRPC_LOOP_BYTES limits */
	size_t bytes_max; /* maximum of `bytes` since memory was last returned to the system */
	size_t leaving;   /* the part of `bytes` that belongs to sessions that are being closed */
	struct wr_log_gate abuse, crowded;
};

struct wr_grpc_call {
	struct wr_grpc_session *session;
	struct wr_grpc_call *next, **back; /* neighbours in the list of the session's calls */
	struct wr_grpc_call *owing_next,
		**owing_back; /* neighbours in session->owing: calls that wait for the client */
	uint64_t owing_ms;    /* since when the call waits for the client; 0: it does not wait */
	int32_t id;
	uint32_t header_bytes;
	/* Number of bytes of the body that were skipped, if `foreign` is set. */
	uint32_t foreign_bytes;
	struct wr_grpc_head head;
	uint64_t deadline_ns; /* deadline of the call, CLOCK_REALTIME; 0: none */

	bool midway;          /* the request is incomplete */
	bool ended;           /* the client has ended its side of the stream */
	bool whole;           /* the message of a unary call is complete */
	bool answering;       /* the header fields of the response were submitted */
	bool final;           /* `out` has the whole rest of the response */
	bool stalled;         /* nghttp2 waits for bytes in `out` */
	bool unsent;          /* nghttp2 has not taken all bytes of `out` */
	bool without_trailer; /* the response is HTTP without trailers, not gRPC */
	bool watching;
	bool lasting;  /* the call does not end by itself: a watch or a reflection */
	bool too_long; /* the header fields exceed the limit */
	/* The request is not gRPC; it gets an HTTP status after its body was read. */
	bool foreign;
	uint8_t status;          /* enum wr_grpc_code that the trailers report */
	const char *status_text; /* a string literal that the trailers report, or NULL */

	/* The messages of the response, each with its prefix. */
	uint8_t *out; /* the bytes; NULL: they are in out_here */
	size_t out_len, out_sent, out_cap;

	const Pb__RateLimitRequest *request; /* the message; valid inside wr_grpc_rls, NULL later */
	struct wr_pending pending;
	struct wr_health_watch watch;
	struct wr_grpc_reader reader;
	uint8_t out_here[WR_GRPC_OUT_INLINE];
};

/* Finds the boundaries of frames in the input. */
struct wr_grpc_scanner {
	uint32_t skip;  /* number of bytes until the next frame head */
	uint8_t have;   /* number of bytes of the frame head received so far */
	int32_t newest; /* the highest stream id that the client has opened */
	struct {
		int32_t from, to;
	} skipped
		[WR_GRPC_GAPS_KEPT]; /* ids that the client skipped; HTTP/2 counts them as closed */
	unsigned skipped_at;
	uint8_t head[9];
};

struct wr_grpc_session {
	struct wr_stream *stream;
	struct wr_loop *loop;
	struct wr_grpc_loop *shared;
	nghttp2_session *h2;
	nghttp2_mem mem;
	size_t h2_bytes; /* memory that nghttp2 holds for this session */
	struct wr_grpc_room room;
	struct wr_grpc_guard guard;
	struct wr_grpc_scanner scanner;
	struct wr_grpc_call *calls;   /* list of calls, newest first */
	struct wr_grpc_call *heading; /* the call whose header fields are being received */
	struct wr_grpc_call *recent;  /* the call that the last input was for, or NULL */
	struct wr_grpc_call *owing, **owing_end; /* calls that wait for the client, oldest first */
	unsigned open;                           /* number of calls */
	/* Number of calls in `owing`, and of calls that do not end by themselves. */
	unsigned owing_count, lasting;
	/* The part of shared->bytes that belongs to this session. */
	size_t counted;
	/* The part of shared->leaving that belongs to this session. */
	size_t leaving;
	struct wr_grpc_session *next, **back; /* neighbours in the list of the loop's sessions */
	uint64_t opened_ms;
	/* Ids of streams that this server has reset. Frames that the client sent on them before it
	 * received the reset are ignored. */
	int32_t resets[WR_GRPC_RESETS_KEPT];
	unsigned reset_at;
	int32_t forgotten; /* the highest stream id that was dropped from `resets` */
	int32_t last_id;   /* stream id of the newest call */
	bool greeted;      /* the client's SETTINGS were received */
	bool inside;       /* nghttp2 is reading input or about to, so nothing may be sent now */
	bool draining;     /* the first GOAWAY was sent */
	bool pinged;       /* a ping was sent after the first GOAWAY */
};

/* ---- loop.c ---- */
struct wr_grpc_loop *wr_grpc_loop_of(struct wr_loop *loop); /* returns NULL if there is no memory */

/* Sets up the allocator of nghttp2, which counts memory per session. Defined in memory.c. */
void wr_grpc_mem_init(struct wr_grpc_session *session);
void wr_grpc_pieces_free(struct wr_grpc_pieces pieces[WR_GRPC_PIECE_SIZES]);

/* Updates shared->bytes by the memory of the session's calls. If the sum exceeds
 * WR_GRPC_LOOP_BYTES, closes a session, which may be this one. */
void wr_grpc_account(struct wr_grpc_session *session);

/* Returns memory to the system if much less memory is used now than at the maximum. */
void wr_grpc_give_back(struct wr_grpc_loop *shared);

/* Writes the output of nghttp2, unless session->inside is set. Then sets the timeout of the stream
 * by the call that has waited longest for the client. Calls may end meanwhile, so the caller must
 * not use a call afterwards. Defined in session.c. */
void wr_grpc_send(struct wr_grpc_session *session);

/* Creates the callbacks of nghttp2. Returns 0, or a negative number if there is no memory. Defined
 * in frames.c. */
int wr_grpc_callbacks_new(nghttp2_session_callbacks **out);

/* Checks input before nghttp2 reads it. Returns how many bytes nghttp2 may read before the next
 * call of this function. Sets *error to NGHTTP2_NO_ERROR, or to the error to end the session
 * with. */
size_t wr_grpc_scan(struct wr_grpc_session *session, const uint8_t *data, size_t len,
		    uint32_t *error);

/* ---- call.c ---- */

struct wr_grpc_call *wr_grpc_call_new(struct wr_grpc_session *session, int32_t id);

/* Cancels the decision and frees the call. Called when the stream or the session has ended. */
void wr_grpc_call_end(struct wr_grpc_call *call);

/* Sets whether the request is incomplete. While it is incomplete, the timeout for slow clients
 * runs. */
void wr_grpc_call_set_midway(struct wr_grpc_call *call, bool midway);

/* Sets whether nghttp2 still has to take bytes of the response. */
void wr_grpc_call_set_unsent(struct wr_grpc_call *call, bool unsent);

/* Notes that a part of the response was sent. The timeout of the client starts again. */
void wr_grpc_call_moved(struct wr_grpc_call *call);

/* Marks a call that does not end by itself. If the connection has too many such calls, fails the
 * call and returns false. */
bool wr_grpc_call_last(struct wr_grpc_call *call);

/* ---- run.c ---- */

/* Receives bytes of the request body. */
void wr_grpc_call_data(struct wr_grpc_call *call, const uint8_t *bytes, size_t len);

/* Runs a unary call. Called when the client has ended its side of the stream. */
void wr_grpc_call_finish(struct wr_grpc_call *call);

/* ---- rls.c, health.c: the methods; `message` is inflated ---- */

void wr_grpc_rls(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_check(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_list(struct wr_grpc_call *call, struct weir_str message);
void wr_grpc_health_watch(struct wr_grpc_call *call, struct weir_str message);

/* Inflates the message of a waiting call again. Returns 0 or a gRPC code. */
int wr_grpc_call_message(struct wr_grpc_call *call, struct weir_str *message,
			 struct weir_error *error);

/* ---- reply.c: responses, which nghttp2 sends after the input or in wr_grpc_send ---- */

/* Responds with an error and its text. error->code is an HTTP status (400 or above) or a gRPC
 * code. */
void wr_grpc_fail(struct wr_grpc_call *call, const struct weir_error *error);

/* Writes the prefix of a message and returns room for the `len` bytes of the message. If there is
 * no memory, fails the call and returns NULL. */
uint8_t *wr_grpc_reply_room(struct wr_grpc_call *call, size_t len);
void wr_grpc_reply(struct wr_grpc_call *call, struct weir_str message);

/* Sends the messages written so far. If `final` is set, sends the trailers too. */
void wr_grpc_reply_send(struct wr_grpc_call *call, bool final);

/* Ends a response with a status. `text` is a string literal. */
void wr_grpc_reply_end(struct wr_grpc_call *call, int status, const char *text);

#endif
