/* A decision that may take time.
 *
 *   if (wr_pending_init(&p, loop, domain) < 0) … answer that there is no memory
 *   p.done = answer; p.deadline_ns = …;
 *   weir_ask_add(p.ask, …);
 *   wr_pending_decide(&p);     // calls p.done, at once or later
 *
 * and `done` ends with wr_pending_end. A client that leaves before that is wr_pending_cancel and
 * wr_pending_end. The struct is the caller's and stays where it is. */
#ifndef WR_SERVE_DECIDE_PENDING_H
#define WR_SERVE_DECIDE_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/engine.h>

#include "central/central.h"
#include "wire/check/decision_json.h"

struct wr_loop;
struct wr_core_ref;

struct wr_pending {
	struct wr_loop *loop;
	struct weir_ask *ask;
	/* CLOCK_REALTIME; the answer is of no use after it. 0: none. */
	uint64_t deadline_ns;
	/* The caller waits a leaky bucket's delay out itself: `done` comes at once with WEIR_DELAY,
	 * and the place in the queue is kept. */
	bool tell_delay;
	/* For the decision log: which door it came by (a literal), and its trace. */
	const char *via;
	struct wr_trace trace;
	/* The verdict to answer with, which may be milder than weir_ask_result's when the service
	 * is in shadow mode: WEIR_ADMIT   go on; a leaky bucket's wait is over WEIR_REFUSE,
	 * WEIR_DEFER WEIR_DELAY   would have to wait beyond the deadline or beyond what can be
	 * held: nothing was taken, and it is to be refused below 0      the engine's error */
	void (*done)(struct wr_pending *pending, int verdict);

	/* Not the caller's. */
	struct wr_central_ask store; /* what the central store is asked */
	bool asking;
	uint64_t begun_ns; /* when it was decided, or the store asked */
	struct wr_core_ref *ref;
	uint64_t queue, due_ns;
	size_t heap_at; /* place in the heap, from 1; 0: not waiting */
	struct wr_pending *before,
		*behind; /* of the same queue, or of one that shares its bucket */
};

/* Takes memory for an ask and begins it. 0, or WEIR_EMEMORY. */
int wr_pending_init(struct wr_pending *pending, struct wr_loop *loop, struct weir_str domain);

void wr_pending_decide(struct wr_pending *pending);

/* The client has gone: `done` will not be called any more, what was taken is given back, here and
 * in the central store, and those who wait behind move up. Before, while or after it is decided. */
void wr_pending_cancel(struct wr_pending *pending);

/* Lets go of rules and memory. Once, also when not decided; a zeroed struct is fine. */
void wr_pending_end(struct wr_pending *pending);

#endif
