/* Sliding window log: the time of every request, in a ring. Exact, at 8 bytes per request.
 *
 * State: struct weir_log. Entries are in order of time; `head` is the slot of the newest. The last
 * `pending` of them all carry newest_ns and do not stand in the ring yet: a burst in one instant
 * is only a count, and a later request writes them out before it adds a newer stamp. In a
 * shared table that turns an append into one compare-and-swap of the few words beside the ring.
 *
 * Example: 2 per minute, requests at 1:00:01 and 1:00:30 (admitted), 1:00:50: two live, refused,
 * and the oldest leaves at 1:01:01, so wait 11 s. At 1:01:40 both are more than a minute old:
 * admitted, and the log holds 1:01:40 alone. With WEIR_COUNT_REJECTED 1:00:50 is logged as well
 * (and pushes out 1:00:01, as only the last 2 can matter), so the wait is until 1:01:30; at
 * 1:01:40 the log holds 1:00:50 and 1:01:40.
 *
 * An entry exactly one period old is out. Every function here only reads: struct weir_log serves
 * as a view, the change is a plan, and the caller commits it (wr_log_commit(), or the store with
 * its compare-and-swap).
 *
 * Promise: at most `limit` in any window of one period, by the times that requests count as of.
 */
#ifndef WR_ALGO_LOG_H
#define WR_ALGO_LOG_H

#include "algo/amount.h"

/* The change to write: first flush_ns into the `flush` slots that end at the view's head, then the
 * words. */
struct wr_log_plan {
	uint64_t newest_ns;
	uint32_t head;
	uint32_t count; /* also the ring size to ask for when needs_grow is set */
	uint32_t pending;
	uint32_t flush;
	uint64_t flush_ns;
	bool changed;    /* there is something to write */
	bool rebase;     /* stamps after now became now; they are among the pending */
	bool needs_grow; /* the ring is too small: nothing else in the plan may be used */
};

/* Whether the fields are consistent. In shared memory they may hold anything. */
static inline bool wr_log_view_ok(const struct weir_log *v)
{
	return v->count <= v->capacity && v->pending <= v->count &&
	       (v->head < v->capacity || (v->capacity == 0 && v->head == 0));
}

/* The slot `back` entries before head, and `ahead` entries after it. back, ahead <= capacity. */
static inline uint32_t wr_log_slot_back(const struct weir_log *v, uint32_t back)
{
	return v->head >= back ? v->head - back : v->head + (v->capacity - back);
}

static inline uint32_t wr_log_slot_ahead(const struct weir_log *v, uint32_t ahead)
{
	return ahead < v->capacity - v->head ? v->head + ahead : ahead - (v->capacity - v->head);
}

/* The stamp of the i-th oldest entry, from 0. It is never later than newest_ns, whatever the slot
 * holds. */
static inline uint64_t wr_log_stamp(const struct weir_log *v, uint32_t i)
{
	if (i >= v->count - v->pending)
		return v->newest_ns;

	uint64_t stamp = __atomic_load_n(&v->stamps[wr_log_slot_back(v, v->count - 1 - i)],
					 __ATOMIC_RELAXED);

	return stamp < v->newest_ns ? stamp : v->newest_ns;
}

/* The number of entries younger than period_ns at now_ns; none may be later than now. The newest
 * and the oldest are checked first: for a key that was idle or under its limit they suffice. */
