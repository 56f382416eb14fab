#include "serve/redis_link.h"

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
#include "serve/redis_tls.h"

#define READS_A_TURN 4 /* so that one server does not starve clients */
#define SEAL_BYTES 16384
#define KEEPALIVE_S 15

enum stage {
	NAMING,
	CONNECTING,
	HANDSHAKE,
	OPEN,
};

/* A socket and its handle, which lives until libuv has closed it. */
struct socket {
	uv_poll_t poll;
	struct wr_redis_link *self; /* NULL: given up */
	int fd;
	int polled;
};

struct wr_redis_link {
	struct wr_redis_loop *owner;
	struct wr_link *link; /* NULL: closed while it was inside a call, freed at its end */
	enum stage stage;
	struct wr_name_wait name;
	struct wr_addresses addresses;
	unsigned tried;
	struct socket *socket;
	SSL *tls;
	bool unsent; /* the kernel takes no more for now */
	bool dirty;  /* in the loop's list */
	bool inside; /* in a call from which it may be closed */
	struct wr_redis_link *dirty_next;
	struct wr_redis_link *next, **back; /* of the loop's */
};

/* ---- the end ---- */

static void free_socket(uv_handle_t *handle)
{
	free(handle->data);
}

static void drop_socket(struct wr_redis_link *self)
{
	struct socket *socket = self->socket;

	if (!socket)
		return;
	SSL_free(self->tls);
	self->tls = NULL;
	self->socket = NULL;
	socket->self = NULL;
	uv_poll_stop(&socket->poll);
	close(socket->fd);
	uv_close((uv_handle_t *)&socket->poll, free_socket);
}

static void clean(struct wr_redis_link *self)
{
	struct wr_redis_link **at = &self->owner->dirty;

	for (; self->dirty && *at; at = &(*at)->dirty_next)
		if (*at == self) {
			*at = self->dirty_next;
			self->dirty = false;
			break;
		}
}

/* Nothing comes from it any more. The memory stays as long as somebody has it in hand. */
static void destroy(struct wr_redis_link *self)
{
	if (self->owner->next_link == self)
		self->owner->next_link = self->next;
	*self->back = self->next;
	if (self->next)
		self->next->back = self->back;
	wr_names_leave(&self->name);
	drop_socket(self);
	clean(self);
	self->link->data = NULL;
	self->link = NULL;
	if (!self->inside)
		free(self);
}

void wr_redis_link_close(void *context, struct wr_link *link)
{
	(void)context;
	if (link->data)
		destroy(link->data);
}

static void fail(struct wr_redis_link *self, const char *why)
{
	struct wr_loop *loop = self->owner->loop;
	struct wr_link *link = self->link;

	destroy(self);
	wr_link_down(link, why, wr_loop_now_ns(loop), wr_loop_mono_ns(loop));
}

/* A call from which the link may be closed; false: it was, and is gone now. */
static bool leave(struct wr_redis_link *self)
{
	self->inside = false;
	if (self->link)
		return true;
	free(self);
	return false;
}

/* ---- bytes ---- */

static void on_event(uv_poll_t *poll, int status, int events);

static void poll_for(struct wr_redis_link *self, int events)
{
	struct socket *socket = self->socket;

	if (socket->polled == events)
		return;
	socket->polled = events;
	uv_poll_start(&socket->poll, events, on_event);
}

