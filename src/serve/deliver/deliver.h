/* The deliverer: takes deferred requests out of the queue, in order of each key, asks the limiter
 * as everybody does, and delivers them to the API server. In the service's first loop.
 *
 *   take ──► asking ──► sending ──► settling ──► free
 *              │  ▲                    ▲
 *              ▼  │                    │
 *             held (refused, for a moment) or released for longer
 *
 * Of a key there is one at a time: the next is given by the queue when this one is settled, which
 * is durable before the next is sent. What an API server has answered is therefore not sent again,
 * unless the process dies between its answer and the disk, or the queue is lost meanwhile.
 *
 * While the target can not be reached at all, nothing is sent but a try now and then, and that is
 * not held against the request it is made with: an API server that is away for a night does not
 * make dead letters, age alone does. A gateway says so of servers behind it by the field
 * X-Weir-Unreachable in a 502 or 504 of its own: no connection to any of them could be made.
 *
 * Any other 502, 503 or 504 says of one request that the API server is not there. It is no try
 * either, but others are sent meanwhile; unless these were answered since the request was tried
 * before. In both cases what the limits took for it is given back. */
#ifndef WR_SERVE_DELIVER_DELIVER_H
#define WR_SERVE_DELIVER_DELIVER_H

#include "serve/deliver/policy.h"
#include "serve/deliver/queue_host.h"

struct wr_deliverer;

/* A queue that others use too gives a request for so long, beyond what a delivery may take … */
#define WR_DELIVER_LEASE_US 20000000u
/* … so a delivery begins within this time, or not at all: then it might be begun elsewhere too. */
#define WR_DELIVER_BEGIN_US 10000000u

/* Of the loop; it delivers if there is a target, and looks at how the queue stands in any case.
 * NULL: no memory. */
struct wr_deliverer *wr_deliver_new(struct wr_queue_loop *own);
void wr_deliver_stop(struct wr_deliverer *deliverer); /* handles are closed; deliveries are cut */
void wr_deliver_free(struct wr_deliverer *deliverer); /* NULL is fine; handles have been closed */

/* Takes nothing more; what is under way goes on. */
void wr_deliver_end(struct wr_deliverer *deliverer);
size_t wr_deliver_busy(const struct wr_deliverer *deliverer);

/* Something was put that will be due in `wait_us`. Any thread. */
void wr_deliver_due(struct wr_queue_host *host, uint64_t wait_us);
void wr_deliver_wake(struct wr_deliverer *deliverer); /* the loop was woken */

/* The table is another one: the queue is to tell all lines again. */
void wr_deliver_recount(struct wr_deliverer *deliverer);

#endif
