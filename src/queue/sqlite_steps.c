/* Steps that several jobs share: changing a line, finishing a request, reading a row. Called by the
 * other sqlite_*.c files. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "queue/sqlite_backend.h"
#include "queue/record.h"

struct wr_sqlite_line wr_sqlite_line_state(const struct wr_sqlite *sqlite, const uint8_t *key)
{
	const struct wr_queue_line *line = wr_queue_lines_find(&sqlite->lines, key);

	if (!line)
		return (struct wr_sqlite_line){0};
	return (struct wr_sqlite_line){line->head, line->count, line->fence, line->bytes,
				       line->held};
}

int wr_sqlite_line_set_due(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t id,
			   uint64_t due_us)
{
	struct wr_queue_line *line = wr_queue_lines_find(&sqlite->lines, key);

	if (!line) /* does not happen, because the caller has found the request in this line */
		return SQLITE_CORRUPT;
	return wr_queue_lines_set_due(&sqlite->lines, line, id, due_us) ? SQLITE_OK : SQLITE_NOMEM;
}

int wr_sqlite_line_join(struct wr_sqlite *sqlite, const uint8_t *key,
			struct wr_queue_position position, const struct wr_sqlite_line *line)
{
	if (!wr_queue_lines_join(&sqlite->lines, key, position))
		return SQLITE_NOMEM;
	sqlite->counts.waiting++;
	sqlite->counts.lines += line->waiting == 0;
	sqlite->counts.touched = true;
	return wr_sqlite_record_change(sqlite, key, line->waiting + 1);
}

int wr_sqlite_line_leave(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t id)
{
	struct wr_queue_line *line = wr_queue_lines_find(&sqlite->lines, key);

	if (!line)
		return SQLITE_CORRUPT;
	if (!wr_queue_lines_leave(&sqlite->lines, line, id))
		return SQLITE_NOMEM;
	sqlite->counts.waiting--;
	sqlite->counts.lines -= line->count == 0;
	sqlite->counts.touched = true;
	return wr_sqlite_record_change(sqlite, key, line->count);
}

int wr_sqlite_finish(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end)
{
	bool dead = end->state == WR_QUEUE_REQUEST_DEAD;
	const struct wr_queue_opts *opts = sqlite->backend.opts;
	uint64_t gone_us = sqlite->now_us + (dead ? opts->keep_dead_us : opts->keep_us);
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_FINISH);
	size_t reason_len = wr_str_first(end->reason, WR_QUEUE_REQUEST_REASON_MAX).len;
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)end->id);
	sqlite3_bind_int(sql, 2, end->state);
	sqlite3_bind_int(sql, 3, end->tried);
	sqlite3_bind_int64(sql, 4, (sqlite3_int64)sqlite->now_us);
	sqlite3_bind_int64(sql, 5, (sqlite3_int64)gone_us);
	sqlite3_bind_int(sql, 6, end->status);
	sqlite3_bind_blob(sql, 7, end->reason.ptr, (int)reason_len, SQLITE_STATIC);
	sqlite3_bind_int64(sql, 8, (sqlite3_int64)(dead ? end->bytes : 0));
	rc = wr_sqlite_execute(sql);
	if (rc == SQLITE_OK && !dead)
		rc = wr_sqlite_run(sqlite, WR_SQL_DELETE_CONTENT, &end->id, 1);
	sqlite->counts.dead += dead;
	sqlite->counts.dead_bytes += dead ? end->bytes : 0;
	sqlite->counts.tickets += !dead;
	sqlite->counts.bytes -= dead ? 0 : end->bytes;
	sqlite->counts.dead_total += dead;
	sqlite->counts.dropped_total += end->state == WR_QUEUE_REQUEST_DROPPED;
	sqlite->counts.touched = true;
	return rc;
}

/* ---- reading a row ---- */

