/* One decision from the ask to the verdict, also when it takes time: the question to the central
 * store, its failure, a leaky bucket's delay, shadow mode, timing, and the decision log. gRPC,
 * HTTP, RESP and the deliverer of deferred requests all decide this way, in the thread of their
 * loop.
 *
 *   if (wr_pending_init(&p, loop, domain) < 0) … respond: out of memory
 *   p.done = respond; p.deadline_ns = …;
 *   weir_ask_add(p.ask, …);
 *   wr_pending_decide(&p);     // calls p.done, at once or later
 *
 * `done` ends with wr_pending_end. When a client disconnects before that, its connection calls
 * wr_pending_cancel and wr_pending_end. The struct is the caller's and must not move.
 *
 * Two parts of RESP are not here. The order of pipelined replies and the bounds on waiting commands
 * belong to its sessions (wire/resp/wait.h, serve/resp/waits.h). CL.THROTTLE and WEIR.ASK send
 * questions of their own to the central store and have no ask that could be decided. */
#ifndef WR_SERVE_DECIDE_PENDING_H
#define WR_SERVE_DECIDE_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/engine.h>

#include "base/heap.h"
#include "central/central.h"
#include "wire/check/decision_json.h"

struct wr_loop;
struct wr_core_ref;

struct wr_pending {
	struct wr_loop *loop;
	struct weir_ask *ask;
	/* CLOCK_REALTIME: a response after it is of no use. 0: none. */
	uint64_t deadline_ns;
	/* The caller waits a leaky bucket's delay itself: `done` comes at once with WEIR_DELAY, and
	 * the request keeps its position in the queue. */
	bool report_delay;
	/* For the decision log: the protocol (a literal) and the trace. */
	const char *via;
	struct wr_trace trace;
	/* The verdict to respond with. In shadow mode it may be milder than weir_ask_result's.
	 *   WEIR_ADMIT   go on; a leaky bucket's delay is over
	 *   WEIR_REFUSE, WEIR_DEFER
	 *   WEIR_DELAY   the delay ends after the deadline, or too many requests wait: nothing was
	 *                taken, refuse it
	 *   below 0      the engine's error */
	void (*done)(struct wr_pending *pending, int verdict);

	/* Private. */
	struct wr_central_ask question; /* to the central store */
	bool asking;                    /* … is in flight */
	uint64_t begun_ns;              /* when the decision began */
	struct wr_core_ref *ref;
	uint64_t queue, due_ns;
	struct wr_heap_node heap_node;
	/* Neighbours in the same queue, or in one that shares its bucket. */
	struct wr_pending *before, *behind;
};

/* Allocates an ask and begins it. Returns 0, WEIR_EMEMORY, or an error of weir_ask_init; after an
 * error there is nothing to end. */
int wr_pending_init(struct wr_pending *pending, struct wr_loop *loop, struct weir_str domain);

/* Decides by the clock of now. Calls pending->done once, before it returns or later. */
void wr_pending_decide(struct wr_pending *pending);

/* The same for a caller that has read the clock for several decisions: they all count at now_ns. */
void wr_pending_decide_at(struct wr_pending *pending, uint64_t now_ns);

/* The client has disconnected: `done` is not called any more. Gives back what was taken, in the
 * table and in the central store; requests behind it in a leaky bucket move up. May be called
 * before, during and after the decision. */
void wr_pending_cancel(struct wr_pending *pending);

/* Frees the ask and releases its rules. Once, also if nothing was decided; a zeroed struct is
 * fine. */
void wr_pending_end(struct wr_pending *pending);

#endif
