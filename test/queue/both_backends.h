/* Helpers of the suites that test both backends. Each test has its own queue. The queue is in a
 * file, or with the argument `redis` in a redis-server that the suite starts. */
#ifndef TEST_QUEUE_BOTH_BACKENDS_H
#define TEST_QUEUE_BOTH_BACKENDS_H

#include "queue/queue_test.h"

/* This time is longer than a busy machine can delay a job in Redis. */
#define LONG_US (1000 * S_US)
#define AGE_US (86400 * S_US)

static struct rig rig;
static struct redis redis; /* its pid is 0 if the suite tests files */

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

/* Takes the head of a line, which must be due, and makes it a dead letter. */
static inline void kill_head(uint8_t line)
{
	struct wr_queue_request *taken = rig_take(&rig, 1).take.first;

	assert_non_null(taken);
	assert_int_equal(taken->key[0], line);
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 500, "given up");
	wr_queue_request_free(taken);
}

/* Runs the tests on Redis if the first argument is `redis`, otherwise on a file. */
#define RUN_ON_BACKEND(argc, argv, tests)                                                          \
	do {                                                                                       \
		int failed;                                                                        \
                                                                                                   \
		if ((argc) > 1 && strcmp((argv)[1], "redis") == 0)                                 \
			redis_start(&redis);                                                       \
		failed = cmocka_run_group_tests(tests, NULL, NULL);                                \
		redis_end(&redis);                                                                 \
		return failed;                                                                     \
	} while (0)

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
