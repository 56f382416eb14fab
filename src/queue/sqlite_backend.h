/* The SQLite backend: a queue in its own folder. Private to sqlite_*.c. The folder contains these
 * files, with mode 0600:
 *
 *   queue.db
 *
 *     table request: a row for each request; sqlite_tidy.c deletes the row later
 *
 *     table content: head and body of waiting and dead requests
 *
 *     table delivered: ids of delivered requests whose rows have not been updated yet
 *
 *   queue.db-wal: SQLite's write-ahead log
 *
 *   queue.lock: locked by the process that uses the folder
 *
 * Two things are only in memory: the lines of waiting requests (sqlite_lines.h), which also record
 * the requests in delivery, and a temporary table that maps tickets to rows. Transactions change
 * the lines and this table too, but without disk writes. When the process ends, the lines are lost,
 * so a request that was in delivery waits again. */
#ifndef WR_QUEUE_SQLITE_BACKEND_H
#define WR_QUEUE_SQLITE_BACKEND_H

#include <limits.h>
#include <sqlite3.h>

#include "queue/sqlite_lines.h"
#include "queue/backend.h"

/* X(enum, SQL): the statements that are prepared when the file is opened */
#define WR_SQLITE_SQL(X)                                                                           \
	X(BEGIN, "BEGIN")                                                                          \
	X(COMMIT, "COMMIT")                                                                        \
	X(ROLLBACK, "ROLLBACK")                                                                    \
	X(SAVE, "UPDATE meta SET now = ?1, put = ?2, delivered = ?3, retried = ?4, dead = ?5, "    \
		"dropped = ?6")                                                                    \
	X(PUT, "INSERT INTO request (id, ticket, key, rule, state, tries, max_tries, max_age, "    \
	       "interval, accepted, due, expires, bytes, body_len) "                               \
	       "VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?8 + ?9, ?8 + ?6, ?10, ?11)")        \
	X(PUT_CONTENT, "INSERT INTO content (id, head, body) VALUES (?1, ?2, ?3)")                 \
	X(TRIES, "SELECT tries, max_tries, expires, bytes FROM request WHERE id = ?1")             \
	X(RETRY_LATER,                                                                             \
	  "UPDATE request SET tries = tries + ?5, due = ?2, status = ?3, reason = ?4 "             \
	  "WHERE id = ?1")                                                                         \
	X(FINISH, "UPDATE request SET state = ?2, tries = tries + ?3, done = ?4, gone = ?5, "      \
		  "status = ?6, reason = ?7, bytes = ?8 WHERE id = ?1")                            \
	X(DELETE_CONTENT, "DELETE FROM content WHERE id = ?1")                                     \
	X(REVIVE, "UPDATE request SET state = 0, tries = 0, due = ?2, expires = ?2 + max_age, "    \
		  "done = NULL, gone = NULL WHERE id = ?1")                                        \
	X(NOW_DUE, "UPDATE request SET due = ?2 WHERE id = ?1")                                    \
	X(TICKET, "INSERT INTO ticket (hash, id) VALUES (?1, ?2)")                                 \
	X(DELETE_TICKET, "DELETE FROM ticket WHERE hash = ?1 AND id = ?2")                         \
	X(BY_TICKET, "SELECT r.id FROM ticket AS t JOIN request AS r ON r.id = t.id "              \
		     "WHERE t.hash = ?1 AND r.ticket = ?2")                                        \
	X(ROW, "SELECT ticket, key, rule, state, tries, max_tries, interval, accepted, due, "      \
	       "expires, done, status, reason, body_len, bytes FROM request WHERE id = ?1")        \
	X(WHOLE, "SELECT ticket, key, rule, state, tries, max_tries, interval, accepted, due, "    \
		 "expires, done, status, reason, body_len, bytes, head, body "                     \
		 "FROM request AS r LEFT JOIN content AS c ON c.id = r.id WHERE r.id = ?1")        \
	X(DELIVERED, "INSERT INTO delivered (id, status, done) VALUES (?1, ?2, ?3)")               \
	/* state 2 is WR_QUEUE_REQUEST_DELIVERED */                                                \
	X(SWEEP_ROWS, "UPDATE request SET state = 2, reason = NULL, bytes = 0, "                   \
		      "(done, gone, status) = (SELECT done, done + ?1, status FROM delivered "     \
		      "AS d WHERE d.id = request.id) WHERE id IN (SELECT id FROM delivered)")      \
	X(SWEEP_CONTENT, "DELETE FROM content WHERE id IN (SELECT id FROM delivered)")             \
	X(SWEEP_DONE, "DELETE FROM delivered")                                                     \
	X(PAGE, "SELECT id, key, rule, state FROM request WHERE id > ?1 ORDER BY id LIMIT ?2")     \
	X(ACCEPTED, "SELECT accepted FROM request WHERE id = ?1")                                  \
	/* finds expired rows; dead letters (state 3) only if parameter ?3 is not 0 */             \
	X(EXPIRED,                                                                                 \
	  "SELECT id, state, bytes, ticket FROM request WHERE gone <= ?1 AND (?3 OR state <> 3) "  \
	  "ORDER BY gone LIMIT ?2")                                                                \
	X(DEAD, "SELECT id, state, bytes, ticket FROM request WHERE state = 3 "                    \
		"ORDER BY gone LIMIT ?1")                                                          \
	X(DELETE_REQUEST, "DELETE FROM request WHERE id = ?1")                                     \
	X(VACUUM, "PRAGMA incremental_vacuum(256)")

