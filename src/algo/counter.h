/* Sliding window counter: the counts of the current window and of the previous one. It assumes that
 * the requests of the previous window came evenly, and counts only the part of them that is less
 * than one period old.
 *
 * State: s0 high 32 bits  taken in the previous window
 *        s0 low 32 bits   taken in the current window
 *        s1               low 32 bits of the current window's number, now / period
 * A state of zeros is that of a key that was never used.
 *
 * Example: the limit is 7 per minute. 5 requests came in the previous minute and 3 in this one, of
 * which 18 s (30 %) have passed. The estimate is 3 + 5 · 0.7 = 6.5, rounded down to 6. A request
 * makes it 7, so it is admitted. The next request finds 4 + 5 · 0.7 = 7.5 and is refused. It is
 * admitted when 5 · (the remaining part of the window) < 3, which is the case 24 s into the window:
 * in 6 s and 1 ns.
 *
 * The state has only the low 32 bits of the window's number. A state that was not used for 2^31
 * windows or more may look like a state from the future. The old counts of such a state then count
 * again, for at most two periods and WR_SKEW_NS.
 *
 * Promise: when a request is admitted, the estimate in whole requests never exceeds the limit.
 */
#ifndef WR_ALGO_COUNTER_H
#define WR_ALGO_COUNTER_H

#include "algo/amount.h"

struct wr_counter {
	/* For a latecomer, the number of the state's window. Otherwise the number of the window
	 * that contains the request's time. */
	uint64_t index;
	uint64_t left_ns; /* remaining time of this window, from 1 to the period */
	/* For a latecomer (amount.h), the time in ns from its own time to the time at which it is
	 * counted. Otherwise 0. */
	uint64_t late_ns;
	uint32_t previous;
	uint32_t current;
	bool changed;
};

/* If the request is a latecomer, returns the time until the state's window begins. Otherwise
 * returns 0. A state with s0 = s1 = 0 has no window, because the key was never used. A state in
 * which only the counts (s0) are 0 has a window: its units were given back. */
static inline uint64_t wr_counter_late_ns(const struct weir_limit *l, const struct weir_state *s,
					  int32_t ahead, uint64_t left_ns)
{
	if (ahead <= 0 || (s->s0 == 0 && s->s1 == 0))
		return 0;

	unsigned __int128 until = (unsigned __int128)(uint32_t)(ahead - 1) * l->period_ns + left_ns;

	return until <= WR_SKEW_NS ? (uint64_t)until : 0;
}

/* Loads the two windows as they are at now_ns, or for a latecomer as they are at the beginning of
 * the state's window. If the state's window begins more than WR_SKEW_NS after now_ns, the clock
 * stepped back. The counts of the state are then used unchanged for the window of now_ns. */
static inline struct wr_counter wr_counter_load(const struct weir_limit *l,
						const struct weir_state *s, uint64_t now_ns)
{
	struct wr_counter c = {.index = now_ns / l->period_ns};
	int32_t ahead = (int32_t)(s->s1 - (uint32_t)c.index);

	c.left_ns = l->period_ns - (now_ns - c.index * l->period_ns);
	c.late_ns = wr_counter_late_ns(l, s, ahead, c.left_ns);
	if (__builtin_expect(c.late_ns != 0, 0)) {
		c.index += (uint32_t)ahead;
		c.left_ns = l->period_ns;
		ahead = 0;
	}
	if (ahead >= 0) {
		c.previous = (uint32_t)(s->s0 >> 32);
		c.current = (uint32_t)s->s0;
		c.changed = ahead > 0 && (s->s0 || s->s1);
	} else if (ahead == -1) {
		c.previous = (uint32_t)s->s0;
	}
	return c;
}

static inline void wr_counter_store(const struct wr_counter *c, struct weir_state *s)
{
	s->s0 = (uint64_t)c->previous << 32 | c->current;
	s->s1 = (uint32_t)c->index;
}

/* Returns the estimate in whole requests, rounded down. */
static inline uint64_t wr_counter_estimate(const struct wr_counter *c, uint64_t period_ns)
{
	return c->current + wr_div((unsigned __int128)c->previous * c->left_ns, period_ns);
}

/* The `count` requests of a window also contribute to the estimate of the following window. While x
 * ns of the following window remain, they contribute count · x / period. Returns the largest x for
 * which this is less than m, but at most the period: as soon as at most this time remains, the
 * contribution is below m. m must be above 0. */
