/* Sliding window counter: two counts, and the assumption that the previous window's requests came
 * evenly. What of them still lies within one period back from now is estimated by its share.
 *
 * State: s0 high 32 bits  taken in the window before
 *        s0 low 32 bits   taken in the window
 *        s1               low 32 bits of the window's number, now / period
 * Zeroed is a key that was never used.
 *
 * Example: 7 per minute, 5 in the minute before, 3 in this one, 18 s (30 %) into it: the estimate
 * is 3 + 5 · 0.7 = 6.5, of which whole requests count: 6 + 1 <= 7, admitted. The next finds 7.5 and
 * is refused until 5 · share < 3 (4 of 7 are the window's own), after 24 s: in 6 s and 1 ns.
 *
 * The window's number is known modulo 2^32. A state left alone for 2^31 windows or more may pass
 * for one from the future and be counted once more, for two periods (and WR_SKEW_NS) at most.
 *
 * Promise: the estimate in whole requests never exceeds the limit at an admission.
 */
#ifndef WR_ALGO_COUNTER_H
#define WR_ALGO_COUNTER_H

#include "algo/amount.h"

struct wr_counter {
	uint64_t index;   /* number of the window that holds now */
	uint64_t left_ns; /* of this window, 1 … period */
	uint64_t
		late_ns; /* these are the counts as of so much later than the time of the request */
	uint32_t previous;
	uint32_t current;
	bool changed;
};

/* For a latecomer, the time until the state's window begins; otherwise 0. The window's number
 * counts even if everything was given back: the counts of earlier windows are lost. */
static inline uint64_t wr_counter_late_ns(const struct weir_limit *l, const struct weir_state *s,
					  int32_t ahead, uint64_t left_ns)
{
	if (ahead <= 0 || (s->s0 == 0 && s->s1 == 0))
		return 0;

	unsigned __int128 until = (unsigned __int128)(uint32_t)(ahead - 1) * l->period_ns + left_ns;

	return until <= WR_SKEW_NS ? (uint64_t)until : 0;
}

/* The two windows as of now_ns, or for a latecomer as of the beginning of the state's window.
 * Counts from later still (the clock stepped back) are carried into this window as they are. */
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

/* The estimate in whole requests. */
static inline uint64_t wr_counter_estimate(const struct wr_counter *c, uint64_t period_ns)
{
	return c->current + wr_div((unsigned __int128)c->previous * c->left_ns, period_ns);
}

/* The most that may be left of a window when `count` requests of the window before it weigh less
 * than m: the largest x <= period with count · x < m · period. m > 0. */
static inline uint64_t wr_counter_reach(uint64_t count, uint64_t m, uint64_t period_ns)
{
	if (count < m)
		return period_ns;
	return wr_div((unsigned __int128)m * period_ns - 1, count);
}

/* The shortest wait until the estimate is `room` or less, for a latecomer from its own time on. The
 * estimate only falls: first during this window, then during the next, where the current count
 * becomes the previous one. */
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

/* Gives back from this window first, because the request was most likely counted there. */
static inline void wr_counter_give(struct wr_counter *c, uint64_t n)
{
	uint32_t here = n < c->current ? (uint32_t)n : c->current;
	uint32_t before = n - here < c->previous ? (uint32_t)(n - here) : c->previous;

	c->current -= here;
	c->previous -= before;
	c->changed |= here || before;
}

/* As wr_token_step(). */
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
	};
	return c.changed;
}

/* Gives back n of a take that was counted in the window that holds charged_ns, while that is the
 * state's window or the one before it. As wr_step_back(). */
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

/* As wr_token_wait(). */
static inline uint64_t wr_counter_wait(const struct weir_limit *l, uint32_t ceiling,
				       const struct weir_state *s, uint64_t n, uint64_t now_ns)
{
	struct wr_counter c = wr_counter_load(l, s, now_ns);

	return n <= ceiling ? wr_counter_until(&c, ceiling - n, l->period_ns) : WEIR_NEVER;
}

/* As wr_fixed_charge(). */
static inline bool wr_counter_charge(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				     uint64_t now_ns)
{
	struct wr_counter c = wr_counter_load(l, s, now_ns);

	wr_counter_count(&c, n);
	wr_counter_store(&c, s);
	return true;
}

#endif
