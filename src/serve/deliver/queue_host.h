/* The queue of deferred requests in the service. The queue has a thread of its own that waits for
 * the disk or for Redis. Loops submit jobs to this thread and get a callback later (queue/queue.h).
 *
 *   service   struct wr_serve_queue_host   the queue, its counters and its latest statistics
 *   loop      struct wr_serve_queue_loop   its struct wr_queue_port; the first loop: the deliverer
 */
#ifndef WR_SERVE_DELIVER_QUEUE_HOST_H
#define WR_SERVE_DELIVER_QUEUE_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "queue/queue.h"
#include "net/listen.h"
#include "serve/settings.h"
#include "wire/resp/commands_defer.h"

struct wr_deliverer;
struct wr_loop;
struct wr_resp_queue;
struct wr_service;
struct weir_table;

#define WR_QUEUE_URL_TEXT 256
/* Maximum number of bytes of all requests that were submitted to the queue and are not stored
 * yet. */
#define WR_QUEUE_FLIGHT_MAX (64u << 20)

/* The counters of this process: X(name, meaning). */
#define WR_QUEUE_TALLY(X)                                                                          \
	X(stored, "stored")                                                                        \
	X(delivered, "delivered: the API server gave a final response")                            \
	X(retried, "failed attempts that will be repeated")                                        \
	X(dead, "given up: dead letters")

struct wr_serve_queue_tally {
#define WR_QUEUE_TALLY_FIELD(name, what) _Atomic uint64_t name;
	WR_QUEUE_TALLY(WR_QUEUE_TALLY_FIELD)
#undef WR_QUEUE_TALLY_FIELD
	_Atomic uint64_t refused[WR_QUEUE_REASON_COUNT];
};

/* The statistics of the queue at the time at_ns. */
struct wr_serve_queue_seen {
	bool known; /* the statistics have been read at least once */
	uint64_t at_ns;
	struct wr_queue_stats stats;
	uint32_t sending;     /* number of deliveries in progress */
	uint64_t down_for_ns; /* how long the target has been unreachable; 0: it is reachable */
};

struct wr_serve_queue_host {
	struct wr_service *service;
	const struct wr_settings *settings;
	struct wr_queue *queue;
	char text[WR_QUEUE_URL_TEXT]; /* the URL without secrets */
	char owner_file[544]; /* file that identifies this process to a shared queue, or "" */
	bool shared;          /* true: other processes can use the queue too */
	/* When this process started. A line length that was stored in the table earlier comes from
	 * another process. */
	uint32_t began_s;
	_Atomic uint64_t
		flight; /* bytes of all requests that were submitted and are not stored yet */
	/* Due time of the earliest request that was queued since the deliverer last read this
	 * field. UINT64_MAX: no request was queued since then. */
	_Atomic uint64_t due_us;
	struct wr_serve_queue_tally tally;
	struct wr_serve_queue_loop *loops[WR_LOOPS_MAX]; /* NULL: the loop is not created yet */

	pthread_mutex_t lock; /* protects `seen` */
	struct wr_serve_queue_seen seen;
};

struct wr_serve_queue_loop {
	struct wr_loop *loop;
	struct wr_serve_queue_host *host;
	struct wr_queue_port *port;
	struct wr_deliverer *deliverer; /* NULL: this is not the first loop */
	uv_async_t wake;
	pthread_mutex_t lock; /* protects `closed` */
	bool closed;          /* `wake` must not be used any more */
};

/* Returns whether the settings ask for a queue. */
bool wr_serve_queue_wanted(const struct wr_serve_queue_settings *settings);

/* Checks the syntax of the queue's URL and of the target. Returns 0 or WEIR_EINVAL. */
int wr_serve_queue_check(const struct wr_serve_queue_settings *settings, struct weir_error *error);

/* Makes this user the owner of the queue's files. For a queue on disk, these are its folder and the
 * files in the folder. For a shared queue, it is the file that identifies this process. Creates the
 * folder or file if it is missing. Also reads --queue-key, because the new user is perhaps not
 * allowed to read that file. Returns 0, or WEIR_E… with `error` filled in. Defined in
 * hand_over.c. */
int wr_serve_queue_give(struct wr_service *service, uid_t uid, gid_t gid, struct weir_error *error);

/* Erases the keys that wr_serve_queue_give has read. */
void wr_serve_queue_forget_seals(struct wr_service *service);

/* Checks that the user can access the folder of the queue. Called after the change of user. */
int wr_serve_queue_check_given(const struct wr_serve_queue_settings *settings, const char *user,
			       struct weir_error *error);

/* Opens the queue. Called after the change of user and before the loops are created. Returns 0, or
 * WEIR_E… with `error` filled in. */
int wr_serve_queue_host_open(struct wr_service *service, struct weir_error *error);

/* Completes all jobs and ends the queue's thread. Called after the loops have ended. `host` may be
 * NULL. */
void wr_serve_queue_host_close(struct wr_serve_queue_host *host);

static inline void wr_serve_queue_count(_Atomic uint64_t *number, uint64_t more)
{
	atomic_fetch_add_explicit(number, more, memory_order_relaxed);
}

/* Writes the statistics into the table as gauges. */
void wr_serve_queue_set_gauges(struct wr_serve_queue_host *host, struct weir_table *table,
			       uint64_t now_ns);

/* Copies the latest statistics. */
void wr_serve_queue_look(struct wr_serve_queue_host *host, struct wr_serve_queue_seen *seen);

/* ---- the queue in a loop ---- */

/* Creates loop->queue if the service has a queue. Called before the loop runs. Returns 0 or
 * WEIR_EMEMORY. */
int wr_serve_queue_loop_init(struct wr_loop *loop);
void wr_serve_queue_loop_stop(
	struct wr_loop *loop); /* closes the handles; called in the loop's thread */
/* Frees loop->queue. Called after wr_serve_queue_loop_stop() and wr_serve_queue_host_close(). */
void wr_serve_queue_loop_free(struct wr_loop *loop);

/* Begins no more deliveries. Deliveries in progress continue. */
void wr_serve_queue_loop_end_deliveries(struct wr_loop *loop);

/* Returns the number of deliveries in progress, plus 1 if a job that takes requests is in
 * progress. */
size_t wr_serve_queue_loop_busy(const struct wr_loop *loop);

/* Makes the queue report the length of every line again, for the new table. Called when the loop's
 * core was replaced. */
void wr_serve_queue_loop_core(struct wr_loop *loop);

/* Wakes the loop. Any thread may call. */
void wr_serve_queue_loop_wake(struct wr_serve_queue_loop *own);

/* The commands WEIR.DEFER and WEIR.TICKET, defined in from_resp.c. */
extern const struct wr_resp_queue wr_serve_queue_resp;

#endif
