/* A load generator for gRPC servers. Each request has a random key, while h2load always sends the
 * same body. With RATE it sends requests at fixed times, even if the server is slow.
 *
 *   grpc-load PORT SECONDS [KEYS [CONNECTIONS [STREAMS [RATE]]]]
 *
 * It prints the number of requests, requests per second, p50 and p99 of the latency in ms, and the
 * number of responses without gRPC status 0. With RATE the latency starts when a request was
 * due. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX (1u << 24)
#define WRITE_BYTES 65536

struct call {
	uint64_t begun_ns;
	size_t len, sent;
	bool ok;
	uint8_t body[64];
};

struct link {
	nghttp2_session *session;
	int fd;
	unsigned open; /* number of HTTP/2 streams in flight */
};

static struct {
	uint64_t keys, done, failed, due_ns, gap_ns, end_ns;
	unsigned connections, streams;
	uint32_t *latency_us;
	uint64_t seed;
} load = {.keys = 100000, .connections = 8, .streams = 32, .seed = 42};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t draw(uint64_t below)
{
	load.seed = load.seed * 6364136223846793005u + 1442695040888963407u;
	return (load.seed >> 33) % below;
}

/* Writes the body of a request: the domain "bench" and one descriptor, service=api, user=u and the
 * six digits of the key. Returns the length of the body. */
static size_t write_body(uint8_t *to, uint64_t key)
{
	static const uint8_t head[] = "\0\0\0\0\x2a"
				      "\x0a\x05"
				      "bench"
				      "\x12\x21\x0a\x0e\x0a\x07"
				      "service"
				      "\x12\x03"
				      "api"
				      "\x0a\x0f\x0a\x04"
				      "user"
				      "\x12\x07"
				      "u";
	char digits[8];

	memcpy(to, head, sizeof head - 1);
	snprintf(digits, sizeof digits, "%06u", (unsigned)(key % 1000000));
	memcpy(to + sizeof head - 1, digits, 6);
	return sizeof head - 1 + 6;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct call *call = source->ptr;
	size_t len = call->len - call->sent < cap ? call->len - call->sent : cap;

	memcpy(to, call->body + call->sent, len);
	call->sent += len;
	if (call->sent == call->len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	(void)session, (void)id, (void)context;
	return (ssize_t)len;
}

#define FIELD(n, v)                                                                                \
	{                                                                                          \
		(uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, sizeof(v) - 1, NGHTTP2_NV_FLAG_NONE \
	}

static void begin(struct link *link, uint64_t begun_ns)
{
	static const nghttp2_nv fields[] = {
		FIELD(":method", "POST"),
		FIELD(":scheme", "http"),
		FIELD(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
		FIELD(":authority", "127.0.0.1"),
		FIELD("content-type", "application/grpc"),
		FIELD("te", "trailers"),
	};
	struct call *call = malloc(sizeof *call);
	nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_body};

	if (!call)
		abort();
	*call = (struct call){.begun_ns = begun_ns};
	call->len = write_body(call->body, draw(load.keys));
	if (nghttp2_submit_request(link->session, NULL, fields, sizeof fields / sizeof *fields,
				   &provider, call) < 0)
		abort();
	link->open++;
}

/* Submits requests on a connection, as long as fewer than load.streams are in flight on it. With a
 * rate, submits only the requests that are due. */
static void fill(struct link *link, uint64_t now)
{
	if (now >= load.end_ns)
		return;
	if (!load.gap_ns) {
		while (link->open < load.streams)
			begin(link, now);
		return;
	}
	while (load.due_ns <= now && link->open < load.streams) {
		begin(link, load.due_ns);
		load.due_ns += load.gap_ns;
	}
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *context)
{
	struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (call && name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
		call->ok = value_len == 1 && *value == '0';
	if (call && name_len == 7 && memcmp(name, ":status", 7) == 0 && value_len == 3 &&
	    memcmp(value, "200", 3) != 0)
		call->ok = false;
	(void)flags, (void)context;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
	struct link *link = context;
	struct call *call = nghttp2_session_get_stream_user_data(session, id);
	uint64_t now = now_ns();

	link->open--;
	if (load.done < SAMPLES_MAX)
		load.latency_us[load.done] = (uint32_t)((now - call->begun_ns) / 1000);
	load.done++;
	load.failed += error != 0 || !call->ok;
	free(call);
	if (!load.gap_ns)
		fill(link, now);
	return 0;
}

static void flush(struct link *link)
{
	static uint8_t out[WRITE_BYTES];
	const uint8_t *bytes;
	size_t len = 0;
	ssize_t n;

	for (;;) {
		n = nghttp2_session_mem_send(link->session, &bytes);
		if (n < 0)
			abort();
		if (n == 0 || len + (size_t)n > sizeof out) {
			for (size_t at = 0; at < len;) {
				ssize_t sent = send(link->fd, out + at, len - at, MSG_NOSIGNAL);

				if (sent < 0) {
					perror("grpc-load: send");
					exit(1);
				}
				at += (size_t)sent;
			}
			len = 0;
			if (n == 0)
				return;
		}
		memcpy(out + len, bytes, (size_t)n);
		len += (size_t)n;
	}
}

static void receive(struct link *link)
{
	uint8_t in[65536];
	ssize_t n = recv(link->fd, in, sizeof in, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		fputs("grpc-load: the server closed a connection\n", stderr);
		exit(1);
	}
	if (n > 0 && nghttp2_session_mem_recv(link->session, in, (size_t)n) < 0)
		abort();
}

static void open_link(struct link *link, unsigned port, int poller, unsigned number)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
	nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (1u << 30) - 1};
	nghttp2_session_callbacks *callbacks;
	int one = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	link->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&to, sizeof to) < 0) {
		perror("grpc-load");
		exit(1);
	}
	setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_client_new(&link->session, callbacks, link);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(link->session, 0, &window, 1);
	nghttp2_session_set_local_window_size(link->session, 0, 0, (1 << 30) - 1);
	epoll_ctl(poller, EPOLL_CTL_ADD, link->fd, &event);
}

