/* Helpers of the suites that test the Redis backend: two queues in one Redis. Redis is restarted
 * before each test. */
#ifndef TEST_QUEUE_REDIS_RIG_H
#define TEST_QUEUE_REDIS_RIG_H

#include "queue/queue_test.h"
#include "queue/redis_backend.h"

#include <unistd.h>

static struct redis redis;
static struct rig rig, other;

static inline void use_redis(struct rig *of)
{
	of->redis = &redis;
	snprintf(of->url, sizeof of->url, "redis+unix://%s/redis.sock", redis.dir);
	of->opts.timeout_us = 60 * S_US;
	of->opts.lease_us = 1000 * S_US;
}

static int setup(void **state)
{
	(void)state;
	/* Redis may still rewrite its file because of the last test. Puts would fail during that
	 * time. */
	redis_kill(&redis);
	redis_start(&redis);
	redis_run(&redis, "FLUSHALL");
	rig_init(&rig);
	rig_init(&other);
	use_redis(&rig);
	use_redis(&other);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_free(&rig);
	rig_free(&other);
	return 0;
}

static inline enum wr_queue_reason try_put(struct rig *of)
{
	struct wr_queue_request request = request_of(1, "x");

	return rig_put_as(of, &request, 1000, 86400 * S_US, 0).reason;
}

static inline void expect_logged(struct rig *of, const char *words)
{
	pthread_mutex_lock(&of->lock);
	if (!strstr(of->log, words))
		fail_msg("\"%s\" was not logged: %s", words, of->log);
	pthread_mutex_unlock(&of->lock);
}

static inline void expect_not_logged(struct rig *of, const char *words)
{
	pthread_mutex_lock(&of->lock);
	if (strstr(of->log, words))
		fail_msg("\"%s\" was logged: %s", words, of->log);
	pthread_mutex_unlock(&of->lock);
}

/* Waits until a put succeeds. After appendonly was switched on, puts fail until Redis has written
 * its file. */
static inline void expect_durable(struct rig *of)
{
	enum wr_queue_reason reason = WR_QUEUE_NOT_PERSISTENT;

	for (int i = 0; i < 3000 && reason == WR_QUEUE_NOT_PERSISTENT; i++) {
		usleep(10000);
		reason = try_put(of);
	}
	assert_reason(reason, WR_QUEUE_OK);
}

static inline void wait_until_ok(struct rig *of)
{
	for (int i = 0; i < 3000 && wr_queue_state(of->queue, NULL) != WR_QUEUE_OK; i++) {
		pthread_mutex_lock(&of->lock);
		of->mono_us += 2 * S_US;
		pthread_mutex_unlock(&of->lock);
		usleep(10000);
	}
	assert_reason(wr_queue_state(of->queue, NULL), WR_QUEUE_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
