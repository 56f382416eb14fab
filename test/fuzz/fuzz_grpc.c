/* Fuzzes the bytes after the preface of an HTTP/2 client: a real stream on a real loop, over a
 * socket pair. The first byte selects how the input is split, the second whether the client reads
 * and how it disconnects. State that is left afterwards is a finding. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>

#include "serve/grpc/grpc.h"
#include "serve/grpc/session.h"
#include "serve/open.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536u

static const char yaml[] =
	"domain: rl\n"
	"descriptors:\n"
	"  - {key: a, rate_limit: {unit: minute, requests_per_unit: 3, name: n}}\n"
	"  - {key: d, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, "
	"queue_size: 3}}\n";

static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

static struct wr_service service;
static struct wr_loop loop;
static struct wr_quota quota = {.max = 10};
static struct wr_listener listener = {.magic = WR_LISTENER_MAGIC,
				      .name = "grpc",
				      .text = "here",
				      .protocol = &wr_serve_grpc_protocol,
				      .quota = &quota};

static void open_all(void)
{
	static char path[64], table[64];
	struct weir_error error;
	struct weir_rules *rules;

	make_file(yaml, path); /* stays open */
	snprintf(table, sizeof table, "fuzz-grpc-%d", (int)getpid());
	service.settings = (struct wr_settings){.rules = path,
						.table = table,
						.table_dir = "/dev/shm",
						.memory_bytes = 1 << 20,
						.dynamic_metadata = true,
						.rls_bodies = true};
	pthread_mutex_init(&service.lock, NULL);
	pthread_cond_init(&service.woken, NULL);
	service.core = wr_core_open(&service, true, &rules, &error);
	require(service.core != NULL);
	weir_remove(table, "/dev/shm", NULL);
	wr_log_setup("fuzz", WR_LOG_ERROR, false);
	require(wr_loop_init(&loop, &service, 0) == 0);
}

static void turn(void)
{
	for (int i = 0; i < 2; i++)
		uv_run(&loop.uv, UV_RUN_NOWAIT);
}

static void read_over(int peer)
{
	static uint8_t bytes[1 << 16];

	while (recv(peer, bytes, sizeof bytes, 0) > 0)
		;
}

/* Returns 0 if the server has closed or does not read. */
static int send_all(int peer, const uint8_t *data, size_t len, int reading)
{
	for (int tries = 0; len && tries < 64; tries++) {
		ssize_t sent = send(peer, data, len, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return 0;
		data += sent > 0 ? sent : 0;
		len -= sent > 0 ? (size_t)sent : 0;
		turn();
		if (reading)
			read_over(peer);
	}
	return len == 0;
}

static void talk(int peer, const uint8_t *data, size_t size, uint8_t cut, int reading)
{
	size_t piece = cut == 0 ? size : (size_t)cut * cut;

	send_all(peer, (const uint8_t *)hello, sizeof hello - 1, reading);
	while (size) {
		size_t len = piece < size ? piece : size;

		if (!send_all(peer, data, len, reading))
			return;
		data += len;
		size -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int ends[2];

	if (size < 2 || size > INPUT_MAX)
		return 0;
	if (!service.core)
		open_all();
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	quota.used++;
	wr_stream_accept(&loop.net, &listener, NULL, ends[0], NULL);
	talk(ends[1], data + 2, size - 2, data[0], data[1] & 1);
	if (data[1] & 2)
		wr_streams_drain(&loop.net);
	if (data[1] & 4)
		shutdown(ends[1], SHUT_WR);
	turn();
	close(ends[1]);
	turn();
	wr_streams_cut(&loop.net);
	turn();
	require(loop.net.stream_count == 0 && loop.net.buffered == 0 && quota.used == 0);
	require(loop.waiting.heap.count == 0 && wr_list_is_empty(&loop.health_watches));
	return 0;
}
