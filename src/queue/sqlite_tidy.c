/* What a queue does by itself: tickets are forgotten, space goes back, the log is folded in. */
#include <string.h>

#include "queue/sqlite_backend.h"

#define FREE_PAGES_KEPT 1024 /* for what comes in next */
#define FORGET_MAX 1000u     /* in one go; the next comes in a second */

struct gone {
	uint64_t id, bytes;
	uint8_t hash[WR_SQLITE_HASH_BYTES];
	bool dead;
};

/* What a query finds, of which all is bound. */
static size_t read_gone(sqlite3_stmt *sql, size_t max, struct gone *gone)
{
	size_t count = 0;

	while (count < max && sqlite3_step(sql) == SQLITE_ROW) {
		const void *ticket = sqlite3_column_blob(sql, 3);

		if (ticket && sqlite3_column_bytes(sql, 3) > WR_SQLITE_HASH_BYTES)
			memcpy(gone[count].hash, ticket, WR_SQLITE_HASH_BYTES);
		gone[count].id = (uint64_t)sqlite3_column_int64(sql, 0);
		gone[count].dead = sqlite3_column_int(sql, 1) == WR_DEFERRED_DEAD;
		gone[count++].bytes = (uint64_t)sqlite3_column_int64(sql, 2);
	}
	sqlite3_reset(sql);
	return count;
}

static size_t find_gone(struct wr_sqlite *sqlite, uint64_t until_us, bool dead, size_t max,
			struct gone *gone)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_GONE);

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)until_us);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)max);
	sqlite3_bind_int(sql, 3, dead);
	return read_gone(sql, max, gone);
}

/* The oldest dead letters, if there are more than may be. */
static size_t find_dead(struct wr_sqlite *sqlite, struct gone gone[FORGET_MAX])
{
	const struct wr_queue_opts *opts = sqlite->backend.opts;
	uint64_t dead = sqlite->counts.dead, bytes = sqlite->counts.dead_bytes;
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_DEAD);
	size_t found, count = 0;

	if (dead <= opts->max_dead && bytes <= opts->max_dead_bytes)
		return 0;
	sqlite3_bind_int64(sql, 1, FORGET_MAX);
	found = read_gone(sql, FORGET_MAX, gone);
	for (; count < found && (dead > opts->max_dead || bytes > opts->max_dead_bytes); count++) {
		dead--;
		bytes -= gone[count].bytes;
	}
	return count;
}

static int forget_ticket(struct wr_sqlite *sqlite, const struct gone *gone)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_TICKET_GONE);

	sqlite3_bind_blob(sql, 1, gone->hash, sizeof gone->hash, SQLITE_STATIC);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)gone->id);
	return wr_sqlite_execute(sql);
}

static int forget_one(struct wr_sqlite *sqlite, const struct gone *gone)
{
	static const enum wr_sqlite_sql steps[] = {WR_SQL_CONTENT_GONE, WR_SQL_FORGET};
	int rc = forget_ticket(sqlite, gone);

	for (size_t i = 0; i < 2 && rc == SQLITE_OK; i++) {
		sqlite3_stmt *sql = wr_sqlite_statement(sqlite, steps[i]);

		sqlite3_bind_int64(sql, 1, (sqlite3_int64)gone->id);
		rc = wr_sqlite_execute(sql);
	}
	sqlite->counts.dead -= gone->dead;
	sqlite->counts.dead_bytes -= gone->dead ? gone->bytes : 0;
	sqlite->counts.tickets -= !gone->dead;
	sqlite->counts.bytes -= gone->bytes;
	return rc;
}

/* Those whose time has come, and the oldest beyond what is remembered. */
static int forget(struct wr_sqlite *sqlite)
{
	uint64_t max_tickets = sqlite->backend.opts->max_tickets;
	struct gone gone[FORGET_MAX];
	size_t count = find_gone(sqlite, sqlite->now_us, true, FORGET_MAX, gone), trimmed = 0;
	int rc = SQLITE_OK;

	if (count == 0)
		count = trimmed = find_dead(sqlite, gone);
	if (count == 0 && sqlite->counts.tickets > max_tickets) {
		uint64_t over = sqlite->counts.tickets - max_tickets;

		count = find_gone(sqlite, INT64_MAX, false, over < FORGET_MAX ? over : FORGET_MAX,
				  gone);
	}
	if (count == 0)
		return SQLITE_OK;
	rc = wr_sqlite_execute(wr_sqlite_statement(sqlite, WR_SQL_BEGIN));
	for (size_t i = 0; i < count && rc == SQLITE_OK; i++)
		rc = forget_one(sqlite, &gone[i]);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_execute(wr_sqlite_statement(sqlite, WR_SQL_COMMIT));
	if (rc != SQLITE_OK) {
		sqlite->counts = sqlite->committed;
		return rc;
	}
	sqlite->committed = sqlite->counts;
	wr_queue_backend_count_trimmed(&sqlite->backend, trimmed, sqlite->now_us);
	return SQLITE_OK;
}

static int give_back(struct wr_sqlite *sqlite)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_FREE_PAGES);
	int rc = sqlite3_step(sql);
	bool many = rc == SQLITE_ROW && sqlite3_column_int64(sql, 0) > FREE_PAGES_KEPT;

	sqlite3_reset(sql);
	if (!many)
		return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
	sql = wr_sqlite_statement(sqlite, WR_SQL_VACUUM);
	while ((rc = sqlite3_step(sql)) == SQLITE_ROW)
		;
	sqlite3_reset(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void wr_sqlite_tidy(struct wr_sqlite *sqlite)
{
	int rc = wr_sqlite_sweep_now(sqlite);

	if (rc == SQLITE_OK)
		rc = forget(sqlite);
	if (rc == SQLITE_OK)
		rc = give_back(sqlite);
	if (rc == SQLITE_OK)
		wr_sqlite_checkpoint(sqlite, false);
	else if (!sqlite3_get_autocommit(sqlite->db))
		wr_sqlite_execute(wr_sqlite_statement(sqlite, WR_SQL_ROLLBACK));
	/* A full disk keeps it from tidying, not from working. */
	if (rc != SQLITE_OK && wr_sqlite_reason(sqlite, rc) != WR_QUEUE_NO_SPACE)
		wr_queue_backend_fail(&sqlite->backend, wr_sqlite_reason(sqlite, rc),
				      "the queue's file %s: %s", sqlite->path,
				      sqlite3_errmsg(sqlite->db));
}
