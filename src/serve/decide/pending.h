/* Makes one decision, from the ask to the verdict. Sends the question to the central store, handles
 * a failure of the central store, waits for a leaky bucket's delay, applies shadow mode, measures
 * how long the decision takes, and writes the decision log. gRPC, HTTP, RESP and the deliverer of
 * deferred requests all decide this way, in the thread of their loop.
 *
 *   if (wr_pending_init(&p, loop, domain) < 0) … respond: out of memory
 *   p.done = respond; p.deadline_ns = …;
 *   weir_ask_add(p.ask, …);
 *   wr_pending_decide(&p);     // calls p.done, at once or later
 *
 * `done` has to call wr_pending_end when it has responded. If a client disconnects before `done` is
 * called, its connection calls wr_pending_cancel and wr_pending_end. The caller owns the struct,
 * which must not move.
 *
 * Two tasks of RESP are done outside this folder. RESP sessions keep pipelined replies in order and
 * limit the number of waiting commands (wire/resp/wait.h, serve/resp/waits.h). CL.THROTTLE and
 * WEIR.ASK send their own questions to the central store, without an ask. */
#ifndef WR_SERVE_DECIDE_PENDING_H
#define WR_SERVE_DECIDE_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/host.h>

#include "base/heap.h"
#include "base/list.h"
#include "central/central.h"
#include "wire/check/decision_json.h"

struct wr_loop;
struct wr_core_ref;

#define WR_PENDING_MAGIC 0x70656e64u

struct wr_pending {
	uint32_t magic; /* WR_PENDING_MAGIC from wr_pending_init() to wr_pending_end() */
	struct wr_loop *loop;
	struct weir_ask *ask;
	/* Time (CLOCK_REALTIME) after which the client does not use a response. 0: no deadline. */
	uint64_t deadline_ns;
	/* If set, the caller waits a leaky bucket's delay itself: `done` is called at once with
	 * WEIR_DELAY, and the request keeps its position in the queue. */
	bool report_delay;
	/* For the decision log: the protocol (a string literal), and the trace id and span id that
	 * the client has sent in `traceparent`. */
	const char *via;
	struct wr_trace trace;
	/* Called with the verdict to respond with. With --shadow the verdict is WEIR_ADMIT, even if
	 * weir_ask_result reports a refusal.
	 *   WEIR_ADMIT   the request is admitted; a leaky bucket's delay is over
	 *   WEIR_REFUSE  the request is refused
	 *   WEIR_DEFER   the request is refused, but can be deferred
	 *   WEIR_DELAY   if report_delay is set: the caller waits for the delay. Otherwise the
	 *                request cannot wait, because the delay ends after the deadline or too many
	 *                requests wait. Its units were given back, and the caller refuses it.
	 *   below 0      the engine's error */
	void (*done)(struct wr_pending *pending, int verdict);

	/* The fields below are private to serve/decide. */
	struct wr_central_ask question; /* the question to the central store */
	bool asking;                    /* the question is in flight */
	void *record;                   /* memory of wr_pending_reserve(), or NULL */
	uint64_t begun_ns;              /* when the decision began */
	struct wr_core_ref *ref;
	uint64_t queue, due_ns;
	struct wr_heap_node heap_node;
	struct wr_list order; /* links the request in a list of struct wr_waiting */
};

/* Allocates and begins pending->ask. Returns 0, WEIR_EMEMORY, or an error of weir_ask_init. After
 * an error, the caller need not call wr_pending_end. */
int wr_pending_init(struct wr_pending *pending, struct wr_loop *loop, struct weir_str domain);

/* Makes the request a reservation. Called before descriptors are added. Returns 0, WEIR_EMEMORY or
 * WEIR_EINVAL. */
int wr_pending_reserve(struct wr_pending *pending);

/* Writes the token of the reservation to `text`, after `done` was called with WEIR_ADMIT or
 * WEIR_DELAY. Sets *ttl_ns to the time to live; on entry it is the time that the client asked for,
 * or 0. Returns the length of the token. On failure gives back the units and returns an error of
 * wr_reservation_write. */
int wr_pending_token(struct wr_pending *pending, uint64_t *ttl_ns, char *text);

/* Decides at the current time. Calls pending->done once, before this function returns or later. */
void wr_pending_decide(struct wr_pending *pending);

/* Like wr_pending_decide, but decides at the time now_ns. For a caller that makes several decisions
 * with one reading of the clock. */
void wr_pending_decide_at(struct wr_pending *pending, uint64_t now_ns);

/* Charges units that were already used, as debt if they exceed the limits. Calls pending->done with
 * WEIR_ADMIT before it returns. Called instead of wr_pending_decide. */
void wr_pending_charge(struct wr_pending *pending);

/* Cancels the decision, because the client has disconnected: `done` is not called afterwards. Gives
 * back the units that were taken, in the table and in the central store. Requests behind this
 * request in a leaky bucket move up. May be called before, during and after the decision. */
void wr_pending_cancel(struct wr_pending *pending);

/* Settles the request by its response: gives back the units that it did not use, charges the units
 * that it used in addition, and gives back its slots. Called after `done` was called with
 * WEIR_ADMIT, and before wr_pending_end. Does nothing if there is nothing to settle. */
void wr_pending_settle(struct wr_pending *pending, const struct weir_outcome *outcome);

/* Frees the ask and releases its rules. The caller calls this once, even if nothing was decided. A
 * zeroed struct is allowed. */
void wr_pending_end(struct wr_pending *pending);

#endif
