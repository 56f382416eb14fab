/* The thread of a queue. It collects submitted jobs into batches, calls the backend, which may
 * block, and returns the jobs to their ports. Started by wr_queue_open(). */
#include "queue/thread.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"

#define BATCH_MAX 512u     /* maximum number of jobs that are made durable together */
#define REOPEN_US 1000000u /* time between two tries to open the backend */
/* A failure that lasts is logged again after this time. Deletions of dead letters are logged at
 * most once in this time. */
#define REMIND_US 60000000ull
/* After a batch of at least LINGER_FROM jobs, more jobs are likely to come soon. If fewer than
 * LINGER_BELOW jobs are in flight, the next batch would be small, so the thread waits LINGER_US for
 * more jobs. */
#define LINGER_FROM 16u
#define LINGER_US 1000u
#define LINGER_BELOW 64u

/* ---- functions for backends ---- */

enum wr_queue_reason wr_queue_backend_fail(struct wr_queue_backend *backend,
					   enum wr_queue_reason reason, const char *format, ...)
{
	va_list args;

	wr_assert(reason != WR_QUEUE_OK);
	va_start(args, format);
	vsnprintf(backend->why.text, sizeof backend->why.text, format, args);
	va_end(args);
	backend->why.code = WEIR_ESYS;
	backend->failed = reason;
	return reason;
}

