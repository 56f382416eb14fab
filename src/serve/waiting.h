/* Requests that wait out a leaky bucket's delay, in a loop: a heap by due time with one timer, and
 * the order within each queue, so that those behind move up when one leaves. */
#ifndef WR_SERVE_WAITING_H
#define WR_SERVE_WAITING_H

#include <stdbool.h>
#include <uv.h>

#include "serve/pending.h"

#define WR_WAITING_MAX 4096u /* of one loop: each holds an ask's memory, 20 KiB */
#define WR_WAITING_BUCKETS 1024u
#define WR_ASKS_KEPT 64u

struct wr_waiting {
	uv_timer_t timer;
	struct wr_pending **heap; /* [1] is due first */
	size_t count, cap;
	struct wr_pending *last[WR_WAITING_BUCKETS]; /* by queue: the one due last */
	void *asks;                                  /* memory given back */
	size_t ask_count;
};

int wr_waiting_init(struct wr_waiting *waiting, uv_loop_t *uv);
void wr_waiting_free(struct wr_waiting *waiting); /* its timer has been closed */

/* False: no room or no memory. */
bool wr_waiting_add(struct wr_waiting *waiting, struct wr_pending *pending,
		    const struct weir_queue_position *place, uint64_t now_ns);

/* Takes it out; the others stay as they are. */
void wr_waiting_remove(struct wr_waiting *waiting, struct wr_pending *pending);

/* Trades places with all behind it, and takes it out. */
void wr_waiting_leave(struct wr_waiting *waiting, struct wr_pending *pending, uint64_t now_ns);

/* For an ask, and behind it WR_DECISION_KEPT bytes for the texts of its descriptors. */
void *wr_ask_memory_take(struct wr_waiting *waiting);
void wr_ask_memory_give(struct wr_waiting *waiting, void *memory);

#endif