static inline uint64_t wr_counter_reach(uint64_t count, uint64_t m, uint64_t period_ns)
{
	if (count < m)
		return period_ns;
	return wr_div((unsigned __int128)m * period_ns - 1, count);
}

/* Returns the shortest wait until the estimate is at most `room`. The wait of a latecomer begins at
 * its own time. Without new requests the estimate only falls: during this window the previous count
 * weighs less and less, and during the next window the current count does. */
static inline uint64_t wr_counter_until(const struct wr_counter *c, uint64_t room,
					uint64_t period_ns)
{
	if (c->current > room)
		return c->late_ns + c->left_ns + period_ns -
		       wr_counter_reach(c->current, room + 1, period_ns);

	uint64_t reach_ns = wr_counter_reach(c->previous, room - c->current + 1, period_ns);

	return c->left_ns > reach_ns ? c->late_ns + c->left_ns - reach_ns : 0;
}

static inline void wr_counter_count(struct wr_counter *c, uint64_t n)
{
	c->current = wr_add_saturated(c->current, n);
	c->changed = true;
}

/* Gives back n units: from the current window first, because the request was most likely counted
 * there, and then from the previous one. */
static inline void wr_counter_give(struct wr_counter *c, uint64_t n)
{
	uint32_t here = n < c->current ? (uint32_t)n : c->current;
	uint32_t before = n - here < c->previous ? (uint32_t)(n - here) : c->previous;

	c->current -= here;
	c->previous -= before;
	c->changed |= here || before;
}

/* See wr_token_step() for the arguments and the result. */
static inline bool wr_counter_step(const struct weir_limit *l, uint32_t ceiling,
				   struct weir_state *s, int64_t cost, uint64_t now_ns,
				   struct weir_decision *d)
{
	struct wr_counter c = wr_counter_load(l, s, now_ns);
	uint64_t n = wr_amount(cost);
	uint64_t estimate = wr_counter_estimate(&c, l->period_ns);
	bool admitted = cost < 0 || estimate + n <= ceiling;
	uint64_t retry_ns = 0;

	if (cost < 0) {
		wr_counter_give(&c, n);
		estimate = wr_counter_estimate(&c, l->period_ns);
	} else if (cost > 0 && (admitted || l->flags & WEIR_COUNT_REJECTED)) {
		wr_counter_count(&c, n);
		estimate += n;
	}
	if (c.changed)
		wr_counter_store(&c, s);
	if (!admitted)
		retry_ns =
			n <= ceiling ? wr_counter_until(&c, ceiling - n, l->period_ns) : WEIR_NEVER;

	*d = (struct weir_decision){
		.admitted = admitted,
		.limit = l->capacity,
		.remaining = wr_left(l->capacity, estimate),
		.retry_after_ns = retry_ns,
		.reset_after_ns = wr_counter_until(&c, 0, l->period_ns),
		.charged_ns = admitted && cost > 0 ? now_ns + c.late_ns : 0,
		.debt = wr_debt(l, estimate),
	};
	return c.changed;
}

/* Gives back n units that were counted at charged_ns. If neither the state's window nor the window
 * before it contains charged_ns, gives back nothing. See wr_step_back() for the arguments and the
 * result. */
static inline uint64_t wr_counter_back(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				       uint64_t charged_ns)
{
	uint32_t behind = s->s1 - (uint32_t)(charged_ns / l->period_ns);
	unsigned shift = behind == 0 ? 0 : 32;
	uint32_t counted = (uint32_t)(s->s0 >> shift);

	if (behind > 1)
		return 0;
	if (n > counted)
		n = counted;
	s->s0 -= n << shift;
	return n;
}

/* See wr_token_wait() for the arguments and the result. */
static inline uint64_t wr_counter_wait(const struct weir_limit *l, uint32_t ceiling,
				       const struct weir_state *s, uint64_t n, uint64_t now_ns)
{
	struct wr_counter c = wr_counter_load(l, s, now_ns);

	return n <= ceiling ? wr_counter_until(&c, ceiling - n, l->period_ns) : WEIR_NEVER;
}

/* See wr_fixed_charge() for the arguments and the result. */
static inline bool wr_counter_charge(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				     uint64_t now_ns)
{
	struct wr_counter c = wr_counter_load(l, s, now_ns);

	wr_counter_count(&c, n);
	wr_counter_store(&c, s);
	return true;
}

#endif
