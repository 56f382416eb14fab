/* Lines: who is next, and who else waits. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "queue/lite.h"
#include "queue/record.h"

struct wr_lite_line wr_lite_line(const struct wr_lite *lite, const uint8_t *key)
{
	const struct wr_line *line = wr_lines_find(&lite->lines, key);

	if (!line)
		return (struct wr_lite_line){0};
	return (struct wr_lite_line){line->head, line->count, line->fence, line->bytes, line->held};
}

int wr_lite_set_due(struct wr_lite *lite, const uint8_t *key, uint64_t id, uint64_t due_us)
{
	struct wr_line *line = wr_lines_find(&lite->lines, key);

	if (!line) /* who asks has seen it */
		return SQLITE_CORRUPT;
	return wr_lines_set_due(&lite->lines, line, id, due_us) ? SQLITE_OK : SQLITE_NOMEM;
}

int wr_lite_join(struct wr_lite *lite, const uint8_t *key, struct wr_place place,
		 const struct wr_lite_line *line)
{
	if (!wr_lines_join(&lite->lines, key, place))
		return SQLITE_NOMEM;
	lite->counts.waiting++;
	lite->counts.lines += line->waiting == 0;
	lite->counts.touched = true;
	return wr_lite_changed(lite, key, line->waiting + 1);
}

int wr_lite_leave(struct wr_lite *lite, const uint8_t *key, uint64_t id)
{
	struct wr_line *line = wr_lines_find(&lite->lines, key);

	if (!line)
		return SQLITE_CORRUPT;
	if (!wr_lines_leave(&lite->lines, line, id))
		return SQLITE_NOMEM;
	lite->counts.waiting--;
	lite->counts.lines -= line->count == 0;
	lite->counts.touched = true;
	return wr_lite_changed(lite, key, line->count);
}

static int drop_content(struct wr_lite *lite, uint64_t id)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_CONTENT_GONE);

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)id);
	return wr_lite_do(sql);
}

int wr_lite_finish(struct wr_lite *lite, const struct wr_lite_end *end)
{
	bool dead = end->state == WR_DEFERRED_DEAD;
	const struct wr_queue_opts *opts = lite->store.opts;
	uint64_t gone_us = lite->now_us + (dead ? opts->keep_dead_us : opts->keep_us);
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_FINISH);
	size_t reason_len = wr_str_first(end->reason, WR_DEFERRED_REASON_MAX).len;
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)end->id);
	sqlite3_bind_int(sql, 2, end->state);
	sqlite3_bind_int(sql, 3, end->tried);
	sqlite3_bind_int64(sql, 4, (sqlite3_int64)lite->now_us);
	sqlite3_bind_int64(sql, 5, (sqlite3_int64)gone_us);
	sqlite3_bind_int(sql, 6, end->status);
	sqlite3_bind_blob(sql, 7, end->reason.ptr, (int)reason_len, SQLITE_STATIC);
	sqlite3_bind_int64(sql, 8, (sqlite3_int64)(dead ? end->bytes : 0));
	rc = wr_lite_do(sql);
	if (rc == SQLITE_OK && !dead)
		rc = drop_content(lite, end->id);
	lite->counts.dead += dead;
	lite->counts.dead_bytes += dead ? end->bytes : 0;
	lite->counts.tickets += !dead;
	lite->counts.bytes -= dead ? 0 : end->bytes;
	lite->counts.dead_total += dead;
	lite->counts.dropped_total += end->state == WR_DEFERRED_DROPPED;
	lite->counts.touched = true;
	return rc;
}

/* ---- reading a row ---- */

int wr_lite_standing(struct wr_lite *lite, uint64_t id, struct wr_lite_standing *at)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_TRIES);
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

static struct weir_str column(sqlite3_stmt *sql, int at)
{
	const char *bytes = sqlite3_column_blob(sql, at);
	int len = sqlite3_column_bytes(sql, at);

	return bytes && len > 0 ? (struct weir_str){bytes, (size_t)len} : WR_STR("");
}

static uint64_t number(sqlite3_stmt *sql, int at)
{
	sqlite3_int64 value = sqlite3_column_int64(sql, at);

	return value > 0 ? (uint64_t)value : 0;
}

/* By the wall clock of now, which may have been set since. */
static uint64_t to_wall(const struct wr_lite *lite, uint64_t us)
{
	return us ? us - lite->now_us + lite->wall_us : 0;
}

static bool read_row(const struct wr_lite *lite, sqlite3_stmt *sql, struct wr_record *record)
{
	struct wr_deferred *row = &record->row;
	struct weir_str ticket = column(sql, 0), key = column(sql, 1);

	if (ticket.len != sizeof row->ticket_hash || key.len != sizeof row->key)
		return false;
	memcpy(row->ticket_hash, ticket.ptr, ticket.len);
	memcpy(row->key, key.ptr, key.len);
	record->rule = column(sql, 2);
	row->state = (enum wr_deferred_state)number(sql, 3);
	row->tries = (uint32_t)number(sql, 4);
	row->max_tries = (uint32_t)number(sql, 5);
	row->interval_us = number(sql, 6);
	row->accepted_us = to_wall(lite, number(sql, 7));
	row->due_us = to_wall(lite, number(sql, 8));
	row->expires_us = to_wall(lite, number(sql, 9));
	row->done_us = to_wall(lite, number(sql, 10));
	row->status = (uint16_t)number(sql, 11);
	record->reason = column(sql, 12);
	row->body_len = number(sql, 13);
	row->bytes = number(sql, 14);
	return row->state < WR_DEFERRED_STATE_COUNT;
}

int wr_lite_read(struct wr_lite *lite, uint64_t id, enum wr_lite_depth depth,
		 struct wr_deferred **row)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, depth == WR_LITE_ROW ? WR_SQL_ROW : WR_SQL_WHOLE);
	struct wr_record record = {.row = {.id = id}, .open = depth == WR_LITE_OPEN};
	int rc;

	*row = NULL;
	sqlite3_bind_int64(sql, 1, (sqlite3_int64)id);
	rc = sqlite3_step(sql);
	if (rc == SQLITE_ROW && !read_row(lite, sql, &record))
		rc = SQLITE_CORRUPT;
	if (rc == SQLITE_ROW && depth >= WR_LITE_HEAD)
		record.head = column(sql, 15);
	if (rc == SQLITE_ROW && depth >= WR_LITE_ALL)
		record.body = column(sql, 16);
	if (rc == SQLITE_ROW) {
		*row = wr_record_read(&record, lite->store.seals);
		rc = *row ? SQLITE_OK : SQLITE_NOMEM;
	}
	sqlite3_reset(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