static bool all_done(const struct link *links)
{
	for (unsigned i = 0; i < load.connections; i++)
		if (links[i].open)
			return false;
	return now_ns() >= load.end_ns;
}

static void run(struct link *links, int poller)
{
	struct epoll_event events[64];
	unsigned turn = 0;

	for (unsigned i = 0; !load.gap_ns && i < load.connections; i++)
		fill(&links[i], now_ns());
	while (!all_done(links)) {
		int count;

		for (unsigned i = 0; load.gap_ns && i < load.connections; i++)
			fill(&links[turn++ % load.connections], now_ns());
		for (unsigned i = 0; i < load.connections; i++)
			flush(&links[i]);
		count = epoll_wait(poller, events, 64, load.gap_ns ? 0 : 100);
		for (int i = 0; i < count; i++)
			receive(&links[events[i].data.u32]);
	}
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double quantile_ms(double share)
{
	uint64_t count = load.done < SAMPLES_MAX ? load.done : SAMPLES_MAX;

	return count ? load.latency_us[(uint64_t)((double)(count - 1) * share)] / 1000.0 : 0;
}

/* Returns the number argv[i], or `otherwise` if that argument is missing or not a number. */
static double argument(int argc, char **argv, int i, double otherwise)
{
	char *end = NULL;
	double value = i < argc ? strtod(argv[i], &end) : otherwise;

	return i < argc && (end == argv[i] || *end) ? otherwise : value;
}

int main(int argc, char **argv)
{
	static struct link links[256];
	double seconds = argument(argc, argv, 2, 0);
	double rate = argument(argc, argv, 6, 0);
	int poller = epoll_create1(0);
	uint64_t begun_ns;

	if (argc < 3 || seconds <= 0) {
		fputs("usage: grpc-load PORT SECONDS [KEYS [CONNECTIONS [STREAMS [RATE]]]]\n",
		      stderr);
		return 2;
	}
	load.keys = (uint64_t)argument(argc, argv, 3, (double)load.keys);
	load.connections = (unsigned)argument(argc, argv, 4, load.connections);
	load.streams = (unsigned)argument(argc, argv, 5, load.streams);
	load.gap_ns = rate > 0 ? (uint64_t)(1e9 / rate) : 0;
	load.latency_us = calloc(SAMPLES_MAX, sizeof *load.latency_us);
	if (!load.latency_us || !load.keys || load.connections - 1 >= 256)
		return 2;
	for (unsigned i = 0; i < load.connections; i++)
		open_link(&links[i], (unsigned)argument(argc, argv, 1, 0), poller, i);
	begun_ns = load.due_ns = now_ns();
	load.end_ns = begun_ns + (uint64_t)(seconds * 1e9);
	run(links, poller);
	seconds = (double)(now_ns() - begun_ns) / 1e9;
	qsort(load.latency_us, load.done < SAMPLES_MAX ? load.done : SAMPLES_MAX,
	      sizeof *load.latency_us, by_size);
	printf("%llu %.1f %.3f %.3f %llu\n", (unsigned long long)load.done,
	       (double)load.done / seconds, quantile_ms(0.5), quantile_ms(0.99),
	       (unsigned long long)load.failed);
	return 0;
}
