/* Listening sockets. The service opens them before it drops its privileges. There is one TCP socket
 * per loop and address, and each loop accepts from its own socket. */
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

/* A maximum number of open connections, counted over all loops. Each port has a quota, and a
 * connection also needs a slot of the quota of all ports (`within`). */
struct wr_quota {
	unsigned max;
	unsigned used;
	struct wr_quota *within; /* the quota that also applies; NULL: no further quota */
	struct wr_log_gate gate;
};

struct wr_listener {
	const char *name; /* name of the port in log lines: "grpc" */
	struct wr_endpoint endpoint;
	char text[WR_ENDPOINT_TEXT];
	const struct wr_protocol *protocol;
	struct wr_tls *tls;     /* NULL: connections without TLS */
	struct wr_quota *quota; /* quota of the port, shared by all addresses of the port */
	struct wr_client_counts *client_counts; /* limits connections per client; NULL: no limit */
	int fds[WR_LOOPS_MAX]; /* socket of each loop; -1: closed, or the loop has taken it */
	unsigned fd_count;
	bool own;       /* Unix socket to which only root and this process's user may connect */
	gid_t group;    /* group that may also connect to a Unix socket; 0: none */
	dev_t unix_dev; /* device and inode of the socket file, so that no other file is removed */
	ino_t unix_ino;
	struct wr_listener *next;
};

/* Opens sockets at the address `text` for `loops` loops. A host name with several addresses makes
 * several listeners. The listeners are copies of `like`, and are inserted at the front of *list.
 * Returns 0. On failure returns an error code; `error` then names the option `flag` ("--grpc"). */
int wr_listener_open(const struct wr_listener *like, const char *flag, const char *text,
		     unsigned loops, struct wr_listener **list, struct weir_error *error);

/* Changes the owner of a Unix socket's file. Does nothing for a TCP socket. Returns 0 or an error
 * code. */
int wr_listener_own(const struct wr_listener *listener, uid_t user, gid_t group,
		    struct weir_error *error);

/* Closes the sockets that no loop has taken and frees the listeners. Removes the file of a Unix
 * socket, unless another file has replaced it. */
void wr_listeners_close(struct wr_listener *list);

/* Returns whether only processes of this machine can connect to the listener. */
bool wr_listener_local(const struct wr_listener *listener);

/* Takes a slot of the quota for a new connection. Returns false if the quota is used up, or if the
 * peer of a Unix socket is not allowed to connect; in both cases the refusal is logged. */
bool wr_listener_admit(struct wr_listener *listener, int fd);
void wr_listener_leave(struct wr_listener *listener);

/* Called before a listening socket is closed: stops new connections from entering its backlog,
 * because closing the socket would reset them. The kernel drops the SYN of a new client, so the
 * client retries a second later and is refused. */
void wr_listener_turn_away(const struct wr_listener *listener, int fd);

/* A listening socket of a loop. */
struct wr_acceptor {
	uv_poll_t poll;
	struct wr_net *net;
	struct wr_listener *listener;
	void *server; /* the object that the protocol's `start` created */
	int fd;
	bool resting; /* not polled, because no file descriptors were left; until the next sweep */
	struct wr_acceptor *next;
};

/* Holds the object that a protocol's `start` created for a loop. */
struct wr_server {
	const struct wr_protocol *protocol;
	void *state;
	struct wr_server *next;
};

#endif
