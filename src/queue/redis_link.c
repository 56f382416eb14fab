/* A blocking connection to Redis with timeouts. Called by the other redis_*.c files. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "queue/redis_backend.h"

#define OUT_MAX ((size_t)64 << 20)
#define REPLY_MAX ((size_t)64 << 20)
#define PIECE ((size_t)64 << 10)
#define NO_CONNECTION "no connection to the queue's Redis at %s"

int wr_queue_redis_link_init(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			     const struct wr_queue_opts *opts, struct weir_error *error)
{
	*link = (struct wr_queue_redis_link){.fd = -1, .timeout_us = opts->timeout_us};
	wr_commands_init(&link->out, OUT_MAX);
	if (!target->tls)
		return 0;
	link->tls = wr_queue_redis_tls_new(&opts->tls, error);
	return link->tls ? 0 : WEIR_EINVAL;
}

void wr_queue_redis_link_free(struct wr_queue_redis_link *link)
{
	wr_queue_redis_disconnect(link);
	wr_commands_free(&link->out);
	SSL_CTX_free(link->tls);
}

void wr_queue_redis_disconnect(struct wr_queue_redis_link *link)
{
	SSL_free(link->session);
	link->session = NULL;
	if (link->fd >= 0 && link->wire)
		link->wire->close(link->wire_context);
	else if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	if (link->reader)
		redisReaderFree(link->reader);
	link->reader = NULL;
	link->fed = 0;
	wr_commands_clear(&link->out);
}

/* ---- connecting ---- */

/* Sets the timeout for connect and for each read and write. */
static bool set_timeouts(int fd, uint64_t timeout_us)
{
	struct timeval limit = {(time_t)(timeout_us / 1000000),
				(suseconds_t)(timeout_us % 1000000)};

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
	       setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
}

static int connect_to(const struct sockaddr *address, socklen_t len, uint64_t timeout_us)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return -1;
	if (address->sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (set_timeouts(fd, timeout_us) && connect(fd, address, len) == 0)
		return fd;
	if (errno == EINPROGRESS || errno == EAGAIN)
		errno = ETIMEDOUT;
	on = errno;
	close(fd);
	errno = on;
	return -1;
}

static int connect_unix(const struct wr_endpoint *at, uint64_t timeout_us)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, at->host, strnlen(at->host, sizeof address.sun_path - 1));
	return connect_to((const struct sockaddr *)&address, sizeof address, timeout_us);
}

/* Opens the connection. Returns a socket, or 0 for a simulated connection. On failure returns a
 * number below 0 with *error filled in. */
static int connect_link(struct wr_queue_redis_link *link, const struct wr_endpoint *at,
			struct weir_error *error)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	char address[WR_ENDPOINT_TEXT], port[8];
	int fd = -1, rc = 0;

	wr_endpoint_text(at, address);
	snprintf(port, sizeof port, "%u", at->port);
	if (link->wire)
		fd = link->wire->connect(link->wire_context) ? 0 : -1;
	else if (at->kind == WR_ENDPOINT_UNIX)
		fd = connect_unix(at, link->timeout_us);
	else
		rc = getaddrinfo(at->host, port, &hints, &found);
	for (const struct addrinfo *one = found; one && fd < 0; one = one->ai_next)
		fd = connect_to(one->ai_addr, one->ai_addrlen, link->timeout_us);
	if (fd < 0 && rc == 0)
		wr_error_errno(error, WEIR_ESYS, NO_CONNECTION, address);
	else if (fd < 0)
		wr_error(error, WEIR_ESYS, NO_CONNECTION ": %s", address, gai_strerror(rc));
	if (found)
		freeaddrinfo(found);
	return fd;
}

/* Sends the command in link->out and reads its reply. On failure (the connection was lost, or the
 * reply is an error) returns false with *error filled in. */
static bool run_command(struct wr_queue_redis_link *link, const char *what,
			struct weir_error *error)
{
	redisReply *reply = wr_queue_redis_send(link) ? wr_queue_redis_read_reply(link) : NULL;
	bool good = reply && reply->type != REDIS_REPLY_ERROR;

	if (!reply)
		wr_error(error, WEIR_ESYS, "Redis closed the connection, or did not reply to %s",
			 what);
	else if (!good)
		wr_error(error, WEIR_ESYS, "Redis replied to %s: %.*s", what,
			 (int)(reply->len < 120 ? reply->len : 120), reply->str);
	if (reply)
		freeReplyObject(reply);
	return good;
}

