/* Listening sockets: opened by the service before it gives up its rights, one per loop, and
 * accepted from by the loops. */
#ifndef WR_SERVE_NET_LISTEN_H
#define WR_SERVE_NET_LISTEN_H

#include <stdbool.h>
#include <sys/stat.h>
#include <uv.h>

#include <weir/error.h>

#include "base/endpoint.h"
#include "serve/log.h"

struct wr_crowd;
struct wr_loop;
struct wr_protocol;
struct wr_listener;
struct wr_tls;

#define WR_LOOPS_MAX 256u

/* How many connections there may be, counted over all loops: of one port, and within that of all.
 */
struct wr_places {
	unsigned max;
	unsigned used;
	struct wr_places *within; /* NULL: of none */
	struct wr_log_gate gate;
};

struct wr_listener {
	const char *name; /* "grpc" */
	struct wr_endpoint endpoint;
	char text[WR_ENDPOINT_TEXT];
	const struct wr_protocol *protocol;
	struct wr_tls *tls;       /* NULL: plain text */
	struct wr_places *places; /* the port's: shared by its addresses */
	struct wr_crowd *crowd;   /* bounds the connections of an address; NULL: they are not */
	int fds[WR_LOOPS_MAX];    /* one per loop; -1: closed, or taken over */
	unsigned fd_count;
	bool own;       /* a Unix socket for root and our own user alone */
	gid_t group;    /* may come in at a Unix socket beside our own; 0: none */
	dev_t unix_dev; /* of the socket file, so that nobody else's is removed */
	ino_t unix_ino;
	struct wr_listener *next;
};

/* Opens the address `text` for `loops` loops: one listener, or several when a name has several
 * addresses, put in front of *list. `flag` ("--grpc") is named in errors. */
int wr_listener_open(const struct wr_listener *like, const char *flag, const char *text,
		     unsigned loops, struct wr_listener **list, struct weir_error *error);

/* Gives the file of a Unix socket to a user. */
int wr_listener_own(const struct wr_listener *listener, uid_t user, gid_t group,
		    struct weir_error *error);

/* Closes what is open and removes the file of a Unix socket, if it is still this one's. */
void wr_listeners_close(struct wr_listener *list);

/* Whether only processes of this machine can reach it. */
bool wr_listener_local(const struct wr_listener *listener);

/* A place for one more connection; for a Unix socket also whether its peer may be here. */
bool wr_listener_admit(struct wr_listener *listener, int fd);
void wr_listener_leave(struct wr_listener *listener);

/* Before a listening socket is closed: nobody new gets into its backlog, whose connections would be
 * reset by the closing. A client that tries in between asks again a second later and is refused. */
void wr_listener_turn_away(const struct wr_listener *listener, int fd);

/* ---- in a loop ---- */

struct wr_acceptor {
	uv_poll_t poll;
	struct wr_loop *loop;
	struct wr_listener *listener;
	void *server; /* what the protocol's `start` made */
	int fd;
	bool resting; /* until the next sweep: there were no file descriptors */
	struct wr_acceptor *next;
};

/* What the protocols' `start` made for a loop. */
struct wr_server {
	const struct wr_protocol *protocol;
	void *state;
	struct wr_server *next;
};

/* The loop takes its socket of this listener. Before the loop runs. */
int wr_loop_listen(struct wr_loop *loop, struct wr_listener *listener, struct weir_error *error);

void wr_acceptors_wake(struct wr_loop *loop); /* those that rest */
void wr_acceptors_turn_away(struct wr_loop *loop);
void wr_acceptors_empty(struct wr_loop *loop); /* takes what has connected already */
void wr_acceptors_close(struct wr_loop *loop); /* no more connections */
void wr_servers_stop(struct wr_loop *loop);    /* after the last stream */

#endif
