/* Connecting: addresses, Unix sockets, refusals, timeouts, signals. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "net/dial.h"

#define TIMEOUT_US 2000000u

static char folder[] = "/tmp/weir-dial-XXXXXX";

static int setup(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(folder);
}

/* Listens at an address and fills in the endpoint to connect to. Returns the socket. */
static int listen_at(const char *text, int backlog, struct wr_endpoint *at)
{
	union wr_dial_address address;
	socklen_t len = sizeof address;
	struct weir_error error;
	int fd;

	assert_int_equal(wr_endpoint_parse(wr_str(text), at, &error), 0);
	at->port = 0; /* the kernel chooses a port */
	wr_dial_address(at, &address);
	fd = socket(address.any.sa_family, SOCK_STREAM, 0);
	assert_int_equal(
		bind(fd, &address.any,
		     at->kind == WR_ENDPOINT_UNIX ? sizeof address.local : sizeof address.v6),
		0);
	assert_int_equal(listen(fd, backlog), 0);
	assert_int_equal(getsockname(fd, &address.any, &len), 0);
	if (at->kind == WR_ENDPOINT_V4)
		at->port = ntohs(address.v4.sin_port);
	if (at->kind == WR_ENDPOINT_V6)
		at->port = ntohs(address.v6.sin6_port);
	return fd;
}

static void expect_connection(const struct wr_endpoint *at, int listener)
{
	struct weir_error error;
	int fd = wr_dial(at, TIMEOUT_US, &error), peer;
	char byte = 0;

	assert_true(fd >= 0);
	peer = accept(listener, NULL, NULL);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(read(peer, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	close(peer);
	close(fd);
}

static void test_tcp(void **state)
{
	struct wr_endpoint at;
	struct weir_error error;
	int fd = listen_at("127.0.0.1:1", 4, &at);

	(void)state;
	expect_connection(&at, fd);
	at.kind = WR_ENDPOINT_NAME;
	strcpy(at.host, "localhost");
	expect_connection(&at, fd);
	close(fd);
	assert_int_equal(wr_dial(&at, TIMEOUT_US, &error), -1);
	assert_int_equal(error.code, WEIR_ESYS);
	assert_string_equal(error.text, strerror(ECONNREFUSED));
	strcpy(at.host, "name.invalid");
	assert_int_equal(wr_dial(&at, TIMEOUT_US, &error), -1);
	assert_string_not_equal(error.text, strerror(ECONNREFUSED));
}

static void test_non_blocking(void **state)
{
	union wr_dial_address address;
	struct wr_endpoint at;
	int listener = listen_at("127.0.0.1:1", 4, &at), fd;
	struct pollfd ready = {.events = POLLOUT};

	(void)state;
	wr_dial_address(&at, &address);
	for (int refused = 0; refused < 2; refused++) {
		ready.fd = fd = wr_dial_begin(&address.any);
		assert_true(fd >= 0);
		assert_int_equal(poll(&ready, 1, 2000), 1);
		assert_int_equal(wr_dial_result(fd), refused ? ECONNREFUSED : 0);
		close(fd);
		if (!refused)
			close(listener);
	}
}

static void test_unix(void **state)
{
	char text[64];
	struct wr_endpoint at;
	struct weir_error error;
	int fd;

	(void)state;
	snprintf(text, sizeof text, "unix:%s/socket", folder);
	fd = listen_at(text, 4, &at);
	expect_connection(&at, fd);
	assert_true(wr_dial_is_listening(at.host));
	close(fd);
	assert_false(wr_dial_is_listening(at.host));
	assert_int_equal(wr_dial(&at, TIMEOUT_US, &error), -1);
	assert_string_equal(error.text, strerror(ECONNREFUSED));
	unlink(at.host);
	assert_false(wr_dial_is_listening(at.host));
	assert_int_equal(wr_dial(&at, TIMEOUT_US, &error), -1);
	assert_string_equal(error.text, strerror(ENOENT));
}

static void ignore_signal(int number)
{
	(void)number;
}

/* An attempt to connect to a listener with a full backlog ends with its timeout. A signal interrupts
 * the attempt without ending it. */
static void test_timeout_despite_a_signal(void **state)
{
	struct sigaction act = {.sa_handler = ignore_signal};
	struct itimerval once = {.it_value = {0, 20000}};
	struct wr_endpoint at;
	struct weir_error error;
	int listener = listen_at("127.0.0.1:1", 0, &at), fds[4], count = 0;
	uint64_t start;

	(void)state;
	sigaction(SIGALRM, &act, NULL);
	while (count < 4 && (fds[count] = wr_dial(&at, 100000, &error)) >= 0)
		count++;
	assert_in_range(count, 1, 3);
	setitimer(ITIMER_REAL, &once, NULL);
	start = wr_clock_mono_ns();
	assert_int_equal(wr_dial(&at, 100000, &error), -1);
	assert_string_equal(error.text, strerror(ETIMEDOUT));
	assert_true(wr_clock_mono_ns() - start >= 100000000);
	while (count)
		close(fds[--count]);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_non_blocking),
		cmocka_unit_test(test_unix),
		cmocka_unit_test(test_timeout_despite_a_signal),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
