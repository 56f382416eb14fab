/* What a queue does with requests: order, tries, ages, tickets, what operators do. The same for a
 * file and for Redis: with the argument `redis` it has a server of its own. */
#include "queue/queue_test.h"

/* Beyond what a busy machine could add to a time in Redis. */
#define LONG_US (1000 * S_US)
#define AGE_US (86400 * S_US)

static struct rig rig;
static struct redis redis; /* with no pid: files are tested */

static int setup(void **state)
{
	(void)state;
	rig_init(&rig);
	if (redis.pid)
		rig_use_redis(&rig, &redis);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_free(&rig);
	return 0;
}

static void test_order_within_a_line(void **state)
{
	struct wr_deferred *a, *b;
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	assert_int_equal(rig_put(&rig, 1, "first").put.position, 1);
	assert_int_equal(rig_put(&rig, 1, "second").put.position, 2);
	assert_int_equal(rig_put(&rig, 1, "third").put.position, 3);
	assert_int_equal(rig_waiting(&rig, 1), 3);

	/* One at a time, and nothing of that line until it is settled. */
	a = rig_take_one(&rig, "first");
	job = rig_take(&rig, 10);
	assert_int_equal(job.take.count, 0);
	assert_true(job.take.next_us == UINT64_MAX);
	job = rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 201, "");
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.settle.state, WR_DEFERRED_DELIVERED);
	assert_int_equal(job.settle.waiting, 2);
	assert_int_equal(rig_waiting(&rig, 1), 2);

	/* Who settles twice is told so; in Redis, where an answer may have been lost, he is told
	 * the same again. Who never had it is told so in any case. */
	job = rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 201, "");
	assert_reason(job.reason, rig.redis ? WR_QUEUE_OK : WR_QUEUE_LOST);
	a->fence++;
	job = rig_settle(&rig, a, WR_QUEUE_GIVE_UP, 0, 0, "");
	assert_reason(job.reason, WR_QUEUE_LOST);
	assert_int_equal(rig_stats(&rig).delivered_total, 1);
	wr_deferred_free(a);

	b = rig_take_one(&rig, "second");
	rig_settle(&rig, b, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_deferred_free(b);
	b = rig_take_one(&rig, "third");
	assert_int_equal(rig_settle(&rig, b, WR_QUEUE_DELIVERED, 0, 200, "").settle.waiting, 0);
	wr_deferred_free(b);
	assert_int_equal(rig_waiting(&rig, 1), 0);
	assert_int_equal(rig_stats(&rig).lines, 0);
}

static void test_lines_beside_each_other(void **state)
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
	/* The oldest lines first, as many as wanted. */
	job = rig_take(&rig, 3);
	assert_int_equal(job.take.count, 3);
	for (const struct wr_deferred *r = job.take.first; r; r = r->next)
		assert_text(r->body, bodies[seen++]);
	assert_int_equal(seen, 3);
	assert_int_equal(job.take.next_us, 0); /* the fourth */
	assert_int_equal(rig_stats(&rig).delivering, 3);
	assert_int_equal(rig_stats(&rig).waiting, 5);
	wr_deferred_free(job.take.first);
}

static void test_all_of_a_request(void **state)
{
	static const struct wr_field fields[] = {
		{.name = WR_STR("content-type"), .value = WR_STR("text/plain")},
		{.name = WR_STR("x-empty"), .value = WR_STR("")},
	};
	struct wr_deferred given = request_of(7, ""), *got;
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
	assert_int_equal(got->state, WR_DEFERRED_DELIVERING);
	wr_deferred_free(got);
}

static void test_own_idempotency_key_stays_the_same(void **state)
{
	struct wr_deferred *taken;
	char first[64];

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "x");
	taken = rig_take_one(&rig, "x");
	assert_int_equal(taken->idempotency_key.len, 37);
	assert_memory_equal(taken->idempotency_key.ptr, "weir-", 5);
	snprintf(first, sizeof first, "%.*s", 37, taken->idempotency_key.ptr);
	rig_settle(&rig, taken, WR_QUEUE_AGAIN, 0, 503, "");
	wr_deferred_free(taken);
	taken = rig_take_one(&rig, "x");
	assert_text(taken->idempotency_key, first);
	wr_deferred_free(taken);
}

