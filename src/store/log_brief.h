/* Decides on requests whose sliding window log is brief (table/brief.h). */
#ifndef WR_STORE_LOG_BRIEF_H
#define WR_STORE_LOG_BRIEF_H

#include "algo/amount.h"
#include "store/store.h"
#include "table/brief.h"

_Static_assert(WR_BRIEF_SKEW_NS == WR_SKEW_NS, "one notion of a latecomer");

/* A brief log at the time at which a request is counted. */
struct wr_store_brief_view {
	struct wr_brief brief;
	uint64_t slot_ns;
	uint64_t now_ns;  /* the time at which the request is counted */
	uint64_t late_ns; /* how much later now_ns is than the request's own time */
	/* True if `brief` has another newest slot (third of the period) than the cell. */
	bool moved;
	/* True if the newest slot of `brief` is earlier than the newest slot in the cell, because
	 * the clock stepped back. */
	bool back;
};

/* Loads a brief log as it is at now_ns, or for a latecomer (algo/amount.h) as it is at the start of
 * the newest slot (third of the period). */
static inline struct wr_store_brief_view
wr_store_brief_view_of(const struct weir_limit *limit, uint64_t s0, uint32_t s1, uint64_t now_ns)
{
	struct wr_store_brief_view v = {.slot_ns =
						wr_brief_slot_ns(wr_brief_code(limit->period_ns))};
	uint64_t newest;

	v.brief = wr_brief_of(s0, s1, now_ns / v.slot_ns);
	newest = v.brief.slot;
	v.now_ns = wr_brief_now_ns(v.brief.slot * v.slot_ns, now_ns);
	v.late_ns = v.now_ns - now_ns;
	wr_brief_move(&v.brief, v.now_ns / v.slot_ns);
	v.moved = v.brief.slot != newest;
	v.back = v.brief.slot < newest;
	return v;
}

/* Returns the time from the request's own time until a slot (a third of the period) does not count
 * any more. The slot is `back` slots before the newest one. */
static inline uint64_t wr_store_brief_leaves_ns(const struct wr_store_brief_view *v, unsigned back)
{
	return (v->brief.slot - back + WR_BRIEF_SLOTS) * v->slot_ns - v->now_ns + v->late_ns;
}

/* Returns the shortest wait until n more requests fit under the ceiling. */
static inline uint64_t wr_store_brief_wait_ns(const struct wr_store_brief_view *v, uint32_t ceiling,
					      uint64_t n)
{
	uint64_t used = wr_brief_used(&v->brief);

	if (n > ceiling)
		return WEIR_NEVER;
	if (used + n <= ceiling)
		return 0;
	for (unsigned back = WR_BRIEF_SLOTS - 1; back > 0; back--) {
		used -= v->brief.count[back];
		if (used + n <= ceiling)
			return wr_store_brief_leaves_ns(v, back);
	}
	return wr_store_brief_leaves_ns(v, 0);
}

static inline uint64_t wr_store_brief_reset_ns(const struct wr_store_brief_view *v)
{
	for (unsigned back = 0; back < WR_BRIEF_SLOTS; back++)
		if (v->brief.count[back])
			return wr_store_brief_leaves_ns(v, back);
	return 0;
}

/* Returns the number of requests that the log counts after n more were added. It is at most `most`:
 * if there would be more, the oldest requests are no longer counted. But if the log already counts
 * more than `most`, because another process has a larger limit, the result is the number that the
 * log counts now. wr_algo_log_room() explains why. */
static inline uint32_t wr_store_brief_room(const struct wr_brief *brief, uint64_t n, uint32_t most)
{
	uint32_t used = wr_brief_used(brief);

	if (used >= most)
		return used;
	return n < most - used ? used + (uint32_t)n : most;
}

/* Counts n more requests, and removes the oldest requests from the counts, so that
 * wr_store_brief_room() requests are counted afterwards. */
static inline void wr_store_brief_add(struct wr_brief *brief, uint64_t n, uint32_t most)
{
	uint32_t added = n < most ? (uint32_t)n : most;
	uint32_t excess = wr_brief_used(brief) + added - wr_store_brief_room(brief, n, most);

	brief->count[0] += added;
	for (unsigned i = WR_BRIEF_SLOTS; i-- > 0 && excess;) {
		uint32_t gone = excess < brief->count[i] ? excess : brief->count[i];

		brief->count[i] -= gone;
		excess -= gone;
	}
}

/* Subtracts n requests from the slot (third of the period) that contains charged_ns, or fewer if
 * the slot counts fewer. Returns the number subtracted. */
static inline uint32_t wr_store_brief_give(struct wr_store_brief_view *v, uint64_t n,
					   uint64_t charged_ns)
{
	uint64_t back = v->brief.slot - charged_ns / v->slot_ns;
	uint32_t given;

	if (back >= WR_BRIEF_SLOTS)
		return 0;
	given = n < v->brief.count[back] ? (uint32_t)n : v->brief.count[back];
	v->brief.count[back] -= given;
	return given;
}

/* Decides an attempt (store.h) on the brief log in *v, and changes *v accordingly. Returns whether
 * *v has to be written to the cell. */
static inline bool wr_store_brief_step(struct wr_attempt *attempt, struct wr_store_brief_view *v)
{
	const struct weir_limit *limit = attempt->limit;
	uint64_t n = wr_amount(attempt->cost);
	bool owe = attempt->purpose == WR_OWE;
	bool charge = owe || attempt->purpose == WR_CHARGE, changed = v->back;
	bool admitted =
		attempt->cost < 0 || charge || wr_brief_used(&v->brief) + n <= attempt->ceiling;
	bool fits = charge ? wr_brief_used(&v->brief) < attempt->ceiling : admitted;
	uint64_t retry_ns = admitted ? 0 : wr_store_brief_wait_ns(v, attempt->ceiling, n);

	if (wr_soft_mode(limit) && !admitted)
		attempt->ceiling_wait_ns = wr_store_brief_wait_ns(v, limit->ceiling, n);
	if (owe) {
		uint32_t used = wr_brief_used(&v->brief);

		attempt->returned = used < limit->ceiling ? limit->ceiling - used : 0;
		if (attempt->returned > n)
			attempt->returned = n;
		n = attempt->returned;
		fits = true;
	}
	if (attempt->purpose == WR_RETURN) {
		attempt->returned = wr_attempt_was_reset(attempt)
					    ? 0
					    : wr_store_brief_give(v, n, attempt->charged_ns);
		changed |= attempt->returned > 0;
	} else if (attempt->cost > 0 &&
		   (admitted || charge || limit->flags & WEIR_COUNT_REJECTED)) {
		wr_store_brief_add(&v->brief, n, limit->ceiling);
		changed = true;
		if (!admitted)
			retry_ns = wr_store_brief_wait_ns(v, attempt->ceiling, n);
	}
	*attempt->decision = (struct weir_decision){
		.admitted = fits,
		.limit = limit->capacity,
		.remaining = wr_left(limit->capacity, wr_brief_used(&v->brief)),
		.retry_after_ns = retry_ns,
		.reset_after_ns = wr_store_brief_reset_ns(v),
		.charged_ns = admitted && attempt->cost > 0 ? v->now_ns : 0,
		.debt = wr_debt(limit, wr_brief_used(&v->brief)),
	};
	return changed && !wr_writes_nothing(attempt);
}

#endif
