/* Connections to servers that the test runs itself in place of Redis, and lookups of their
 * names. */
#include "serve/helper.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/fake_central.h"
#include "net/resolve.h"
#include "serve/fleet/redis.h"

static const char RULES[] = "domain: rl\n"
			    "descriptors:\n"
			    "  - {key: user, rate_limit: {unit: year, requests_per_unit: 9}}\n";

static struct bench bench;
static struct fake_link link_;

static int setup(void **state)
{
	(void)state;
	bench_open_redis(&bench, RULES, "redis://127.0.0.1:1");
	memset(&link_, 0, sizeof link_);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (link_.link.data) /* the test failed and has not closed the link */
		fake->host.close(fake->context, &link_.link);
	bench_close(&bench);
	return 0;
}

/* Runs the loop until the condition is true. If it never becomes true, the suite's timeout ends the
 * test. */
#define UNTIL(condition)                                                                           \
	while (!(condition))                                                                       \
	uv_run(&bench.loop.uv, UV_RUN_ONCE)

static int listen_at(struct sockaddr *address, socklen_t len)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, address, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Listens at a free port of 127.0.0.1. */
static int listen_port(uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof address;
	int fd = listen_at((struct sockaddr *)&address, len);

	getsockname(fd, (struct sockaddr *)&address, &len);
	*port = ntohs(address.sin_port);
	return fd;
}

static void open_link(enum wr_endpoint_kind kind, const char *host, uint16_t port)
{
	link_.link.at.kind = kind;
	link_.link.at.port = port;
	snprintf(link_.link.at.host, sizeof link_.link.at.host, "%s", host);
	fake->host.open(fake->context, &link_.link);
}

static int connect_link(void)
{
	uint16_t port;
	int listening = listen_port(&port), fd;

	open_link(WR_ENDPOINT_V4, "127.0.0.1", port);
	UNTIL(link_.ups);
	fd = accept(listening, NULL, NULL);
	close(listening);
	return fd;
}

/* Connects the link over a Unix socket. Bytes that the server writes there can be read at once. */
static int connect_unix(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listening, fd;

	snprintf(address.sun_path, sizeof address.sun_path, "%s/redis.sock", bench.folder);
	listening = listen_at((struct sockaddr *)&address, sizeof address);
	open_link(WR_ENDPOINT_UNIX, address.sun_path, 0);
	UNTIL(link_.ups);
	fd = accept(listening, NULL, NULL);
	assert_true(fd >= 0);
	close(listening);
	unlink(address.sun_path);
	return fd;
}

static void close_link(void)
{
	fake->host.close(fake->context, &link_.link);
	bench_turn(&bench);
	assert_int_equal(link_.downs, 0);
}

/* A link that is marked dirty twice in a turn of the loop is written once. */
static void test_both_ways(void **state)
{
	char bytes[16] = "";
	int fd = connect_link();

	(void)state;
	link_.out = (const uint8_t *)"PING";
	link_.out_len = 4;
	fake->host.dirty(fake->context, &link_.link);
	fake->host.dirty(fake->context, &link_.link);
	UNTIL(link_.out_len == 0);
	assert_int_equal(read(fd, bytes, sizeof bytes), 4);
	assert_string_equal(bytes, "PING");
	assert_int_equal(write(fd, "+PONG\r\n", 7), 7);
	UNTIL(link_.in_len == 7);
	assert_memory_equal(link_.in, "+PONG\r\n", 7);
	close_link();
	assert_int_equal(read(fd, bytes, sizeof bytes), 0);
	close(fd);
}

/* Output that the kernel does not accept at once is sent as the server reads. */
static void test_large_output(void **state)
{
	enum { MUCH = 8 << 20 };
	uint8_t *bytes = calloc(1, MUCH), *read_back = malloc(65536);
	int fd = connect_link();
	size_t got = 0;

	(void)state;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	link_.out = bytes;
	link_.out_len = MUCH;
	fake->host.dirty(fake->context, &link_.link);
	uv_run(&bench.loop.uv, UV_RUN_NOWAIT);
	assert_true(link_.out_len > 0);
	while (got < MUCH) {
		ssize_t n = read(fd, read_back, 65536);

		if (n > 0)
			got += (size_t)n;
		else
			uv_run(&bench.loop.uv, UV_RUN_NOWAIT);
	}
	UNTIL(link_.out_len == 0);
	assert_int_equal(got, MUCH);
	close_link();
	close(fd);
	free(bytes);
	free(read_back);
}

/* The test binds the port without listening, so that no other process can use it meanwhile. */
static void test_refused(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	getsockname(fd, (struct sockaddr *)&address, &len);
	open_link(WR_ENDPOINT_V4, "127.0.0.1", ntohs(address.sin_port));
	UNTIL(link_.downs);
	close(fd);
	assert_string_equal(link_.why, strerror(ECONNREFUSED));
	assert_int_equal(link_.ups, 0);
	open_link(WR_ENDPOINT_UNIX, "/nonexistent/redis.sock", 0);
	assert_int_equal(link_.downs, 2);
	assert_string_equal(link_.why, strerror(ENOENT));
}

/* The server closes the connection after a reply: the reply is read before the failure is
 * reported. */
static void test_lost(void **state)
{
	int fd = connect_link();

	(void)state;
	assert_int_equal(write(fd, "-ERR max number of clients reached\r\n", 36), 36);
	close(fd);
	UNTIL(link_.downs);
	assert_int_equal(link_.in_len, 36);
	assert_string_equal(link_.why, "the server closed the connection");
}

