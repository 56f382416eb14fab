/* Hands batches of records from the thread that reads a log to the thread that uses the records, and
 * back. */
#ifndef WR_LAB_LOG_QUEUE_H
#define WR_LAB_LOG_QUEUE_H

#include <pthread.h>

#include "lab/log/read.h"

#define WR_LAB_BATCHES 8u

/* Batches in the order in which they were added. */
struct wr_lab_batches {
	struct wr_lab_batch *head, *tail;
	uint32_t count;
};

/* `mutex` protects all members except `memory`. */
struct wr_lab_queue {
	pthread_mutex_t mutex;
	pthread_cond_t filled, emptied;
	struct wr_lab_batches full;  /* for the user of the records */
	struct wr_lab_batches empty; /* for the reader, which takes their records back */
	bool closing;
	struct wr_lab_batch memory[WR_LAB_BATCHES];
};

void wr_lab_queue_init(struct wr_lab_queue *queue);
void wr_lab_queue_free(struct wr_lab_queue *queue);

/* The reader hands a batch over. */
void wr_lab_queue_put(struct wr_lab_queue *queue, struct wr_lab_batch *batch);

/* The reader waits for a batch that was used. Returns NULL if the log is being closed. */
struct wr_lab_batch *wr_lab_queue_reclaim(struct wr_lab_queue *queue);

/* The user gives back the batch `used`, which may be NULL, and waits for the next one. */
struct wr_lab_batch *wr_lab_queue_get(struct wr_lab_queue *queue, struct wr_lab_batch *used);

/* Makes wr_lab_queue_reclaim() return NULL. */
void wr_lab_queue_close(struct wr_lab_queue *queue);

#endif
