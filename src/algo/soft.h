/* Soft mode: a key may exceed its limit, up to a ceiling and for a limited time.
 *
 * State: a struct weir_state in addition to the state of the algorithm.
 *        s0  time of the latest excess, ns; s0 = s1 = 0: there was no excess yet
 *        s1  time from the first excess to the latest, in quanta (wr_soft_quantum(): 1 ns for a
 *            grace below 4.29 s, 7 ns for 30 s). If the time does not fit, s1 is UINT32_MAX,
 *            which is longer than any grace.
 *
 * An excess is a request that does not fit the limit, admitted or not. The first excess starts the
 * grace, which lasts soft_for_ns. During the grace the ceiling applies. After the grace the limit
 * applies, until a full period passes without excess. Then soft mode is armed again: the next
 * excess starts a new grace. The time from the first excess to the latest is rounded up to whole
 * quanta, and s0 is moved forward by the same rounding. So the start of the grace, which is s0
 * minus s1 quanta, never moves.
 *
 * Example: 100 per minute, 20 % for 30 s. The 101st at 2:00:20 is the first excess. Up to 120 pass
 * until 2:00:50, and up to 100 after that. If the latest excess comes at 2:03:10, soft mode is
 * armed again at 2:04:10.
 */
#ifndef WR_ALGO_SOFT_H
#define WR_ALGO_SOFT_H

#include "algo/amount.h"

enum wr_soft_phase {
	WR_SOFT_ARMED, /* the next excess starts a grace period */
	WR_SOFT_GRACE, /* requests are decided under the ceiling */
	WR_SOFT_SPENT, /* requests are decided under the limit */
};

static inline bool wr_soft_mode(const struct weir_limit *l)
{
	return l->ceiling > l->capacity;
}

/* Returns the time without excess after which the next excess starts a new grace. */
static inline uint64_t wr_soft_period_ns(const struct weir_limit *l)
{
	return l->period_ns ? l->period_ns : l->window_end_ns - l->window_start_ns;
}

/* Returns the smallest quantum for which UINT32_MAX quanta are longer than the grace. */
static inline uint64_t wr_soft_quantum(const struct weir_limit *l)
{
	return l->soft_for_ns / UINT32_MAX + 1;
}

/* Returns the time of the latest excess. Rounding, latecomers and small differences of clocks can
 * make this time later than now_ns. If it is later by more than these causes explain, the clock
 * stepped back, and now_ns is returned. */
static inline uint64_t wr_soft_last_ns(const struct weir_limit *l, const struct weir_state *soft,
				       uint64_t now_ns)
{
	uint64_t period_ns = wr_soft_period_ns(l);
	uint64_t skew_ns = period_ns > WR_SKEW_NS ? period_ns : WR_SKEW_NS;
	bool ahead = soft->s0 > now_ns + skew_ns + wr_soft_quantum(l);

	return ahead ? now_ns : soft->s0;
}

/* Returns the time from the first excess to now. */
static inline uint64_t wr_soft_age_ns(const struct weir_limit *l, const struct weir_state *soft,
				      uint64_t now_ns)
{
	uint64_t last_ns = wr_soft_last_ns(l, soft, now_ns);
	uint64_t span_ns = soft->s1 * wr_soft_quantum(l);

	if (last_ns <= now_ns)
		return now_ns - last_ns + span_ns;
	return span_ns > last_ns - now_ns ? span_ns - (last_ns - now_ns) : 0;
}

static inline bool wr_soft_armed(const struct weir_limit *l, const struct weir_state *soft,
				 uint64_t now_ns)
{
	if (soft->s0 == 0 && soft->s1 == 0)
		return true;
	return now_ns >= wr_soft_last_ns(l, soft, now_ns) + wr_soft_period_ns(l);
}

static inline enum wr_soft_phase wr_soft_phase(const struct weir_limit *l,
					       const struct weir_state *soft, uint64_t now_ns)
{
	if (wr_soft_armed(l, soft, now_ns))
		return WR_SOFT_ARMED;
	if (wr_soft_age_ns(l, soft, now_ns) < l->soft_for_ns)
		return WR_SOFT_GRACE;
	return WR_SOFT_SPENT;
}

/* If wr_soft_last_ns() finds that the clock stepped back, sets the time of the latest excess to
 * now_ns, so that the waits reported from now on are correct. Returns whether *soft changed. */
static inline bool wr_soft_carry(const struct weir_limit *l, struct weir_state *soft,
				 uint64_t now_ns)
{
	uint64_t last_ns = wr_soft_last_ns(l, soft, now_ns);
	bool ahead = last_ns != soft->s0;

	soft->s0 = last_ns;
	return ahead;
}

/* Records an excess. Returns whether *soft changed. */
static inline bool wr_soft_note(const struct weir_limit *l, struct weir_state *soft,
				uint64_t now_ns)
{
	bool carried = wr_soft_carry(l, soft, now_ns);
	uint64_t quantum_ns = wr_soft_quantum(l);

	if (wr_soft_armed(l, soft, now_ns)) {
		/* s0 is never set to 0, because s0 = s1 = 0 means that there was no excess yet. */
		soft->s0 = now_ns ? now_ns : 1;
		soft->s1 = 0;
		return true;
	}
	if (now_ns <= soft->s0)
		return carried;

	uint64_t quanta = (now_ns - soft->s0 + quantum_ns - 1) / quantum_ns;

	if (quanta < UINT32_MAX - soft->s1) {
		soft->s0 += quanta * quantum_ns;
		soft->s1 += (uint32_t)quanta;
	} else {
		soft->s0 = now_ns;
		soft->s1 = UINT32_MAX;
	}
	return true;
}

/* Returns how long it takes until an excess would start a new grace. Returns 0 if an excess would
 * start a grace now. */
static inline uint64_t wr_soft_reset_after(const struct weir_limit *l,
					   const struct weir_state *soft, uint64_t now_ns)
{
	if (wr_soft_armed(l, soft, now_ns))
		return 0;
	return wr_soft_last_ns(l, soft, now_ns) + wr_soft_period_ns(l) - now_ns;
}

/* Returns the shortest wait of a refused request. capacity_wait_ns is the wait until the request
 * fits the limit, and ceiling_wait_ns the wait until it fits the ceiling. *soft is the state after
 * the refusal. If the grace is over when ceiling_wait_ns ends, the request also has to wait until
 * an excess can start a new grace. The result is never longer than capacity_wait_ns. */
static inline uint64_t wr_soft_retry_after(const struct weir_limit *l,
					   const struct weir_state *soft, uint64_t now_ns,
					   uint64_t capacity_wait_ns, uint64_t ceiling_wait_ns)
{
	if (ceiling_wait_ns == WEIR_NEVER)
		return WEIR_NEVER;

	uint64_t wait_ns = ceiling_wait_ns;

	if (wr_soft_phase(l, soft, now_ns + wait_ns) == WR_SOFT_SPENT) {
		uint64_t armed_ns = wr_soft_reset_after(l, soft, now_ns);

		wait_ns = armed_ns > wait_ns ? armed_ns : wait_ns;
	}
	return capacity_wait_ns < wait_ns ? capacity_wait_ns : wait_ns;
}

#endif
