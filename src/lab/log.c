/* Gives the records of a log to the caller, one by one. */
#include "lab/log.h"

#include <stdlib.h>

#include "base/error.h"
#include "lab/log_read.h"

struct wr_lab_log {
	struct wr_lab_log_opts opts;
	struct wr_lab_reader *reader;
	struct wr_lab_batch batch;
	const struct wr_lab_slot *at; /* the next record; NULL: the end of the batch */
	uint64_t records, first_ns, last_ns;
};

int wr_lab_log_open(const struct wr_lab_log_opts *opts, struct wr_lab_log **log,
		    struct weir_error *error)
{
	int rc;

	*log = calloc(1, sizeof **log);
	if (!*log)
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	(*log)->opts = *opts;
	rc = wr_lab_reader_open(&(*log)->reader, &(*log)->opts, error);
	if (rc)
		free(*log);
	return rc;
}

/* Gets the next batch. Returns false at the end of the log. */
static bool next_batch(struct wr_lab_log *log)
{
	struct wr_lab_log_totals totals;

	if (log->batch.last)
		return false;
	wr_lab_reader_take_back(log->reader, &log->batch);
	wr_lab_reader_fill(log->reader, &log->batch);
	log->at = log->batch.chain.head;
	if (log->opts.progress) {
		wr_lab_log_totals(log, &totals);
		log->opts.progress(log->opts.context, &totals);
	}
	return log->at != NULL;
}

const struct wr_lab_record *wr_lab_log_next(struct wr_lab_log *log)
{
	const struct wr_lab_record *record;

	if (!log->at && !next_batch(log))
		return NULL;
	record = &log->at->record;
	log->at = log->at->next;
	if (log->records++ == 0)
		log->first_ns = record->time_ns;
	log->last_ns = record->time_ns;
	return record;
}

void wr_lab_log_totals(const struct wr_lab_log *log, struct wr_lab_log_totals *totals)
{
	*totals = log->batch.totals;
	totals->records = log->records;
	totals->first_ns = log->first_ns;
	totals->last_ns = log->last_ns;
}

void wr_lab_log_close(struct wr_lab_log *log)
{
	if (!log)
		return;
	wr_lab_reader_take_back(log->reader, &log->batch);
	wr_lab_reader_close(log->reader);
	free(log);
}
