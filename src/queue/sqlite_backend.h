/* The queue in a folder of its own, by SQLite. Private to lite*.c.
 *
 *   queue.db       0600; request: a row for each, also for what is finished, as long as its ticket
 *                  is remembered. content: head and body of those that wait or are dead.
 *                  delivered: of those that were a moment ago, before that is noted in their rows
 *   queue.db-wal   0600; what was committed last
 *   queue.lock     0600; whose folder it is
 *
 * In memory is who waits in which line, which line is due and who has taken its head
 * (lite_waiting.h), and in a temporary table where a ticket's row is. Both take part in
 * transactions, cost no write to the disk, and are gone with the process: a request that was taken
 * by one that died waits again. */
#ifndef WR_QUEUE_SQLITE_BACKEND_H
#define WR_QUEUE_SQLITE_BACKEND_H

#include <limits.h>
#include <sqlite3.h>

#include "queue/sqlite_lines.h"
#include "queue/backend.h"

/* X(enum, SQL): prepared when the file is opened. */
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
	X(AGAIN, "UPDATE request SET tries = tries + ?5, due = ?2, status = ?3, reason = ?4 "      \
		 "WHERE id = ?1")                                                                  \
	X(FINISH, "UPDATE request SET state = ?2, tries = tries + ?3, done = ?4, gone = ?5, "      \
		  "status = ?6, reason = ?7, bytes = ?8 WHERE id = ?1")                            \
	X(CONTENT_GONE, "DELETE FROM content WHERE id = ?1")                                       \
	X(REVIVE, "UPDATE request SET state = 0, tries = 0, due = ?2, expires = ?2 + max_age, "    \
		  "done = NULL, gone = NULL WHERE id = ?1")                                        \
	X(NOW_DUE, "UPDATE request SET due = ?2 WHERE id = ?1")                                    \
	X(TICKET, "INSERT INTO ticket (hash, id) VALUES (?1, ?2)")                                 \
	X(TICKET_GONE, "DELETE FROM ticket WHERE hash = ?1 AND id = ?2")                           \
	X(BY_TICKET, "SELECT r.id FROM ticket AS t JOIN request AS r ON r.id = t.id "              \
		     "WHERE t.hash = ?1 AND r.ticket = ?2")                                        \
	X(ROW, "SELECT ticket, key, rule, state, tries, max_tries, interval, accepted, due, "      \
	       "expires, done, status, reason, body_len, bytes FROM request WHERE id = ?1")        \
	X(WHOLE, "SELECT ticket, key, rule, state, tries, max_tries, interval, accepted, due, "    \
		 "expires, done, status, reason, body_len, bytes, head, body "                     \
		 "FROM request AS r LEFT JOIN content AS c ON c.id = r.id WHERE r.id = ?1")        \
	X(DELIVERED, "INSERT INTO delivered (id, status, done) VALUES (?1, ?2, ?3)")               \
	/* 2 is delivered */                                                                       \
	X(SWEEP_ROWS, "UPDATE request SET state = 2, reason = NULL, bytes = 0, "                   \
		      "(done, gone, status) = (SELECT done, done + ?1, status FROM delivered "     \
		      "AS d WHERE d.id = request.id) WHERE id IN (SELECT id FROM delivered)")      \
	X(SWEEP_CONTENT, "DELETE FROM content WHERE id IN (SELECT id FROM delivered)")             \
	X(SWEEP_DONE, "DELETE FROM delivered")                                                     \
	X(PAGE, "SELECT id, key, rule, state FROM request WHERE id > ?1 ORDER BY id LIMIT ?2")     \
	X(LAST_ID, "SELECT max(id) FROM request")                                                  \
	X(ACCEPTED, "SELECT accepted FROM request WHERE id = ?1")                                  \
	/* 3 is dead: with ?3 = 0 only tickets are found, which have no request behind them */     \
	X(GONE,                                                                                    \
	  "SELECT id, state, bytes, ticket FROM request WHERE gone <= ?1 AND (?3 OR state <> 3) "  \
	  "ORDER BY gone LIMIT ?2")                                                                \
	X(DEAD, "SELECT id, state, bytes, ticket FROM request WHERE state = 3 "                    \
		"ORDER BY gone LIMIT ?1")                                                          \
	X(FREE_PAGES, "PRAGMA freelist_count")                                                     \
	X(FORGET, "DELETE FROM request WHERE id = ?1")                                             \
	X(VACUUM, "PRAGMA incremental_vacuum(256)")

