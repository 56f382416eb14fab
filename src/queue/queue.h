/* A queue of deferred requests, stored in SQLite or in Redis. A URL selects the storage:
 *
 *   file:/var/lib/weir/queue          a folder of this process alone, created if it is missing
 *   redis://HOST[:PORT][/DB], rediss://…, redis+unix:///path     shared by several processes
 *
 * The queue has its own thread, because disks and networks block. Jobs are submitted from any
 * thread. The results of jobs come back through a port, on the thread that owns the port:
 *
 *   port = wr_queue_port_new(queue, wake, loop);  // wake: calls uv_async_send()
 *   job->verb = WR_QUEUE_PUT; job->done = stored; job->put.request = …;
 *   wr_queue_submit(port, job);
 *   …
 *   wr_queue_port_run(port);                      // in the uv_async callback: calls stored(job)
 *
 * A job and all memory it points to belong to the caller and must stay unchanged until `done` is
 * called. `done` is called once for every submitted job, at the latest when the queue is closed.
 * Jobs of one port are done in the order in which they were submitted. Jobs that are submitted
 * during a commit share the next commit, so that one sync of the disk is enough for all of them.
 *
 * A put that succeeds is durable: the request is not lost if the process dies right after the put.
 * With a file or `appendfsync always`, the request is not lost if the machine crashes either. A put
 * that fails has not stored the request, with two exceptions: Redis has stored the request but its
 * reply was lost, or the disk failed during a sync.
 *
 * Order: requests of one key form a line. A take job returns the heads of lines for delivery. Until
 * a settle job has recorded the result, such a request is "taken" (in delivery), and no other
 * request of its line is returned. Each take has a number, the fence, which the settle passes. If
 * the process dies, its taken requests wait again: with a file when the file is opened again, with
 * Redis when the time lease_us has passed since the take. A settle of the old take is then refused
 * as WR_QUEUE_LOST. A request that is not tried again is a dead letter, until an operator retries
 * it.
 *
 * Time: the queue has its own clock. This clock advances evenly even if the wall clock is set, and
 * never goes back when the queue is reopened. So a change of the wall clock affects neither the
 * waits nor the ages of requests. */
#ifndef WR_QUEUE_QUEUE_H
#define WR_QUEUE_QUEUE_H

#include <weir/error.h>

#include "base/list.h"
#include "net/tls_client.h"
#include "queue/deferred.h"
#include "queue/reason.h"

struct wr_queue;
struct wr_queue_port;

enum wr_queue_level { WR_QUEUE_NOTICE, WR_QUEUE_WARN, WR_QUEUE_ERROR };

struct wr_seals;

/* Options of a queue. Texts must live as long as the queue. A numeric member of 0 means the default
 * that the comment of the member gives. */
struct wr_queue_opts {
	const char *url;
	/* file with the encryption keys for secret fields; NULL: requests with secret fields are
	 * refused */
	const char *key_file;
	/* the encryption keys of key_file; the queue makes a copy of them. NULL: the queue reads
	 * key_file itself */
	const struct wr_seals *seals;
	/* Redis: file with the password; NULL: the password of the URL is used */
	const char *password_file;
	const char *prefix;             /* prefix of all keys in Redis; NULL: "weir" */
	struct wr_tls_client_files tls; /* the files that TLS needs; used with a rediss: URL */
	/* Redis: file with this process's owner name, locked while the queue is open. If the
	 * process is killed while it delivers requests, the next process that uses this file can
	 * take these requests at once. If owner_file is NULL or the file cannot be used, they can
	 * be taken again only when lease_us have passed since their take. */
	const char *owner_file;

	/* Redis: true to accept a server that does not show its settings. weir then assumes that
	 * the server loses no data. */
	bool assume_durable;

	uint64_t max_requests; /* maximum number of waiting requests; default 100,000 */
	uint64_t max_bytes;    /* maximum size of all waiting requests; default 1 GiB */
	/* Maximum size of the requests of one line. It does not apply to a request whose line is
	 * empty. Default: 1/16 of max_bytes, at least 4 MiB. */
	uint64_t max_line_bytes;
	/* Maximum number of dead letters. If there are more, the oldest are deleted. Default: 1/10
	 * of max_requests. */
	uint64_t max_dead;
	uint64_t max_dead_bytes; /* maximum size of all dead letters; default 1/4 of max_bytes */
	/* maximum number of delivered and dropped requests whose ticket is stored; default
	 * 1,000,000 */
	uint64_t max_tickets;
	/* how long the ticket of a delivered or dropped request is stored; default 24 h */
	uint64_t keep_us;
	uint64_t keep_dead_us; /* how long a dead letter is stored; default 30 d */
	/* Redis: the longest time from a take to its settle. If no result is recorded within this
	 * time, the request is delivered again. Must exceed the duration of a delivery. Default 2
	 * min. */
	uint64_t lease_us;
	uint64_t timeout_us; /* Redis: timeout of a connect and of a reply; default 5 s */
	/* Disk space in bytes that puts must not use. Default 16 MiB, but never more than 1/16 of
	 * the disk. */
	uint64_t free_bytes_min;
	/* Maximum number of jobs in flight. While this many jobs are in flight, puts fail with
	 * WR_QUEUE_BUSY. Default 4096. */
	uint32_t max_jobs;

