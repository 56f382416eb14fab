/* Opens a connection to Redis, sends commands and reads replies. These functions block until a
 * timeout at the latest. Called by the other redis_*.c files. */
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "net/dial.h"
#include "net/tls.h"
#include "queue/redis_backend.h"

#define OUT_MAX ((size_t)64 << 20)
#define REPLY_MAX ((size_t)64 << 20)
#define PIECE ((size_t)64 << 10)
#define ELEMENTS_MAX (1 << 20)

/* ---- the reader ---- */

static void *create_array(const redisReadTask *task, int elements)
{
	redisReply *reply, *parent = task->parent ? task->parent->obj : NULL;

	if (elements < 0 || elements > ELEMENTS_MAX)
		return NULL;
	reply = calloc(1, sizeof *reply);
	if (!reply)
		return NULL;
	reply->type = task->type;
	reply->elements = (size_t)elements;
	reply->element = elements ? calloc((size_t)elements, sizeof(void *)) : NULL;
	if (elements && !reply->element) {
		free(reply);
		return NULL;
	}
	if (parent)
		parent->element[task->idx] = reply;
	return reply;
}

bool wr_queue_redis_reader_open(struct wr_queue_redis_reader *reader)
{
	reader->state = redisReaderCreate();
	if (!reader->state)
		return false;
	reader->functions = *reader->state->fn;
	reader->functions.createArray = create_array;
	reader->state->fn = &reader->functions;
	return true;
}

void wr_queue_redis_reader_close(struct wr_queue_redis_reader *reader)
{
	if (reader->state)
		redisReaderFree(reader->state);
	reader->state = NULL;
}

/* ---- the link ---- */

int wr_queue_redis_link_init(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			     const struct wr_queue_opts *opts, struct weir_error *error)
{
	*link = (struct wr_queue_redis_link){.fd = -1, .timeout_us = opts->timeout_us};
	wr_commands_init(&link->out, OUT_MAX);
	if (!target->tls)
		return 0;
	return wr_tls_client_new(&opts->tls, &link->tls, error);
}

void wr_queue_redis_link_free(struct wr_queue_redis_link *link)
{
	wr_queue_redis_disconnect(link);
	wr_commands_free(&link->out);
	wr_tls_client_free(link->tls);
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
	wr_queue_redis_reader_close(&link->reader);
	link->fed = 0;
	wr_commands_clear(&link->out);
}

/* ---- connecting ---- */

/* Returns true if the latest system call was only interrupted, so that the caller has to repeat it.
 * For example, SIGSTOP and SIGCONT interrupt calls that have a timeout. */
static bool is_interrupted(const struct wr_queue_redis_link *link)
{
	return errno == EINTR && (!link->session || !SSL_want_nothing(link->session));
}

/* Opens the connection. Returns a socket, or 0 for a simulated connection. On failure returns a
 * number below 0 with *error filled in. */
static int connect_link(struct wr_queue_redis_link *link, const struct wr_endpoint *at,
			struct weir_error *error)
{
	char address[WR_ENDPOINT_TEXT];
	struct weir_error why;
	int fd;

	if (link->wire) {
		fd = link->wire->connect(link->wire_context) ? 0 : -1;
		wr_error(&why, WEIR_ESYS, "%s", strerror(errno));
	} else {
		fd = wr_dial(at, link->timeout_us, &why);
	}
	wr_endpoint_text(at, address);
	if (fd < 0)
		wr_error(error, WEIR_ESYS, "no connection to the queue's Redis at %s: %s", address,
			 why.text);
	return fd;
}

/* Starts TLS and checks the server's certificate. On failure returns false with *error filled in.
 */
static bool start_tls(struct wr_queue_redis_link *link, const struct wr_endpoint *at,
		      struct weir_error *error)
{
	const char *why = "out of memory";
	int rc = 0;

	ERR_clear_error();
	link->session = wr_tls_client_session(link->tls, at, link->fd);
	if (link->session) {
		do
			rc = SSL_connect(link->session);
		while (rc < 0 && is_interrupted(link));
		if (rc == 1 && wr_tls_client_matches(link->session, at))
			return true;
		why = rc == 1 ? "the certificate does not match the host name"
			      : wr_tls_failure(link->session);
	}
	wr_error(error, WEIR_ESYS, "TLS with the queue's Redis failed: %s", why);
	return false;
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
	wr_command_arg(&link->out, wr_queue_script_lines.text, wr_queue_script_lines.len);
	return wr_command_end(&link->out) && run_command(link, "SCRIPT LOAD", error);
}

bool wr_queue_redis_connect(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			    struct weir_error *error)
{
	const struct wr_endpoint *at = &target->at.items[0];

	wr_assert(target->at.count > 0);
	wr_queue_redis_disconnect(link);
	link->fd = connect_link(link, at, error);
	if (link->fd < 0)
		return false;
	link->fresh = link->untaken = true;
	if (wr_queue_redis_reader_open(&link->reader) &&
	    (!link->tls || start_tls(link, at, error)) && log_in(link, target, error))
		return true;
	wr_queue_redis_disconnect(link);
	return false;
}

/* ---- bytes ---- */

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
	return redisReaderFeed(link->reader.state, bytes, (size_t)len) == REDIS_OK;
}

redisReply *wr_queue_redis_read_reply(struct wr_queue_redis_link *link)
{
	void *reply = NULL;

	wr_assert(link->fd < 0 || link->reader.state);
	while (link->fd >= 0) {
		if (redisReaderGetReply(link->reader.state, &reply) != REDIS_OK) {
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
