/* Periodic work: deletes expired tickets and dead letters, shrinks the file, runs a checkpoint.
 * Called by sqlite_backend.c once a second. */
#include <string.h>

#include "queue/sqlite_backend.h"

#include "base/assert.h"

#define FREE_PAGES_MAX 1024 /* the file shrinks only if it has more free pages than this */
#define DELETE_MAX 1000u    /* maximum number of rows deleted per call */

/* A row to delete. */
struct expired {
	uint64_t id, bytes;
	uint8_t hash[WR_SQLITE_HASH_BYTES];
	bool dead;
};

/* Runs a statement, whose parameters the caller has bound, and reads up to `max` rows. Returns the
 * number of rows read. */
static size_t read_rows(sqlite3_stmt *sql, size_t max, struct expired *rows)
{
	size_t count = 0;

	while (count < max && sqlite3_step(sql) == SQLITE_ROW) {
		const void *ticket = sqlite3_column_blob(sql, 3);

		if (ticket && sqlite3_column_bytes(sql, 3) > WR_SQLITE_HASH_BYTES)
			memcpy(rows[count].hash, ticket, WR_SQLITE_HASH_BYTES);
		rows[count].id = (uint64_t)sqlite3_column_int64(sql, 0);
		rows[count].dead = sqlite3_column_int(sql, 1) == WR_QUEUE_REQUEST_DEAD;
		rows[count++].bytes = (uint64_t)sqlite3_column_int64(sql, 2);
	}
	sqlite3_reset(sql);
	return count;
}

/* Finds up to `max` rows that expire at until_us or earlier. Includes dead letters only if `dead`
 * is set. Returns the number of rows found. */
static size_t find_expired(struct wr_sqlite *sqlite, uint64_t until_us, bool dead, size_t max,
			   struct expired *rows)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_EXPIRED);

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)until_us);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)max);
	sqlite3_bind_int(sql, 3, dead);
	return read_rows(sql, max, rows);
}

/* Finds the oldest dead letters, as many as must be deleted to meet max_dead and max_dead_bytes.
 * Returns the number of dead letters found. */
static size_t find_excess_dead(struct wr_sqlite *sqlite, struct expired rows[DELETE_MAX])
{
	const struct wr_queue_opts *opts = sqlite->backend.opts;
	uint64_t dead = sqlite->counts.dead, bytes = sqlite->counts.dead_bytes;
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_DEAD);
	size_t found, count = 0;

	if (dead <= opts->max_dead && bytes <= opts->max_dead_bytes)
		return 0;
	sqlite3_bind_int64(sql, 1, DELETE_MAX);
	found = read_rows(sql, DELETE_MAX, rows);
	for (; count < found && (dead > opts->max_dead || bytes > opts->max_dead_bytes); count++) {
		dead--;
		bytes -= rows[count].bytes;
	}
	return count;
}

static int delete_row(struct wr_sqlite *sqlite, const struct expired *row)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_DELETE_TICKET);
	int rc;

	sqlite3_bind_blob(sql, 1, row->hash, sizeof row->hash, SQLITE_STATIC);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)row->id);
	rc = wr_sqlite_execute(sql);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_run(sqlite, WR_SQL_DELETE_CONTENT, &row->id, 1);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_run(sqlite, WR_SQL_DELETE_REQUEST, &row->id, 1);
	sqlite->counts.dead -= row->dead;
	sqlite->counts.dead_bytes -= row->dead ? row->bytes : 0;
	sqlite->counts.tickets -= !row->dead;
	sqlite->counts.bytes -= row->bytes;
	return rc;
}

/* Deletes expired rows. If no row has expired, deletes the dead letters that exceed their maximum.
 * If no dead letter was deleted either, deletes the tickets that exceed their maximum. */
static int delete_expired(struct wr_sqlite *sqlite)
{
	uint64_t max_tickets = sqlite->backend.opts->max_tickets;
	struct expired rows[DELETE_MAX];
	size_t count = find_expired(sqlite, sqlite->now_us, true, DELETE_MAX, rows), trimmed = 0;
	int rc = SQLITE_OK;

	if (count == 0)
		count = trimmed = find_excess_dead(sqlite, rows);
	if (count == 0 && sqlite->counts.tickets > max_tickets) {
		uint64_t over = sqlite->counts.tickets - max_tickets;

		count = find_expired(sqlite, INT64_MAX, false,
				     over < DELETE_MAX ? over : DELETE_MAX, rows);
	}
	if (count == 0)
		return SQLITE_OK;
	rc = wr_sqlite_run(sqlite, WR_SQL_BEGIN, NULL, 0);
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		rc = delete_row(sqlite, &rows[i]);
	rc = wr_sqlite_end_transaction(sqlite, rc);
	if (rc == SQLITE_OK)
		wr_queue_backend_count_trimmed(&sqlite->backend, trimmed, sqlite->now_us);
	return rc;
}

/* Returns free pages of the file to the file system if there are many. */
static int shrink_file(struct wr_sqlite *sqlite)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_VACUUM);
	int64_t pages;
	int rc = wr_sqlite_query_number(sqlite, "PRAGMA freelist_count", &pages);

	if (rc != SQLITE_OK || pages <= FREE_PAGES_MAX)
		return rc;
	while ((rc = sqlite3_step(sql)) == SQLITE_ROW)
		;
	sqlite3_reset(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void wr_sqlite_tidy(struct wr_sqlite *sqlite)
{
	int rc = wr_sqlite_sweep_now(sqlite);

	wr_assert(sqlite->db);
	if (rc == SQLITE_OK)
		rc = delete_expired(sqlite);
	if (rc == SQLITE_OK)
		rc = shrink_file(sqlite);
	if (rc == SQLITE_OK)
		wr_sqlite_checkpoint(sqlite, false);
	/* If the disk is full, this work fails. The backend has not failed then, because the queue
	 * can still deliver. */
	if (rc != SQLITE_OK && wr_sqlite_reason(sqlite, rc) != WR_QUEUE_NO_SPACE)
		wr_queue_backend_fail(&sqlite->backend, wr_sqlite_reason(sqlite, rc),
				      "the queue's file %s: %s", sqlite->path,
				      sqlite3_errmsg(sqlite->db));
}