void wr_queue_backend_log(const struct wr_queue_backend *backend, enum wr_queue_level level,
			  const char *format, ...)
{
	char text[1024];
	va_list args;

	if (!backend->opts->log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	backend->opts->log(backend->opts->context, level, text);
}

void wr_queue_backend_count_trimmed(struct wr_queue_backend *backend, uint64_t count,
				    uint64_t now_us)
{
	backend->trimmed += count;
	if (backend->trimmed == 0 ||
	    (backend->trimmed_us && now_us < backend->trimmed_us + REMIND_US))
		return;
	wr_queue_backend_log(backend, WR_QUEUE_WARN,
			     "too many dead letters (--queue-dead-max, --queue-dead-bytes): "
			     "deleted the %llu oldest",
			     (unsigned long long)backend->trimmed);
	backend->trimmed = 0;
	backend->trimmed_us = now_us;
}

void wr_queue_job_reset(struct wr_queue_job *job)
{
	job->reason = WR_QUEUE_OK;
	job->unsure = 0;
	switch (job->verb) {
	case WR_QUEUE_PUT:
		memset(job->put.ticket, 0, sizeof job->put.ticket);
		job->put.id = job->put.position = 0;
		break;
	case WR_QUEUE_TAKE:
		wr_queue_request_free(job->take.first);
		job->take.first = NULL;
		job->take.count = job->take.expired = 0;
		job->take.next_us = UINT64_MAX;
		break;
	case WR_QUEUE_SETTLE:
		job->settle.state = WR_QUEUE_REQUEST_WAITING;
		job->settle.waiting = 0;
		break;
	case WR_QUEUE_TICKET:
		wr_queue_request_free(job->ticket.found);
		job->ticket.found = NULL;
		break;
	case WR_QUEUE_LIST:
	case WR_QUEUE_SHOW:
	case WR_QUEUE_RETRY:
	case WR_QUEUE_DROP:
		wr_queue_request_free(job->page.first);
		job->page.first = NULL;
		job->page.count = job->page.left = 0;
		job->page.last = job->page.end = 0;
		break;
	case WR_QUEUE_STATS:
		job->stats = (struct wr_queue_stats){0};
		break;
	case WR_QUEUE_RECOUNT:
		break;
	}
}

/* ---- the thread ---- */

static struct wr_queue_moment read_time(const struct wr_queue *queue)
{
	struct wr_queue_moment at;

	queue->opts.now(queue->opts.context, &at.wall_us, &at.mono_us);
	return at;
}

static void set_state(struct wr_queue *queue, enum wr_queue_reason reason,
		      const struct weir_error *why)
{
	pthread_mutex_lock(&queue->lock);
	queue->reason = reason;
	queue->why = *why;
	queue->tried = true;
	pthread_cond_broadcast(&queue->opened);
	pthread_mutex_unlock(&queue->lock);
}

/* Logs why the backend could not be opened or has failed. While the reason stays the same, it is
 * logged once a minute. */
static void log_problem(struct wr_queue *queue, enum wr_queue_reason reason,
			const struct weir_error *why, uint64_t mono_us)
{
	if (queue->reason == reason && queue->logged_us && mono_us - queue->logged_us < REMIND_US)
		return;
	queue->logged_us = mono_us | 1;
	wr_queue_backend_log(
		queue->backend, WR_QUEUE_ERROR,
		"deferred requests cannot be stored or delivered (%s): %s; retrying every second",
		wr_queue_reason_name(reason), why->text);
}

static void try_open(struct wr_queue *queue)
{
	struct wr_queue_moment at = read_time(queue);
	struct weir_error why = {0};
	enum wr_queue_reason reason;

	if (queue->open || (queue->tried_us && at.mono_us - queue->tried_us < REOPEN_US))
		return;
	queue->tried_us = at.mono_us | 1;
	reason = queue->backend->ops->open(queue->backend, at, &why);
	queue->open = reason == WR_QUEUE_OK;
	if (!queue->open)
		log_problem(queue, reason, &why, at.mono_us);
	else if (queue->logged_us)
		wr_queue_backend_log(queue->backend, WR_QUEUE_NOTICE, "the queue works again");
	if (queue->open)
		queue->logged_us = 0;
	set_state(queue, reason, &why);
}

/* Closes the backend if it has failed. try_open() opens it again after REOPEN_US. */
static void close_if_failed(struct wr_queue *queue)
{
	struct wr_queue_backend *backend = queue->backend;
	enum wr_queue_reason reason = backend->failed;
	struct wr_queue_moment at;

	if (reason == WR_QUEUE_OK)
		return;
	at = read_time(queue);
	backend->ops->close(backend);
	backend->failed = WR_QUEUE_OK;
	queue->open = false;
	queue->tried_us = at.mono_us | 1;
	log_problem(queue, reason, &backend->why, at.mono_us);
	set_state(queue, reason, &backend->why);
}

static struct timespec after_us(uint64_t wait_us)
{
	return wr_clock_timespec(wr_clock_mono_ns() + wait_us * 1000);
}

/* Waits for a job or for the next tick. Called with the lock held. */
static void wait_for_jobs(struct wr_queue *queue)
{
	struct timespec until = after_us(queue->open ? queue->backend->tick_us : REOPEN_US / 4);

	while (wr_list_is_empty(&queue->pending) && !queue->ending)
		if (pthread_cond_timedwait(&queue->submitted, &queue->lock, &until) == ETIMEDOUT)
			return;
}

/* Waits 1 ms for more jobs. During many deliveries, takes and settles arrive one by one, and
 * without this wait each commit would contain only a few jobs. The wait halves the work per job.
 * Called with the lock held. */
static void wait_for_more_jobs(struct wr_queue *queue)
{
	struct timespec until = after_us(LINGER_US);

	queue->lingers = true;
	while (!queue->urgent && !queue->ending)
		if (pthread_cond_timedwait(&queue->submitted, &queue->lock, &until) == ETIMEDOUT)
			break;
	queue->lingers = false;
}

/* Fetches up to BATCH_MAX submitted jobs. On entry *count is the size of the previous batch. On
 * return *count is the number of fetched jobs; 0 means that it is time for a tick. Returns false if
 * the queue was closed and all jobs are done. */
static bool fetch_batch(struct wr_queue *queue, struct wr_queue_job **batch, size_t *count)
{
	size_t before = *count;
	struct wr_list *link;
	bool more;

	*count = 0;
	pthread_mutex_lock(&queue->lock);
	wait_for_jobs(queue);
	if (!wr_list_is_empty(&queue->pending) && before >= LINGER_FROM &&
	    queue->jobs < LINGER_BELOW)
		wait_for_more_jobs(queue);
	while (*count < BATCH_MAX && (link = wr_list_pop(&queue->pending))) {
		batch[*count] = wr_container_of(link, struct wr_queue_job, link);
		queue->urgent -= wr_queue_job_is_urgent(batch[(*count)++]);
	}
	more = *count || !queue->ending;
	pthread_mutex_unlock(&queue->lock);
	return more;
}

static void do_batch(struct wr_queue *queue, struct wr_queue_job **batch, size_t count)
{
	if (queue->open) {
		queue->backend->ops->run(queue->backend, batch, count, read_time(queue));
	} else {
		for (size_t i = 0; i < count; i++)
			batch[i]->reason = queue->reason;
	}
	close_if_failed(queue);
	pthread_mutex_lock(&queue->lock);
	queue->jobs -= (uint32_t)count;
	pthread_mutex_unlock(&queue->lock);
	for (size_t i = 0; i < count; i++)
		wr_queue_return_job(batch[i]);
}

void *wr_queue_thread(void *argument)
{
	struct wr_queue *queue = argument;
	struct wr_queue_job *batch[BATCH_MAX];
	uint64_t ticked_us = 0;
	size_t count = 0;

	wr_assert_magic(queue, WR_QUEUE_MAGIC);
	wr_assert(queue->backend);
	try_open(queue);
	while (fetch_batch(queue, batch, &count)) {
		struct wr_queue_moment at;

		if (count)
			do_batch(queue, batch, count);
		at = read_time(queue);
		if (queue->open && at.mono_us - ticked_us >= queue->backend->tick_us) {
			ticked_us = at.mono_us;
			queue->backend->ops->tick(queue->backend, at);
			close_if_failed(queue);
		}
		try_open(queue);
	}
	if (queue->open)
		queue->backend->ops->close(queue->backend);
	return NULL;
}
