/* A queue of deferred requests, stored in SQLite or in Redis.
 *
 *   file:/var/lib/weir/queue          a folder of this process alone, created if it is missing
 *   redis://HOST[:PORT][/DB], rediss://…, redis+unix:///path     shared by several processes
 *
 * The queue has its own thread, because disks and networks block. Jobs are submitted from any
 * thread. Their results come back through a port, on the thread that owns the port:
 *
 *   port = wr_queue_port_new(queue, wake, loop);  // wake: from the queue's thread, uv_async_send
 *   job->verb = WR_QUEUE_PUT; job->done = stored; job->put.request = …;
 *   wr_queue_submit(port, job);
 *   …
 *   wr_queue_port_run(port);                      // in the uv_async callback: calls stored(job)
 *
 * A job and all memory it points to belong to the caller and must stay unchanged until `done` is
 * called. `done` is called once for every submitted job, at the latest when the queue is closed.
 * Jobs of one port are done in their order. Jobs that are submitted during a commit share the next
 * commit: one sync of the disk for all of them.
 *
 * A put that succeeds is durable: the process may die right after it, and with a file or
 * `appendfsync always` the machine too. A put that fails is not stored, with two exceptions: Redis
 * has stored it and its reply was lost, or the disk failed during a sync.
 *
 * Order: requests of one key form a line. A take returns the oldest request of a line and no other
 * request of that line until the first is settled. If the process dies, a request that it had taken
 * waits again: in a file when the file is opened next, in Redis when the lease has expired. A
 * settle after that is refused as WR_QUEUE_LOST.
 *
 * Time: the queue has its own clock. It advances evenly even if the wall clock is set, and never
 * goes back when the queue is reopened. Waits and ages are therefore durations. */
#ifndef WR_QUEUE_QUEUE_H
#define WR_QUEUE_QUEUE_H

#include <weir/error.h>

#include "queue/deferred.h"
#include "queue/reason.h"

struct wr_queue;
struct wr_queue_port;

enum wr_queue_level { WR_QUEUE_NOTICE, WR_QUEUE_WARN, WR_QUEUE_ERROR };

struct wr_seals;

struct wr_queue_tls { /* for rediss: files in PEM form; ca NULL: the CAs of the system */
	const char *ca, *cert, *key;
};

/* Texts must live as long as the queue. A number 0 means the default, which the comment names. */
struct wr_queue_opts {
	const char *url;
	const char *key_file;         /* encrypts secret fields; NULL: these are refused */
	const struct wr_seals *seals; /* the keys of key_file if they were read already; copied */
	const char *password_file;    /* of Redis, instead of the password in the URL; or NULL */
	const char *prefix;           /* of keys in Redis; NULL: "weir" */
	struct wr_queue_tls tls;
	/* Redis: file with this process's owner name, locked while the queue is open. If the
	 * process is killed, the next process with this file gets the requests that it had taken at
	 * once. NULL, or if the file cannot be used: these requests wait until their lease expires.
	 */
	const char *owner_file;

	bool assume_durable; /* Redis: accept a server that does not show its settings */

	uint64_t max_requests;   /* waiting; 100,000 */
	uint64_t max_bytes;      /* of waiting requests; 1 GiB */
	uint64_t max_line_bytes; /* of one line; its first request always fits. 1/16 of max_bytes,
				    at least 4 MiB */
	uint64_t max_dead;       /* dead letters; the oldest are deleted. 1/10 of max_requests */
	uint64_t max_dead_bytes; /* of dead letters; 1/4 of max_bytes */
	uint64_t max_tickets;    /* of finished requests; 1,000,000 */
	uint64_t keep_us;        /* how long a finished ticket is stored; 24 h */
	uint64_t keep_dead_us;   /* how long a dead letter is stored; 30 d */
	uint64_t lease_us;       /* Redis: must exceed the time of a delivery; 2 min */
	uint64_t timeout_us;     /* Redis: for a connect and for a reply; 5 s */
	uint64_t free_bytes_min; /* left free on the disk; 16 MiB, at most 1/16 of the disk */
	uint32_t max_jobs;       /* in flight; further puts are refused as WR_QUEUE_BUSY. 4096 */

