/* Leaky bucket: a queue, first in first out, from which `limit` requests per period leave at even
 * distances. The decision tells how long the request has to wait. A request is refused if
 * queue_size requests are waiting already, or if its wait would be longer than max_wait.
 *
 * State: as in bucket.h. The backlog counts the requests that have not left, including the request
 * that is leaving now, so the capacity is queue_size + 1. A state of zeros is an empty queue.
 *
 * Example: queue 4, 1 per 250 ms, ten requests at t = 0. The first finds a backlog of 0 and leaves
 * at once; the next four find 1, 2, 3, 4 and leave at 0.25, 0.5, 0.75 and 1.0 s; the sixth finds 5,
 * 5 + 1 > 5, and is refused. It can be retried in 250 ms.
 *
 * Promise: departures are never closer than period / limit. Each delay is rounded up to whole ns,
 * but the next departure is computed from the exact time, so that roundings do not add up. A
 * latecomer joins the queue as of the state's time. The delay of a latecomer begins at its own
 * time, and is therefore longer by the difference between the two times.
 */
#ifndef WR_ALGO_LEAKY_H
#define WR_ALGO_LEAKY_H

#include "algo/bucket.h"

/* Returns 0 if a request that joins the queue now would wait for at most max_wait, or if the limit
 * has no max_wait. Otherwise returns how much of the backlog has to leave before a request can join
 * the queue, in units of 1/period of a request. */
static inline unsigned __int128 wr_leaky_beyond(const struct wr_bucket *b,
						const struct weir_limit *l)
{
	unsigned __int128 most = (unsigned __int128)l->max_wait_ns * l->limit;

	return l->max_wait_ns && b->backlog > most ? b->backlog - most : 0;
}

/* Returns the shortest wait until a request of cost n can join the queue. The request needs room in
 * the queue, and a delay of at most max_wait. The result is the longer of the waits for these two
 * conditions. */
static inline uint64_t wr_leaky_retry(const struct wr_bucket *b, const struct weir_limit *l,
				      uint32_t ceiling, uint64_t n)
{
	uint64_t room = wr_bucket_wait(b, l, ceiling, n);
	unsigned __int128 beyond = wr_leaky_beyond(b, l);
	uint64_t bound = beyond ? wr_algo_span_up(beyond, l->limit) + b->late_ns : 0;

	return room > bound ? room : bound;
}

/* See wr_token_step() for the arguments and the result. All n units of a request leave the queue at
 * the same time, and the request behind it leaves n · period / limit later. */
static inline bool wr_leaky_step(const struct weir_limit *l, uint32_t ceiling, struct weir_state *s,
				 int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	if (__builtin_expect(l->limit == 0, 0))
		return wr_bucket_shut(cost, d);

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);
	uint64_t n = wr_amount(cost);
	uint64_t delay_ns = b.backlog ? wr_bucket_reset_after(&b, l) : b.late_ns;
	uint64_t leaves_ns = now_ns + delay_ns;
	bool admitted =
		cost < 0 || (wr_bucket_fits(&b, l, ceiling, n) && wr_leaky_beyond(&b, l) == 0);

	now_ns += b.late_ns;
	if (cost < 0)
		wr_bucket_give(&b, l, n, 0, now_ns);
	else if (admitted && cost > 0)
		wr_bucket_take(&b, l, n, now_ns);
	if (b.changed)
		wr_bucket_store(&b, s);

	*d = (struct weir_decision){
		.admitted = admitted,
		.limit = l->capacity,
		.remaining = wr_leaky_beyond(&b, l) ? 0 : wr_bucket_remaining(&b, l),
		.retry_after_ns = admitted ? 0 : wr_leaky_retry(&b, l, ceiling, n),
		.reset_after_ns = wr_bucket_reset_after(&b, l),
		.delay_ns = admitted && cost >= 0 ? delay_ns : 0,
		.charged_ns = admitted && cost > 0 ? leaves_ns : 0,
	};
	return b.changed;
}

/* Gives back the position of a request that would leave the queue at charged_ns. If that time has
 * passed, gives back nothing. If another request is behind this one, gives back nothing either:
 * giving back moves the end of the queue forward, so a new request would get the departure time of
 * that other request. See wr_step_back() for the arguments and the result. */
static inline uint64_t wr_leaky_back(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				     uint64_t charged_ns, uint64_t now_ns)
{
	if (l->limit == 0)
		return 0;

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);

	now_ns += b.late_ns;
	if (b.backlog == 0 || charged_ns < now_ns)
		return 0;
	wr_bucket_give(&b, l, n, 0, now_ns);
	if (wr_algo_span_up(b.backlog, l->limit) != charged_ns - now_ns)
		return 0;
	wr_bucket_store(&b, s);
	return n;
}

#endif
