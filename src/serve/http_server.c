#include "serve/http_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "serve/received.h"

#define ACCEPTS_A_TURN 64
#define RUNS_A_TURN                                                                                \
	4 /* of libmicrohttpd while it has work left, before other handles get theirs              \
	   */
#define SWEEP_MS 1000
#define LAST_REQUEST_MS 1000 /* while draining: for a client that was active to bring one more */
#define BACKLOG_TURNS 64
#define HANDLES 4u

/* ---- driving libmicrohttpd ---- */

static void run(struct wr_http_server *server);

static void on_timer(uv_timer_t *timer)
{
	struct wr_http_server *server = timer->data;

	server->timer_at_ms = 0;
	run(server);
}

/* A timer that is set already and fires soon enough is left alone: this is on the way of every
 * request, and libmicrohttpd's timeouts are idle connections'. */
static void set_timer(struct wr_http_server *server, uint64_t in_ms)
{
	uint64_t at_ms = uv_now(&server->loop->uv) + in_ms;

	if (server->timer_at_ms && server->timer_at_ms <= at_ms)
		return;
	server->timer_at_ms = at_ms ? at_ms : 1;
	uv_timer_start(&server->timer, on_timer, in_ms, 0);
}

static void run(struct wr_http_server *server)
{
	MHD_UNSIGNED_LONG_LONG in_ms = 0;

	for (int i = 0; i < RUNS_A_TURN; i++) {
		MHD_run(server->daemon);
		if (MHD_get_timeout(server->daemon, &in_ms) != MHD_YES)
			return;
		if (in_ms != 0)
			break;
	}
	set_timer(server, in_ms);
}

void wr_http_wake(struct wr_http_server *server)
{
	set_timer(server, 0);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	run(poll->data);
}

/* ---- connections ---- */

static void on_connection_notify(void *cls, struct MHD_Connection *connection, void **state,
				 enum MHD_ConnectionNotificationCode code);

static void set_options(const struct wr_listener *listener, int fd)
{
	int on = 1;

	if (listener->endpoint.kind == WR_ENDPOINT_UNIX)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static void take(struct wr_http_server *server, int fd, const struct sockaddr *address,
		 socklen_t len)
{
	size_t started = server->started;

	if (!wr_listener_admit(server->listener, fd)) {
		close(fd);
		return;
	}
	set_options(server->listener, fd);
	/* The socket is libmicrohttpd's now; if it fails before it told us, the place is not. */
	if (MHD_add_connection(server->daemon, fd, address, len) != MHD_YES &&
	    server->started == started)
		wr_listener_leave(server->listener);
}

/* False: there was no more. */
static bool accept_some(struct wr_http_server *server)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
		socklen_t len = sizeof address;
		int fd = accept4(server->fd, (struct sockaddr *)&address, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take(server, fd, (struct sockaddr *)&address, len);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return false;
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			   errno == ENOMEM) {
			uv_poll_stop(&server->accepting); /* until the next sweep */
			return false;
		}
	}
	return true;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	accept_some(poll->data);
	run(poll->data);
}

static void open_connection(struct wr_http_server *server, struct MHD_Connection *connection,
			    void **state)
{
	const struct wr_settings *settings = wr_loop_settings(server->loop);
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct wr_http_connection *client = calloc(1, sizeof *client);

	server->started++;
	server->connection_count++;
	*state = client;
	if (!client)
		return;
	client->server = server;
	client->fd = info ? info->connect_fd : -1;
	client->active_ms = uv_now(&server->loop->uv);
	client->counted = true;
	if (settings->idle_ns)
		client->deadline_ms = uv_now(&server->loop->uv) +
				      (settings->idle_ns + settings->slow_ns) / 1000000;
	client->next = server->connections;
	client->back = &server->connections;
	if (client->next)
		client->next->back = &client->next;
	server->connections = client;
}

static void close_connection(struct wr_http_server *server, struct wr_http_connection *client)
{
	if (client) {
		*client->back = client->next;
		if (client->next)
			client->next->back = client->back;
		free(client);
	}
	server->connection_count--;
	wr_listener_leave(server->listener);
	if (server->draining && server->connection_count == 0)
		wr_loop_check_drained(server->loop);
}

