/* Amounts and latecomers: what every algorithm does with a cost and with a time from before its
 * state, and the one division they share.
 *
 * Example: cost 3 asks for 3, cost 0 (a look) asks whether 1 would fit, cost -2 speaks of 2.
 * A limit of 10 with 12 taken has 0 left, not -2.
 */
#ifndef WR_ALGO_AMOUNT_H
#define WR_ALGO_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/algo.h>

/* Participants read the clock before they decide and may be held up in between. A time that is
 * behind the state by no more than this is such a latecomer's and not a clock that stepped back:
 * the request counts as of the state's time, and nothing is carried. To carry would move what
 * others counted into the past, and so admit too much. What a latecomer is told, it is told from
 * its own time on.
 *
 * Example: 5 per minute in fixed windows. Five were counted at 2:01:00.0 when a participant comes
 * that read 2:00:59.4. It is refused like any other in the window of 2:01 and told to wait 60.6 s.
 * One that reads 2:00:58 finds a clock that stepped back: the five are carried into the window of
 * 2:00, and it is told to wait 2 s. */
#define WR_SKEW_NS 1000000000u

/* How far the state is ahead of a latecomer; 0 when it is not, or when the clock stepped back. */
static inline uint64_t wr_late_ns(uint64_t state_ns, uint64_t now_ns)
{
	return state_ns > now_ns && state_ns - now_ns <= WR_SKEW_NS ? state_ns - now_ns : 0;
}

/* Units the request speaks of. Negating in unsigned arithmetic keeps INT64_MIN defined. */
static inline uint64_t wr_amount(int64_t cost)
{
	return cost > 0 ? (uint64_t)cost : cost < 0 ? 0 - (uint64_t)cost : 1;
}

static inline uint32_t wr_left(uint32_t capacity, uint64_t used)
{
	return used < capacity ? capacity - (uint32_t)used : 0;
}

static inline uint32_t wr_add_saturated(uint32_t count, uint64_t n)
{
	return n < UINT32_MAX - count ? count + (uint32_t)n : UINT32_MAX;
}

/* a / b where the quotient fits 64 bits. Nearly always a fits too, and then one machine division
 * does instead of a call of the 128-bit routine. */
static inline uint64_t wr_div(unsigned __int128 a, uint64_t b)
{
	if (__builtin_expect(a >> 64 == 0, 1))
		return (uint64_t)a / b;
	return (uint64_t)(a / b);
}

static inline uint64_t wr_div_up(unsigned __int128 a, uint64_t b)
{
	return wr_div(a + b - 1, b);
}

/* The same for a time, which a limit lowered a million times could make longer than any: then half
 * of what a time holds, so that it can be added to now. */
static inline uint64_t wr_span_up(unsigned __int128 a, uint64_t b)
{
	unsigned __int128 whole = a + b - 1;
	uint64_t span_ns;

	if (__builtin_expect(whole >> 64 == 0, 1))
		span_ns = (uint64_t)whole / b;
	else
		span_ns = whole / b > INT64_MAX ? INT64_MAX : (uint64_t)(whole / b);
	return span_ns < INT64_MAX / 2 ? span_ns : INT64_MAX / 2;
}

#endif
