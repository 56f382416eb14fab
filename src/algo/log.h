/* Sliding window log: a ring with the time of every request. It is exact and takes 8 bytes per
 * request.
 *
 * State: struct weir_log. An entry is the time stamp of one request. Entries are in order of time,
 * and `head` is the slot of the newest entry. The newest `pending` entries all have the stamp
 * newest_ns and are not written into the ring yet, so that a burst at one time is stored as a
 * number only. A later request writes these entries into the ring before it adds a newer stamp. The
 * new entry is pending too, so appending it changes only newest_ns, `head`, `count` and `pending`.
 * In a shared table, one compare-and-swap does this.
 *
 * Example: 2 per minute. Requests at 1:00:01 and 1:00:30 are admitted. A request at 1:00:50 finds
 * two live entries and is refused; the older entry leaves at 1:01:01, so the wait is 11 s. At
 * 1:01:40 both entries are more than a minute old: the request is admitted, and the log holds
 * 1:01:40 alone. With WEIR_COUNT_REJECTED the refused request of 1:00:50 is logged as well. It
 * pushes out 1:00:01, because only the newest 2 entries can matter, so the wait ends at 1:01:30. At
 * 1:01:40 the log holds 1:00:50 and 1:01:40.
 *
 * An entry that is exactly one period old does not count any more. The functions that decide do not
 * write to the log. They get a copy of struct weir_log, which is called the view, and return the
 * change as a struct wr_algo_log_plan. The caller carries out the plan, with wr_algo_log_commit()
 * or, in the store, by a compare-and-swap.
 *
 * Promise: at most `limit` requests in any interval of one period, where a latecomer has the time
 * of the newest entry.
 */
#ifndef WR_ALGO_LOG_H
#define WR_ALGO_LOG_H

#include "algo/amount.h"

/* A change of a log. To carry it out, the caller first writes the stamp flush_ns into the view's
 * head and the slots before it; `flush` is the number of slots to write. Then the caller copies
 * newest_ns, head, count and pending into the log. */
struct wr_algo_log_plan {
	uint64_t newest_ns;
	uint32_t head;
	/* New number of entries; if needs_grow is set, the number of stamps that a new ring must
	 * hold. */
	uint32_t count;
	uint32_t pending;
	uint32_t flush;
	uint64_t flush_ns;
	bool changed; /* true if the plan changes the log */
	/* True if the clock stepped back. Stamps later than now were then set to now. The entries
	 * with these stamps are pending: they are not written into the ring yet. */
	bool rebase;
	/* True if the ring is too small. Only `count` of the plan is valid in this case. */
	bool needs_grow;
};

/* Returns true if the fields of the view are consistent. Fields that were read from shared memory
 * may have any value. */
static inline bool wr_algo_log_view_ok(const struct weir_log *v)
{
	return v->count <= v->capacity && v->pending <= v->count &&
	       (v->head < v->capacity || (v->capacity == 0 && v->head == 0));
}

/* wr_algo_log_slot_back() returns the slot `back` entries before the head, wr_algo_log_slot_ahead()
 * the slot `ahead` entries after it. `back` and `ahead` are at most the capacity. */
static inline uint32_t wr_algo_log_slot_back(const struct weir_log *v, uint32_t back)
{
	return v->head >= back ? v->head - back : v->head + (v->capacity - back);
}

static inline uint32_t wr_algo_log_slot_ahead(const struct weir_log *v, uint32_t ahead)
{
	return ahead < v->capacity - v->head ? v->head + ahead : ahead - (v->capacity - v->head);
}

/* Returns the stamp of the i-th oldest entry, counted from 0. The result is never later than
 * newest_ns, even if the slot holds a later stamp. */
static inline uint64_t wr_algo_log_stamp(const struct weir_log *v, uint32_t i)
{
	if (i >= v->count - v->pending)
		return v->newest_ns;

	uint64_t stamp = __atomic_load_n(&v->stamps[wr_algo_log_slot_back(v, v->count - 1 - i)],
					 __ATOMIC_RELAXED);

	return stamp < v->newest_ns ? stamp : v->newest_ns;
}

/* Returns the number of live entries, which are the entries younger than period_ns at now_ns. All
 * entries must be at or before now_ns. The newest and the oldest entry are checked first: if all
 * entries are too old, or all are live, no search is needed. */
