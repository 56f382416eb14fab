/* Checks a queue's file, creates or upgrades its tables, and reads lines and counters into memory.
 * Called by sqlite_file.c. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "queue/sqlite_backend.h"

#define APPLICATION 0x77656972 /* the letters "weir"; marks the file as a queue of weir */
#define VERSION 2

/* These settings are made before the first access to the file. With exclusive locking, SQLite keeps
 * the index of its log in heap memory. Otherwise the index would be in a mapped file, where a full
 * disk could cause a SIGBUS. */
static const char pragmas[] = "PRAGMA locking_mode = EXCLUSIVE;"
			      "PRAGMA auto_vacuum = INCREMENTAL;"
			      "PRAGMA journal_mode = WAL;"
			      "PRAGMA synchronous = FULL;"
			      "PRAGMA secure_delete = FAST;"
			      "PRAGMA temp_store = MEMORY;"
			      "PRAGMA cache_size = -16384;"
			      "PRAGMA journal_size_limit = 33554432;"
			      "PRAGMA cell_size_check = ON;"
			      "PRAGMA trusted_schema = OFF;";

/* Creates the table that version 2 of the schema added. */
#define DELIVERED                                                                                  \
	"CREATE TABLE delivered (id INTEGER PRIMARY KEY, status INTEGER NOT NULL,"                 \
	" done INTEGER NOT NULL);"                                                                 \
	"PRAGMA user_version = 2;"

