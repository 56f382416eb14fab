/* A minimal gRPC server on nghttp2, with which the gRPC server of `weir serve` is compared. It
 * responds to every request with the same bytes and gRPC's trailers. It does not parse the messages
 * and makes no decision.
 *
 *   bare_nghttp2 PORT            listens on 127.0.0.1 with one thread */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 16384
#define OUT_BYTES (256 << 10)
#define EVENTS 64

struct connection {
	int fd;
	nghttp2_session *h2;
	size_t out_len;
	uint8_t out[OUT_BYTES];
};

#define FIXED(name, value)                                                                         \
	{                                                                                          \
		(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,        \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE               \
	}

static const nghttp2_nv head[] = {FIXED(":status", "200"),
				  FIXED("content-type", "application/grpc")};
static const nghttp2_nv trailer[] = {FIXED("grpc-status", "0")};

/* The response in protobuf: OK, limit 10 per minute, 9 remaining, reset in 58 s. */
static const uint8_t answer[] = {0,    0,    0,    0,    18,   0x08, 0x01, 0x12,
				 0x0e, 0x08, 0x01, 0x12, 0x04, 0x08, 0x0a, 0x10,
				 0x02, 0x18, 0x09, 0x22, 0x02, 0x08, 0x3a};

static ssize_t read_answer(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t cap,
			   uint32_t *flags, nghttp2_data_source *source, void *user)
{
	(void)cap;
	(void)source;
	(void)user;
	memcpy(buf, answer, sizeof answer);
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	nghttp2_submit_trailer(h2, id, trailer, 1);
	return sizeof answer;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	nghttp2_data_provider provider = {.read_callback = read_answer};

	(void)user;
	if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		nghttp2_submit_response(h2, frame->hd.stream_id, head, 2, &provider);
	return 0;
}

static void drop(struct connection *c)
{
	close(c->fd);
	nghttp2_session_del(c->h2);
	free(c);
}

/* Sends with one write all output that the last read has caused. Returns -1 on failure. */
static int flush(struct connection *c)
{
	const uint8_t *bytes;
	ssize_t len;

	while ((len = nghttp2_session_mem_send(c->h2, &bytes)) > 0 &&
	       c->out_len + (size_t)len <= sizeof c->out) {
		memcpy(c->out + c->out_len, bytes, (size_t)len);
		c->out_len += (size_t)len;
	}
	if (len != 0 || (c->out_len && write(c->fd, c->out, c->out_len) != (ssize_t)c->out_len))
		return -1;
	c->out_len = 0;
	return 0;
}

static void on_readable(struct connection *c)
{
	uint8_t bytes[READ_BYTES];
	ssize_t len = read(c->fd, bytes, sizeof bytes);

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0 || nghttp2_session_mem_recv(c->h2, bytes, (size_t)len) != len || flush(c) != 0)
		drop(c);
}

static void on_connection(int listening, int epoll, const nghttp2_session_callbacks *callbacks)
{
	nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1024}};
	struct connection *c = calloc(1, sizeof *c);
	struct epoll_event event = {EPOLLIN, {.ptr = c}};
	int one = 1;

	if (!c)
		abort();
	c->fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	nghttp2_session_server_new(&c->h2, callbacks, c);
	nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, settings, 1);
	epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
	if (flush(c) != 0)
		drop(c);
}

static int listen_at(const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 128) != 0) {
		perror("bare_nghttp2");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	nghttp2_session_callbacks *callbacks;
	struct epoll_event events[EVENTS], own = {EPOLLIN, {.ptr = NULL}};
	int epoll = epoll_create1(0), listening;

	if (argc != 2) {
		fputs("usage: bare_nghttp2 PORT\n", stderr);
		return 2;
	}
	listening = listen_at(argv[1]);
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &own);
	for (;;) {
		int count = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr)
				on_readable(events[i].data.ptr);
			else
				on_connection(listening, epoll, callbacks);
		}
	}
}