	/* The callbacks run on the queue's thread and must not call functions of the queue. */

	/* Reports how many requests of this key wait. `count` includes requests in delivery; 0: the
	 * line is empty. Called in the order of the changes, and before the `done` of the job that
	 * made the change. Called for all lines after the queue was opened and after
	 * WR_QUEUE_RECOUNT. Changes that other processes make in Redis are reported within
	 * `poll_us`. May be NULL. */
	void (*waiting)(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count);
	/* Redis: time between two polls for changes of other processes; default 250 ms */
	uint64_t poll_us;

	/* Logs a message. A failure of the queue is logged when it begins, once a minute while it
	 * lasts, and when it ends. May be NULL. */
	void (*log)(void *context, enum wr_queue_level level, const char *text);

	void *context;

	/* Reads the wall clock and the monotonic clock in µs. Only tests set this function; NULL:
	 * the clocks of the system are read. */
	void (*now)(void *context, uint64_t *wall_us, uint64_t *mono_us);
};

/* Starts the thread and tries to open the queue. Returns 0, WEIR_EINVAL if the URL, key file or
 * password file cannot be used, WEIR_ESYS or WEIR_EMEMORY. Other failures (a read-only folder, a
 * file that another process has locked, no connection to Redis) are not errors of this call: the
 * queue logs the failure, jobs fail with the reason, and the queue tries to reopen every second. */
int wr_queue_open(const struct wr_queue_opts *opts, struct wr_queue **opened,
		  struct weir_error *error);

/* Checks a URL for the option parser. Returns 0 or WEIR_EINVAL. */
int wr_queue_url_check(const char *url, struct weir_error *error);

/* Writes the URL without passwords to `text`. Returns the length of the written text. */
size_t wr_queue_url_text(const char *url, char *text, size_t cap);

/* Returns WR_QUEUE_OK if the queue works. Otherwise returns the reason why the queue does not work,
 * and explains the reason in *error. May be called on any thread. */
enum wr_queue_reason wr_queue_state(struct wr_queue *queue, struct weir_error *error);

/* Returns the options in force, with defaults filled in. The options never change. May be called on
 * any thread. */
const struct wr_queue_opts *wr_queue_opts(const struct wr_queue *queue);

/* Does the jobs that were submitted before this call, refuses later jobs as WR_QUEUE_ENDING and
 * ends the thread. A request in delivery waits again if its result was not recorded. After this
 * call, the caller calls wr_queue_port_run() and wr_queue_port_free() for each port, then
 * wr_queue_free(). */
void wr_queue_close(struct wr_queue *queue);
void wr_queue_free(struct wr_queue *queue);

/* Creates a port. The queue's thread calls `wake` when a job is done. The thread calls `wake` again
 * only after wr_queue_port_run() was called. Returns NULL if memory is exhausted. */
struct wr_queue_port *wr_queue_port_new(struct wr_queue *queue, void (*wake)(void *context),
					void *context);

/* Calls `done` for each finished job of this port. Returns the number of finished jobs. */
size_t wr_queue_port_run(struct wr_queue_port *port);

/* Frees a port. The caller has called wr_queue_close() and then wr_queue_port_run(), so that no job
 * of the port is in flight. */
void wr_queue_port_free(struct wr_queue_port *port);

enum wr_queue_verb {
	WR_QUEUE_PUT,
	WR_QUEUE_TAKE,
	WR_QUEUE_SETTLE,
	WR_QUEUE_TICKET, /* finds a request by its ticket; does not read body and fields */
	WR_QUEUE_LIST,   /* lists many requests, without fields and bodies */
	/* reads one request by its id, with fields and body; secret values stay encrypted */
	WR_QUEUE_SHOW,
	/* Changes dead and waiting requests. A dead request waits again at its old position in the
	 * line, and its tries and its age restart at 0. It stays dead if the queue is full. A
	 * waiting request becomes due at once. */
	WR_QUEUE_RETRY,
	WR_QUEUE_DROP, /* deletes waiting and dead requests, but no request in delivery */
	WR_QUEUE_STATS,
	WR_QUEUE_RECOUNT, /* calls opts.waiting for all lines */
};

/* The result of a delivery attempt. In the comments below, square brackets list the members of
 * `settle` that are used with a result. */
enum wr_queue_outcome {
	WR_QUEUE_DELIVERED, /* [status] */
	/* [wait_us, status, reason] The try failed. If this was the last of max_tries tries, the
	 * request is dead. Otherwise it is tried again after wait_us. */
	WR_QUEUE_AGAIN,
	WR_QUEUE_GIVE_UP, /* [status, reason] the try failed, and the request is dead at once */
	/* [wait_us] The limiter refused the request, so it was not sent. The request waits for
	 * wait_us. The SQLite backend does not write this result to its file. */
	WR_QUEUE_RELEASE,
	WR_QUEUE_ABSENT, /* like AGAIN, but not counted as a try, because the API was unreachable */
};

