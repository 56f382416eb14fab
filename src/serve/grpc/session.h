/* Private to serve/grpc: a session for each connection, a call for each stream of a session, and
 * the state that all sessions of a loop share.
 *
 * The memory of a connection is limited: WR_GRPC_STREAMS_MAX calls, WR_GRPC_ROOM_BYTES for long
 * messages and responses, WR_GRPC_H2_BYTES for nghttp2, WR_OUTPUT_MAX for output. All connections
 * of a loop together have WR_GRPC_LOOP_BYTES for calls. If the calls need more memory, the
 * connection that uses the most memory for calls that wait for their client is closed. */
#ifndef WR_SERVE_GRPC_SESSION_H
#define WR_SERVE_GRPC_SESSION_H

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "net/log.h"
#include "serve/pool.h"
#include "serve/grpc/grpc.h"
#include "serve/grpc/guard.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"
#include "wire/grpc/grpc.h"
#include "wire/grpc/reflection.h"
#include "wire/rls/rls.h"

#define WR_GRPC_STREAMS_MAX 1024u          /* maximum number of open calls of a connection */
#define WR_GRPC_MESSAGE_MAX (128u << 10)   /* maximum length of a message after inflating */
#define WR_GRPC_SCRATCH_BYTES (768u << 10) /* memory of a loop for one message and its response */
#define WR_GRPC_ROOM_BYTES (1u << 20)      /* maximum memory for a connection's long messages */
#define WR_GRPC_H2_BYTES (2u << 20)        /* maximum memory of nghttp2 for a connection */
#define WR_GRPC_HEADER_BYTES 16384u        /* maximum length of the header fields of a request */
#define WR_GRPC_WINDOW (1 << 20)           /* flow-control window of a connection */
#define WR_GRPC_CALLS_SPARE_MAX 2048u /* maximum number of freed calls that are kept for reuse */
#define WR_GRPC_OUT_INLINE 256u       /* maximum length of a response that needs no allocation */
/* A connection can have this many open calls that do not end by themselves. */
#define WR_GRPC_LASTING_MAX 32u
/* Maximum memory of all calls of a loop, including the memory that nghttp2 uses for the calls. */
#define WR_GRPC_LOOP_BYTES (64u << 20)
/* Memory that nghttp2 needs for an idle connection. Only memory of nghttp2 above this amount counts
 * towards WR_GRPC_LOOP_BYTES. */
#define WR_GRPC_H2_IDLE_BYTES (64u << 10)
/* If a request is not gRPC, up to this many bytes of its body are read before the response. */
#define WR_GRPC_FOREIGN_BYTES (64u << 10)
#define WR_GRPC_RESETS_STORED 32u
#define WR_GRPC_GAPS_STORED 4u

struct wr_serve_grpc_session;

/* Number of sizes of memory blocks that are kept for reuse: 16, 32, 48 … bytes. */
#define WR_GRPC_PIECE_SIZES 32u

/* The state that the sessions of a loop share. Only one call uses `memory` and `inflater` at a
 * time. */
struct wr_serve_grpc_loop {
	struct wr_rls_memory memory;
	struct wr_grpc_inflater *inflater;
	struct wr_reflection *reflection;
	struct wr_rls_options rls;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct wr_pool spare;                       /* freed calls */
	struct wr_pool pieces[WR_GRPC_PIECE_SIZES]; /* memory that nghttp2 has freed, by size */
	struct wr_list sessions;
	size_t bytes;     /* memory of calls, which WR_GRPC_LOOP_BYTES limits */
	size_t bytes_max; /* maximum of `bytes` since memory was last returned to the system */
	size_t leaving;   /* the part of `bytes` that belongs to sessions that are being closed */
	struct wr_log_gate abuse, crowded;
};

#define WR_GRPC_SESSION_MAGIC 0x67736573u
#define WR_GRPC_CALL_MAGIC 0x6763616cu

struct wr_serve_grpc_call {
	uint32_t magic; /* WR_GRPC_CALL_MAGIC until wr_serve_grpc_call_end() */
	struct wr_serve_grpc_session *session;
	struct wr_list link; /* links the call in session->calls */
	struct wr_list
		owing_link; /* links the call in session->owing while it waits for the client */
	uint64_t owing_ms;  /* when the call began to wait for the client */
	int32_t id;
	uint32_t header_bytes;
	/* Number of bytes of the body that were skipped, if `foreign` is set. */
	uint32_t foreign_bytes;
	struct wr_grpc_head head;
	uint64_t deadline_ns; /* deadline of the call, CLOCK_REALTIME; 0: no deadline */

