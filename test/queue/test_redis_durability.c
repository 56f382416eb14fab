/* The Redis backend accepts requests only if Redis does not lose them. */
#include "queue/redis_rig.h"

/* Changes each required setting while the queue is open. The next put must fail until the setting
 * is right again. */
static void test_required_settings(void **state)
{
	static const struct {
		const char *setting, *bad, *good;
	} cases[] = {
		{"appendfsync", "everysec", "always"},
		{"appendonly", "no", "yes"},
		{"maxmemory-policy", "allkeys-lru", "noeviction"},
		{"no-appendfsync-on-rewrite", "yes", "no"},
	};

	(void)state;
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char remedy[128];

		redis_run(&redis, "CONFIG SET %s %s", cases[i].setting, cases[i].bad);
		assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
		snprintf(remedy, sizeof remedy, "CONFIG SET %s %s", cases[i].setting,
			 cases[i].good);
		expect_logged(&rig, remedy);
		/* Requests that were stored before are still in the queue. */
		assert_int_equal(rig_stats(&rig).waiting, i + 1);
		redis_run(&redis, "CONFIG SET %s %s", cases[i].setting, cases[i].good);
		expect_durable(&rig);
		expect_logged(&rig, "again");
	}
	redis_run(&redis, "CONFIG SET maxmemory-policy volatile-ttl");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_run(&redis, "CONFIG SET maxmemory-policy noeviction");
}

static void test_user_without_config(void **state)
{
	(void)state;
	redis_run(&redis, "ACL SETUSER weak reset on >pw ~* +@all -config");
	snprintf(rig.url, sizeof rig.url, "redis+unix://weak:pw@%s/redis.sock", redis.dir);
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_logged(&rig, "+config|get");
	redis_run(&redis, "ACL DELUSER weak");
}

static void open_weak(bool assume)
{
	snprintf(rig.url, sizeof rig.url, "redis+unix://weak:pw@%s/redis.sock", redis.dir);
	rig.opts.assume_durable = assume;
	rig_open(&rig);
}

/* With assume_durable, a server that does not show its settings is accepted. Settings that the
 * server does show must still be right. */
static void test_assume_durable(void **state)
{
	(void)state;
	redis_run(&redis, "ACL SETUSER weak reset on >pw ~* +@all -config");
	redis_run(&redis, "CONFIG SET appendonly no");
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	expect_logged(&rig, "--queue-assume-durable");
	redis_run(&redis, "CONFIG SET maxmemory-policy allkeys-lru");
	rig_close(&rig);
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_logged(&rig, "maxmemory_policy:allkeys-");
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_not_logged(&rig, "again");
	redis_run(&redis, "CONFIG SET maxmemory-policy noeviction");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	expect_logged(&rig, "again");
	rig_close(&rig);
	/* If Redis shows its settings, wrong settings make the put fail even with assume_durable.
	 */
	redis_run(&redis, "ACL SETUSER weak +config");
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_logged(&rig, "CONFIG SET appendonly yes");
	rig_close(&rig);
	/* If only INFO is blocked, wrong settings make the put fail too. */
	redis_run(&redis, "ACL SETUSER weak -info");
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	redis_run(&redis, "CONFIG SET appendonly yes");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	rig.opts.assume_durable = false;
	redis_run(&redis, "ACL DELUSER weak");
}

/* If appendonly is switched on while Redis runs, nothing is durable until the first rewrite of its
 * file is done. Requests accepted after that survive kill -9. */
static void test_appendonly_switched_on(void **state)
{
	(void)state;
	redis_run(&redis, "CONFIG SET appendonly no");
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	/* Adds so much data that the rewrite takes a while. */
	redis_run(&redis, "DEBUG POPULATE 200000 filler 100");
	redis_run(&redis, "CONFIG SET appendonly yes");
	expect_durable(&rig);
	redis_kill(&redis);
	redis_start(&redis);
	wait_until_ok(&rig);
	assert_int_equal(rig_stats(&rig).waiting, 1);
	expect_durable(&rig);
	/* During a later rewrite puts are accepted. */
	redis_run(&redis, "BGREWRITEAOF");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_run(&redis, "CLIENT KILL TYPE normal SKIPME yes");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	/* Removes the large file, so that the server of the next test starts quickly. */
	rig_close(&rig);
	redis_end(&redis);
}

/* The queue works with exactly the permissions that docs/deferred.md names. */
static void test_user_with_minimal_permissions(void **state)
{
	struct wr_queue_job job;

	(void)state;
	redis_run(&redis,
		  "ACL SETUSER weir reset on >pw ~weir:1:{queue}:* ~weir:1:{queue} "
		  "+evalsha +script|load +config|get +info +select +time +get +incr +del +hset "
		  "+hget +hmget +hdel +hexists +hincrby +zadd +zrem +zcard +zrange "
		  "+zrangebyscore +zrank");
	snprintf(rig.url, sizeof rig.url, "redis+unix://weir:pw@%s/redis.sock?db=1", redis.dir);
	rig.redis = NULL; /* the queue is in another database, so rig_pass() cannot set its time */
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_reason(rig_deliver(&rig, NULL, WR_QUEUE_AGAIN, 0, 500, "x").reason, WR_QUEUE_OK);
	assert_reason(rig_deliver(&rig, NULL, WR_QUEUE_GIVE_UP, 0, 500, "x").reason, WR_QUEUE_OK);
	job = rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_reason(job.reason, WR_QUEUE_OK);
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){0}, 0, 10);
	assert_int_equal(job.page.count, 2);
	rig_pass(&rig, 5 * S_US);
	assert_int_equal(rig_stats(&rig).tickets, 2);
	redis_run(&redis, "ACL DELUSER weir");
}

static void test_full_memory(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_run(&redis, "CONFIG SET maxmemory 1mb");
	assert_reason(try_put(&rig), WR_QUEUE_NO_SPACE);
	redis_run(&redis, "CONFIG SET maxmemory 0");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_int_equal(rig_stats(&rig).waiting, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_required_settings),
		TEST(test_user_without_config),
		TEST(test_assume_durable),
		TEST(test_appendonly_switched_on),
		TEST(test_user_with_minimal_permissions),
		TEST(test_full_memory),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	redis_end(&redis);
	return failed;
}
