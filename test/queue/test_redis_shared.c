/* Tests the data of the Redis backend: lines that two gateways share, leases, the clock, and keys
 * that are left at the end. */
#include "queue/redis_rig.h"

#include <hiredis/hiredis.h>

/* ---- two gateways ---- */

static void test_two_share_lines(void **state)
{
	struct wr_queue_request *a, *b;

	(void)state;
	rig_open(&rig);
	rig_open(&other);
	rig_put(&rig, 1, "first");
	rig_put(&other, 1, "second");
	rig_put(&other, 2, "elsewhere");
	a = rig_take(&rig, 1).take.first;
	assert_text(a->body, "first");
	/* While one gateway delivers the first request of a line, the other gateway gets only
	 * requests of other lines. */
	b = rig_take_one(&other, "elsewhere");
	wr_queue_request_free(b);
	rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_queue_request_free(a);
	b = rig_take_one(&other, "second");
	wr_queue_request_free(b);
}

static void test_changes_of_others_are_reported(void **state)
{
	(void)state;
	rig_put((rig_open(&rig), &rig), 3, "x");
	rig_open(&other);
	assert_int_equal(rig_waiting(&other, 3), 1); /* reported when the queue was opened */
	rig_put(&rig, 3, "y");
	for (int i = 0; i < 3000 && rig_waiting(&other, 3) != 2; i++) {
		rig_pass(&other, S_US);
		usleep(10000);
	}
	assert_int_equal(rig_waiting(&other, 3), 2);
	for (int i = 0; i < 2; i++) {
		rig_deliver(&rig, NULL, WR_QUEUE_DELIVERED, 0, 200, "");
	}
	for (int i = 0; i < 3000 && rig_waiting(&other, 3) != 0; i++) {
		rig_pass(&other, S_US);
		usleep(10000);
	}
	assert_int_equal(rig_waiting(&other, 3), 0);
}

/* The lease of a gateway that died or is slow expires, and a settle after that is refused. */
static void test_lease_expires(void **state)
{
	struct wr_queue_request *a, *b;

	(void)state;
	rig_open(&rig);
	rig_open(&other);
	rig_put(&rig, 1, "x");
	a = rig_take_one(&rig, "x");
	rig_pass(&rig, 1000 * S_US - 2 * SLACK_US);
	assert_int_equal(rig_take(&other, 1).take.count, 0);
	rig_pass(&rig, 3 * SLACK_US);
	b = rig_take_one(&other, "x");
	assert_true(b->fence > a->fence);
	assert_reason(rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_LOST);
	assert_reason(rig_settle(&other, b, WR_QUEUE_AGAIN, 0, 503, "").reason, WR_QUEUE_OK);
	wr_queue_request_free(b);
	b = rig_take_one(&other, "x");
	assert_int_equal(b->tries, 1);
	wr_queue_request_free(a);
	wr_queue_request_free(b);
}

/* Calls the script's take directly, with an owner and the number of its connection. The caller
 * frees the reply. */
static redisReply *take_raw(const char *owner, int received, int link)
{
	redisReply *reply = redisCommand(
		redis.link, "EVALSHA %s 1 weir:1:{queue} take 10 100000000 1000000 %s %d %d",
		wr_queue_script_lines.sha1, owner, received, link);

	assert_non_null(reply);
	assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
	return reply;
}

/* A take that arrives after its owner has made a new connection has no effect. Its reply is lost,
 * and it would free lines that the owner has taken on the new connection. */
