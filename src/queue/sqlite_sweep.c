/* Records deliveries in two steps. First, a delivery becomes durable as a short row at the end of
 * table `delivered`; one page of the log holds a hundred short rows. Later, a sweep updates the
 * rows of the delivered requests and deletes their heads and bodies. One sweep changes many
 * neighbouring rows, so each page is written only once, or not at all if the page becomes empty.
 * Called by the other sqlite_*.c files. */
#include "queue/sqlite_backend.h"

/* A sweep is due after this many deliveries. The sweep takes a few ms, in which no job is done. */
#define SWEEP_FROM 512u

int wr_sqlite_finish_delivered(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end)
{
	const uint64_t row[] = {end->id, end->status, sqlite->now_us};

	sqlite->counts.unswept++;
	sqlite->counts.tickets++;
	sqlite->counts.bytes -= end->bytes;
	sqlite->counts.delivered_total++;
	sqlite->counts.touched = true;
	return wr_sqlite_run(sqlite, WR_SQL_DELIVERED, row, 3);
}

int wr_sqlite_sweep(struct wr_sqlite *sqlite)
{
	int rc;

	if (sqlite->counts.unswept == 0)
		return SQLITE_OK;
	rc = wr_sqlite_run(sqlite, WR_SQL_SWEEP_ROWS, &sqlite->backend.opts->keep_us, 1);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_run(sqlite, WR_SQL_SWEEP_CONTENT, NULL, 0);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_run(sqlite, WR_SQL_SWEEP_DONE, NULL, 0);
	sqlite->counts.unswept = 0;
	sqlite->counts.touched = true;
	return rc;
}

int wr_sqlite_sweep_now(struct wr_sqlite *sqlite)
{
	int rc;

	if (sqlite->counts.unswept == 0)
		return SQLITE_OK;
	rc = wr_sqlite_run(sqlite, WR_SQL_BEGIN, NULL, 0);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_sweep(sqlite);
	return wr_sqlite_end_transaction(sqlite, rc);
}

int wr_sqlite_sweep_if_due(struct wr_sqlite *sqlite)
{
	return sqlite->counts.unswept >= SWEEP_FROM ? wr_sqlite_sweep(sqlite) : SQLITE_OK;
}
