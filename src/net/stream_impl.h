/* The inside of a stream: stream.c moves its bytes, stream_tls.c encrypts and decrypts them,
 * stream_end.c ends it. */
#ifndef WR_NET_STREAM_IMPL_H
#define WR_NET_STREAM_IMPL_H

#include <openssl/ssl.h>
#include <stdalign.h>
#include <uv.h>

#include "rules/address.h"
#include "net/output.h"
#include "net/stream.h"

enum wr_stream_stage {
	WR_STREAM_HANDSHAKE, /* the TLS handshake is not done */
	WR_STREAM_OPEN,
	WR_STREAM_CLOSING,   /* the rest of the output is being sent */
	WR_STREAM_LINGERING, /* our side is shut down; waits until the peer closes */
	WR_STREAM_DEAD,      /* freed before the loop sleeps */
};

struct wr_stream {
	uv_poll_t poll;
	struct wr_net *net;
	struct wr_listener *listener;
	const struct wr_protocol *protocol;
	void *server;             /* created by the protocol's `start` */
	struct wr_address client; /* counted in the listener's client_counts if is_counted */
	bool is_counted;
	int fd;
	int polled; /* events that the poll handle waits for */
	enum wr_stream_stage stage;
	bool opened; /* `open` was called, so `closed` will be */
	bool dirty;  /* in the list of streams to flush */
	bool inside; /* in on_event, which flushes at its end */
	bool paused, choked, busy, draining;
	bool hung;               /* the current event says that the peer has sent its last byte */
	bool last_read;          /* the peer has sent its last byte and waits for responses */
	SSL *tls;                /* NULL: plain text */
	struct wr_output out;    /* plain output */
	struct wr_output sealed; /* encrypted output */
	size_t counted;          /* bytes of this stream in net->buffered */
	uint64_t sent;           /* bytes that the kernel has accepted */
	uint64_t opened_ms, active_ms;
	uint64_t midway_ms;            /* when the unfinished request began; 0: none */
	uint64_t stuck_ms, stuck_sent; /* when the output began to wait, or 0; and `sent` then */
	uint64_t cut_ms;               /* when the stream is aborted; 0: never */
	struct wr_stream *next, **back;
	struct wr_stream *dirty_next;
	alignas(max_align_t) unsigned char state[];
};

/* stream.c */
void wr_stream_touch(struct wr_stream *stream);   /* flush or free it before the loop sleeps */
void wr_stream_account(struct wr_stream *stream); /* the amount of unsent output has changed */
void wr_stream_deliver(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_stream_begin(struct wr_stream *stream); /* call the protocol's `open` */

/* stream_tls.c */
void wr_stream_unseal(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_stream_seal(struct wr_stream *stream);
void wr_stream_seal_end(struct wr_stream *stream); /* sends the close_notify alert */

/* stream_end.c */
void wr_stream_drain(struct wr_stream *stream);
void wr_stream_destroy(struct wr_stream *stream);

#endif
