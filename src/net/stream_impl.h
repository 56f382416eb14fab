/* The internals of a stream: stream.c sends and receives its bytes, stream_tls.c encrypts and
 * decrypts them, stream_end.c ends the stream. */
#ifndef WR_NET_STREAM_IMPL_H
#define WR_NET_STREAM_IMPL_H

#include <openssl/ssl.h>
#include <stdalign.h>
#include <uv.h>

#include "rules/address.h"
#include "net/output.h"
#include "net/stream.h"

enum wr_stream_stage {
	WR_STREAM_HANDSHAKE, /* the TLS handshake is in progress */
	WR_STREAM_OPEN,
	WR_STREAM_CLOSING,   /* the rest of the output is being sent */
	WR_STREAM_LINGERING, /* our sending side is shut down; waiting until the peer closes */
	WR_STREAM_DEAD,      /* the stream will be freed before the loop sleeps */
};

struct wr_stream {
	uv_poll_t poll;
	struct wr_net *net;
	struct wr_listener *listener;
	const struct wr_protocol *protocol;
	void *server; /* the object that the protocol's `start` created */
	/* the peer's address in the listener's client_counts, if is_counted */
	struct wr_address client;
	bool is_counted;
	int fd;
	int polled; /* events for which the socket is polled */
	enum wr_stream_stage stage;
	bool opened; /* `open` was called, so `closed` has to be called */
	bool dirty;  /* the stream is in the list net->dirty */
	bool inside; /* on_event is running; it flushes the stream at its end */
	bool paused, choked, busy, draining;
	bool hung;            /* the current event reports that the peer has sent its last byte */
	bool last_read;       /* the peer has sent its last byte and waits for responses */
	SSL *tls;             /* NULL: a connection without TLS */
	struct wr_output out; /* output that is not encrypted */
	struct wr_output sealed; /* encrypted output */
	size_t counted;          /* unsent bytes of this stream that net->buffered includes */
	uint64_t sent;           /* bytes that the kernel has accepted */
	uint64_t opened_ms, active_ms;
	uint64_t midway_ms; /* when the oldest unfinished request began; 0: there is none */
	/* `stuck_ms` is when the output began to wait for the peer (0: no output waits),
	 * `stuck_sent` is the value of `sent` at that time. */
	uint64_t stuck_ms, stuck_sent;
	uint64_t cut_ms; /* when the stream will be aborted; 0: no such time */
	struct wr_stream *next, **back;
	struct wr_stream *dirty_next;
	alignas(max_align_t) unsigned char state[];
};

/* stream.c */
/* flushes or frees the stream before the loop sleeps */
void wr_stream_touch(struct wr_stream *stream);
void wr_stream_account(struct wr_stream *stream); /* updates net->buffered */
void wr_stream_deliver(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_stream_begin(struct wr_stream *stream); /* calls the protocol's `open` */

/* stream_tls.c */
void wr_stream_unseal(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_stream_seal(struct wr_stream *stream);
void wr_stream_seal_end(struct wr_stream *stream); /* sends the close_notify alert */

/* stream_end.c */
void wr_stream_drain(struct wr_stream *stream);
void wr_stream_destroy(struct wr_stream *stream);

#endif
