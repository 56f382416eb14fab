/* What a stream is made of: stream.c moves its bytes, stream_tls.c seals and opens them,
 * stream_end.c ends it. */
#ifndef WR_SERVE_NET_STREAM_IMPL_H
#define WR_SERVE_NET_STREAM_IMPL_H

#include <openssl/ssl.h>
#include <stdalign.h>
#include <uv.h>

#include "rules/address.h"
#include "serve/net/buffer.h"
#include "serve/net/stream.h"

enum wr_stream_stage {
	WR_STREAM_HANDSHAKE, /* TLS has not agreed yet */
	WR_STREAM_OPEN,
	WR_STREAM_CLOSING,   /* what was written goes out */
	WR_STREAM_LINGERING, /* we have ended; waits for the peer's end, so that it reads all */
	WR_STREAM_DEAD,      /* freed before the loop sleeps */
};

struct wr_stream {
	uv_poll_t poll;
	struct wr_loop *loop;
	struct wr_listener *listener;
	const struct wr_protocol *protocol;
	void *server;             /* what the protocol's `start` made */
	struct wr_address client; /* counted in the listener's crowd, if `crowded` */
	bool crowded;
	int fd;
	int polled; /* events asked for */
	enum wr_stream_stage stage;
	bool opened; /* `open` was called, so `closed` will be */
	bool dirty;  /* in the loop's list */
	bool inside; /* in on_event, which will flush */
	bool paused, choked, busy, draining;
	bool hung;               /* the peer had sent its last byte when this event came */
	bool last_read;          /* the peer sends nothing more, but waits for answers */
	SSL *tls;                /* NULL: plain text */
	struct wr_buffer out;    /* written */
	struct wr_buffer sealed; /* … and encrypted */
	size_t counted;          /* what of it is in loop->buffered */
	uint64_t sent;           /* bytes the kernel has taken */
	uint64_t opened_ms, active_ms;
	uint64_t midway_ms;            /* when a request began; 0: none */
	uint64_t stuck_ms, stuck_sent; /* since when output waits, and `sent` then; 0: none */
	uint64_t cut_ms;               /* not to live longer; 0: no such time */
	struct wr_stream *next, **back;
	struct wr_stream *dirty_next;
	alignas(max_align_t) unsigned char state[];
};

/* stream.c */
void wr_stream_touch(struct wr_stream *stream);   /* has something to do before the loop sleeps */
void wr_stream_account(struct wr_stream *stream); /* what is buffered has changed */
void wr_stream_deliver(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_stream_begin(struct wr_stream *stream); /* open it for the protocol */

/* stream_tls.c */
void wr_stream_unseal(struct wr_stream *stream, const uint8_t *data, size_t len);
void wr_stream_seal(struct wr_stream *stream);
void wr_stream_seal_end(struct wr_stream *stream); /* says so to the peer */

/* stream_end.c */
void wr_stream_drain(struct wr_stream *stream);
void wr_stream_destroy(struct wr_stream *stream);

#endif