/* So many bytes were taken; 0: not now; below 0: lost. */
static ssize_t put(struct wr_redis_link *self, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	if (!self->tls) {
		n = send(self->socket->fd, bytes, len, MSG_NOSIGNAL);
		return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : n;
	}
	ERR_clear_error();
	n = SSL_write(self->tls, bytes, (int)(len < SEAL_BYTES ? len : SEAL_BYTES));
	if (n > 0)
		return n;
	switch (SSL_get_error(self->tls, (int)n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	default:
		return -1;
	}
}

/* So many bytes are there; 0: none yet; below 0: the end, and `why`. */
static ssize_t get(struct wr_redis_link *self, uint8_t *bytes, const char **why)
{
	ssize_t n;

	*why = "the server closed the connection";
	if (!self->tls) {
		n = recv(self->socket->fd, bytes, WR_READ_BYTES, 0);
		if (n > 0)
			return n;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return 0;
		if (n < 0)
			*why = strerror(errno);
		return -1;
	}
	ERR_clear_error();
	n = SSL_read(self->tls, bytes, WR_READ_BYTES);
	if (n > 0)
		return n;
	switch (SSL_get_error(self->tls, (int)n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		return -1;
	default:
		*why = wr_redis_tls_failure(self->tls);
		return -1;
	}
}

/* What OpenSSL has decrypted already no poll tells of: with TLS it is read to its end. False: it
 * ended, and the link is gone. */
static bool receive(struct wr_redis_link *self)
{
	struct wr_loop *loop = self->owner->loop;

	for (int i = 0; i < READS_A_TURN || self->tls; i++) {
		const char *why;
		ssize_t n = get(self, loop->input, &why);

		if (n < 0)
			fail(self, why);
		if (n <= 0)
			return n == 0;
		self->inside = true;
		wr_link_input(self->link, loop->input, (size_t)n, wr_loop_now_ns(loop),
			      wr_loop_mono_ns(loop));
		if (!leave(self))
			return false;
		if (!self->tls && n < (ssize_t)WR_READ_BYTES)
			return true;
	}
	return true;
}

/* A connection that broke off may have said why before that. */
static void break_off(struct wr_redis_link *self, const char *why)
{
	if (self->stage != OPEN || receive(self))
		fail(self, why);
}

/* False: it failed, and is gone. */
static bool write_out(struct wr_redis_link *self)
{
	const uint8_t *bytes;
	size_t len;

	self->unsent = false;
	while (wr_link_output(self->link, &bytes, &len)) {
		ssize_t n = put(self, bytes, len);

		if (n < 0) {
			break_off(self, strerror(errno));
			return false;
		}
		if (n > 0)
			wr_link_sent(self->link, (size_t)n);
		if (n == 0 || (!self->tls && (size_t)n < len)) {
			self->unsent = true;
			break;
		}
	}
	poll_for(self, UV_READABLE | (self->unsent ? UV_WRITABLE : 0));
	return true;
}

void wr_redis_links_read(struct wr_redis_loop *owner)
{
	owner->next_link = owner->links;
	while (owner->next_link) {
		struct wr_redis_link *self = owner->next_link;

		owner->next_link = self->next;
		if (self->stage == OPEN)
			receive(self);
	}
}

void wr_redis_link_dirty(void *context, struct wr_link *link)
{
	struct wr_redis_link *self = link->data;

	(void)context;
	if (!self || self->dirty)
		return;
	self->dirty = true;
	self->dirty_next = self->owner->dirty;
	self->owner->dirty = self;
}

void wr_redis_flush(struct wr_loop *loop)
{
	struct wr_redis_loop *owner = loop->redis;

	while (owner && owner->dirty) {
		struct wr_redis_link *self = owner->dirty;

		owner->dirty = self->dirty_next;
		self->dirty = false;
		if (self->stage == OPEN && !self->unsent)
			write_out(self);
	}
}

/* ---- connecting ---- */

static void try_next(struct wr_redis_link *self, const char *why);

static void up(struct wr_redis_link *self)
{
	struct wr_loop *loop = self->owner->loop;

	self->stage = OPEN;
	poll_for(self, UV_READABLE);
	self->inside = true;
	wr_link_up(self->link, wr_loop_now_ns(loop), wr_loop_mono_ns(loop));
	if (leave(self))
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
			up(self);
		else
			fail(self, "its certificate is for another name");
		return;
	}
	switch (SSL_get_error(self->tls, rc)) {
	case SSL_ERROR_WANT_READ:
		poll_for(self, UV_READABLE);
		break;
	case SSL_ERROR_WANT_WRITE:
		poll_for(self, UV_WRITABLE);
		break;
	default:
		fail(self, wr_redis_tls_failure(self->tls));
	}
}

static void connected(struct wr_redis_link *self)
{
	if (!self->link->tls) {
		up(self);
		return;
	}
	self->stage = HANDSHAKE;
	self->tls = wr_redis_tls_session(self->owner->tls, &self->link->at, self->socket->fd);
	if (self->tls)
		shake_hands(self);
	else
		fail(self, "out of memory");
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
		connected(self);
		return;
	}
	drop_socket(self);
	try_next(self, strerror(error));
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct wr_redis_link *self = ((struct socket *)poll->data)->self;

	if (!self)
		return;
	if (self->stage == CONNECTING) {
		check_connected(self);
	} else if (status < 0) { /* all that libuv tells of an error */
		break_off(self, "the connection was reset");
	} else if (self->stage == HANDSHAKE) {
		shake_hands(self);
	} else {
		if (self->unsent && !write_out(self))
			return;
		if (events & UV_READABLE)
			receive(self);
	}
}

static struct socket *make_socket(struct wr_redis_link *self, int family)
{
	struct socket *made = calloc(1, sizeof *made);
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

/* False: not this one, and errno. */
static bool begin_connecting(struct wr_redis_link *self, const struct sockaddr *address,
			     socklen_t len)
{
	int why;

	self->socket = make_socket(self, address->sa_family);
	if (!self->socket)
		return false;
	self->stage = CONNECTING;
	if (connect(self->socket->fd, address, len) == 0 || errno == EINPROGRESS) {
		poll_for(self, UV_WRITABLE);
		return true;
	}
	why = errno;
	drop_socket(self);
	errno = why;
	return false;
}

static void connect_unix(struct wr_redis_link *self)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%.*s", WR_UNIX_PATH_MAX,
		 self->link->at.host);
	/* A Unix socket that is full says so at once. */
	if (!begin_connecting(self, (const struct sockaddr *)&address, sizeof address))
		fail(self, strerror(errno));
}

/* The addresses of a name one after the other, until one of them takes us. */
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
	fail(self, why);
}

static void on_found(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		     const char *why)
{
	struct wr_redis_link *self =
		(struct wr_redis_link *)((char *)wait - offsetof(struct wr_redis_link, name));

	if (!addresses) {
		fail(self, why);
		return;
	}
	/* Each attempt begins with another one: the first may be one that leads nowhere, and there
	 * is no time to find that out. */
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

void wr_redis_link_open(void *context, struct wr_link *link)
{
	struct wr_redis_loop *owner = context;
	struct wr_loop *loop = owner->loop;
	struct wr_redis_link *self = calloc(1, sizeof *self);

	if (!self || owner->closing) {
		free(self);
		link->data = NULL;
		wr_link_down(link, "out of memory", wr_loop_now_ns(loop), wr_loop_mono_ns(loop));
		return;
	}
	self->owner = owner;
	self->link = link;
	self->stage = NAMING;
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