static void test_tries(void **state)
{
	struct wr_queue_job put, job;
	struct wr_deferred *taken;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "poison");
	rig_put(&rig, 1, "good");
	for (unsigned i = 1; i <= 2; i++) {
		taken = rig_take_one(&rig, "poison");
		assert_int_equal(taken->tries, i - 1);
		job = rig_settle(&rig, taken, WR_QUEUE_AGAIN, LONG_US, 500, "HTTP 500");
		wr_deferred_free(taken);
		assert_int_equal(job.settle.state, WR_DEFERRED_WAITING);
		assert_int_equal(job.settle.waiting, 2);
		job = rig_take(&rig, 10);
		assert_int_equal(job.take.count, 0);
		assert_near(&rig, job.take.next_us, LONG_US);
		rig_pass(&rig, LONG_US - 1 - (rig.redis ? 2 * SLACK_US : 0));
		assert_int_equal(rig_take(&rig, 10).take.count, 0);
		rig_pass(&rig, 1 + (rig.redis ? 2 * SLACK_US : 0));
	}
	taken = rig_take_one(&rig, "poison");
	job = rig_settle(&rig, taken, WR_QUEUE_AGAIN, LONG_US, 500, "HTTP 500");
	wr_deferred_free(taken);
	assert_int_equal(job.settle.state, WR_DEFERRED_DEAD);
	assert_int_equal(job.settle.waiting, 1);
	assert_int_equal(rig_waiting(&rig, 1), 1);

	job = rig_ticket(&rig, put.put.ticket);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.ticket.found->state, WR_DEFERRED_DEAD);
	assert_int_equal(job.ticket.found->tries, 3);
	assert_int_equal(job.ticket.found->status, 500);
	assert_text(job.ticket.found->reason, "HTTP 500");
	wr_deferred_free(job.ticket.found);

	/* What waited behind it goes on. */
	taken = rig_take_one(&rig, "good");
	wr_deferred_free(taken);
	assert_int_equal(rig_stats(&rig).dead, 1);
	assert_int_equal(rig_stats(&rig).dead_total, 1);
	assert_int_equal(rig_stats(&rig).retried_total, 2);
}

static void test_give_up_at_once(void **state)
{
	struct wr_deferred *taken;
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "x");
	taken = rig_take_one(&rig, "x");
	job = rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 0, "no key to open its fields");
	wr_deferred_free(taken);
	assert_int_equal(job.settle.state, WR_DEFERRED_DEAD);
	assert_int_equal(rig_stats(&rig).dead, 1);
}

static void test_release_is_no_try(void **state)
{
	struct wr_deferred *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "x");
	for (int i = 0; i < 5; i++) {
		taken = rig_take_one(&rig, "x");
		assert_int_equal(taken->tries, 0);
		rig_settle(&rig, taken, WR_QUEUE_RELEASE, LONG_US, 0, "");
		wr_deferred_free(taken);
		assert_int_equal(rig_take(&rig, 1).take.count, 0);
		rig_pass(&rig, LONG_US);
	}
	assert_int_equal(rig_stats(&rig).retried_total, 0);
}

/* Neither is an answer of somebody in front of an API server that is not there, but it is noted. */
static void test_absence_is_no_try(void **state)
{
	struct wr_deferred *taken;
	struct wr_queue_job put, job;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "x");
	for (int i = 0; i < 5; i++) {
		taken = rig_take_one(&rig, "x");
		assert_int_equal(taken->tries, 0);
		job = rig_settle(&rig, taken, WR_QUEUE_ABSENT, LONG_US, 503, "HTTP 503");
		wr_deferred_free(taken);
		assert_int_equal(job.settle.state, WR_DEFERRED_WAITING);
		assert_int_equal(job.settle.waiting, 1);
		assert_int_equal(rig_take(&rig, 1).take.count, 0);
		rig_pass(&rig, LONG_US);
	}
	job = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(job.ticket.found->tries, 0);
	assert_int_equal(job.ticket.found->status, 503);
	assert_text(job.ticket.found->reason, "HTTP 503");
	wr_deferred_free(job.ticket.found);
	assert_int_equal(rig_stats(&rig).retried_total, 5);
}

