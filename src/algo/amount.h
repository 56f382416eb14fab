/* Functions that all algorithms share. They convert a cost to a number of units, recognize
 * latecomers (requests whose time is a little before the time of the state), compute how many units
 * remain, and divide.
 *
 * Example: cost 3 asks for 3 units, cost 0 only asks whether 1 unit would fit, cost -2 gives back 2
 * units. If 12 units are in use and the capacity is 10, wr_left() returns 0, not -2.
 */
#ifndef WR_ALGO_AMOUNT_H
#define WR_ALGO_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/algo.h>

/* If a request's time is behind the time of the state by more than this, the clock has stepped
 * back. A smaller difference is normal: a thread reads the clock before it decides, and the
 * scheduler can stop the thread in between. A request whose time is behind the state's time by at
 * most WR_SKEW_NS is a latecomer. A latecomer is counted at the state's time. The counts of the
 * state are not moved back to the latecomer's time, because that would move the counts of other
 * requests into the past and so admit too much. The waits in the decision of a latecomer begin at
 * its own time.
 *
 * Example: 5 per minute in fixed windows. Five were counted at 2:01:00.0. A request with the time
 * 2:00:59.4 is refused like any other in the window of 2:01, and its wait is 60.6 s. A request with
 * the time 2:00:58 is more than a second behind, so the clock stepped back: the five are moved into
 * the window of 2:00, and the request's wait is 2 s. */
#define WR_SKEW_NS 1000000000u

/* Returns how far the state's time is ahead of a latecomer's time. Returns 0 if the request is not
 * behind the state, or if it is so far behind that the clock stepped back. */
static inline uint64_t wr_late_ns(uint64_t state_ns, uint64_t now_ns)
{
	return state_ns > now_ns && state_ns - now_ns <= WR_SKEW_NS ? state_ns - now_ns : 0;
}

/* Returns the number of units that a cost asks for or gives back. That is the absolute value of the
 * cost, or 1 for cost 0, which asks whether 1 unit would fit. The unsigned negation is defined even
 * for INT64_MIN. */
static inline uint64_t wr_amount(int64_t cost)
{
	return cost > 0 ? (uint64_t)cost : cost < 0 ? 0 - (uint64_t)cost : 1;
}

static inline uint32_t wr_left(uint32_t capacity, uint64_t used)
{
	return used < capacity ? capacity - (uint32_t)used : 0;
}

/* Returns the debt: the units in use beyond the capacity. With WEIR_COUNT_REJECTED these units may
 * be refused requests, which are no debt. */
static inline uint32_t wr_debt(const struct weir_limit *l, uint64_t used)
{
	uint64_t debt = used > l->capacity ? used - l->capacity : 0;

	if (l->flags & WEIR_COUNT_REJECTED)
		return 0;
	return debt < UINT32_MAX ? (uint32_t)debt : UINT32_MAX;
}

/* Returns the number of units that settling may leave in use: the ceiling and the debt. A window
 * cannot count more than UINT32_MAX units, so more are not charged. */
static inline uint64_t wr_most_owed(const struct weir_limit *l)
{
	uint64_t debt = l->flags & WEIR_NO_DEBT ? 0 : l->max_debt ? l->max_debt : l->capacity;
	uint64_t most = l->ceiling + debt;
	bool window = l->algorithm == WEIR_FIXED_WINDOW || l->algorithm == WEIR_SLIDING_COUNTER;

	return window && most > UINT32_MAX ? UINT32_MAX : most;
}

static inline uint32_t wr_add_saturated(uint32_t count, uint64_t n)
{
	return n < UINT32_MAX - count ? count + (uint32_t)n : UINT32_MAX;
}

/* Returns a / b, where the quotient must fit into 64 bits. Usually a fits into 64 bits too, and
 * then one machine division replaces a call of the 128-bit routine. */
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

/* Returns the time a / b, rounded up, and at most INT64_MAX / 2, so that the time can be added to
 * now. The exact time can be longer, for example after a limit was lowered to a millionth. */
static inline uint64_t wr_algo_span_up(unsigned __int128 a, uint64_t b)
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
