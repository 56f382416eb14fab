/* What was delivered goes in two steps. That it was is made durable at once, as a short row behind
 * others of its kind: one page of the log holds a commit of a hundred. What it leaves behind is
 * swept up later, by statements that each walk through many neighbours and write a page once for
 * all of them, or not at all if nothing is left in it. */
#include "queue/lite.h"

#define SWEEP_FROM 512u /* takes a few milliseconds, for which others wait */

int wr_lite_delivered(struct wr_lite *lite, const struct wr_lite_end *end)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_DELIVERED);

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)end->id);
	sqlite3_bind_int(sql, 2, end->status);
	sqlite3_bind_int64(sql, 3, (sqlite3_int64)lite->now_us);
	lite->counts.unswept++;
	lite->counts.tickets++;
	lite->counts.bytes -= end->bytes;
	lite->counts.delivered_total++;
	lite->counts.touched = true;
	return wr_lite_do(sql);
}

int wr_lite_sweep(struct wr_lite *lite)
{
	static const enum wr_lite_sql steps[] = {WR_SQL_SWEEP_ROWS, WR_SQL_SWEEP_CONTENT,
						 WR_SQL_SWEEP_DONE};
	int rc = SQLITE_OK;

	if (lite->counts.unswept == 0)
		return SQLITE_OK;
	for (size_t i = 0; i < sizeof steps / sizeof *steps && rc == SQLITE_OK; i++) {
		sqlite3_stmt *sql = wr_lite_sql(lite, steps[i]);

		if (steps[i] == WR_SQL_SWEEP_ROWS)
			sqlite3_bind_int64(sql, 1, (sqlite3_int64)lite->store.opts->keep_us);
		rc = wr_lite_do(sql);
	}
	lite->counts.unswept = 0;
	lite->counts.touched = true;
	return rc;
}

int wr_lite_sweep_now(struct wr_lite *lite)
{
	int rc;

	if (lite->counts.unswept == 0)
		return SQLITE_OK;
	rc = wr_lite_do(wr_lite_sql(lite, WR_SQL_BEGIN));
	if (rc == SQLITE_OK)
		rc = wr_lite_sweep(lite);
	if (rc == SQLITE_OK)
		rc = wr_lite_do(wr_lite_sql(lite, WR_SQL_COMMIT));
	if (rc == SQLITE_OK) {
		lite->committed = lite->counts;
		return SQLITE_OK;
	}
	lite->counts = lite->committed;
	if (!sqlite3_get_autocommit(lite->db))
		wr_lite_do(wr_lite_sql(lite, WR_SQL_ROLLBACK));
	return rc;
}

int wr_lite_sweep_some(struct wr_lite *lite)
{
	return lite->counts.unswept >= SWEEP_FROM ? wr_lite_sweep(lite) : SQLITE_OK;
}