static inline uint32_t wr_algo_log_live(const struct weir_log *v, uint64_t period_ns,
					uint64_t now_ns)
{
	if (v->count == 0 || now_ns < period_ns)
		return v->count;

	/* Entries of this time or earlier do not count any more. */
	uint64_t out_ns = now_ns - period_ns;
	uint32_t low = 1;         /* entries 0 to low - 1 are too old */
	uint32_t high = v->count; /* entries from number `high` on are live */

	if (v->newest_ns <= out_ns)
		return 0;
	if (wr_algo_log_stamp(v, 0) > out_ns)
		return v->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (wr_algo_log_stamp(v, middle) > out_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return v->count - low;
}

/* Returns the time at which a request is counted: newest_ns for a latecomer, otherwise now_ns. A
 * latecomer is counted at newest_ns even if the log is empty: entries that were too old at
 * newest_ns may have been dropped, and some of them would be live at the latecomer's time. */
static inline uint64_t wr_algo_log_now_ns(const struct weir_log *v, uint64_t now_ns)
{
	return now_ns + wr_late_ns(v->newest_ns, now_ns);
}

/* Converts a wait that begins at the time at which a request is counted into a wait that begins at
 * the request's own time, which is late_ns earlier. */
static inline uint64_t wr_algo_log_late_wait(uint64_t late_ns, uint64_t wait_ns)
{
	return wait_ns && wait_ns != WEIR_NEVER ? wait_ns + late_ns : wait_ns;
}

/* Returns the number of entries that are earlier than ns. */
static inline uint32_t wr_algo_log_before(const struct weir_log *v, uint64_t ns)
{
	uint32_t low = 0;

	for (uint32_t high = v->count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (wr_algo_log_stamp(v, middle) < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* If the clock stepped back, gives all entries that are later than now_ns the stamp now_ns. These
 * entries become pending, so that no slot has to be written. now_ns is a result of
 * wr_algo_log_now_ns(). Returns whether the view changed. */
static inline bool wr_algo_log_carry(struct weir_log *v, uint64_t now_ns)
{
	uint32_t before;

	if (v->newest_ns <= now_ns)
		return false;
	before = wr_algo_log_before(v, now_ns);
	v->newest_ns = now_ns;
	v->pending = v->count - before;
	return true;
}

/* Returns the time until a live entry does not count any more. In a damaged ring, an entry among
 * the live ones may be too old; for such an entry the result is 1 ns. */
static inline uint64_t wr_algo_log_rest(uint64_t stamp_ns, uint64_t period_ns, uint64_t now_ns)
{
	return now_ns - stamp_ns < period_ns ? period_ns - (now_ns - stamp_ns) : 1;
}

/* Assumes that `added` entries with the stamp now_ns were appended to a log with `live` live
 * entries. Returns the shortest wait until n more entries fit under `ceiling`, that is, until
 * enough of the oldest entries do not count any more. */
static inline uint64_t wr_algo_log_until(const struct weir_log *v, uint32_t live, uint64_t added,
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
	return wr_algo_log_rest(wr_algo_log_stamp(v, v->count - live + (uint32_t)leave - 1),
				period_ns, now_ns);
}

/* Returns the number of entries that the log keeps when `added` new entries follow the `live` ones.
 * The log keeps at most as many entries as the ceiling: the oldest entries are dropped, because
 * they do not matter any more. But if `live` is above the ceiling, because another process has a
 * larger limit, the log keeps `live` entries. If it kept fewer, requests under the larger limit
 * could be admitted in place of the dropped ones.
 *
 * Example: 100 entries are live under a limit of 100, and a request is refused and counted under a
 * limit of 10. The request replaces the oldest entry, so 100 entries stay, and the limit of 100
 * admits no further request. */
static inline uint32_t wr_algo_log_room(const struct weir_limit *l, uint32_t live, uint32_t added)
{
	uint32_t count = live + added < l->ceiling ? live + added : l->ceiling;

	return count > live ? count : live;
}

/* Plans to append n entries with the stamp now_ns to the `live` entries. Returns the number of
 * entries added. */
static inline uint32_t wr_algo_log_append(const struct weir_limit *l, const struct weir_log *v,
					  uint32_t live, uint64_t n, uint64_t now_ns,
					  struct wr_algo_log_plan *p)
{
	uint32_t added = n < l->ceiling ? (uint32_t)n : l->ceiling;
	bool same = live && v->newest_ns == now_ns;

	if (added == 0)
		return 0;
	p->changed = true;
	p->count = wr_algo_log_room(l, live, added);
	p->needs_grow = p->count > v->capacity;
	if (p->needs_grow)
		return added;
	p->newest_ns = now_ns;
	p->head = wr_algo_log_slot_ahead(v, added);
	p->pending = same ? v->pending + added : added;
	if (p->pending > p->count)
		p->pending = p->count;
	p->flush = same || live == 0 ? 0 : v->pending;
	p->flush_ns = v->newest_ns;
	return added;
}

/* Plans to remove the newest n of the `live` entries. Returns the number of entries removed.
 * newest_ns is not changed, because latecomers are counted at newest_ns. So newest_ns can be later
 * than the stamp of the newest entry that remains. */
static inline uint32_t wr_algo_log_give(const struct weir_log *v, uint32_t live, uint64_t n,
					struct wr_algo_log_plan *p)
{
	uint32_t given = n < live ? (uint32_t)n : live;

	if (given == 0)
		return 0;
	p->changed = true;
	p->count = live - given;
	p->head = wr_algo_log_slot_back(v, given);
	p->pending = v->pending > given ? v->pending - given : 0;
	return given;
}

static inline struct wr_algo_log_plan wr_algo_log_plan_none(const struct weir_log *v, bool rebase)
{
	return (struct wr_algo_log_plan){.newest_ns = v->newest_ns,
					 .head = v->head,
					 .count = v->count,
					 .pending = v->pending,
					 .changed = rebase,
					 .rebase = rebase};
}

/* Decides under `ceiling` on a view for which wr_algo_log_view_ok() is true. Fills *d and *p, and
 * writes nothing else. */
static inline void wr_algo_log_plan(const struct weir_limit *l, uint32_t ceiling,
				    const struct weir_log *view, int64_t cost, uint64_t now_ns,
				    struct weir_decision *d, struct wr_algo_log_plan *p)
{
	struct weir_log v = *view;
	uint64_t late_ns = wr_algo_log_now_ns(view, now_ns) - now_ns;

	now_ns += late_ns;

	bool rebase = wr_algo_log_carry(&v, now_ns);
	uint32_t live = wr_algo_log_live(&v, l->period_ns, now_ns);
	uint64_t n = wr_amount(cost);
	bool admitted = cost < 0 || live + n <= ceiling;
	uint32_t added = 0;
	uint32_t given = 0;

	*p = wr_algo_log_plan_none(&v, rebase);
	if (cost < 0)
		given = wr_algo_log_give(&v, live, n, p);
	else if (cost > 0 && (admitted || l->flags & WEIR_COUNT_REJECTED))
		added = wr_algo_log_append(l, &v, live, n, now_ns, p);

	uint64_t used = (uint64_t)live + added - given;
	uint64_t reset_ns = 0;
	uint64_t retry_ns = 0;

	if (added)
		reset_ns = l->period_ns;
	else if (used)
		reset_ns = wr_algo_log_rest(wr_algo_log_stamp(&v, v.count - 1 - given),
					    l->period_ns, now_ns);
	if (!admitted)
		retry_ns = wr_algo_log_until(&v, live, added, ceiling, n, l->period_ns, now_ns);
	*d = (struct weir_decision){
		.admitted = admitted,
		.limit = l->capacity,
		.remaining = wr_left(l->capacity, used),
		.retry_after_ns = wr_algo_log_late_wait(late_ns, retry_ns),
		.reset_after_ns = wr_algo_log_late_wait(late_ns, reset_ns),
		.charged_ns = admitted && cost > 0 ? now_ns : 0,
		.debt = wr_debt(l, used),
	};
}

/* Returns true if n entries with the stamp charged_ns can be removed. Only the newest entries can
 * be removed, because removing older entries would shift the entries of other requests. With
 * WEIR_COUNT_REJECTED, no entry can be removed from a full log: a full log may have dropped older
 * entries to make room for refused requests, and would then count too few. */
static inline bool wr_algo_log_may_return(const struct weir_limit *l, const struct weir_log *v,
					  uint64_t n, uint64_t charged_ns)
{
	if (l->flags & WEIR_COUNT_REJECTED && v->count >= l->ceiling)
		return false;
	return n <= v->count && v->newest_ns == charged_ns &&
	       wr_algo_log_stamp(v, v->count - (uint32_t)n) == charged_ns;
}

/* Plans to give back the n units that an earlier request took at charged_ns: the plan removes the n
 * entries with this stamp, or nothing if wr_algo_log_may_return() is false. The removal is planned
 * for the time charged_ns instead of now_ns, so that older entries that were live at charged_ns
 * stay in the log. Fills *d and *p. Returns the number of entries that the plan removes. */
static inline uint64_t wr_algo_log_plan_back(const struct weir_limit *l,
					     const struct weir_log *view, uint64_t n,
					     uint64_t charged_ns, uint64_t now_ns,
					     struct weir_decision *d, struct wr_algo_log_plan *p)
{
	bool may = n > 0 && n <= INT64_MAX && wr_algo_log_may_return(l, view, n, charged_ns);

	wr_algo_log_plan(l, l->capacity, view, may ? -(int64_t)n : 0, may ? charged_ns : now_ns, d,
			 p);
	d->admitted = 1;
	d->retry_after_ns = 0;
	return may ? n : 0;
}

/* Finds the entries to remove for a caller that knows the time of its take only roughly: the newest
 * live entries at or before taken_ns, at most n. Sets *first to the number of the oldest of them.
 * Returns how many they are. The entry of the take can be an older one. Entries after taken_ns are
 * never removed: they count longer than the units that are given back. */
static inline uint32_t wr_algo_log_find_taken(const struct weir_limit *l, const struct weir_log *v,
					      uint64_t n, uint64_t taken_ns, uint64_t now_ns,
					      uint32_t *first)
{
	uint64_t then_ns = wr_algo_log_now_ns(v, now_ns);
	uint32_t gone = v->count - wr_algo_log_live(v, l->period_ns, then_ns);
	uint32_t end = wr_algo_log_before(v, taken_ns + 1);
	uint32_t found = end > gone ? end - gone : 0;

	if (taken_ns > then_ns && taken_ns - then_ns > WR_SKEW_NS)
		return 0;
	if (l->flags & WEIR_COUNT_REJECTED && v->count - gone >= l->ceiling)
		return 0;
	found = n < found ? (uint32_t)n : found;
	*first = end - found;
	return found;
}

/* Plans to remove the entries of wr_algo_log_find_taken(), if they are the newest ones of the log.
 * Otherwise plans nothing. As in wr_algo_log_plan_back(), entries that were live at the time of the
 * newest entry stay. Fills *d and *p. Returns the number of entries that the plan removes. */
static inline uint64_t wr_algo_log_plan_taken(const struct weir_limit *l,
					      const struct weir_log *view, uint64_t n,
					      uint64_t taken_ns, uint64_t now_ns,
					      struct weir_decision *d, struct wr_algo_log_plan *p)
{
	uint32_t first = 0;
	uint32_t found = wr_algo_log_find_taken(l, view, n, taken_ns, now_ns, &first);

	if (first + found < view->count)
		found = 0;
	wr_algo_log_plan(l, l->capacity, view, -(int64_t)found, found ? view->newest_ns : now_ns, d,
			 p);
	d->admitted = 1;
	d->retry_after_ns = 0;
	return found;
}

/* Plans to append n entries even if they exceed the limit. */
static inline void wr_algo_log_plan_charge(const struct weir_limit *l, const struct weir_log *view,
					   uint64_t n, uint64_t now_ns, struct wr_algo_log_plan *p)
{
	struct weir_log v = *view;

	now_ns = wr_algo_log_now_ns(view, now_ns);

	bool rebase = wr_algo_log_carry(&v, now_ns);
	uint32_t live = wr_algo_log_live(&v, l->period_ns, now_ns);

	*p = wr_algo_log_plan_none(&v, rebase);
	wr_algo_log_append(l, &v, live, n, now_ns, p);
}

/* Returns the shortest wait until n units are admitted under `ceiling`, provided that no other
 * request comes. Returns 0 if they are admitted now. */
static inline uint64_t wr_algo_log_wait(const struct weir_limit *l, uint32_t ceiling,
					const struct weir_log *view, uint64_t n, uint64_t now_ns)
{
	struct weir_log v = *view;
	uint64_t then_ns = wr_algo_log_now_ns(view, now_ns);

	wr_algo_log_carry(&v, then_ns);

	uint32_t live = wr_algo_log_live(&v, l->period_ns, then_ns);
	uint64_t wait_ns = wr_algo_log_until(&v, live, 0, ceiling, n, l->period_ns, then_ns);

	return wr_algo_log_late_wait(then_ns - now_ns, wait_ns);
}

/* Writes the pending stamps of the view into their slots. Doing this twice has the same effect as
 * doing it once. */
static inline void wr_algo_log_flush(const struct weir_log *v, const struct wr_algo_log_plan *p)
{
	for (uint32_t i = 0; i < p->flush; i++)
		__atomic_store_n(&v->stamps[wr_algo_log_slot_back(v, i)], p->flush_ns,
				 __ATOMIC_RELAXED);
}

/* Carries out a plan on a log that no other thread uses. */
static inline void wr_algo_log_commit(struct weir_log *log, const struct wr_algo_log_plan *p)
{
	wr_algo_log_flush(log, p);
	log->newest_ns = p->newest_ns;
	log->head = p->head;
	log->count = p->count;
	log->pending = p->pending;
}

#endif
