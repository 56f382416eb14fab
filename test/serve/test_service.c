/* Runs the whole service with its threads in this process, so that ThreadSanitizer and
 * AddressSanitizer can check it. */
#include "serve/service.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS 4
#define TURNS 200
#define BURST 100

static char folder[64], rules_path[96], address[96];
static struct wr_service service;
static int ended;

static void on_ended(void *context)
{
	assert_ptr_equal(context, &service);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void write_rules(int number)
{
	FILE *file = fopen(rules_path, "w");

	assert_non_null(file);
	fprintf(file,
		"domain: rl\n"
		"descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %d}}]\n",
		1000 + number);
	fclose(file);
}

static struct wr_settings settings_here(void)
{
	snprintf(folder, sizeof folder, "/tmp/weir-test-service-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(rules_path, sizeof rules_path, "%s/rules.yaml", folder);
	snprintf(address, sizeof address, "unix:%s/resp.sock", folder);
	write_rules(0);
	return (struct wr_settings){.rules = rules_path,
				    .table = "one",
				    .table_dir = folder,
				    .memory_bytes = 1 << 20,
				    .threads = 2,
				    .resp = {1, {address}},
				    .drain_ns = 5000000000,
				    .slow_ns = 5000000000,
				    .max_connections = 100,
				    .near_limit_percent = 80,
				    .headers = WEIR_PROFILE_X};
}

static void start(const char *redis)
{
	struct wr_settings settings = settings_here();
	struct weir_error error = {0};

	settings.redis = (struct wr_serve_redis_settings){
		.url = redis, .prefix = "weir", .timeout_ns = 20000000, .fleet_size = 1};
	ended = 0;
	if (wr_service_init(&service, &settings, &error) < 0)
		fail_msg("%s", error.text);
	service.ended = on_ended;
	service.context = &service;
	if (wr_service_start(&service, &error) < 0)
		fail_msg("%s", error.text);
}

static int setup(void **state)
{
	(void)state;
	start(NULL);
	return 0;
}

/* Starts a service whose Redis is not there. Each loop asks Redis, fails, and decides in the table
 * that all loops share. */
static int setup_redis(void **state)
{
	(void)state;
	start("redis://127.0.0.1:1");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wr_service_stop(&service);
	wr_service_free(&service);
	weir_remove("one", folder, NULL);
	unlink(rules_path);
	assert_int_equal(rmdir(folder),
			 0); /* succeeds only if the socket's file was removed, too */
	return 0;
}

/* ---- clients ---- */

static int connect_here(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof at.sun_path, "%s", address + strlen("unix:"));
	if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Reads this number of lines. Returns false if the connection has ended. */
static bool read_lines(int fd, int lines, char *text, size_t cap)
{
	size_t len = 0;

	while (lines > 0 && len + 1 < cap) {
		if (recv(fd, text + len, 1, 0) != 1)
			return false;
		lines -= text[len++] == '\n';
	}
	text[len] = '\0';
	return true;
}

/* Returns 1 if the request was admitted, 0 if it was refused, -1 if the connection has ended. */
static int throttle(int fd)
{
	static const char ask[] = "CL.THROTTLE key 99 1 86400\r\n";
	char answer[256];

	if (send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) < 0 ||
	    !read_lines(fd, 6, answer, sizeof answer))
		return -1;
	assert_memory_equal(answer, "*5\r\n:", 5);
	return answer[5] == '0';
}

static void *count_admitted(void *argument)
{
	int *admitted = argument;
	int fd = connect_here();

	for (int i = 0; i < TURNS; i++)
		*admitted += throttle(fd) == 1;
	close(fd);
	return NULL;
}

static void *ask_until_the_end(void *argument)
{
	int fd = connect_here();
	int *asked = argument;

	while (throttle(fd) >= 0)
		__atomic_fetch_add(asked, 1, __ATOMIC_RELAXED);
	close(fd);
	return NULL;
}

#define PATIENCE 6000 /* maximum number of pauses of 10 ms */

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){0, 10000000}, NULL);
}

/* ---- tests ---- */