static bool log_in(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
		   struct weir_error *error)
{
	const struct wr_redis_login *login = &target->login;

	if (login->password[0]) {
		wr_command_begin(&link->out, login->user[0] ? 3 : 2);
		wr_command_text(&link->out, "AUTH");
		if (login->user[0])
			wr_command_text(&link->out, login->user);
		wr_command_text(&link->out, login->password);
		if (!wr_command_end(&link->out) || !run_command(link, "AUTH", error))
			return false;
	}
	if (target->db) {
		wr_command_begin(&link->out, 2);
		wr_command_text(&link->out, "SELECT");
		wr_command_number(&link->out, target->db);
		if (!wr_command_end(&link->out) || !run_command(link, "SELECT", error))
			return false;
	}
	wr_command_begin(&link->out, 3);
	wr_command_text(&link->out, "SCRIPT");
	wr_command_text(&link->out, "LOAD");
	wr_command_arg(&link->out, wr_script_lines.text, wr_script_lines.len);
	return wr_command_end(&link->out) && run_command(link, "SCRIPT LOAD", error);
}

bool wr_queue_redis_connect(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			    struct weir_error *error)
{
	const struct wr_endpoint *at = &target->at.items[0];

	wr_queue_redis_disconnect(link);
	link->fd = connect_link(link, at, error);
	if (link->fd < 0)
		return false;
	link->fresh = link->untaken = true;
	link->reader = redisReaderCreate();
	if (link->tls)
		link->session = wr_queue_redis_handshake(link->tls, link->fd, at, error);
	if (link->reader && (!link->tls || link->session) && log_in(link, target, error))
		return true;
	wr_queue_redis_disconnect(link);
	return false;
}

/* ---- bytes ---- */

/* Returns true if the last call failed only because the process was stopped and continued (SIGSTOP,
 * SIGCONT), which interrupts calls with a timeout. The caller then repeats the call. */
static bool is_interrupted(const struct wr_queue_redis_link *link)
{
	return errno == EINTR && (!link->session || !SSL_want_nothing(link->session));
}

static ssize_t send_some(struct wr_queue_redis_link *link, const uint8_t *bytes, size_t len)
{
	size_t done = 0;

	if (link->wire)
		return link->wire->send(link->wire_context, bytes, len);
	if (!link->session)
		return send(link->fd, bytes, len, MSG_NOSIGNAL);
	return SSL_write_ex(link->session, bytes, len, &done) == 1 ? (ssize_t)done : -1;
}

static ssize_t receive_some(struct wr_queue_redis_link *link, char *bytes, size_t len)
{
	size_t done = 0;

	if (link->wire)
		return link->wire->receive(link->wire_context, bytes, len);
	if (!link->session)
		return recv(link->fd, bytes, len, 0);
	return SSL_read_ex(link->session, bytes, len, &done) == 1 ? (ssize_t)done : -1;
}

bool wr_queue_redis_send(struct wr_queue_redis_link *link)
{
	while (link->fd >= 0 && wr_commands_len(&link->out)) {
		ssize_t done = send_some(link, link->out.bytes + link->out.start,
					 wr_commands_len(&link->out));

		if (done > 0)
			wr_commands_sent(&link->out, (size_t)done);
		else if (!is_interrupted(link))
			wr_queue_redis_disconnect(link);
	}
	return link->fd >= 0;
}

/* Receives some bytes of a reply. Returns false if the connection was lost or the reply is too
 * large. */
static bool feed_reader(struct wr_queue_redis_link *link)
{
	char bytes[PIECE];
	ssize_t len;

	do
		len = receive_some(link, bytes, sizeof bytes);
	while (len < 0 && is_interrupted(link));
	if (len <= 0 || link->fed + (size_t)len > REPLY_MAX)
		return false;
	link->fed += (size_t)len;
	return redisReaderFeed(link->reader, bytes, (size_t)len) == REDIS_OK;
}

redisReply *wr_queue_redis_read_reply(struct wr_queue_redis_link *link)
{
	void *reply = NULL;

	while (link->fd >= 0) {
		if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
			wr_queue_redis_disconnect(link);
		} else if (reply) {
			link->fed = 0;
			return reply;
		} else if (!feed_reader(link)) {
			wr_queue_redis_disconnect(link);
		}
	}
	return NULL;
}
