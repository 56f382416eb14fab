/* Connecting to Redis: name lookup, each address in turn, TLS handshake. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "serve/loop.h"
#include "serve/fleet/link_impl.h"
#include "serve/fleet/tls.h"

#define KEEPALIVE_S 15

static void on_event(uv_poll_t *poll, int status, int events);

void wr_redis_link_poll(struct wr_redis_link *self, int events)
{
	struct wr_redis_socket *socket = self->socket;

	if (socket->polled == events)
		return;
	socket->polled = events;
	uv_poll_start(&socket->poll, events, on_event);
}

static void try_next(struct wr_redis_link *self, const char *why);

static void report_up(struct wr_redis_link *self)
{
	struct wr_loop *loop = self->owner->loop;

	self->stage = WR_REDIS_OPEN;
	wr_redis_link_poll(self, UV_READABLE);
	self->inside = true;
	wr_central_link_up(self->link, wr_loop_now_ns(loop), wr_loop_mono_ns(loop));
	if (wr_redis_link_leave(self))
		wr_redis_link_dirty(self->owner, self->link);
}

static void shake_hands(struct wr_redis_link *self)
{
	const struct wr_redis_loop *owner = self->owner;
	int rc;

	ERR_clear_error();
	rc = SSL_do_handshake(self->tls);
	if (rc == 1) {
		if (wr_redis_tls_fits(self->tls, &self->link->at, &owner->target))
			report_up(self);
		else
			wr_redis_link_fail(self, "the certificate does not match the host name");
		return;
	}
	switch (SSL_get_error(self->tls, rc)) {
	case SSL_ERROR_WANT_READ:
		wr_redis_link_poll(self, UV_READABLE);
		break;
	case SSL_ERROR_WANT_WRITE:
		wr_redis_link_poll(self, UV_WRITABLE);
		break;
	default:
		wr_redis_link_fail(self, wr_redis_tls_failure(self->tls));
	}
}

static void finish_connecting(struct wr_redis_link *self)
{
	if (!self->link->tls) {
		report_up(self);
		return;
	}
	self->stage = WR_REDIS_HANDSHAKE;
	self->tls = wr_redis_tls_session(self->owner->tls, &self->link->at, self->socket->fd);
	if (self->tls)
		shake_hands(self);
	else
		wr_redis_link_fail(self, "out of memory");
}

static int socket_error(const struct wr_redis_link *self)
{
	int error = 0;
	socklen_t len = sizeof error;

	if (getsockopt(self->socket->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return errno;
	return error;
}

static void check_connected(struct wr_redis_link *self)
{
	int error = socket_error(self);

	if (error == 0) {
		finish_connecting(self);
		return;
	}
	wr_redis_link_drop_socket(self);
	try_next(self, strerror(error));
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct wr_redis_link *self = ((struct wr_redis_socket *)poll->data)->self;

	if (!self)
		return;
	if (self->stage == WR_REDIS_CONNECTING) {
		check_connected(self);
	} else if (status < 0) { /* libuv does not report the cause */
		wr_redis_link_break(self, "the connection was reset");
	} else if (self->stage == WR_REDIS_HANDSHAKE) {
		shake_hands(self);
	} else {
		wr_redis_link_event(self, events);
	}
}

static struct wr_redis_socket *make_socket(struct wr_redis_link *self, int family)
{
	struct wr_redis_socket *made = calloc(1, sizeof *made);
	int on = 1, idle = KEEPALIVE_S;

