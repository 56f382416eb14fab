/* Deferred requests at rest, in a file (SQLite) or in Redis.
 *
 *   file:/var/lib/weir/queue          a folder of this process alone, made if it is not there
 *   redis://HOST[:PORT][/DB], rediss://…, redis+unix:///path     shared by several
 *
 * The queue has a thread of its own, for disks and networks make one wait. Jobs go in from any
 * thread; what became of them comes back through a port, on the thread that owns the port:
 *
 *   port = wr_queue_port_new(queue, wake, loop);  // wake: from the queue's thread, uv_async_send
 *   job->verb = WR_QUEUE_PUT; job->done = stored; job->put.request = …;
 *   wr_queue_submit(port, job);
 *   …
 *   wr_queue_port_run(port);                      // in the uv_async callback: calls stored(job)
 *
 * A job is the caller's memory, with all it points to, until its `done` has been called; it is
 * called once for every job submitted, at the latest when the queue is closed. Jobs of one port
 * are done in their order. What comes in while a commit runs shares the next one: one sync of the
 * disk for all.
 *
 * Success of a put means durable: the process, and with a file or `appendfsync always` the machine
 * may die right after it. Failure means not stored, with two exceptions that nobody can rule out: a
 * Redis that went away between doing and answering, and a disk that failed in a sync.
 *
 * Order: lines by key. Take gives the oldest request of a line, and nothing more of that line until
 * it is settled. In a file, what was taken by a process that died waits again when the file is
 * opened; in Redis when its lease has run out, and a settle that comes later than that is refused
 * (lost).
 *
 * Time: the queue keeps its own, which goes on evenly while it runs however the wall clock is set,
 * and does not go back when it is opened again. Waits and ages are durations therefore. */
#ifndef WR_QUEUE_QUEUE_H
#define WR_QUEUE_QUEUE_H

#include <weir/error.h>

#include "queue/deferred.h"

/* X(enum, name, sentence): why something was not done. */
#define WR_QUEUE_REASONS(X)                                                                        \
	X(WR_QUEUE_OK, "ok", "done")                                                               \
	X(WR_QUEUE_FULL, "full", "as many requests are kept as may (--queue-max)")                 \
	X(WR_QUEUE_KEY_FULL, "key_full",                                                           \
	  "as many requests of this key wait as may (max_waiting of the rule)")                    \
	X(WR_QUEUE_KEY_BYTES_FULL, "key_bytes_full",                                               \
	  "as many bytes of this key wait as may (--queue-line-bytes)")                            \
	X(WR_QUEUE_BYTES_FULL, "bytes_full", "as many bytes are kept as may (--queue-bytes)")      \
	X(WR_QUEUE_TOO_LARGE, "too_large", "the request is larger than can be stored")             \
	X(WR_QUEUE_NO_SPACE, "no_space", "the disk of the queue is full, or nearly")               \
	X(WR_QUEUE_AWAY, "away", "the queue can not be reached")                                   \
	X(WR_QUEUE_NOT_PERSISTENT, "not_persistent",                                               \
	  "the queue's Redis could lose it; it wants appendonly yes, appendfsync always, "         \
	  "maxmemory-policy noeviction")                                                           \
	X(WR_QUEUE_CORRUPT, "corrupt", "the file of the queue is damaged")                         \
	X(WR_QUEUE_READ_ONLY, "read_only", "the queue can not be written to")                      \
	X(WR_QUEUE_BUSY, "busy", "too much is on its way to the queue")                            \
	X(WR_QUEUE_NO_KEY, "no_key",                                                               \
	  "it has a field with credentials and there is no key to seal it: --queue-key")           \
	X(WR_QUEUE_ENDING, "ending", "weir is shutting down")                                      \
	X(WR_QUEUE_UNKNOWN, "unknown", "there is no such request")                                 \
	X(WR_QUEUE_LOST, "lost", "somebody else has taken it meanwhile")                           \
	X(WR_QUEUE_FAILED, "error", "the queue failed; its log tells more")

enum wr_queue_reason {
#define WR_QUEUE_ENUM(name, word, sentence) name,
	WR_QUEUE_REASONS(WR_QUEUE_ENUM)
#undef WR_QUEUE_ENUM
		WR_QUEUE_REASON_COUNT
};

const char *wr_queue_reason_name(enum wr_queue_reason reason);
const char *wr_queue_reason_text(enum wr_queue_reason reason);

struct wr_queue;
struct wr_queue_port;

enum wr_queue_level { WR_QUEUE_NOTICE, WR_QUEUE_WARN, WR_QUEUE_ERROR };

struct wr_seals;

struct wr_queue_tls { /* rediss: files in PEM form; ca NULL: those the system trusts */
	const char *ca, *cert, *key;
};

