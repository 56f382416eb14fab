/* Streams on a socket pair: output, input, back pressure, time limits, ends. */
#include "serve/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/stream_impl.h"

/* The calls that the protocol of these tests has received, and how it responds to them. */
static struct {
	int opens, writables, drains, closes; /* numbers of calls */
	size_t taken;                         /* number of bytes received */
	struct wr_stream *stream;
	int (*on_input)(struct wr_stream *stream, const uint8_t *data, size_t len);
	bool end_on_drain; /* `drain` closes the stream */
} seen;

static struct bench bench;
static struct wr_quota quota;
static int peer;

static int on_open(struct wr_stream *stream)
{
	seen.opens++;
	seen.stream = stream;
	return 0;
}

static int on_input(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	seen.taken += len;
	return seen.on_input ? seen.on_input(stream, data, len) : 0;
}

static void on_writable(struct wr_stream *stream)
{
	(void)stream;
	seen.writables++;
}

static void on_drain(struct wr_stream *stream)
{
	seen.drains++;
	if (seen.end_on_drain)
		wr_stream_close(stream);
}

static void on_closed(struct wr_stream *stream)
{
	(void)stream;
	seen.closes++;
	seen.stream = NULL;
}

static const struct wr_protocol protocol = {.name = "test",
					    .state_bytes = 16,
					    .open = on_open,
					    .input = on_input,
					    .writable = on_writable,
					    .drain = on_drain,
					    .closed = on_closed};

static struct wr_listener listener = {
	.magic = WR_LISTENER_MAGIC, .name = "test", .text = "here", .protocol = &protocol};

static int setup(void **state)
{
	int ends[2];

	(void)state;
	memset(&seen, 0, sizeof seen);
	quota = (struct wr_quota){.max = 10, .used = 1};
	listener.quota = &quota;
	bench_open(&bench,
		   "domain: rl\ndescriptors: [{key: user, rate_limit: {unlimited: true}}]\n");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
			 0);
	peer = ends[1];
	wr_stream_accept(&bench.loop.net, &listener, NULL, ends[0], NULL);
	assert_int_equal(seen.opens, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (peer >= 0)
		close(peer);
	bench_close(&bench);
	assert_int_equal(seen.closes, 1);
	assert_int_equal(quota.used, 0);
	assert_int_equal(bench.loop.net.buffered, 0);
	return 0;
}

static ssize_t peer_read(char *bytes, size_t cap)
{
	ssize_t n = recv(peer, bytes, cap, 0);

	return n < 0 && errno == EAGAIN ? -1 : n;
}

static size_t peer_read_all(void)
{
	static char bytes[1 << 16];
	size_t sum = 0;
	ssize_t n;

	do {
		n = peer_read(bytes, sizeof bytes);
		sum += n > 0 ? (size_t)n : 0;
		bench_turn(&bench);
	} while (n > 0);
	return sum;
}

static int echo(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	return wr_stream_write(stream, data, len);
}

static void test_echo_and_end_of_input(void **state)
{
	char bytes[16];

	(void)state;
	seen.on_input = echo;
	assert_int_equal(send(peer, "hello", 5, 0), 5);
	bench_turn(&bench);
	assert_int_equal(peer_read(bytes, sizeof bytes), 5);
	assert_memory_equal(bytes, "hello", 5);
	assert_int_equal(send(peer, "x", 1, 0), 1);
	shutdown(peer, SHUT_WR);
	bench_turn(&bench);
	assert_int_equal(peer_read(bytes, sizeof bytes), 1); /* the last byte is echoed too */
	assert_int_equal(peer_read(bytes, sizeof bytes), 0);
	bench_turn(&bench);
	assert_int_equal(seen.closes, 1);
}

