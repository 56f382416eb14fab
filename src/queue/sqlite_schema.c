/* The tables of a queue's file, and what is kept of them in memory. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "queue/sqlite_backend.h"

#define APPLICATION 0x77656972 /* "weir" */
#define VERSION 2

/* Set before the first access: with the lock on the file for itself, SQLite keeps the index of its
 * log in memory of its own and not in a mapped file, which a full disk could turn into a SIGBUS. */
static const char first[] = "PRAGMA locking_mode = EXCLUSIVE;"
			    "PRAGMA auto_vacuum = INCREMENTAL;"
			    "PRAGMA journal_mode = WAL;"
			    "PRAGMA synchronous = FULL;"
			    "PRAGMA secure_delete = FAST;"
			    "PRAGMA temp_store = MEMORY;"
			    "PRAGMA cache_size = -16384;"
			    "PRAGMA journal_size_limit = 33554432;"
			    "PRAGMA cell_size_check = ON;"
			    "PRAGMA trusted_schema = OFF;";

/* Version 1 had none of these: what was delivered was swept at once. */
#define DELIVERED                                                                                  \
	"CREATE TABLE delivered (id INTEGER PRIMARY KEY, status INTEGER NOT NULL,"                 \
	" done INTEGER NOT NULL);"                                                                 \
	"PRAGMA user_version = 2;"

