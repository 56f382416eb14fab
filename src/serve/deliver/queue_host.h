/* Deferred requests in the service: the queue, what a loop has to do with it, and what is known of
 * it. The queue's own thread waits for the disk or for Redis; loops hand jobs to it and are told
 * later (queue/queue.h).
 *
 *   service   struct wr_queue_host   the queue, counts, how it stands
 *   loop      struct wr_queue_loop   its port, and in the first loop the deliverer
 * (serve/deliver/deliver.h)
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
#define WR_QUEUE_FLIGHT_MAX (64u << 20) /* bytes on their way to the queue's thread */

/* X(name, what): what this process did with deferred requests. */
#define WR_QUEUE_TALLY(X)                                                                          \
	X(stored, "stored")                                                                        \
	X(delivered, "delivered: the API server gave a final answer")                              \
	X(retried, "tries that failed and will be made again")                                     \
	X(dead, "given up")

struct wr_queue_tally {
#define WR_QUEUE_TALLY_FIELD(name, what) _Atomic uint64_t name;
	WR_QUEUE_TALLY(WR_QUEUE_TALLY_FIELD)
#undef WR_QUEUE_TALLY_FIELD
	_Atomic uint64_t refused[WR_QUEUE_REASON_COUNT];
};

/* How it stands, as of the last look. */
struct wr_queue_seen {
	bool known; /* the rest is */
	uint64_t at_ns;
	struct wr_queue_stats stats;
	uint32_t sending;     /* deliveries under way */
	uint64_t down_for_ns; /* the target can not be reached for so long; 0: it can */
};

struct wr_queue_host {
	struct wr_service *service;
	const struct wr_settings *settings;
	struct wr_queue *queue;
	char text[WR_QUEUE_URL_TEXT]; /* the URL, without secrets */
	char owner_file[544];         /* beside the table, for one process at a time; "": none */
	bool shared;                  /* others may use it too */
	uint32_t began_s;             /* what the table says of before is somebody else's */
	_Atomic uint64_t flight;      /* bytes on their way */
	_Atomic uint64_t due_us;      /* something was put that is due then; UINT64_MAX: no */
	struct wr_queue_tally tally;
	struct wr_queue_loop *loops[WR_LOOPS_MAX]; /* of each loop; NULL: not made yet */

	pthread_mutex_t lock; /* of all below */
	struct wr_queue_seen seen;
};

struct wr_queue_loop {
	struct wr_loop *loop;
	struct wr_queue_host *host;
	struct wr_queue_port *port;
	struct wr_deliverer *deliverer; /* NULL: not in this loop, or there is no target */
	uv_async_t wake;
	pthread_mutex_t lock; /* of `closed`: then `wake` is not to be touched */
	bool closed;
};

/* Whether a queue is wanted. */
bool wr_queue_wanted(const struct wr_queue_settings *settings);

/* URL and target as they are written. WEIR_EINVAL */
int wr_queue_check(const struct wr_queue_settings *settings, struct weir_error *error);

/* hand_over.c: the folder of a file queue, and the file that names this process to a shared one,
 * become the user's. Both are made if they are missing. */
int wr_queue_give(struct wr_service *service, uid_t uid, gid_t gid, struct weir_error *error);

/* The key of --queue-key, which wr_queue_give has read: the user need not be able to. */
void wr_queue_forget_seals(struct wr_service *service);

/* Afterwards, with the rights of that user: whether it gets to the folder. */
int wr_queue_check_given(const struct wr_queue_settings *settings, const char *user,
			 struct weir_error *error);

/* Opens it, with the rights that the service keeps. Before the loops are made. */
int wr_queue_host_open(struct wr_service *service, struct weir_error *error);

/* After the loops have ended: jobs come to their end, the thread ends. NULL is fine. */
void wr_queue_host_close(struct wr_queue_host *host);

static inline void wr_queue_count(_Atomic uint64_t *number, uint64_t more)
{
	atomic_fetch_add_explicit(number, more, memory_order_relaxed);
}

/* The same as gauges in the table. */
void wr_queue_set_gauges(struct wr_queue_host *host, struct weir_table *table, uint64_t now_ns);

/* How it stands. */
void wr_queue_look(struct wr_queue_host *host, struct wr_queue_seen *seen);

/* ---- of a loop ---- */

/* Before the loop runs; does nothing without a queue. WEIR_EMEMORY */
int wr_queue_loop_init(struct wr_loop *loop);
void wr_queue_loop_stop(struct wr_loop *loop); /* in its thread: handles are closed */
void wr_queue_loop_free(struct wr_loop *loop); /* … after that, and after wr_queue_host_close */

/* No new deliveries; those under way go on. */
void wr_queue_loop_drain(struct wr_loop *loop);

/* Deliveries under way, and jobs that somebody waits for. */
size_t wr_queue_loop_busy(const struct wr_loop *loop);

/* There is another table. */
void wr_queue_loop_core(struct wr_loop *loop);

/* Wakes the loop, from any thread. */
void wr_queue_loop_wake(struct wr_queue_loop *own);

/* from_resp.c: WEIR.DEFER and WEIR.TICKET. */
extern const struct wr_resp_queue wr_queue_resp;

#endif
