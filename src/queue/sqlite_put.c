/* The job put: stores a request. Called by sqlite_backend.c. */
#include <stdlib.h>
#include <string.h>

#include "queue/sqlite_backend.h"
#include "base/assert.h"
#include "queue/record.h"

enum wr_queue_reason wr_sqlite_check_bounds(const struct wr_sqlite *sqlite,
					    const struct wr_sqlite_line *line, uint64_t bytes,
					    uint64_t max_waiting)
{
	const struct wr_queue_opts *opts = sqlite->backend.opts;
	const struct wr_sqlite_counts *counts = &sqlite->counts;

	if (counts->waiting >= opts->max_requests)
		return WR_QUEUE_FULL;
	if (bytes > opts->max_bytes || counts->bytes - counts->dead_bytes > opts->max_bytes - bytes)
		return WR_QUEUE_BYTES_FULL;
	if (line->waiting >= max_waiting)
		return WR_QUEUE_KEY_FULL;
	if (line->waiting && line->held + bytes > opts->max_line_bytes)
		return WR_QUEUE_KEY_BYTES_FULL;
	return WR_QUEUE_OK;
}

static int put_row(struct wr_sqlite *sqlite, const struct wr_queue_job *job, const uint8_t *hash,
		   uint64_t bytes)
{
	const struct wr_queue_request *r = job->put.request;
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_PUT);

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)job->put.id);
	sqlite3_bind_blob(sql, 2, hash, WR_TICKET_HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_blob(sql, 3, r->key, sizeof r->key, SQLITE_STATIC);
	sqlite3_bind_text(sql, 4, r->rule.len ? r->rule.ptr : "", (int)r->rule.len, SQLITE_STATIC);
	sqlite3_bind_int64(sql, 5, r->max_tries);
	sqlite3_bind_int64(sql, 6, (sqlite3_int64)job->put.max_age_us);
	sqlite3_bind_int64(sql, 7, (sqlite3_int64)r->interval_us);
	sqlite3_bind_int64(sql, 8, (sqlite3_int64)sqlite->now_us);
	sqlite3_bind_int64(sql, 9, (sqlite3_int64)job->put.wait_us);
	sqlite3_bind_int64(sql, 10, (sqlite3_int64)bytes);
	sqlite3_bind_int64(sql, 11, (sqlite3_int64)r->body.len);
	return wr_sqlite_execute(sql);
}

static int put_content(struct wr_sqlite *sqlite, const struct wr_queue_job *job,
		       const uint8_t *hash, size_t head_len)
{
	const struct wr_queue_request *r = job->put.request;
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_PUT_CONTENT);
	uint8_t *head = malloc(head_len);
	int rc = SQLITE_NOMEM;

	if (head && wr_queue_record_write(r, hash, sqlite->backend.seals, head)) {
		sqlite3_bind_int64(sql, 1, (sqlite3_int64)job->put.id);
		sqlite3_bind_blob(sql, 2, head, (int)head_len, SQLITE_STATIC);
		sqlite3_bind_blob(sql, 3, r->body.len ? r->body.ptr : "", (int)r->body.len,
				  SQLITE_STATIC);
		rc = wr_sqlite_execute(sql);
	}
	free(head);
	return rc;
}

static int store_request(struct wr_sqlite *sqlite, struct wr_queue_job *job,
			 const struct wr_sqlite_line *line, size_t head_len, uint64_t bytes)
{
	const uint8_t *key = job->put.request->key;
	uint64_t wait_us =
		job->put.wait_us < job->put.max_age_us ? job->put.wait_us : job->put.max_age_us;
	uint8_t hash[WR_TICKET_HASH_BYTES];
	int rc;

	if (!wr_ticket_make(job->put.ticket, hash)) {
		job->reason = WR_QUEUE_FAILED;
		return SQLITE_OK;
	}
	job->put.id = ++sqlite->counts.last_id;
	job->put.position = line->waiting + 1;
	sqlite->counts.put_total++;
	sqlite->counts.bytes += bytes;
	rc = put_row(sqlite, job, hash, bytes);
	if (rc == SQLITE_OK)
		rc = put_content(sqlite, job, hash, head_len);
	if (rc == SQLITE_OK) {
		sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_TICKET);

		sqlite3_bind_blob(sql, 1, hash, WR_SQLITE_HASH_BYTES, SQLITE_STATIC);
		sqlite3_bind_int64(sql, 2, (sqlite3_int64)job->put.id);
		rc = wr_sqlite_execute(sql);
	}
	if (rc == SQLITE_OK)
		rc = wr_sqlite_line_join(
			sqlite, key,
			(struct wr_queue_position){job->put.id, sqlite->now_us + wait_us, bytes},
			line);
	return rc;
}

int wr_sqlite_put(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	const struct wr_queue_request *request = job->put.request;
	struct wr_sqlite_line line = wr_sqlite_line_state(sqlite, request->key);
	size_t head_len;
	uint64_t bytes;

	wr_assert(job->verb == WR_QUEUE_PUT && request);
	job->reason = wr_queue_record_check(request, sqlite->backend.seals);
	if (job->reason != WR_QUEUE_OK)
		return SQLITE_OK;
	head_len = wr_queue_record_size(request);
	bytes = head_len + request->body.len + request->rule.len + WR_QUEUE_RECORD_OVERHEAD;
	job->reason = wr_sqlite_check_bounds(sqlite, &line, bytes, job->put.max_waiting);
	if (job->reason == WR_QUEUE_OK && !wr_sqlite_space_reserve(sqlite, bytes))
		job->reason = WR_QUEUE_NO_SPACE;
	if (job->reason != WR_QUEUE_OK)
		return SQLITE_OK;
	return store_request(sqlite, job, &line, head_len, bytes);
}
