/* The job take: returns the heads of due lines for delivery. The line that is due first comes
 * first. Called by sqlite_backend.c. */
#include <stdio.h>

#include "base/assert.h"
#include "base/str.h"
#include "queue/sqlite_backend.h"

#define TAKE_MAX 256u
/* a take returns no further request once the bodies of its requests have this size in total */
#define BYTES_MAX (32u << 20)
/* one take makes at most this many expired requests dead letters; the next take continues */
#define EXPIRED_MAX 1000u

static int expire_request(struct wr_sqlite *sqlite, const struct wr_queue_request *row)
{
	struct wr_sqlite_outcome end = {
		.id = row->id, .state = WR_QUEUE_REQUEST_DEAD, .status = row->status};
	char reason[WR_QUEUE_REQUEST_REASON_MAX + 1];
	struct wr_sqlite_row_limits at = {0};
	int rc = wr_sqlite_read_limits(sqlite, row->id, &at);
	int len =
		snprintf(reason, sizeof reason, "too old%s%.*s", row->reason.len ? "; last: " : "",
			 (int)row->reason.len, row->reason.len ? row->reason.ptr : "");

	end.bytes = at.bytes;
	end.reason = wr_str_first((struct weir_str){reason, (size_t)len}, sizeof reason - 1);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_finish(sqlite, &end);
	return rc == SQLITE_OK ? wr_sqlite_line_leave(sqlite, row->key, row->id) : rc;
}

static int add_to_result(struct wr_sqlite *sqlite, struct wr_queue_job *job,
			 struct wr_queue_line *line, struct wr_queue_request *row,
			 struct wr_queue_request ***tail)
{
	row->fence = ++sqlite->fence;
	row->state = WR_QUEUE_REQUEST_DELIVERING;
	row->position = 1;
	**tail = row;
	*tail = &row->next;
	job->take.count++;
	sqlite->counts.delivering++;
	return wr_queue_lines_take(&sqlite->lines, line, row->fence, row->bytes) ? SQLITE_OK
										 : SQLITE_NOMEM;
}

/* Adds the head of a line to the requests to deliver. If the head is too old, makes it a dead
 * letter instead. */
static int take_head(struct wr_sqlite *sqlite, struct wr_queue_job *job, struct wr_queue_line *line,
		     struct wr_queue_request ***tail)
{
	struct wr_queue_request *row;
	int rc = wr_sqlite_read(sqlite, line->head, WR_SQLITE_OPEN, &row);

	if (rc != SQLITE_OK)
		return rc;
	if (!row)
		return SQLITE_CORRUPT;
	if (row->expires_us > sqlite->wall_us)
		return add_to_result(sqlite, job, line, row, tail);
	rc = expire_request(sqlite, row);
	wr_queue_request_free(row);
	job->take.expired++;
	return rc;
}

int wr_sqlite_take(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	struct wr_queue_request **tail = &job->take.first;
	uint32_t max = job->take.max < TAKE_MAX ? job->take.max : TAKE_MAX;
	struct wr_queue_line *line;
	size_t bytes = 0;
	int rc = SQLITE_OK;

	wr_assert(job->verb == WR_QUEUE_TAKE && !job->take.first);
	while ((line = wr_queue_lines_first(&sqlite->lines)) && line->due_us <= sqlite->now_us &&
	       rc == SQLITE_OK && job->take.count < max && job->take.expired < EXPIRED_MAX &&
	       bytes < BYTES_MAX) {
		struct wr_queue_request **before = tail;

		rc = take_head(sqlite, job, line, &tail);
		bytes += before != tail ? (*before)->body.len : 0;
	}
	job->take.next_us = !line                           ? UINT64_MAX
			    : line->due_us > sqlite->now_us ? line->due_us - sqlite->now_us
							    : 0;
	return rc;
}