static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE meta (now INTEGER NOT NULL, put INTEGER NOT NULL, delivered INTEGER NOT NULL,"
	" retried INTEGER NOT NULL, dead INTEGER NOT NULL, dropped INTEGER NOT NULL);"
	"INSERT INTO meta VALUES (0, 0, 0, 0, 0, 0);"
	/* state: enum wr_queue_request_state without `delivering`. Times are in µs. gone: the time
	 * when the row of a delivered, dropped or dead request expires. */
	"CREATE TABLE request (id INTEGER PRIMARY KEY, ticket BLOB NOT NULL, key BLOB NOT NULL,"
	" rule TEXT NOT NULL, state INTEGER NOT NULL, tries INTEGER NOT NULL,"
	" max_tries INTEGER NOT NULL, max_age INTEGER NOT NULL, interval INTEGER NOT NULL, "
	"accepted INTEGER NOT NULL,"
	" due INTEGER NOT NULL, expires INTEGER NOT NULL, done INTEGER, gone INTEGER,"
	" status INTEGER, reason TEXT, bytes INTEGER NOT NULL, body_len INTEGER NOT NULL);"
	"CREATE INDEX request_gone ON request (gone) WHERE gone IS NOT NULL;"
	"CREATE TABLE content (id INTEGER PRIMARY KEY, head BLOB NOT NULL, body BLOB NOT NULL);"
	"PRAGMA application_id = 2003134834;" DELIVERED "COMMIT;";

static const char upgrade_from_1[] = "BEGIN IMMEDIATE;" DELIVERED "COMMIT;";

/* An index of dead letters only, so that the index is small. A file of an older version gets this
 * index when the file is opened. */
static const char dead_index[] =
	"CREATE INDEX IF NOT EXISTS request_dead ON request (gone) WHERE state = 3;";

/* The index of tickets is in memory, because tickets are random. On disk, each request would change
 * a different page of the index, and writing these pages would take longer than the sync of a
 * commit. */
static const char ticket_index[] =
	"CREATE TEMP TABLE ticket (hash BLOB, id INTEGER, PRIMARY KEY (hash, id)) WITHOUT ROWID;"
	"INSERT INTO ticket SELECT substr(ticket, 1, 8), id FROM request ORDER BY 1;";

static enum wr_queue_reason report_failure(struct wr_sqlite *sqlite, int rc,
					   struct weir_error *error)
{
	wr_error(error, WEIR_ESYS, "the queue's file %s: %s", sqlite->path,
		 sqlite3_errmsg(sqlite->db));
	return wr_sqlite_reason(sqlite, rc);
}

/* Checks every page of the file for damage. Skips the comparison of indexes with tables. */
static enum wr_queue_reason check_integrity(struct wr_sqlite *sqlite, struct weir_error *error)
{
	sqlite3_stmt *sql = NULL;
	int rc = sqlite3_prepare_v2(sqlite->db, "PRAGMA quick_check(1)", -1, &sql, NULL);
	const char *result = NULL;
	enum wr_queue_reason reason = WR_QUEUE_OK;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(sql);
	if (rc == SQLITE_ROW)
		result = (const char *)sqlite3_column_text(sql, 0);
	if (rc != SQLITE_ROW) {
		reason = report_failure(sqlite, rc, error);
	} else if (!result || strcmp(result, "ok") != 0) {
		wr_error(error, WEIR_EFORMAT, "%s",
			 result ? result : "out of memory during the check of the queue's file");
		reason = result ? WR_QUEUE_CORRUPT : WR_QUEUE_FAILED;
	}
	sqlite3_finalize(sql);
	return reason;
}

/* Checks that the file is a queue of a known version. Creates the tables in a new file and upgrades
 * a file of an older version. */
static enum wr_queue_reason check_version(struct wr_sqlite *sqlite, struct weir_error *error)
{
	int64_t application, version, tables;
	int rc = wr_sqlite_query_number(sqlite, "PRAGMA application_id", &application);

	if (rc == SQLITE_OK)
		rc = wr_sqlite_query_number(sqlite, "PRAGMA user_version", &version);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_query_number(sqlite, "SELECT count(*) FROM sqlite_schema", &tables);
	if (rc != SQLITE_OK)
		return report_failure(sqlite, rc, error);
	if (application == APPLICATION && version == VERSION)
		return WR_QUEUE_OK;
	if ((tables == 0 && application == 0) || (application == APPLICATION && version == 1)) {
		rc = sqlite3_exec(sqlite->db, application == 0 ? schema : upgrade_from_1, NULL,
				  NULL, NULL);
		return rc == SQLITE_OK ? WR_QUEUE_OK : report_failure(sqlite, rc, error);
	}
	wr_error(error, WEIR_EFORMAT,
		 application == APPLICATION
			 ? "the queue's file %s was written by another version of weir; "
			   "deliver its requests with that version, or name another folder"
			 : "%s is a SQLite database, but not a queue of weir; name another "
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
		case WR_QUEUE_REQUEST_WAITING:
			counts->waiting = count;
			break;
		case WR_QUEUE_REQUEST_DEAD:
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

/* Reads all waiting requests into lines, in order of their ids. */
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
		struct wr_queue_position position = {(uint64_t)sqlite3_column_int64(sql, 1),
						     (uint64_t)sqlite3_column_int64(sql, 2),
						     (uint64_t)sqlite3_column_int64(sql, 3)};

		if (!key || sqlite3_column_bytes(sql, 0) != WR_LINE_KEY_BYTES) {
			rc = SQLITE_CORRUPT;
			break;
		}
		if (!wr_queue_lines_join(&sqlite->lines, key, position)) {
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
	int rc = sqlite3_exec(sqlite->db, dead_index, NULL, NULL, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(sqlite->db, ticket_index, NULL, NULL, NULL);
	sqlite->counts = (struct wr_sqlite_counts){0};
	if (rc == SQLITE_OK)
		rc = read_lines(sqlite);
	if (rc == SQLITE_OK)
		rc = count_states(sqlite);
	if (rc == SQLITE_OK)
		rc = read_meta(sqlite, last_us);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_query_number(sqlite, "SELECT max(id) FROM request", &last_id);
	if (rc == SQLITE_OK)
		rc = wr_sqlite_query_number(sqlite, "SELECT count(*) FROM delivered", &unswept);
	/* An id must not be used twice, even if the row with the highest id was deleted. put_total
	 * counts all puts, also those of deleted rows. So new ids start above put_total and above
	 * all ids in the file. */
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
	/* A switch is used instead of an array, because some of the texts consist of several string
	 * literals, and clang warns about such elements of an array. */
	switch (which) {
#define SQL_TEXT(name, sql)                                                                        \
	case WR_SQL_##name:                                                                        \
		return sql;
		WR_SQLITE_SQL(SQL_TEXT)
#undef SQL_TEXT
	default:
		return NULL;
	}
}

enum wr_queue_reason wr_sqlite_prepare(struct wr_sqlite *sqlite, uint64_t wall_us,
				       struct weir_error *error)
{
	enum wr_queue_reason reason;
	uint64_t last_us = 0;
	int rc = sqlite3_exec(sqlite->db, pragmas, NULL, NULL, NULL);

	wr_assert(sqlite->db);
	if (rc != SQLITE_OK)
		return report_failure(sqlite, rc, error);
	reason = check_integrity(sqlite, error);
	if (reason == WR_QUEUE_OK)
		reason = check_version(sqlite, error);
	if (reason != WR_QUEUE_OK)
		return reason;
	rc = read_counts(sqlite, &last_us);
	for (unsigned i = 0; i < WR_SQL_COUNT && rc == SQLITE_OK; i++)
		rc = sqlite3_prepare_v3(sqlite->db, sql_of((enum wr_sqlite_sql)i), -1,
					SQLITE_PREPARE_PERSISTENT, &sqlite->sql[i], NULL);
	wr_sqlite_watch_wal(sqlite);
	if (rc != SQLITE_OK)
		return report_failure(sqlite, rc, error);
	/* The queue's time starts at the saved time or later. So the queue's time does not go back
	 * if the wall clock was set back or is wrong. */
	sqlite->now_us = wall_us > last_us ? wall_us : last_us;
	return WR_QUEUE_OK;
}
