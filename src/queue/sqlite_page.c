/* Does the jobs ticket, list, show, retry, drop, stats and recount. Called by sqlite_backend.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "queue/sqlite_backend.h"
#include "queue/record.h"

/* A row that matches the filter of a list, show, retry or drop job. */
struct found {
	uint64_t id;
	enum wr_queue_request_state state;
	uint8_t key[WR_LINE_KEY_BYTES];
};

/* Sets the position of a waiting request, and the state `delivering` if the request is in delivery.
 * The file stores neither the position nor the state `delivering`. */
static int add_position(const struct wr_sqlite *sqlite, struct wr_queue_request *row)
{
	const struct wr_queue_line *line = wr_queue_lines_find(&sqlite->lines, row->key);

	if (row->state != WR_QUEUE_REQUEST_WAITING)
		return SQLITE_OK;
	row->position = line ? wr_queue_line_position_of(line, row->id) : 0;
	if (row->position == 0)
		return SQLITE_CORRUPT;
	if (line->fence && line->head == row->id)
		row->state = WR_QUEUE_REQUEST_DELIVERING;
	return SQLITE_OK;
}

int wr_sqlite_ticket(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_BY_TICKET);
	uint8_t hash[WR_TICKET_HASH_BYTES];
	uint64_t id = 0;
	int rc;

	wr_assert(job->verb == WR_QUEUE_TICKET && !job->ticket.found);
	wr_ticket_hash(job->ticket.ticket, hash);
	sqlite3_bind_blob(sql, 1, hash, WR_SQLITE_HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_blob(sql, 2, hash, sizeof hash, SQLITE_STATIC);
	rc = sqlite3_step(sql);
	if (rc == SQLITE_ROW)
		id = (uint64_t)sqlite3_column_int64(sql, 0);
	sqlite3_reset(sql);
	if (rc != SQLITE_ROW) {
		job->reason = WR_QUEUE_UNKNOWN;
		return rc == SQLITE_DONE ? SQLITE_OK : rc;
	}
	rc = wr_sqlite_read(sqlite, id, WR_SQLITE_ROW, &job->ticket.found);
	if (rc == SQLITE_OK && !job->ticket.found)
		rc = SQLITE_CORRUPT;
	return rc == SQLITE_OK ? add_position(sqlite, job->ticket.found) : rc;
}

/* ---- pages ---- */

static bool matches_filter(const struct wr_queue_filter *filter, sqlite3_stmt *sql)
{
	const void *key = sqlite3_column_blob(sql, 1);
	const char *rule = (const char *)sqlite3_column_blob(sql, 2);
	struct weir_str name = {rule ? rule : "", (size_t)sqlite3_column_bytes(sql, 2)};
	int state = sqlite3_column_int(sql, 3);

	if (!key || sqlite3_column_bytes(sql, 1) != WR_LINE_KEY_BYTES || state < 0 ||
	    state >= WR_QUEUE_REQUEST_STATE_COUNT)
		return false;
	if (filter->key && memcmp(filter->key, key, WR_LINE_KEY_BYTES) != 0)
		return false;
	if (filter->rule.len && !wr_str_equal(filter->rule, name))
		return false;
	/* In the file, requests in delivery have the state waiting. show_row() finds out later
	 * which requests are in delivery. */
	return !filter->states || filter->states & 1u << state ||
	       (state == WR_QUEUE_REQUEST_WAITING &&
		filter->states & 1u << WR_QUEUE_REQUEST_DELIVERING);
}

