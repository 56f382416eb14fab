/* The arithmetic that token.h and leaky.h share. It is exact for every rate, because requests are
 * decided by comparing products, which are not rounded.
 *
 * State: s0 bits 0..62  since: the bucket was full at this time, ns
 *        s0 bit 63      bit 32 of taken
 *        s1             low 32 bits of taken: the tokens taken after `since`
 *
 * The backlog is the number of tokens that the bucket lacks to be full, in units of 1/period of a
 * token:
 *   backlog = taken · period - (now - since) · limit
 * In this unit a token is exactly `period`, and exactly `limit` flows in per ns.
 *
 * Example: 3 per second, 2 taken at t = 0. After 0.5 s the backlog is 2·10^9 - 5·10^8·3 = 5·10^8,
 * half a token. The bucket is full after 5·10^8 / 3 ns, rounded up to 166,666,667 ns.
 *
 * The limit is not part of the state. When limit or burst change, the tokens taken after `since`
 * count against the new limit and burst. wr_bucket_take() keeps the number of these tokens below
 * ceiling + limit.
 */
#ifndef WR_ALGO_BUCKET_H
#define WR_ALGO_BUCKET_H

#include "algo/amount.h"

#define WR_BUCKET_TOP (1ull << 63)
#define WR_BUCKET_MOST ((1ull << 33) - 1) /* the largest `taken` that the state can hold */

struct wr_bucket {
	/* The backlog is in units of 1/period of a token. It is at most ceiling · period, unless
	 * latecomers (amount.h) took tokens, or a process with a larger limit wrote the state. */
	unsigned __int128 backlog;
	uint64_t since_ns;
	uint64_t taken;
	/* For a latecomer (amount.h), the time in ns from its own time to the time at which it is
	 * counted. Otherwise 0. */
	uint64_t late_ns;
	bool changed; /* true if the bucket differs from the stored state and has to be stored */
};

/* Sets `since` to now_ns, and `taken` to the number of tokens that the bucket lacks at now_ns. */
static inline void wr_bucket_carry(struct wr_bucket *b, uint64_t taken, uint64_t now_ns)
{
	b->since_ns = now_ns;
	b->taken = taken;
	b->changed = true;
}

/* Loads the bucket as it is at now_ns, or for a latecomer as it is at `since`. The limit must not
 * be 0. If `since` is in the future because the clock stepped back, `since` becomes now_ns, and
 * `taken` is lowered to at most the ceiling.
 *
 * If a process with a larger limit wrote the state, the bucket can lack more tokens than the
 * ceiling. `taken` is not lowered to the ceiling in this case: otherwise the difference could be
 * taken a second time under the larger limit. So after a limit is lowered, keys that took many
 * tokens under the old limit have to wait.
 *
 * If the clock steps back to a time that is still after `since`, the bucket lacks more tokens than
 * before the step, but at most `taken`, which is below ceiling + limit. So requests are refused for
 * at most one period plus the time in which one token flows in. */
static inline struct wr_bucket wr_bucket_load(const struct weir_limit *l,
					      const struct weir_state *s, uint64_t now_ns)
{
	struct wr_bucket b = {.since_ns = s->s0 & ~WR_BUCKET_TOP,
			      .taken = s->s0 >> 63 << 32 | s->s1};

	if (__builtin_expect(b.since_ns > now_ns, 0)) {
		b.late_ns = wr_late_ns(b.since_ns, now_ns);
		if (b.late_ns == 0)
			wr_bucket_carry(&b, b.taken < l->ceiling ? b.taken : l->ceiling, now_ns);
	}

	unsigned __int128 due = (unsigned __int128)b.taken * l->period_ns;
	unsigned __int128 outflow = (unsigned __int128)(now_ns + b.late_ns - b.since_ns) * l->limit;

	if (due <= outflow) {
		b.since_ns = now_ns + b.late_ns;
		b.taken = 0;
		return b;
	}
	b.backlog = due - outflow;
	return b;
}

static inline void wr_bucket_store(const struct wr_bucket *b, struct weir_state *s)
{
	s->s0 = b->since_ns | b->taken >> 32 << 63;
	s->s1 = (uint32_t)b->taken;
}

static inline bool wr_bucket_fits(const struct wr_bucket *b, const struct weir_limit *l,
				  uint32_t ceiling, uint64_t n)
{
	return b->backlog + (unsigned __int128)n * l->period_ns <=
	       (unsigned __int128)ceiling * l->period_ns;
}

/* Takes n tokens, which must fit. now_ns is the time at which the request is counted. If whole
 * periods have passed after `since`, moves `since` forward by these periods, and lowers `taken` by
 * the tokens that flowed in during them. So `taken` always stays below ceiling + limit, and hence
 * below 2^33. */
