/* A bounded queue of batches between two threads. */
#include "lab/log/queue.h"

#include "base/assert.h"

static void add(struct wr_lab_batches *list, struct wr_lab_batch *batch)
{
	batch->next = NULL;
	if (list->head)
		list->tail->next = batch;
	else
		list->head = batch;
	list->tail = batch;
	list->count++;
}

static struct wr_lab_batch *take(struct wr_lab_batches *list)
{
	struct wr_lab_batch *batch = list->head;

	wr_assert(batch);
	list->head = batch->next;
	list->count--;
	return batch;
}

void wr_lab_queue_init(struct wr_lab_queue *queue)
{
	pthread_mutex_init(&queue->mutex, NULL);
	pthread_cond_init(&queue->filled, NULL);
	pthread_cond_init(&queue->emptied, NULL);
	for (size_t i = 0; i < WR_LAB_BATCHES; i++)
		add(&queue->empty, &queue->memory[i]);
}

void wr_lab_queue_free(struct wr_lab_queue *queue)
{
	pthread_cond_destroy(&queue->filled);
	pthread_cond_destroy(&queue->emptied);
	pthread_mutex_destroy(&queue->mutex);
}

void wr_lab_queue_put(struct wr_lab_queue *queue, struct wr_lab_batch *batch)
{
	pthread_mutex_lock(&queue->mutex);
	add(&queue->full, batch);
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->mutex);
}

/* A reader that had to wait goes on when half of the batches are empty, so that the threads do not
 * wake each other for every batch. It also goes on when the user has no batch left. */
static bool may_go_on(const struct wr_lab_queue *queue)
{
	return queue->empty.count >= WR_LAB_BATCHES / 2 ||
	       (queue->empty.count > 0 && queue->full.count == 0);
}

struct wr_lab_batch *wr_lab_queue_reclaim(struct wr_lab_queue *queue)
{
	struct wr_lab_batch *batch = NULL;

	pthread_mutex_lock(&queue->mutex);
	if (queue->empty.count == 0)
		while (!queue->closing && !may_go_on(queue))
			pthread_cond_wait(&queue->emptied, &queue->mutex);
	if (!queue->closing)
		batch = take(&queue->empty);
	pthread_mutex_unlock(&queue->mutex);
	return batch;
}

struct wr_lab_batch *wr_lab_queue_get(struct wr_lab_queue *queue, struct wr_lab_batch *used)
{
	struct wr_lab_batch *batch;

	pthread_mutex_lock(&queue->mutex);
	if (used)
		add(&queue->empty, used);
	if (may_go_on(queue))
		pthread_cond_signal(&queue->emptied);
	while (queue->full.count == 0)
		pthread_cond_wait(&queue->filled, &queue->mutex);
	batch = take(&queue->full);
	pthread_mutex_unlock(&queue->mutex);
	return batch;
}

void wr_lab_queue_close(struct wr_lab_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue->closing = true;
	pthread_cond_signal(&queue->emptied);
	pthread_mutex_unlock(&queue->mutex);
}
