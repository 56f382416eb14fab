/* The usual case of the fixed window: a request in the window of the state, and within the limit.
 *
 * The state has the format of fixed.h, and the decision is the same. The division that finds the
 * window is not needed, and the rare cases are not handled: in a rare case wr_fixed_quick() returns
 * 0, and the caller uses fixed.h.
 *
 * Example: 5 per minute, three taken in the window that began at 2:00:00, a fourth at 2:00:30: 30 s
 * are less than a minute, so the request is in that window. After the request one unit remains, and
 * the counter is reset in 30 s.
 */
#ifndef WR_ALGO_QUICK_H
#define WR_ALGO_QUICK_H

#include "algo/amount.h"

/* Returns the length of the window in ns. Returns 0 if the limit has a window of its own, as
 * calendar limits do; this file cannot be used for such a limit. */
static inline uint64_t wr_fixed_quick_ns(const struct weir_limit *l)
{
	return l->window_end_ns ? 0 : l->period_ns;
}

/* Returns the count of the window after `cost` was added, or 0 if the caller has to use fixed.h. */
static inline uint64_t wr_fixed_quick(const struct weir_limit *l, uint64_t start_ns, uint32_t count,
				      int64_t cost, uint64_t now_ns)
{
	uint64_t after = count + (uint64_t)cost;

	if (now_ns - start_ns >= l->narrow_ns || (uint64_t)cost - 1 >= l->capacity ||
	    after > l->capacity)
		return 0;
	return after;
}

static inline void wr_fixed_quick_fill_decision(const struct weir_limit *l, uint64_t start_ns,
						uint64_t count, uint64_t now_ns,
						struct weir_decision *d)
{
	*d = (struct weir_decision){
		.admitted = 1,
		.limit = l->capacity,
		.remaining = l->capacity - (uint32_t)count,
		.reset_after_ns = l->narrow_ns - (now_ns - start_ns),
		.charged_ns = now_ns,
	};
}

#endif