enum wr_sqlite_sql {
#define WR_SQLITE_ENUM(name, sql) WR_SQL_##name,
	WR_SQLITE_SQL(WR_SQLITE_ENUM)
#undef WR_SQLITE_ENUM
		WR_SQL_COUNT
};

/* A line that changed in the current transaction. The change is reported after the commit. */
struct wr_sqlite_change {
	uint8_t key[WR_LINE_KEY_BYTES];
	uint64_t waiting;
};

/* Counters of requests. Each change of a request updates the counters, so that no query has to
 * count rows. A rollback restores the counters. */
struct wr_sqlite_counts {
	uint64_t waiting, delivering, dead, bytes, tickets, lines;
	uint64_t dead_bytes; /* the part of `bytes` that belongs to dead letters */
	uint64_t put_total, delivered_total, retried_total, dead_total, dropped_total;
	uint64_t last_id;
	uint64_t unswept; /* number of rows in table `delivered` */
	bool touched;     /* true if the current transaction has changed the file */
};

struct wr_sqlite {
	struct wr_queue_backend backend;
	const char *folder;
	char path[PATH_MAX];
	int lock;
	sqlite3 *db;
	sqlite3_stmt *sql[WR_SQL_COUNT];
	struct wr_queue_lines lines;
	struct wr_sqlite_counts counts, committed;
	uint64_t commits;
	uint64_t fence;     /* number of the latest take; takes are numbered from 1 */
	uint64_t old_fence; /* number of the latest take before the file was opened */
	uint64_t ahead_us;  /* difference: the queue's time − the monotonic clock */
	uint64_t now_us;    /* the queue's time when the current batch of jobs began */
	uint64_t wall_us;   /* the wall clock at now_us */
	uint64_t space;     /* bytes of disk space that are left for the puts of this transaction */
	/* number of pages that are in the write-ahead log and not yet in the file */
	uint64_t wal_pages;
	uint64_t full_us; /* the queue's time when a full disk was last logged; 0: never */
	bool removed;     /* true if the file was removed and its removal was logged */
	/* array of struct wr_sqlite_change: lines to report after the commit */
	struct wr_buf changes;
};

/* sqlite_file.c: opens folder, lock and file. Returns WR_QUEUE_OK. On failure returns the reason,
 * fills in *error and closes everything again. */
enum wr_queue_reason wr_sqlite_open(struct wr_sqlite *sqlite, struct wr_queue_moment now,
				    struct weir_error *error);
void wr_sqlite_close(struct wr_sqlite *sqlite);

/* Returns true if the open file was removed or renamed. The open file still works, but the next
 * process will not find the requests in it. */
bool wr_sqlite_is_removed(struct wr_sqlite *sqlite);