static inline void wr_bucket_take(struct wr_bucket *b, const struct weir_limit *l, uint64_t n,
				  uint64_t now_ns)
{
	uint64_t elapsed = now_ns - b->since_ns;

	b->taken += n;
	b->backlog += (unsigned __int128)n * l->period_ns;
	b->changed = true;
	if (b->taken >= l->limit && elapsed >= l->period_ns) {
		uint64_t tokens = b->taken / l->limit;
		uint64_t periods = elapsed / l->period_ns;
		uint64_t both = tokens < periods ? tokens : periods;

		b->since_ns += both * l->period_ns;
		b->taken -= both * l->limit;
	}
}

/* Gives back n tokens that were taken `age_ns` ago: lowers the backlog by n tokens minus the tokens
 * that flowed in during `age_ns`. The tokens that flowed in have already replaced a part of the n
 * tokens. This part is not given back a second time. The result does not depend on the tokens that
 * other requests took and gave back in between. A latecomer whose time is x behind other requests
 * may give back too many tokens, but at most as many as flow in during x.
 *
 * Example: 1 per second, burst 5. 5 tokens were taken at 0 s. If they are given back at 2 s, the
 * backlog falls by 3 tokens; if they are given back at 5 s, the backlog does not change.
 *
 * To lower the backlog, taken · period - (now - since) · limit, by exactly this amount, `taken` is
 * lowered by n, and `since` is moved forward by `age_ns`. If `since` would then be after now_ns,
 * `since` is moved back by whole periods, and `taken` is raised by the tokens that flow in during
 * these periods. This second step does not change the backlog. Returns the number of whole tokens
 * that were given back. */
static inline uint64_t wr_bucket_give(struct wr_bucket *b, const struct weir_limit *l, uint64_t n,
				      uint64_t age_ns, uint64_t now_ns)
{
	unsigned __int128 owed = (unsigned __int128)n * l->period_ns;
	unsigned __int128 refilled = (unsigned __int128)age_ns * l->limit;
	unsigned __int128 given = owed > refilled ? owed - refilled : 0;

	if (b->backlog == 0 || given == 0)
		return 0;
	if (b->backlog <= given) {
		given = b->backlog;
		wr_bucket_carry(b, 0, now_ns);
		b->backlog = 0;
		return wr_div(given, l->period_ns);
	}

	uint64_t over_ns = b->since_ns + age_ns > now_ns ? b->since_ns + age_ns - now_ns : 0;
	uint64_t periods = over_ns / l->period_ns + (over_ns % l->period_ns != 0);
	unsigned __int128 taken = b->taken + (unsigned __int128)periods * l->limit - n;

	if (taken > WR_BUCKET_MOST || b->since_ns + age_ns < periods * l->period_ns) {
		/* The exact result does not fit into the state, so only whole tokens are given
		 * back. */
		n = wr_div(given, l->period_ns);
		b->taken -= n;
		b->backlog -= (unsigned __int128)n * l->period_ns;
		b->changed |= n > 0;
		return n;
	}
	b->taken = (uint64_t)taken;
	b->since_ns += age_ns - periods * l->period_ns;
	b->backlog -= given;
	b->changed = true;
	return wr_div(given, l->period_ns);
}

/* Returns the shortest wait until n tokens can be taken from a bucket that holds up to `ceiling`
 * tokens. Returns 0 if they can be taken now, and WEIR_NEVER if n is above `ceiling`. The wait of a
 * latecomer (amount.h) begins at the latecomer's own time. */
static inline uint64_t wr_bucket_wait(const struct wr_bucket *b, const struct weir_limit *l,
				      uint32_t ceiling, uint64_t n)
{
	if (n > ceiling)
		return WEIR_NEVER;

	unsigned __int128 room = (unsigned __int128)(ceiling - n) * l->period_ns;

	return b->backlog > room ? wr_algo_span_up(b->backlog - room, l->limit) + b->late_ns : 0;
}

/* Returns the time until the bucket is full, which means that its backlog is 0. */
static inline uint64_t wr_bucket_reset_after(const struct wr_bucket *b, const struct weir_limit *l)
{
	return wr_algo_span_up(b->backlog, l->limit) + b->late_ns;
}

static inline uint32_t wr_bucket_remaining(const struct wr_bucket *b, const struct weir_limit *l)
{
	return wr_left(l->capacity, wr_div_up(b->backlog, l->period_ns));
}

static inline uint32_t wr_bucket_debt(const struct wr_bucket *b, const struct weir_limit *l)
{
	return wr_debt(l, wr_div_up(b->backlog, l->period_ns));
}

/* Decides under a limit of 0. Refuses every request whose cost is 0 or more. A cost below 0
 * gives tokens back: the request is admitted, but has no effect. The state is never changed,
 * because it is needed again if the limit is raised later. */
static inline bool wr_bucket_shut(int64_t cost, struct weir_decision *d)
{
	*d = (struct weir_decision){.admitted = cost < 0,
				    .retry_after_ns = cost < 0 ? 0 : WEIR_NEVER};
	return false;
}

#endif
