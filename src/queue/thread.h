/* A queue from within: its mailbox, its thread, the ports where jobs come back. */
#ifndef WR_QUEUE_THREAD_H
#define WR_QUEUE_THREAD_H

#include <pthread.h>

#include "queue/backend.h"

struct wr_queue_port {
	struct wr_queue *queue;
	void (*wake)(void *context);
	void *context;
	pthread_mutex_t lock;
	struct wr_queue_job *first, **tail; /* done */
	bool woken;
};

struct wr_queue {
	struct wr_queue_opts opts;
	struct wr_seals seals;
	struct wr_queue_backend *backend; /* the thread's own */
	bool open;
	uint64_t tried_us, said_us; /* by the clock that only goes on */

	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t come;  /* something is in the mailbox, or it is time to end */
	pthread_cond_t opened;
	struct wr_queue_job *first, **tail;
	uint32_t jobs;   /* submitted and not done */
	uint32_t urgent; /* in the mailbox, of those that are not put off */
	bool lingers;    /* the thread waits for more to come, and is woken for urgent ones only */
	bool ending, tried;
	enum wr_queue_reason reason;
	struct weir_error why;
};

/* Whether somebody waits for it. Deliveries are taken and settled in the background. */
static inline bool wr_queue_job_is_urgent(const struct wr_queue_job *job)
{
	return job->verb != WR_QUEUE_TAKE && job->verb != WR_QUEUE_SETTLE;
}

/* Gives a job back to its port. Any thread. */
void wr_queue_return_job(struct wr_queue_job *job);

/* The thread; a queue is its argument. */
void *wr_queue_thread(void *argument);

#endif