/* Texts have to last as long as the queue. 0 is the default of a number. */
struct wr_queue_opts {
	const char *url;
	const char *key_file; /* to seal fields with; NULL: fields with credentials are refused */
	const struct wr_seals *seals; /* … that was read already; or NULL. They are copied */
	const char *password_file;    /* of Redis, in place of one in the URL; or NULL */
	const char *prefix;           /* of keys in Redis; NULL: "weir" */
	struct wr_queue_tls tls;
	/* Redis: what was taken by a process that was killed waits for the end of its lease, or
	 * until the next one with the same file, which is locked as long as the queue is open.
	 * NULL: none */
	const char *owner_file;

	bool assume_durable; /* Redis: believed to be so if it does not let itself be asked */

	uint64_t max_requests;   /* waiting; 100,000 */
	uint64_t max_bytes;      /* of them; 1 GiB */
	uint64_t max_line_bytes; /* … of one line, beyond its first; 1/16 of it, at least 4 MiB */
	uint64_t max_dead;       /* dead ones; beyond that the oldest go. 1/10 of max_requests */
	uint64_t max_dead_bytes; /* of them; 1/4 of max_bytes */
	uint64_t max_tickets;    /* of finished ones that are remembered; 1,000,000 */
	uint64_t keep_us;        /* a finished ticket is remembered; 24 h */
	uint64_t keep_dead_us;   /* a dead letter is kept; 30 d */
	uint64_t lease_us;       /* Redis: longer than a delivery can take; 2 min */
	uint64_t timeout_us;     /* Redis: to connect, and for an answer; 5 s */
	uint64_t free_bytes_min; /* of the disk, left for others; 16 MiB, at most 1/16 of it */
	uint32_t max_jobs;       /* on their way, beyond which a put is refused as busy; 4096 */

	/* All from the queue's thread, and none may call the queue. */

	/* So many requests of this key wait now, taken ones included. In the order in which that
	 * became true, and before the `done` of the job that made it so; 0 when the last has gone.
	 * For all lines when the queue was opened, and after WR_QUEUE_RECOUNT. In Redis what others
	 * did is told within `poll_us`. May be NULL. */
	void (*waiting)(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count);
	uint64_t poll_us; /* 250 ms */

	/* Something to be logged: once when it begins and once when it is over. May be NULL. */
	void (*say)(void *context, enum wr_queue_level level, const char *text);

	void *context;

	/* Tests: the wall clock and one that is never set, both µs. NULL: those of the system. */
	void (*now)(void *context, uint64_t *wall_us, uint64_t *mono_us);
};

/* Starts the thread and tries to open what the URL names. WEIR_EINVAL: URL, key file or password
 * file are of no use. WEIR_ESYS, WEIR_EMEMORY. All other trouble (a read-only folder, another
 * process that has the file, Redis away) is no error here: it is said, jobs fail with its reason,
 * and it is tried again every second. */
int wr_queue_open(const struct wr_queue_opts *opts, struct wr_queue **opened,
		  struct weir_error *error);

/* Whether the URL could be a queue, for checking options. WEIR_EINVAL */
int wr_queue_url_check(const char *url, struct weir_error *error);

/* The URL without passwords, for people; returns its length. */
size_t wr_queue_url_text(const char *url, char *text, size_t cap);

/* How it is: WR_QUEUE_OK, or why it does not work at the moment, with a sentence. Any thread. */
enum wr_queue_reason wr_queue_state(struct wr_queue *queue, struct weir_error *error);

/* The options in force, with defaults filled in. They do not change. Any thread. */
const struct wr_queue_opts *wr_queue_opts(const struct wr_queue *queue);

/* What was submitted before is done, all later jobs fail as `ending`, and the thread ends. What is
 * taken and not settled goes back. Then call wr_queue_port_run() and wr_queue_port_free() for each
 * port, and wr_queue_free(). */
void wr_queue_close(struct wr_queue *queue);
void wr_queue_free(struct wr_queue *queue);

/* `wake` is called from the queue's thread when there is something to run, and not again before
 * wr_queue_port_run(). NULL: no memory. */
struct wr_queue_port *wr_queue_port_new(struct wr_queue *queue, void (*wake)(void *context),
					void *context);

/* Calls `done` of all jobs that are. Returns how many. */
size_t wr_queue_port_run(struct wr_queue_port *port);

/* No job of it may be under way: after wr_queue_close() and wr_queue_port_run(). */
void wr_queue_port_free(struct wr_queue_port *port);

