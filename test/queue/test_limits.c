/* Tests the limits of the queue on both backends: waiting requests, bytes, dead letters and
 * tickets. */
#include "queue/both_backends.h"

static void test_limits_of_the_queue(void **state)
{
	struct wr_queue_request request = request_of(1, "x"), other = request_of(2, "x"), large;
	char *body = malloc(WR_QUEUE_REQUEST_BODY_MAX + 1);

	(void)state;
	assert_non_null(body);
	memset(body, 'x', WR_QUEUE_REQUEST_BODY_MAX + 1);
	rig.opts.max_requests = 4;
	rig.opts.max_bytes = 20000;
	rig_open(&rig);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_KEY_FULL);
	large = other;
	large.body = (struct weir_str){body, 20000};
	assert_reason(rig_put_as(&rig, &large, 2, AGE_US, 0).reason, WR_QUEUE_BYTES_FULL);
	large.body = (struct weir_str){body, WR_QUEUE_REQUEST_BODY_MAX + 1};
	assert_reason(rig_put_as(&rig, &large, 2, AGE_US, 0).reason, WR_QUEUE_TOO_LARGE);
	assert_reason(rig_put_as(&rig, &other, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &other, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &other, 9, AGE_US, 0).reason, WR_QUEUE_FULL);
	assert_int_equal(rig_stats(&rig).put_total, 4);

	/* Delivered requests make room. */
	for (int i = 0; i < 4; i++) {
		rig_deliver(&rig, NULL, WR_QUEUE_DELIVERED, 0, 200, "");
	}
	assert_int_equal(rig_stats(&rig).bytes, 0);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	free(body);
}

static struct wr_queue_request of_bytes(uint8_t line, const char *body, size_t len)
{
	struct wr_queue_request request = request_of(line, "");

	request.body = (struct weir_str){body, len};
	return request;
}

/* One key cannot fill the queue, because max_line_bytes limits a line. An empty line accepts a
 * request of any size, even above max_line_bytes. */
static void test_limit_of_a_line(void **state)
{
	static char body[40000];
	struct wr_queue_request request = of_bytes(1, body, 9000), other = of_bytes(2, body, 9000);
	struct wr_queue_request huge = of_bytes(3, body, sizeof body), *taken;

	(void)state;
	rig.opts.max_bytes = 200000;
	rig.opts.max_line_bytes = 32000;
	rig_open(&rig);
	for (int i = 0; i < 3; i++)
		assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_KEY_BYTES_FULL);
	assert_reason(rig_put_as(&rig, &other, 1000, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &huge, 1000, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &huge, 1000, AGE_US, 0).reason, WR_QUEUE_KEY_BYTES_FULL);
	/* The queue knows the size of a line after a restart. Delivered requests make room in the
	 * line. */
	rig_close(&rig);
	rig_open(&rig);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_KEY_BYTES_FULL);
	taken = rig_take(&rig, 1).take.first;
	assert_int_equal(taken->key[0], request.key[0]);
	rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_queue_request_free(taken);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_KEY_BYTES_FULL);
}

/* Puts a request and makes it a dead letter. */
static struct wr_queue_job put_dead(const struct wr_queue_request *request)
{
	struct wr_queue_job put = rig_put_as(&rig, request, 1000, AGE_US, 0);
	struct wr_queue_request *taken = rig_take(&rig, 1).take.first;

	assert_reason(put.reason, WR_QUEUE_OK);
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 400, "no");
	wr_queue_request_free(taken);
	rig_pass(&rig, 1);
	return put;
}

static bool is_dead(const struct wr_queue_job *put)
{
	struct wr_queue_job job = rig_ticket(&rig, put->put.ticket);
	bool dead = job.reason == WR_QUEUE_OK && job.ticket.found->state == WR_QUEUE_REQUEST_DEAD;

	if (job.reason == WR_QUEUE_OK)
		wr_queue_request_free(job.ticket.found);
	return dead;
}

static void wait_dead(uint64_t count)
{
	while (rig_stats(&rig).dead > count)
		rig_pass(&rig, S_US);
	assert_int_equal(rig_stats(&rig).dead, count);
}

/* Dead letters do not count against the limits of waiting requests. They have their own limits. If
 * a limit is exceeded, the oldest dead letters are deleted. */
static void test_limits_of_dead_letters(void **state)
{
	static char body[10000];
	struct wr_queue_request small = request_of(1, "x"), large = of_bytes(2, body, sizeof body);
	struct wr_queue_job dead[5];

	(void)state;
	rig.opts.max_requests = 2;
	rig.opts.max_dead = 3;
	rig.opts.max_dead_bytes = 25000;
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		dead[i] = put_dead(&small);
	wait_dead(3);
	assert_false(is_dead(&dead[0]));
	assert_true(is_dead(&dead[1]) && is_dead(&dead[2]) && is_dead(&dead[3]));
	assert_reason(rig_put_as(&rig, &small, 9, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &small, 9, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &small, 9, AGE_US, 0).reason, WR_QUEUE_FULL);
	for (int i = 0; i < 2; i++) {
		rig_deliver(&rig, NULL, WR_QUEUE_DELIVERED, 0, 200, "");
	}
	/* Two large dead letters and a small one fit into max_dead_bytes. Three large ones do not
	 * fit. */
	for (int i = 0; i < 2; i++)
		dead[i] = put_dead(&large);
	wait_dead(3);
	assert_true(is_dead(&dead[3]) && is_dead(&dead[0]) && is_dead(&dead[1]));
	dead[4] = put_dead(&large);
	wait_dead(2);
	assert_true(is_dead(&dead[1]) && is_dead(&dead[4]));
	/* Retried and dropped dead letters no longer count, so three new dead letters fit. */
	rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = dead[1].put.id}, 0, 1);
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = dead[4].put.id}, 0, 1);
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = dead[1].put.id}, 0, 1);
	assert_int_equal(rig_stats(&rig).dead, 0);
	assert_int_equal(rig_stats(&rig).bytes, 0);
	for (int i = 0; i < 2; i++)
		dead[i] = put_dead(&large);
	dead[2] = put_dead(&small);
	rig_pass(&rig, 10 * S_US);
	assert_int_equal(rig_stats(&rig).dead, 3);
}

