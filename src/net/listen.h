/* Listening sockets. The service opens them before it drops its privileges. Each address has one
 * TCP socket per loop, and each loop accepts from its own socket. */
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

/* Limits the number of open connections, counted over all loops. Each option that opens listening
 * sockets, such as --grpc, has one quota for all of its addresses. The connections of all options
 * except those for admins are also counted together, in a second quota (`within`). */
struct wr_quota {
	unsigned max;
	unsigned used;
	struct wr_quota *within; /* a larger quota that counts these connections too, or NULL */
	struct wr_log_gate gate;
};

#define WR_LISTENER_MAGIC 0x6c697374u

struct wr_listener {
	/* WR_LISTENER_MAGIC from wr_listener_open() to wr_listeners_close() */
	uint32_t magic;
	const char *name; /* name of the listener in log lines, for example "grpc" */
	struct wr_endpoint endpoint;
	char text[WR_ENDPOINT_TEXT];
	const struct wr_protocol *protocol;
	struct wr_tls *tls;     /* NULL: connections without TLS */
	struct wr_quota *quota; /* shared by all listeners of the same option */
	struct wr_client_counts
		*client_counts; /* limits the connections of each client; NULL: no limit */
	int fds[WR_LOOPS_MAX];  /* socket for each loop; -1: it was passed to its loop */
	unsigned fd_count;
	/* Root and this process's user are always allowed to connect to a Unix socket. If `own` is
	 * false, this process's group is allowed too, and so is `group` if it is not 0. */
	bool own;
	gid_t group;
	/* Device and inode of a Unix socket's file. The file at the socket's path is removed only
	 * if it still has this device and inode. */
	dev_t unix_dev;
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

/* Closes the sockets that wr_net_listen has not passed to a loop, and frees the listeners. Removes
 * the files of Unix sockets, unless another file is at the path now. */
void wr_listeners_close(struct wr_listener *list);

/* Returns whether only processes of this machine can connect to the listener. */
bool wr_listener_local(const struct wr_listener *listener);

/* Counts one connection of this listener less in its quotas (struct wr_quota). */
void wr_listener_leave(struct wr_listener *listener);

/* Makes the kernel drop the SYN of new clients, so that no new connection enters the backlog of a
 * listening socket. The program then accepts the connections in the backlog and closes the socket;
 * closing it earlier would reset these connections. A client whose SYN was dropped repeats the SYN
 * a second later, and is refused if the socket is closed by then. */
void wr_listener_turn_away(const struct wr_listener *listener, int fd);

/* A listening socket of a loop. */
struct wr_acceptor {
	uv_poll_t poll;
	struct wr_net *net;
	struct wr_listener *listener;
	void *server; /* the object that the protocol's `start` created */
	int fd;
	/* True if the process had no free file descriptor or no memory. The socket is then not
	 * polled until the next call of wr_acceptors_wake. */
	bool resting;
	struct wr_acceptor *next;
};

/* An item of the list net->servers. `state` is an object that the `start` of a protocol created. At
 * the end of the loop, each `state` is passed to the `stop` of its protocol. */
struct wr_server {
	const struct wr_protocol *protocol;
	void *state;
	struct wr_server *next;
};

#endif