static void on_connection_notify(void *cls, struct MHD_Connection *connection, void **state,
				 enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		open_connection(cls, connection, state);
	else
		close_connection(cls, *state);
}

/* libmicrohttpd tells of a request when its head is there; whether one has begun, the kernel knows.
 * What had come before is counted here and not at the end of each request, for it costs a call. */
static bool dribbles(struct wr_http_connection *client, uint64_t now_ms, uint64_t slow_ms)
{
	uint64_t received;

	if (client->request || client->fd < 0 || slow_ms == 0)
		return false;
	received = wr_received_bytes(client->fd);
	if (!client->counted) {
		client->counted = true;
		client->received = received;
	}
	if (received == client->received)
		return false;
	if (!client->begun_ms)
		client->begun_ms = now_ms;
	return now_ms - client->begun_ms >= slow_ms;
}

/* The peer has sent its last byte, and we have read it. */
static bool has_ended(int fd)
{
	struct pollfd peer = {.fd = fd, .events = POLLRDHUP};
	int unread = 0;

	return poll(&peer, 1, 0) > 0 && ioctl(fd, FIONREAD, &unread) == 0 && unread == 0;
}

/* libmicrohttpd takes a read that did not fill its buffer for the last there is to read, and does
 * not see an end that came with those bytes. Seen twice, so that what has been read but not yet
 * looked at is. */
static bool leaves_off(struct wr_http_connection *client)
{
	bool before = client->left_off;
	const struct wr_http_request *request = client->request;
	bool reading = !request || (!request->held && !request->answered);

	client->left_off = reading && client->fd >= 0 && has_ended(client->fd);
	return before && client->left_off;
}

/* libmicrohttpd's own timeout is for silence; this one is for those who keep sending a byte now and
 * then, and for those who go in the middle of a request. */
static void on_sweep(uv_timer_t *timer)
{
	struct wr_http_server *server = timer->data;
	uint64_t now_ms = uv_now(&server->loop->uv);
	uint64_t slow_ms = wr_loop_settings(server->loop)->slow_ns / 1000000;

	for (struct wr_http_connection *c = server->connections; c; c = c->next)
		if ((c->deadline_ms && c->deadline_ms <= now_ms && c->fd >= 0) ||
		    dribbles(c, now_ms, slow_ms) || leaves_off(c))
			shutdown(c->fd, SHUT_RDWR);
	if (server->fd >= 0 && !server->draining)
		uv_poll_start(&server->accepting, UV_READABLE, on_acceptable);
}

/* ---- beginning and end ---- */

static void on_mhd_log(void *cls, const char *format, va_list args)
{
	static struct wr_log_gate gate;
	struct wr_http_server *server = cls;
	char line[256];
	uint64_t held;

	if (!wr_log_due(&gate, &held))
		return;
	vsnprintf(line, sizeof line, format, args); // NOLINT(clang-analyzer-valist.Uninitialized)
	wr_log(WR_LOG_DEBUG, "%s at %s: %s", server->listener->name, server->listener->text, line);
}

static struct MHD_Daemon *start_daemon(struct wr_http_server *server)
{
	const struct wr_settings *settings = wr_loop_settings(server->loop);
	uint64_t idle_s = (settings->idle_ns + 999999999) / 1000000000;

	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
			MHD_USE_ERROR_LOG | MHD_USE_TURBO,
		0, NULL, NULL, wr_http_on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log,
		server, MHD_OPTION_CONNECTION_LIMIT, 1u << 20, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)(idle_s > 86400 ? 86400 : idle_s), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)WR_HTTP_CONNECTION_BYTES, MHD_OPTION_NOTIFY_COMPLETED, wr_http_on_completed,
		server, MHD_OPTION_NOTIFY_CONNECTION, on_connection_notify, server,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

static void free_server(uv_handle_t *handle)
{
	struct wr_http_server *server = handle->data;

	if (--server->handles)
		return;
	wr_http_requests_free(server);
	free(server->answer);
	free(server);
}