static void test_reserve_and_commit(void **state)
{
	char bytes[16];
	uint8_t *room = wr_stream_reserve(seen.stream, 10);

	(void)state;
	memcpy(room, (const char[]){'a', 'b', 'c'}, 3);
	wr_stream_commit(seen.stream, 3);
	assert_int_equal(wr_stream_pending(seen.stream), 3);
	wr_stream_reserve(seen.stream, 10);
	wr_stream_commit(seen.stream, 0);
	bench_turn(&bench);
	assert_int_equal(wr_stream_pending(seen.stream), 0);
	assert_int_equal(peer_read(bytes, sizeof bytes), 3);
}

static int answer_and_fail(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	(void)data;
	(void)len;
	wr_stream_write(stream, "no", 2);
	return -1;
}

/* The output is sent before the stream ends, although input is left unread. */
static void test_output_is_sent_after_failed_input(void **state)
{
	char bytes[16];

	(void)state;
	seen.on_input = answer_and_fail;
	assert_int_equal(send(peer, "x", 1, 0), 1);
	bench_turn(&bench);
	assert_int_equal(send(peer, "more", 4, 0), 4);
	bench_turn(&bench);
	assert_int_equal(seen.taken, 1);
	assert_int_equal(peer_read(bytes, sizeof bytes), 2);
	assert_int_equal(peer_read(bytes, sizeof bytes), 0);
	assert_int_equal(seen.closes, 0); /* the stream waits until the peer closes */
	close(peer);
	peer = -1;
	bench_turn(&bench);
	assert_int_equal(seen.closes, 1);
}

static void test_back_pressure(void **state)
{
	static uint8_t much[WR_HIGH_BYTES * 4];
	size_t sent = 0;

	(void)state;
	assert_int_equal(wr_stream_write(seen.stream, much, sizeof much), 0);
	bench_turn(&bench);
	assert_true(wr_stream_pending(seen.stream) > WR_HIGH_BYTES);
	assert_int_equal(send(peer, "x", 1, 0), 1);
	bench_turn(&bench);
	assert_int_equal(seen.taken, 0); /* reading has stopped because of the unsent output */
	sent = peer_read_all();
	assert_int_equal(sent, sizeof much);
	assert_int_equal(seen.writables, 1);
	bench_turn(&bench);
	assert_int_equal(seen.taken, 1);
}

static void test_maximum_output_of_a_stream(void **state)
{
	static uint8_t much[WR_OUTPUT_MAX];

	(void)state;
	assert_int_equal(wr_stream_write(seen.stream, much, sizeof much), 0);
	assert_int_equal(wr_stream_write(seen.stream, much, 1), -1);
	assert_int_equal(wr_stream_write(seen.stream, much, 0), -1); /* it was aborted */
	bench_turn(&bench);
	assert_int_equal(seen.closes, 1);
}

/* All streams of a loop together may have 64 MiB of unsent output. A stream whose write would exceed
 * this limit is aborted. */
static void test_maximum_output_of_a_loop(void **state)
{
	(void)state;
	bench.loop.net.buffered = 67108864 - 3; /* stands for the output of other streams */
	assert_int_equal(wr_stream_write(seen.stream, "abc", 3), 0);
	assert_int_equal(bench.loop.net.buffered, 67108864);
	assert_int_equal(wr_stream_write(seen.stream, "d", 1), -1);
	bench_turn(&bench);
	assert_int_equal(seen.closes, 1);
	assert_int_equal(bench.loop.net.buffered, 67108864 - 3);
	bench.loop.net.buffered = 0;
}

static void test_pause(void **state)
{
	(void)state;
	wr_stream_pause(seen.stream, true);
	assert_int_equal(send(peer, "x", 1, 0), 1);
	bench_turn(&bench);
	assert_int_equal(seen.taken, 0);
	wr_stream_pause(seen.stream, false);
	bench_turn(&bench);
	assert_int_equal(seen.taken, 1);
}

static void sweep_at(uint64_t now_ms)
{
	wr_streams_sweep(&bench.loop.net, now_ms);
	bench_turn(&bench);
}

static void sweep_after(uint64_t ms)
{
	sweep_at(uv_now(&bench.loop.uv) + ms);
}

