/* The RESP listener: streams, sessions, and the files with passwords. Called by net through
 * wr_serve_resp_protocol, and by the service. */
#include "serve/resp/resp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/loop.h"
#include "serve/resp/waits.h"
#include "serve/service.h"

#define REPLY_ROOM 4096u /* minimum number of bytes that a stream reserves for replies at a time */
#define PASSWORD_FILE_MAX 8192u
#define SECOND_NS 1000000000ull

/* The RESP state of all loops. A loop's element of `loops` is created at the loop's first
 * connection. Other threads read the counters in that element. */
static struct {
	struct wr_resp_users users;
	bool passwords; /* clients have to send a password of --resp-password-file */
	struct wr_secret link_key;
	uint64_t started_ns;
	_Atomic(struct wr_serve_resp_loop *) loops[WR_LOOPS_MAX];
	_Atomic uint64_t last_id;
} shared;

/* ---- hosts ---- */

static void sum_hosts(const struct wr_resp_host *host, struct wr_resp_tally *sum)
{
	(void)host;
	for (size_t i = 0; i < WR_LOOPS_MAX; i++) {
		const struct wr_serve_resp_loop *other = shared.loops[i];

		if (other)
			wr_resp_tally_add(sum, &other->host.tally);
	}
}

static struct wr_serve_resp_loop *own_of(struct wr_loop *loop)
{
	struct wr_serve_resp_loop *own = shared.loops[loop->number];

	if (own)
		return own;
	own = calloc(1, sizeof *own);
	if (!own)
		return NULL;
	own->loop = loop;
	own->host.users = shared.passwords ? &shared.users : NULL;
	own->host.link_key = shared.link_key.len ? &shared.link_key : NULL;
	own->host.shadow = wr_loop_settings(loop)->shadow;
	own->host.started_ns = shared.started_ns;
	own->host.sum = sum_hosts;
	wr_serve_resp_loop_init(own);
	shared.loops[loop->number] = own;
	return own;
}

/* ---- a connection ---- */

/* Copies the address of a TCP client. A client that has already disconnected has no address. */
static void copy_address(struct wr_resp_session *session, const struct sockaddr *peer)
{
	const struct sockaddr_in6 *six = (const void *)peer;
	const struct sockaddr_in *four = (const void *)peer;

	if (peer && peer->sa_family == AF_INET) {
		inet_ntop(AF_INET, &four->sin_addr, session->address, sizeof session->address);
		snprintf(session->peer, sizeof session->peer, "%s:%u", session->address,
			 ntohs(four->sin_port));
	} else if (peer && peer->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &six->sin6_addr, session->address, sizeof session->address);
		snprintf(session->peer, sizeof session->peer, "[%s]:%u", session->address,
			 ntohs(six->sin6_port));
	}
}

static void describe_client(struct wr_stream *stream, struct wr_resp_session *session)
{
	const struct wr_endpoint *endpoint = &wr_stream_listener(stream)->endpoint;

	session->port = endpoint->port;
	session->operates = wr_service_refunds(wr_loop_service(wr_stream_loop(stream)), stream);
	if (endpoint->kind != WR_ENDPOINT_UNIX) {
		copy_address(session, wr_stream_peer(stream));
		return;
	}
	snprintf(session->address, sizeof session->address, "unix");
	snprintf(session->peer, sizeof session->peer, "%.*s", WR_UNIX_PATH_MAX, endpoint->host);
	session->unix_socket = true;
}

static int open_session(struct wr_stream *stream)
{
	struct wr_serve_resp_talk *talk = wr_stream_state(stream);
	struct wr_loop *loop = wr_stream_loop(stream);
	struct wr_serve_resp_loop *own = own_of(loop);

	if (!own)
		return -1;
	talk->stream = stream;
	describe_client(stream, &talk->session);
	talk->session.id = ++shared.last_id;
	wr_resp_session_begin(&talk->session, &own->host, wr_loop_now_ns(loop));
	return 0;
}

static bool more_room(struct wr_resp_out *out, size_t need)
{
	size_t written = (size_t)(out->at - out->begin);
	size_t room = need > REPLY_ROOM ? need : REPLY_ROOM;

	if (out->begin)
		wr_stream_commit(out->context, written);
	out->taken += written;
	out->begin = out->at = wr_stream_reserve(out->context, room);
	out->end = out->begin ? out->begin + room : NULL;
	return out->begin != NULL;
}

