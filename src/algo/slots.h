/* Concurrent requests: a key has `limit` slots. A request takes a slot when it is admitted and gives
 * it back when its response was sent. A slot that is not given back is free again after period_ns,
 * which rule files call max_hold.
 *
 * State: one word per slot.
 *   bit 63      1: the slot was given back; the other bits are the stamp of the latest request
 *   bits 0..62  the stamp: when the request took the slot, in ns; its low bits are the number of
 *               the slot. 0: the slot was never used
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

#define WR_SLOT_FREE (1ull << 63)
#define WR_SLOT_WAIT_NS 1000000000u /* shortest wait that a refused request is told */

/* Returns the bits of a stamp that are the number of the slot, for a number of slots. */
static inline uint64_t wr_slot_mask(uint32_t slots)
{
	return slots > 1 ? ~0ull >> __builtin_clzll(slots - 1ull) : 0;
}

/* Returns whether a request holds the slot at now_ns. */
static inline bool wr_slot_held(uint64_t word, uint64_t max_hold_ns, uint64_t now_ns)
{
	if (word == 0 || word & WR_SLOT_FREE)
		return false;
	return word > now_ns || now_ns - word < max_hold_ns;
}

/* wr_slot_held() for many slots: a word is in the range if a request holds its slot. */
struct wr_slot_range {
	uint64_t lowest; /* the lowest word of a held slot, at least 1 */
	uint64_t width;
};

static inline struct wr_slot_range wr_slot_range(uint64_t max_hold_ns, uint64_t now_ns)
{
	uint64_t lowest = now_ns >= max_hold_ns ? now_ns - max_hold_ns + 1 : 1;

	return (struct wr_slot_range){lowest, WR_SLOT_FREE - lowest};
}

static inline bool wr_slot_in_range(struct wr_slot_range range, uint64_t word)
{
	return word - range.lowest < range.width;
}

/* Returns whether the stamp is so far in the future that the clock must have stepped back. */
static inline bool wr_slot_ahead(uint64_t word, uint64_t now_ns)
{
	return !(word & WR_SLOT_FREE) && word > now_ns && word - now_ns > 2 * WR_SKEW_NS;
}

/* Returns the stamp of a request that takes slot `number`, whose word was `word`. The stamp is
 * later than all earlier stamps of the slot, unless the clock stepped back. */
static inline uint64_t wr_slot_stamp(uint64_t word, uint32_t number, uint64_t mask, uint64_t now_ns)
{
	uint64_t last = word & ~WR_SLOT_FREE;
	uint64_t stamp = (now_ns & ~mask) | number;

	if (stamp == 0)
		stamp = mask + 1;
	if (stamp <= last && last - stamp <= WR_SKEW_NS)
		stamp = ((last & ~mask) | number) + mask + 1;
	return stamp;
}

/* Holding times are averaged. An average is stored in 16 bits: 5 bits of exponent and 11 bits of
 * mantissa, in units of 1,024 ns. 0: no request has given its slot back yet. */
#define WR_HOLD_UNIT_NS 1024u

static inline uint64_t wr_hold_ns(uint32_t code)
{
	return ((uint64_t)(code & 0x7ff) << (code >> 11 & 0x1f)) * WR_HOLD_UNIT_NS;
}

static inline uint32_t wr_hold_code(uint64_t ns)
{
	uint64_t units = ns / WR_HOLD_UNIT_NS + 1;
	unsigned bits = 64 - (unsigned)__builtin_clzll(units);
	unsigned shift = bits > 11 ? bits - 11 : 0;

	if (shift > 31)
		return 0xffff;
	return shift << 11 | (uint32_t)(units >> shift);
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
static inline uint64_t wr_slot_wait(uint64_t word, uint64_t max_hold_ns, uint64_t hold_ns,
				    uint64_t now_ns)
{
	uint64_t age_ns = now_ns > word ? now_ns - word : 0;
	uint64_t left_ns = max_hold_ns > age_ns ? max_hold_ns - age_ns : 0;
	uint64_t wait_ns = hold_ns > age_ns ? hold_ns - age_ns : hold_ns;

	return wait_ns < left_ns ? wait_ns : left_ns;
}

#endif
