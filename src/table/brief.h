/* A log that has no ring: its requests counted by thirds of the period, in the key's cell.
 *
 *   s0  requests of the newest slot 16 · of the one before 16 · … 16 · … 16
 *   s1  in the cell 1 · brief 1 · number of the newest slot 30
 *
 * A slot is a third of the period, rounded up. A request counts from its own slot to the end of the
 * third slot after it: for one period at least and four thirds of one at most. So a brief log never
 * admits what a ring would refuse. It refuses what a ring would admit only where more than the
 * limit came within the last four thirds of a period.
 *
 * Example: 6 per minute, slots of 20 s. Two requests at 2:00:05 and four at 2:00:50 (slots 0 and
 * 2). At 2:01:10 (slot 3) all six count, though a ring would have let go of the first two: refused.
 * At 2:01:20 (slot 4) slot 0 leaves and two pass.
 *
 * The evictor of a ring knows no rule, so the length of a slot stands beside the ring, as a code: 6
 * bits of exponent and 26 of mantissa. The number of a slot is known modulo 2^30; a cell whose
 * fresh_at has passed has expired, whatever it holds. */
#ifndef WR_TABLE_BRIEF_H
#define WR_TABLE_BRIEF_H

#include <stdbool.h>
#include <stdint.h>

#define WR_LOG_IN_CELL (1u << 31) /* of s1: the log is in the cell, s0 names no block */
#define WR_LOG_BRIEF                                                                               \
	(1u << 30) /* … counted by slots; otherwise all requests came at one instant, s0 */
#define WR_LOG_COUNT 0xffffu /* … and this is their number */

#define WR_BRIEF_SLOTS 4u
#define WR_BRIEF_NUMBER 0x3fffffffu
#define WR_BRIEF_SKEW_NS                                                                           \
	1000000000u /* a request behind by no more is late; behind by more, the clock stepped back \
		     */

struct wr_brief {
	uint64_t slot;                  /* number of the newest slot */
	uint32_t count[WR_BRIEF_SLOTS]; /* newest first */
};

/* The code of the slot of a period; never 0. */
static inline uint32_t wr_brief_code(uint64_t period_ns)
{
	uint64_t slot_ns = period_ns / 3 + 1;
	unsigned bits = 64 - (unsigned)__builtin_clzll(slot_ns);
	unsigned shift = bits > 25 ? bits - 25 : 0;

	return shift << 26 | (uint32_t)((slot_ns >> shift) + (shift != 0));
}

static inline uint64_t wr_brief_slot_ns(uint32_t code)
{
	uint64_t mantissa = code & 0x3ffffff;
	unsigned shift = code >> 26;

	return mantissa ? mantissa << (shift < 37 ? shift : 37) : 1;
}

static inline uint32_t wr_brief_used(const struct wr_brief *brief)
{
	return brief->count[0] + brief->count[1] + brief->count[2] + brief->count[3];
}

/* The time that a request counts as of, if the newest known request came at newest_ns. */
static inline uint64_t wr_brief_now_ns(uint64_t newest_ns, uint64_t now_ns)
{
	return newest_ns > now_ns && newest_ns - now_ns <= WR_BRIEF_SKEW_NS ? newest_ns : now_ns;
}

/* Makes `slot` the newest slot. If the log's newest slot is later, because the clock stepped back,
 * all its requests count as of `slot`. */
static inline void wr_brief_move(struct wr_brief *brief, uint64_t slot)
{
	uint32_t used = wr_brief_used(brief);
	uint64_t by = slot - brief->slot;

	if (slot < brief->slot) {
		*brief = (struct wr_brief){slot, {used < WR_LOG_COUNT ? used : WR_LOG_COUNT}};
		return;
	}
	for (unsigned i = WR_BRIEF_SLOTS; i-- > 0;)
		brief->count[i] = i >= by ? brief->count[i - by] : 0;
	brief->slot = slot;
}

/* Reads the two words of a cell. They hold the slot's number modulo 2^30; `near` completes it. */
static inline struct wr_brief wr_brief_of(uint64_t s0, uint32_t s1, uint64_t near_slot)
{
	uint32_t ahead = (s1 - (uint32_t)near_slot) & WR_BRIEF_NUMBER;
	struct wr_brief brief = {near_slot + ahead, {0}};

	if (ahead > WR_BRIEF_NUMBER / 2)
		brief.slot -= (uint64_t)WR_BRIEF_NUMBER + 1;
	for (unsigned i = 0; i < WR_BRIEF_SLOTS; i++)
		brief.count[i] = (uint32_t)(s0 >> 16 * i) & WR_LOG_COUNT;
	return brief;
}

static inline uint64_t wr_brief_s0(const struct wr_brief *brief)
{
	uint64_t s0 = 0;

	for (unsigned i = 0; i < WR_BRIEF_SLOTS; i++)
		s0 |= (uint64_t)brief->count[i] << 16 * i;
	return s0;
}

static inline uint32_t wr_brief_s1(const struct wr_brief *brief)
{
	return WR_LOG_IN_CELL | WR_LOG_BRIEF | ((uint32_t)brief->slot & WR_BRIEF_NUMBER);
}

#endif
