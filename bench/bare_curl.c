/* A minimal program on libcurl's multi interface that posts COUNT requests. Each handle posts the
 * same bytes again as soon as it has a response. `make bench-queue` compares the deliverer of
 * `weir serve` with this program.
 *
 *   bare-curl URL CONNECTIONS COUNT BYTES [SOCKET]     prints requests per second
 *
 * Like the deliverer it uses epoll and curl_multi_socket_action. curl_multi_poll would be slower,
 * because it checks every connection on each call. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, MOST_CONNECTIONS = 1024, EVENTS = 64 };

struct run {
	CURLM *multi;
	int epoll;
	long timeout_ms; /* time until libcurl must be called; below 0: no timeout */
	unsigned long left, under_way, done, failed;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t discard(char *data, size_t one, size_t count, void *nobody)
{
	(void)data, (void)nobody;
	return one * count;
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *context)
{
	struct run *run = context;

	(void)multi;
	run->timeout_ms = timeout_ms;
	return 0;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
	struct run *run = context;
	struct epoll_event event = {.data.fd = fd};

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(run->epoll, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	event.events = (what & CURL_POLL_IN ? (unsigned)EPOLLIN : 0) |
		       (what & CURL_POLL_OUT ? (unsigned)EPOLLOUT : 0);
	epoll_ctl(run->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
	curl_multi_assign(run->multi, fd, run);
	return 0;
}

static void begin(struct run *run, CURL *easy)
{
	if (!run->left)
		return;
	run->left--;
	run->under_way++;
	curl_multi_add_handle(run->multi, easy);
}

static void collect(struct run *run)
{
	const CURLMsg *message;
	int more;

	while ((message = curl_multi_info_read(run->multi, &more))) {
		CURL *easy = message->easy_handle;
		CURLcode result = message->data.result;
		long status = 0;

		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		run->failed += result != CURLE_OK || status != 200;
		run->done++;
		run->under_way--;
		curl_multi_remove_handle(run->multi, easy);
		begin(run, easy);
	}
}

static void turn(struct run *run)
{
	struct epoll_event events[EVENTS];
	int running;
	int count = epoll_wait(run->epoll, events, EVENTS, (int)run->timeout_ms);

	if (count <= 0)
		curl_multi_socket_action(run->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	for (int i = 0; i < count; i++) {
		unsigned seen = events[i].events;
		int what = (seen & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
			   (seen & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
			   (seen & EPOLLERR ? CURL_CSELECT_ERR : 0);

		curl_multi_socket_action(run->multi, events[i].data.fd, what, &running);
	}
	collect(run);
}

static CURL *make_handle(const char *url, const char *socket, const char *body, long size,
			 struct curl_slist *fields)
{
	CURL *easy = curl_easy_init();

	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, size);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard);
	if (socket)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, socket);
	return easy;
}

/* Returns the header fields that the deliverer of `weir gateway` sends. */
static struct curl_slist *make_fields(void)
{
	static const char *const lines[] = {
		"Content-Type: application/json",
		"X-Real-IP: 127.0.0.1",
		"X-Forwarded-For: 127.0.0.1",
		"X-Forwarded-Proto: http",
		"X-Forwarded-Host: localhost",
		"X-Forwarded-Port: 8080",
		"X-Request-Id: 0123456789abcdef0123456789abcdef",
		"Idempotency-Key: weir-0123456789abcdef0123456789abcdef",
		"X-Weir-Deferred: 2026-11-16T12:00:00.000Z",
		"Expect:",
	};
	struct curl_slist *fields = NULL;

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		fields = curl_slist_append(fields, lines[i]);
	return fields;
}

static void start(struct run *run)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	run->multi = curl_multi_init();
	run->epoll = epoll_create1(EPOLL_CLOEXEC);
	run->timeout_ms = -1;
	curl_multi_setopt(run->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(run->multi, CURLMOPT_SOCKETDATA, run);
	curl_multi_setopt(run->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
	curl_multi_setopt(run->multi, CURLMOPT_TIMERDATA, run);
}

int main(int argc, char **argv)
{
	static char body[MOST_BYTES];
	static CURL *handles[MOST_CONNECTIONS];
	unsigned long connections = argc > 4 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned long size = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
	struct curl_slist *fields = make_fields();
	struct run run = {.left = argc > 4 ? strtoul(argv[3], NULL, 10) : 0};
	double began;

	if (!connections || connections > MOST_CONNECTIONS || !run.left || size > sizeof body) {
		fputs("bare-curl URL CONNECTIONS COUNT BYTES [SOCKET]\n", stderr);
		return 2;
	}
	memset(body, 'x', size);
	start(&run);
	began = now_s();
	for (unsigned long i = 0; i < connections; i++) {
		handles[i] =
			make_handle(argv[1], argc > 5 ? argv[5] : NULL, body, (long)size, fields);
		begin(&run, handles[i]);
	}
	while (run.under_way)
		turn(&run);
	printf("%.1f\n", (double)run.done / (now_s() - began));
	if (run.failed)
		fprintf(stderr, "bare-curl: %lu of %lu failed\n", run.failed, run.done);
	for (unsigned long i = 0; i < connections; i++)
		curl_easy_cleanup(handles[i]);
	curl_multi_cleanup(run.multi);
	curl_slist_free_all(fields);
	curl_global_cleanup();
	return run.failed || close(run.epoll) ? 1 : 0;
}
