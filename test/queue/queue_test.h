/* A queue for tests: jobs are waited for, the clocks are set by hand. */
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
	char dir[64];        /* a new folder, and … */
	char url[160];       /* … file:FOLDER/q */
	struct redis *redis; /* NULL: the queue is in a file */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t come;
	bool woken;
	uint64_t wall_us, mono_us;
	char said[4096]; /* all that was, a line each */
	size_t told;     /* how many waiting there are, by the first byte of the key */
	uint64_t waiting[256];
};

/* A redis-server in a folder of its own, which keeps what it is told: appendfsync always. It goes
 * when the test goes. */
struct redis {
	char dir[64];
	pid_t pid;
	struct redisContext *link;
};
void redis_start(struct redis *redis); /* again after redis_kill(): with what it has kept */
void redis_kill(struct redis *redis);  /* -9 */
void redis_end(struct redis *redis);   /* and removes the folder */
void redis_tell(struct redis *redis, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The queue is in there; what was in it is gone. Its time goes on with that of the server besides:
 * durations are right up to SLACK_US. */
void rig_use_redis(struct rig *rig, struct redis *redis);
#define SLACK_US (100 * S_US)

/* A rig with a new folder and default bounds; opts may be changed before rig_open(). */
void rig_init(struct rig *rig);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig); /* may be opened again */
void rig_free(struct rig *rig);  /* removes the folder */

/* Submits it and waits until it is done. Returns job->reason. */
enum wr_queue_reason rig_do(struct rig *rig, struct wr_queue_job *job);

void rig_pass(struct rig *rig, uint64_t us);     /* both clocks go on */
void rig_set_wall(struct rig *rig, uint64_t us); /* people set the wall clock */
uint64_t rig_waiting(struct rig *rig, uint8_t line);

/* Puts a request of this line, whose body is `body`; the job says what became of it. */
struct wr_queue_job rig_put(struct rig *rig, uint8_t line, const char *body);

/* The same with all to be chosen. */
struct wr_queue_job rig_put_as(struct rig *rig, const struct wr_deferred *request,
			       uint64_t max_waiting, uint64_t max_age_us, uint64_t wait_us);
struct wr_deferred request_of(uint8_t line, const char *body);

/* Takes up to `max`; the caller frees job.take.first. */
struct wr_queue_job rig_take(struct rig *rig, uint32_t max);

/* Takes the only one that is due and checks its body. */
struct wr_deferred *rig_take_one(struct rig *rig, const char *body);

struct wr_queue_job rig_settle(struct rig *rig, const struct wr_deferred *taken,
			       enum wr_queue_outcome outcome, uint64_t wait_us, uint16_t status,
			       const char *reason);

struct wr_queue_job rig_ticket(struct rig *rig, const uint8_t *ticket);
struct wr_queue_stats rig_stats(struct rig *rig);
struct wr_queue_job rig_page(struct rig *rig, enum wr_queue_verb verb,
			     struct wr_queue_filter filter, uint64_t after, uint32_t max);

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
