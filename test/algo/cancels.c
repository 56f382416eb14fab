/* The model and the random driver of cancels.h. */
#include "algo/cancels.h"

#define STEPS 80
#define LATE_NS SECOND
#define BIG (1u << 20)

struct taken {
	uint64_t n;          /* units that have not been cancelled */
	uint64_t charged_ns; /* charged_ns that the counter reported */
	bool fixed;          /* a refused request that was counted; it cannot be cancelled */
};

struct model {
	const struct weir_limit *l;
	struct taken takes[CANCEL_TAKES];
	int count;
	uint64_t latest_ns; /* the latest time so far */
	uint64_t seed;
	int step;
};

static void complain(const struct model *m, const char *what, __int128 got, __int128 most)
{
	fail_msg(
		"%s: %lld, the model says %lld; WEIR_SEED=%llu step %d %s limit %u capacity %u per "
		"%llu flags %u",
		what, (long long)got, (long long)most, (unsigned long long)m->seed, m->step,
		weir_algorithm_name((int)m->l->algorithm), m->l->limit, m->l->capacity,
		(unsigned long long)m->l->period_ns, m->l->flags);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct taken *)a)->charged_ns,
		 y = ((const struct taken *)b)->charged_ns;

	return x < y ? -1 : x > y;
}

/* Returns the backlog of the bucket at the latest time, in units of 1/period of a token. */
static __int128 backlog(const struct model *m)
{
	struct taken sorted[CANCEL_TAKES];
	__int128 missing = 0;
	uint64_t at_ns = 0;

	memcpy(sorted, m->takes, sizeof sorted);
	qsort(sorted, (size_t)m->count, sizeof *sorted, by_time);
	for (int i = 0; i <= m->count; i++) {
		uint64_t next_ns = i < m->count ? sorted[i].charged_ns : m->latest_ns;

		missing -= (__int128)(next_ns - at_ns) * m->l->limit;
		if (missing < 0)
			missing = 0;
		if (i < m->count)
			missing += (__int128)sorted[i].n * m->l->period_ns;
		at_ns = next_ns;
	}
	return missing;
}

static uint64_t in_window(const struct model *m, uint64_t number)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->count; i++)
		if (m->takes[i].charged_ns / m->l->period_ns == number)
			sum += m->takes[i].n;
	return sum;
}

static uint64_t in_log(const struct model *m)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->count; i++)
		if (m->latest_ns - m->takes[i].charged_ns < m->l->period_ns)
			sum += m->takes[i].n;
	return sum;
}

/* Returns the number of units in use at the latest time, in whole requests. */
static __int128 used(const struct model *m)
{
	uint64_t period_ns = m->l->period_ns, number = m->latest_ns / period_ns;
	__int128 before;

	switch (m->l->algorithm) {
	case WEIR_TOKEN_BUCKET:
		return (backlog(m) + period_ns - 1) / period_ns;
	case WEIR_FIXED_WINDOW:
		return in_window(m, number);
	case WEIR_SLIDING_COUNTER:
		before = number ? in_window(m, number - 1) : 0;
		return in_window(m, number) +
		       before * (period_ns - m->latest_ns % period_ns) / period_ns;
	default: /* the live entries of a log, or the slots that requests hold */
		return in_log(m);
	}
}

/* Checks that the departures of requests that were not cancelled are far enough apart: an interval
 * for each position that the earlier request takes. */
static void check_departures(const struct model *m)
{
	struct taken sorted[CANCEL_TAKES];
	const struct taken *last = NULL;

	memcpy(sorted, m->takes, sizeof sorted);
	qsort(sorted, (size_t)m->count, sizeof *sorted, by_time);
	for (int i = 0; i < m->count; i++) {
		__int128 apart;

		if (sorted[i].n == 0)
			continue;
		apart = last ? (__int128)(sorted[i].charged_ns - last->charged_ns) * m->l->limit
			     : 0;
		/* A departure is rounded up to a whole unit, and the departure before it may have
		 * been rounded up by more. */
		if (last &&
		    apart + 1000 * (__int128)m->l->limit <= (__int128)last->n * m->l->period_ns)
			complain(m, "departures are closer", apart,
				 (__int128)last->n * m->l->period_ns);
		last = &sorted[i];
	}
}

/* Compares the counter with the model. Windows and slots must be exact. A bucket or a log may give
 * back less than the model. */
static void check(const struct model *m, const struct cancel_ops *ops, void *of)
{
	uint32_t algorithm = m->l->algorithm;
	struct weir_decision d;
	__int128 left;

	if (algorithm == WEIR_LEAKY_BUCKET) {
		check_departures(m);
		return;
	}
	d = ops->take(of, 0, m->latest_ns);
	left = used(m) < m->l->capacity ? m->l->capacity - used(m) : 0;
	if (d.remaining > left)
		complain(m, "more is left", d.remaining, left);
	if (d.remaining < left &&
	    (algorithm == WEIR_FIXED_WINDOW || algorithm == WEIR_SLIDING_COUNTER ||
	     algorithm == WEIR_CONCURRENT))
		complain(m, "less is left", d.remaining, left);
}

