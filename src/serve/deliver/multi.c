/* Runs libcurl's multi interface on the loop. libcurl reports which sockets have to be polled and
 * when its timer has to expire. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/deliver/deliver_impl.h"

#include "base/assert.h"

/* The poll handle of a socket. The socket of a connection is polled as long as the connection is
 * open, even between two transfers. Most connections carry one transfer after the other, so
 * stopping in between would cost system calls. */
struct watch {
	uv_poll_t poll;
	struct wr_deliverer *deliverer;
	curl_socket_t socket;
	int events;   /* the events that are polled; 0: the socket is not polled now */
	bool lasting; /* true: the socket is polled until it closes, even between transfers */
	bool idle;    /* the watch is lasting, and no transfer uses the socket now */
	struct wr_list link; /* links a lasting watch in deliverer->watches */
};

static void check_ended(struct wr_deliverer *deliverer)
{
	CURLMsg *message;
	int left;

	while (deliverer->multi && (message = curl_multi_info_read(deliverer->multi, &left))) {
		struct wr_delivery *delivery = NULL;
		CURLcode result = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&delivery);
		curl_multi_remove_handle(deliverer->multi, message->easy_handle);
		wr_deliver_sent(delivery, result);
	}
}

static void run_transfers(struct wr_deliverer *deliverer, curl_socket_t socket, int events)
{
	int running;

	if (deliverer->multi)
		curl_multi_socket_action(deliverer->multi, socket, events, &running);
	check_ended(deliverer);
}

/* ---- the timer ---- */

static void on_curl_timeout(uv_timer_t *timer)
{
	run_transfers(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* Sets the timer. Called by libcurl, so this function must not call libcurl. */
static int set_timer(CURLM *multi, long wait_ms, void *context)
{
	struct wr_deliverer *deliverer = context;

	(void)multi;
	if (wait_ms < 0)
		uv_timer_stop(&deliverer->curl_timer);
	else if (!uv_is_closing((uv_handle_t *)&deliverer->curl_timer))
		uv_timer_start(&deliverer->curl_timer, on_curl_timeout, (uint64_t)wait_ms, 0);
	return 0;
}

/* ---- sockets ---- */

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct watch *watch = poll->data;
	int flags = status < 0 ? CURL_CSELECT_ERR : 0;

	/* An event on an idle socket means that the server closed the connection. Nothing has to be
	 * done but to stop polling: libcurl itself checks whether a connection is closed before it
	 * uses the connection again. */
	if (watch->idle) {
		uv_poll_stop(poll);
		watch->events = 0;
		return;
	}
	if (events & UV_READABLE)
		flags |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		flags |= CURL_CSELECT_OUT;
	run_transfers(watch->deliverer, watch->socket, flags); /* this call can close the watch */
}

static void free_watch(uv_handle_t *handle)
{
	free(handle->data);
}

/* Ends a watch. The caller closes the socket next, so libuv must stop polling it now. */
static void unwatch(struct watch *watch)
{
	wr_list_remove(&watch->link);
	uv_poll_stop(&watch->poll);
	uv_close((uv_handle_t *)&watch->poll, free_watch);
}

static struct watch *watch_new(struct wr_deliverer *deliverer, curl_socket_t socket)
{
	struct watch *watch = calloc(1, sizeof *watch);

	if (!watch || uv_poll_init(wr_loop_uv(deliverer->own->loop), &watch->poll, socket) < 0) {
		free(watch);
		return NULL;
	}
	watch->poll.data = watch;
	watch->deliverer = deliverer;
	watch->socket = socket;
	return watch;
}

/* Returns the lasting watch of this socket, or NULL if the socket has no such watch. The list has
 * one watch for each connection, so it is short. */
static struct watch *find_lasting(struct wr_deliverer *deliverer, curl_socket_t socket)
{
	for (struct wr_list *link = wr_list_first(&deliverer->watches); link;
	     link = wr_list_after(&deliverer->watches, link)) {
		struct watch *watch = wr_container_of(link, struct watch, link);

		if (watch->socket == socket)
			return watch;
	}
	return NULL;
}

static struct watch *watch_of(struct wr_deliverer *deliverer, curl_socket_t socket)
{
	struct watch *watch = find_lasting(deliverer, socket);

	/* A socket without a lasting watch belongs to libcurl's name resolver. */
	if (!watch)
		watch = watch_new(deliverer, socket);
	if (watch)
		curl_multi_assign(deliverer->multi, socket, watch);
	return watch;
}

/* Sets which events of a socket are polled. Called by libcurl. */
static int set_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *of_socket)
{
	struct wr_deliverer *deliverer = context;
	struct watch *watch = of_socket;
	int events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE && watch) {
		curl_multi_assign(deliverer->multi, watch->socket, NULL);
		if (watch->lasting)
			watch->idle = true;
		else
			unwatch(watch);
	}
	if (what == CURL_POLL_REMOVE)
		return 0;
	if (!watch)
		watch = watch_of(deliverer, socket);
	if (!watch)
		return -1;
	if (what != CURL_POLL_OUT)
		events |= UV_READABLE;
	if (what != CURL_POLL_IN)
		events |= UV_WRITABLE;
	watch->idle = false;
	if (watch->events != events)
		uv_poll_start(&watch->poll, events, on_event);
	watch->events = events;
	return 0;
}

curl_socket_t wr_deliver_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct wr_deliverer *deliverer = context;
	curl_socket_t fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
	struct watch *watch = fd < 0 ? NULL : watch_new(deliverer, fd);

	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	(void)purpose;
	if (watch) {
		watch->lasting = watch->idle = true;
		wr_list_add_first(&deliverer->watches, &watch->link);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return CURL_SOCKET_BAD;
}

int wr_deliver_close_socket(void *context, curl_socket_t socket)
{
	struct watch *watch = find_lasting(context, socket);

	if (watch)
		unwatch(watch);
	return close(socket);
}

/* ---- transfers ---- */

int wr_deliver_multi_init(struct wr_deliverer *deliverer)
{
	wr_assert(!deliverer->multi);
	uv_timer_init(wr_loop_uv(deliverer->own->loop), &deliverer->curl_timer);
	deliverer->curl_timer.data = deliverer;
	deliverer->multi = curl_multi_init();
	if (!deliverer->multi)
		return WEIR_EMEMORY;
	curl_multi_setopt(deliverer->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(deliverer->multi, CURLMOPT_SOCKETDATA, deliverer);
	curl_multi_setopt(deliverer->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(deliverer->multi, CURLMOPT_TIMERDATA, deliverer);
	curl_multi_setopt(deliverer->multi, CURLMOPT_MAXCONNECTS, (long)deliverer->connections);
	return 0;
}

void wr_deliver_multi_stop(struct wr_deliverer *deliverer)
{
	CURLM *multi = deliverer->multi;

	if (multi)
		curl_multi_cleanup(multi);
	deliverer->multi = NULL;
	uv_close((uv_handle_t *)&deliverer->curl_timer, NULL);
}

int wr_deliver_multi_add(struct wr_delivery *delivery)
{
	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(delivery->easy && delivery->deliverer->multi);
	return curl_multi_add_handle(delivery->deliverer->multi, delivery->easy) == CURLM_OK
		       ? 0
		       : WEIR_EMEMORY;
}

void wr_deliver_multi_remove(struct wr_delivery *delivery)
{
	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(delivery->easy && delivery->stage == WR_DELIVERY_SENDING);
	curl_multi_remove_handle(delivery->deliverer->multi, delivery->easy);
}
