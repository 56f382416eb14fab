/* Helpers for tests of a queue. They wait until a job is done, and tests set the clocks. */
#ifndef TEST_QUEUE_H
#define TEST_QUEUE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/str.h"
#include "queue/queue.h"

#define S_US 1000000ull
#define T0_US (1700000000ull * S_US)
#define LINES_MAX 64

struct rig {
	struct wr_queue_opts opts;
	struct wr_queue *queue;
	struct wr_queue_port *port;
	char dir[64];        /* a new folder */
	char url[160];       /* file:FOLDER/q, or the URL of Redis */
	struct redis *redis; /* NULL: the queue is in a file */

	pthread_mutex_t lock;     /* protects all members below */
	pthread_cond_t woken_set; /* signalled when `woken` was set */
	bool woken;
	uint64_t wall_us, mono_us;
	char log[4096];        /* all log lines */
	uint64_t waiting[256]; /* reported counts, by the first byte of the key */
};

/* A redis-server with its own folder and appendfsync always. The server is killed when the test
 * process ends. */
struct redis {
	char dir[64];
	pid_t pid;
	struct redisContext *link;
};
void redis_start(struct redis *redis); /* after redis_kill(), the server loads its data again */
void redis_kill(struct redis *redis);  /* SIGKILL */
void redis_end(struct redis *redis);   /* kills the server and removes its folder */
/* Sends a command, which must succeed. */
void redis_run(struct redis *redis, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Deletes all data of this Redis and stores the rig's queue there. The queue's time then follows
 * the clock of Redis too, so durations are exact only up to SLACK_US. */
void rig_use_redis(struct rig *rig, struct redis *redis);
#define SLACK_US (100 * S_US)

/* Makes a rig with a new folder and default options. Tests may change the options before
 * rig_open(). */
void rig_init(struct rig *rig);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig); /* rig_open() may be called again */
void rig_free(struct rig *rig);  /* removes the folder */

/* Submits a job and waits until it is done. Returns job->reason. */
enum wr_queue_reason rig_do(struct rig *rig, struct wr_queue_job *job);

void rig_pass(struct rig *rig, uint64_t us);         /* advances both clocks */
void rig_set_wall(struct rig *rig, uint64_t us);     /* sets the wall clock */
uint64_t rig_waiting(struct rig *rig, uint8_t line); /* the reported count of a line */

/* Puts a request into this line. The put must succeed. */
struct wr_queue_job rig_put(struct rig *rig, uint8_t line, const char *body);

/* Puts this request. The put may fail. */
struct wr_queue_job rig_put_as(struct rig *rig, const struct wr_queue_request *request,
			       uint64_t max_waiting, uint64_t max_age_us, uint64_t wait_us);
struct wr_queue_request request_of(uint8_t line, const char *body);

/* Takes up to `max` requests. The caller frees job.take.first. */
struct wr_queue_job rig_take(struct rig *rig, uint32_t max);

/* Takes the only request that is due and checks its body. The caller frees the request. */
struct wr_queue_request *rig_take_one(struct rig *rig, const char *body);

struct wr_queue_job rig_settle(struct rig *rig, const struct wr_queue_request *taken,
			       enum wr_queue_outcome outcome, uint64_t wait_us, uint16_t status,
			       const char *reason);

/* Takes the next request, checks its body unless `body` is NULL, and settles the request. Returns
 * the job that settled it. */
struct wr_queue_job rig_deliver(struct rig *rig, const char *body, enum wr_queue_outcome outcome,
				uint64_t wait_us, uint16_t status, const char *reason);

struct wr_queue_job rig_ticket(struct rig *rig, const uint8_t *ticket);
struct wr_queue_stats rig_stats(struct rig *rig);
struct wr_queue_job rig_page(struct rig *rig, enum wr_queue_verb verb,
			     struct wr_queue_filter filter, uint64_t after, uint32_t max);

/* Checks that the times are equal. For a queue in Redis, the times may differ by SLACK_US. */
void assert_near(const struct rig *rig, uint64_t us, uint64_t expected_us);

#define assert_reason(reason, expected)                                                            \
	assert_string_equal(wr_queue_reason_name(reason), wr_queue_reason_name(expected))
static inline void assert_text(struct weir_str text, const char *expected)
{
	assert_int_equal(text.len, strlen(expected));
	assert_memory_equal(text.ptr, expected, text.len);
}

void remove_tree(const char *path);

#endif
