/* Lines of requests: order, tries, ages and tickets, on both backends. */
#include "queue/both_backends.h"

static void test_order_within_a_line(void **state)
{
	struct wr_queue_request *a, *b;
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	assert_int_equal(rig_put(&rig, 1, "first").put.position, 1);
	assert_int_equal(rig_put(&rig, 1, "second").put.position, 2);
	assert_int_equal(rig_put(&rig, 1, "third").put.position, 3);
	assert_int_equal(rig_waiting(&rig, 1), 3);

	/* No other request of the line can be taken until the taken request is settled. */
	a = rig_take_one(&rig, "first");
	job = rig_take(&rig, 10);
	assert_int_equal(job.take.count, 0);
	assert_true(job.take.next_us == UINT64_MAX);
	job = rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 201, "");
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.settle.state, WR_QUEUE_REQUEST_DELIVERED);
	assert_int_equal(job.settle.waiting, 2);
	assert_int_equal(rig_waiting(&rig, 1), 2);

	/* A file refuses a second settle. Redis accepts it, because the reply to the first settle
	 * may have been lost. Both backends refuse a settle with another fence. */
	job = rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 201, "");
	assert_reason(job.reason, rig.redis ? WR_QUEUE_OK : WR_QUEUE_LOST);
	a->fence++;
	job = rig_settle(&rig, a, WR_QUEUE_GIVE_UP, 0, 0, "");
	assert_reason(job.reason, WR_QUEUE_LOST);
	assert_int_equal(rig_stats(&rig).delivered_total, 1);
	wr_queue_request_free(a);

	rig_deliver(&rig, "second", WR_QUEUE_DELIVERED, 0, 200, "");
	b = rig_take_one(&rig, "third");
	assert_int_equal(rig_settle(&rig, b, WR_QUEUE_DELIVERED, 0, 200, "").settle.waiting, 0);
	wr_queue_request_free(b);
	assert_int_equal(rig_waiting(&rig, 1), 0);
	assert_int_equal(rig_stats(&rig).lines, 0);
}

static void test_order_of_lines(void **state)
{
	static const char *const bodies[] = {"a", "b", "c", "d"};
	struct wr_queue_job job;
	size_t seen = 0;

	(void)state;
	rig_open(&rig);
	for (uint8_t i = 0; i < 4; i++) {
		rig_put(&rig, i, bodies[i]);
		rig_put(&rig, i, "behind");
		rig_pass(&rig, 1000);
	}
	/* A take returns the heads of the lines that were due first, up to the maximum of the take.
	 */
	job = rig_take(&rig, 3);
	assert_int_equal(job.take.count, 3);
	for (const struct wr_queue_request *r = job.take.first; r; r = r->next)
		assert_text(r->body, bodies[seen++]);
	assert_int_equal(seen, 3);
	assert_int_equal(job.take.next_us, 0); /* the fourth line is due */
	assert_int_equal(rig_stats(&rig).delivering, 3);
	assert_int_equal(rig_stats(&rig).waiting, 5);
	wr_queue_request_free(job.take.first);
}

static void test_all_parts_of_a_request(void **state)
{
	static const struct wr_queue_request_field fields[] = {
		{.name = WR_STR("content-type"), .value = WR_STR("text/plain")},
		{.name = WR_STR("x-empty"), .value = WR_STR("")},
	};
	struct wr_queue_request given = request_of(7, ""), *got;
	struct wr_queue_job put;

	(void)state;
	given.body = (struct weir_str){"a\0b\xff", 4};
	given.fields = fields;
	given.field_count = 2;
	given.descriptors = (struct weir_str){"\1\0\2", 3};
	given.idempotency_key = WR_STR("mine");
	given.interval_us = 5000;
	rig_open(&rig);
	put = rig_put_as(&rig, &given, 1, AGE_US, 0);
	assert_reason(put.reason, WR_QUEUE_OK);
	assert_int_equal(put.put.id, 1);
	rig_pass(&rig, S_US);
	got = rig_take(&rig, 1).take.first;
	assert_non_null(got);
	assert_int_equal(got->id, 1);
	assert_int_equal(got->key[0], 7);
	assert_text(got->rule, "orders");
	assert_text(got->domain, "api");
	assert_text(got->method, "POST");
	assert_text(got->uri, "/orders?x=1");
	assert_text(got->idempotency_key, "mine");
	assert_int_equal(got->descriptors.len, 3);
	assert_memory_equal(got->descriptors.ptr, "\1\0\2", 3);
	assert_int_equal(got->field_count, 2);
	assert_text(got->fields[0].name, "content-type");
	assert_text(got->fields[0].value, "text/plain");
	assert_int_equal(got->fields[1].value.len, 0);
	assert_int_equal(got->body.len, 4);
	assert_memory_equal(got->body.ptr, "a\0b\xff", 4);
	assert_int_equal(got->max_tries, 3);
	assert_int_equal(got->interval_us, 5000);
	assert_int_equal(got->tries, 0);
	assert_int_equal(got->state, WR_QUEUE_REQUEST_DELIVERING);
	wr_queue_request_free(got);
}

