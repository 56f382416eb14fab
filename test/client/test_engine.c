/* The client against a small HTTP server of this process: many threads on one handle, requests that
 * are started and taken, the ends of requests, and what the client refuses to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/client.h>

#define SECOND_NS 1000000000ull
#define THREADS 8
#define REQUESTS 25 /* of each thread */

/* ---- the server ---- */

struct rig {
	int listener;
	unsigned port;
	pthread_t acceptor;
	atomic_uint requests, refused, connections;
	atomic_bool silent_asked;
	struct weir_client *client;
};

static void reply(int fd, const char *status, const char *fields, const char *body)
{
	char text[1024];
	int len = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s",
			   status, strlen(body), fields, body);

	if (write(fd, text, (size_t)len) != len)
		close(fd);
}

/* Answers a request by its path. Returns false if the connection ends. */
static bool answer(struct rig *rig, int fd, const char *head)
{
	unsigned number = ++rig->requests;

	if (strncmp(head, "GET /silent", 11) == 0) {
		rig->silent_asked = true;
	} else if (strncmp(head, "GET /fault", 10) == 0) {
		reply(fd, "500 Internal Server Error", "", "fault");
	} else if (strncmp(head, "GET /some", 9) == 0 && number % 5 == 0) {
		rig->refused++;
		reply(fd, "429 Too Many Requests", "Retry-After-Ms: 1\r\n", "slow down");
	} else if (strncmp(head, "GET /large", 10) == 0) {
		reply(fd, "200 OK", "", "0123456789");
	} else if (strncmp(head, "GET /endless", 12) == 0) {
		static const char status[] = "HTTP/1.1 200 OK\r\n";

		if (write(fd, status, sizeof status - 1) > 0)
			while (send(fd, "X: 0123456789012345678901234567890123456789\r\n", 45,
				    MSG_NOSIGNAL) > 0)
				;
		return false;
	} else {
		reply(fd, "200 OK", "X-Two: 2\r\nX-One: 1\r\n", "hello");
	}
	return true;
}

struct connection {
	struct rig *rig;
	int fd;
};

static void *serve(void *context)
{
	struct connection *connection = context;
	char head[4096];
	size_t len = 0;
	ssize_t got;

	while ((got = read(connection->fd, head + len, sizeof head - 1 - len)) > 0) {
		len += (size_t)got;
		head[len] = '\0';
		if (!strstr(head, "\r\n\r\n"))
			continue;
		len = 0;
		if (!answer(connection->rig, connection->fd, head))
			break;
	}
	close(connection->fd);
	connection->rig->connections--;
	free(connection);
	return NULL;
}

static void *accept_all(void *context)
{
	struct rig *rig = context;
	int fd;

	while ((fd = accept(rig->listener, NULL, NULL)) >= 0) {
		struct connection *connection = malloc(sizeof *connection);
		pthread_t thread;

		*connection = (struct connection){rig, fd};
		rig->connections++;
		pthread_create(&thread, NULL, serve, connection);
		pthread_detach(thread);
	}
	return NULL;
}

static int setup(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct weir_client_opts opts = {.size = sizeof opts,
					.flags = WEIR_CLIENT_NO_PROXY,
					.body_bytes = 9,
					.attempts = 50,
					.seed = 7};
	socklen_t size = sizeof address;
	struct rig *rig = calloc(1, sizeof *rig);

	rig->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(rig->listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(rig->listener, 100), 0);
	getsockname(rig->listener, (struct sockaddr *)&address, &size);
	rig->port = ntohs(address.sin_port);
	assert_int_equal(pthread_create(&rig->acceptor, NULL, accept_all, rig), 0);
	assert_int_equal(weir_client_open(&opts, &rig->client, NULL), 0);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	weir_client_close(rig->client);
	shutdown(rig->listener, SHUT_RDWR);
	pthread_join(rig->acceptor, NULL);
	close(rig->listener);
	while (rig->connections) /* the client has closed them */
		usleep(1000);
	free(rig);
	return 0;
}

static struct weir_request request_of(const struct rig *rig, const char *path, char url[64])
{
	snprintf(url, 64, "http://127.0.0.1:%u%s", rig->port, path);
	return (struct weir_request){.size = sizeof(struct weir_request), .url = url};
}

/* ---- responses ---- */

