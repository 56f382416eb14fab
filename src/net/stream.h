/* A stream is an accepted connection, with or without TLS, on which a protocol receives and sends
 * bytes.
 *
 * All functions are called from the thread of the stream's loop. A stream may end at any time, but
 * never inside a call that the protocol makes: the loop calls `closed` later. */
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
	const char *alpn; /* the protocol that TLS has to negotiate: "h2"; NULL: any protocol */
	/* Size of the state that the protocol keeps for each stream; the state starts as zeros. */
	size_t state_bytes;
	/* Called when the connection is ready; with TLS, after the handshake. Returns 0, or a
	 * negative number to close the stream. */
	int (*open)(struct wr_stream *stream);
	/* Receives `len` bytes, at most WR_READ_BYTES, and has to consume all of them. Returns 0,
	 * or a negative number to close the stream after the output has been sent. */
	int (*input)(struct wr_stream *stream, const uint8_t *data, size_t len);
	/* Called when the unsent output falls below WR_LOW_BYTES after it had exceeded
	 * WR_HIGH_BYTES. May be NULL. */
	void (*writable)(struct wr_stream *stream);
	/* Called when the peer has sent its last byte. Returns true if responses are still to be
	 * sent; the stream then ends when it is no longer busy. Otherwise, or if the function is
	 * NULL, the stream closes immediately. */
	bool (*outlives_input)(struct wr_stream *stream);
	/* Called at most once, when the program shuts down or a time limit of the stream has
	 * passed. Announces the end (GOAWAY), and closes the stream when no request is in flight.
	 * If the function is NULL, the stream closes when it is not busy. */
	void (*drain)(struct wr_stream *stream);
	/* The last call for a stream, even if `open` failed. The state is freed afterwards. May be
	 * NULL. */
	void (*closed)(struct wr_stream *stream);
	/* Called once per loop and address before the loop runs. Creates the object that all
	 * streams of this address share (wr_stream_server). `start` and `stop` may both be NULL. */
	int (*start)(struct wr_loop *loop, struct wr_listener *listener, void **server,
		     struct weir_error *error);
	/* Called after the loop's last stream has ended. Closes the handles of the object and frees
	 * the object. */
	void (*stop)(void *server);
};

#define WR_READ_BYTES 16384u /* a call of `input` gets at most this many bytes */
/* A stream with more than WR_HIGH_BYTES of unsent output reads no input until less than
 * WR_LOW_BYTES remain. */
#define WR_HIGH_BYTES (256u << 10)
#define WR_LOW_BYTES (64u << 10)
#define WR_OUTPUT_MAX (4u << 20) /* a stream with more unsent output is aborted */

void *wr_stream_state(struct wr_stream *stream);
struct wr_loop *wr_stream_loop(struct wr_stream *stream);
const struct wr_listener *wr_stream_listener(const struct wr_stream *stream);

/* Returns the object that the protocol's `start` created. */
void *wr_stream_server(const struct wr_stream *stream);

/* Returns the socket. The caller may use it only to ask the kernel about the connection. */
int wr_stream_fd(const struct wr_stream *stream);

/* Returns whether the peer has closed its sending side. Bytes that the peer sent earlier may still
 * be unread, and the peer may still read responses. */
bool wr_stream_hung(const struct wr_stream *stream);

/* Returns the peer's address, which is valid until the next call in this thread. Returns NULL if
 * the address is unknown, for example because the connection has ended. */
const struct sockaddr *wr_stream_peer(const struct wr_stream *stream);

/* Returns whether the peer of a Unix socket runs as root or as this process's user. */
bool wr_stream_is_own(const struct wr_stream *stream);

/* Appends bytes to the output. The loop sends the output once per turn. Returns 0 on success. If
 * the stream is already closing, returns a negative number. If the output would exceed its maximum
 * or there is no memory, aborts the stream and returns a negative number. */
int wr_stream_write(struct wr_stream *stream, const void *bytes, size_t len);

/* Returns a pointer to room for `len` bytes behind the output, or NULL in the cases in which
 * wr_stream_write fails. The caller writes into the room and calls wr_stream_commit, which appends
 * the first `used` bytes to the output. The pointer is valid until the next call that writes to the
 * stream. */
uint8_t *wr_stream_reserve(struct wr_stream *stream, size_t len);
void wr_stream_commit(struct wr_stream *stream, size_t used);

/* Returns the number of output bytes that the kernel has not accepted yet. */
size_t wr_stream_pending(const struct wr_stream *stream);

/* Stops or resumes reading. Bytes that have been read already may still be passed to `input`. */
void wr_stream_pause(struct wr_stream *stream, bool paused);

/* Sets whether the stream is busy, that is, whether it has requests in flight. The idle timeout
 * does not apply to a busy stream, and a drain waits until the stream is no longer busy. */
void wr_stream_busy(struct wr_stream *stream, bool busy);

/* Sets whether the client has sent only a part of a request so far. --slow limits the time until
 * the rest of the request has arrived. A second call with true does not restart this time. */
void wr_stream_midway(struct wr_stream *stream, bool midway);

/* Like wr_stream_midway, for protocols with several requests at once. `begun_ms` is the loop time
 * at which the oldest incomplete request began, or 0 if all requests are complete. */
void wr_stream_owed_since(struct wr_stream *stream, uint64_t begun_ms);

/* Closes the stream after its output has been sent. No more input is passed to the protocol. */
void wr_stream_close(struct wr_stream *stream);

/* Closes the stream immediately and discards its output, for clients that violate the protocol. */
void wr_stream_abort(struct wr_stream *stream);

/* Returns whether the stream has been closed or aborted. */
bool wr_stream_ending(const struct wr_stream *stream);

/* Aborts the stream after `in_ms` milliseconds, unless the stream has ended by then. */
void wr_stream_cut_in(struct wr_stream *stream, uint64_t in_ms);

/* Creates a stream for an accepted socket. The stream owns the socket; on failure the socket is
 * closed. `client` is the address under which listener->client_counts has counted the connection,
 * or NULL if the connection was not counted. */
void wr_stream_accept(struct wr_net *net, struct wr_listener *listener, void *server, int fd,
		      const struct wr_address *client);

#endif