static void test_own_idempotency_key_stays_the_same(void **state)
{
	struct wr_queue_request *taken;
	char first[64];

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "x");
	taken = rig_take_one(&rig, "x");
	assert_int_equal(taken->idempotency_key.len, 37);
	assert_memory_equal(taken->idempotency_key.ptr, "weir-", 5);
	snprintf(first, sizeof first, "%.*s", 37, taken->idempotency_key.ptr);
	rig_settle(&rig, taken, WR_QUEUE_AGAIN, 0, 503, "");
	wr_queue_request_free(taken);
	taken = rig_take_one(&rig, "x");
	assert_text(taken->idempotency_key, first);
	wr_queue_request_free(taken);
}

static void test_dead_after_the_last_try(void **state)
{
	struct wr_queue_job put, job;
	struct wr_queue_request *taken;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "poison");
	rig_put(&rig, 1, "good");
	for (unsigned i = 1; i <= 2; i++) {
		taken = rig_take_one(&rig, "poison");
		assert_int_equal(taken->tries, i - 1);
		job = rig_settle(&rig, taken, WR_QUEUE_AGAIN, LONG_US, 500, "HTTP 500");
		wr_queue_request_free(taken);
		assert_int_equal(job.settle.state, WR_QUEUE_REQUEST_WAITING);
		assert_int_equal(job.settle.waiting, 2);
		job = rig_take(&rig, 10);
		assert_int_equal(job.take.count, 0);
		assert_near(&rig, job.take.next_us, LONG_US);
		rig_pass(&rig, LONG_US - 1 - (rig.redis ? 2 * SLACK_US : 0));
		assert_int_equal(rig_take(&rig, 10).take.count, 0);
		rig_pass(&rig, 1 + (rig.redis ? 2 * SLACK_US : 0));
	}
	job = rig_deliver(&rig, "poison", WR_QUEUE_AGAIN, LONG_US, 500, "HTTP 500");
	assert_int_equal(job.settle.state, WR_QUEUE_REQUEST_DEAD);
	assert_int_equal(job.settle.waiting, 1);
	assert_int_equal(rig_waiting(&rig, 1), 1);

	job = rig_ticket(&rig, put.put.ticket);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_DEAD);
	assert_int_equal(job.ticket.found->tries, 3);
	assert_int_equal(job.ticket.found->status, 500);
	assert_text(job.ticket.found->reason, "HTTP 500");
	wr_queue_request_free(job.ticket.found);

	/* The next request of the line can be taken, because the dead request has left the line. */
	taken = rig_take_one(&rig, "good");
	wr_queue_request_free(taken);
	assert_int_equal(rig_stats(&rig).dead, 1);
	assert_int_equal(rig_stats(&rig).dead_total, 1);
	assert_int_equal(rig_stats(&rig).retried_total, 2);
}

static void test_give_up(void **state)
{
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "x");
	job = rig_deliver(&rig, "x", WR_QUEUE_GIVE_UP, 0, 0, "no key to open its fields");
	assert_int_equal(job.settle.state, WR_QUEUE_REQUEST_DEAD);
	assert_int_equal(rig_stats(&rig).dead, 1);
}

static void test_release_is_no_try(void **state)
{
	struct wr_queue_request *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "x");
	for (int i = 0; i < 5; i++) {
		taken = rig_take_one(&rig, "x");
		assert_int_equal(taken->tries, 0);
		rig_settle(&rig, taken, WR_QUEUE_RELEASE, LONG_US, 0, "");
		wr_queue_request_free(taken);
		assert_int_equal(rig_take(&rig, 1).take.count, 0);
		rig_pass(&rig, LONG_US);
	}
	assert_int_equal(rig_stats(&rig).retried_total, 0);
}

/* A 503 of a load balancer without an API server is not counted as a try, but its status is
 * recorded. */
static void test_absence_is_no_try(void **state)
{
	struct wr_queue_request *taken;
	struct wr_queue_job put, job;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "x");
	for (int i = 0; i < 5; i++) {
		taken = rig_take_one(&rig, "x");
		assert_int_equal(taken->tries, 0);
		job = rig_settle(&rig, taken, WR_QUEUE_ABSENT, LONG_US, 503, "HTTP 503");
		wr_queue_request_free(taken);
		assert_int_equal(job.settle.state, WR_QUEUE_REQUEST_WAITING);
		assert_int_equal(job.settle.waiting, 1);
		assert_int_equal(rig_take(&rig, 1).take.count, 0);
		rig_pass(&rig, LONG_US);
	}
	job = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(job.ticket.found->tries, 0);
	assert_int_equal(job.ticket.found->status, 503);
	assert_text(job.ticket.found->reason, "HTTP 503");
	wr_queue_request_free(job.ticket.found);
	assert_int_equal(rig_stats(&rig).retried_total, 5);
}

static void test_wait_before_the_first_try(void **state)
{
	struct wr_queue_request request = request_of(1, "later");
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put_as(&rig, &request, 10, AGE_US, LONG_US);
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.count, 0);
	assert_near(&rig, job.take.next_us, LONG_US);
	rig_pass(&rig, LONG_US);
	wr_queue_request_free(rig_take_one(&rig, "later"));
}