/* The server resets the connection while a reply is unread and output cannot be sent. */
static void test_reset(void **state)
{
	struct linger at_once = {1, 0};
	int fd = connect_link();

	(void)state;
	assert_int_equal(write(fd, "-ERR why\r\n", 10), 10);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	close(fd);
	link_.out = (const uint8_t *)"PING";
	link_.out_len = 4;
	fake->host.dirty(fake->context, &link_.link);
	UNTIL(link_.downs);
	assert_int_equal(link_.downs, 1);
}

/* The central closes the link in the callback that reads its input. */
static void test_closed_while_reading(void **state)
{
	int fd = connect_link();
	char byte;

	(void)state;
	link_.closes_on_input = true;
	assert_int_equal(write(fd, "x", 1), 1);
	UNTIL(link_.in_len);
	bench_turn(&bench);
	assert_int_equal(link_.downs, 0);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
}

/* The loop was busy and runs a timer late: bytes that have arrived meanwhile are read before the
 * tick looks for timeouts. */
static void test_read_before_a_tick(void **state)
{
	int fd = connect_unix();

	(void)state;
	fake->watched = &link_;
	fake->host.wake_at(fake->context, 0);
	assert_int_equal(write(fd, "x", 1), 1);
	uv_run(&bench.loop.uv, UV_RUN_NOWAIT);
	assert_int_equal(fake->ticks, 1);
	assert_int_equal(fake->read_by_tick, 1);
	close_link();
	close(fd);
}

/* Over a Unix socket, bytes go both ways, and the server sees the end of the connection. */
static void test_unix(void **state)
{
	char bytes[16] = "";
	int fd = connect_unix();

	(void)state;
	assert_int_equal(link_.ups, 1);
	link_.out = (const uint8_t *)"PING";
	link_.out_len = 4;
	fake->host.dirty(fake->context, &link_.link);
	UNTIL(link_.out_len == 0);
	assert_int_equal(read(fd, bytes, sizeof bytes), 4);
	assert_string_equal(bytes, "PING");
	assert_int_equal(write(fd, "+PONG\r\n", 7), 7);
	UNTIL(link_.in_len == 7);
	assert_memory_equal(link_.in, "+PONG\r\n", 7);
	close_link();
	assert_int_equal(read(fd, bytes, sizeof bytes), 0);
	assert_int_equal(link_.ups, 1);
	assert_int_equal(link_.downs, 0);
	close(fd);
}

/* The link is closed while it connects, and while it looks up a name. */
static void test_closed_early(void **state)
{
	uint16_t port;
	int listening = listen_port(&port);

	(void)state;
	open_link(WR_ENDPOINT_V4, "127.0.0.1", port);
	close_link();
	open_link(WR_ENDPOINT_NAME, "localhost", port);
	close_link();
	assert_int_equal(link_.ups, 0);
	close(listening);
}

/* ---- names ---- */

/* The addresses of a name are tried one after the other: no server listens at ::1. */
static void test_name(void **state)
{
	uint16_t port;
	int listening = listen_port(&port);

	(void)state;
	open_link(WR_ENDPOINT_NAME, "localhost", port);
	UNTIL(link_.ups);
	assert_int_equal(link_.ups, 1);
	assert_int_equal(link_.downs, 0);
	close_link();
	memset(&link_, 0, sizeof link_);
	open_link(WR_ENDPOINT_NAME, "no.such.name.invalid", port);
	UNTIL(link_.downs);
	assert_int_equal(link_.ups, 0);
	assert_int_equal(link_.downs, 1);
	assert_true(strlen(link_.why) > 0);
	close(listening);
}

struct wait {
	struct wr_name_wait wait;
	int calls;
	unsigned addresses;
};

static void on_found(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		     const struct weir_error *error)
{
	struct wait *self = (struct wait *)wait;

	self->calls++;
	self->addresses = addresses ? addresses->count : 0;
	assert_true((error == NULL) == (addresses != NULL));
}

/* Two callers that look up the same name get the same result. A caller that has left is not called.
 * A later caller gets the stored result at once. */
static void test_lookups_are_shared(void **state)
{
	struct wr_names *names = bench.loop.redis->names;
	struct wait one = {{.found = on_found}, 0, 0}, two = one, three = one;

	(void)state;
	wr_names_find(names, "localhost", &one.wait);
	wr_names_find(names, "localhost", &two.wait);
	wr_names_leave(&one.wait);
	wr_names_leave(&one.wait);
	UNTIL(two.calls);
	assert_int_equal(one.calls, 0);
	assert_true(two.addresses > 0);
	for (;;) { /* until the result of a lookup without callers has been stored */
		wr_names_find(names, "localhost", &three.wait);
		if (three.calls)
			break;
		wr_names_leave(&three.wait);
		uv_run(&bench.loop.uv, UV_RUN_NOWAIT);
	}
	assert_int_equal(three.calls, 1);
	assert_int_equal(three.addresses, two.addresses);
}

/* The loop ends while the resolver still looks up a name. */
static void test_ends_while_looking_up(void **state)
{
	struct wait one = {{.found = on_found}, 0, 0};

	(void)state;
	wr_names_find(bench.loop.redis->names, "no.such.name.invalid", &one.wait);
	wr_serve_redis_loop_stop(&bench.loop);
	bench_turn(&bench);
	assert_int_equal(one.calls, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_both_ways),
		TEST(test_large_output),
		TEST(test_refused),
		TEST(test_lost),
		TEST(test_reset),
		TEST(test_closed_while_reading),
		TEST(test_read_before_a_tick),
		TEST(test_unix),
		TEST(test_closed_early),
		TEST(test_name),
		TEST(test_lookups_are_shared),
		TEST(test_ends_while_looking_up),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
