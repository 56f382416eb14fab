/* The job settle: records the result of a delivery attempt. Called by sqlite_backend.c. */
#include "base/assert.h"
#include "base/str.h"
#include "queue/sqlite_backend.h"

/* Longer waits are shortened to this time, so that no sum of times overflows. */
#define WAIT_MAX_US (366 * WR_QUEUE_DAY_US)

/* Makes the request wait until it is due or expires, whichever is earlier. */
static int return_to_line(struct wr_sqlite *sqlite, struct wr_queue_job *job, uint64_t due_us,
			  const struct wr_sqlite_row_limits *at)
{
	uint64_t until_us = due_us < at->expires_us ? due_us : at->expires_us;

	job->settle.state = WR_QUEUE_REQUEST_WAITING;
	return wr_sqlite_line_set_due(sqlite, job->settle.key, job->settle.id, until_us);
}

static int schedule_retry(struct wr_sqlite *sqlite, struct wr_queue_job *job,
			  const struct wr_sqlite_row_limits *at, uint64_t due_us)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_RETRY_LATER);
	struct weir_str reason = wr_str_first(job->settle.reason, WR_QUEUE_REQUEST_REASON_MAX);
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)job->settle.id);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)due_us);
	sqlite3_bind_int(sql, 3, job->settle.status);
	sqlite3_bind_blob(sql, 4, reason.ptr, (int)reason.len, SQLITE_STATIC);
	sqlite3_bind_int(sql, 5, job->settle.outcome == WR_QUEUE_AGAIN);
	rc = wr_sqlite_execute(sql);
	sqlite->counts.retried_total++;
	sqlite->counts.touched = true;
	return rc == SQLITE_OK ? return_to_line(sqlite, job, due_us, at) : rc;
}

static int finish_request(struct wr_sqlite *sqlite, struct wr_queue_job *job, uint64_t bytes)
{
	bool delivered = job->settle.outcome == WR_QUEUE_DELIVERED;
	struct wr_sqlite_outcome end = {
		.id = job->settle.id,
		.state = delivered ? WR_QUEUE_REQUEST_DELIVERED : WR_QUEUE_REQUEST_DEAD,
		.tried = !delivered,
		.status = job->settle.status,
		.reason = job->settle.reason,
		.bytes = bytes,
	};
	int rc = delivered ? wr_sqlite_finish_delivered(sqlite, &end)
			   : wr_sqlite_finish(sqlite, &end);

	job->settle.state = end.state;
	job->settle.waiting--;
	return rc == SQLITE_OK ? wr_sqlite_line_leave(sqlite, job->settle.key, end.id) : rc;
}

/* Returns true if the settle belongs to the latest take of the request. Usually the line stores the
 * fence of this take. But fences are only in memory, so they are lost if the file is reopened after
 * an error. Therefore a settle of a take from before the reopening is accepted too, if no later
 * take has returned the request. If this settle were refused, a request that was delivered would be
 * delivered again. */
static bool is_holder(const struct wr_sqlite *sqlite, const struct wr_sqlite_line *line,
		      const struct wr_queue_job *job)
{
	uint64_t fence = job->settle.fence;

	if (line->head != job->settle.id || fence == 0)
		return false;
	return line->fence == fence || (line->fence == 0 && fence <= sqlite->old_fence);
}

int wr_sqlite_settle(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	uint64_t wait_us = job->settle.wait_us < WAIT_MAX_US ? job->settle.wait_us : WAIT_MAX_US;
	struct wr_sqlite_line line = wr_sqlite_line_state(sqlite, job->settle.key);
	struct wr_sqlite_row_limits at = {0};
	int rc;

	wr_assert(job->verb == WR_QUEUE_SETTLE);
	if (!is_holder(sqlite, &line, job)) {
		job->reason = WR_QUEUE_LOST;
		return SQLITE_OK;
	}
	sqlite->counts.delivering -= line.fence != 0;
	job->settle.waiting = line.waiting;
	if (job->settle.outcome == WR_QUEUE_DELIVERED && line.fence)
		return finish_request(sqlite, job, line.bytes);
	rc = wr_sqlite_read_limits(sqlite, job->settle.id, &at);
	if (rc != SQLITE_OK)
		return rc;
	if (job->settle.outcome == WR_QUEUE_RELEASE)
		return return_to_line(sqlite, job, sqlite->now_us + wait_us, &at);
	if (job->settle.outcome == WR_QUEUE_ABSENT ||
	    (job->settle.outcome == WR_QUEUE_AGAIN && at.tries + 1 < at.max_tries))
		return schedule_retry(sqlite, job, &at, sqlite->now_us + wait_us);
	return finish_request(sqlite, job, at.bytes);
}
