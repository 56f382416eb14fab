/* Opens and closes a queue, submits jobs and returns their results. Called by src/serve. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"
#include "base/clock.h"
#include "base/assert.h"
#include "base/error.h"
#include "queue/thread.h"

#define LINE_BYTES_LEAST (4ull << 20)

/* ---- jobs ---- */

/* Sets the results of a submitted job to their initial values. The result pointers are not freed,
 * because they are uninitialized, or the caller has freed what they pointed to. */
static void clear_results(struct wr_queue_job *job)
{
	if (job->verb == WR_QUEUE_TAKE)
		job->take.first = NULL;
	else if (job->verb == WR_QUEUE_TICKET)
		job->ticket.found = NULL;
	else if (job->verb >= WR_QUEUE_LIST && job->verb <= WR_QUEUE_DROP)
		job->page.first = NULL;
	wr_queue_job_reset(job);
}

struct wr_queue_port *wr_queue_port_new(struct wr_queue *queue, void (*wake)(void *context),
					void *context)
{
	struct wr_queue_port *port = calloc(1, sizeof *port);

	wr_assert(wake);
	wr_assert_magic(queue, WR_QUEUE_MAGIC);
	if (!port)
		return NULL;
	port->magic = WR_QUEUE_PORT_MAGIC;
	port->queue = queue;
	port->wake = wake;
	port->context = context;
	wr_list_init(&port->finished);
	pthread_mutex_init(&port->lock, NULL);
	return port;
}

void wr_queue_port_free(struct wr_queue_port *port)
{
	if (!port)
		return;
	wr_assert_magic(port, WR_QUEUE_PORT_MAGIC);
	pthread_mutex_destroy(&port->lock);
	port->magic = 0;
	free(port);
}

/* Because of the port's lock, the thread that calls job->done sees everything that the queue's
 * thread wrote to the job. */
void wr_queue_return_job(struct wr_queue_job *job)
{
	struct wr_queue_port *port = job->port;
	bool wake;

	wr_assert_magic(port, WR_QUEUE_PORT_MAGIC);
	pthread_mutex_lock(&port->lock);
	wr_list_add_last(&port->finished, &job->link);
	wake = !port->woken;
	port->woken = true;
	/* `wake` is called with the lock held. Otherwise the port's owner could free the port
	 * before `wake` is called. */
	if (wake)
		port->wake(port->context);
	pthread_mutex_unlock(&port->lock);
}

size_t wr_queue_port_run(struct wr_queue_port *port)
{
	struct wr_list finished, *link;
	size_t count = 0;

	wr_assert_magic(port, WR_QUEUE_PORT_MAGIC);
	wr_list_init(&finished);
	pthread_mutex_lock(&port->lock);
	wr_list_move_all(&finished, &port->finished);
	port->woken = false;
	pthread_mutex_unlock(&port->lock);
	for (; (link = wr_list_pop(&finished)); count++) {
		struct wr_queue_job *job = wr_container_of(link, struct wr_queue_job, link);

		/* `done` is allowed to submit the job again or to free it, so the job is not used
		 * after this call. */
		job->done(job);
	}
	return count;
}

void wr_queue_submit(struct wr_queue_port *port, struct wr_queue_job *job)
{
	struct wr_queue *queue = port->queue;
	enum wr_queue_reason refused = WR_QUEUE_OK;

	wr_assert(job->done);
	wr_assert_magic(port, WR_QUEUE_PORT_MAGIC);
	job->port = port;
	job->link = (struct wr_list){0};
	clear_results(job);
	pthread_mutex_lock(&queue->lock);
	if (queue->ending)
		refused = WR_QUEUE_ENDING;
	else if (job->verb == WR_QUEUE_PUT && queue->jobs >= queue->opts.max_jobs)
		refused = WR_QUEUE_BUSY;
	if (refused == WR_QUEUE_OK) {
		bool urgent = wr_queue_job_is_urgent(job);
		bool wakes = queue->lingers ? urgent : wr_list_is_empty(&queue->pending);

		wr_list_add_last(&queue->pending, &job->link);
		queue->jobs++;
		queue->urgent += urgent;
		if (wakes)
			pthread_cond_signal(&queue->submitted);
	}
	pthread_mutex_unlock(&queue->lock);
	/* A job that was not refused belongs to the queue's thread from here on and must not be
	 * touched. */
	if (refused == WR_QUEUE_OK)
		return;
	job->reason = refused;
	wr_queue_return_job(job);
}

/* ---- opening and closing ---- */

static void read_clocks(void *context, uint64_t *wall_us, uint64_t *mono_us)
{
	(void)context;
	*wall_us = wr_clock_wall_ns() / 1000;
	*mono_us = wr_clock_boot_ns() / 1000;
}

