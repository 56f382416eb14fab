#include "serve/net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "serve/net/client_count.h"
#include "serve/loop.h"

#define ACCEPTS_A_TURN 64 /* so that a flood of connections does not starve those that are open */
#define GROUPS_MAX 256
#define BACKLOG_TURNS 64

/* ---- who may come in ---- */

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

/* Root, ourselves, and unless the socket is our own our group and the one it was given to. The mode
 * of the file says so too, but not on every system and not after somebody changed it. */
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

static void log_refused_peer(const struct wr_listener *listener)
{
	static struct wr_log_gate gate;
	uint64_t held;

	if (wr_log_due(&gate, &held))
		wr_log(WR_LOG_WARN,
		       "%s: a peer who is neither root nor of our user or group was "
		       "turned away",
		       listener->text);
}

static void log_full(const struct wr_listener *listener, struct wr_places *full)
{
	uint64_t held;

	if (wr_log_due(&full->gate, &held))
		wr_log(WR_LOG_WARN,
		       "%s at %s: all %u places for connections%s are taken, a new one was closed "
		       "(and %llu since this was said last); --max-connections sets how many",
		       listener->name, listener->text, full->max,
		       full == listener->places ? " of this port" : "", (unsigned long long)held);
}

static void give_back(struct wr_places *places, const struct wr_places *until)
{
	for (; places != until; places = places->within)
		__atomic_fetch_sub(&places->used, 1, __ATOMIC_RELAXED);
}

/* In the port first, then in all; NULL, or where there was none. */
static struct wr_places *take_place(struct wr_places *first)
{
	for (struct wr_places *p = first; p; p = p->within)
		if (__atomic_add_fetch(&p->used, 1, __ATOMIC_RELAXED) > p->max) {
			give_back(first, p->within);
			return p;
		}
	return NULL;
}

bool wr_listener_admit(struct wr_listener *listener, int fd)
{
	struct wr_places *full;

	if (listener->endpoint.kind == WR_ENDPOINT_UNIX && !peer_allowed(listener, fd)) {
		log_refused_peer(listener);
		return false;
	}
	full = take_place(listener->places);
	if (full)
		log_full(listener, full);
	return !full;
}

void wr_listener_leave(struct wr_listener *listener)
{
	give_back(listener->places, NULL);
}

/* ---- accepting ---- */

static void log_crowd(const struct wr_listener *listener, const struct wr_address *client)
{
	char text[WR_ADDRESS_TEXT];
	uint64_t held;

	if (!wr_log_due(&listener->crowd->gate, &held))
		return;
	text[wr_address_text(client, wr_address_is_v4(client) ? WR_ADDRESS_WHOLE : 64, text)] = 0;
	wr_log(WR_LOG_WARN,
	       "%s at %s: %s has %u connections, a new one was closed (and %llu since this was "
	       "said last); --max-connections-per-address sets how many",
	       listener->name, listener->text, text, listener->crowd->max,
	       (unsigned long long)held);
}

static void take(struct wr_acceptor *acceptor, int fd, const struct sockaddr *peer)
{
	struct wr_listener *listener = acceptor->listener;
	struct wr_address client;
	bool counted = false;

	if (!wr_listener_admit(listener, fd)) {
		close(fd);
	} else if (listener->crowd && !wr_crowd_enter(listener->crowd, peer, &client, &counted)) {
		log_crowd(listener, &client);
		wr_listener_leave(listener);
		close(fd);
	} else {
		wr_stream_accept(acceptor->loop, listener, acceptor->server, fd,
				 counted ? &client : NULL);
	}
}

/* No file descriptors, or no memory: the connection stays in the backlog, and the socket would be
 * readable for ever. It is left alone until the next sweep. */
static void rest(struct wr_acceptor *acceptor)
{
	static struct wr_log_gate gate;
	int saved = errno;
	uint64_t held;

	uv_poll_stop(&acceptor->poll);
	acceptor->resting = true;
	if (wr_log_due(&gate, &held))
		wr_log(WR_LOG_WARN,
		       "%s: cannot accept connections: %s; raise the limit of open files (ulimit "
		       "-n, LimitNOFILE=) or lower --max-connections",
		       acceptor->listener->text, strerror(saved));
}

/* False: there was no more. */
static bool accept_some(struct wr_acceptor *acceptor)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
		socklen_t len = sizeof peer;
		int fd = accept4(acceptor->fd, (struct sockaddr *)&peer, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take(acceptor, fd, (const struct sockaddr *)&peer);
			continue;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return false;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			rest(acceptor);
			return false;
		}
		/* the client has gone, or the network says something about it */
	}
	return true;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	accept_some(poll->data);
}

/* Makes what the streams of this listener share, if their protocol has that. */
static int start_server(struct wr_loop *loop, struct wr_listener *listener, void **state,
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
	rc = listener->protocol->start(loop, listener, state, error);
	if (rc < 0) {
		free(server);
		return rc;
	}
	*server = (struct wr_server){listener->protocol, *state, loop->servers};
	loop->servers = server;
	return 0;
}

void wr_servers_stop(struct wr_loop *loop)
{
	while (loop->servers) {
		struct wr_server *server = loop->servers;

		loop->servers = server->next;
		server->protocol->stop(server->state);
		free(server);
	}
}

int wr_loop_listen(struct wr_loop *loop, struct wr_listener *listener, struct weir_error *error)
{
	struct wr_acceptor *acceptor;
	void *server;
	int rc = start_server(loop, listener, &server, error);

	if (rc < 0)
		return rc;
	acceptor = calloc(1, sizeof *acceptor);
	if (!acceptor)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	acceptor->server = server;
	acceptor->loop = loop;
	acceptor->listener = listener;
	acceptor->fd = listener->fds[loop->number];
	rc = uv_poll_init(&loop->uv, &acceptor->poll, acceptor->fd);
	if (rc < 0) {
		free(acceptor);
		return wr_error(error, WEIR_ESYS, "%s: %s", listener->text, uv_strerror(rc));
	}
	listener->fds[loop->number] = -1;
	acceptor->poll.data = acceptor;
	acceptor->next = loop->acceptors;
	loop->acceptors = acceptor;
	uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
	return 0;
}

void wr_acceptors_wake(struct wr_loop *loop)
{
	for (struct wr_acceptor *a = loop->acceptors; a; a = a->next) {
		if (!a->resting)
			continue;
		a->resting = false;
		uv_poll_start(&a->poll, UV_READABLE, on_connection);
	}
}

void wr_acceptors_turn_away(struct wr_loop *loop)
{
	for (struct wr_acceptor *a = loop->acceptors; a; a = a->next)
		wr_listener_turn_away(a->listener, a->fd);
}

/* Who is in the backlog has connected, and would be cut off by closing the socket. */
void wr_acceptors_empty(struct wr_loop *loop)
{
	for (struct wr_acceptor *a = loop->acceptors; a; a = a->next)
		for (int i = 0; i < BACKLOG_TURNS && accept_some(a); i++)
			continue;
}

static void free_acceptor(uv_handle_t *handle)
{
	free(handle->data);
}

void wr_acceptors_close(struct wr_loop *loop)
{
	while (loop->acceptors) {
		struct wr_acceptor *acceptor = loop->acceptors;

		loop->acceptors = acceptor->next;
		uv_close((uv_handle_t *)&acceptor->poll, free_acceptor);
		close(acceptor->fd);
	}
}