static void cancel(struct rnd *r, struct model *m, const struct cancel_ops *ops, void *of,
		   uint64_t now_ns, struct cancel_tally *tally)
{
	struct taken *taken = &m->takes[rnd_below(r, (uint64_t)m->count)];
	uint32_t before = ops->take(of, 0, m->latest_ns).remaining, after;
	uint64_t n;

	if (rnd_below(r, 2)) /* often the newest request is cancelled */
		taken = &m->takes[m->count - 1];
	n = taken->n;
	if (n == 0 || taken->fixed)
		return;
	if (rnd_below(r, 4) == 0)
		n = 1 + rnd_below(r, n);
	if (m->l->algorithm == WEIR_LEAKY_BUCKET)
		n = taken->n; /* a position in a queue is given back as a whole */
	/* A bucket does not know how late a cancellation is, so it may give back tokens that flowed
	 * in meanwhile. */
	if (m->l->algorithm == WEIR_TOKEN_BUCKET)
		now_ns = m->latest_ns;
	ops->give(of, n, taken->charged_ns, now_ns);
	taken->n -= n;
	after = ops->take(of, 0, m->latest_ns).remaining;
	tally->whole += after - before == n;
	tally->part += after != before && after - before != n;
	tally->none += after == before;
}

static void take(struct rnd *r, struct model *m, const struct cancel_ops *ops, void *of,
		 uint64_t now_ns, struct cancel_tally *tally)
{
	int64_t cost = rnd_below(r, 3) ? 1 + (int64_t)rnd_below(r, m->l->capacity / 3 + 1)
				       : (int64_t)rnd_magnitude(r, m->l->capacity + 1);
	struct weir_decision d = ops->take(of, cost, now_ns);

	tally->admitted += d.admitted;
	tally->refused += !d.admitted;
	if (!d.admitted && !(m->l->flags & WEIR_COUNT_REJECTED))
		return;
	if (m->l->algorithm == WEIR_CONCURRENT)
		cost = 1; /* a request holds one slot, whatever its cost */
	m->takes[m->count++] = (struct taken){.n = (uint64_t)cost,
					      .charged_ns = d.admitted ? d.charged_ns : now_ns,
					      .fixed = !d.admitted};
	if (m->l->algorithm != WEIR_LEAKY_BUCKET && d.charged_ns > m->latest_ns)
		m->latest_ns = d.charged_ns;
}

struct weir_limit cancel_limit(struct rnd *r, uint32_t algorithm, uint64_t unit_ns)
{
	for (;;) {
		struct weir_limit l = rnd_limit(r, algorithm, 60);

		l.period_ns -= l.period_ns % unit_ns;
		l.max_wait_ns -= l.max_wait_ns % unit_ns;
		if (l.limit && l.capacity <= BIG && l.period_ns && l.period_ns < YEAR &&
		    weir_limit_check(&l, NULL) == 0)
			return l;
	}
}

void cancels_run(struct rnd *r, const struct weir_limit *limit, const struct cancel_ops *ops,
		 void *of, int late_percent, struct cancel_tally *tally)
{
	static struct model m;

	m = (struct model){.l = limit, .latest_ns = T0 + rnd_below(r, DAY), .seed = r->x};
	m.latest_ns -= m.latest_ns % ops->unit_ns;
	if (limit->flags & WEIR_COUNT_REJECTED)
		/* A decision does not report in which window a late refusal was counted. */
		late_percent = 0;
	for (m.step = 0; m.step < STEPS; m.step++) {
		bool late = rnd_below(r, 100) < (uint64_t)late_percent;
		uint64_t now_ns = late ? m.latest_ns - rnd_below(r, LATE_NS + 1)
				       : rnd_next(r, limit, m.latest_ns, 0);

		/* The number of a window is stored modulo 2^32 in C, and modulo 9 · 10^8 in
		 * Redis. */
		if (now_ns > 2 * T0 ||
		    (now_ns > m.latest_ns && (now_ns - m.latest_ns) / limit->period_ns >> 28))
			return;
		now_ns -= now_ns % ops->unit_ns;
		if (now_ns > m.latest_ns)
			m.latest_ns = now_ns;
		if (m.count && rnd_below(r, 3) == 0)
			cancel(r, &m, ops, of, now_ns, tally);
		else
			take(r, &m, ops, of, now_ns, tally);
		check(&m, ops, of);
	}
}