int wr_sqlite_read_limits(struct wr_sqlite *sqlite, uint64_t id, struct wr_sqlite_row_limits *at)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_TRIES);
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)id);
	rc = sqlite3_step(sql);
	if (rc == SQLITE_ROW) {
		at->tries = (uint64_t)sqlite3_column_int64(sql, 0);
		at->max_tries = (uint64_t)sqlite3_column_int64(sql, 1);
		at->expires_us = (uint64_t)sqlite3_column_int64(sql, 2);
		at->bytes = (uint64_t)sqlite3_column_int64(sql, 3);
	}
	sqlite3_reset(sql);
	return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

static struct weir_str column_text(sqlite3_stmt *sql, int at)
{
	const char *bytes = sqlite3_column_blob(sql, at);
	int len = sqlite3_column_bytes(sql, at);

	return bytes && len > 0 ? (struct weir_str){bytes, (size_t)len} : WR_STR("");
}

/* Returns a column as a number. A negative number, which only a damaged file contains, becomes
 * 0. */
static uint64_t column_number(sqlite3_stmt *sql, int at)
{
	sqlite3_int64 value = sqlite3_column_int64(sql, at);

	return value > 0 ? (uint64_t)value : 0;
}

/* Converts a time of the queue to a time of the wall clock, as the wall clock is set now. */
static uint64_t to_wall(const struct wr_sqlite *sqlite, uint64_t us)
{
	return us ? us - sqlite->now_us + sqlite->wall_us : 0;
}

static bool read_row(const struct wr_sqlite *sqlite, sqlite3_stmt *sql,
		     struct wr_queue_record *record)
{
	struct wr_queue_request *row = &record->row;
	struct weir_str ticket = column_text(sql, 0), key = column_text(sql, 1);

	if (ticket.len != sizeof row->ticket_hash || key.len != sizeof row->key)
		return false;
	memcpy(row->ticket_hash, ticket.ptr, ticket.len);
	memcpy(row->key, key.ptr, key.len);
	record->rule = column_text(sql, 2);
	row->state = (enum wr_queue_request_state)column_number(sql, 3);
	row->tries = (uint32_t)column_number(sql, 4);
	row->max_tries = (uint32_t)column_number(sql, 5);
	row->interval_us = column_number(sql, 6);
	row->accepted_us = to_wall(sqlite, column_number(sql, 7));
	row->due_us = to_wall(sqlite, column_number(sql, 8));
	row->expires_us = to_wall(sqlite, column_number(sql, 9));
	row->done_us = to_wall(sqlite, column_number(sql, 10));
	row->status = (uint16_t)column_number(sql, 11);
	record->reason = column_text(sql, 12);
	row->body_len = column_number(sql, 13);
	row->bytes = column_number(sql, 14);
	return row->state < WR_QUEUE_REQUEST_STATE_COUNT;
}

int wr_sqlite_read(struct wr_sqlite *sqlite, uint64_t id, enum wr_sqlite_depth depth,
		   struct wr_queue_request **row)
{
	sqlite3_stmt *sql =
		wr_sqlite_statement(sqlite, depth == WR_SQLITE_ROW ? WR_SQL_ROW : WR_SQL_WHOLE);
	struct wr_queue_record record = {.row = {.id = id}, .open = depth == WR_SQLITE_OPEN};
	int rc;

	*row = NULL;
	sqlite3_bind_int64(sql, 1, (sqlite3_int64)id);
	rc = sqlite3_step(sql);
	if (rc == SQLITE_ROW && !read_row(sqlite, sql, &record))
		rc = SQLITE_CORRUPT;
	if (rc == SQLITE_ROW && depth >= WR_SQLITE_HEAD)
		record.head = column_text(sql, 15);
	if (rc == SQLITE_ROW && depth >= WR_SQLITE_ALL)
		record.body = column_text(sql, 16);
	if (rc == SQLITE_ROW) {
		*row = wr_queue_record_read(&record, sqlite->backend.seals);
		rc = *row ? SQLITE_OK : SQLITE_NOMEM;
	}
	sqlite3_reset(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