static inline uint32_t wr_log_live(const struct weir_log *v, uint64_t period_ns, uint64_t now_ns)
{
	if (v->count == 0 || now_ns < period_ns)
		return v->count;

	uint64_t out_ns = now_ns - period_ns; /* entries of this time or earlier are out */
	uint32_t low = 1;                     /* all before it are out */
	uint32_t high = v->count;             /* it and all after it are live */

	if (v->newest_ns <= out_ns)
		return 0;
	if (wr_log_stamp(v, 0) > out_ns)
		return v->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (wr_log_stamp(v, middle) > out_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return v->count - low;
}

/* The time that a request counts as of; for a latecomer it is newest_ns. That holds for an empty
 * log too: entries that were live at the latecomer's time may have been dropped. */
static inline uint64_t wr_log_now_ns(const struct weir_log *v, uint64_t now_ns)
{
	return now_ns + wr_late_ns(v->newest_ns, now_ns);
}

/* A wait from the time that a request counts as of, turned into one from its own time. */
static inline uint64_t wr_log_late_wait(uint64_t late_ns, uint64_t wait_ns)
{
	return wait_ns && wait_ns != WEIR_NEVER ? wait_ns + late_ns : wait_ns;
}

/* The view as of now, which is the result of wr_log_now_ns(). When the clock stepped back, entries
 * later than now become now. They join the pending ones, so that no slot has to be written. */
static inline bool wr_log_carry(struct weir_log *v, uint64_t now_ns)
{
	uint32_t low = 0;

	if (v->newest_ns <= now_ns)
		return false;
	for (uint32_t high = v->count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (wr_log_stamp(v, middle) < now_ns)
			low = middle + 1;
		else
			high = middle;
	}
	v->newest_ns = now_ns;
	v->pending = v->count - low;
	return true;
}

/* The time until a live entry leaves. A damaged ring may have a dead entry among them: then it is
 * short. */
static inline uint64_t wr_log_rest(uint64_t stamp_ns, uint64_t period_ns, uint64_t now_ns)
{
	return now_ns - stamp_ns < period_ns ? period_ns - (now_ns - stamp_ns) : 1;
}

/* The shortest wait until n fit under `ceiling`, when `added` entries of now follow the `live`
 * ones. As many of the oldest entries must leave as there are too many. */
static inline uint64_t wr_log_until(const struct weir_log *v, uint32_t live, uint64_t added,
				    uint32_t ceiling, uint64_t n, uint64_t period_ns,
				    uint64_t now_ns)
{
	if (n > ceiling)
		return WEIR_NEVER;
	if (live + added + n <= ceiling)
		return 0;

	uint64_t leave = live + added + n - ceiling;

	if (leave > live)
		return period_ns;
	return wr_log_rest(wr_log_stamp(v, v->count - live + (uint32_t)leave - 1), period_ns,
			   now_ns);
}

/* The number of entries when `added` ones of now follow the `live` ones. Above the ceiling the
 * oldest entries are dropped, as they no longer matter. If the log had more before, because other
 * participants have a larger limit, as many stay: cutting them down to this limit's size would
 * admit the rest again.
 *
 * Example: 100 live under a limit of 100, and a request that a limit of 10 refuses and counts: the
 * oldest entry makes room for it, and nothing is left under the limit of 100. */
static inline uint32_t wr_log_room(const struct weir_limit *l, uint32_t live, uint32_t added)
{
	uint32_t count = live + added < l->ceiling ? live + added : l->ceiling;

	return count > live ? count : live;
}

/* Appends n entries of now to the `live` ones. Returns the number of entries added. */
static inline uint32_t wr_log_append(const struct weir_limit *l, const struct weir_log *v,
				     uint32_t live, uint64_t n, uint64_t now_ns,
				     struct wr_log_plan *p)
{
	uint32_t added = n < l->ceiling ? (uint32_t)n : l->ceiling;
	bool same = live && v->newest_ns == now_ns;

	if (added == 0)
		return 0;
	p->changed = true;
	p->count = wr_log_room(l, live, added);
	p->needs_grow = p->count > v->capacity;
	if (p->needs_grow)
		return added;
	p->newest_ns = now_ns;
	p->head = wr_log_slot_ahead(v, added);
	p->pending = same ? v->pending + added : added;
	if (p->pending > p->count)
		p->pending = p->count;
	p->flush = same || live == 0 ? 0 : v->pending;
	p->flush_ns = v->newest_ns;
	return added;
}

/* Removes the newest n of the `live` entries. Returns how many there were. newest_ns stays, for
 * latecomers; when no entry is pending any more, it is no entry's stamp. */
static inline uint32_t wr_log_give(const struct weir_log *v, uint32_t live, uint64_t n,
				   struct wr_log_plan *p)
{
	uint32_t given = n < live ? (uint32_t)n : live;

	if (given == 0)
		return 0;
	p->changed = true;
	p->count = live - given;
	p->head = wr_log_slot_back(v, given);
	p->pending = v->pending > given ? v->pending - given : 0;
	return given;
}

static inline struct wr_log_plan wr_log_plan_none(const struct weir_log *v, bool rebase)
{
	return (struct wr_log_plan){.newest_ns = v->newest_ns,
				    .head = v->head,
				    .count = v->count,
				    .pending = v->pending,
				    .changed = rebase,
				    .rebase = rebase};
}

/* One decision under `ceiling` on a view that is ok: fills *d and *p, and writes nothing else. */
static inline void wr_log_plan(const struct weir_limit *l, uint32_t ceiling,
			       const struct weir_log *view, int64_t cost, uint64_t now_ns,
			       struct weir_decision *d, struct wr_log_plan *p)
{
	struct weir_log v = *view;
	uint64_t late_ns = wr_log_now_ns(view, now_ns) - now_ns;

	now_ns += late_ns;

	bool rebase = wr_log_carry(&v, now_ns);
	uint32_t live = wr_log_live(&v, l->period_ns, now_ns);
	uint64_t n = wr_amount(cost);
	bool admitted = cost < 0 || live + n <= ceiling;
	uint32_t added = 0;
	uint32_t given = 0;

	*p = wr_log_plan_none(&v, rebase);
	if (cost < 0)
		given = wr_log_give(&v, live, n, p);
	else if (cost > 0 && (admitted || l->flags & WEIR_COUNT_REJECTED))
		added = wr_log_append(l, &v, live, n, now_ns, p);

	uint64_t used = (uint64_t)live + added - given;
	uint64_t reset_ns = 0;
	uint64_t retry_ns = 0;

	if (added)
		reset_ns = l->period_ns;
	else if (used)
		reset_ns = wr_log_rest(wr_log_stamp(&v, v.count - 1 - given), l->period_ns, now_ns);
	if (!admitted)
		retry_ns = wr_log_until(&v, live, added, ceiling, n, l->period_ns, now_ns);
	*d = (struct weir_decision){
		.admitted = admitted,
		.limit = l->capacity,
		.remaining = wr_left(l->capacity, used),
		.retry_after_ns = wr_log_late_wait(late_ns, retry_ns),
		.reset_after_ns = wr_log_late_wait(late_ns, reset_ns),
		.charged_ns = admitted && cost > 0 ? now_ns : 0,
	};
}

/* Whether n entries with the stamp charged_ns can be removed. Only the newest can: removing entries
 * below those of other requests would shift them. A full log may have dropped older entries for
 * refused requests, and these would be missing. */
static inline bool wr_log_may_return(const struct weir_limit *l, const struct weir_log *v,
				     uint64_t n, uint64_t charged_ns)
{
	if (l->flags & WEIR_COUNT_REJECTED && v->count >= l->ceiling)
		return false;
	return n <= v->count && v->newest_ns == charged_ns &&
	       wr_log_stamp(v, v->count - (uint32_t)n) == charged_ns;
}

/* Gives back n of a take with the stamp charged_ns, as wr_step_back() does. The entries are removed
 * as of their own time, so that no older entry is dropped. Returns the number of entries removed.
 */
static inline uint64_t wr_log_plan_back(const struct weir_limit *l, const struct weir_log *view,
					uint64_t n, uint64_t charged_ns, uint64_t now_ns,
					struct weir_decision *d, struct wr_log_plan *p)
{
	bool may = n > 0 && n <= INT64_MAX && wr_log_may_return(l, view, n, charged_ns);

	wr_log_plan(l, l->capacity, view, may ? -(int64_t)n : 0, may ? charged_ns : now_ns, d, p);
	d->admitted = 1;
	d->retry_after_ns = 0;
	return may ? n : 0;
}

/* Appends n whatever the limit is: another limit refused the request. */
static inline void wr_log_plan_charge(const struct weir_limit *l, const struct weir_log *view,
				      uint64_t n, uint64_t now_ns, struct wr_log_plan *p)
{
	struct weir_log v = *view;

	now_ns = wr_log_now_ns(view, now_ns);

	bool rebase = wr_log_carry(&v, now_ns);
	uint32_t live = wr_log_live(&v, l->period_ns, now_ns);

	*p = wr_log_plan_none(&v, rebase);
	wr_log_append(l, &v, live, n, now_ns, p);
}

/* The shortest wait until n pass under `ceiling` if no other request comes; 0: they pass now. */
static inline uint64_t wr_log_wait(const struct weir_limit *l, uint32_t ceiling,
				   const struct weir_log *view, uint64_t n, uint64_t now_ns)
{
	struct weir_log v = *view;
	uint64_t then_ns = wr_log_now_ns(view, now_ns);

	wr_log_carry(&v, then_ns);

	uint32_t live = wr_log_live(&v, l->period_ns, then_ns);
	uint64_t wait_ns = wr_log_until(&v, live, 0, ceiling, n, l->period_ns, then_ns);

	return wr_log_late_wait(then_ns - now_ns, wait_ns);
}

/* Writes the pending stamps of the view into their slots. Writing them twice is harmless. */
static inline void wr_log_flush(const struct weir_log *v, const struct wr_log_plan *p)
{
	for (uint32_t i = 0; i < p->flush; i++)
		__atomic_store_n(&v->stamps[wr_log_slot_back(v, i)], p->flush_ns, __ATOMIC_RELAXED);
}

/* Carries out a plan on a log that no other thread uses. */
static inline void wr_log_commit(struct weir_log *log, const struct wr_log_plan *p)
{
	wr_log_flush(log, p);
	log->newest_ns = p->newest_ns;
	log->head = p->head;
	log->count = p->count;
	log->pending = p->pending;
}

#endif
