/* A brief log: a log without a ring, whose requests are counted by thirds of the period in the
 * key's cell:
 *
 *   s0             number of requests of each of the four latest slots, 16 bits each; the newest
 *                  slot has the lowest bits
 *   s1 bit 31      WR_LOG_IN_CELL
 *   s1 bit 30      WR_LOG_BRIEF
 *   s1 bits 0..29  number of the newest slot
 *
 * A slot is a third of the period, rounded up. A request counts from its own slot to the end of the
 * third slot after it: for at least one period and at most four thirds of a period. So a brief log
 * never admits a request that a ring would refuse. It can refuse a request that a ring would admit,
 * but only if more requests than the limit, including the new one, came within the last four thirds
 * of a period.
 *
 * Example: 6 per minute, slots of 20 s. Two requests come at 2:00:05 and four at 2:00:50 (slots 0
 * and 2). A request at 2:01:10 (slot 3) is refused, because all six count, although a ring would
 * not count the first two any more. At 2:01:20 (slot 4) slot 0 does not count any more, and two
 * requests pass.
 *
 * A thread that takes a ring away does not know the limit, so the length of a slot is stored beside
 * the ring, as a code of 6 bits of exponent and 26 bits of mantissa. A cell holds only the low 30
 * bits of a slot's number. If the cell's fresh_at has passed, the requests of the brief log do not
 * count any more. */
#ifndef WR_TABLE_BRIEF_H
#define WR_TABLE_BRIEF_H

#include <stdbool.h>
#include <stdint.h>

/* Bit of s1: the log is in the cell. If the bit is 0, s0 is the name of a block. */
#define WR_LOG_IN_CELL (1u << 31)
/* Bit of s1: the log is brief; if the bit is 0, all requests came at the time s0. */
#define WR_LOG_BRIEF (1u << 30)
/* Bit of s1: the block that s0 names contains the slots of a limit on concurrent requests
 * (store/slots.c), not a ring. */
#define WR_LOG_SLOTS (1u << 29)
/* If the log is in the cell and not brief, these bits of s1 are the number of its requests. */
#define WR_LOG_COUNT 0xffffu

#define WR_BRIEF_SLOTS 4u
#define WR_BRIEF_NUMBER 0x3fffffffu
/* If a request's time is earlier than that of the newest request by more than this, the clock
 * stepped back. */
#define WR_BRIEF_SKEW_NS 1000000000u

struct wr_brief {
	uint64_t slot;                  /* number of the newest slot */
	uint32_t count[WR_BRIEF_SLOTS]; /* number of requests in each slot, the newest slot first */
};

/* Returns the length of a slot (a third of this period), as the code that is stored beside a ring.
 * The code is never 0. */
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

/* Returns the time at which a request is counted if the newest counted request came at newest_ns.
 * That is newest_ns if now_ns is before newest_ns by at most WR_BRIEF_SKEW_NS, otherwise now_ns. */
static inline uint64_t wr_brief_now_ns(uint64_t newest_ns, uint64_t now_ns)
{
	return newest_ns > now_ns && newest_ns - now_ns <= WR_BRIEF_SKEW_NS ? newest_ns : now_ns;
}

/* Makes `slot` the newest slot. If the log's newest slot is later than `slot`, because the clock
 * stepped back, all requests of the log are counted in `slot`. */
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

/* Reads a brief log from the two words of a cell. The cell contains only the low 30 bits of the
 * newest slot's number. The result has the number with these low bits that is nearest to
 * near_slot. */
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
