/* What became of a request that was taken. */
#include "base/str.h"
#include "queue/lite.h"

#define WAIT_MAX_US (366 * WR_DAY_US) /* no sum of times overflows */

/* Free to be taken again, when it is due or too old. */
static int back_in_line(struct wr_lite *lite, struct wr_queue_job *job, uint64_t due_us,
			const struct wr_lite_standing *at)
{
	uint64_t until_us = due_us < at->expires_us ? due_us : at->expires_us;

	job->settle.state = WR_DEFERRED_WAITING;
	return wr_lite_set_due(lite, job->settle.key, job->settle.id, until_us);
}

static int try_again(struct wr_lite *lite, struct wr_queue_job *job,
		     const struct wr_lite_standing *at, uint64_t due_us)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_AGAIN);
	struct weir_str reason = wr_str_first(job->settle.reason, WR_DEFERRED_REASON_MAX);
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)job->settle.id);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)due_us);
	sqlite3_bind_int(sql, 3, job->settle.status);
	sqlite3_bind_blob(sql, 4, reason.ptr, (int)reason.len, SQLITE_STATIC);
	sqlite3_bind_int(sql, 5, job->settle.outcome == WR_QUEUE_AGAIN);
	rc = wr_lite_do(sql);
	lite->counts.retried_total++;
	lite->counts.touched = true;
	return rc == SQLITE_OK ? back_in_line(lite, job, due_us, at) : rc;
}

static int finish(struct wr_lite *lite, struct wr_queue_job *job, uint64_t bytes)
{
	bool delivered = job->settle.outcome == WR_QUEUE_DELIVERED;
	struct wr_lite_end end = {
		.id = job->settle.id,
		.state = delivered ? WR_DEFERRED_DELIVERED : WR_DEFERRED_DEAD,
		.tried = !delivered,
		.status = job->settle.status,
		.reason = job->settle.reason,
		.bytes = bytes,
	};
	int rc = delivered ? wr_lite_delivered(lite, &end) : wr_lite_finish(lite, &end);

	job->settle.state = end.state;
	job->settle.waiting--;
	return rc == SQLITE_OK ? wr_lite_leave(lite, job->settle.key, end.id) : rc;
}

/* Whether this is said by who has it. What was taken before the file had to be opened again, as
 * after a failure, is still his if nobody has taken it since: the API need not be asked twice. */
static bool is_holder(const struct wr_lite *lite, const struct wr_lite_line *line,
		      const struct wr_queue_job *job)
{
	uint64_t fence = job->settle.fence;

	if (line->head != job->settle.id || fence == 0)
		return false;
	return line->fence == fence || (line->fence == 0 && fence <= lite->old_fence);
}

int wr_lite_settle(struct wr_lite *lite, struct wr_queue_job *job)
{
	uint64_t wait_us = job->settle.wait_us < WAIT_MAX_US ? job->settle.wait_us : WAIT_MAX_US;
	struct wr_lite_line line = wr_lite_line(lite, job->settle.key);
	struct wr_lite_standing at = {0};
	int rc;

	if (!is_holder(lite, &line, job)) {
		job->reason = WR_QUEUE_LOST;
		return SQLITE_OK;
	}
	lite->counts.delivering -= line.fence != 0;
	job->settle.waiting = line.waiting;
	if (job->settle.outcome == WR_QUEUE_DELIVERED && line.fence)
		return finish(lite, job, line.bytes);
	rc = wr_lite_standing(lite, job->settle.id, &at);
	if (rc != SQLITE_OK)
		return rc;
	if (job->settle.outcome == WR_QUEUE_RELEASE)
		return back_in_line(lite, job, lite->now_us + wait_us, &at);
	if (job->settle.outcome == WR_QUEUE_ABSENT ||
	    (job->settle.outcome == WR_QUEUE_AGAIN && at.tries + 1 < at.max_tries))
		return try_again(lite, job, &at, lite->now_us + wait_us);
	return finish(lite, job, at.bytes);
}