static void test_one_counter_for_all_loops(void **state)
{
	pthread_t threads[CLIENTS];
	int admitted[CLIENTS] = {0}, sum = 0;

	(void)state;
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&threads[i], NULL, count_admitted, &admitted[i]);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(threads[i], NULL);
		sum += admitted[i];
	}
	assert_int_equal(sum, BURST);
}

static void resize(uint64_t bytes)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "one",
				 .dir = folder,
				 .memory_bytes = bytes,
				 .now_ns = now_ns()};
	struct weir_error error = {0};

	if (weir_resize(&opts, now_ns(), &error) < 0)
		fail_msg("%s", error.text);
}

static bool moved_on(const struct wr_core *from)
{
	struct wr_core *core = wr_service_core(&service);
	bool other = core != from;

	wr_core_release(core);
	return other;
}

/* The rules are reloaded and the table is resized twice while clients send requests. Every client
 * still gets replies. Then the service drains and all connections end. */
static void test_everything_at_once(void **state)
{
	pthread_t threads[CLIENTS];
	int asked[CLIENTS] = {0};

	(void)state;
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&threads[i], NULL, ask_until_the_end, &asked[i]);
	for (int round = 1; round <= 2; round++) {
		struct wr_core *core = wr_service_core(&service);

		write_rules(round);
		wr_service_reload(&service);
		resize((uint64_t)(round + 1) << 20);
		for (int i = 0; i < PATIENCE && !moved_on(core); i++)
			pause_shortly();
		assert_true(moved_on(core));
		wr_core_release(core);
	}
	for (int i = 0; i < CLIENTS; i++) {
		int before = __atomic_load_n(&asked[i], __ATOMIC_RELAXED);

		for (int n = 0;
		     n < PATIENCE && __atomic_load_n(&asked[i], __ATOMIC_RELAXED) == before; n++)
			pause_shortly();
		assert_true(__atomic_load_n(&asked[i], __ATOMIC_RELAXED) > before);
	}
	assert_int_equal(wr_service_health(&service), WR_HEALTH_SERVING);
	wr_service_drain(&service);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < PATIENCE && !__atomic_load_n(&ended, __ATOMIC_RELAXED); i++)
		pause_shortly();
	assert_int_equal(__atomic_load_n(&ended, __ATOMIC_RELAXED), 1);
	assert_int_equal(wr_service_health(&service), WR_HEALTH_NOT_SERVING);
	assert_int_equal(connect_here(), -1);
}

static void test_stopped_with_connections_open(void **state)
{
	int fds[10];

	(void)state;
	for (int i = 0; i < 10; i++) {
		fds[i] = connect_here();
		assert_int_equal(throttle(fds[i]), 1);
	}
	wr_service_stop(&service);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(throttle(fds[i]), -1);
		close(fds[i]);
	}
}

static int listen_there(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof at.sun_path, "%s", address + strlen("unix:"));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void test_init_that_fails_leaves_nothing(void **state)
{
	struct wr_settings settings = settings_here();
	struct weir_error error = {0};
	int fd = listen_there();

	(void)state;
	assert_int_equal(wr_service_init(&service, &settings, &error), WEIR_ESYS);
	assert_non_null(strstr(error.text, "the path is in use by another program"));
	settings.resp.count = 0;
	assert_int_equal(wr_service_init(&service, &settings, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "nothing to serve"));
	settings.rules = NULL;
	assert_int_equal(wr_service_init(&service, &settings, &error), WEIR_EINVAL);
	close(fd);
	unlink(address + strlen("unix:"));
	weir_remove("one", folder, NULL);
	unlink(rules_path);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define CASE_REDIS(f) cmocka_unit_test_setup_teardown(f, setup_redis, teardown)
	const struct CMUnitTest tests[] = {
		CASE(test_one_counter_for_all_loops),
		CASE(test_everything_at_once),
		CASE(test_stopped_with_connections_open),
		CASE_REDIS(test_one_counter_for_all_loops),
		CASE_REDIS(test_everything_at_once),
		CASE_REDIS(test_stopped_with_connections_open),
		cmocka_unit_test(test_init_that_fails_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
