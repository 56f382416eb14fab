/* Gives the records of a log to the caller, one by one. A thread of its own reads the log. */
#include "lab/log/log.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "lab/log/queue.h"

struct wr_lab_log {
	struct wr_lab_reader *reader; /* used by the thread that reads, once it has started */
	pthread_t thread;

	struct wr_lab_queue queue;

	/* Used by the caller's thread. */
	void (*progress)(void *context, const struct wr_lab_log_totals *totals);
	void *context;
	struct wr_lab_batch *batch;   /* the current batch; NULL before the first one */
	const struct wr_lab_slot *at; /* the next record; NULL: the end of the batch */
	uint64_t records, first_ns, last_ns;
};

/* ---- the thread that reads ---- */

/* Fills a batch. If all blocks of text are in use and the batch is empty, the reader waits until the
 * caller gives batches back, and puts them into `spare`. Returns false if the log is being closed. */
static bool fill(struct wr_lab_log *log, struct wr_lab_batch *batch, struct wr_lab_batch **spare)
{
	struct wr_lab_batch *used;

	for (;;) {
		wr_lab_reader_fill(log->reader, batch);
		if (batch->count || batch->last)
			return true;
		used = wr_lab_queue_reclaim(&log->queue);
		if (!used)
			return false;
		wr_lab_reader_take_back(log->reader, used);
		used->next = *spare;
		*spare = used;
	}
}

static void *run(void *context)
{
	struct wr_lab_batch *spare = NULL, *batch;
	struct wr_lab_log *log = context;
	bool last = false;

	while (!last) {
		batch = spare;
		if (batch) {
			spare = batch->next;
		} else {
			batch = wr_lab_queue_reclaim(&log->queue);
			if (!batch)
				break;
			wr_lab_reader_take_back(log->reader, batch);
		}
		if (!fill(log, batch, &spare))
			break;
		last = batch->last;
		wr_lab_queue_put(&log->queue, batch);
	}
	return NULL;
}

/* ---- the caller's thread ---- */

int wr_lab_log_open(const struct wr_lab_log_opts *opts, struct wr_lab_log **log,
		    struct weir_error *error)
{
	int rc;

	*log = calloc(1, sizeof **log);
	if (!*log)
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	(*log)->progress = opts->progress;
	(*log)->context = opts->context;
	rc = wr_lab_reader_open(&(*log)->reader, opts, error);
	if (rc) {
		free(*log);
		return rc;
	}
	wr_lab_queue_init(&(*log)->queue);
	rc = wr_thread_start(&(*log)->thread, "weir-log", run, *log);
	if (rc) {
		wr_lab_queue_free(&(*log)->queue);
		wr_lab_reader_close((*log)->reader);
		free(*log);
		return wr_error(error, WEIR_ESYS, "cannot start a thread to read logs: %s",
				strerror(rc));
	}
	return 0;
}

/* Returns the first slot of a list that is not late, or NULL. */
static const struct wr_lab_slot *skip_late(const struct wr_lab_slot *slot)
{
	while (slot && slot->late)
		slot = slot->next;
	return slot;
}

/* Gets the next batch. Returns false at the end of the log. */
static bool next_batch(struct wr_lab_log *log)
{
	struct wr_lab_log_totals totals;

	do {
		if (log->batch && log->batch->last)
			return false;
		log->batch = wr_lab_queue_get(&log->queue, log->batch);
		log->at = skip_late(log->batch->chain.head);
		if (log->progress) {
			wr_lab_log_totals(log, &totals);
			log->progress(log->context, &totals);
		}
	} while (!log->at);
	return true;
}

const struct wr_lab_record *wr_lab_log_next(struct wr_lab_log *log)
{
	const struct wr_lab_slot *slot;

	if (!log->at && !next_batch(log))
		return NULL;
	slot = log->at;
	log->at = skip_late(slot->next);
	if (log->records++ == 0)
		log->first_ns = slot->record.time_ns;
	log->last_ns = slot->record.time_ns;
	return &slot->record;
}

const struct wr_lab_record *wr_lab_log_peek(const struct wr_lab_log *log)
{
	return log->at ? &log->at->record : NULL;
}

void wr_lab_log_totals(const struct wr_lab_log *log, struct wr_lab_log_totals *totals)
{
	if (log->batch)
		*totals = log->batch->totals;
	else
		memset(totals, 0, sizeof *totals);
	totals->records = log->records;
	totals->first_ns = log->first_ns;
	totals->last_ns = log->last_ns;
}

void wr_lab_log_close(struct wr_lab_log *log)
{
	if (!log)
		return;
	wr_lab_queue_close(&log->queue);
	pthread_join(log->thread, NULL);
	wr_lab_queue_free(&log->queue);
	wr_lab_reader_close(log->reader);
	free(log);
}