	bool midway;          /* the request is incomplete */
	bool ended;           /* the client has ended its side of the stream */
	bool whole;           /* the message of a call with a single message is complete */
	bool answering;       /* the header fields of the response were submitted */
	bool final;           /* no messages will be added to `out` */
	bool stalled;         /* nghttp2 waits for bytes in `out` */
	bool unsent;          /* nghttp2 has not read all bytes of `out` */
	bool without_trailer; /* the response is HTTP without trailers, not gRPC */
	bool lasting;         /* the call does not end by itself: health Watch or reflection */
	bool too_long;        /* the header fields exceed WR_GRPC_HEADER_BYTES */
	/* True if the request is not gRPC. It gets an HTTP status after its body was read. */
	bool foreign;
	uint8_t status;          /* enum wr_grpc_code that the trailers report */
	const char *status_text; /* a string literal that the trailers report, or NULL */

	/* The messages of the response, each after its gRPC prefix (WR_GRPC_PREFIX bytes). */
	struct wr_buf out;
	size_t out_sent; /* number of bytes of `out` that nghttp2 has read */

	const Pb__RateLimitRequest
		*request; /* the parsed message while wr_serve_grpc_rls runs, otherwise NULL */
	struct wr_pending pending;
	/* Responds with the verdict of the pending decision. */
	void (*respond)(struct wr_serve_grpc_call *call, int verdict);
	uint64_t ttl_ns; /* time to live of the reservation; 0: the default */
	/* The settlement of a reservation that waits for Redis, allocated with malloc, or NULL. */
	struct wr_serve_grpc_settle *settle;
	struct wr_health_watch watch;
	struct wr_grpc_reader reader;
	char out_here[WR_GRPC_OUT_INLINE + 1]; /* the first memory of `out` */
};

/* The state of wr_serve_grpc_scan(), which finds the boundaries of frames in the input. */
struct wr_serve_grpc_scanner {
	uint32_t skip;  /* number of bytes until the next frame header */
	uint8_t have;   /* number of bytes of the frame header received so far */
	int32_t newest; /* the highest stream id that the client has opened */
	/* Ranges of ids that the client skipped. HTTP/2 counts these streams as closed. */
	struct {
		int32_t from, to;
	} skipped[WR_GRPC_GAPS_STORED];
	unsigned skipped_at;
	uint8_t head[9];
};

struct wr_serve_grpc_session {
	uint32_t magic; /* WR_GRPC_SESSION_MAGIC until the connection has closed */
	struct wr_stream *stream;
	struct wr_loop *loop;
	struct wr_serve_grpc_loop *shared;
	nghttp2_session *h2;
	nghttp2_mem mem;
	size_t h2_bytes;         /* memory that nghttp2 holds for this session */
	struct wr_buf_room room; /* limits the memory of long messages and responses */
	struct wr_serve_grpc_guard guard;
	struct wr_serve_grpc_scanner scanner;
	struct wr_list calls;               /* calls of the session, newest first */
	struct wr_serve_grpc_call *heading; /* the call whose header fields are being received */
	struct wr_serve_grpc_call *recent;  /* the call that the latest input was for, or NULL */
	struct wr_list
		owing; /* calls that wait for the client; the call that waits longest is first */
	unsigned open; /* number of calls in `calls` */
	/* Number of calls in `owing`, and number of calls that do not end by themselves. */
	unsigned owing_count, lasting;
	/* The part of shared->bytes that belongs to this session. */
	size_t counted;
	/* The part of shared->leaving that belongs to this session. */
	size_t leaving;
	struct wr_list link; /* links the session in shared->sessions */
	uint64_t opened_ms;
	/* Ids of streams that this server has reset. Frames of such a stream that still arrive are
	 * ignored, because the client may have sent them before it received the reset. */
	int32_t resets[WR_GRPC_RESETS_STORED];
	unsigned reset_at;
	int32_t forgotten; /* the highest stream id that was removed from `resets` */
	int32_t last_id;   /* stream id of the newest call */
	bool greeted;      /* the client's SETTINGS were received */
	bool inside;       /* nghttp2 is running, so wr_serve_grpc_send must not call it */
	bool draining;     /* the first GOAWAY was sent */
	bool pinged;       /* a ping was sent after the first GOAWAY */
};

/* ---- loop.c ---- */
struct wr_serve_grpc_loop *
wr_serve_grpc_loop_of(struct wr_loop *loop); /* returns NULL if there is no memory */

/* Sets up the allocator of nghttp2, which counts memory per session. Defined in memory.c. */
void wr_serve_grpc_mem_init(struct wr_serve_grpc_session *session);

/* Frees the calls and memory blocks that are kept for reuse. Defined in memory.c. */
void wr_serve_grpc_free_spare(struct wr_serve_grpc_loop *shared);

/* Updates the part of shared->bytes that belongs to the session. If shared->bytes then exceeds
 * WR_GRPC_LOOP_BYTES, closes a session, possibly this one. */
void wr_serve_grpc_account(struct wr_serve_grpc_session *session);