static void test_first_wait(void **state)
{
	struct wr_deferred request = request_of(1, "later");
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put_as(&rig, &request, 10, AGE_US, LONG_US);
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.count, 0);
	assert_near(&rig, job.take.next_us, LONG_US);
	rig_pass(&rig, LONG_US);
	wr_deferred_free(rig_take_one(&rig, "later"));
}

static void test_age(void **state)
{
	struct wr_deferred old = request_of(1, "old"), young = request_of(1, "young");
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
	wr_deferred_free(job.take.first);
	job = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_DEFERRED_DEAD);
	assert_text(job.ticket.found->reason, "too old");
	wr_deferred_free(job.ticket.found);
	assert_int_equal(rig_waiting(&rig, 1), 1);
}

/* A back-off that is longer than what is left of its age ends with that. */
static void test_age_ends_a_wait(void **state)
{
	struct wr_deferred request = request_of(1, "x"), *taken;
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put_as(&rig, &request, 10, LONG_US, 0);
	taken = rig_take_one(&rig, "x");
	rig_settle(&rig, taken, WR_QUEUE_AGAIN, AGE_US, 503, "HTTP 503");
	wr_deferred_free(taken);
	job = rig_take(&rig, 1);
	assert_near(&rig, job.take.next_us, LONG_US);
	rig_pass(&rig, LONG_US);
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.expired, 1);
	assert_int_equal(job.take.count, 0);
	job = rig_page(&rig, WR_QUEUE_LIST, (struct wr_queue_filter){0}, 0, 10);
	assert_text(job.page.first->reason, "too old; last: HTTP 503");
	wr_deferred_free(job.page.first);
}

static void test_bounds(void **state)
{
	struct wr_deferred request = request_of(1, "x"), other = request_of(2, "x"), large;
	char *body = malloc(WR_DEFERRED_BODY_MAX + 1);

	(void)state;
	assert_non_null(body);
	memset(body, 'x', WR_DEFERRED_BODY_MAX + 1);
	rig.opts.max_requests = 4;
	rig.opts.max_bytes = 20000;
	rig_open(&rig);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_KEY_FULL);
	large = other;
	large.body = (struct weir_str){body, 20000};
	assert_reason(rig_put_as(&rig, &large, 2, AGE_US, 0).reason, WR_QUEUE_BYTES_FULL);
	large.body = (struct weir_str){body, WR_DEFERRED_BODY_MAX + 1};
	assert_reason(rig_put_as(&rig, &large, 2, AGE_US, 0).reason, WR_QUEUE_TOO_LARGE);
	assert_reason(rig_put_as(&rig, &other, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &other, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &other, 9, AGE_US, 0).reason, WR_QUEUE_FULL);
	assert_int_equal(rig_stats(&rig).put_total, 4);

	/* What is delivered makes room. */
	for (int i = 0; i < 4; i++) {
		struct wr_deferred *taken = rig_take(&rig, 1).take.first;

		rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
		wr_deferred_free(taken);
	}
	assert_int_equal(rig_stats(&rig).bytes, 0);
	assert_reason(rig_put_as(&rig, &request, 2, AGE_US, 0).reason, WR_QUEUE_OK);
	free(body);
}

static struct wr_deferred of_bytes(uint8_t line, const char *body, size_t len)
{
	struct wr_deferred request = request_of(line, "");

	request.body = (struct weir_str){body, len};
	return request;
}

/* One key can not fill the queue: it has a share in bytes. An empty line takes one of any size. */
static void test_share_of_a_line(void **state)
{
	static char body[40000];
	struct wr_deferred request = of_bytes(1, body, 9000), other = of_bytes(2, body, 9000);
	struct wr_deferred huge = of_bytes(3, body, sizeof body), *taken;

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
	/* What waits is known after it was opened again; what is delivered makes room. */
	rig_close(&rig);
	rig_open(&rig);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_KEY_BYTES_FULL);
	taken = rig_take(&rig, 1).take.first;
	assert_int_equal(taken->key[0], request.key[0]);
	rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_deferred_free(taken);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 1000, AGE_US, 0).reason, WR_QUEUE_KEY_BYTES_FULL);
}

/* Puts one and lets it die. */
static struct wr_queue_job put_dead(const struct wr_deferred *request)
{
	struct wr_queue_job put = rig_put_as(&rig, request, 1000, AGE_US, 0);
	struct wr_deferred *taken = rig_take(&rig, 1).take.first;

