/* Listening sockets. The service opens them before it gives up its privileges, one socket per loop
 * and address; each loop accepts from its own socket. */
#ifndef WR_NET_LISTEN_H
#define WR_NET_LISTEN_H

#include <stdbool.h>
#include <sys/stat.h>
#include <uv.h>

#include <weir/error.h>

#include "base/endpoint.h"
#include "net/log.h"

struct wr_client_counts;
struct wr_net;
struct wr_protocol;
struct wr_listener;
struct wr_tls;

#define WR_LOOPS_MAX 256u

/* How many connections may be open, counted over all loops. A port's quota lies within the quota of
 * all ports. */
struct wr_quota {
	unsigned max;
	unsigned used;
	struct wr_quota *within; /* NULL: this quota is the outermost */
	struct wr_log_gate gate;
};

struct wr_listener {
	const char *name; /* "grpc" */
	struct wr_endpoint endpoint;
	char text[WR_ENDPOINT_TEXT];
	const struct wr_protocol *protocol;
	struct wr_tls *tls;                     /* NULL: plain text */
	struct wr_quota *quota;                 /* the port's, shared by its addresses */
	struct wr_client_counts *client_counts; /* bounds connections per client; NULL: unbounded */
	int fds[WR_LOOPS_MAX];                  /* one per loop; -1: closed, or taken by its loop */
	unsigned fd_count;
	bool own;       /* a Unix socket for root and this process's user alone */
	gid_t group;    /* another group that may connect to a Unix socket; 0: none */
	dev_t unix_dev; /* identifies the socket file, so that no other file is removed */
	ino_t unix_ino;
	struct wr_listener *next;
};

/* Opens the address `text` for `loops` loops. A name with several addresses makes several listeners.
 * They are put in front of *list. `flag` ("--grpc") is named in errors. */
int wr_listener_open(const struct wr_listener *like, const char *flag, const char *text,
		     unsigned loops, struct wr_listener **list, struct weir_error *error);

/* Changes the owner of a Unix socket's file. */
int wr_listener_own(const struct wr_listener *listener, uid_t user, gid_t group,
		    struct weir_error *error);

/* Closes the sockets that no loop has taken, and removes the file of a Unix socket if it is still
 * the one this listener created. */
void wr_listeners_close(struct wr_listener *list);

/* Whether only processes of this machine can connect. */
bool wr_listener_local(const struct wr_listener *listener);

/* Takes a slot of the quota for a new connection. Returns false if the quota is used up, or if the
 * peer of a Unix socket is not allowed; both are logged. */
bool wr_listener_admit(struct wr_listener *listener, int fd);
void wr_listener_leave(struct wr_listener *listener);

/* Stops new connections from entering the backlog of a socket that is about to close: closing would
 * reset them. The kernel drops their SYN, so the client retries a second later and is refused. */
void wr_listener_turn_away(const struct wr_listener *listener, int fd);

/* A listening socket in a loop. */
struct wr_acceptor {
	uv_poll_t poll;
	struct wr_net *net;
	struct wr_listener *listener;
	void *server; /* created by the protocol's `start` */
	int fd;
	bool resting; /* no file descriptors were left; retried at the next sweep */
	struct wr_acceptor *next;
};

/* The object that a protocol's `start` created for a loop. */
struct wr_server {
	const struct wr_protocol *protocol;
	void *state;
	struct wr_server *next;
};

#endif