static void test_limit_of_tickets(void **state)
{
	struct wr_queue_job puts[4];

	(void)state;
	rig.opts.max_tickets = 2;
	rig_open(&rig);
	for (uint8_t i = 0; i < 4; i++) {

		puts[i] = rig_put(&rig, i, "x");
		rig_deliver(&rig, "x", WR_QUEUE_DELIVERED, 0, 200, "");
		rig_pass(&rig, S_US);
	}
	while (rig_stats(&rig).tickets > 2)
		rig_pass(&rig, S_US);
	assert_reason(rig_ticket(&rig, puts[0].put.ticket).reason, WR_QUEUE_UNKNOWN);
	assert_reason(rig_ticket(&rig, puts[1].put.ticket).reason, WR_QUEUE_UNKNOWN);
	for (int i = 2; i < 4; i++) {
		struct wr_queue_job job = rig_ticket(&rig, puts[i].put.ticket);

		assert_reason(job.reason, WR_QUEUE_OK);
		wr_queue_request_free(job.ticket.found);
	}
}

/* Retries the request with this id, or all requests if `id` is 0. Checks that `count` requests were
 * retried and that `left` requests stay dead because the queue is full. */
static void check_retry(uint64_t id, uint32_t count, uint32_t left, enum wr_queue_reason reason)
{
	struct wr_queue_job job =
		rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = id}, 0, 10);

	assert_reason(job.reason, reason);
	assert_int_equal(job.page.count, count);
	assert_int_equal(job.page.left, left);
}

static void test_retry_respects_max_requests(void **state)
{
	(void)state;
	rig.opts.max_requests = 3;
	rig_open(&rig);
	for (int i = 0; i < 3; i++)
		rig_put(&rig, 1, "dead");
	for (int i = 0; i < 3; i++)
		kill_head(1);
	rig_put(&rig, 2, "a");
	rig_put(&rig, 2, "b");
	check_retry(
		0, 3, 2,
		WR_QUEUE_OK); /* 3 includes a and b, which already waited and become due at once */
	assert_int_equal(rig_stats(&rig).waiting, 3);
	assert_int_equal(rig_stats(&rig).dead, 2);
	check_retry(2, 0, 1, WR_QUEUE_FULL);
	assert_int_equal(rig_stats(&rig).waiting, 3);
	assert_int_equal(rig_waiting(&rig, 1), 1);
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = 4}, 0, 1);
	check_retry(2, 1, 0, WR_QUEUE_OK);
	check_retry(99, 0, 0, WR_QUEUE_UNKNOWN);
}

static void test_retry_respects_max_bytes(void **state)
{
	static char large[5800];
	struct wr_queue_job job;

	(void)state;
	memset(large, 'x', sizeof large - 1);
	rig.opts.max_bytes = 20000;
	rig.opts.max_line_bytes = 15000;
	rig.opts.max_dead_bytes = 100000;
	rig_open(&rig);
	for (int i = 0; i < 3; i++) {
		rig_put(&rig, 1, large);
		kill_head(1);
	}
	/* Two dead requests fit into the line. The third does not fit. */
	job = rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){0}, 0, 10);
	assert_int_equal(job.page.count, 2);
	assert_int_equal(job.page.left, 1);
	check_retry(3, 0, 1, WR_QUEUE_KEY_BYTES_FULL);
	/* A request in another line makes the queue full, so a retry fails for this reason instead.
	 */
	rig_put(&rig, 2, large);
	check_retry(3, 0, 1, WR_QUEUE_BYTES_FULL);
	assert_int_equal(rig_stats(&rig).waiting, 3);
	/* A retry into an empty line always succeeds, even if the request is larger than
	 * max_line_bytes. */
	rig_page(&rig, WR_QUEUE_DROP,
		 (struct wr_queue_filter){.states = 1u << WR_QUEUE_REQUEST_WAITING}, 0, 10);
	assert_int_equal(rig_stats(&rig).waiting, 0);
	check_retry(3, 1, 0, WR_QUEUE_OK);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_limits_of_the_queue),         TEST(test_limit_of_a_line),
		TEST(test_limits_of_dead_letters),      TEST(test_limit_of_tickets),
		TEST(test_retry_respects_max_requests), TEST(test_retry_respects_max_bytes),
	};

	RUN_ON_BACKEND(argc, argv, tests);
}