	assert_reason(put.reason, WR_QUEUE_OK);
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 400, "no");
	wr_deferred_free(taken);
	rig_pass(&rig, 1);
	return put;
}

static bool is_dead(const struct wr_queue_job *put)
{
	struct wr_queue_job job = rig_ticket(&rig, put->put.ticket);
	bool dead = job.reason == WR_QUEUE_OK && job.ticket.found->state == WR_DEFERRED_DEAD;

	if (job.reason == WR_QUEUE_OK)
		wr_deferred_free(job.ticket.found);
	return dead;
}

static void wait_dead(uint64_t count)
{
	while (rig_stats(&rig).dead > count)
		rig_pass(&rig, S_US);
	assert_int_equal(rig_stats(&rig).dead, count);
}

/* Dead letters take no room from those that wait, and have a bound of their own: the oldest go. */
static void test_bound_of_dead_letters(void **state)
{
	static char body[10000];
	struct wr_deferred small = request_of(1, "x"), large = of_bytes(2, body, sizeof body);
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
		struct wr_deferred *taken = rig_take(&rig, 1).take.first;

		rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
		wr_deferred_free(taken);
	}
	/* Two large ones and a small one are within the bytes, three are not. */
	for (int i = 0; i < 2; i++)
		dead[i] = put_dead(&large);
	wait_dead(3);
	assert_true(is_dead(&dead[3]) && is_dead(&dead[0]) && is_dead(&dead[1]));
	dead[4] = put_dead(&large);
	wait_dead(2);
	assert_true(is_dead(&dead[1]) && is_dead(&dead[4]));
	/* One that waits again or is dropped counts no more: there is room for three. */
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

static void test_tickets(void **state)
{
	struct wr_queue_job first, second, job;
	struct wr_deferred *taken;
	uint8_t unknown[WR_TICKET_BYTES] = {0};

	(void)state;
	rig.opts.keep_us = LONG_US;
	rig_open(&rig);
	first = rig_put(&rig, 1, "a");
	second = rig_put(&rig, 1, "b");
	assert_memory_not_equal(first.put.ticket, second.put.ticket, WR_TICKET_BYTES);
	rig_pass(&rig, 300 * S_US);

	job = rig_ticket(&rig, second.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_DEFERRED_WAITING);
	assert_int_equal(job.ticket.found->position, 2);
	assert_int_equal(job.ticket.found->body.len, 0);
	wr_deferred_free(job.ticket.found);
	taken = rig_take_one(&rig, "a");
	job = rig_ticket(&rig, first.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_DEFERRED_DELIVERING);
	wr_deferred_free(job.ticket.found);
	rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 201, "");
	wr_deferred_free(taken);
	job = rig_ticket(&rig, first.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_DEFERRED_DELIVERED);
	assert_int_equal(job.ticket.found->status, 201);
	assert_int_equal(job.ticket.found->position, 0);
	assert_near(&rig, job.ticket.found->done_us - job.ticket.found->accepted_us, 300 * S_US);
	wr_deferred_free(job.ticket.found);
	assert_reason(rig_ticket(&rig, unknown).reason, WR_QUEUE_UNKNOWN);

	/* Forgotten in time; until then, and while it waits, it is not. */
	assert_int_equal(rig_stats(&rig).tickets, 1);
	rig_pass(&rig, LONG_US);
	while (rig_stats(&rig).tickets)
		rig_pass(&rig, S_US);
	assert_reason(rig_ticket(&rig, first.put.ticket).reason, WR_QUEUE_UNKNOWN);
	job = rig_ticket(&rig, second.put.ticket);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.ticket.found->position, 1);
	wr_deferred_free(job.ticket.found);
}

