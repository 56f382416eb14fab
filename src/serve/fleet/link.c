/* Sends and receives the bytes of a connection to Redis, and closes the connection. Called by the
 * loop and by its struct wr_central. */
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/tls.h"
#include "base/assert.h"
#include "serve/loop.h"
#include "serve/fleet/link_impl.h"

/* Maximum number of consecutive reads from a connection without TLS. Then the loop handles other
 * events first, so that a busy Redis server does not delay the clients. */
#define READS_A_TURN 4
#define SEAL_BYTES 16384

/* ---- closing ---- */

static void free_socket(uv_handle_t *handle)
{
	free(handle->data);
}

void wr_serve_redis_link_drop_socket(struct wr_serve_redis_link *self)
{
	struct wr_serve_redis_socket *socket = self->socket;

	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	if (!socket)
		return;
	SSL_free(self->tls);
	self->tls = NULL;
	self->socket = NULL;
	socket->self = NULL;
	uv_close((uv_handle_t *)&socket->poll, free_socket);
	close(socket->fd);
}

/* Returns the loop's struct wr_serve_redis_loop for this node's region. Its list `dirty` is for all
 * links of the loop, even for links to other regions. */
static struct wr_serve_redis_loop *home_of(const struct wr_serve_redis_link *self)
{
	return self->owner->home ? self->owner->home : self->owner;
}

/* Closes the link. The memory of the link is freed now, or when the current callback returns. */
static void destroy_link(struct wr_serve_redis_link *self)
{
	struct wr_serve_redis_loop *owner = self->owner;

	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	wr_assert(self->link && self->link->data == self);
	if (owner->next_link == &self->in_links)
		owner->next_link = wr_list_after(&owner->links, owner->next_link);
	wr_list_remove(&self->in_links);
	wr_list_remove(&self->in_dirty);
	wr_names_leave(&self->name);
	wr_serve_redis_link_drop_socket(self);
	self->link->data = NULL;
	self->link = NULL;
	if (self->inside)
		return;
	self->magic = 0;
	free(self);
}

void wr_serve_redis_link_close(void *context, struct wr_central_link *link)
{
	(void)context;
	if (link->data)
		destroy_link(link->data);
}

void wr_serve_redis_link_fail(struct wr_serve_redis_link *self, const char *why)
{
	struct wr_loop *loop = self->owner->loop;
	struct wr_central_link *link = self->link;

	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	destroy_link(self);
	wr_central_link_down(link, why, wr_loop_now_ns(loop), wr_loop_mono_ns(loop));
}

bool wr_serve_redis_link_leave(struct wr_serve_redis_link *self)
{
	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	wr_assert(self->inside);
	self->inside = false;
	if (self->link)
		return true;
	self->magic = 0;
	free(self);
	return false;
}

/* ---- sending and reading ---- */

/* Sends bytes. Returns the number of bytes sent, 0 if the caller has to try again later, or a
 * negative number if the connection is lost. */
static ssize_t send_bytes(struct wr_serve_redis_link *self, const uint8_t *bytes, size_t len)
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

/* Reads bytes. Returns their number, or 0 if no bytes have arrived. If the connection has ended,
 * returns a negative number and sets *why to the reason. */
static ssize_t read_bytes(struct wr_serve_redis_link *self, uint8_t *bytes, const char **why)
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
		*why = wr_tls_failure(self->tls);
		return -1;
	}
}

/* Reads replies and passes them to the link's struct wr_central. With TLS, reads until OpenSSL has
 * no more bytes, because poll does not report bytes that OpenSSL has already decrypted. Returns
 * false if the link was freed. */
static bool receive_replies(struct wr_serve_redis_link *self)
{
	struct wr_loop *loop = self->owner->loop;

	for (int i = 0; i < READS_A_TURN || self->tls; i++) {
		const char *why;
		ssize_t n = read_bytes(self, loop->net.input, &why);

		if (n < 0)
			wr_serve_redis_link_fail(self, why);
		if (n <= 0)
			return n == 0;
		self->inside = true;
		wr_central_link_input(self->link, loop->net.input, (size_t)n, wr_loop_now_ns(loop),
				      wr_loop_mono_ns(loop));
		if (!wr_serve_redis_link_leave(self))
			return false;
		if (!self->tls && n < (ssize_t)WR_READ_BYTES)
			return true;
	}
	return true;
}

void wr_serve_redis_link_break(struct wr_serve_redis_link *self, const char *why)
{
	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	if (self->stage != WR_REDIS_OPEN || receive_replies(self))
		wr_serve_redis_link_fail(self, why);
}

/* Sends the output of the link. Returns false if the connection failed; `self` is freed then. */
static bool write_out(struct wr_serve_redis_link *self)
{
	const uint8_t *bytes;
	size_t len;

	self->unsent = false;
	while (wr_central_link_output(self->link, &bytes, &len)) {
		ssize_t n = send_bytes(self, bytes, len);

		if (n < 0) {
			wr_serve_redis_link_break(self, strerror(errno));
			return false;
		}
		if (n > 0)
			wr_central_link_sent(self->link, (size_t)n);
		if (n == 0 || (!self->tls && (size_t)n < len)) {
			self->unsent = true;
			break;
		}
	}
	wr_serve_redis_link_poll(self, UV_READABLE | (self->unsent ? UV_WRITABLE : 0));
	return true;
}

void wr_serve_redis_link_event(struct wr_serve_redis_link *self, int events)
{
	wr_assert_magic(self, WR_REDIS_LINK_MAGIC);
	wr_assert(self->stage == WR_REDIS_OPEN && self->socket);
	if (self->unsent && !write_out(self))
		return;
	if (events & UV_READABLE)
		receive_replies(self);
}

void wr_serve_redis_links_read(struct wr_serve_redis_loop *owner)
{
	owner->next_link = wr_list_first(&owner->links);
	while (owner->next_link) {
		struct wr_serve_redis_link *self =
			wr_container_of(owner->next_link, struct wr_serve_redis_link, in_links);

		owner->next_link = wr_list_after(&owner->links, owner->next_link);
		if (self->stage == WR_REDIS_OPEN)
			receive_replies(self);
	}
}

void wr_serve_redis_link_dirty(void *context, struct wr_central_link *link)
{
	struct wr_serve_redis_link *self = link->data;

	wr_assert(!self || self->magic == WR_REDIS_LINK_MAGIC);
	(void)context;
	if (self && !wr_list_holds(&self->in_dirty))
		wr_list_add_first(&home_of(self)->dirty, &self->in_dirty);
}

void wr_serve_redis_flush(struct wr_loop *loop)
{
	struct wr_list *first;

	while (loop->redis && (first = wr_list_pop(&loop->redis->dirty))) {
		struct wr_serve_redis_link *self =
			wr_container_of(first, struct wr_serve_redis_link, in_dirty);

		if (self->stage == WR_REDIS_OPEN && !self->unsent)
			write_out(self);
	}
}
