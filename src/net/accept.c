/* Accepts connections on the listening sockets of a loop. Checks permissions, and the quotas that
 * limit the number of connections (struct wr_quota). */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/client_count.h"
#include "net/net.h"

/* A turn of the loop accepts at most this many connections, so that the connections that are
 * already open are served too. */
#define ACCEPTS_A_TURN 64
#define GROUPS_MAX 256
#define BACKLOG_TURNS 64 /* wr_acceptors_empty calls accept_some at most this often per socket */

/* ---- permissions and quotas ---- */

static bool in_group(int fd, gid_t group)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof groups;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return false;
	for (size_t i = 0; i < len / sizeof *groups; i++)
		if (groups[i] == group)
			return true;
	return false;
}

/* Returns whether the peer of a Unix socket is allowed to connect. Root and our own user are
 * allowed. Unless listener->own is set, our own group and listener->group are allowed too. The mode
 * of the socket file gives the same rights, but not every system enforces the mode, and an operator
 * may have changed the mode. */
static bool peer_allowed(const struct wr_listener *listener, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	if (listener->own)
		return false;
	if (peer.gid == getegid() || in_group(fd, getegid()))
		return true;
	return listener->group && (peer.gid == listener->group || in_group(fd, listener->group));
}

/* Counts one connection less in `quota` and in each quota that contains it (`within`). Stops before
 * the quota `until`. */
static void give_back_slots(struct wr_quota *quota, const struct wr_quota *until)
{
	for (; quota != until; quota = quota->within) {
		unsigned before = __atomic_fetch_sub(&quota->used, 1, __ATOMIC_RELAXED);

		wr_assert(before > 0);
	}
}

/* Counts one more connection in the quota `first` of a listener, and in each quota that contains it
 * (`within`). Returns NULL on success. If a quota has no room, counts nothing and returns this
 * quota. */
static struct wr_quota *take_slot(struct wr_quota *first)
{
	for (struct wr_quota *p = first; p; p = p->within)
		if (__atomic_add_fetch(&p->used, 1, __ATOMIC_RELAXED) > p->max) {
			give_back_slots(first, p->within);
			return p;
		}
	return NULL;
}

/* Counts a new connection in each quota that applies to it. Returns false if a quota has no room,
 * or if the peer of a Unix socket is not allowed to connect. In both cases nothing is counted, and
 * the refusal is logged. */
static bool admit_connection(struct wr_listener *listener, int fd)
{
	static struct wr_log_gate gate;
	struct wr_quota *full;

	if (listener->endpoint.kind == WR_ENDPOINT_UNIX && !peer_allowed(listener, fd)) {
		wr_log_limited(&gate, WR_LOG_WARN,
			       "%s: refused a connection of a process that does not run as root or "
			       "as the user or group of this service",
			       listener->text);
		return false;
	}
	full = take_slot(listener->quota);
	if (full)
		wr_log_limited(&full->gate, WR_LOG_WARN,
			       "%s at %s: all %u connections%s are in use, a new one was closed; "
			       "--max-connections sets the limit",
			       listener->name, listener->text, full->max,
			       full == listener->quota ? " of this port" : "");
	return !full;
}

void wr_listener_leave(struct wr_listener *listener)
{
	wr_assert_magic(listener, WR_LISTENER_MAGIC);
	give_back_slots(listener->quota, NULL);
}

/* ---- accepting ---- */

static void log_client_full(const struct wr_listener *listener, const struct wr_address *client)
{
	char text[WR_ADDRESS_TEXT];

	text[wr_address_text(client, wr_address_is_v4(client) ? WR_ADDRESS_WHOLE : 64, text)] = 0;
	wr_log_limited(&listener->client_counts->gate, WR_LOG_WARN,
		       "%s at %s: %s has %u connections, a new one was closed; "
		       "--max-connections-per-address sets the limit",
		       listener->name, listener->text, text, listener->client_counts->max);
}

static void accept_one(struct wr_acceptor *acceptor, int fd, const struct sockaddr *peer)
{
	struct wr_listener *listener = acceptor->listener;
	struct wr_address client;
	bool counted = false;

	if (!admit_connection(listener, fd)) {
		close(fd);
	} else if (listener->client_counts &&
		   !wr_client_counts_enter(listener->client_counts, peer, &client, &counted)) {
		log_client_full(listener, &client);
		wr_listener_leave(listener);
		close(fd);
	} else {
		wr_stream_accept(acceptor->net, listener, acceptor->server, fd,
				 counted ? &client : NULL);
	}
}