static void test_tickets_are_bounded(void **state)
{
	struct wr_queue_job puts[4];

	(void)state;
	rig.opts.max_tickets = 2;
	rig_open(&rig);
	for (uint8_t i = 0; i < 4; i++) {
		struct wr_deferred *taken;

		puts[i] = rig_put(&rig, i, "x");
		taken = rig_take_one(&rig, "x");
		rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
		wr_deferred_free(taken);
		rig_pass(&rig, S_US);
	}
	while (rig_stats(&rig).tickets > 2)
		rig_pass(&rig, S_US);
	assert_reason(rig_ticket(&rig, puts[0].put.ticket).reason, WR_QUEUE_UNKNOWN);
	assert_reason(rig_ticket(&rig, puts[1].put.ticket).reason, WR_QUEUE_UNKNOWN);
	for (int i = 2; i < 4; i++) {
		struct wr_queue_job job = rig_ticket(&rig, puts[i].put.ticket);

		assert_reason(job.reason, WR_QUEUE_OK);
		wr_deferred_free(job.ticket.found);
	}
}

static void kill_head(uint8_t line)
{
	struct wr_deferred *taken = rig_take(&rig, 1).take.first;

	assert_non_null(taken);
	assert_int_equal(taken->key[0], line);
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 500, "given up");
	wr_deferred_free(taken);
}

static void test_retry_goes_back_to_its_place(void **state)
{
	struct wr_queue_job job;
	struct wr_deferred *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_put(&rig, 1, "b");
	rig_put(&rig, 1, "c");
	kill_head(1);
	taken = rig_take_one(&rig, "b");
	/* While b is on its way, a waits again, before c. */
	job = rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_waiting(&rig, 1), 3);
	assert_int_equal(rig_take(&rig, 1).take.count, 0);
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_OK);
	wr_deferred_free(taken);
	taken = rig_take_one(&rig, "a");
	assert_int_equal(taken->tries, 0);
	rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_deferred_free(taken);
	wr_deferred_free(rig_take_one(&rig, "c"));
	assert_int_equal(rig_stats(&rig).dead, 0);
}

static void test_retry_ends_a_back_off(void **state)
{
	struct wr_deferred *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	taken = rig_take_one(&rig, "a");
	rig_settle(&rig, taken, WR_QUEUE_AGAIN, LONG_US, 503, "");
	wr_deferred_free(taken);
	assert_int_equal(rig_take(&rig, 1).take.count, 0);
	assert_int_equal(
		rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){0}, 0, 10).page.count, 1);
	wr_deferred_free(rig_take_one(&rig, "a"));
}

/* Of which dead ones wait again, and how many have no room. */
static void check_retry(uint64_t id, uint32_t count, uint32_t left, enum wr_queue_reason reason)
{
	struct wr_queue_job job =
		rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = id}, 0, 10);

	assert_reason(job.reason, reason);
	assert_int_equal(job.page.count, count);
	assert_int_equal(job.page.left, left);
}

static void test_retry_keeps_to_the_most_that_may_wait(void **state)
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
	check_retry(0, 3, 2, WR_QUEUE_OK); /* a and b are due at once */
	assert_int_equal(rig_stats(&rig).waiting, 3);
	assert_int_equal(rig_stats(&rig).dead, 2);
	check_retry(2, 0, 1, WR_QUEUE_FULL);
	assert_int_equal(rig_stats(&rig).waiting, 3);
	assert_int_equal(rig_waiting(&rig, 1), 1);
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = 4}, 0, 1);
	check_retry(2, 1, 0, WR_QUEUE_OK);
	check_retry(99, 0, 0, WR_QUEUE_UNKNOWN);
}

static void test_retry_keeps_to_bytes(void **state)
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
	/* Two of them fit into the line; of the third its line has no room, … */
	job = rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){0}, 0, 10);
	assert_int_equal(job.page.count, 2);
	assert_int_equal(job.page.left, 1);
	check_retry(3, 0, 1, WR_QUEUE_KEY_BYTES_FULL);
	/* … and with one of another line the queue has none. */
	rig_put(&rig, 2, large);
	check_retry(3, 0, 1, WR_QUEUE_BYTES_FULL);
	assert_int_equal(rig_stats(&rig).waiting, 3);
	/* A line of which none waits may have one of any size, as for a put. */
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.states = 1u << WR_DEFERRED_WAITING},
		 0, 10);
	assert_int_equal(rig_stats(&rig).waiting, 0);
	check_retry(3, 1, 0, WR_QUEUE_OK);
}