enum wr_sqlite_sql {
#define WR_SQLITE_ENUM(name, sql) WR_SQL_##name,
	WR_SQLITE_SQL(WR_SQLITE_ENUM)
#undef WR_SQLITE_ENUM
		WR_SQL_COUNT
};

/* A line that changed in the transaction under way; told when it is committed. */
struct wr_sqlite_change {
	uint8_t key[WR_LINE_KEY_BYTES];
	uint64_t waiting;
};

/* What is counted rather than asked for; goes back when a transaction does. */
struct wr_sqlite_counts {
	uint64_t waiting, delivering, dead, bytes, tickets, lines;
	uint64_t dead_bytes; /* of `bytes` */
	uint64_t put_total, delivered_total, retried_total, dead_total, dropped_total;
	uint64_t last_id;
	uint64_t unswept; /* delivered, and noted as no more than that */
	bool touched;     /* something durable was changed */
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
	uint64_t fence;     /* of who took something last */
	uint64_t old_fence; /* … before the file was opened */
	uint64_t ahead_us;  /* the queue's time − the clock that only goes on */
	uint64_t now_us;    /* the queue's time, of the jobs under way */
	uint64_t wall_us;   /* … and what the wall clock said */
	uint64_t space;     /* bytes of the disk that puts may still use */
	uint64_t log_pages; /* in the log and not yet in the file */
	uint64_t full_us;   /* when it was said last that the disk is full; 0: never */
	bool removed;       /* the file, and that was said */
	struct wr_sqlite_change *changes;
	size_t change_count, change_cap;
};

/* lite_file.c: folder, lock and file. WR_QUEUE_OK, or why not. */
enum wr_queue_reason wr_sqlite_open(struct wr_sqlite *sqlite, struct wr_moment now,
				    struct weir_error *error);
void wr_sqlite_close(struct wr_sqlite *sqlite);

/* Whether it was removed or moved while it is open: it works on, but the next process will not find
 * what is put into it. */
bool wr_sqlite_is_removed(struct wr_sqlite *sqlite);

/* What a code of SQLite means to who submitted a job. */
enum wr_queue_reason wr_sqlite_reason(struct wr_sqlite *sqlite, int rc);

/* lite_schema.c: tables, what they hold, and what is held of them in memory. */
enum wr_queue_reason wr_sqlite_prepare(struct wr_sqlite *sqlite, uint64_t wall_us,
				       struct weir_error *error);

#define WR_SQLITE_HASH_BYTES 8 /* of a ticket's hash, in the index */

/* lite.c: ready to be bound; what it gave before is gone. */
sqlite3_stmt *wr_sqlite_statement(struct wr_sqlite *sqlite, enum wr_sqlite_sql which);

/* SQLITE_OK, or the error. For what returns no rows. */
int wr_sqlite_execute(sqlite3_stmt *sql);

/* Notes it to be told. SQLITE_OK or SQLITE_NOMEM. */
int wr_sqlite_note_change(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t waiting);

/* The jobs: SQLITE_OK when job->reason says what became of it, or an error, for which all of the
 * transaction is given up. */
int wr_sqlite_put(struct wr_sqlite *sqlite, struct wr_queue_job *job);    /* lite_put.c */
int wr_sqlite_take(struct wr_sqlite *sqlite, struct wr_queue_job *job);   /* lite_take.c */
int wr_sqlite_settle(struct wr_sqlite *sqlite, struct wr_queue_job *job); /* lite_settle.c */
int wr_sqlite_ticket(struct wr_sqlite *sqlite, struct wr_queue_job *job); /* lite_page.c */
int wr_sqlite_page(struct wr_sqlite *sqlite, struct wr_queue_job *job);
int wr_sqlite_stats(struct wr_sqlite *sqlite, struct wr_queue_job *job);
int wr_sqlite_recount(struct wr_sqlite *sqlite);

