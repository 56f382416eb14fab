/* The sockets of one thread: listening sockets, connections, and the bounds on them.
 *
 * A program that runs libuv loops embeds one struct wr_net in each of them, fills in the first group
 * of fields and calls the functions below from the loop's thread. Protocols are reached through
 * struct wr_protocol (net/stream.h). `struct wr_loop` is the program's own type; this layer passes
 * the pointer on and never looks inside. */
#ifndef WR_NET_NET_H
#define WR_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <weir/error.h>

#include "net/output.h"
#include "net/stream.h"

struct wr_acceptor;
struct wr_server;

#define WR_NET_BUFFERED_MAX (64u << 20) /* unsent output of all streams of one thread */

/* How long connections may take. 0 means without limit. */
struct wr_net_times {
	uint64_t idle_ms;    /* without a request; then the stream is drained */
	uint64_t max_age_ms; /* of a connection, ±10 %; then the stream is drained */
	uint64_t slow_ms;    /* to finish a handshake or a request, or to read 4 KiB of output */
	uint64_t drain_ms;   /* for requests in flight on a stream that is drained */
};

struct wr_net {
	/* Set by the owner before the first call; constant afterwards. */
	uv_loop_t *uv;
	struct wr_loop *loop;
	unsigned number; /* index of the loop: which socket of each listener belongs to it */
	struct wr_net_times times;
	void (*wake)(struct wr_loop *loop);         /* make the loop turn once more */
	void (*stream_ended)(struct wr_loop *loop); /* a stream has been freed */

	/* Private to this layer. */
	struct wr_acceptor *acceptors;
	struct wr_server *servers;
	struct wr_stream *streams; /* all of them */
	size_t stream_count;
	struct wr_stream *dirty; /* streams to flush or free before the loop sleeps */
	size_t buffered;         /* bytes of unsent output of all streams */
	struct wr_output_blocks blocks;
	uint8_t input[WR_READ_BYTES]; /* scratch space; also used by the loop's Redis connections */
	uint8_t opened[WR_READ_BYTES]; /* decrypted input */
};

/* Takes over this loop's socket of the listener and starts the protocol's server part. Call it
 * before the loop runs. Returns 0, or an error code with `error` filled in. */
int wr_net_listen(struct wr_net *net, struct wr_listener *listener, struct weir_error *error);

void wr_acceptors_wake(struct wr_net *net);      /* retry after a lack of file descriptors */
void wr_acceptors_turn_away(struct wr_net *net); /* let no new connection into the backlogs */
void wr_acceptors_empty(struct wr_net *net);     /* accept the connections in the backlogs */
void wr_acceptors_close(struct wr_net *net);     /* close the listening sockets */
void wr_servers_stop(struct wr_net *net);        /* after the last stream has ended */

/* Sends the output that was written since the last call and frees the streams that have ended. Call
 * it before the loop sleeps. */
void wr_streams_flush(struct wr_net *net);

/* Aborts or drains the streams whose time is over. Call it a few times a second. */
void wr_streams_sweep(struct wr_net *net, uint64_t now_ms);

void wr_streams_drain(struct wr_net *net); /* every stream ends after its requests in flight */
void wr_streams_cut(struct wr_net *net);   /* every stream is aborted */

#endif
