/* WEIR.DEFER with a queue that is shutting down, which answers each request with `ending`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "queue/thread.h"
#include "serve/loop.h"
#include "serve/deliver/queue_host.h"
#include "serve/resp/waits.h"

static struct wr_queue queue = {
	.magic = WR_QUEUE_MAGIC, .lock = PTHREAD_MUTEX_INITIALIZER, .ending = true};
static struct wr_serve_queue_host host;
static struct wr_serve_queue_loop own = {.host = &host};
static struct wr_loop loop = {.queue = &own};
static struct wr_serve_resp_loop resp = {.loop = &loop};
static struct wr_resp_session session = {.host = &resp.host, .inside = true};
static const char *refusal;

static void receive(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	(void)wait;
	(void)len;
	(void)now_ns;
	refusal = ((const struct wr_wire_defer_answer *)answer)->reason;
}

static const struct wr_resp_wait_kind kind = {.receive = receive};

/* Defers a request of ten bytes. */
static struct wr_resp_wait *defer(void)
{
	static const struct wr_wire_defer_request request = {.domain = {"api", 3},
							     .key = {"0123456789abcdef", 16},
							     .method = {"POST", 4},
							     .uri = {"/", 1},
							     .body = {"ab", 2}};
	struct wr_resp_wait *wait = wr_serve_queue_resp.begin(&resp.host);

	wait->kind = &kind;
	wait->session = &session;
	refusal = NULL;
	wr_serve_queue_resp.defer(&resp.host, wait, &request, 0);
	return wait;
}

static void wake(void *context)
{
	(void)context;
}

/* At most 64 MiB of requests may be in flight. A request above that is refused and not submitted to
 * the queue. */
static void test_bytes_in_flight_are_bounded(void **state)
{
	struct wr_resp_wait *first, *second;

	(void)state;
	own.port = wr_queue_port_new(&queue, wake, NULL);
	host.flight = 67108864 - 10; /* the bytes of other requests */
	first = defer();
	assert_null(refusal);
	assert_int_equal(host.flight, 67108864);
	second = defer();
	assert_int_equal(host.tally.refused[WR_QUEUE_BUSY], 1);
	assert_string_equal(refusal, "busy");
	assert_int_equal(wr_queue_port_run(own.port), 1); /* only the first was submitted */
	assert_string_equal(refusal, "ending");
	wr_serve_queue_resp.end(&resp.host, first);
	wr_serve_queue_resp.end(&resp.host, second);
	assert_int_equal(host.flight, 67108864 - 10);
	wr_queue_port_free(own.port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes_in_flight_are_bounded)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
