/* Token bucket: it holds up to `capacity` tokens, and `limit` tokens per period flow in. A request
 * takes as many tokens as its cost, or is refused.
 *
 * State: as in bucket.h. A state of zeros is a full bucket.
 *
 * Example: 1 per second, burst 5, full at t = 0, a request every 0.2 s. The requests at 0 … 0.8 s
 * take the 5 tokens. At 1.0 s one token has flowed in: taken 5, elapsed 1 s, backlog 4 tokens, so
 * the request passes. At 1.2 s the backlog is 4.8 tokens. One more would make 5.8 > 5, so the
 * request is refused. 0.8 tokens have to flow in first, which takes 0.8 s.
 *
 * Promise: in any time interval of length t, at most capacity + limit · t / period tokens are
 * taken.
 */
#ifndef WR_ALGO_TOKEN_H
#define WR_ALGO_TOKEN_H

#include "algo/bucket.h"

/* Decides under `ceiling`, which is l->capacity, or l->ceiling during the grace of soft mode. Fills
 * *d. Returns whether *s changed. */
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
		/* An admitted request leaves debt only above the capacity, in soft mode. */
		.debt = admitted && cost >= 0 && ceiling == l->capacity ? 0 : wr_bucket_debt(&b, l),
	};
	return b.changed;
}

/* Gives back n tokens that were taken at charged_ns, minus the tokens that have flowed in since
 * then. See wr_step_back() for the arguments and the result. */
static inline uint64_t wr_token_back(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				     uint64_t charged_ns, uint64_t now_ns)
{
	if (l->limit == 0)
		return 0;

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);

	now_ns += b.late_ns;
	/* The clock stepped back after the tokens were taken, so the number of tokens that flowed
	 * in since then is not known. */
	if (charged_ns > now_ns && charged_ns - now_ns > WR_SKEW_NS)
		return 0;
	n = wr_bucket_give(&b, l, n, now_ns > charged_ns ? now_ns - charged_ns : 0, now_ns);
	if (b.changed)
		wr_bucket_store(&b, s);
	return n;
}

/* Returns the number of whole tokens, at most n, that can certainly be given back at now_ns. n tokens
 * were taken at charged_ns, and after that `used` tokens were in use, rounded up.
 *
 * If the n tokens had not been taken, the bucket would lack n tokens less, unless it had been full
 * in between. It lacked at least used - 1 tokens at charged_ns, and at most `refilled` tokens have
 * flowed in since. So it lacked at least used - 1 - refilled tokens all the time, and this many of
 * the n tokens can be given back.
 *
 * Example: 100 per second, burst 1,000, empty. 200 tokens are taken at 0 s: used is 1,000. At 5 s, 500
 * tokens have flowed in. The bucket lacked at least 499 tokens all the time, so all 200 can be given
 * back. wr_token_back() would give back nothing, because it does not know `used`. */
static inline uint64_t wr_token_sure(const struct weir_limit *l, uint64_t n, uint64_t used,
				     uint64_t charged_ns, uint64_t now_ns)
{
	unsigned __int128 inflow, refilled;

	if (l->limit == 0 || used == 0 || charged_ns > now_ns)
		return 0;
	inflow = (unsigned __int128)(now_ns - charged_ns) * l->limit;
	/* In the usual case, all n tokens can be given back. Two products show this without a slow
	 * division. */
	if (used > n && inflow <= (unsigned __int128)(used - 1 - n) * l->period_ns)
		return n;
	refilled = (inflow + l->period_ns - 1) / l->period_ns;
	if (refilled >= used - 1)
		return 0;
	return used - 1 - (uint64_t)refilled < n ? used - 1 - (uint64_t)refilled : n;
}

/* Returns the shortest wait until n tokens are admitted under `ceiling`, provided that no other
 * request comes. Returns 0 if they are admitted now. */
static inline uint64_t wr_token_wait(const struct weir_limit *l, uint32_t ceiling,
				     const struct weir_state *s, uint64_t n, uint64_t now_ns)
{
	if (l->limit == 0)
		return WEIR_NEVER;

	struct wr_bucket b = wr_bucket_load(l, s, now_ns);

	return wr_bucket_wait(&b, l, ceiling, n);
}

/* Takes n tokens even if the bucket holds fewer, because other nodes have taken them. The bucket
 * can go below empty, until `taken` reaches the largest number that the state can hold. Tokens that
 * flow in later fill the deficit first. Returns whether *s changed. */
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