	/* Callbacks. They run on the queue's thread and must not call the queue. */

	/* Reports how many requests of this key wait, including taken ones; 0: the line is empty.
	 * Called in the order of the changes and before the `done` of the job that made the change;
	 * for all lines after the queue was opened and after WR_QUEUE_RECOUNT. Changes that other
	 * processes make in Redis are reported within `poll_us`. May be NULL. */
	void (*waiting)(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count);
	uint64_t poll_us; /* 250 ms */

	/* Logs a message: once when a problem begins and once when it ends. May be NULL. */
	void (*say)(void *context, enum wr_queue_level level, const char *text);

	void *context;

	/* For tests: wall clock and monotonic clock, in µs. NULL: the clocks of the system. */
	void (*now)(void *context, uint64_t *wall_us, uint64_t *mono_us);
};

/* Starts the thread and tries to open the queue. Returns 0, or WEIR_EINVAL (URL, key file or
 * password file cannot be used), WEIR_ESYS or WEIR_EMEMORY. Other problems (a read-only folder, a
 * file that another process has locked, no connection to Redis) are not errors of this call: they
 * are logged, jobs fail with the reason, and the queue is reopened every second. */
int wr_queue_open(const struct wr_queue_opts *opts, struct wr_queue **opened,
		  struct weir_error *error);

/* Checks a URL for the option parser. Returns 0 or WEIR_EINVAL. */
int wr_queue_url_check(const char *url, struct weir_error *error);

/* Writes the URL without passwords. Returns its length. */
size_t wr_queue_url_text(const char *url, char *text, size_t cap);

/* Returns WR_QUEUE_OK, or why the queue does not work now, with a text in *error. Any thread. */
enum wr_queue_reason wr_queue_state(struct wr_queue *queue, struct weir_error *error);

/* The options in force, with defaults filled in. They do not change. Any thread. */
const struct wr_queue_opts *wr_queue_opts(const struct wr_queue *queue);

/* Does the jobs that were submitted before, refuses later jobs as WR_QUEUE_ENDING and ends the
 * thread. Requests that were taken and not settled wait again. Call wr_queue_port_run() and
 * wr_queue_port_free() for each port after it, then wr_queue_free(). */
void wr_queue_close(struct wr_queue *queue);
void wr_queue_free(struct wr_queue *queue);

/* `wake` is called from the queue's thread when a job is done, and not again before
 * wr_queue_port_run(). Returns NULL if memory is exhausted. */
struct wr_queue_port *wr_queue_port_new(struct wr_queue *queue, void (*wake)(void *context),
					void *context);

/* Calls `done` of all finished jobs of this port. Returns their number. */
size_t wr_queue_port_run(struct wr_queue_port *port);

/* Call it after wr_queue_close() and wr_queue_port_run(): no job of the port may be in flight. */
void wr_queue_port_free(struct wr_queue_port *port);

enum wr_queue_verb {
	WR_QUEUE_PUT,
	WR_QUEUE_TAKE,
	WR_QUEUE_SETTLE,
	WR_QUEUE_TICKET, /* finds a request by its ticket; reads no body and no fields */
	WR_QUEUE_LIST,   /* many requests, without fields and bodies */
	WR_QUEUE_SHOW,   /* one request by its id, with fields and body; secret values are locked */
	WR_QUEUE_RETRY,  /* dead requests wait again, at their old position in the line, with tries
			    and age reset, if the queue's limits allow it; waiting requests become
			    due at once */
	WR_QUEUE_DROP,   /* deletes waiting and dead requests, but none in delivery */
	WR_QUEUE_STATS,
	WR_QUEUE_RECOUNT, /* calls opts.waiting for all lines */
};