/* Returns memory to the system if shared->bytes is at most a quarter of shared->bytes_max. */
void wr_serve_grpc_give_back(struct wr_serve_grpc_loop *shared);

/* Writes the output of nghttp2, unless session->inside is set. Then sets the connection's timeout
 * for slow clients, which depends on the call that has waited longest for the client. Calls can end
 * in this function, so the caller must not use a call afterwards. Defined in session.c. */
void wr_serve_grpc_send(struct wr_serve_grpc_session *session);

/* Creates the callbacks of nghttp2. Returns 0, or a negative number if there is no memory. Defined
 * in frames.c. */
int wr_serve_grpc_callbacks_new(nghttp2_session_callbacks **out);

/* Checks input before nghttp2 reads it. Returns how many bytes nghttp2 may read before the next
 * call of this function. Sets *error to NGHTTP2_NO_ERROR, or to the error with which the session
 * has to end. */
size_t wr_serve_grpc_scan(struct wr_serve_grpc_session *session, const uint8_t *data, size_t len,
			  uint32_t *error);

/* ---- call.c ---- */

struct wr_serve_grpc_call *wr_serve_grpc_call_new(struct wr_serve_grpc_session *session,
						  int32_t id);

/* Cancels the decision and frees the call. Called when the stream or the session has ended. */
void wr_serve_grpc_call_end(struct wr_serve_grpc_call *call);

/* Sets whether the request is incomplete. The timeout for slow clients runs while a request is
 * incomplete. */
void wr_serve_grpc_call_set_midway(struct wr_serve_grpc_call *call, bool midway);

/* Sets whether nghttp2 still has to read bytes of the response. */
void wr_serve_grpc_call_set_unsent(struct wr_serve_grpc_call *call, bool unsent);

/* Called when a part of the response was sent. Restarts the timeout for slow clients. */
void wr_serve_grpc_call_moved(struct wr_serve_grpc_call *call);

/* Marks a call that does not end by itself. If the connection has too many such calls, fails the
 * call and returns false. */
bool wr_serve_grpc_call_last(struct wr_serve_grpc_call *call);

/* ---- run.c ---- */

/* Receives bytes of the request body. */
void wr_serve_grpc_call_data(struct wr_serve_grpc_call *call, const uint8_t *bytes, size_t len);

/* Runs a call with a single message, or ends a call with many messages. Called when the client has
 * ended its side of the stream. */
void wr_serve_grpc_call_finish(struct wr_serve_grpc_call *call);

/* Prepares call->pending for a decision about the request. After the decision, `respond` is called,
 * or the call fails if there is no decision. Returns 0 or a gRPC code. Defined in rls.c. */
int wr_serve_grpc_begin(struct wr_serve_grpc_call *call, const Pb__RateLimitRequest *request,
			void (*respond)(struct wr_serve_grpc_call *call, int verdict),
			struct weir_error *error);

/* ---- rls.c, reserve.c, health.c: the methods; `message` is inflated ---- */

void wr_serve_grpc_rls(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_report(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_look(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_reserve(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_commit(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_give_up(struct wr_serve_grpc_call *call, struct weir_str message);

/* Stops waiting for the settlement of a reservation. Called when the call ends. */
void wr_serve_grpc_settle_end(struct wr_serve_grpc_call *call);
void wr_serve_grpc_health_check(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_health_list(struct wr_serve_grpc_call *call, struct weir_str message);
void wr_serve_grpc_health_watch(struct wr_serve_grpc_call *call, struct weir_str message);

/* Sets *message to the message of a call, inflated if it was compressed. Returns 0 or a gRPC
 * code. */
int wr_serve_grpc_call_message(struct wr_serve_grpc_call *call, struct weir_str *message,
			       struct weir_error *error);

/* ---- reply.c: responses, which nghttp2 sends after the input or in wr_serve_grpc_send ---- */

/* Responds with an error and its text. error->code is an HTTP status (400 or above) or a gRPC
 * code. */
void wr_serve_grpc_fail(struct wr_serve_grpc_call *call, const struct weir_error *error);

/* Responds with a gRPC code and a text. */
void wr_serve_grpc_fail_text(struct wr_serve_grpc_call *call, int code, const char *text);

/* Appends the gRPC prefix of a message to the response, and returns room for the `len` bytes of the
 * message. If there is no memory, fails the call and returns NULL. */
uint8_t *wr_serve_grpc_reply_room(struct wr_serve_grpc_call *call, size_t len);

/* Appends a message to the response. */
void wr_serve_grpc_reply(struct wr_serve_grpc_call *call, struct weir_str message);

/* Sends the messages written so far. If `final` is set, sends the trailers too. */
void wr_serve_grpc_reply_send(struct wr_serve_grpc_call *call, bool final);

/* Ends a response with a status. `text` is a string literal. */
void wr_serve_grpc_reply_end(struct wr_serve_grpc_call *call, int status, const char *text);

#endif
