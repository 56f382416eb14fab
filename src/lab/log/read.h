/* Reads the files of a log, and gives their records out in batches. One thread reads. The batches may
 * be used by another thread. */
#ifndef WR_LAB_LOG_READ_H
#define WR_LAB_LOG_READ_H

#include "lab/log/files.h"
#include "lab/log/pool.h"

#define WR_LAB_BATCH_RECORDS 1024u

/* Records in the order of their times. */
struct wr_lab_batch {
	struct wr_lab_batch *next; /* in a list of batches */
	struct wr_lab_chain chain;
	uint32_t count;
	uint32_t refs[WR_LAB_TEXTS]; /* records of the batch in each block of text */
	bool last;                   /* the log ends with this batch */
	struct wr_lab_log_totals totals;
};

struct wr_lab_reader;

int wr_lab_reader_open(struct wr_lab_reader **reader, const struct wr_lab_log_opts *opts,
		       struct weir_error *error);

/* Fills an empty batch. A batch that is not full and not the last one means that all blocks of text
 * are in use: the reader needs batches back before it can go on. */
void wr_lab_reader_fill(struct wr_lab_reader *reader, struct wr_lab_batch *batch);

/* Takes the records of a batch back and empties it. */
void wr_lab_reader_take_back(struct wr_lab_reader *reader, struct wr_lab_batch *batch);

void wr_lab_reader_close(struct wr_lab_reader *reader);

#endif