/* The result of a delivery attempt; in brackets the members of `settle` that it uses. */
enum wr_queue_outcome {
	WR_QUEUE_DELIVERED, /* [status] */
	WR_QUEUE_AGAIN,     /* [wait_us, status, reason] the try failed; dead if it was the last */
	WR_QUEUE_GIVE_UP,   /* [status, reason] dead */
	WR_QUEUE_RELEASE,   /* [wait_us] not tried, because the limiter refused. Not durable */
	WR_QUEUE_ABSENT,    /* as AGAIN, but not counted as a try: the API was unreachable */
};

/* Selects requests. All members 0: all requests. */
struct wr_queue_filter {
	struct weir_str rule; /* "": any */
	const uint8_t *key;   /* NULL: any */
	uint8_t states; /* bits 1 << enum wr_deferred_state; 0: any. RETRY and DROP change only
			   waiting and dead requests */
	uint64_t id;    /* 0: any */
};

struct wr_queue_stats {
	uint64_t waiting, delivering, dead; /* now; `waiting` excludes `delivering` */
	uint64_t bytes;                     /* of these three */
	uint64_t lines;                     /* keys with waiting requests */
	uint64_t tickets;                   /* of finished requests */
	uint64_t oldest_us;                 /* age of the oldest request, waiting or in delivery */
	uint64_t disk_bytes;                /* of the file; 0 for Redis */
	/* since the queue was created; in Redis by all processes */
	uint64_t put_total, delivered_total, retried_total, dead_total, dropped_total;
	uint64_t commits_total; /* by this process */
};

struct wr_queue_job {
	enum wr_queue_verb verb;
	enum wr_queue_reason reason; /* the result */
	void (*done)(struct wr_queue_job *job);
	void *context; /* for the caller */

	/* for the queue */
	struct wr_queue_port *port;
	unsigned unsure; /* calls to Redis without a reply, which Redis may have done */
	struct wr_queue_job *next;

	union {
		struct {
			const struct wr_deferred *request;
			uint64_t max_waiting; /* requests of this key */
			uint64_t max_age_us;
			uint64_t wait_us; /* before the first try */
			/* results: */
			uint8_t ticket[WR_TICKET_BYTES];
			uint64_t id, position;
		} put;
		struct {
			uint32_t max;
			/* results: */
			struct wr_deferred *first; /* one per line; free with wr_deferred_free() */
			uint32_t count;
			uint32_t expired; /* requests that were too old and are dead now */
			uint64_t next_us; /* until the next request is due; UINT64_MAX: none waits.
					     In Redis another process may put one before that */
		} take;
		struct {
			uint64_t id, fence;
			uint8_t key[WR_LINE_KEY_BYTES];
			enum wr_queue_outcome outcome;
			uint16_t status;
			uint64_t wait_us;
			struct weir_str reason; /* cut at WR_DEFERRED_REASON_MAX */
			/* results: */
			enum wr_deferred_state state; /* the new state */
			uint64_t waiting;             /* requests in its line */
		} settle;
		struct {
			uint8_t ticket[WR_TICKET_BYTES];
			/* results: */
			struct wr_deferred *found; /* NULL with WR_QUEUE_UNKNOWN */
		} ticket;
		struct { /* LIST, SHOW, RETRY, DROP */
			struct wr_queue_filter filter;
			uint64_t after; /* `last` of the previous page; 0: from the beginning */
			uint32_t max;   /* requests to look at, up to WR_QUEUE_PAGE_MAX */
			/* results: */
			struct wr_deferred *first; /* LIST, SHOW */
			uint32_t count;            /* requests found or changed */
			uint32_t left; /* RETRY: requests that stay dead because the queue is full;
					  for a single id, `reason` names the limit */
			uint64_t last; /* `after` of the next page; 0: there is none */
			uint64_t end;  /* the highest id: last ÷ end is the progress */
		} page;
		struct wr_queue_stats stats;
	};
};

#define WR_QUEUE_PAGE_MAX 1000u

/* Any thread. The result comes through `done`, also for a put that is refused as WR_QUEUE_BUSY and
 * for a job after wr_queue_close(), which is refused as WR_QUEUE_ENDING. */
void wr_queue_submit(struct wr_queue_port *port, struct wr_queue_job *job);

#endif