	if (!made)
		return NULL;
	made->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (made->fd < 0) {
		free(made);
		return NULL;
	}
	if (family != AF_UNIX) {
		setsockopt(made->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(made->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
		setsockopt(made->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	}
	if (uv_poll_init(&self->owner->loop->uv, &made->poll, made->fd) < 0) {
		close(made->fd);
		free(made);
		return NULL;
	}
	made->poll.data = made;
	made->self = self;
	return made;
}

/* Begins to connect to an address. If that is not possible, sets errno and returns false. */
static bool begin_connecting(struct wr_redis_link *self, const struct sockaddr *address,
			     socklen_t len)
{
	int why;

	self->socket = make_socket(self, address->sa_family);
	if (!self->socket)
		return false;
	self->stage = WR_REDIS_CONNECTING;
	if (connect(self->socket->fd, address, len) == 0 || errno == EINPROGRESS) {
		wr_redis_link_poll(self, UV_WRITABLE);
		return true;
	}
	why = errno;
	wr_redis_link_drop_socket(self);
	errno = why;
	return false;
}

static void connect_unix(struct wr_redis_link *self)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%.*s", WR_UNIX_PATH_MAX,
		 self->link->at.host);
	/* Fails at once if the backlog of the Unix socket is full. */
	if (!begin_connecting(self, (const struct sockaddr *)&address, sizeof address))
		wr_redis_link_fail(self, strerror(errno));
}

/* Tries the remaining addresses of the host name until a connection can be attempted. */
static void try_next(struct wr_redis_link *self, const char *why)
{
	while (self->tried < self->addresses.count) {
		struct sockaddr *address = &self->addresses.items[self->tried++].any;
		bool four = address->sa_family == AF_INET;

		if (four)
			((struct sockaddr_in *)(void *)address)->sin_port =
				htons(self->link->at.port);
		else
			((struct sockaddr_in6 *)(void *)address)->sin6_port =
				htons(self->link->at.port);
		if (begin_connecting(self, address,
				     four ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6)))
			return;
		why = strerror(errno);
	}
	wr_redis_link_fail(self, why);
}

static void on_found(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		     const char *why)
{
	struct wr_redis_link *self =
		(struct wr_redis_link *)((char *)wait - offsetof(struct wr_redis_link, name));

	if (!addresses) {
		wr_redis_link_fail(self, why);
		return;
	}
	/* Each attempt begins with another address, because the first address may be unreachable
	 * and the timeout may end the attempt before the second address is tried. */
	for (unsigned i = 0; i < addresses->count; i++)
		self->addresses.items[i] =
			addresses->items[(i + self->owner->attempts) % addresses->count];
	self->addresses.count = addresses->count;
	self->owner->attempts++;
	try_next(self, "the name has no address");
}

static void connect_address(struct wr_redis_link *self)
{
	const struct wr_endpoint *at = &self->link->at;

	self->addresses.count = 1;
	if (at->kind == WR_ENDPOINT_V4) {
		self->addresses.items[0].v4.sin_family = AF_INET;
		inet_pton(AF_INET, at->host, &self->addresses.items[0].v4.sin_addr);
	} else {
		self->addresses.items[0].v6.sin6_family = AF_INET6;
		inet_pton(AF_INET6, at->host, &self->addresses.items[0].v6.sin6_addr);
	}
	try_next(self, "");
}

void wr_redis_link_open(void *context, struct wr_central_link *link)
{
	struct wr_redis_loop *owner = context;
	struct wr_loop *loop = owner->loop;
	struct wr_redis_link *self = calloc(1, sizeof *self);

	if (!self || owner->closing) {
		free(self);
		link->data = NULL;
		wr_central_link_down(link, "out of memory", wr_loop_now_ns(loop),
				     wr_loop_mono_ns(loop));
		return;
	}
	self->owner = owner;
	self->link = link;
	self->stage = WR_REDIS_NAMING;
	self->name.found = on_found;
	self->next = owner->links;
	self->back = &owner->links;
	if (self->next)
		self->next->back = &self->next;
	owner->links = self;
	link->data = self;
	wr_redis_loop_password(owner);
	if (link->at.kind == WR_ENDPOINT_UNIX)
		connect_unix(self);
	else if (link->at.kind == WR_ENDPOINT_NAME)
		wr_names_find(owner->names, link->at.host, &self->name);
	else
		connect_address(self);
}
