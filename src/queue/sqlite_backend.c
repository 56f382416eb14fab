/* The SQLite backend: does the jobs of a batch in one transaction, so that one sync of the disk
 * makes them all durable. Called by the queue's thread. */
#include "queue/sqlite_backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define TICK_US 1000000u

sqlite3_stmt *wr_sqlite_statement(struct wr_sqlite *sqlite, enum wr_sqlite_sql which)
{
	wr_assert(sqlite->db);
	/* the return value is ignored: it repeats the error of the statement's previous run, which
	 * was already handled */
	sqlite3_reset(sqlite->sql[which]);
	sqlite3_clear_bindings(sqlite->sql[which]);
	return sqlite->sql[which];
}

int wr_sqlite_execute(sqlite3_stmt *sql)
{
	int rc = sqlite3_step(sql);

	sqlite3_reset(sql);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int wr_sqlite_run(struct wr_sqlite *sqlite, enum wr_sqlite_sql which, const uint64_t *numbers,
		  size_t count)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, which);

	wr_assert(numbers || count == 0);
	for (size_t i = 0; i < count; i++)
		sqlite3_bind_int64(sql, (int)i + 1, (sqlite3_int64)numbers[i]);
	return wr_sqlite_execute(sql);
}

int wr_sqlite_end_transaction(struct wr_sqlite *sqlite, int rc)
{
	wr_assert(sqlite->db);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_run(sqlite, WR_SQL_COMMIT, NULL, 0);
	if (rc == SQLITE_OK) {
		sqlite->committed = sqlite->counts;
		return SQLITE_OK;
	}
	sqlite->counts = sqlite->committed;
	if (!sqlite3_get_autocommit(sqlite->db))
		wr_sqlite_run(sqlite, WR_SQL_ROLLBACK, NULL, 0);
	return rc;
}