/* Reads the next `max` rows. Stores the rows that match the filter in `found`. */
static int find_page(struct wr_sqlite *sqlite, struct wr_queue_job *job, struct found *found,
		     size_t *count)
{
	const struct wr_queue_filter *filter = &job->page.filter;
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_PAGE);
	uint64_t after = filter->id ? filter->id - 1 : job->page.after;
	uint32_t looked = 0;
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)after);
	sqlite3_bind_int64(sql, 2, filter->id ? 1 : job->page.max);
	*count = 0;
	while ((rc = sqlite3_step(sql)) == SQLITE_ROW) {
		struct found *at = &found[*count];

		at->id = (uint64_t)sqlite3_column_int64(sql, 0);
		looked++;
		if (!filter->id)
			job->page.last = at->id;
		if ((filter->id && at->id != filter->id) || !matches_filter(filter, sql))
			continue;
		at->state = (enum wr_queue_request_state)sqlite3_column_int(sql, 3);
		memcpy(at->key, sqlite3_column_blob(sql, 1), sizeof at->key);
		(*count)++;
	}
	sqlite3_reset(sql);
	if (looked < job->page.max)
		job->page.last = 0;
	job->page.end = sqlite->counts.last_id;
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int show_row(struct wr_sqlite *sqlite, struct wr_queue_job *job, const struct found *found,
		    struct wr_queue_request ***tail)
{
	uint8_t states = job->page.filter.states;
	bool list = job->verb == WR_QUEUE_LIST;
	struct wr_queue_request *row;
	int rc = wr_sqlite_read(sqlite, found->id, list ? WR_SQLITE_HEAD : WR_SQLITE_ALL, &row);

	if (rc != SQLITE_OK || !row)
		return rc;
	rc = add_position(sqlite, row);
	if (rc != SQLITE_OK || (states && !(states & 1u << row->state))) {
		wr_queue_request_free(row);
		return rc;
	}
	if (list) {
		row->fields = NULL;
		row->field_count = 0;
	}
	**tail = row;
	*tail = &row->next;
	job->page.count++;
	return SQLITE_OK;
}

static int drop_row(struct wr_sqlite *sqlite, const struct found *found)
{
	struct wr_sqlite_outcome end = {.id = found->id,
					.state = WR_QUEUE_REQUEST_DROPPED,
					.reason = WR_STR("dropped by an operator")};
	struct wr_sqlite_row_limits at = {0};
	int rc = wr_sqlite_read_limits(sqlite, found->id, &at);

	end.bytes = at.bytes;
	if (rc == SQLITE_OK)
		rc = wr_sqlite_finish(sqlite, &end);
	if (rc == SQLITE_OK && found->state == WR_QUEUE_REQUEST_WAITING)
		return wr_sqlite_line_leave(sqlite, found->key, found->id);
	sqlite->counts.dead--;
	sqlite->counts.dead_bytes -= at.bytes;
	return rc;
}

/* Makes a dead request wait again, at its old position in the line. */
static int revive_request(struct wr_sqlite *sqlite, const struct found *found,
			  const struct wr_sqlite_line *line, uint64_t bytes)
{
	const uint64_t due[] = {found->id, sqlite->now_us};
	int rc = wr_sqlite_run(sqlite, WR_SQL_REVIVE, due, 2);

	if (rc != SQLITE_OK)
		return rc;
	sqlite->counts.dead--;
	sqlite->counts.dead_bytes -= bytes;
	return wr_sqlite_line_join(sqlite, found->key,
				   (struct wr_queue_position){found->id, sqlite->now_us, bytes},
				   line);
}

/* Retries a dead request. The request stays dead if the queue has no room for it. */
static int retry_dead(struct wr_sqlite *sqlite, struct wr_queue_job *job, const struct found *found,
		      const struct wr_sqlite_line *line)
{
	struct wr_sqlite_row_limits at = {0};
	enum wr_queue_reason reason;
	int rc = wr_sqlite_read_limits(sqlite, found->id, &at);

	if (rc != SQLITE_OK)
		return rc;
	reason = wr_sqlite_check_bounds(sqlite, line, at.bytes, UINT64_MAX);
	if (reason == WR_QUEUE_OK) {
		job->page.count++;
		return revive_request(sqlite, found, line, at.bytes);
	}
	job->page.left++;
	if (job->page.filter.id)
		job->reason = reason;
	return SQLITE_OK;
}

static int retry_waiting(struct wr_sqlite *sqlite, const struct found *found)
{
	const uint64_t due[] = {found->id, sqlite->now_us};
	int rc = wr_sqlite_run(sqlite, WR_SQL_NOW_DUE, due, 2);

	sqlite->counts.touched = true;
	return rc == SQLITE_OK
		       ? wr_sqlite_line_set_due(sqlite, found->key, found->id, sqlite->now_us)
		       : rc;
}