static void a_response_has_status_fields_and_body(void **state)
{
	struct rig *rig = *state;
	struct weir_client_info info = {.size = sizeof info};
	char url[64];
	struct weir_request request = request_of(rig, "/a", url);
	struct weir_response *response;

	assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), 0);
	assert_int_equal(response->status, 200);
	assert_string_equal(response->body, "hello");
	assert_int_equal(response->body_len, 5);
	assert_string_equal(weir_response_header(response, "x-one"), "1");
	assert_null(weir_response_header(response, "x-three"));
	assert_string_equal(response->url, url);
	assert_int_equal(response->attempts, 1);
	assert_int_equal(response->cache, WEIR_CACHE_UNUSED);
	weir_response_free(response);
	assert_int_equal(weir_client_info(rig->client, &info), 0);
	assert_int_equal(info.requests, 1);
	assert_int_equal(info.attempts, 1);
	assert_int_equal(info.body_bytes, 5);
}

static void *send_many(void *context)
{
	struct rig *rig = context;
	char url[64];
	struct weir_request request = request_of(rig, "/some", url);
	uintptr_t complete = 0;

	for (int i = 0; i < REQUESTS; i++) {
		struct weir_response *response;

		if (weir_client_send(rig->client, &request, &response, NULL) == 0 &&
		    response->status == 200 && strcmp(response->body, "hello") == 0)
			complete++;
		weir_response_free(response);
	}
	return (void *)complete;
}

static void threads_share_a_client(void **state)
{
	struct rig *rig = *state;
	struct weir_client_info info = {.size = sizeof info};
	pthread_t threads[THREADS];
	uintptr_t complete = 0;
	void *some;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_many, rig), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &some);
		complete += (uintptr_t)some;
	}
	assert_int_equal(complete, THREADS * REQUESTS);
	assert_int_equal(weir_client_info(rig->client, &info), 0);
	assert_int_equal(info.requests, THREADS * REQUESTS);
	assert_int_equal(info.attempts, rig->requests);
	assert_int_equal(info.refusals, rig->refused);
	assert_int_equal(info.retries, rig->refused);
	assert_int_equal(info.hosts, 1);
}

static void started_requests_are_taken(void **state)
{
	struct rig *rig = *state;
	char url[64];
	struct weir_request request = request_of(rig, "/a", url);
	struct weir_response *response;
	bool seen[100] = {false};

	assert_null(weir_client_next(rig->client, 60 * SECOND_NS)); /* nothing is under way */
	for (uintptr_t i = 0; i < 100; i++) {
		request.context = (void *)i;
		assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	}
	for (int i = 0; i < 100; i++) {
		response = weir_client_next(rig->client, 60 * SECOND_NS);
		assert_non_null(response);
		assert_int_equal(response->status, 200);
		assert_false(seen[(uintptr_t)response->context]);
		seen[(uintptr_t)response->context] = true;
		weir_response_free(response);
	}
	assert_null(weir_client_next(rig->client, 60 * SECOND_NS));
}

/* A thread that takes responses until there are none. */
struct taker {
	struct weir_client *client;
	pthread_t thread;
	atomic_int id;
	unsigned taken;
};

static void *take_all(void *context)
{
	struct taker *taker = context;
	struct weir_response *response;

	taker->id = gettid();
	while ((response = weir_client_next(taker->client, UINT64_MAX))) {
		taker->taken++;
		weir_response_free(response);
	}
	return NULL;
}

/* Returns whether the thread sleeps, by its state in /proc. */
static bool sleeps(const struct taker *taker)
{
	char path[64], state = '\0';
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)taker->id);
	file = taker->id ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = '\0';
	fclose(file);
	return state == 'S';
}

static void all_threads_that_take_responses_return_after_the_last_one(void **state)
{
	struct rig *rig = *state;
	struct taker takers[2] = {{.client = rig->client}, {.client = rig->client}};
	char url[64];
	struct weir_request request = request_of(rig, "/silent", url);

	assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&takers[i].thread, NULL, take_all, &takers[i]), 0);
	while (!rig->silent_asked || !sleeps(&takers[0]) || !sleeps(&takers[1]))
		usleep(1000);
	weir_client_cancel(rig->client);
	for (int i = 0; i < 2; i++)
		pthread_join(takers[i].thread, NULL);
	assert_int_equal(takers[0].taken + takers[1].taken, 1);
}

/* ---- ends ---- */

static void a_cancelled_request_ends(void **state)
{
	struct rig *rig = *state;
	char url[64];
	struct weir_request request = request_of(rig, "/silent", url);
	struct weir_response *response;

	assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	while (!rig->silent_asked)
		usleep(1000);
	assert_null(weir_client_next(rig->client, 1));
	weir_client_cancel(rig->client);
	response = weir_client_next(rig->client, 60 * SECOND_NS);
	assert_non_null(response);
	assert_int_equal(response->code, WEIR_ECANCELED);
	weir_response_free(response);
	/* The client can be used further. */
	request = request_of(rig, "/a", url);
	assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), 0);
	weir_response_free(response);
}

