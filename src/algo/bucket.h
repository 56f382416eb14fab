/* The bucket under token.h and leaky.h: exact for every rate, because nothing is ever divided
 * before it is compared.
 *
 * State: s0 bits 0..62  since: the bucket was full at this time, ns
 *        s0 bit 63      bit 32 of taken
 *        s1             low 32 bits of taken: tokens taken since then
 *
 * The backlog, the tokens missing to a full bucket, is in units of 1/period of a token:
 *   backlog = taken · period - (now - since) · limit
 * A token is then exactly `period`, and each ns gives back exactly `limit`.
 *
 * Example: 3 per second, 2 taken at t = 0. After 0.5 s the backlog is 2·10^9 - 5·10^8·3 = 5·10^8,
 * half a token. It is gone after 5·10^8 / 3 ns, asked for in whole ns: 166,666,667.
 *
 * The limit is not part of the state. When limit or burst change, what was taken since `since`
 * counts against the new ones: at most a period's worth, see wr_bucket_take().
 */
#ifndef WR_ALGO_BUCKET_H
#define WR_ALGO_BUCKET_H

#include "algo/amount.h"

#define WR_BUCKET_TOP (1ull << 63)
#define WR_BUCKET_MOST ((1ull << 33) - 1) /* largest `taken` */

struct wr_bucket {
	unsigned __int128 backlog; /* 0 … ceiling · period, and a little more for latecomers */
	uint64_t since_ns;
	uint64_t taken;
	uint64_t late_ns; /* this is the bucket as of so much later than the time of the request */
	bool changed;     /* differs from the stored state and has to be stored */
};

/* Replaces the stored `since` and `taken` by equal ones as of now: `taken` tokens are missing at
 * this time. */
static inline void wr_bucket_carry(struct wr_bucket *b, uint64_t taken, uint64_t now_ns)
{
	b->since_ns = now_ns;
	b->taken = taken;
	b->changed = true;
}

/* The bucket at now_ns, or for a latecomer at since. limit must not be 0. State from the future
 * (the clock stepped back) is moved to now with what was taken. A bucket that lacks more than it
 * can hold is left as it is: a participant with a larger limit may have written it, and cutting it
 * down to this limit's size would admit the rest again. After a limit is lowered, keys that took
 * much under the old one therefore wait. After a step back by less than the age of `since`,
 * requests are refused for one period and one token's time at most, as taken stays below ceiling +
 * limit. */
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
	unsigned __int128 drained = (unsigned __int128)(now_ns + b.late_ns - b.since_ns) * l->limit;

	if (due <= drained) {
		b.since_ns = now_ns + b.late_ns;
		b.taken = 0;
		return b;
	}
	b.backlog = due - drained;
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

/* Takes n that fit, at the time the bucket is as of. Whole periods that passed and the tokens they
 * brought cancel out, which keeps taken below ceiling + limit, hence below 2^33, for ever. */
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

/* Lowers the backlog by n tokens, less what flowed in during `age_ns`. Of n tokens that were taken
 * so long ago, no more than that can still be missing because of them: if they had not been taken,
 * what flowed in since would have overflowed. This holds whatever other requests took and gave back
 * in between, so it can be given back without knowing about them. A latecomer that is behind others
 * by x gets at most what flows in during x too much.
 *
 * Example: 1 per second, burst 5. 5 taken at 0 s and given back at 2 s are worth 3; at 5 s,
 * nothing.
 *
 * taken · period - (now - since) · limit stays exact when taken goes down by n and since up by the
 * age; whole periods that wr_bucket_take() cancelled out are put back where since would be ahead of
 * now. Returns the number of whole tokens that were given back. */
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
		n = wr_div(given, l->period_ns); /* too large for the state: whole tokens */
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

/* The shortest wait until n fit under the ceiling; 0 if they fit now. A latecomer waits from its
 * own time on. */
static inline uint64_t wr_bucket_wait(const struct wr_bucket *b, const struct weir_limit *l,
				      uint32_t ceiling, uint64_t n)
{
	if (n > ceiling)
		return WEIR_NEVER;

	unsigned __int128 room = (unsigned __int128)(ceiling - n) * l->period_ns;

	return b->backlog > room ? wr_span_up(b->backlog - room, l->limit) + b->late_ns : 0;
}

/* The time until the bucket is full, which is also the time until its backlog ends. */
static inline uint64_t wr_bucket_reset_after(const struct wr_bucket *b, const struct weir_limit *l)
{
	return wr_span_up(b->backlog, l->limit) + b->late_ns;
}

static inline uint32_t wr_bucket_remaining(const struct wr_bucket *b, const struct weir_limit *l)
{
	return wr_left(l->capacity, wr_div_up(b->backlog, l->period_ns));
}

/* A limit of 0 refuses everything and does not change the state, which a later limit may use. */
static inline bool wr_bucket_shut(int64_t cost, struct weir_decision *d)
{
	*d = (struct weir_decision){.admitted = cost < 0,
				    .retry_after_ns = cost < 0 ? 0 : WEIR_NEVER};
	return false;
}

#endif
