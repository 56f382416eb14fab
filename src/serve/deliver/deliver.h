/* The deliverer takes deferred requests from the queue, asks the limiter about them like any
 * client, and sends them to the API server. Requests of one key keep their order. The deliverer
 * runs in the service's first loop. A request that the limiter refuses is held in memory for up to
 * a second, or released, that is, returned to the queue.
 *
 *   take ──► asking ──► sending ──► settling ──► free
 *             │ ▲ │                    ▲
 *             │ │ └──── released ──────┘    refused for more than a second
 *             ▼ │
 *             held                          refused for up to a second
 *
 * At most one request per key is delivered at a time. The queue hands out the next request of a key
 * when the outcome of the previous request has been stored durably. A request that the API server
 * has answered is therefore sent again only if the process dies before the outcome is stored, or if
 * the queue is lost.
 *
 * While the target is unreachable, the deliverer sends one request now and then as a trial. A
 * failed trial does not count as an attempt of the request. So during an outage of the API server,
 * a request becomes a dead letter only when it reaches max_age. A gateway reports an unreachable
 * API server with the header field X-Weir-Unreachable in its 502 or 504.
 *
 * Any other 502, 503 or 504 means that the API server is unavailable for this request. Other
 * requests are still sent. The response does not count as an attempt, unless the API server has
 * answered other requests of the rule since the previous attempt (absent.h). The units that the
 * limits charged for a request are given back if the target was unreachable or if the response does
 * not count as an attempt. */
#ifndef WR_SERVE_DELIVER_DELIVER_H
#define WR_SERVE_DELIVER_DELIVER_H

#include "serve/deliver/policy.h"
#include "serve/deliver/queue_host.h"

struct wr_deliverer;

/* In a queue that several processes share, a process that takes a request owns it for a limited
 * time. During that time no other process delivers the request. The time is the delivery timeout
 * plus this constant. */
#define WR_DELIVER_LEASE_US 20000000u
/* In a shared queue, a delivery that has not begun within this time is given up. Otherwise another
 * process could take the request before the delivery ends, and deliver it a second time. */
#define WR_DELIVER_BEGIN_US 10000000u

/* Creates the loop's deliverer. The deliverer reads the queue's statistics every second. With
 * --queue-target, the deliverer delivers requests too. Returns NULL if there is no memory. */
struct wr_deliverer *wr_deliver_new(struct wr_serve_queue_loop *own);
void wr_deliver_stop(struct wr_deliverer *deliverer); /* aborts deliveries, closes the handles */
/* Frees the deliverer, which may be NULL. Called after the handles are closed. */
void wr_deliver_free(struct wr_deliverer *deliverer);

/* Stops taking requests from the queue. Deliveries in progress continue. */
void wr_deliver_end(struct wr_deliverer *deliverer);
/* Returns the number of deliveries in progress, plus 1 if a job that takes requests is in
 * progress. */
size_t wr_deliver_busy(const struct wr_deliverer *deliverer);

/* Records that a request due in `wait_us` was queued. Any thread may call. */
void wr_deliver_due(struct wr_serve_queue_host *host, uint64_t wait_us);
/* Sets the timer for the requests that wr_deliver_due() has recorded. Called when the loop was
 * woken. */
void wr_deliver_wake(struct wr_deliverer *deliverer);

/* Called when the table was replaced. Makes the queue report the length of every line again. */
void wr_deliver_recount(struct wr_deliverer *deliverer);

#endif
