/* Token bucket: `capacity` tokens, filled with `limit` tokens per period; a request takes its cost
 * in tokens or is refused.
 *
 * State: as in bucket.h; zeroed is a full bucket.
 *
 * Example: 1 per second, burst 5, full at t = 0, a request every 0.2 s. Those at 0 … 0.8 s take
 * the 5 tokens; at 1.0 s the first has come back: taken 5, elapsed 1 s, backlog 4 tokens, and the
 * request passes; at 1.2 s the backlog is 4.8 tokens, one more makes 5.8 > 5: refused, and
 * 0.8 tokens too many at 1 per second are a wait of 0.8 s.
 *
 * Promise: in any span t no more than capacity + limit · t / period are admitted.
 */
#ifndef WR_ALGO_TOKEN_H
#define WR_ALGO_TOKEN_H

#include "algo/bucket.h"

/* One decision under `ceiling` (capacity, or in the overshoot of soft mode l->ceiling). Fills *d,
 * changes *s and returns whether it did. */
static inline bool wr_token_step(const struct weir_limit *l, uint32_t ceiling, struct weir_state *s,
				 int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	if (__builtin_expect(l->limit == 0, 0))
		return wr_bucket_shut(cost, d);

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);
	uint64_t n = wr_amount(cost);
	bool admitted = cost < 0 || wr_bucket_fits(&b, l, ceiling, n);

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
		.remaining = wr_bucket_remaining(&b, l),
		.retry_after_ns = admitted ? 0 : wr_bucket_wait(&b, l, ceiling, n),
		.reset_after_ns = wr_bucket_reset_after(&b, l),
		.charged_ns = admitted && cost > 0 ? now_ns : 0,
	};
	return b.changed;
}

/* Gives back the part of n taken tokens that cannot have flowed in again since. As wr_step_back().
 */
static inline uint64_t wr_token_back(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				     uint64_t charged_ns, uint64_t now_ns)
{
	if (l->limit == 0)
		return 0;

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);

	now_ns += b.late_ns;
	/* The clock stepped back since the take: it is unknown how much flowed in. */
	if (charged_ns > now_ns && charged_ns - now_ns > WR_SKEW_NS)
		return 0;
	n = wr_bucket_give(&b, l, n, now_ns > charged_ns ? now_ns - charged_ns : 0, now_ns);
	if (b.changed)
		wr_bucket_store(&b, s);
	return n;
}

/* The shortest wait until n pass under `ceiling` if no other request comes; 0: they pass now. */
static inline uint64_t wr_token_wait(const struct weir_limit *l, uint32_t ceiling,
				     const struct weir_state *s, uint64_t n, uint64_t now_ns)
{
	if (l->limit == 0)
		return WEIR_NEVER;

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);

	return wr_bucket_wait(&b, l, ceiling, n);
}

/* Takes n whatever the bucket holds: other nodes took them from the same bucket. The bucket goes
 * below empty, as far as the state can hold it, and what flows in fills that up first. */
static inline bool wr_token_charge(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				   uint64_t now_ns)
{
	if (l->limit == 0)
		return false;

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);

	if (n > WR_BUCKET_MOST - b.taken)
		n = WR_BUCKET_MOST - b.taken;
	wr_bucket_take(&b, l, n, now_ns + b.late_ns);
	wr_bucket_store(&b, s);
	return true;
}

#endif
