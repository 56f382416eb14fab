/* The requests of a loop that wait in leaky buckets. A heap with one timer orders them by due time.
 * The order of each queue is known too, so that requests move up when a request ahead of them
 * leaves. */
#ifndef WR_SERVE_DECIDE_WAITING_H
#define WR_SERVE_DECIDE_WAITING_H

#include <stdbool.h>
#include <uv.h>

#include "serve/decide/pending.h"

/* Maximum number of waiting requests of one loop; each holds an ask of 20 KiB. */
#define WR_WAITING_MAX 4096u
#define WR_WAITING_BUCKETS 1024u
#define WR_ASKS_KEPT 64u

struct wr_waiting {
	uv_timer_t timer;
	struct wr_heap heap; /* waiting requests by due time */
	struct wr_pending
		*last[WR_WAITING_BUCKETS]; /* the request that is due last in each bucket */
	void *asks;                        /* list of freed asks, for reuse */
	size_t ask_count;
};

int wr_waiting_init(struct wr_waiting *waiting, uv_loop_t *uv);
void wr_waiting_free(struct wr_waiting *waiting); /* called after the timer was closed */

/* Lets a request wait until place->due_ns. Then `done` of the request is called with WEIR_ADMIT.
 * Returns false if too many requests wait or there is no memory. */
bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_queue_position *place, uint64_t now_ns);

/* Removes a request. Other requests keep their due times. */
void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending);

/* Removes a request that leaves its queue. The requests behind it move up and are due earlier. */
void wr_waiting_leave(struct wr_waiting *waiting, struct wr_pending *pending, uint64_t now_ns);

/* Returns memory for an ask, followed by WR_DECISION_KEPT bytes for the texts of its descriptors,
 * or NULL if there is no memory. wr_waiting_give_ask frees the memory. */
void *wr_waiting_take_ask(struct wr_waiting *waiting);
void wr_waiting_give_ask(struct wr_waiting *waiting, void *memory);

#endif
