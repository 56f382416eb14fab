/* Fuzzes the stored record of a deferred request and the replies of Redis to the queue's jobs. The
 * first byte selects the record or the job. No byte beyond the input is read, and all results are
 * freed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "queue/record.h"
#include "queue/redis_backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct wr_seals seals = {.count = 1};

static void read_record(const uint8_t *data, size_t size)
{
	struct wr_queue_record record = {.head = {(const char *)data, size}, .open = true};

	wr_queue_request_free(wr_queue_record_read(&record, &seals));
}

static void free_results(struct wr_queue_job *job)
{
	if (job->verb == WR_QUEUE_TAKE)
		wr_queue_request_free(job->take.first);
	else if (job->verb == WR_QUEUE_TICKET)
		wr_queue_request_free(job->ticket.found);
	else if (job->verb >= WR_QUEUE_LIST && job->verb <= WR_QUEUE_DROP)
		wr_queue_request_free(job->page.first);
}

static void read_answer(enum wr_queue_verb verb, const uint8_t *data, size_t size)
{
	static const struct wr_queue_request request;
	static const struct wr_queue_opts opts;
	static struct wr_queue_redis remote = {.backend = {.opts = &opts, .seals = &seals}};
	struct wr_queue_job job = {.verb = verb};
	struct wr_queue_redis_reader reader;
	void *reply = NULL;

	if (verb == WR_QUEUE_PUT)
		job.put.request = &request;
	if (!wr_queue_redis_reader_open(&reader))
		return;
	if (redisReaderFeed(reader.state, (const char *)data, size) == REDIS_OK &&
	    redisReaderGetReply(reader.state, &reply) == REDIS_OK && reply)
		wr_queue_redis_read_answer(&remote, &job, reply);
	free_results(&job);
	if (reply)
		freeReplyObject(reply);
	wr_queue_redis_reader_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] <= WR_QUEUE_RECOUNT)
		read_answer((enum wr_queue_verb)data[0], data + 1, size - 1);
	else
		read_record(data + 1, size - 1);
	return 0;
}