/* Returns the reason with which a job fails after this result code of SQLite. */
enum wr_queue_reason wr_sqlite_reason(struct wr_sqlite *sqlite, int rc);

/* sqlite_schema.c: checks the file, creates its tables, prepares the statements, and reads counters
 * and lines into memory. Sets sqlite->now_us. Returns WR_QUEUE_OK, or a reason with *error filled
 * in. */
enum wr_queue_reason wr_sqlite_prepare(struct wr_sqlite *sqlite, uint64_t wall_us,
				       struct weir_error *error);

#define WR_SQLITE_HASH_BYTES 8 /* the index of tickets contains this many bytes of each hash */

/* sqlite_backend.c: returns a prepared statement after a reset, without bindings. */
sqlite3_stmt *wr_sqlite_statement(struct wr_sqlite *sqlite, enum wr_sqlite_sql which);

/* Runs a statement that returns no rows. Returns SQLITE_OK or an error code of SQLite. */
int wr_sqlite_execute(sqlite3_stmt *sql);

/* Like wr_sqlite_execute(), for a prepared statement whose parameters are `count` numbers. */
int wr_sqlite_run(struct wr_sqlite *sqlite, enum wr_sqlite_sql which, const uint64_t *numbers,
		  size_t count);

/* Ends a transaction of the periodic work. The periodic work changes the file, but no line.
 * Commits if rc is SQLITE_OK. If rc is an error or the commit fails, rolls back the file and the
 * counters. Returns SQLITE_OK or the error. */
int wr_sqlite_end_transaction(struct wr_sqlite *sqlite, int rc);

/* Sets *number to the first column of the first row that the query returns; 0 if the query returns
 * no row. Returns SQLITE_OK or an error code of SQLite. */
int wr_sqlite_query_number(struct wr_sqlite *sqlite, const char *query, int64_t *number);

/* Records that a line changed, so that the change is reported after the commit. Returns SQLITE_OK
 * or SQLITE_NOMEM. */
int wr_sqlite_record_change(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t waiting);

/* Each of these functions does one job. Returns SQLITE_OK with job->reason and the results set.
 * After any other return value the caller rolls the whole transaction back. */
int wr_sqlite_put(struct wr_sqlite *sqlite, struct wr_queue_job *job);    /* in sqlite_put.c */
int wr_sqlite_take(struct wr_sqlite *sqlite, struct wr_queue_job *job);   /* in sqlite_take.c */
int wr_sqlite_settle(struct wr_sqlite *sqlite, struct wr_queue_job *job); /* in sqlite_settle.c */
int wr_sqlite_ticket(struct wr_sqlite *sqlite, struct wr_queue_job *job); /* in sqlite_page.c */
int wr_sqlite_page(struct wr_sqlite *sqlite, struct wr_queue_job *job);
int wr_sqlite_stats(struct wr_sqlite *sqlite, struct wr_queue_job *job);
int wr_sqlite_recount(struct wr_sqlite *sqlite);

/* sqlite_steps.c: steps that several jobs share. The functions that return int return SQLITE_OK or
 * an error code of SQLite. */

/* The state of a line. All members are 0 if no request waits in the line. */
struct wr_sqlite_line {
	uint64_t head, waiting, fence;
	/* size in bytes of the line's head while the head is in delivery; otherwise 0 */
	uint64_t bytes;
	uint64_t held; /* size of all waiting requests of the line in bytes */
};
struct wr_sqlite_line wr_sqlite_line_state(const struct wr_sqlite *sqlite, const uint8_t *key);

/* sqlite_put.c: returns WR_QUEUE_OK if the queue has room for one more request of this size in the
 * line. Otherwise returns a reason, which says which maximum of the queue is reached. */
enum wr_queue_reason wr_sqlite_check_bounds(const struct wr_sqlite *sqlite,
					    const struct wr_sqlite_line *line, uint64_t bytes,
					    uint64_t max_waiting);

/* Sets the time when a request is due. A request in delivery waits again after this call. */
int wr_sqlite_line_set_due(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t id,
			   uint64_t due_us);

