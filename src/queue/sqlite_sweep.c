/* Records deliveries in two steps. First, a delivery becomes durable as a short row at the end of
 * table delivered; one page of the log holds a hundred such rows. Later, a sweep updates the rows
 * of the delivered requests and deletes their content. The statements of a sweep process many
 * neighbouring rows, so each page is written only once, or not at all if it becomes empty. Called
 * by the other sqlite_*.c files. */
#include "queue/sqlite_backend.h"

/* a sweep is due after this many deliveries; it takes a few ms, and jobs wait for it */
#define SWEEP_FROM 512u

int wr_sqlite_finish_delivered(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_DELIVERED);

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)end->id);
	sqlite3_bind_int(sql, 2, end->status);
	sqlite3_bind_int64(sql, 3, (sqlite3_int64)sqlite->now_us);
	sqlite->counts.unswept++;
	sqlite->counts.tickets++;
	sqlite->counts.bytes -= end->bytes;
	sqlite->counts.delivered_total++;
	sqlite->counts.touched = true;
	return wr_sqlite_execute(sql);
}

int wr_sqlite_sweep(struct wr_sqlite *sqlite)
{
	static const enum wr_sqlite_sql steps[] = {WR_SQL_SWEEP_ROWS, WR_SQL_SWEEP_CONTENT,
						   WR_SQL_SWEEP_DONE};
	int rc = SQLITE_OK;

	if (sqlite->counts.unswept == 0)
		return SQLITE_OK;
	for (size_t i = 0; i < sizeof steps / sizeof *steps && rc == SQLITE_OK; i++) {
		sqlite3_stmt *sql = wr_sqlite_statement(sqlite, steps[i]);

		if (steps[i] == WR_SQL_SWEEP_ROWS)
			sqlite3_bind_int64(sql, 1, (sqlite3_int64)sqlite->backend.opts->keep_us);
		rc = wr_sqlite_execute(sql);
	}
	sqlite->counts.unswept = 0;
	sqlite->counts.touched = true;
	return rc;
}

int wr_sqlite_sweep_now(struct wr_sqlite *sqlite)
{
	int rc;

	if (sqlite->counts.unswept == 0)
		return SQLITE_OK;
	rc = wr_sqlite_execute(wr_sqlite_statement(sqlite, WR_SQL_BEGIN));
	if (rc == SQLITE_OK)
		rc = wr_sqlite_sweep(sqlite);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_execute(wr_sqlite_statement(sqlite, WR_SQL_COMMIT));
	if (rc == SQLITE_OK) {
		sqlite->committed = sqlite->counts;
		return SQLITE_OK;
	}
	sqlite->counts = sqlite->committed;
	if (!sqlite3_get_autocommit(sqlite->db))
		wr_sqlite_execute(wr_sqlite_statement(sqlite, WR_SQL_ROLLBACK));
	return rc;
}

int wr_sqlite_sweep_if_due(struct wr_sqlite *sqlite)
{
	return sqlite->counts.unswept >= SWEEP_FROM ? wr_sqlite_sweep(sqlite) : SQLITE_OK;
}
