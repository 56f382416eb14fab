/* The token bucket with arithmetic in one machine word, for admitted requests under a limit whose
 * numbers fit.
 *
 * The state has the format of bucket.h, and the results are the same. There are no 128-bit
 * products, and the rare cases are not handled: a latecomer, a clock that stepped back, a `taken`
 * that needs 33 bits, and a bucket that is not full a whole period after `since`. In a rare case
 * wr_narrow_take() returns false, and the caller uses token.h. A limit fits if the largest backlog,
 * (ceiling + limit) · period, is below 2^62: 1,000 per second, 10,000 per day and 300 per 3 hours
 * fit, a million per month does not.
 *
 * Example: as in token.h, 1 per second, burst 5. wr_narrow_ns() returns 2^62 / 1. If the elapsed
 * time is below this result, its product with the limit is below 2^62. Otherwise the bucket is
 * full.
 */
#ifndef WR_ALGO_NARROW_H
#define WR_ALGO_NARROW_H

#include "algo/amount.h"
#include "algo/harm.h"

#define WR_NARROW_MAX (1ull << 62)

struct wr_narrow {
	uint64_t backlog; /* backlog after the tokens were taken, in units of 1/period of a token */
	uint64_t since_ns;
	uint64_t taken;
};

/* Returns the shortest elapsed time whose product with the limit is 2^62 or more. After such a time
 * every bucket is full, so the functions below use the product only for shorter times. Returns 0
 * for a limit that does not fit. Called by weir_limit_check(). */
static inline uint64_t wr_narrow_ns(const struct weir_limit *l)
{
	unsigned __int128 most = ((unsigned __int128)l->ceiling + l->limit) * l->period_ns;

	if (l->algorithm != WEIR_TOKEN_BUCKET || l->limit == 0 || most >= WR_NARROW_MAX)
		return 0;
	return (WR_NARROW_MAX - 1) / l->limit + 1;
}

static inline bool wr_narrow_fits(const struct weir_limit *l, int64_t cost)
{
	return l->narrow_ns != 0 && (uint64_t)cost - 1 < l->capacity;
}

/* Takes `cost` tokens; wr_narrow_fits() must be true for `cost`. Returns false if there are too few
 * tokens, or in one of the rare cases. The caller then ignores *b. One comparison, s0 > now_ns,
 * detects two of the rare cases: a latecomer, and a 33rd bit of `taken`. This bit is the top bit of
 * s0, and now_ns is below 2^63. */
static inline bool wr_narrow_take(const struct weir_limit *l, uint64_t s0, uint32_t s1,
				  uint64_t cost, uint64_t now_ns, struct wr_narrow *b)
{
	uint64_t elapsed = now_ns - s0;
	uint64_t due = s1 * l->period_ns;
	uint64_t outflow = elapsed * l->limit;

	if (s0 > now_ns || s1 > (uint64_t)l->ceiling + l->limit)
		return false;
	if (elapsed < l->narrow_ns && due > outflow) {
		/* If a whole period has passed after `since`, the caller has to use token.h, which
		 * moves `since` forward if necessary. */
		if (elapsed >= l->period_ns)
			return false;
		b->since_ns = s0;
		b->taken = s1 + cost;
		b->backlog = due - outflow + cost * l->period_ns;
	} else {
		b->since_ns = now_ns;
		b->taken = cost;
		b->backlog = cost * l->period_ns;
	}
	return b->backlog <= l->capacity * l->period_ns && b->taken <= UINT32_MAX;
}

/* Gives back n tokens that were taken at charged_ns, minus the tokens that have flowed in since
 * then, as wr_token_back() does. Sets *returned to the number of whole tokens that were given back.
 * Returns false in a rare case: a latecomer, a bucket that is full or has debt, a request that came
 * more than a period before `since`, or nothing to give back. The caller then ignores *b and
 * *returned.
 *
 * Example: 1 per second, burst 5. 4 tokens were taken at 0 s, when the bucket was full. If 3 of
 * them are given back at 1 s, the backlog falls from 3 tokens to 1, and *returned is 2. */
static inline bool wr_narrow_give(const struct weir_limit *l, uint64_t s0, uint32_t s1, uint64_t n,
				  uint64_t charged_ns, uint64_t now_ns, struct wr_narrow *b,
				  uint64_t *returned)
{
	uint64_t elapsed = now_ns - s0, age = now_ns - charged_ns;
	uint64_t due = s1 * l->period_ns;
	uint64_t outflow = elapsed * l->limit;
	uint64_t owed = n * l->period_ns;
	uint64_t refilled = age * l->limit;

	if (s0 > now_ns || charged_ns > now_ns || n > l->ceiling ||
	    s1 > (uint64_t)l->ceiling + l->limit || elapsed >= l->narrow_ns ||
	    age >= l->narrow_ns || due <= outflow || owed <= refilled)
		return false;

	uint64_t backlog = due - outflow, given = owed - refilled;
	/* If `since` would be after now_ns, it is moved back by a period (wr_bucket_give). */
	uint64_t periods = s0 > charged_ns;
	uint64_t since_ns = s0 + age - periods * l->period_ns;
	uint64_t taken = s1 + periods * l->limit - n;

	if (given >= backlog) {
		given = backlog;
		*b = (struct wr_narrow){.since_ns = now_ns};
	} else if (since_ns > now_ns || taken > UINT32_MAX) {
		return false; /* more than a period, or a difference below 0 */
	} else {
		*b = (struct wr_narrow){backlog - given, since_ns, taken};
	}
	*returned = given / l->period_ns;
	return b->backlog <= l->capacity * l->period_ns;
}

/* Returns true if the bucket will be full at then_ns, provided that no more tokens are taken until
 * then. Needs no division. */
static inline bool wr_narrow_full_by(const struct weir_limit *l, const struct wr_narrow *b,
				     uint64_t now_ns, uint64_t then_ns)
{
	uint64_t span_ns = then_ns - now_ns;

	if (then_ns < now_ns)
		return false;
	return span_ns >= l->narrow_ns || b->backlog <= span_ns * l->limit;
}

/* Returns the harm (harm.h) of the tokens in use, which are the backlog divided by the period. */
static inline unsigned wr_narrow_harm(const struct weir_limit *l, const struct wr_narrow *b)
{
	return wr_harm_of_quotient(b->backlog, (unsigned)l->harm_base);
}

static inline void wr_narrow_fill_decision(const struct weir_limit *l, const struct wr_narrow *b,
					   uint64_t now_ns, struct weir_decision *d)
{
	*d = (struct weir_decision){
		.admitted = 1,
		.limit = l->capacity,
		.remaining = (uint32_t)((l->capacity * l->period_ns - b->backlog) / l->period_ns),
		.reset_after_ns = (b->backlog + l->limit - 1) / l->limit,
		.charged_ns = now_ns,
	};
}

#endif
