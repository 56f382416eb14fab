/* Transactions: jobs that came in together are made durable together. */
#include "queue/lite.h"

#include <stdlib.h>
#include <string.h>

#define TICK_US 1000000u

sqlite3_stmt *wr_lite_sql(struct wr_lite *lite, enum wr_lite_sql which)
{
	sqlite3_reset(lite->sql[which]); /* its last error was returned already */
	sqlite3_clear_bindings(lite->sql[which]);
	return lite->sql[which];
}

int wr_lite_do(sqlite3_stmt *sql)
{
	int rc = sqlite3_step(sql);

	sqlite3_reset(sql);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int wr_lite_changed(struct wr_lite *lite, const uint8_t *key, uint64_t waiting)
{
	struct wr_lite_change *change;

	if (lite->change_count == lite->change_cap) {
		size_t cap = lite->change_cap ? 2 * lite->change_cap : 64;
		struct wr_lite_change *more = realloc(lite->changes, cap * sizeof *more);

		if (!more)
			return SQLITE_NOMEM;
		lite->changes = more;
		lite->change_cap = cap;
	}
	change = &lite->changes[lite->change_count++];
	memcpy(change->key, key, sizeof change->key);
	change->waiting = waiting;
	return SQLITE_OK;
}

static int do_job(struct wr_lite *lite, struct wr_queue_job *job)
{
	int rc;

	switch (job->verb) {
	case WR_QUEUE_PUT:
		return wr_lite_put(lite, job);
	case WR_QUEUE_TAKE:
		return wr_lite_take(lite, job);
	case WR_QUEUE_SETTLE:
		return wr_lite_settle(lite, job);
	case WR_QUEUE_TICKET:
		rc = wr_lite_sweep(lite);
		return rc == SQLITE_OK ? wr_lite_ticket(lite, job) : rc;
	case WR_QUEUE_LIST:
	case WR_QUEUE_SHOW:
	case WR_QUEUE_RETRY:
	case WR_QUEUE_DROP:
		rc = wr_lite_sweep(lite);
		return rc == SQLITE_OK ? wr_lite_page(lite, job) : rc;
	case WR_QUEUE_STATS:
		return wr_lite_stats(lite, job);
	case WR_QUEUE_RECOUNT:
		return wr_lite_recount(lite);
	}
	job->reason = WR_QUEUE_FAILED;
	return SQLITE_OK;
}

/* The queue's time and its counts go along with whatever is written. */
static int commit(struct wr_lite *lite)
{
	const struct wr_lite_counts *counts = &lite->counts;
	sqlite3_stmt *save = wr_lite_sql(lite, WR_SQL_SAVE);
	int rc = SQLITE_OK;

	if (counts->touched) {
		sqlite3_bind_int64(save, 1, (sqlite3_int64)lite->now_us);
		sqlite3_bind_int64(save, 2, (sqlite3_int64)counts->put_total);
		sqlite3_bind_int64(save, 3, (sqlite3_int64)counts->delivered_total);
		sqlite3_bind_int64(save, 4, (sqlite3_int64)counts->retried_total);
		sqlite3_bind_int64(save, 5, (sqlite3_int64)counts->dead_total);
		sqlite3_bind_int64(save, 6, (sqlite3_int64)counts->dropped_total);
		rc = wr_lite_do(save);
	}
	if (rc == SQLITE_OK)
		rc = wr_lite_do(wr_lite_sql(lite, WR_SQL_COMMIT));
	return rc;
}

static void roll_back(struct wr_lite *lite)
{
	/* Statements that still read would keep it from ending. */
	for (size_t i = 0; i < WR_SQL_COUNT; i++)
		sqlite3_reset(lite->sql[i]);
	if (!sqlite3_get_autocommit(lite->db))
		wr_lite_do(wr_lite_sql(lite, WR_SQL_ROLLBACK));
	wr_lines_undo(&lite->lines);
	lite->counts = lite->committed;
	lite->change_count = 0;
}

static void tell_changes(struct wr_lite *lite)
{
	for (size_t i = 0; i < lite->change_count; i++)
		wr_store_tell(&lite->store, lite->changes[i].key, lite->changes[i].waiting);
	lite->change_count = 0;
}

/* All of these jobs, but those that have a reason already. */
static int transact(struct wr_lite *lite, struct wr_queue_job **jobs, size_t count)
{
	int rc = wr_lite_do(wr_lite_sql(lite, WR_SQL_BEGIN));

	lite->counts.touched = false;
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		if (jobs[i]->reason == WR_QUEUE_OK)
			rc = do_job(lite, jobs[i]);
	if (rc == SQLITE_OK)
		rc = wr_lite_sweep_some(lite);
	if (rc == SQLITE_OK)
		rc = commit(lite);
	if (rc != SQLITE_OK)
		return rc;
	wr_lines_keep(&lite->lines);
	lite->commits += lite->counts.touched;
	lite->committed = lite->counts;
	tell_changes(lite);
	return SQLITE_OK;
}

/* Nothing of it was done. With `puts`, those alone. */
static void give_up(struct wr_queue_job **jobs, size_t count, enum wr_queue_reason reason,
		    bool puts)
{
	for (size_t i = 0; i < count; i++) {
		bool given_up = !puts || jobs[i]->verb == WR_QUEUE_PUT;

		wr_job_reset(jobs[i]);
		if (given_up)
			jobs[i]->reason = reason;
	}
}

static void set_time(struct wr_lite *lite, struct wr_moment now)
{
	lite->now_us = now.mono_us + lite->ahead_us;
	lite->wall_us = now.wall_us;
}

static void do_jobs(struct wr_lite *lite, struct wr_queue_job **jobs, size_t count)
{
	struct wr_store *store = &lite->store;
	int rc;

	if (wr_lite_is_removed(lite))
		give_up(jobs, count, WR_QUEUE_AWAY, true);
	wr_lite_look_at_space(lite, jobs, count);
	rc = transact(lite, jobs, count);
	/* A disk that has no room for a request may have some for what became of another. */
	if (rc != SQLITE_OK && wr_lite_reason(lite, rc) == WR_QUEUE_NO_SPACE) {
		roll_back(lite);
		wr_lite_fold(lite, true);
		give_up(jobs, count, WR_QUEUE_NO_SPACE, true);
		rc = transact(lite, jobs, count);
	}
	if (rc == SQLITE_OK) {
		wr_lite_fold_some(lite);
		return;
	}
	wr_store_fail(store, wr_lite_reason(lite, rc), "the queue's file %s: %s", lite->path,
		      sqlite3_errmsg(lite->db));
	roll_back(lite);
	give_up(jobs, count, store->failed, false);
	/* What is full is left open: it works again as soon as there is room. */
	if (store->failed == WR_QUEUE_NO_SPACE)
		store->failed = WR_QUEUE_OK;
}

static void run(struct wr_store *store, struct wr_queue_job **jobs, size_t count,
		struct wr_moment now)
{
	struct wr_lite *lite = (struct wr_lite *)store;

	set_time(lite, now);
	do_jobs(lite, jobs, count);
	wr_lite_mind_space(lite, jobs, count);
}

/* Nothing more is promised, but what waits is delivered while there is a process that has the file;
 * then a new one is made. */
static void mind_removal(struct wr_lite *lite)
{
	if (!lite->removed)
		wr_store_say(&lite->store, WR_QUEUE_ERROR,
			     "THE QUEUE'S FILE %s WAS REMOVED: %llu requests in it are delivered "
			     "as long as this process runs, and are lost with it; none is stored "
			     "before that is done",
			     lite->path, (unsigned long long)lite->counts.waiting);
	lite->removed = true;
	if (lite->counts.waiting == 0)
		wr_store_fail(&lite->store, WR_QUEUE_AWAY, "the queue's file %s was removed",
			      lite->path);
}

static void tick(struct wr_store *store, struct wr_moment now)
{
	struct wr_lite *lite = (struct wr_lite *)store;

	set_time(lite, now);
	wr_lite_tidy(lite);
	if (wr_lite_is_removed(lite))
		mind_removal(lite);
}

static enum wr_queue_reason open_store(struct wr_store *store, struct wr_moment now,
				       struct weir_error *error)
{
	struct wr_lite *lite = (struct wr_lite *)store;
	enum wr_queue_reason reason = wr_lite_open(lite, now, error);

	if (reason != WR_QUEUE_OK)
		return reason;
	lite->ahead_us = lite->now_us - now.mono_us; /* may wrap, and does no harm */
	lite->wall_us = now.wall_us;
	lite->old_fence = lite->fence;
	if (wr_lite_recount(lite) == SQLITE_OK)
		tell_changes(lite);
	return WR_QUEUE_OK;
}

static void close_store(struct wr_store *store)
{
	wr_lite_close((struct wr_lite *)store);
}

static void free_store(struct wr_store *store)
{
	struct wr_lite *lite = (struct wr_lite *)store;

	wr_lines_clear(&lite->lines);
	free(lite->changes);
	free(lite);
}

static const struct wr_store_ops ops = {open_store, run, tick, close_store, free_store};

const char *wr_lite_folder(const char *url)
{
	if (strncmp(url, "file:", 5) != 0)
		return NULL;
	url += 5;
	return strncmp(url, "//", 2) == 0 ? url + 2 : url;
}

struct wr_store *wr_lite_new(const struct wr_queue_opts *opts, const struct wr_seals *seals)
{
	struct wr_lite *lite = calloc(1, sizeof *lite);

	if (!lite)
		return NULL;
	lite->store =
		(struct wr_store){.ops = &ops, .opts = opts, .seals = seals, .tick_us = TICK_US};
	lite->folder = wr_lite_folder(opts->url);
	lite->lock = -1;
	return &lite->store;
}