static void test_drop(void **state)
{
	struct wr_queue_job b, job;
	struct wr_deferred *taken;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	b = rig_put(&rig, 1, "b");
	rig_put(&rig, 1, "c");
	rig_put(&rig, 2, "d");
	taken = rig_take(&rig, 1).take.first;
	assert_text(taken->body, "a");
	/* Not what is on its way. */
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_reason(job.reason, WR_QUEUE_UNKNOWN);
	assert_int_equal(job.page.count, 0);
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = b.put.id}, 0, 1);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_waiting(&rig, 1), 2);
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 0, "");
	wr_deferred_free(taken);
	job = rig_ticket(&rig, b.put.ticket);
	assert_int_equal(job.ticket.found->state, WR_DEFERRED_DROPPED);
	wr_deferred_free(job.ticket.found);

	/* All dead ones, then all of a line. */
	job = rig_page(&rig, WR_QUEUE_DROP,
		       (struct wr_queue_filter){.states = 1u << WR_DEFERRED_DEAD}, 0, 10);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_stats(&rig).dead, 0);
	job = rig_page(&rig, WR_QUEUE_DROP,
		       (struct wr_queue_filter){.key = (const uint8_t[WR_LINE_KEY_BYTES]){1}}, 0,
		       10);
	assert_int_equal(job.page.count, 1);
	assert_int_equal(rig_waiting(&rig, 1), 0);
	assert_int_equal(rig_stats(&rig).dropped_total, 3);
	wr_deferred_free(rig_take_one(&rig, "d"));
}

/* The head of a line is dropped while it waits: the next one is due by its own time. */
static void test_drop_a_head(void **state)
{
	struct wr_deferred *taken;
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_put(&rig, 1, "b");
	taken = rig_take_one(&rig, "a");
	rig_settle(&rig, taken, WR_QUEUE_AGAIN, LONG_US, 503, "");
	wr_deferred_free(taken);
	assert_int_equal(rig_take(&rig, 1).take.count, 0);
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_int_equal(job.page.count, 1);
	wr_deferred_free(rig_take_one(&rig, "b"));
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
		for (const struct wr_deferred *r = job.page.first; r; r = r->next) {
			assert_int_equal(r->id, ++seen);
			assert_int_equal(r->body.len, 0);
			assert_int_equal(r->body_len, 1);
			assert_text(r->uri, "/orders?x=1");
		}
		wr_deferred_free(job.page.first);
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
	wr_deferred_free(job.page.first);
	job = rig_page(&rig, WR_QUEUE_SHOW, (struct wr_queue_filter){.id = 7}, 0, 1);
	assert_int_equal(job.page.count, 1);
	assert_text(job.page.first->body, "x");
	wr_deferred_free(job.page.first);
	assert_reason(
		rig_page(&rig, WR_QUEUE_SHOW, (struct wr_queue_filter){.id = 99}, 0, 1).reason,
		WR_QUEUE_UNKNOWN);
}

static void test_recount(void **state)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_RECOUNT};

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 4, "x");
	rig_put(&rig, 4, "y");
	rig.waiting[4] = 0; /* nothing is under way */
	assert_reason(rig_do(&rig, &job), WR_QUEUE_OK);
	assert_int_equal(rig_waiting(&rig, 4), 2);
}

static void test_oldest(void **state)
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_order_within_a_line),
		TEST(test_lines_beside_each_other),
		TEST(test_all_of_a_request),
		TEST(test_own_idempotency_key_stays_the_same),
		TEST(test_tries),
		TEST(test_give_up_at_once),
		TEST(test_release_is_no_try),
		TEST(test_absence_is_no_try),
		TEST(test_first_wait),
		TEST(test_age),
		TEST(test_age_ends_a_wait),
		TEST(test_bounds),
		TEST(test_share_of_a_line),
		TEST(test_bound_of_dead_letters),
		TEST(test_tickets),
		TEST(test_tickets_are_bounded),
		TEST(test_retry_goes_back_to_its_place),
		TEST(test_retry_ends_a_back_off),
		TEST(test_retry_keeps_to_the_most_that_may_wait),
		TEST(test_retry_keeps_to_bytes),
		TEST(test_drop),
		TEST(test_drop_a_head),
		TEST(test_pages),
		TEST(test_recount),
		TEST(test_oldest),
	};

	int failed;

	if (argc > 1 && strcmp(argv[1], "redis") == 0)
		redis_start(&redis);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	redis_end(&redis);
	return failed;
}
