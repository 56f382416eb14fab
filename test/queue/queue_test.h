/* A test rig for queues: jobs are synchronous, and tests set the clocks. */
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

	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t come;  /* `woken` was set */
	bool woken;
	uint64_t wall_us, mono_us;
	char said[4096];       /* all log lines */
	uint64_t waiting[256]; /* reported counts, by the first byte of the key */
};

/* A redis-server in its own folder, with appendfsync always. It is killed when the test process
 * ends.
 */
struct redis {
	char dir[64];
	pid_t pid;
	struct redisContext *link;
};
void redis_start(struct redis *redis); /* after redis_kill(), it loads its data again */
void redis_kill(struct redis *redis);  /* SIGKILL */
void redis_end(struct redis *redis);   /* kills it and removes the folder */
/* Sends a command, which must succeed. */
void redis_tell(struct redis *redis, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts the queue into this Redis, which is flushed. The queue's time then also advances with the
 * server's clock, so durations are exact only up to SLACK_US. */
void rig_use_redis(struct rig *rig, struct redis *redis);
#define SLACK_US (100 * S_US)

/* Makes a rig with a new folder and default options, which may be changed before rig_open(). */
void rig_init(struct rig *rig);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig); /* rig_open() may be called again */
void rig_free(struct rig *rig);  /* removes the folder */

/* Submits a job and waits until it is done. Returns job->reason. */
enum wr_queue_reason rig_do(struct rig *rig, struct wr_queue_job *job);

void rig_pass(struct rig *rig, uint64_t us);         /* advances both clocks */
void rig_set_wall(struct rig *rig, uint64_t us);     /* sets the wall clock */
uint64_t rig_waiting(struct rig *rig, uint8_t line); /* the reported count of a line */

/* Puts a request into this line. It must be accepted. */
struct wr_queue_job rig_put(struct rig *rig, uint8_t line, const char *body);

/* Puts any request. */
struct wr_queue_job rig_put_as(struct rig *rig, const struct wr_deferred *request,
			       uint64_t max_waiting, uint64_t max_age_us, uint64_t wait_us);
struct wr_deferred request_of(uint8_t line, const char *body);

/* Takes up to `max`; the caller frees job.take.first. */
struct wr_queue_job rig_take(struct rig *rig, uint32_t max);

/* Takes the only request that is due and checks its body. The caller frees it. */
struct wr_deferred *rig_take_one(struct rig *rig, const char *body);

struct wr_queue_job rig_settle(struct rig *rig, const struct wr_deferred *taken,
			       enum wr_queue_outcome outcome, uint64_t wait_us, uint16_t status,
			       const char *reason);

/* Takes the next request, checks its body unless that is NULL, and settles it. Returns the settle.
 */
struct wr_queue_job rig_deliver(struct rig *rig, const char *body, enum wr_queue_outcome outcome,
				uint64_t wait_us, uint16_t status, const char *reason);

struct wr_queue_job rig_ticket(struct rig *rig, const uint8_t *ticket);
struct wr_queue_stats rig_stats(struct rig *rig);
struct wr_queue_job rig_page(struct rig *rig, enum wr_queue_verb verb,
			     struct wr_queue_filter filter, uint64_t after, uint32_t max);

/* For a queue in Redis the times may differ by SLACK_US, else they must be equal. */
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
