/* Fixed window: at most `limit` units per window. The count starts at 0 in each window.
 *
 * State: s0  start of the window that the count belongs to, ns
 *        s1  units taken in that window
 * A state of zeros is an empty window that starts at the epoch: no unit was taken.
 *
 * Windows start at whole multiples of period_ns since the epoch. If the limit has a window of its
 * own, [window_start_ns, window_end_ns), that window is used instead. The caller sets it to the
 * window that contains now_ns. If the window has already ended at now_ns, it is used nevertheless.
 * A refused request then has a wait of 1 ns, because the next request will come with a new window.
 *
 * Example: 5 per minute. Five at 2:00:30 … 2:00:59 fill the window that began at 2:00:00; a sixth
 * at 2:00:59 has to wait 1 s. Five more at 2:01:00 … 2:01:30 pass too, so this algorithm admits ten
 * within one minute around a boundary. The algorithms of log.h and counter.h prevent this.
 *
 * Promise: at most `limit` per window.
 */
#ifndef WR_ALGO_FIXED_H
#define WR_ALGO_FIXED_H

#include "algo/amount.h"

struct wr_fixed {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t count;
	bool changed;
};

/* Loads the window that contains now_ns. For a latecomer it loads the state's window, which is
 * later and is assumed to be as long as the window of now_ns. If the state's window begins more
 * than WR_SKEW_NS after now_ns, the clock stepped back, and the count is used for the window of
 * now_ns. Requests are then refused at most until the end of that window, and no unit is admitted
 * twice. */
static inline struct wr_fixed wr_fixed_load(const struct weir_limit *l, const struct weir_state *s,
					    uint64_t now_ns)
{
	struct wr_fixed w = {.start_ns = l->window_start_ns, .end_ns = l->window_end_ns};

	if (w.end_ns == 0) {
		w.start_ns = now_ns - now_ns % l->period_ns;
		w.end_ns = w.start_ns + l->period_ns;
	}
	if (__builtin_expect(wr_late_ns(s->s0, now_ns) != 0, 0)) {
		w.end_ns += s->s0 - w.start_ns;
		w.start_ns = s->s0;
	}
	w.count = s->s0 < w.start_ns ? 0 : s->s1;
	w.changed = s->s0 > w.start_ns;
	return w;
}

static inline void wr_fixed_store(const struct wr_fixed *w, struct weir_state *s)
{
	s->s0 = w->start_ns;
	s->s1 = w->count;
}

static inline void wr_fixed_count(struct wr_fixed *w, uint64_t n)
{
	w->count = wr_add_saturated(w->count, n);
	w->changed = true;
}

static inline void wr_fixed_give(struct wr_fixed *w, uint64_t n)
{
	if (w->count == 0)
		return;
	w->count = n < w->count ? w->count - (uint32_t)n : 0;
	w->changed = true;
}

/* If the window contains now_ns, returns now_ns. Otherwise returns the first or the last ns of the
 * window, whichever is nearer to now_ns. */
static inline uint64_t wr_fixed_charged_ns(const struct wr_fixed *w, uint64_t now_ns)
{
	if (now_ns < w->start_ns)
		return w->start_ns;
	return now_ns < w->end_ns ? now_ns : w->end_ns - 1;
}

static inline uint64_t wr_fixed_rest(const struct wr_fixed *w, uint64_t now_ns)
{
	return w->end_ns > now_ns ? w->end_ns - now_ns : 1;
}

/* See wr_token_step() for the arguments and the result. */
static inline bool wr_fixed_step(const struct weir_limit *l, uint32_t ceiling, struct weir_state *s,
				 int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	struct wr_fixed w = wr_fixed_load(l, s, now_ns);
	uint64_t n = wr_amount(cost);
	bool admitted = cost < 0 || w.count + n <= ceiling;

	if (cost < 0)
		wr_fixed_give(&w, n);
	else if (cost > 0 && (admitted || l->flags & WEIR_COUNT_REJECTED))
		wr_fixed_count(&w, n);
	if (w.changed)
		wr_fixed_store(&w, s);

	uint64_t rest_ns = wr_fixed_rest(&w, now_ns);

	*d = (struct weir_decision){
		.admitted = admitted,
		.limit = l->capacity,
		.remaining = wr_left(l->capacity, w.count),
		.retry_after_ns = admitted       ? 0
				  : n <= ceiling ? rest_ns
						 : WEIR_NEVER,
		.reset_after_ns = w.count ? rest_ns : 0,
		.charged_ns = admitted && cost > 0 ? wr_fixed_charged_ns(&w, now_ns) : 0,
		.debt = wr_debt(l, w.count),
	};
	return w.changed;
}

/* Gives back n units that were counted at charged_ns. If the state's window does not contain
 * charged_ns, gives back nothing. See wr_step_back() for the arguments and the result. */
static inline uint64_t wr_fixed_back(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				     uint64_t charged_ns)
{
	uint64_t end_ns = l->window_end_ns ? l->window_end_ns : s->s0 + l->period_ns;

	if (charged_ns < s->s0 || charged_ns >= end_ns)
		return 0;
	if (n > s->s1)
		n = s->s1;
	s->s1 -= (uint32_t)n;
	return n;
}

/* See wr_token_wait() for the arguments and the result. */
static inline uint64_t wr_fixed_wait(const struct weir_limit *l, uint32_t ceiling,
				     const struct weir_state *s, uint64_t n, uint64_t now_ns)
{
	struct wr_fixed w = wr_fixed_load(l, s, now_ns);

	if (n > ceiling)
		return WEIR_NEVER;
	return w.count + n <= ceiling ? 0 : wr_fixed_rest(&w, now_ns);
}

/* Counts n units even if they exceed the limit. Always returns true, because *s always changes. */
static inline bool wr_fixed_charge(const struct weir_limit *l, struct weir_state *s, uint64_t n,
				   uint64_t now_ns)
{
	struct wr_fixed w = wr_fixed_load(l, s, now_ns);

	wr_fixed_count(&w, n);
	wr_fixed_store(&w, s);
	return true;
}

#endif
