/* The data of a queue: submitted jobs, the thread that does the jobs, and ports, through which
 * finished jobs return. Private to queue.c and thread.c. */
#ifndef WR_QUEUE_THREAD_H
#define WR_QUEUE_THREAD_H

#include <pthread.h>

#include "queue/backend.h"

#define WR_QUEUE_MAGIC 0x71756575u
#define WR_QUEUE_PORT_MAGIC 0x71706f72u

struct wr_queue_port {
	uint32_t magic; /* WR_QUEUE_PORT_MAGIC */
	struct wr_queue *queue;
	void (*wake)(void *context);
	void *context;
	pthread_mutex_t lock;
	struct wr_list finished; /* the jobs that are done, but whose `done` was not called yet */
	/* true if `wake` was called after the latest wr_queue_port_run() */
	bool woken;
};

struct wr_queue {
	uint32_t magic; /* WR_QUEUE_MAGIC from wr_queue_open() to wr_queue_free() */
	struct wr_queue_opts opts;
	struct wr_seals seals;

	/* Only the queue's thread uses these members. */
	struct wr_queue_backend *backend;
	bool open;
	uint64_t tried_us; /* monotonic time of the latest try to open the backend; 0: not tried */
	/* monotonic time when a failure of the backend was last logged; 0: no failure has been
	 * logged since the backend was last opened */
	uint64_t logged_us;

	pthread_t thread;
	pthread_mutex_t lock;     /* protects all members below */
	pthread_cond_t submitted; /* signalled when a job was submitted or `ending` was set */
	pthread_cond_t opened;    /* signalled when `tried` was set */
	struct wr_list pending;   /* submitted jobs that the thread has not fetched */
	uint32_t jobs;            /* number of jobs that were submitted and are not done */
	uint32_t urgent;          /* number of jobs in `pending` for which a client waits */
	/* true while the thread waits for a larger batch; a submitted job then wakes the thread
	 * only if a client waits for the job */
	bool lingers;
	bool ending, tried;
	enum wr_queue_reason reason;
	struct weir_error why;
};

/* Returns true if a client waits for the job. No client waits for a take or a settle. */
static inline bool wr_queue_job_is_urgent(const struct wr_queue_job *job)
{
	return job->verb != WR_QUEUE_TAKE && job->verb != WR_QUEUE_SETTLE;
}

/* Adds a finished job to its port and wakes the port's owner. May be called on any thread. */
void wr_queue_return_job(struct wr_queue_job *job);

/* The thread's main function; its argument is a struct wr_queue. */
void *wr_queue_thread(void *argument);

#endif
