/* The requests of a loop that wait in leaky buckets. A heap with one timer orders them by due time.
 * Lists store the order within each queue, so that requests move up when a request ahead of them
 * leaves. */
#ifndef WR_SERVE_DECIDE_WAITING_H
#define WR_SERVE_DECIDE_WAITING_H

#include <stdbool.h>
#include <uv.h>

#include "serve/decide/pending.h"
#include "serve/pool.h"

/* Maximum number of waiting requests of one loop. Each waiting request holds an ask of 20 KiB. */
#define WR_WAITING_MAX 4096u
#define WR_WAITING_LISTS 1024u
#define WR_ASKS_SPARE_MAX 64u /* maximum number of freed asks that are kept for reuse */

struct wr_waiting {
	uv_timer_t timer;
	struct wr_heap heap; /* waiting requests by due time */
	/* Lists of waiting requests. The hash of a request's queue selects the list. A list is
	 * ordered by due time, and can have requests of several queues. */
	struct wr_list lists[WR_WAITING_LISTS];
	/* Freed asks. Each has memory for an ask and then WR_DECISION_TEXT_BYTES bytes for the
	 * texts of its descriptors. */
	struct wr_pool asks;
};

int wr_waiting_init(struct wr_waiting *waiting, uv_loop_t *uv);
void wr_waiting_free(struct wr_waiting *waiting); /* called after the timer was closed */

/* Lets a request wait until its due time (position->due_ns), and then calls its `done` with
 * WEIR_ADMIT. Returns false if the request cannot wait, because too many requests wait or there is
 * no memory. */
bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_queue_position *position, uint64_t now_ns);

/* Removes a request. Other requests keep their due times. */
void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending);

/* Removes a request that gives up its position in the queue. The requests behind it move up and are
 * due earlier. */
void wr_waiting_leave(struct wr_waiting *waiting, struct wr_pending *pending, uint64_t now_ns);

#endif
