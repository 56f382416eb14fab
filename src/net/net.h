/* The sockets of one thread: listening sockets, connections and their limits.
 *
 * A program that runs libuv loops embeds one struct wr_net in each loop, fills in the first group
 * of members and calls the functions below from the loop's thread. This layer calls protocols
 * through struct wr_protocol (net/stream.h). `struct wr_loop` is the program's own type. This layer
 * only passes pointers to it. */
#ifndef WR_NET_NET_H
#define WR_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <weir/error.h>

#include "base/list.h"
#include "net/output.h"
#include "net/stream.h"

struct wr_acceptor;
struct wr_server;

#define WR_NET_BUFFERED_MAX (64u << 20) /* maximum of wr_net.buffered */

/* Time limits of connections. 0 means no limit. */
struct wr_net_times {
	uint64_t idle_ms;    /* a stream that had no request for this long is drained */
	uint64_t max_age_ms; /* a stream of this age (±10 %) is drained */
	/* A client is disconnected if it needs longer than this for a handshake, for sending a
	 * request or for reading 4 KiB of output. */
	uint64_t slow_ms;
	/* Requests in flight have this time to finish after their stream has begun to drain. */
	uint64_t drain_ms;
};

struct wr_net {
	/* The program sets the fields up to stream_ended before it calls a function of this layer,
	 * and does not change them afterwards. */
	uv_loop_t *uv;
	struct wr_loop *loop;
	unsigned number; /* index of the loop in the `fds` of each listener */
	struct wr_net_times times;
	void (*wake)(struct wr_loop *loop);         /* makes the loop run one more turn */
	void (*stream_ended)(struct wr_loop *loop); /* called when a stream has been freed */

	/* This layer manages the fields from here on. */
	struct wr_acceptor *acceptors;
	struct wr_server *servers;
	struct wr_list streams; /* all streams of the loop */
	size_t stream_count;
	struct wr_stream *dirty; /* streams to flush or free before the loop sleeps */
	size_t buffered;         /* bytes of unsent output of all streams */
	struct wr_output_blocks blocks;
	/* Buffer for received bytes. The loop's connections to Redis use it too. */
	uint8_t input[WR_READ_BYTES];
	uint8_t opened[WR_READ_BYTES]; /* decrypted input */
};

/* Initializes the fields that this layer manages. The caller has zeroed the struct. */
void wr_net_init(struct wr_net *net);

/* Moves the socket of this loop from listener->fds to the loop, and calls the protocol's `start`.
 * Called before the loop runs. Returns 0, or an error code with `error` filled in. */
int wr_net_listen(struct wr_net *net, struct wr_listener *listener, struct weir_error *error);

/* Resumes polling of the listening sockets that were paused because file descriptors or memory had
 * run out. */
void wr_acceptors_wake(struct wr_net *net);

/* The three steps that end listening, in this order. The first step stops new connections from
 * entering the backlogs. The second step accepts the connections in the backlogs, because closing
 * would reset them. The third step closes the listening sockets. */
void wr_acceptors_turn_away(struct wr_net *net);
void wr_acceptors_empty(struct wr_net *net);
void wr_acceptors_close(struct wr_net *net);

/* Calls the `stop` of all protocols. Called after the last stream has ended. */
void wr_servers_stop(struct wr_net *net);

/* Sends the output that was written since the previous call and frees the streams that have ended.
 * The program calls this function before the loop sleeps. */
void wr_streams_flush(struct wr_net *net);

/* Aborts or drains the streams whose time limits have passed. The program calls this function a few
 * times a second. */
void wr_streams_sweep(struct wr_net *net, uint64_t now_ms);

/* Drains every stream, which then ends after its requests in flight. */
void wr_streams_drain(struct wr_net *net);

/* Aborts every stream. */
void wr_streams_cut(struct wr_net *net);

#endif
