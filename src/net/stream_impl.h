/* The internals of a stream: stream.c sends and receives its bytes, stream_tls.c encrypts and
 * decrypts them, stream_end.c ends the stream. */
#ifndef WR_NET_STREAM_IMPL_H
#define WR_NET_STREAM_IMPL_H

#include <openssl/ssl.h>
#include <stdalign.h>
#include <uv.h>

#include "base/address.h"
#include "base/list.h"
#include "net/output.h"
#include "net/stream.h"

enum wr_stream_stage {
	WR_STREAM_HANDSHAKE, /* the TLS handshake is in progress */
	WR_STREAM_OPEN,
	WR_STREAM_CLOSING,   /* the rest of the output is being sent */
	WR_STREAM_LINGERING, /* our sending side is shut down; waiting until the peer closes */
	WR_STREAM_DEAD,      /* the stream will be freed before the loop sleeps */
};

#define WR_STREAM_MAGIC 0x7374726du

struct wr_stream {
	uint32_t magic; /* WR_STREAM_MAGIC from wr_stream_accept() until the stream is freed */
	uv_poll_t poll;
	struct wr_net *net;
	struct wr_listener *listener;
	const struct wr_protocol *protocol;
	void *server;             /* the object that the protocol's `start` created */
	bool is_counted;          /* the listener's client_counts have counted the connection */
	struct wr_address client; /* address of the client in client_counts; set if is_counted */
	int fd;
	int polled; /* events for which the socket is polled */
	enum wr_stream_stage stage;
	bool opened; /* the protocol's `open` was called, so `closed` has to be called */
	bool dirty;  /* the stream is in the list net->dirty */
	bool inside; /* on_event is running, and flushes the stream before it returns */
	bool paused; /* the protocol has stopped reading */
	bool choked; /* reading has stopped until less than WR_LOW_BYTES of output are unsent */
	bool busy, draining;
	bool hung;            /* the current event reports that the peer has sent its last byte */
	bool last_read;       /* the peer has sent its last byte, but waits for responses */
	SSL *tls;             /* NULL: a connection without TLS */
	struct wr_output out; /* output that is not encrypted yet, or is sent without TLS */
	struct wr_output sealed; /* encrypted output */
	size_t counted;          /* number of bytes that this stream adds to net->buffered */
	uint64_t sent;           /* number of bytes that the kernel has accepted */
	uint64_t opened_ms, active_ms;
	uint64_t midway_ms; /* time when the oldest incomplete request began; 0: no such request */
	/* `stuck_ms` is the time when output began to wait for the peer, or 0 if no output waits.
	 * `stuck_sent` is the value of `sent` at that time. */
	uint64_t stuck_ms, stuck_sent;
	uint64_t cut_ms;              /* time when the stream will be aborted; 0: no such time */
	struct wr_list link;          /* links the stream in net->streams */
	struct wr_stream *dirty_next; /* next stream in net->dirty */
	alignas(max_align_t) unsigned char state[]; /* the state that the protocol keeps */
};

/* ---- stream.c ---- */

/* Updates net->buffered after the unsent output of the stream has changed. */
void wr_stream_account(struct wr_stream *stream);

/* Passes input to the protocol. Closes the stream if the protocol reports an error. */
void wr_stream_deliver(struct wr_stream *stream, const uint8_t *data, size_t len);

/* Calls the protocol's `open`. */
void wr_stream_begin(struct wr_stream *stream);

/* ---- stream_tls.c ---- */

/* Decrypts received bytes and passes them to the protocol, or continues the handshake. */
void wr_stream_unseal(struct wr_stream *stream, const uint8_t *data, size_t len);

/* Encrypts output from `out` into `sealed`. */
void wr_stream_seal(struct wr_stream *stream);

/* Appends TLS's close_notify alert to `sealed`. */
void wr_stream_seal_end(struct wr_stream *stream);

/* ---- stream_end.c ---- */

/* Frees the stream. Called only by wr_streams_flush, so that no function on the stack still uses
 * the stream. */
void wr_stream_destroy(struct wr_stream *stream);

#endif
