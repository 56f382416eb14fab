/* Fuzzes a limit and a list of requests. The limit is refused, or every decision on it is valid. */
#include "fuzz.h"

#include <weir/algo.h>

#define STAMPS 64

struct subject {
	struct weir_limit limit;
	struct weir_state state, soft;
	struct weir_log log;
	uint64_t stamps[STAMPS];
};

static int step_limit(struct subject *s, int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	if (s->limit.algorithm == WEIR_SLIDING_LOG) {
		s->log.stamps = s->stamps;
		return weir_log_step(&s->limit, &s->log, &s->soft, cost, now_ns, d);
	}
	return weir_step(&s->limit, &s->state, &s->soft, cost, now_ns, d);
}

/* A sliding counter stores its window number modulo 2^32. Tables forget keys before it wraps. */
static int exceeds_window_numbers(const struct weir_limit *l, uint64_t a_ns, uint64_t b_ns)
{
	uint64_t apart_ns = a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns;

	return l->algorithm == WEIR_SLIDING_COUNTER && apart_ns / l->period_ns >> 30;
}

/* Checks that a refused request is admitted after exactly retry_after, and not one ns earlier. */
static void check_retry(const struct subject *after, int64_t cost, uint64_t now_ns,
			uint64_t wait_ns)
{
	struct subject copy = *after;
	struct weir_decision d;

	require(wait_ns > 0);
	if (wait_ns == WEIR_NEVER || wait_ns > INT64_MAX - now_ns ||
	    exceeds_window_numbers(&after->limit, now_ns, now_ns + wait_ns))
		return;
	require(step_limit(&copy, cost, now_ns + wait_ns - 1, &d) == 0);
	require(!d.admitted);
	copy = *after;
	require(step_limit(&copy, cost, now_ns + wait_ns, &d) == 0);
	require(d.admitted);
}

static void check_reset(const struct subject *after, uint64_t now_ns, uint64_t reset_ns)
{
	struct subject copy = *after;
	struct weir_decision d;

	if (reset_ns > INT64_MAX - now_ns ||
	    exceeds_window_numbers(&after->limit, now_ns, now_ns + reset_ns))
		return;
	require(step_limit(&copy, 0, now_ns + reset_ns, &d) == 0);
	require(d.remaining == d.limit && d.reset_after_ns == 0);
}

/* Times of a window that the caller supplies are not checked: the window ends when the caller
 * supplies the next one. */
static void check_decision(const struct subject *after, int64_t cost, uint64_t now_ns,
			   const struct weir_decision *d)
{
	int given = after->limit.window_end_ns != 0;

	require(d->limit == after->limit.capacity && d->remaining <= d->limit);
	require(d->debt == 0 || d->remaining == 0);
	require(!d->full && (!d->soft || d->admitted));
	require(d->admitted == 1 || d->admitted == 0);
	if (d->admitted)
		require(d->retry_after_ns == 0);
	else if (!given && cost >= 0)
		check_retry(after, cost, now_ns, d->retry_after_ns);
	if (cost < 0)
		require(d->admitted);
	if (!given)
		check_reset(after, now_ns, d->reset_after_ns);
}

/* Moves the clock forward or back. Most steps are small. */
static uint64_t move_clock(uint64_t now_ns, uint8_t how, uint64_t by)
{
	by >>= how & 63;
	if (how & 64)
		return by < now_ns ? now_ns - by : 0;
	return by < INT64_MAX - now_ns ? now_ns + by : now_ns;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct subject s;
	uint64_t now_ns = 1700000000000000000;

	memset(&s, 0, sizeof s);
	if (size < sizeof s.limit)
		return 0;
	memcpy(&s.limit, data, sizeof s.limit);
	s.limit.size = sizeof s.limit;
	s.limit.algorithm = s.limit.algorithm % 8;
	s.limit.reserved = 0;
	if (weir_limit_check(&s.limit, NULL) < 0)
		return 0;
	if (s.limit.algorithm == WEIR_SLIDING_LOG && s.limit.ceiling > STAMPS)
		return 0;
	if (s.limit.algorithm == WEIR_CONCURRENT) {
		struct weir_decision none;

		require(weir_step(&s.limit, &s.state, &s.soft, 1, now_ns, &none) == WEIR_ELIMIT);
		return 0;
	}
	s.log.capacity = STAMPS;
	for (size_t at = sizeof s.limit; at + 18 <= size; at += 18) {
		struct weir_decision d;
		uint64_t by;
		int64_t cost;

		memcpy(&by, data + at, 8);
		memcpy(&cost, data + at + 8, 8);
		cost >>= data[at + 16] & 63;
		by = move_clock(now_ns, data[at + 17], by);
		if (exceeds_window_numbers(&s.limit, now_ns, by))
			s.state = (struct weir_state){0};
		now_ns = by;
		require(step_limit(&s, cost, now_ns, &d) == 0);
		check_decision(&s, cost, now_ns, &d);
	}
	return 0;
}
