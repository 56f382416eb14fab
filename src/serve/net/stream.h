/* A connection: bytes in, bytes out, TLS or not, and the protocol that is spoken on it.
 *
 * All calls are made in the thread of the stream's loop. A stream may close at any time, but never
 * inside a call that the protocol makes: `closed` comes later, from the loop. */
#ifndef WR_SERVE_NET_STREAM_H
#define WR_SERVE_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct wr_address;
struct weir_error;
struct wr_loop;
struct wr_stream;
struct wr_listener;

struct wr_protocol {
	const char *name;
	const char *alpn;   /* what TLS has to agree on: "h2"; NULL: nothing */
	size_t state_bytes; /* allocated with the stream, zeroed */
	/* 0, or below 0: close. With TLS, after the handshake. */
	int (*open)(struct wr_stream *stream);
	/* Takes all of it, up to WR_READ_BYTES. Below 0: close after what was written has gone out.
	 */
	int (*input)(struct wr_stream *stream, const uint8_t *data, size_t len);
	/* Output has gone down below WR_LOW_BYTES after it was above WR_HIGH_BYTES. May be NULL. */
	void (*writable)(struct wr_stream *stream);
	/* The peer has sent its last byte: whether there is still something to be answered. Then
	 * the stream ends when it is not busy any more. NULL: it ends at once. */
	bool (*outlives_input)(struct wr_stream *stream);
	/* Shutting down, or idle for too long: say so (GOAWAY), end when nothing is under way. Once
	 * at most. NULL: the stream is closed as soon as it is not busy. */
	void (*drain)(struct wr_stream *stream);
	/* Last call, also when `open` failed; the state is freed afterwards. May be NULL. */
	void (*closed)(struct wr_stream *stream);
	/* Before the loop runs, once per loop and address: makes what streams there share
	 * (wr_stream_server). Both may be NULL. */
	int (*start)(struct wr_loop *loop, struct wr_listener *listener, void **server,
		     struct weir_error *error);
	/* The end of the loop, after its last stream: closes all handles, frees the memory. */
	void (*stop)(void *server);
};

#define WR_READ_BYTES 16384u       /* of one input */
#define WR_HIGH_BYTES (256u << 10) /* above: no more input until it is below WR_LOW_BYTES */
#define WR_LOW_BYTES (64u << 10)
#define WR_OUTPUT_MAX (4u << 20) /* what one stream may have waiting */

void *wr_stream_state(struct wr_stream *stream);
struct wr_loop *wr_stream_loop(struct wr_stream *stream);
const struct wr_listener *wr_stream_listener(const struct wr_stream *stream);

/* What the protocol's `start` made. */
void *wr_stream_server(const struct wr_stream *stream);

/* The socket, to ask the kernel about it. */
int wr_stream_fd(const struct wr_stream *stream);

/* Whether the peer will send nothing behind what it has sent; input that was sent before may still
 * come. It may wait for answers. */
bool wr_stream_hung(const struct wr_stream *stream);

/* The address at the other end; NULL: it has none, or has gone. Until the next call by this thread.
 */
const struct sockaddr *wr_stream_peer(const struct wr_stream *stream);

/* Whether the process at the other end of a Unix socket is root's, or of the user this one runs as.
 */
bool wr_stream_is_own(const struct wr_stream *stream);

/* Buffered; one system write per turn of the loop. Below 0: the bound is reached or memory is, and
 * the stream closes; or it is closing already. */
int wr_stream_write(struct wr_stream *stream, const void *bytes, size_t len);

/* Room for `len` bytes at the end of the output, of which wr_stream_commit takes `used`. The next
 * call of any of these ends it. NULL: as when writing fails. */
uint8_t *wr_stream_reserve(struct wr_stream *stream, size_t len);
void wr_stream_commit(struct wr_stream *stream, size_t used);

/* Written, not yet taken by the kernel. */
size_t wr_stream_pending(const struct wr_stream *stream);

/* Back-pressure: no more input. What has been read already may still come. */
void wr_stream_pause(struct wr_stream *stream, bool paused);

/* Busy ones are not cut as idle, and drain waits for them. */
void wr_stream_busy(struct wr_stream *stream, bool busy);

/* The client has begun a request and not ended it: it has `slow_ns` for that. Saying it again while
 * it holds does not prolong it. */
void wr_stream_midway(struct wr_stream *stream, bool midway);

/* The same for protocols with several requests at a time: when the oldest one that waits for the
 * client began, by the loop's clock; 0: none does. */
void wr_stream_owed_since(struct wr_stream *stream, uint64_t begun_ms);

/* When what was written has gone out. Nothing more is read. */
void wr_stream_close(struct wr_stream *stream);

/* At once, what was written is lost: for those who break rules. */
void wr_stream_abort(struct wr_stream *stream);

/* Whether it has been closed or aborted. */
bool wr_stream_ending(const struct wr_stream *stream);

/* Aborts it after that time, unless it has ended by then. */
void wr_stream_cut_in(struct wr_stream *stream, uint64_t in_ms);

/* ---- for the loop ---- */

/* Takes the socket over, whatever comes of it. `client` is the peer's address if the listener's
 * crowd has counted it, or NULL. */
void wr_stream_accept(struct wr_loop *loop, struct wr_listener *listener, void *server, int fd,
		      const struct wr_address *client);

/* Sends what was written since; frees those that have ended. */
void wr_streams_flush(struct wr_loop *loop);

/* Cuts those whose time is over. */
void wr_streams_sweep(struct wr_loop *loop, uint64_t now_ms);

void wr_streams_drain(struct wr_loop *loop);
void wr_streams_cut(struct wr_loop *loop);

#endif