/* The breaker lets a single request through, and this request ends without a result. */
static void a_probe_that_is_cancelled_does_not_block_its_host(void **state)
{
	struct rig *rig = *state;
	char url[64];
	struct weir_request request = request_of(rig, "/fault", url);
	struct weir_response *response;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), 0);
		assert_int_equal(response->status, 500);
		weir_response_free(response);
	}
	request = request_of(rig, "/silent", url);
	assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	while (!rig->silent_asked)
		usleep(1000);
	weir_client_cancel(rig->client);
	response = weir_client_next(rig->client, 60 * SECOND_NS);
	assert_non_null(response);
	assert_int_equal(response->code, WEIR_ECANCELED);
	weir_response_free(response);
	request = request_of(rig, "/a", url);
	request.deadline_ns = 10 * SECOND_NS;
	assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), 0);
	weir_response_free(response);
}

static void a_client_is_closed_with_requests_under_way(void **state)
{
	struct rig *rig = *state;
	char url[64];
	struct weir_request request = request_of(rig, "/silent", url);

	for (int i = 0; i < 20; i++)
		assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	request = request_of(rig, "/a", url);
	assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	while (!rig->silent_asked)
		usleep(1000);
}

static void a_deadline_ends_a_silent_request(void **state)
{
	struct rig *rig = *state;
	char url[64];
	struct weir_request request = request_of(rig, "/silent", url);
	struct weir_response *response;

	request.deadline_ns = SECOND_NS / 10;
	assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), WEIR_EDEADLINE);
	assert_int_equal(response->code, WEIR_EDEADLINE);
	weir_response_free(response);
}

/* With a request per 2 s, 50 requests that took a time each would delay the last one by 100 s. */
static void requests_beyond_their_deadline_take_no_time(void **state)
{
	const struct rig *rig = *state;
	struct weir_client_opts opts = {.size = sizeof opts,
					.flags = WEIR_CLIENT_NO_PROXY,
					.rate_count = 1,
					.rate_ns = 2 * SECOND_NS};
	char url[64];
	struct weir_request request = request_of(rig, "/a", url);
	struct weir_response *response;
	struct weir_client *client;

	assert_int_equal(weir_client_open(&opts, &client, NULL), 0);
	assert_int_equal(weir_client_send(client, &request, &response, NULL), 0);
	weir_response_free(response);
	request.deadline_ns = SECOND_NS / 100;
	for (int i = 0; i < 50; i++) {
		weir_client_send(client, &request, &response, NULL);
		weir_response_free(response);
	}
	request.deadline_ns = 20 * SECOND_NS;
	assert_int_equal(weir_client_send(client, &request, &response, NULL), 0);
	weir_response_free(response);
	weir_client_close(client);
}

static void large_responses_are_errors(void **state)
{
	struct rig *rig = *state;
	struct weir_error error;
	char url[64];
	struct weir_request request = request_of(rig, "/large", url); /* 10 bytes, of at most 9 */
	struct weir_response *response;

	assert_int_equal(weir_client_send(rig->client, &request, &response, &error),
			 WEIR_ETOOLARGE);
	assert_int_equal(error.code, WEIR_ETOOLARGE);
	assert_int_equal(response->attempts, 1);
	weir_response_free(response);
	request = request_of(rig, "/endless", url);
	request.flags = WEIR_REQUEST_NO_CACHE;
	assert_true(weir_client_send(rig->client, &request, &response, &error) < 0);
	weir_response_free(response);
}

static int refuse_body(void *context, const struct weir_response *response, uint64_t offset,
		       const void *bytes, size_t len)
{
	unsigned *calls = context;

	assert_int_equal(response->status, 200);
	assert_int_equal(offset, 0);
	assert_memory_equal(bytes, "hello", len);
	return ++*calls;
}

static void the_callers_function_can_end_a_request(void **state)
{
	struct rig *rig = *state;
	unsigned calls = 0;
	char url[64];
	struct weir_request request = request_of(rig, "/a", url);
	struct weir_response *response;

	request.on_body = refuse_body;
	request.context = &calls;
	assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), WEIR_ECALLBACK);
	assert_int_equal(calls, 1);
	weir_response_free(response);
}

/* ---- names ---- */

static atomic_bool resolves, resolver_may_end;

