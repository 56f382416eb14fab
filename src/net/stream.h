/* A connection: bytes in, bytes out, with or without TLS, and the protocol spoken on it.
 *
 * All functions are called from the thread of the stream's loop. A stream may close at any time, but
 * never inside a call that the protocol makes: `closed` is called later, from the loop. */
#ifndef WR_NET_STREAM_H
#define WR_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct wr_address;
struct weir_error;
struct wr_loop;
struct wr_net;
struct wr_stream;
struct wr_listener;

struct wr_protocol {
	const char *name;
	const char *alpn;   /* the protocol that TLS must agree on: "h2"; NULL: any */
	size_t state_bytes; /* allocated with the stream, zeroed */
	/* The connection is ready; with TLS, the handshake is done. Returns 0, or below 0 to close. */
	int (*open)(struct wr_stream *stream);
	/* Consumes all `len` bytes, at most WR_READ_BYTES. Returns 0, or below 0 to close the stream
	 * after the output has been sent. */
	int (*input)(struct wr_stream *stream, const uint8_t *data, size_t len);
	/* The unsent output has fallen below WR_LOW_BYTES after exceeding WR_HIGH_BYTES. May be NULL. */
	void (*writable)(struct wr_stream *stream);
	/* The peer has sent its last byte. Returns whether responses are still owed; the stream then
	 * ends when it is no longer busy. NULL: the stream closes at once. */
	bool (*outlives_input)(struct wr_stream *stream);
	/* Shutdown, or the stream was idle too long: announce the end (GOAWAY) and close when no
	 * request is in flight. Called at most once. NULL: the stream closes when it is not busy. */
	void (*drain)(struct wr_stream *stream);
	/* Last call, also when `open` failed; the state is freed afterwards. May be NULL. */
	void (*closed)(struct wr_stream *stream);
	/* Called once per loop and address before the loop runs. Creates the object that all streams
	 * of this address share (wr_stream_server). `start` and `stop` may both be NULL. */
	int (*start)(struct wr_loop *loop, struct wr_listener *listener, void **server,
		     struct weir_error *error);
	/* Called after the loop's last stream has ended: closes all handles, frees the memory. */
	void (*stop)(void *server);
};

#define WR_READ_BYTES 16384u       /* most bytes of one call of `input` */
#define WR_HIGH_BYTES (256u << 10) /* more unsent output stops reading until WR_LOW_BYTES */
#define WR_LOW_BYTES (64u << 10)
#define WR_OUTPUT_MAX (4u << 20) /* most unsent output of one stream */

void *wr_stream_state(struct wr_stream *stream);
struct wr_loop *wr_stream_loop(struct wr_stream *stream);
const struct wr_listener *wr_stream_listener(const struct wr_stream *stream);

/* The object that the protocol's `start` created. */
void *wr_stream_server(const struct wr_stream *stream);

/* The socket, for queries to the kernel. */
int wr_stream_fd(const struct wr_stream *stream);

/* Whether the peer has closed its sending side. Bytes that it sent before may still arrive, and it
 * may still read responses. */
bool wr_stream_hung(const struct wr_stream *stream);

/* The peer's address, valid until the next call in this thread. NULL: the socket has none, or the
 * connection is gone. */
const struct sockaddr *wr_stream_peer(const struct wr_stream *stream);

/* Whether the peer of a Unix socket runs as root or as this process's user. */
bool wr_stream_is_own(const struct wr_stream *stream);

/* Appends to the output, which is sent with one system call per turn of the loop. Returns 0. Below 0:
 * the bound or the memory is exhausted and the stream closes, or it was closing already. */
int wr_stream_write(struct wr_stream *stream, const void *bytes, size_t len);

/* Returns room for `len` bytes at the end of the output; wr_stream_commit appends the first `used`
 * of them. The room is valid until the next of these calls. NULL: as when writing fails. */
uint8_t *wr_stream_reserve(struct wr_stream *stream, size_t len);
void wr_stream_commit(struct wr_stream *stream, size_t used);

/* Bytes written and not yet accepted by the kernel. */
size_t wr_stream_pending(const struct wr_stream *stream);

/* Stops or resumes reading. Bytes that were read already may still be delivered. */
void wr_stream_pause(struct wr_stream *stream, bool paused);

/* A busy stream has requests in flight: it is not closed as idle, and a drain waits for it. */
void wr_stream_busy(struct wr_stream *stream, bool busy);

/* The client has begun a request and not finished it; --slow bounds the time for that. A second
 * call with true does not restart the time. */
void wr_stream_midway(struct wr_stream *stream, bool midway);

/* The same for protocols with several requests at once: the loop time at which the oldest unfinished
 * request began; 0: there is none. */
void wr_stream_owed_since(struct wr_stream *stream, uint64_t begun_ms);

/* Closes the stream after its output has been sent. Nothing more is read. */
void wr_stream_close(struct wr_stream *stream);

/* Closes the stream at once and discards its output, for clients that break the rules. */
void wr_stream_abort(struct wr_stream *stream);

/* Whether the stream has been closed or aborted. */
bool wr_stream_ending(const struct wr_stream *stream);

/* Aborts the stream after `in_ms` unless it has ended by then. */
void wr_stream_cut_in(struct wr_stream *stream, uint64_t in_ms);

/* Makes a stream of an accepted socket. Owns the socket from here on, also on failure. `client` is
 * the peer's address if it was counted in the listener's client_counts, or NULL. */
void wr_stream_accept(struct wr_net *net, struct wr_listener *listener, void *server, int fd,
		      const struct wr_address *client);

#endif