static void test_expiry(void **state)
{
	struct wr_queue_request old = request_of(1, "old"), young = request_of(1, "young");
	struct wr_queue_job put, job;

	(void)state;
	rig_open(&rig);
	put = rig_put_as(&rig, &old, 10, LONG_US, 0);
	rig_put_as(&rig, &young, 10, 2 * LONG_US, 0);
	rig_pass(&rig, LONG_US);
	job = rig_take(&rig, 10);
	assert_int_equal(job.take.expired, 1);
	assert_int_equal(job.take.count, 1);
	assert_text(job.take.first->body, "young");
	wr_queue_request_free(job.take.first);
	job = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_DEAD);
	assert_text(job.ticket.found->reason, "too old");
	wr_queue_request_free(job.ticket.found);
	assert_int_equal(rig_waiting(&rig, 1), 1);
}

/* A back-off that would last longer than the maximum age ends at that age. */
static void test_expiry_ends_a_back_off(void **state)
{
	struct wr_queue_request request = request_of(1, "x");
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put_as(&rig, &request, 10, LONG_US, 0);
	rig_deliver(&rig, "x", WR_QUEUE_AGAIN, AGE_US, 503, "HTTP 503");
	job = rig_take(&rig, 1);
	assert_near(&rig, job.take.next_us, LONG_US);
	rig_pass(&rig, LONG_US);
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.expired, 1);
	assert_int_equal(job.take.count, 0);
	job = rig_page(&rig, WR_QUEUE_LIST, (struct wr_queue_filter){0}, 0, 10);
	assert_text(job.page.first->reason, "too old; last: HTTP 503");
	wr_queue_request_free(job.page.first);
}

static void test_tickets(void **state)
{
	struct wr_queue_job first, second, job;
	struct wr_queue_request *taken;
	uint8_t unknown[WR_TICKET_BYTES] = {0};

	(void)state;
	rig.opts.keep_us = LONG_US;
	rig_open(&rig);
	first = rig_put(&rig, 1, "a");
	second = rig_put(&rig, 1, "b");
	assert_memory_not_equal(first.put.ticket, second.put.ticket, WR_TICKET_BYTES);
	rig_pass(&rig, 300 * S_US);

	job = rig_ticket(&rig, second.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_WAITING);
	assert_int_equal(job.ticket.found->position, 2);
	assert_int_equal(job.ticket.found->body.len, 0);
	wr_queue_request_free(job.ticket.found);
	taken = rig_take_one(&rig, "a");
	job = rig_ticket(&rig, first.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_DELIVERING);
	wr_queue_request_free(job.ticket.found);
	rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 201, "");
	wr_queue_request_free(taken);
	job = rig_ticket(&rig, first.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_DELIVERED);
	assert_int_equal(job.ticket.found->status, 201);
	assert_int_equal(job.ticket.found->position, 0);
	assert_near(&rig, job.ticket.found->done_us - job.ticket.found->accepted_us, 300 * S_US);
	wr_queue_request_free(job.ticket.found);
	assert_reason(rig_ticket(&rig, unknown).reason, WR_QUEUE_UNKNOWN);

	/* The ticket of a finished request expires. The ticket of a waiting request does not
	 * expire. */
	assert_int_equal(rig_stats(&rig).tickets, 1);
	rig_pass(&rig, LONG_US);
	while (rig_stats(&rig).tickets)
		rig_pass(&rig, S_US);
	assert_reason(rig_ticket(&rig, first.put.ticket).reason, WR_QUEUE_UNKNOWN);
	job = rig_ticket(&rig, second.put.ticket);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.ticket.found->position, 1);
	wr_queue_request_free(job.ticket.found);
}

static void test_recount(void **state)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_RECOUNT};

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 4, "x");
	rig_put(&rig, 4, "y");
	rig.waiting[4] = 0; /* the lock is not needed, because no job is in flight */
	assert_reason(rig_do(&rig, &job), WR_QUEUE_OK);
	assert_int_equal(rig_waiting(&rig, 4), 2);
}

static void test_age_of_the_oldest(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_int_equal(rig_stats(&rig).oldest_us, 0);
	rig_put(&rig, 1, "x");
	rig_pass(&rig, 700 * S_US);
	rig_put(&rig, 2, "y");
	assert_near(&rig, rig_stats(&rig).oldest_us, 700 * S_US);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_within_a_line),
		TEST(test_order_of_lines),
		TEST(test_all_parts_of_a_request),
		TEST(test_own_idempotency_key_stays_the_same),
		TEST(test_dead_after_the_last_try),
		TEST(test_give_up),
		TEST(test_release_is_no_try),
		TEST(test_absence_is_no_try),
		TEST(test_wait_before_the_first_try),
		TEST(test_expiry),
		TEST(test_expiry_ends_a_back_off),
		TEST(test_tickets),
		TEST(test_recount),
		TEST(test_age_of_the_oldest),
	};

	RUN_ON_BACKEND(argc, argv, tests);
}