static void test_late_take(void **state)
{
	redisReply *reply;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_put(&rig, 2, "b");
	reply = take_raw("me", 0, 2);
	assert_int_equal(reply->elements, 4 + 4); /* requests a and b */
	freeReplyObject(reply);
	rig_put(&rig, 3, "c");
	reply = take_raw("me", 0, 1);
	assert_int_equal(reply->elements, 4);
	assert_int_equal(reply->element[1]->integer, -1);
	assert_int_equal(reply->element[2]->integer, 2);
	freeReplyObject(reply);
	/* Connections are counted per owner. */
	reply = take_raw("you", 0, 1);
	assert_int_equal(reply->elements, 4 + 2); /* only request c */
	freeReplyObject(reply);
	/* A further take on the same connection frees nothing. A new connection frees the lines
	 * that its owner has not received. */
	reply = take_raw("me", -1, 2);
	assert_int_equal(reply->elements, 4);
	assert_int_equal(reply->element[1]->integer, 0);
	freeReplyObject(reply);
	reply = take_raw("me", 1, 3);
	assert_int_equal(reply->elements,
			 4 + 2); /* request b, because the owner has received only fence 1 */
	freeReplyObject(reply);
}

/* A request does not wait longer if the clock of Redis goes back. */
static void test_clock_set_back(void **state)
{
	struct wr_queue_request request = request_of(1, "x");
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	/* Simulates a clock of Redis that is a day ahead during the put. */
	rig_pass(&rig, 86400 * S_US);
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 1000 * S_US).reason,
		      WR_QUEUE_OK);
	redis_run(&redis, "HSET weir:1:{queue}:n ahead 0");
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.count, 0);
	assert_near(&rig, job.take.next_us, 1000 * S_US);
}

/* Deletes the sums of bytes, which an older weir did not store: the sum of each line and the sum of
 * dead letters. The script must compute them again. */
static void test_data_of_an_older_weir(void **state)
{
	static char body[9000];
	struct wr_queue_request request = request_of(1, "");

	(void)state;
	request.body = (struct weir_str){body, sizeof body};
	rig.opts.max_line_bytes = 35000;
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason,
			      i < 3 ? WR_QUEUE_OK : WR_QUEUE_KEY_BYTES_FULL);
	rig_deliver(&rig, NULL, WR_QUEUE_GIVE_UP, 0, 400, "no");
	redis_run(&redis, "DEL weir:1:{queue}:held");
	redis_run(&redis, "HDEL weir:1:{queue}:n dead_bytes");
	/* Two requests wait, and there is room for a third. */
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason,
		      WR_QUEUE_KEY_BYTES_FULL);
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){0}, 0, 10);
	assert_int_equal(rig_stats(&rig).dead, 0);
	assert_int_equal(rig_stats(&rig).bytes, 0);
	for (int i = 0; i < 4; i++)
		assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason,
			      i < 3 ? WR_QUEUE_OK : WR_QUEUE_KEY_BYTES_FULL);
}

/* After all requests were delivered and their tickets have expired, only counters and owners are
 * left.
 */
static void test_nothing_is_left(void **state)
{
	redisReply *keys;

	(void)state;
	rig.opts.keep_us = S_US;
	rig_open(&rig);
	for (uint8_t i = 0; i < 10; i++)
		rig_put(&rig, i, "x");
	for (int i = 0; i < 10; i++) {
		rig_deliver(&rig, NULL, WR_QUEUE_DELIVERED, 0, 200, "");
	}
	while (rig_stats(&rig).tickets)
		rig_pass(&rig, 2 * S_US);
	assert_int_equal(rig_stats(&rig).bytes, 0);
	keys = redisCommand(redis.link, "KEYS *");
	for (size_t i = 0; i < keys->elements; i++) {
		const char *name = keys->element[i]->str + strlen("weir:1:{queue}:");

		if (strcmp(name, "seq") != 0 && strcmp(name, "fences") != 0 &&
		    strcmp(name, "n") != 0 && strcmp(name, "changes") != 0 &&
		    strcmp(name, "changed") != 0 && strcmp(name, "links") != 0 &&
		    strcmp(name, "owners") != 0)
			fail_msg("%s is left", keys->element[i]->str);
	}
	freeReplyObject(keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_two_share_lines), TEST(test_changes_of_others_are_reported),
		TEST(test_lease_expires),   TEST(test_late_take),
		TEST(test_clock_set_back),  TEST(test_data_of_an_older_weir),
		TEST(test_nothing_is_left),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	redis_end(&redis);
	return failed;
}