static void test_slow_request_is_aborted(void **state)
{
	(void)state;
	wr_stream_midway(seen.stream, true);
	sweep_after(BENCH_SLOW_MS - 1);
	assert_int_equal(seen.closes, 0);
	wr_stream_midway(seen.stream, true); /* does not restart the time */
	sweep_after(BENCH_SLOW_MS);
	assert_int_equal(seen.closes, 1);
}

static void test_finished_request_is_not_aborted(void **state)
{
	(void)state;
	wr_stream_midway(seen.stream, true);
	wr_stream_midway(seen.stream, false);
	sweep_after(BENCH_SLOW_MS + 100000);
	assert_int_equal(seen.closes, 0);
}

/* A client that reads 4 KiB within the time limit stays connected. A client that reads one byte less
 * is disconnected. */
static void test_reading_too_slowly(void **state)
{
	static uint8_t much[WR_HIGH_BYTES * 4];
	static char bytes[1 << 16];

	(void)state;
	wr_stream_write(seen.stream, much, sizeof much);
	bench_turn(&bench);
	assert_true(peer_read(bytes, sizeof bytes) >= 4096);
	bench_turn(&bench);
	seen.stream->stuck_sent = seen.stream->sent - 4096;
	sweep_after(BENCH_SLOW_MS);
	assert_int_equal(seen.closes, 0);
	seen.stream->stuck_sent = seen.stream->sent - 4095;
	seen.stream->stuck_ms = uv_now(&bench.loop.uv);
	sweep_after(BENCH_SLOW_MS);
	assert_int_equal(seen.closes, 1);
}

#define IDLE_MS 70000u /* so long that the loop's own sweeps never find the stream idle */

static void test_idle_stream_is_drained(void **state)
{
	(void)state;
	bench.loop.net.times.idle_ms = IDLE_MS;
	seen.end_on_drain = true;
	wr_stream_busy(seen.stream, true);
	sweep_after(IDLE_MS + 1000);
	assert_int_equal(seen.drains, 0);
	wr_stream_busy(seen.stream, false);
	sweep_after(IDLE_MS - 1);
	assert_int_equal(seen.drains, 0);
	sweep_after(IDLE_MS);
	assert_int_equal(seen.drains, 1);
	close(peer);
	peer = -1;
	bench_turn(&bench);
	assert_int_equal(seen.closes, 1);
}

/* A stream that does not end after its drain is aborted 5 s later. */
static void test_drain_without_end_is_aborted(void **state)
{
	uint64_t now_ms = uv_now(&bench.loop.uv) + IDLE_MS;

	(void)state;
	bench.loop.net.times.idle_ms = IDLE_MS;
	sweep_at(now_ms);
	assert_int_equal(seen.drains, 1);
	sweep_at(now_ms + 4999);
	assert_int_equal(seen.closes, 0);
	sweep_at(now_ms + 5000);
	assert_int_equal(seen.drains, 1);
	assert_int_equal(seen.closes, 1);
}

static void test_peer_closes_with_output_unread(void **state)
{
	static uint8_t much[WR_HIGH_BYTES * 4];

	(void)state;
	wr_stream_write(seen.stream, much, sizeof much);
	bench_turn(&bench);
	close(peer);
	peer = -1;
	bench_turn(&bench);
	assert_int_equal(seen.closes, 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(test_echo_and_end_of_input),
		CASE(test_reserve_and_commit),
		CASE(test_output_is_sent_after_failed_input),
		CASE(test_back_pressure),
		CASE(test_maximum_output_of_a_stream),
		CASE(test_maximum_output_of_a_loop),
		CASE(test_pause),
		CASE(test_slow_request_is_aborted),
		CASE(test_finished_request_is_not_aborted),
		CASE(test_reading_too_slowly),
		CASE(test_idle_stream_is_drained),
		CASE(test_drain_without_end_is_aborted),
		CASE(test_peer_closes_with_output_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