int wr_sqlite_query_number(struct wr_sqlite *sqlite, const char *query, int64_t *number)
{
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, query, -1, &sql, NULL);

	wr_assert(sqlite->db);
	*number = 0;
	if (rc == SQLITE_OK && (rc = sqlite3_step(sql)) == SQLITE_ROW) {
		*number = sqlite3_column_int64(sql, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int wr_sqlite_record_change(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t waiting)
{
	struct wr_sqlite_change change = {.waiting = waiting};

	memcpy(change.key, key, sizeof change.key);
	return wr_buf_add(&sqlite->changes, &change, sizeof change) ? SQLITE_OK : SQLITE_NOMEM;
}

static int do_job(struct wr_sqlite *sqlite, struct wr_queue_job *job)
{
	int rc;

	switch (job->verb) {
	case WR_QUEUE_PUT:
		return wr_sqlite_put(sqlite, job);
	case WR_QUEUE_TAKE:
		return wr_sqlite_take(sqlite, job);
	case WR_QUEUE_SETTLE:
		return wr_sqlite_settle(sqlite, job);
	case WR_QUEUE_TICKET:
		rc = wr_sqlite_sweep(sqlite);
		return rc == SQLITE_OK ? wr_sqlite_ticket(sqlite, job) : rc;
	case WR_QUEUE_LIST:
	case WR_QUEUE_SHOW:
	case WR_QUEUE_RETRY:
	case WR_QUEUE_DROP:
		rc = wr_sqlite_sweep(sqlite);
		return rc == SQLITE_OK ? wr_sqlite_page(sqlite, job) : rc;
	case WR_QUEUE_STATS:
		return wr_sqlite_stats(sqlite, job);
	case WR_QUEUE_RECOUNT:
		return wr_sqlite_recount(sqlite);
	}
	job->reason = WR_QUEUE_FAILED;
	return SQLITE_OK;
}

/* Commits the transaction. If the transaction changes the file, first saves the queue's time and
 * the counters in the file. */
static int commit_transaction(struct wr_sqlite *sqlite)
{
	const struct wr_sqlite_counts *counts = &sqlite->counts;
	const uint64_t saved[] = {sqlite->now_us,          counts->put_total,
				  counts->delivered_total, counts->retried_total,
				  counts->dead_total,      counts->dropped_total};
	int rc = SQLITE_OK;

	if (counts->touched)
		rc = wr_sqlite_run(sqlite, WR_SQL_SAVE, saved, sizeof saved / sizeof *saved);
	return rc == SQLITE_OK ? wr_sqlite_run(sqlite, WR_SQL_COMMIT, NULL, 0) : rc;
}

static void roll_back(struct wr_sqlite *sqlite)
{
	/* All statements are reset, because a statement that is still reading would block the
	 * rollback. */
	for (size_t i = 0; i < WR_SQL_COUNT; i++)
		sqlite3_reset(sqlite->sql[i]);
	if (!sqlite3_get_autocommit(sqlite->db))
		wr_sqlite_run(sqlite, WR_SQL_ROLLBACK, NULL, 0);
	wr_queue_lines_roll_back(&sqlite->lines);
	sqlite->counts = sqlite->committed;
	wr_buf_clear(&sqlite->changes);
}

static void report_changes(struct wr_sqlite *sqlite)
{
	const struct wr_sqlite_change *changes =
		(const struct wr_sqlite_change *)sqlite->changes.ptr;

	for (size_t i = 0; i < sqlite->changes.len / sizeof *changes; i++)
		wr_queue_backend_report_waiting(&sqlite->backend, changes[i].key,
						changes[i].waiting);
	wr_buf_clear(&sqlite->changes);
}

/* Does all jobs that were not refused yet in one transaction. Returns SQLITE_OK or an error, after
 * which the caller rolls back. */
static int run_transaction(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count)
{
	int rc = wr_sqlite_run(sqlite, WR_SQL_BEGIN, NULL, 0);

	sqlite->counts.touched = false;
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		if (jobs[i]->reason == WR_QUEUE_OK)
			rc = do_job(sqlite, jobs[i]);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_sweep_if_due(sqlite);
	if (rc == SQLITE_OK)
		rc = commit_transaction(sqlite);
	if (rc != SQLITE_OK)
		return rc;
	wr_queue_lines_commit(&sqlite->lines);
	sqlite->commits += sqlite->counts.touched;
	sqlite->committed = sqlite->counts;
	report_changes(sqlite);
	return SQLITE_OK;
}

/* Clears the results of all jobs. If puts_only is set, refuses only the puts. Otherwise refuses all
 * jobs. */
static void refuse_jobs(struct wr_queue_job **jobs, size_t count, enum wr_queue_reason reason,
			bool puts_only)
{
	for (size_t i = 0; i < count; i++) {
		wr_queue_job_reset(jobs[i]);
		if (!puts_only || jobs[i]->verb == WR_QUEUE_PUT)
			jobs[i]->reason = reason;
	}
}

static void set_time(struct wr_sqlite *sqlite, struct wr_queue_moment now)
{
	sqlite->now_us = now.mono_us + sqlite->ahead_us;
	sqlite->wall_us = now.wall_us;
}

static void do_jobs(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count)
{
	struct wr_queue_backend *backend = &sqlite->backend;
	int rc;

	if (wr_sqlite_is_removed(sqlite))
		refuse_jobs(jobs, count, WR_QUEUE_AWAY, true);
	wr_sqlite_space_check(sqlite, jobs, count);
	rc = run_transaction(sqlite, jobs, count);
	/* If the disk is full, refuse the puts and do the other jobs again: the disk may still have
	 * space for the results of deliveries. */
	if (rc != SQLITE_OK && wr_sqlite_reason(sqlite, rc) == WR_QUEUE_NO_SPACE) {
		roll_back(sqlite);
		wr_sqlite_checkpoint(sqlite, true);
		refuse_jobs(jobs, count, WR_QUEUE_NO_SPACE, true);
		rc = run_transaction(sqlite, jobs, count);
	}
	if (rc == SQLITE_OK) {
		wr_sqlite_checkpoint_if_due(sqlite);
		return;
	}
	wr_queue_backend_fail(backend, wr_sqlite_reason(sqlite, rc), "the queue's file %s: %s",
			      sqlite->path, sqlite3_errmsg(sqlite->db));
	roll_back(sqlite);
	refuse_jobs(jobs, count, backend->failed, false);
	/* If the disk is full, the backend has not failed: the file stays open and works again as
	 * soon as there is space. */
	if (backend->failed == WR_QUEUE_NO_SPACE)
		backend->failed = WR_QUEUE_OK;
}

static void run_jobs(struct wr_queue_backend *backend, struct wr_queue_job **jobs, size_t count,
		     struct wr_queue_moment now)
{
	struct wr_sqlite *sqlite = (struct wr_sqlite *)backend;

	set_time(sqlite, now);
	do_jobs(sqlite, jobs, count);
	wr_sqlite_space_report(sqlite, jobs, count);
}

/* Called after the file was removed. New requests are refused, and waiting requests are still
 * delivered from the open file. When no request waits any more, the backend fails on purpose,
 * because reopening it creates a new file. */
static void handle_removal(struct wr_sqlite *sqlite)
{
	if (!sqlite->removed)
		wr_queue_backend_log(
			&sqlite->backend, WR_QUEUE_ERROR,
			"THE QUEUE'S FILE %s WAS REMOVED: its %llu requests are lost if this "
			"process ends before it has delivered them; new requests are refused until "
			"then",
			sqlite->path, (unsigned long long)sqlite->counts.waiting);
	sqlite->removed = true;
	if (sqlite->counts.waiting == 0)
		wr_queue_backend_fail(&sqlite->backend, WR_QUEUE_AWAY,
				      "the queue's file %s was removed", sqlite->path);
}

static void run_tick(struct wr_queue_backend *backend, struct wr_queue_moment now)
{
	struct wr_sqlite *sqlite = (struct wr_sqlite *)backend;

	set_time(sqlite, now);
	wr_sqlite_tidy(sqlite);
	if (wr_sqlite_is_removed(sqlite))
		handle_removal(sqlite);
}

static enum wr_queue_reason open_backend(struct wr_queue_backend *backend,
					 struct wr_queue_moment now, struct weir_error *error)
{
	struct wr_sqlite *sqlite = (struct wr_sqlite *)backend;
	enum wr_queue_reason reason = wr_sqlite_open(sqlite, now, error);

	if (reason != WR_QUEUE_OK)
		return reason;
	/* If now_us is below mono_us, ahead_us wraps around, but the sum mono_us + ahead_us is
	 * right. */
	sqlite->ahead_us = sqlite->now_us - now.mono_us;
	sqlite->wall_us = now.wall_us;
	sqlite->old_fence = sqlite->fence;
	if (wr_sqlite_recount(sqlite) == SQLITE_OK)
		report_changes(sqlite);
	return WR_QUEUE_OK;
}

static void close_backend(struct wr_queue_backend *backend)
{
	wr_sqlite_close((struct wr_sqlite *)backend);
}

static void free_backend(struct wr_queue_backend *backend)
{
	struct wr_sqlite *sqlite = (struct wr_sqlite *)backend;

	wr_queue_lines_clear(&sqlite->lines);
	wr_buf_free(&sqlite->changes);
	free(sqlite);
}

static const struct wr_queue_backend_ops ops = {open_backend, run_jobs, run_tick, close_backend,
						free_backend};

const char *wr_sqlite_folder(const char *url)
{
	wr_assert(url);
	if (strncmp(url, "file:", 5) != 0)
		return NULL;
	url += 5;
	return strncmp(url, "//", 2) == 0 ? url + 2 : url;
}

struct wr_queue_backend *wr_sqlite_new(const struct wr_queue_opts *opts,
				       const struct wr_seals *seals)
{
	struct wr_sqlite *sqlite = calloc(1, sizeof *sqlite);

	wr_assert(wr_sqlite_folder(opts->url));
	if (!sqlite)
		return NULL;
	sqlite->backend = (struct wr_queue_backend){
		.ops = &ops, .opts = opts, .seals = seals, .tick_us = TICK_US};
	sqlite->folder = wr_sqlite_folder(opts->url);
	sqlite->lock = -1;
	wr_queue_lines_init(&sqlite->lines);
	wr_buf_init(&sqlite->changes, SIZE_MAX / 4);
	return &sqlite->backend;
}
