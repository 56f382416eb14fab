/* The bytes of WR_SECTION_EXCHANGE, for exchange.c and exchange_owner.c. The section consists of
 *
 *   struct wr_store_exchange_head
 *   one bit per slot: the slot was used since the last turn
 *   one bit per slot: its counts have to be sent to a peer
 *   the slots
 *
 * Each decision that counts units writes `own` of the slot. The first decision since the owner's
 * last turn also writes `pending_mono_ns` and the first of the two bits. The first decision after a
 * reload or in a new calendar window also writes `numbers`, `span_ns` and `window`. `who` is
 * written by the thread that makes the slot or reopens it after it was closed, and by the owner,
 * which closes and frees the slot. After the slot was made, only the owner writes the other
 * fields. */
#ifndef WR_STORE_EXCHANGE_SLOT_H
#define WR_STORE_EXCHANGE_SLOT_H

#include "store/exchange.h"

/* The state of a slot, in the low bits of who.hi. The higher bits are the incarnation, or for a
 * TENTATIVE slot the time at which a thread reserved it, in units of 2^20 ns. */
enum {
	WR_SLOT_FREE,
	WR_SLOT_TENTATIVE, /* a thread has reserved the slot and is filling it in */
	WR_SLOT_LIVE,
	/* New requests do not find the slot. The owner frees it later, unless a thread that had
	 * found the slot before it was closed counts in it. */
	WR_SLOT_CLOSING,
};

struct wr_store_exchange_slot {
	_Alignas(64) struct wr_pair who; /* lo: tag of the key; hi: incarnation and state */
	struct wr_pair own[2]; /* lo: start of the window; hi: plus and minus, 32 bits each */
	/* Time of the first use since the owner last read the slot; 0: not used since then. */
	uint64_t pending_mono_ns;
	/* Time of the first use whose units were read by the owner, but not yet confirmed by a
	 * reply of Redis; 0: there is no such use. */
	uint64_t sent_mono_ns;

	/* For each of the two latest windows or fill intervals: lo is its start, hi is the number
	 * of units of other nodes in it that must not be added to the cell again. */
	struct wr_pair charged[2];
	struct wr_pair window; /* lo, hi: start and end of a calendar window; 0 for other limits */
	uint64_t numbers;      /* limit and burst, 32 bits each */
	uint64_t span_ns;      /* wr_store_exchange_span_ns() of the limit */

	/* Time when the owner last read the slot and found the bit "used" set. */
	uint64_t used_mono_ns;
	uint64_t viewed_start_ns;
	/* Number of units that this node had admitted in the window that starts at viewed_start_ns,
	 * when the owner last read the slot. */
	uint64_t viewed_plus;
	uint32_t peers_due;
	uint32_t applied; /* 1: a reply of Redis was applied to this slot */
	uint64_t period_ns;
	uint64_t fleet_key[2];
	uint32_t algorithm;
	uint32_t granted;
	uint32_t id_len;
	uint32_t pad;
	char id[WR_EXCHANGE_ID];
	uint64_t spare[3];
};

struct wr_store_exchange_head {
	/* lo: random number of the owner; hi: time at which its ownership ends (mono_ns). */
	_Alignas(64) struct wr_pair owner;
	uint64_t sync_ns;
	uint64_t answered_mono_ns;
	uint64_t made; /* number of incarnation numbers assigned so far */
	uint32_t swept;
	uint32_t pad;
	uint64_t spare[2];
};

_Static_assert(sizeof(struct wr_store_exchange_slot) == 384, "six cache lines");
_Static_assert(sizeof(struct wr_store_exchange_head) == 64, "one cache line");

/* Pointers to the parts of the section. */
struct wr_store_exchange_section {
	struct wr_store_exchange_head *head;
	/* Two arrays with one bit per slot. `used`: the slot was used since the last turn. `owing`:
	 * its counts have to be sent to a peer. */
	uint64_t *used, *owing;
	struct wr_store_exchange_slot *slots;
	uint32_t count;
};

/* Finds the parts of the section. The section has as many slots as fit, and two bits for each slot.
 * The bits fill whole cache lines. */
static inline struct wr_store_exchange_section
wr_store_exchange_section(const struct weir_table *table)
{
	uint64_t bytes = table->header.sections[WR_SECTION_EXCHANGE].bytes;
	uint8_t *base = wr_section(table, WR_SECTION_EXCHANGE);
	uint64_t rest = sizeof(struct wr_store_exchange_head) + 128;
	uint64_t count =
		bytes > rest ? (bytes - rest) * 4 / (4 * sizeof(struct wr_store_exchange_slot) + 1)
			     : 0;
	uint64_t bits = (count + 511) / 512 * 64;

	return (struct wr_store_exchange_section){
		.head = (struct wr_store_exchange_head *)base,
		.used = (uint64_t *)(base + sizeof(struct wr_store_exchange_head)),
		.owing = (uint64_t *)(base + sizeof(struct wr_store_exchange_head) + bits),
		.slots = (struct wr_store_exchange_slot *)(base +
							   sizeof(struct wr_store_exchange_head) +
							   2 * bits),
		.count = count < WR_EXCHANGE_PROBES ? 0 : (uint32_t)count,
	};
}

static inline struct wr_store_exchange_slot *wr_store_exchange_at(const struct weir_table *table,
								  int number)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);

	return number >= 0 && (uint32_t)number < in.count ? &in.slots[number] : NULL;
}

static inline unsigned wr_slot_state(struct wr_pair who)
{
	return who.hi & 3;
}

static inline uint64_t wr_slot_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void wr_slot_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void wr_slot_store32(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void wr_slot_mark(uint64_t *bits, uint32_t number)
{
	__atomic_fetch_or(&bits[number / 64], 1ull << number % 64, __ATOMIC_SEQ_CST);
}

#endif