enum wr_queue_verb {
	WR_QUEUE_PUT,
	WR_QUEUE_TAKE,
	WR_QUEUE_SETTLE,
	WR_QUEUE_TICKET, /* by its bytes; no body and no fields are read */
	WR_QUEUE_LIST,   /* many, without fields and bodies */
	WR_QUEUE_SHOW,   /* one by its id, with fields and body; secret values stay locked */
	WR_QUEUE_RETRY,  /* dead ones wait again, at their old place in the line, with all their
			    tries  and their age new, within the bounds of the queue; waiting
			    ones are due at once */
	WR_QUEUE_DROP,   /* waiting and dead ones; not one that is being delivered */
	WR_QUEUE_STATS,
	WR_QUEUE_RECOUNT, /* tells `waiting` of all lines again */
};

enum wr_queue_outcome {
	WR_QUEUE_DELIVERED, /* status */
	WR_QUEUE_AGAIN, /* wait_us, status, reason: a try has failed. Dead if it was the last one */
	WR_QUEUE_GIVE_UP, /* status, reason: dead */
	WR_QUEUE_RELEASE, /* wait_us: was not tried, as the limiter had nothing left. Not durable */
	WR_QUEUE_ABSENT,  /* as AGAIN, and not counted as a try */
};

/* Which requests. Zeroes mean all. */
struct wr_queue_filter {
	struct weir_str rule; /* "": any */
	const uint8_t *key;   /* NULL: any */
	uint8_t states;       /* bits 1 << enum wr_deferred_state; 0: any. RETRY and DROP look at
				 waiting and dead ones only */
	uint64_t id;          /* this one alone; 0: all */
};

struct wr_queue_stats {
	uint64_t waiting, delivering, dead; /* now; waiting without those being delivered */
	uint64_t bytes;                     /* of these */
	uint64_t lines;                     /* keys with something waiting */
	uint64_t tickets;                   /* of finished ones, remembered */
	uint64_t oldest_us;                 /* age of the oldest that waits or is delivered */
	uint64_t disk_bytes;                /* of the file; 0 for Redis */
	/* since the queue was made; in Redis those of all */
	uint64_t put_total, delivered_total, retried_total, dead_total, dropped_total;
	uint64_t
		commits_total; /* of this process; puts per commit tell how well they go together */
};

struct wr_queue_job {
	enum wr_queue_verb verb;
	enum wr_queue_reason reason; /* what became of it */
	void (*done)(struct wr_queue_job *job);
	void *context;              /* the caller's */
	struct wr_queue_port *port; /* the queue's, from here … */
	unsigned unsure;            /* calls of Redis that may have been done, unanswered */
	struct wr_queue_job *next;  /* … to here */

	union {
		struct {
			const struct wr_deferred *request;
			uint64_t max_waiting; /* of this key */
			uint64_t max_age_us;
			uint64_t wait_us; /* before the first try */
			/* → */
			uint8_t ticket[WR_TICKET_BYTES];
			uint64_t id, position;
		} put;
		struct {
			uint32_t max;
			/* → */
			struct wr_deferred *first; /* one for each line; wr_deferred_free() */
			uint32_t count;
			uint32_t expired; /* found too old, and dead now */
			uint64_t next_us; /* until something else is due; UINT64_MAX: nothing waits.
					     In Redis others may put something meanwhile */
		} take;
		struct {
			uint64_t id, fence;
			uint8_t key[WR_LINE_KEY_BYTES];
			enum wr_queue_outcome outcome;
			uint16_t status;
			uint64_t wait_us;
			struct weir_str reason; /* is cut at WR_DEFERRED_REASON_MAX */
			/* → */
			enum wr_deferred_state state; /* what it is now */
			uint64_t waiting;             /* in its line */
		} settle;
		struct {
			uint8_t ticket[WR_TICKET_BYTES];
			/* → WR_QUEUE_UNKNOWN, or */
			struct wr_deferred *found;
		} ticket;
		struct { /* LIST, SHOW, RETRY, DROP */
			struct wr_queue_filter filter;
			uint64_t after; /* the last id of the page before; 0: from the beginning */
			uint32_t max;   /* to be looked at, up to WR_QUEUE_PAGE_MAX */
			/* → */
			struct wr_deferred *first; /* LIST, SHOW */
			uint32_t count;            /* found, or changed */
			uint32_t left; /* RETRY: dead ones that stay dead, as there is no room for
					  them; of a single id the reason names the bound */
			uint64_t last; /* `after` of the next page; 0: that was all */
			uint64_t end;  /* the highest id there is: last ÷ end is progress */
		} page;
		struct wr_queue_stats stats;
	};
};

#define WR_QUEUE_PAGE_MAX 1000u

/* A put beyond max_jobs comes back as busy, all jobs as ending after wr_queue_close(); through
 * `done` as always. */
void wr_queue_submit(struct wr_queue_port *port, struct wr_queue_job *job);

#endif