static int change_row(struct wr_sqlite *sqlite, struct wr_queue_job *job, const struct found *found)
{
	struct wr_sqlite_line line = wr_sqlite_line_state(sqlite, found->key);
	bool taken = line.fence && line.head == found->id;

	if ((found->state != WR_QUEUE_REQUEST_WAITING && found->state != WR_QUEUE_REQUEST_DEAD) ||
	    taken)
		return SQLITE_OK;
	if (job->verb == WR_QUEUE_RETRY && found->state == WR_QUEUE_REQUEST_DEAD)
		return retry_dead(sqlite, job, found, &line);
	job->page.count++;
	return job->verb == WR_QUEUE_DROP ? drop_row(sqlite, found) : retry_waiting(sqlite, found);
}

int wr_sqlite_page(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	struct wr_queue_request **tail = &job->page.first;
	struct found *found;
	size_t count;
	int rc;

	wr_assert(job->verb >= WR_QUEUE_LIST && job->verb <= WR_QUEUE_DROP && !job->page.first);
	if (job->page.max == 0 || job->page.max > WR_QUEUE_PAGE_MAX)
		job->page.max = WR_QUEUE_PAGE_MAX;
	found = calloc(job->page.max, sizeof *found);
	if (!found)
		return SQLITE_NOMEM;
	rc = find_page(sqlite, job, found, &count);
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		rc = job->verb == WR_QUEUE_LIST || job->verb == WR_QUEUE_SHOW
			     ? show_row(sqlite, job, &found[i], &tail)
			     : change_row(sqlite, job, &found[i]);
	free(found);
	if (rc == SQLITE_OK && job->page.filter.id && job->page.count + job->page.left == 0)
		job->reason = WR_QUEUE_UNKNOWN;
	return rc;
}

/* ---- statistics ---- */

static int find_oldest(struct wr_sqlite *sqlite, uint64_t *age_us)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_ACCEPTED);
	const struct wr_queue_line *line = NULL;
	uint64_t oldest = INT64_MAX;
	int rc;

	while ((line = wr_queue_lines_next(&sqlite->lines, line)))
		if (line->count && line->head < oldest)
			oldest = line->head;
	sqlite3_bind_int64(sql, 1, (sqlite3_int64)oldest);
	rc = sqlite3_step(sql);
	*age_us = 0;
	if (rc == SQLITE_ROW && (uint64_t)sqlite3_column_int64(sql, 0) < sqlite->now_us)
		*age_us = sqlite->now_us - (uint64_t)sqlite3_column_int64(sql, 0);
	sqlite3_reset(sql);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int wr_sqlite_stats(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	const struct wr_sqlite_counts *counts = &sqlite->counts;
	int64_t pages, page_bytes;

	wr_assert(job->verb == WR_QUEUE_STATS);
	wr_sqlite_query_number(sqlite, "PRAGMA page_count", &pages);
	wr_sqlite_query_number(sqlite, "PRAGMA page_size", &page_bytes);
	job->stats = (struct wr_queue_stats){
		.waiting = counts->waiting - counts->delivering,
		.delivering = counts->delivering,
		.dead = counts->dead,
		.bytes = counts->bytes,
		.lines = counts->lines,
		.tickets = counts->tickets,
		.disk_bytes = (uint64_t)(pages * page_bytes),
		.put_total = counts->put_total,
		.delivered_total = counts->delivered_total,
		.retried_total = counts->retried_total,
		.dead_total = counts->dead_total,
		.dropped_total = counts->dropped_total,
		.commits_total = sqlite->commits,
	};
	return find_oldest(sqlite, &job->stats.oldest_us);
}

int wr_sqlite_recount(struct wr_sqlite *sqlite)
{
	const struct wr_queue_line *line = NULL;
	int rc = SQLITE_OK;

	while (rc == SQLITE_OK && (line = wr_queue_lines_next(&sqlite->lines, line)))
		rc = wr_sqlite_record_change(sqlite, line->key, line->count);
	return rc;
}
