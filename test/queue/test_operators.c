/* Jobs of operators: retry, drop, list and show, on both backends. */
#include "queue/both_backends.h"

static void test_retry_returns_to_its_position(void **state)
{
	struct wr_queue_job job;
	struct wr_queue_request *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_put(&rig, 1, "b");
	rig_put(&rig, 1, "c");
	kill_head(1);
	taken = rig_take_one(&rig, "b");
	/* Request a waits again while b is in delivery. It will be delivered before c. */
	job = rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_waiting(&rig, 1), 3);
	assert_int_equal(rig_take(&rig, 1).take.count, 0);
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_OK);
	wr_queue_request_free(taken);
	taken = rig_take_one(&rig, "a");
	assert_int_equal(taken->tries, 0);
	rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_queue_request_free(taken);
	wr_queue_request_free(rig_take_one(&rig, "c"));
	assert_int_equal(rig_stats(&rig).dead, 0);
}

static void test_retry_ends_a_back_off(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_deliver(&rig, "a", WR_QUEUE_AGAIN, LONG_US, 503, "");
	assert_int_equal(rig_take(&rig, 1).take.count, 0);
	assert_int_equal(
		rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){0}, 0, 10).page.count, 1);
	wr_queue_request_free(rig_take_one(&rig, "a"));
}

static void test_drop(void **state)
{
	struct wr_queue_job b, job;
	struct wr_queue_request *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	b = rig_put(&rig, 1, "b");
	rig_put(&rig, 1, "c");
	rig_put(&rig, 2, "d");
	taken = rig_take(&rig, 1).take.first;
	assert_text(taken->body, "a");
	/* A request in delivery is not dropped. */
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_reason(job.reason, WR_QUEUE_UNKNOWN);
	assert_int_equal(job.page.count, 0);
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = b.put.id}, 0, 1);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_waiting(&rig, 1), 2);
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 0, "");
	wr_queue_request_free(taken);
	job = rig_ticket(&rig, b.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_DROPPED);
	wr_queue_request_free(job.ticket.found);

	/* Drops all dead requests, then all requests of a line. */
	job = rig_page(&rig, WR_QUEUE_DROP,
		       (struct wr_queue_filter){.states = 1u << WR_QUEUE_REQUEST_DEAD}, 0, 10);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_stats(&rig).dead, 0);
	job = rig_page(&rig, WR_QUEUE_DROP,
		       (struct wr_queue_filter){.key = (const uint8_t[WR_LINE_KEY_BYTES]){1}}, 0,
		       10);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_waiting(&rig, 1), 0);
	assert_int_equal(rig_stats(&rig).dropped_total, 3);
	wr_queue_request_free(rig_take_one(&rig, "d"));
}

/* After the head of a line is dropped, the next request does not wait for the back-off of the head.
 */
static void test_drop_the_head(void **state)
{
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_put(&rig, 1, "b");
	rig_deliver(&rig, "a", WR_QUEUE_AGAIN, LONG_US, 503, "");
	assert_int_equal(rig_take(&rig, 1).take.count, 0);
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_int_equal(job.page.count, 1);
	wr_queue_request_free(rig_take_one(&rig, "b"));
	assert_int_equal(rig_stats(&rig).waiting, 0);
}

static void test_pages(void **state)
{
	struct wr_queue_job job;
	uint64_t seen = 0, after = 0;

	(void)state;
	rig_open(&rig);
	for (int i = 0; i < 25; i++)
		rig_put(&rig, (uint8_t)(i % 5), "x");
	do {
		job = rig_page(&rig, WR_QUEUE_LIST, (struct wr_queue_filter){0}, after, 10);
		assert_reason(job.reason, WR_QUEUE_OK);
		assert_int_equal(job.page.end, 25);
		for (const struct wr_queue_request *r = job.page.first; r; r = r->next) {
			assert_int_equal(r->id, ++seen);
			assert_int_equal(r->body.len, 0);
			assert_int_equal(r->body_len, 1);
			assert_text(r->uri, "/orders?x=1");
		}
		wr_queue_request_free(job.page.first);
		after = job.page.last;
	} while (after);
	assert_int_equal(seen, 25);

	job = rig_page(&rig, WR_QUEUE_LIST, (struct wr_queue_filter){.rule = WR_STR("others")}, 0,
		       100);
	assert_int_equal(job.page.count, 0);
	job = rig_page(&rig, WR_QUEUE_LIST,
		       (struct wr_queue_filter){.rule = WR_STR("orders"),
						.key = (const uint8_t[WR_LINE_KEY_BYTES]){3}},
		       0, 100);
	assert_int_equal(job.page.count, 5);
	assert_int_equal(job.page.first->position, 1);
	assert_int_equal(job.page.first->next->position, 2);
	wr_queue_request_free(job.page.first);
	job = rig_page(&rig, WR_QUEUE_SHOW, (struct wr_queue_filter){.id = 7}, 0, 1);
	assert_int_equal(job.page.count, 1);
	assert_text(job.page.first->body, "x");
	wr_queue_request_free(job.page.first);
	assert_reason(
		rig_page(&rig, WR_QUEUE_SHOW, (struct wr_queue_filter){.id = 99}, 0, 1).reason,
		WR_QUEUE_UNKNOWN);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_retry_returns_to_its_position),
		TEST(test_retry_ends_a_back_off),
		TEST(test_drop),
		TEST(test_drop_the_head),
		TEST(test_pages),
	};

	RUN_ON_BACKEND(argc, argv, tests);
}