static int feed_session(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	struct wr_serve_resp_talk *talk = wr_stream_state(stream);
	struct wr_resp_session *session = &talk->session;
	struct wr_loop *loop = wr_stream_loop(stream);
	struct wr_resp_out out = {.more = more_room, .context = stream};
	size_t pending = wr_stream_pending(stream);
	size_t budget = pending < WR_HIGH_BYTES ? WR_HIGH_BYTES - pending : 0;

	session->host->engine = wr_loop_engine(loop);
	session->host->table = wr_loop_table(loop);
	session->gone = session->gone || (session->linked && wr_stream_hung(stream));
	wr_resp_session_input(session, data, len, wr_loop_now_ns(loop), budget, &out);
	if (out.begin)
		wr_stream_commit(stream, (size_t)(out.at - out.begin));
	wr_serve_resp_queue_stalled(talk);
	wr_stream_busy(stream, session->stopped || session->waits);
	wr_stream_midway(stream, wr_resp_session_waiting(session) && !session->stopped);
	/* The stream reads no further input while commands of the session cannot run. */
	if (session->host->central || session->host->queue)
		wr_stream_pause(stream, session->stopped || session->ended);
	return wr_resp_session_over(session) ? -1 : 0;
}

void wr_serve_resp_feed(struct wr_serve_resp_talk *talk)
{
	wr_assert_magic(&talk->session, WR_RESP_SESSION_MAGIC);
	if (feed_session(talk->stream, NULL, 0) < 0)
		wr_stream_close(talk->stream);
}

/* Runs the commands that waited for room in the output. Called when the client has read replies. */
static void on_writable(struct wr_stream *stream)
{
	struct wr_serve_resp_talk *talk = wr_stream_state(stream);

	if (talk->session.stopped)
		wr_serve_resp_feed(talk);
}

static void end_session(struct wr_stream *stream)
{
	struct wr_serve_resp_talk *talk = wr_stream_state(stream);

	if (!talk->session.host)
		return;
	wr_resp_session_end(&talk->session);
	wr_serve_resp_forget_talk(talk);
}

/* Returns whether the stream stays open after the client has closed its side. The stream stays open
 * while commands wait, because the client can still read the replies. An nginx worker that has
 * closed its connection reads no replies, so its stream stays open only for WEIR.DEFER and
 * WEIR.TICKET. Units that other commands of the worker have taken are given back. */
static bool is_busy(struct wr_stream *stream)
{
	const struct wr_serve_resp_talk *talk = wr_stream_state(stream);
	const struct wr_resp_wait *first = talk->session.waits;

	return first && (!talk->session.linked || first->source == WR_RESP_QUEUE);
}

const struct wr_protocol wr_serve_resp_protocol = {
	.name = "resp",
	.state_bytes = sizeof(struct wr_serve_resp_talk),
	.open = open_session,
	.input = feed_session,
	.writable = on_writable,
	.outlives_input = is_busy,
	.closed = end_session,
};

void wr_serve_resp_go_on(struct wr_loop *loop)
{
	struct wr_serve_resp_loop *own = shared.loops[loop->number];

	wr_assert(loop->number < WR_LOOPS_MAX);
	if (own && (own->host.central || own->host.queue))
		wr_serve_resp_loop_go_on(own);
}

/* ---- start and end ---- */

static int read_users(const char *path, struct weir_error *error)
{
	char text[PASSWORD_FILE_MAX];
	struct weir_error why;
	size_t len;
	int rc = wr_secret_file_read(path, WR_SECRET_SHARED, text, sizeof text, &len, &why);

	if (rc < 0)
		wr_error(error, rc, "--resp-password-file %s", why.text);
	else if (wr_resp_users_read(&shared.users, text, len, &why) != 0)
		rc = wr_error(error, WEIR_EINVAL, "--resp-password-file %s: %s", path, why.text);
	explicit_bzero(text, sizeof text);
	return rc;
}

/* Reads the link key, which nginx workers send on Unix sockets. Creates the file if it is missing,
 * so that the first start needs no preparation. */
static int read_link_key(const struct wr_settings *settings, struct weir_error *error)
{
	const char *path = settings->link_key_file;
	struct weir_error why;
	int rc = 0;

	shared.link_key = (struct wr_secret){0};
	if (!path)
		return 0;
	if (access(path, F_OK) < 0 && errno == ENOENT)
		rc = wr_secret_make(path, &why);
	if (rc == 0)
		rc = wr_secret_read(path, &shared.link_key, &why);
	return rc == 0 ? 0 : wr_error(error, rc, "--link-key: %s", why.text);
}

int wr_serve_resp_setup(const struct wr_settings *settings, struct weir_error *error)
{
	int rc = read_link_key(settings, error);

	if (rc < 0)
		return rc;
	shared.started_ns = wr_clock_wall_ns();
	shared.passwords = settings->resp_password_file != NULL;
	return shared.passwords ? read_users(settings->resp_password_file, error) : 0;
}

void wr_serve_resp_release(void)
{
	for (size_t i = 0; i < WR_LOOPS_MAX; i++) {
		struct wr_serve_resp_loop *own = shared.loops[i];

		shared.loops[i] = NULL;
		if (own)
			wr_serve_resp_loop_free(own);
		free(own);
	}
}