static void close_handles(struct wr_http_server *server)
{
	uv_handle_t *handles[HANDLES] = {
		(uv_handle_t *)&server->accepting, (uv_handle_t *)&server->polling,
		(uv_handle_t *)&server->timer, (uv_handle_t *)&server->sweep};

	for (unsigned i = 0; i < HANDLES; i++)
		if (!uv_is_closing(handles[i]))
			uv_close(handles[i], free_server);
}

static int start_handles(struct wr_http_server *server)
{
	uv_loop_t *uv = &server->loop->uv;
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	server->accepting.data = server->polling.data = server;
	server->timer.data = server->sweep.data = server;
	if (!info || uv_poll_init(uv, &server->accepting, server->fd) < 0)
		return -1;
	if (uv_poll_init(uv, &server->polling, info->epoll_fd) < 0) {
		uv_close((uv_handle_t *)&server->accepting, NULL);
		return -1;
	}
	uv_timer_init(uv, &server->timer);
	uv_timer_init(uv, &server->sweep);
	server->handles = HANDLES;
	uv_poll_start(&server->accepting, UV_READABLE, on_acceptable);
	uv_poll_start(&server->polling, UV_READABLE, on_readable);
	uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
	return 0;
}

static int start(struct wr_http_server *server, struct weir_error *error)
{
	int rc = server->api->open(server, error);

	if (rc < 0)
		return rc;
	server->daemon = start_daemon(server);
	if (server->daemon && start_handles(server) == 0)
		return 0;
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	server->api->close(server);
	return wr_error(error, WEIR_ESYS, "%s: the HTTP server does not start",
			server->listener->text);
}

int wr_http_server_start(const struct wr_http_api *api, struct wr_loop *loop,
			 struct wr_listener *listener, int fd, void **state,
			 struct weir_error *error)
{
	struct wr_http_server *server = calloc(1, sizeof *server);
	int rc = WEIR_EMEMORY;

	if (server) {
		server->answer = malloc(WR_HTTP_ANSWER_BYTES);
		server->api = api;
		server->loop = loop;
		server->listener = listener;
		server->fd = fd;
		*state = server;
		rc = server->answer ? start(server, error)
				    : wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	if (rc < 0 && server) {
		free(server->answer);
		free(server);
	}
	return rc;
}

static void stop_accepting(struct wr_http_server *server)
{
	if (server->fd < 0)
		return;
	uv_close((uv_handle_t *)&server->accepting, free_server);
	close(server->fd);
	server->fd = -1;
}

void wr_http_server_turn_away(void *state)
{
	struct wr_http_server *server = state;

	if (server->fd >= 0)
		wr_listener_turn_away(server->listener, server->fd);
}

/* Who came or asked a moment ago may be sending its next request just now: it is answered, and told
 * that it was the last. */
void wr_http_server_drain(void *state)
{
	struct wr_http_server *server = state;

	uint64_t now_ms = uv_now(&server->loop->uv);

	for (int i = 0; server->fd >= 0 && i < BACKLOG_TURNS && accept_some(server); i++)
		continue;
	server->draining = true;
	stop_accepting(server);
	for (struct wr_http_connection *c = server->connections; c; c = c->next) {
		if (c->request && c->request->streaming)
			wr_http_abandon(c->request);
		if (c->request || c->fd < 0)
			continue;
		if (now_ms - c->active_ms < LAST_REQUEST_MS)
			c->deadline_ms = now_ms + LAST_REQUEST_MS;
		else
			shutdown(c->fd, SHUT_RD);
	}
	run(server);
}

size_t wr_http_server_open(void *state)
{
	return ((struct wr_http_server *)state)->connection_count;
}

void wr_http_server_stop(void *state)
{
	struct wr_http_server *server = state;

	stop_accepting(server);
	for (struct wr_http_connection *c = server->connections; c; c = c->next)
		if (c->request)
			wr_http_abandon(c->request);
	uv_close((uv_handle_t *)&server->polling, free_server);
	uv_timer_stop(&server->timer);
	MHD_stop_daemon(server->daemon);
	server->api->close(server);
	close_handles(server);
}
