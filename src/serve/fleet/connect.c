/* Connects to Redis: looks the name up, tries each address in turn, and does the TLS handshake.
 * Called by central through struct wr_central_host. */
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/tls.h"
#include "base/assert.h"
#include "net/tls_client.h"
#include "serve/loop.h"
#include "serve/fleet/link_impl.h"

static void on_event(uv_poll_t *poll, int status, int events);

void wr_serve_redis_link_poll(struct wr_serve_redis_link *self, int events)
{
	struct wr_serve_redis_socket *socket = self->socket;

	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	wr_assert(socket);
	if (socket->polled == events)
		return;
	socket->polled = events;
	uv_poll_start(&socket->poll, events, on_event);
}

static void try_next(struct wr_serve_redis_link *self, const char *why);

static void report_up(struct wr_serve_redis_link *self)
{
	struct wr_loop *loop = self->owner->loop;

	self->stage = WR_REDIS_OPEN;
	wr_serve_redis_link_poll(self, UV_READABLE);
	self->inside = true;
	wr_central_link_up(self->link, wr_loop_now_ns(loop), wr_loop_mono_ns(loop));
	if (wr_serve_redis_link_leave(self))
		wr_serve_redis_link_dirty(self->owner, self->link);
}

/* Returns whether the server's certificate is valid for this endpoint. If the address comes from a
 * Sentinel or a cluster, a certificate for a host name of the URL is accepted too. */
static bool certificate_fits(const SSL *session, const struct wr_endpoint *at,
			     const struct wr_redis_target *target)
{
	if (wr_tls_client_matches(session, at))
		return true;
	if (at->kind == WR_ENDPOINT_NAME || target->kind == WR_REDIS_SINGLE)
		return false;
	for (size_t i = 0; i < target->at.count; i++)
		if (target->at.items[i].kind == WR_ENDPOINT_NAME &&
		    wr_tls_client_matches(session, &target->at.items[i]))
			return true;
	return false;
}

static void shake_hands(struct wr_serve_redis_link *self)
{
	const struct wr_serve_redis_loop *owner = self->owner;
	int rc;

	ERR_clear_error();
	rc = SSL_do_handshake(self->tls);
	if (rc == 1) {
		if (certificate_fits(self->tls, &self->link->at, &owner->target))
			report_up(self);
		else
			wr_serve_redis_link_fail(self,
						 "the certificate does not match the host name");
		return;
	}
	switch (SSL_get_error(self->tls, rc)) {
	case SSL_ERROR_WANT_READ:
		wr_serve_redis_link_poll(self, UV_READABLE);
		break;
	case SSL_ERROR_WANT_WRITE:
		wr_serve_redis_link_poll(self, UV_WRITABLE);
		break;
	default:
		wr_serve_redis_link_fail(self, wr_tls_failure(self->tls));
	}
}

static void finish_connecting(struct wr_serve_redis_link *self)
{
	if (!self->link->tls) {
		report_up(self);
		return;
	}
	self->stage = WR_REDIS_HANDSHAKE;
	self->tls = wr_tls_client_session(self->owner->tls, &self->link->at, self->socket->fd);
	if (self->tls)
		shake_hands(self);
	else
		wr_serve_redis_link_fail(self, "out of memory");
}

static void check_connected(struct wr_serve_redis_link *self)
{
	int error = wr_dial_result(self->socket->fd);

	if (error == 0) {
		finish_connecting(self);
		return;
	}
	wr_serve_redis_link_drop_socket(self);
	try_next(self, strerror(error));
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct wr_serve_redis_link *self = ((struct wr_serve_redis_socket *)poll->data)->self;

	if (!self)
		return;
	if (self->stage == WR_REDIS_CONNECTING) {
		check_connected(self);
	} else if (status < 0) {
		/* libuv does not report why the connection failed, so this reason is given for
		 * every failure. */
		wr_serve_redis_link_break(self, "the connection was reset");
	} else if (self->stage == WR_REDIS_HANDSHAKE) {
		shake_hands(self);
	} else {
		wr_serve_redis_link_event(self, events);
	}
}

/* Begins to connect to an address. Returns false and sets errno if that fails at once. */
static bool begin_connecting(struct wr_serve_redis_link *self, const struct sockaddr *address)
{
	struct wr_serve_redis_socket *made = calloc(1, sizeof *made);
	int fd = made ? wr_dial_begin(address) : -1;

	if (fd < 0 || uv_poll_init(&self->owner->loop->uv, &made->poll, fd) < 0) {
		int why = errno;

		if (fd >= 0)
			close(fd);
		free(made);
		errno = why;
		return false;
	}
	made->fd = fd;
	made->poll.data = made;
	made->self = self;
	self->socket = made;
	self->stage = WR_REDIS_CONNECTING;
	wr_serve_redis_link_poll(self, UV_WRITABLE);
	return true;
}

/* Begins to connect to the next address of the host name. If that fails at once, tries the
 * addresses after it. If no address remains, closes the link and reports the latest error to
 * central. `why` is the error of the previous address. */
static void try_next(struct wr_serve_redis_link *self, const char *why)
{
	while (self->tried < self->addresses.count) {
		if (begin_connecting(self, &self->addresses.items[self->tried++].any))
			return;
		why = strerror(errno);
	}
	wr_serve_redis_link_fail(self, why);
}

static void on_found(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		     const struct weir_error *error)
{
	struct wr_serve_redis_link *self = wr_container_of(wait, struct wr_serve_redis_link, name);

	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	wr_assert(self->stage == WR_REDIS_NAMING);
	if (!addresses) {
		wr_serve_redis_link_fail(self, error->text);
		return;
	}
	/* Each time the name is looked up, another address is tried first. Otherwise, if the first
	 * address did not answer, the timeout could always end before the second address is
	 * tried. */
	for (unsigned i = 0; i < addresses->count; i++) {
		union wr_dial_address *to = &self->addresses.items[i];

		*to = addresses->items[(i + self->owner->attempts) % addresses->count];
		*(to->any.sa_family == AF_INET ? &to->v4.sin_port : &to->v6.sin6_port) =
			htons(self->link->at.port);
	}
	self->addresses.count = addresses->count;
	self->owner->attempts++;
	try_next(self, "the name has no address");
}

void wr_serve_redis_link_open(void *context, struct wr_central_link *link)
{
	struct wr_serve_redis_loop *owner = context;
	struct wr_loop *loop = owner->loop;
	struct wr_serve_redis_link *self = calloc(1, sizeof *self);

	wr_assert(!link->data);
	if (!self || owner->closing) {
		free(self);
		link->data = NULL;
		wr_central_link_down(link, "out of memory", wr_loop_now_ns(loop),
				     wr_loop_mono_ns(loop));
		return;
	}
	self->magic = WR_REDIS_LINK_MAGIC;
	self->owner = owner;
	self->link = link;
	self->stage = WR_REDIS_NAMING;
	self->name.found = on_found;
	wr_list_add_first(&owner->links, &self->in_links);
	link->data = self;
	wr_serve_redis_loop_password(owner);
	if (link->at.kind == WR_ENDPOINT_NAME) {
		wr_names_find(owner->names, link->at.host, &self->name);
		return;
	}
	wr_dial_address(&link->at, &self->addresses.items[0]);
	self->addresses.count = 1;
	try_next(self, "");
}