/* Adds a request to its line. `line` is the state of the line before this call. */
int wr_sqlite_line_join(struct wr_sqlite *sqlite, const uint8_t *key,
			struct wr_queue_position position, const struct wr_sqlite_line *line);

/* Removes a request from its line. Called after the request's row was changed. */
int wr_sqlite_line_leave(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t id);

/* Describes how a waiting or dead request ends. `state` is the new state: dead, dropped or
 * delivered. `bytes` is the size of the request. If the new state is dropped or delivered, this
 * size is subtracted from the size of the queue. The size of a dead request still counts. */
struct wr_sqlite_outcome {
	uint64_t id;
	enum wr_queue_request_state state;
	bool tried; /* true: add 1 to the tries in the row */
	uint16_t status;
	struct weir_str reason;
	uint64_t bytes;
};
int wr_sqlite_finish(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end);

/* sqlite_sweep.c: records a delivery as a short row in table `delivered`. Later a sweep updates the
 * rows of many delivered requests at once and deletes their heads and bodies. */
int wr_sqlite_finish_delivered(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end);

/* A sweep updates the rows of all requests in table `delivered`, deletes their heads and bodies,
 * and empties the table. wr_sqlite_sweep() runs a sweep. wr_sqlite_sweep_if_due() runs a sweep only
 * if the table has many rows. Both functions work within the current transaction. */
int wr_sqlite_sweep(struct wr_sqlite *sqlite);
int wr_sqlite_sweep_if_due(struct wr_sqlite *sqlite);

/* Like wr_sqlite_sweep(), but in its own transaction. */
int wr_sqlite_sweep_now(struct wr_sqlite *sqlite);

/* The size of a request, and the columns of its row that decide whether it is tried again. */
struct wr_sqlite_row_limits {
	uint64_t tries, max_tries, expires_us, bytes;
};
int wr_sqlite_read_limits(struct wr_sqlite *sqlite, uint64_t id, struct wr_sqlite_row_limits *at);

/* `depth` says which parts of a request wr_sqlite_read() reads. If there is no such request,
 * wr_sqlite_read() sets *row to NULL. Otherwise the caller frees *row. */
enum wr_sqlite_depth {
	/* reads the row without head and body: state, times, counts, sizes, hash of the ticket,
	 * key, rule, and the reason why the latest delivery attempt failed */
	WR_SQLITE_ROW,
	WR_SQLITE_HEAD, /* also reads the head: URI, fields, … */
	WR_SQLITE_ALL,  /* also reads the body; secret fields stay encrypted */
	WR_SQLITE_OPEN, /* reads everything and decrypts secret fields */
};
int wr_sqlite_read(struct wr_sqlite *sqlite, uint64_t id, enum wr_sqlite_depth depth,
		   struct wr_queue_request **row);

/* sqlite_space.c: wr_sqlite_space_check() is called before the transaction that does `jobs`. If one
 * of these jobs is a put, the function measures the free disk space. In the transaction, each put
 * reserves space with wr_sqlite_space_reserve(), which returns false if there is not enough. */
void wr_sqlite_space_check(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count);
bool wr_sqlite_space_reserve(struct wr_sqlite *sqlite, uint64_t bytes);

/* Called after the transaction. Logs, at most once a minute, that jobs were refused because the
 * disk is full. */
void wr_sqlite_space_report(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count);

/* A checkpoint copies the write-ahead log into the file; it is possible only between transactions.
 * wr_sqlite_checkpoint() runs a checkpoint, and truncates the log if `truncate` is set.
 * wr_sqlite_checkpoint_if_due() runs a checkpoint only if the log is long. wr_sqlite_watch_wal()
 * makes SQLite report the length of the log after each commit. */
void wr_sqlite_watch_wal(struct wr_sqlite *sqlite);
void wr_sqlite_checkpoint_if_due(struct wr_sqlite *sqlite);
void wr_sqlite_checkpoint(struct wr_sqlite *sqlite, bool truncate);

/* sqlite_tidy.c: deletes expired tickets and dead letters, and frees disk space. */
void wr_sqlite_tidy(struct wr_sqlite *sqlite);

#endif