/* lite_line.c: steps that several jobs have in common. */

/* A line as it is. */
struct wr_sqlite_line {
	uint64_t head, waiting, fence; /* all 0: nobody waits */
	uint64_t bytes;                /* of the head, if it is taken */
	uint64_t held;                 /* bytes of all that wait */
};
struct wr_sqlite_line wr_sqlite_line_state(const struct wr_sqlite *sqlite, const uint8_t *key);

/* Whether one more request of this size may wait in the line: WR_QUEUE_OK, or which bound is
 * reached. lite_put.c */
enum wr_queue_reason wr_sqlite_check_bounds(const struct wr_sqlite *sqlite,
					    const struct wr_sqlite_line *line, uint64_t bytes,
					    uint64_t max_waiting);

/* It is due then, and taken by nobody. */
int wr_sqlite_line_set_due(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t id,
			   uint64_t due_us);

/* One more waits. */
int wr_sqlite_line_join(struct wr_sqlite *sqlite, const uint8_t *key,
			struct wr_queue_position place, const struct wr_sqlite_line *line);

/* The one that was `id` waits no more, as its row says already. */
int wr_sqlite_line_leave(struct wr_sqlite *sqlite, const uint8_t *key, uint64_t id);

/* Moves a waiting or dead one to a state that is final, but for delivered. bytes: what it counts
 * for; they stay only with what is dead. */
struct wr_sqlite_outcome {
	uint64_t id;
	enum wr_deferred_state state;
	bool tried; /* and that is to be counted */
	uint16_t status;
	struct weir_str reason;
	uint64_t bytes;
};
int wr_sqlite_finish(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end);

/* lite_sweep.c: the end of nearly all, in few bytes: content goes and the row says so when it is
 * swept, many at a time. */
int wr_sqlite_finish_delivered(struct wr_sqlite *sqlite, const struct wr_sqlite_outcome *end);

/* Within a transaction: now, so that rows tell how it is; or if there are enough of them. */
int wr_sqlite_sweep(struct wr_sqlite *sqlite);
int wr_sqlite_sweep_if_due(struct wr_sqlite *sqlite);

/* In a transaction of its own. */
int wr_sqlite_sweep_now(struct wr_sqlite *sqlite);

/* What a row says of its tries, its age and what it counts for. */
struct wr_sqlite_row_limits {
	uint64_t tries, max_tries, expires_us, bytes;
};
int wr_sqlite_read_limits(struct wr_sqlite *sqlite, uint64_t id, struct wr_sqlite_row_limits *at);

/* Reads a row, as much of it as wanted. *row NULL: there is none. */
enum wr_sqlite_depth {
	WR_SQLITE_ROW,  /* numbers, rule, reason */
	WR_SQLITE_HEAD, /* and all but the body */
	WR_SQLITE_ALL,  /* and the body; secret fields stay closed */
	WR_SQLITE_OPEN, /* … are opened */
};
int wr_sqlite_read(struct wr_sqlite *sqlite, uint64_t id, enum wr_sqlite_depth depth,
		   struct wr_deferred **row);

/* lite_space.c: to be called before a transaction with these jobs; then each put takes its part.
 * False: there is not enough. */
void wr_sqlite_space_check(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count);
bool wr_sqlite_space_reserve(struct wr_sqlite *sqlite, uint64_t bytes);

/* After it: says so, now and then, if the disk had no room for some of them. */
void wr_sqlite_space_report(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count);

/* The log is written into the file: if it has grown long; at once, with nothing left of it if
 * wanted. Between transactions only. */
void wr_sqlite_watch_wal(struct wr_sqlite *sqlite);
void wr_sqlite_checkpoint_if_due(struct wr_sqlite *sqlite);
void wr_sqlite_checkpoint(struct wr_sqlite *sqlite, bool to_nothing);

/* lite_tidy.c: forgets old tickets, gives space back. */
void wr_sqlite_tidy(struct wr_sqlite *sqlite);

#endif