static void set_default(uint64_t *value, uint64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void set_defaults(struct wr_queue_opts *opts)
{
	set_default(&opts->max_requests, 100000);
	set_default(&opts->max_bytes, 1ull << 30);
	set_default(&opts->max_line_bytes, opts->max_bytes / 16 > LINE_BYTES_LEAST
						   ? opts->max_bytes / 16
						   : LINE_BYTES_LEAST);
	set_default(&opts->max_dead, opts->max_requests / 10 + (opts->max_requests < 10));
	set_default(&opts->max_dead_bytes, opts->max_bytes / 4);
	set_default(&opts->max_tickets, 1000000);
	set_default(&opts->keep_us, WR_QUEUE_DAY_US);
	set_default(&opts->keep_dead_us, 30 * WR_QUEUE_DAY_US);
	set_default(&opts->lease_us, 120000000);
	set_default(&opts->timeout_us, 5000000);
	set_default(&opts->free_bytes_min, 16u << 20);
	set_default(&opts->poll_us, 250000);
	if (opts->max_jobs == 0)
		opts->max_jobs = 4096;
	if (!opts->prefix)
		opts->prefix = "weir";
	if (!opts->now)
		opts->now = read_clocks;
}

static void init_locks(struct wr_queue *queue)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->submitted, &monotonic);
	pthread_cond_init(&queue->opened, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&queue->lock, NULL);
}

/* Starts the thread and waits until the thread has tried once to open the backend. */
static int start_thread(struct wr_queue *queue, struct weir_error *error)
{
	int rc = wr_thread_start(&queue->thread, "weir-queue", wr_queue_thread, queue);

	if (rc != 0) {
		errno = rc;
		return wr_error_errno(error, WEIR_ESYS, "cannot start the queue's thread");
	}
	pthread_mutex_lock(&queue->lock);
	while (!queue->tried)
		pthread_cond_wait(&queue->opened, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
	return 0;
}

void wr_queue_free(struct wr_queue *queue)
{
	if (!queue)
		return;
	wr_assert_magic(queue, WR_QUEUE_MAGIC);
	if (queue->backend)
		queue->backend->ops->free(queue->backend);
	wr_seals_wipe(&queue->seals);
	pthread_cond_destroy(&queue->submitted);
	pthread_cond_destroy(&queue->opened);
	pthread_mutex_destroy(&queue->lock);
	queue->magic = 0;
	free(queue);
}

int wr_queue_open(const struct wr_queue_opts *opts, struct wr_queue **opened,
		  struct weir_error *error)
{
	struct wr_queue *queue;
	int rc;

	wr_assert(opts->url && opened);
	rc = wr_queue_url_check(opts->url, error);
	if (rc < 0)
		return rc;
	queue = calloc(1, sizeof *queue);
	if (!queue)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	queue->magic = WR_QUEUE_MAGIC;
	queue->opts = *opts;
	wr_list_init(&queue->pending);
	set_defaults(&queue->opts);
	init_locks(queue);
	queue->opts.seals = NULL;
	if (opts->seals)
		queue->seals = *opts->seals;
	else if (opts->key_file)
		rc = wr_seals_read(opts->key_file, &queue->seals, error);
	if (rc == 0)
		rc = wr_queue_backend_new(&queue->opts, opts->key_file ? &queue->seals : NULL,
					  &queue->backend, error);
	if (rc == 0)
		rc = start_thread(queue, error);
	if (rc < 0)
		wr_queue_free(queue);
	else
		*opened = queue;
	return rc;
}

enum wr_queue_reason wr_queue_state(struct wr_queue *queue, struct weir_error *error)
{
	enum wr_queue_reason reason;

	wr_assert_magic(queue, WR_QUEUE_MAGIC);
	pthread_mutex_lock(&queue->lock);
	reason = queue->reason;
	if (error)
		*error = queue->why;
	pthread_mutex_unlock(&queue->lock);
	return reason;
}

const struct wr_queue_opts *wr_queue_opts(const struct wr_queue *queue)
{
	wr_assert_magic(queue, WR_QUEUE_MAGIC);
	return &queue->opts;
}

void wr_queue_close(struct wr_queue *queue)
{
	wr_assert_magic(queue, WR_QUEUE_MAGIC);
	pthread_mutex_lock(&queue->lock);
	wr_assert(!queue->ending);
	queue->ending = true;
	pthread_cond_signal(&queue->submitted);
	pthread_mutex_unlock(&queue->lock);
	pthread_join(queue->thread, NULL);
}