/* Stops polling the listening socket until the next call of wr_acceptors_wake. Called if the
 * process has no free file descriptor or no memory. The new connection stays in the backlog, so the
 * socket stays readable, and a loop that continued to poll would spin. */
static void pause_accepting(struct wr_acceptor *acceptor)
{
	static struct wr_log_gate gate;

	wr_log_limited(&gate, WR_LOG_WARN,
		       "%s: cannot accept connections: %s; raise the limit of open files (ulimit "
		       "-n, LimitNOFILE=) or lower --max-connections",
		       acceptor->listener->text, strerror(errno));
	uv_poll_stop(&acceptor->poll);
	acceptor->resting = true;
}

/* Accepts up to ACCEPTS_A_TURN connections. Returns false if the backlog is empty or accepting was
 * paused. */
static bool accept_some(struct wr_acceptor *acceptor)
{
	wr_assert_magic(acceptor->listener, WR_LISTENER_MAGIC);
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
		socklen_t len = sizeof peer;
		int fd = accept4(acceptor->fd, (struct sockaddr *)&peer, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accept_one(acceptor, fd, (const struct sockaddr *)&peer);
			continue;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return false;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			pause_accepting(acceptor);
			return false;
		}
		/* After any other error, accept the next connection: the kernel has dropped the one
		 * that failed. */
	}
	return true;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	accept_some(poll->data);
}

/* Calls the protocol's `start`, which creates the object that all streams of this listener share.
 * Sets *state to the object, or to NULL if the protocol has no `start`. */
static int start_server(struct wr_net *net, struct wr_listener *listener, void **state,
			struct weir_error *error)
{
	struct wr_server *server;
	int rc;

	*state = NULL;
	if (!listener->protocol->start)
		return 0;
	server = calloc(1, sizeof *server);
	if (!server)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = listener->protocol->start(net->loop, listener, state, error);
	if (rc < 0) {
		free(server);
		return rc;
	}
	*server = (struct wr_server){listener->protocol, *state, net->servers};
	net->servers = server;
	return 0;
}

void wr_servers_stop(struct wr_net *net)
{
	wr_assert(net->stream_count == 0 && wr_list_is_empty(&net->streams));
	while (net->servers) {
		struct wr_server *server = net->servers;

		net->servers = server->next;
		server->protocol->stop(server->state);
		free(server);
	}
}

int wr_net_listen(struct wr_net *net, struct wr_listener *listener, struct weir_error *error)
{
	struct wr_acceptor *acceptor;
	void *server;
	int rc = start_server(net, listener, &server, error);

	wr_assert_magic(listener, WR_LISTENER_MAGIC);
	wr_assert(net->number < listener->fd_count && listener->fds[net->number] >= 0);
	if (rc < 0)
		return rc;
	acceptor = calloc(1, sizeof *acceptor);
	if (!acceptor)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	acceptor->server = server;
	acceptor->net = net;
	acceptor->listener = listener;
	acceptor->fd = listener->fds[net->number];
	rc = uv_poll_init(net->uv, &acceptor->poll, acceptor->fd);
	if (rc < 0) {
		free(acceptor);
		return wr_error(error, WEIR_ESYS, "%s: %s", listener->text, uv_strerror(rc));
	}
	listener->fds[net->number] = -1;
	acceptor->poll.data = acceptor;
	acceptor->next = net->acceptors;
	net->acceptors = acceptor;
	uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
	return 0;
}

void wr_acceptors_wake(struct wr_net *net)
{
	for (struct wr_acceptor *a = net->acceptors; a; a = a->next) {
		if (!a->resting)
			continue;
		a->resting = false;
		uv_poll_start(&a->poll, UV_READABLE, on_connection);
	}
}

void wr_acceptors_turn_away(struct wr_net *net)
{
	for (struct wr_acceptor *a = net->acceptors; a; a = a->next)
		wr_listener_turn_away(a->listener, a->fd);
}

void wr_acceptors_empty(struct wr_net *net)
{
	for (struct wr_acceptor *a = net->acceptors; a; a = a->next)
		for (int i = 0; i < BACKLOG_TURNS && accept_some(a); i++)
			continue;
}

static void free_acceptor(uv_handle_t *handle)
{
	free(handle->data);
}

void wr_acceptors_close(struct wr_net *net)
{
	while (net->acceptors) {
		struct wr_acceptor *acceptor = net->acceptors;

		net->acceptors = acceptor->next;
		uv_close((uv_handle_t *)&acceptor->poll, free_acceptor);
		close(acceptor->fd);
	}
}