/* Selects the requests that meet the conditions of all members. If all members are 0, selects all
 * requests. */
struct wr_queue_filter {
	struct weir_str rule; /* name of the rule; "": any rule */
	const uint8_t *key;   /* key of the line; NULL: any line */
	/* Set of states, as bits 1 << enum wr_queue_request_state; 0: any state. RETRY and DROP
	 * change only waiting and dead requests. */
	uint8_t states;
	uint64_t id; /* id of the request; 0: any id */
};

struct wr_queue_stats {
	/* number of requests in each state now; `waiting` does not include `delivering` */
	uint64_t waiting, delivering, dead;
	uint64_t bytes;      /* size of all waiting, delivering and dead requests */
	uint64_t lines;      /* number of keys that have waiting requests */
	uint64_t tickets;    /* number of delivered and dropped requests whose ticket is stored */
	uint64_t oldest_us;  /* age of the oldest request that waits or is in delivery */
	uint64_t disk_bytes; /* size of the file; 0 for Redis */
	/* Numbers of requests since the queue was created. With Redis, these numbers include the
	 * requests of all processes. */
	uint64_t put_total, delivered_total, retried_total, dead_total, dropped_total;
	uint64_t commits_total; /* number of commits by this process since it started */
};

struct wr_queue_job {
	enum wr_queue_verb verb;
	enum wr_queue_reason reason; /* result of the job: WR_QUEUE_OK, or why it failed */
	void (*done)(struct wr_queue_job *job);
	void *context; /* free for use by the caller */

	/* Only the queue uses these members. */
	struct wr_queue_port *port;
	/* number of script calls for this job that got no reply; it is unknown whether Redis ran
	 * them */
	unsigned unsure;
	struct wr_list link;

	union {
		struct {
			const struct wr_queue_request *request;
			/* the put fails if this many requests of the key already wait */
			uint64_t max_waiting;
			uint64_t max_age_us;
			uint64_t wait_us; /* waiting time before the first delivery attempt */
			/* Results: */
			uint8_t ticket[WR_TICKET_BYTES];
			uint64_t id, position;
		} put;
		struct {
			uint32_t max;
			/* Results: */
			/* the requests to deliver, at most one of each line; the caller frees the
			 * list with wr_queue_request_free() */
			struct wr_queue_request *first;
			uint32_t count;
			/* number of requests that are dead now because they were too old to
			 * deliver */
			uint32_t expired;
			/* Time until the next request is due; UINT64_MAX: no request waits. With
			 * Redis, another process can put a request that is due earlier. */
			uint64_t next_us;
		} take;
		struct {
			uint64_t id, fence;
			uint8_t key[WR_LINE_KEY_BYTES];
			enum wr_queue_outcome outcome;
			uint16_t status;
			uint64_t wait_us;
			/* why the try failed; cut at WR_QUEUE_REQUEST_REASON_MAX bytes */
			struct weir_str reason;
			/* Results: */
			enum wr_queue_request_state state; /* the new state of the request */
			uint64_t waiting; /* number of requests that now wait in the line `key` */
		} settle;
		struct {
			uint8_t ticket[WR_TICKET_BYTES];
			/* Results: */
			/* the request; NULL if the result is WR_QUEUE_UNKNOWN */
			struct wr_queue_request *found;
		} ticket;
		struct { /* used by LIST, SHOW, RETRY and DROP */
			struct wr_queue_filter filter;
			/* Only requests with a higher id are looked at. The caller passes 0 for the
			 * first page, and then the result `last` of the previous page. */
			uint64_t after;
			/* maximum number of requests to look at, up to WR_QUEUE_PAGE_MAX */
			uint32_t max;
			/* Results: */
			struct wr_queue_request
				*first; /* LIST, SHOW: the requests that were found */
			uint32_t count; /* number of requests that were found or changed */
			/* RETRY: number of requests that stay dead because the queue is full. If
			 * filter.id selects such a request, job->reason says which maximum of the
			 * queue was reached. */
			uint32_t left;
			/* the value of `after` for the next page; 0: this is the last page */
			uint64_t last;
			/* the highest id of the queue; last / end is the fraction of the queue that
			 * was looked at */
			uint64_t end;
		} page;
		struct wr_queue_stats stats;
	};
};

#define WR_QUEUE_PAGE_MAX 1000u

/* Submits a job. May be called on any thread. The result always comes through `done`. This includes
 * a put that is refused as WR_QUEUE_BUSY, and a job that is refused as WR_QUEUE_ENDING after
 * wr_queue_close(). */
void wr_queue_submit(struct wr_queue_port *port, struct wr_queue_job *job);

#endif