/* Takes the place of the function of libc, and has the names of its parameters. The resolver of
 * libcurl calls it on a thread of its own. For the name "stuck.invalid" it returns only when the test
 * lets it. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
						       const struct addrinfo *req,
						       struct addrinfo **pai)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (!name || strcmp(name, "stuck.invalid") != 0) {
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
		return real(name, service, req, pai);
	}
	resolves = true;
	while (!resolver_may_end)
		usleep(1000);
	return EAI_AGAIN;
}

static void a_resolver_that_is_stuck_stops_no_other_request(void **state)
{
	struct rig *rig = *state;
	struct weir_request request = {.size = sizeof request, .url = "http://stuck.invalid/"};
	struct weir_response *response;
	char url[64];

	assert_int_equal(weir_client_start(rig->client, &request, NULL), 0);
	while (!resolves)
		usleep(1000);
	weir_client_cancel(rig->client);
	response = weir_client_next(rig->client, 20 * SECOND_NS);
	assert_non_null(response);
	assert_int_equal(response->code, WEIR_ECANCELED);
	weir_response_free(response);
	request = request_of(rig, "/a", url);
	assert_int_equal(weir_client_send(rig->client, &request, &response, NULL), 0);
	weir_response_free(response);
}

/* The resolver ends also if the test has failed. */
static int end_resolver(void **state)
{
	resolver_may_end = true;
	return teardown(state);
}

/* ---- what is refused ---- */

static int code_for(struct rig *rig, const struct weir_request *request)
{
	struct weir_response *response;

	return weir_client_send(rig->client, request, &response, NULL);
}

static void bad_requests_are_not_sent(void **state)
{
	struct rig *rig = *state;
	char url[64];
	struct weir_request good = request_of(rig, "/a", url), bad = good;
	struct weir_field field = {"X-A", "a\r\nX-B: b"};

	bad.url = "http://127.0.0.1/\r\nX: y";
	assert_int_equal(code_for(rig, &bad), WEIR_EURL);
	bad.url = "ftp://127.0.0.1/";
	assert_int_equal(code_for(rig, &bad), WEIR_EURL);
	bad.url = NULL;
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	bad = good;
	bad.method = "GET /\r\n";
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	bad = good;
	bad.fields = &field;
	bad.field_count = 1;
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	field = (struct weir_field){"X A", "a"};
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	field = (struct weir_field){"Content-Length", "5"};
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	bad = good;
	bad.offset = 5;
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	bad = good;
	bad.flags = 16;
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	bad = good;
	bad.size = 4;
	assert_int_equal(code_for(rig, &bad), WEIR_EINVAL);
	assert_int_equal(rig->requests, 0);
}

static void bad_options_are_refused(void **state)
{
	struct weir_client_opts opts = {.size = sizeof opts};
	struct weir_client *client;
	struct weir_error error;

	assert_int_equal(weir_client_open(NULL, &client, &error), WEIR_EINVAL);
	opts.size = 1;
	assert_int_equal(weir_client_open(&opts, &client, &error), WEIR_EINVAL);
	opts.size = sizeof opts;
	opts.attempts = 101;
	assert_int_equal(weir_client_open(&opts, &client, &error), WEIR_EINVAL);
	opts.attempts = 0;
	opts.reserved = 1;
	assert_int_equal(weir_client_open(&opts, &client, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "reserved"));
	opts.reserved = 0;
	opts.flags = 4;
	assert_int_equal(weir_client_open(&opts, &client, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "0x4"));
	opts.flags = 0;
	opts.user_agent = "a\nb";
	assert_int_equal(weir_client_open(&opts, &client, &error), WEIR_EINVAL);
	opts.user_agent = NULL;
	opts.ca_file = "/nonexistent";
	assert_int_equal(weir_client_open(&opts, &client, &error), WEIR_ESYS);
	assert_non_null(strstr(error.text, "/nonexistent"));
	(void)state;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_response_has_status_fields_and_body),
		TEST(threads_share_a_client),
		TEST(started_requests_are_taken),
		TEST(all_threads_that_take_responses_return_after_the_last_one),
		TEST(a_cancelled_request_ends),
		TEST(a_probe_that_is_cancelled_does_not_block_its_host),
		TEST(a_client_is_closed_with_requests_under_way),
		TEST(a_deadline_ends_a_silent_request),
		TEST(requests_beyond_their_deadline_take_no_time),
		TEST(large_responses_are_errors),
		TEST(the_callers_function_can_end_a_request),
		cmocka_unit_test_setup_teardown(a_resolver_that_is_stuck_stops_no_other_request,
						setup, end_resolver),
		TEST(bad_requests_are_not_sent),
		cmocka_unit_test(bad_options_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
