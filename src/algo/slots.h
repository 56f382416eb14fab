/* Concurrent requests: a key has `limit` slots. A request takes a slot when it is admitted and gives
 * it back when its response was sent. A slot that is not given back is free again after period_ns,
 * which rule files call max_hold.
 *
 * State: one word per slot.
 *   bit 63      1: the slot was given back; the other bits are the latest stamp of the slot
 *   bits 0..62  the stamp: when the request took the slot, in ns, rounded up so that its low bits
 *               are the number of the slot. 0: the slot was never used
 * The stamp also identifies the request: charged_ns of its decision is the stamp. Two requests never
 * have the same stamp. Different slots have different low bits, and the stamps of one slot only
 * rise. So a request that gives its slot back twice frees no slot of another request.
 *
 * Example: 2 slots, max_hold 1 minute. Requests at 2:00:00 and 2:00:10 take the slots. A request at
 * 2:00:20 is refused. The first request gives its slot back at 2:00:30, so a request at 2:00:31 is
 * admitted. The process that served the second request was killed: its slot is free again at
 * 2:01:10.
 *
 * Promise: at most `limit` requests of a key hold a slot that is younger than max_hold.
 */
#ifndef WR_ALGO_SLOTS_H
#define WR_ALGO_SLOTS_H

#include "algo/amount.h"

#define WR_SLOTS_FREE (1ull << 63)
#define WR_SLOTS_WAIT_NS 1000000000u /* shortest wait that a refused request is told */

/* Returns the bits of a stamp that are the number of the slot, for a number of slots. */
static inline uint64_t wr_slots_mask(uint32_t slots)
{
	return slots > 1 ? ~0ull >> __builtin_clzll(slots - 1ull) : 0;
}

/* Returns the lowest word of a slot that a request holds at now_ns. As signed numbers, all words of
 * held slots are at least as large as the result, and all other words are smaller. */
static inline int64_t wr_slots_lowest(uint64_t max_hold_ns, uint64_t now_ns)
{
	return now_ns >= max_hold_ns ? (int64_t)(now_ns - max_hold_ns + 1) : 1;
}

static inline bool wr_slots_held(uint64_t word, int64_t lowest)
{
	return (int64_t)word >= lowest;
}

/* Returns whether the stamp of a held slot is so far in the future that the clock must have stepped
 * back. A stamp can be ahead of the clock by WR_SKEW_NS, because the stamps of a slot only rise, and
 * the thread that reads it can be late by WR_SKEW_NS. */
static inline bool wr_slots_ahead(uint64_t word, uint64_t now_ns)
{
	return !(word & WR_SLOTS_FREE) && word > now_ns && word - now_ns > 2 * WR_SKEW_NS;
}

/* Returns the stamp of a request that takes slot `number`, whose word was `word`. The stamp is not
 * before now_ns, so that the slot is not free again before max_hold has passed. The stamp is later
 * than all earlier stamps of the slot, unless the clock stepped back. */
static inline uint64_t wr_slots_stamp(uint64_t word, uint32_t number, uint64_t mask,
				      uint64_t now_ns)
{
	uint64_t last = word & ~WR_SLOTS_FREE;
	uint64_t after = now_ns;

	if (last >= now_ns && last - now_ns <= WR_SKEW_NS)
		after = last + 1;
	if (after == 0)
		after = 1;
	/* The highest stamp, for times at the end of the range. */
	if (after > WR_SLOTS_FREE - 1 - mask)
		after = WR_SLOTS_FREE - 1 - mask;
	return after + ((number - after) & mask);
}

/* Holding times are averaged. An average is stored in 12 bits: 5 bits of exponent and 7 bits of
 * mantissa, in units of 65,536 ns. The largest average is 206 days. 0: no request has given its slot
 * back yet. */
#define WR_HOLD_UNIT_NS 65536u
#define WR_HOLD_BITS 12
#define WR_HOLD_MANTISSA 7

static inline uint64_t wr_hold_ns(uint32_t code)
{
	uint64_t mantissa = code & ((1u << WR_HOLD_MANTISSA) - 1);

	return (mantissa << (code >> WR_HOLD_MANTISSA & 0x1f)) * WR_HOLD_UNIT_NS;
}

static inline uint32_t wr_hold_code(uint64_t ns)
{
	uint64_t units = ns / WR_HOLD_UNIT_NS + 1;
	unsigned bits = 64 - (unsigned)__builtin_clzll(units);
	unsigned shift = bits > WR_HOLD_MANTISSA ? bits - WR_HOLD_MANTISSA : 0;
	uint64_t mantissa = (units + (1ull << shift >> 1)) >> shift; /* rounded to the nearest */

	if (mantissa >> WR_HOLD_MANTISSA) {
		mantissa >>= 1;
		shift++;
	}
	if (shift > 31)
		return (1u << WR_HOLD_BITS) - 1;
	return shift << WR_HOLD_MANTISSA | (uint32_t)mantissa;
}

/* Adds a holding time to the average, with a weight of one eighth. Returns the new code. */
static inline uint32_t wr_hold_average(uint32_t code, uint64_t held_ns)
{
	uint64_t mean_ns = wr_hold_ns(code);

	if (code == 0)
		return wr_hold_code(held_ns);
	return wr_hold_code(mean_ns - mean_ns / 8 + held_ns / 8);
}

/* Returns the estimated time until a slot with this stamp is given back. A request that has held
 * its slot for longer than the average is expected to need the average time once more. */
static inline uint64_t wr_slots_wait(uint64_t word, uint64_t max_hold_ns, uint64_t hold_ns,
				     uint64_t now_ns)
{
	uint64_t age_ns = now_ns > word ? now_ns - word : 0;
	uint64_t left_ns = max_hold_ns > age_ns ? max_hold_ns - age_ns : 0;
	uint64_t wait_ns = hold_ns > age_ns ? hold_ns - age_ns : hold_ns;

	return wait_ns < left_ns ? wait_ns : left_ns;
}

#endif
