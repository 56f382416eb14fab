/* The requests of a loop that wait in leaky buckets: a heap by due time with one timer, and the
 * order of each queue, so that requests move up when one ahead of them leaves. */
#ifndef WR_SERVE_DECIDE_WAITING_H
#define WR_SERVE_DECIDE_WAITING_H

#include <stdbool.h>
#include <uv.h>

#include "serve/decide/pending.h"

#define WR_WAITING_MAX 4096u /* of one loop: each holds an ask of 20 KiB */
#define WR_WAITING_BUCKETS 1024u
#define WR_ASKS_KEPT 64u

struct wr_waiting {
	uv_timer_t timer;
	struct wr_heap heap; /* by due time */
	struct wr_pending
		*last[WR_WAITING_BUCKETS]; /* of each bucket of queues: the request due last */
	void *asks;                        /* freed asks, for reuse */
	size_t ask_count;
};

int wr_waiting_init(struct wr_waiting *waiting, uv_loop_t *uv);
void wr_waiting_free(struct wr_waiting *waiting); /* after its timer was closed */

/* Lets a request wait until place->due_ns; then its `done` is called with WEIR_ADMIT. Returns false
 * if too many requests wait or there is no memory. */
bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_queue_position *place, uint64_t now_ns);

/* Removes a request; the others keep their due times. */
void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending);

/* Removes a request that leaves its queue: the requests behind it move up. */
void wr_waiting_leave(struct wr_waiting *waiting, struct wr_pending *pending, uint64_t now_ns);

/* Memory for an ask, followed by WR_DECISION_KEPT bytes for the texts of its descriptors; NULL:
 * none. The second function frees it. */
void *wr_waiting_take_ask(struct wr_waiting *waiting);
void wr_waiting_give_ask(struct wr_waiting *waiting, void *memory);

#endif