static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE meta (now INTEGER NOT NULL, put INTEGER NOT NULL, delivered INTEGER NOT NULL,"
	" retried INTEGER NOT NULL, dead INTEGER NOT NULL, dropped INTEGER NOT NULL);"
	"INSERT INTO meta VALUES (0, 0, 0, 0, 0, 0);"
	/* state: enum wr_deferred_state without `delivering`. Times in µs. gone: when the ticket is
	 * to be forgotten, of what is finished */
	"CREATE TABLE request (id INTEGER PRIMARY KEY, ticket BLOB NOT NULL, key BLOB NOT NULL,"
	" rule TEXT NOT NULL, state INTEGER NOT NULL, tries INTEGER NOT NULL,"
	" max_tries INTEGER NOT NULL, max_age INTEGER NOT NULL, interval INTEGER NOT NULL, "
	"accepted INTEGER NOT NULL,"
	" due INTEGER NOT NULL, expires INTEGER NOT NULL, done INTEGER, gone INTEGER,"
	" status INTEGER, reason TEXT, bytes INTEGER NOT NULL, body_len INTEGER NOT NULL);"
	"CREATE INDEX request_gone ON request (gone) WHERE gone IS NOT NULL;"
	"CREATE TABLE content (id INTEGER PRIMARY KEY, head BLOB NOT NULL, body BLOB NOT NULL);"
	"PRAGMA application_id = 2003134834;" DELIVERED "COMMIT;";

static const char from_1[] = "BEGIN IMMEDIATE;" DELIVERED "COMMIT;";

/* Of dead letters alone, which are few; files of before have none. */
static const char dead[] =
	"CREATE INDEX IF NOT EXISTS request_dead ON request (gone) WHERE state = 3;";

/* Indexes of keys and tickets are in memory: on disk each request would change a page of its own in
 * them, and the pages of a commit, not its sync, would be what takes time. */
static const char memory[] =
	"CREATE TEMP TABLE ticket (hash BLOB, id INTEGER, PRIMARY KEY (hash, id)) WITHOUT ROWID;"
	"INSERT INTO ticket SELECT substr(ticket, 1, 8), id FROM request ORDER BY 1;";

static enum wr_queue_reason failed(struct wr_sqlite *sqlite, int rc, struct weir_error *error)
{
	wr_error(error, WEIR_ESYS, "the queue's file %s: %s", sqlite->path,
		 sqlite3_errmsg(sqlite->db));
	return wr_sqlite_reason(sqlite, rc);
}

/* The number that a query gives; 0 if there is none. */
static int ask(struct wr_sqlite *sqlite, const char *query, int64_t *number)
{
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, query, -1, &sql, NULL);

	*number = 0;
	if (rc == SQLITE_OK && (rc = sqlite3_step(sql)) == SQLITE_ROW) {
		*number = sqlite3_column_int64(sql, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Reads every page, though not every entry of every index. */
static enum wr_queue_reason check_sound(struct wr_sqlite *sqlite, struct weir_error *error)
{
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, "PRAGMA quick_check(1)", -1, &sql, NULL);
	const char *said = NULL;
	enum wr_queue_reason reason = WR_QUEUE_OK;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(sql);
	if (rc == SQLITE_ROW)
		said = (const char *)sqlite3_column_text(sql, 0);
	if (rc != SQLITE_ROW) {
		reason = failed(sqlite, rc, error);
	} else if (!said || strcmp(said, "ok") != 0) {
		wr_error(error, WEIR_EFORMAT, "%s", said ? said : "no memory to check it");
		reason = said ? WR_QUEUE_CORRUPT : WR_QUEUE_FAILED;
	}
	sqlite3_finalize(sql);
	return reason;
}

/* Whose file it is, and of which version; a new one gets its tables. */
static enum wr_queue_reason check_kind(struct wr_sqlite *sqlite, struct weir_error *error)
{
	int64_t application, version, tables;
	int rc = ask(sqlite, "PRAGMA application_id", &application);

	if (rc == SQLITE_OK)
		rc = ask(sqlite, "PRAGMA user_version", &version);
	if (rc == SQLITE_OK)
		rc = ask(sqlite, "SELECT count(*) FROM sqlite_schema", &tables);
	if (rc != SQLITE_OK)
		return failed(sqlite, rc, error);
	if (tables == 0 && application == 0) {
		rc = sqlite3_exec(sqlite->db, schema, NULL, NULL, NULL);
		return rc == SQLITE_OK ? WR_QUEUE_OK : failed(sqlite, rc, error);
	}
	if (application == APPLICATION && version == 1) {
		rc = sqlite3_exec(sqlite->db, from_1, NULL, NULL, NULL);
		return rc == SQLITE_OK ? WR_QUEUE_OK : failed(sqlite, rc, error);
	}
	if (application == APPLICATION && version == VERSION)
		return WR_QUEUE_OK;
	wr_error(error, WEIR_EFORMAT,
		 application == APPLICATION
			 ? "the queue's file %s is of another version of weir; "
			   "deliver what is in it with that, or name another folder"
			 : "%s is a database, but no queue of weir; name another "
			   "folder",
		 sqlite->path);
	return WR_QUEUE_FAILED;
}

static int count_states(struct wr_sqlite *sqlite)
{
	static const char query[] =
		"SELECT iif(d.id IS NULL, state, 2), count(*), sum(iif(d.id IS NULL, bytes, 0)) "
		"FROM request AS r LEFT JOIN delivered AS d ON d.id = r.id GROUP BY 1";
	struct wr_sqlite_counts *counts = &sqlite->counts;
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, query, -1, &sql, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		uint64_t count;

		rc = sqlite3_step(sql);
		if (rc != SQLITE_ROW)
			break;
		count = (uint64_t)sqlite3_column_int64(sql, 1);
		counts->bytes += (uint64_t)sqlite3_column_int64(sql, 2);
		switch (sqlite3_column_int(sql, 0)) {
		case WR_DEFERRED_WAITING:
			counts->waiting = count;
			break;
		case WR_DEFERRED_DEAD:
			counts->dead = count;
			counts->dead_bytes = (uint64_t)sqlite3_column_int64(sql, 2);
			break;
		default:
			counts->tickets += count;
		}
	}
	sqlite3_finalize(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_meta(struct wr_sqlite *sqlite, uint64_t *last_us)
{
	struct wr_sqlite_counts *counts = &sqlite->counts;
	uint64_t *const to[] = {last_us,
				&counts->put_total,
				&counts->delivered_total,
				&counts->retried_total,
				&counts->dead_total,
				&counts->dropped_total};
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, "SELECT * FROM meta", -1, &sql, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(sql);
	for (int i = 0; rc == SQLITE_ROW && i < 6; i++)
		*to[i] = (uint64_t)sqlite3_column_int64(sql, i);
	sqlite3_finalize(sql);
	return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

/* Those that wait, in their order. */
static int read_lines(struct wr_sqlite *sqlite)
{
	static const char query[] = "SELECT key, r.id, min(due, expires), bytes FROM request AS r "
				    "LEFT JOIN delivered AS d ON d.id = r.id "
				    "WHERE state = 0 AND d.id IS NULL ORDER BY r.id";
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, query, -1, &sql, NULL);

	wr_queue_lines_clear(&sqlite->lines);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(sql);
	for (; rc == SQLITE_ROW; rc = sqlite3_step(sql)) {
		const uint8_t *key = sqlite3_column_blob(sql, 0);
		struct wr_queue_position place = {(uint64_t)sqlite3_column_int64(sql, 1),
						  (uint64_t)sqlite3_column_int64(sql, 2),
						  (uint64_t)sqlite3_column_int64(sql, 3)};

		if (!key || sqlite3_column_bytes(sql, 0) != WR_LINE_KEY_BYTES) {
			rc = SQLITE_CORRUPT;
			break;
		}
		if (!wr_queue_lines_join(&sqlite->lines, key, place)) {
			rc = SQLITE_NOMEM;
			break;
		}
		wr_queue_lines_commit(&sqlite->lines);
	}
	sqlite3_finalize(sql);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_counts(struct wr_sqlite *sqlite, uint64_t *last_us)
{
	int64_t last_id = 0, unswept = 0;
	int rc = sqlite3_exec(sqlite->db, dead, NULL, NULL, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(sqlite->db, memory, NULL, NULL, NULL);
	sqlite->counts = (struct wr_sqlite_counts){0};
	if (rc == SQLITE_OK)
		rc = read_lines(sqlite);
	if (rc == SQLITE_OK)
		rc = count_states(sqlite);
	if (rc == SQLITE_OK)
		rc = read_meta(sqlite, last_us);
	if (rc == SQLITE_OK)
		rc = ask(sqlite, "SELECT max(id) FROM request", &last_id);
	if (rc == SQLITE_OK)
		rc = ask(sqlite, "SELECT count(*) FROM delivered", &unswept);
	/* Numbers are not given twice even when the newest was forgotten: put_total counts all. */
	sqlite->counts.last_id = (uint64_t)last_id > sqlite->counts.put_total
					 ? (uint64_t)last_id
					 : sqlite->counts.put_total;
	sqlite->counts.lines = sqlite->lines.line_count;
	sqlite->counts.unswept = (uint64_t)unswept;
	sqlite->committed = sqlite->counts;
	return rc;
}

static const char *sql_of(enum wr_sqlite_sql which)
{
	switch (which) { /* clang takes statements of several literals in an array for a slip */
#define LITE_TEXT(name, sql)                                                                       \
	case WR_SQL_##name:                                                                        \
		return sql;
		WR_SQLITE_SQL(LITE_TEXT)
#undef LITE_TEXT
	default:
		return NULL;
	}
}

static int prepare_sql(struct wr_sqlite *sqlite)
{
	int rc = SQLITE_OK;

	for (unsigned i = 0; i < WR_SQL_COUNT && rc == SQLITE_OK; i++)
		rc = sqlite3_prepare_v3(sqlite->db, sql_of((enum wr_sqlite_sql)i), -1,
					SQLITE_PREPARE_PERSISTENT, &sqlite->sql[i], NULL);
	return rc;
}

enum wr_queue_reason wr_sqlite_prepare(struct wr_sqlite *sqlite, uint64_t wall_us,
				       struct weir_error *error)
{
	enum wr_queue_reason reason;
	uint64_t last_us = 0;
	int rc = sqlite3_exec(sqlite->db, first, NULL, NULL, NULL);

	if (rc != SQLITE_OK)
		return failed(sqlite, rc, error);
	reason = check_sound(sqlite, error);
	if (reason == WR_QUEUE_OK)
		reason = check_kind(sqlite, error);
	if (reason != WR_QUEUE_OK)
		return reason;
	rc = read_counts(sqlite, &last_us);
	if (rc == SQLITE_OK)
		rc = prepare_sql(sqlite);
	wr_sqlite_watch_wal(sqlite);
	if (rc != SQLITE_OK)
		return failed(sqlite, rc, error);
	/* The clock may have been set back, or be wrong since the machine started. */
	sqlite->now_us = wall_us > last_us ? wall_us : last_us;
	return WR_QUEUE_OK;
}
