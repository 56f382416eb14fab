/* The functions of exchange.h that decisions call: they find slots, make slots for keys, and count
 * units in them. */
#include "store/exchange_slot.h"

#include <string.h>

#include "base/assert.h"

/* If a thread has reserved a slot and has not filled it in for two seconds, other threads can take
 * the slot over, because the process of that thread has died. */
#define STEAL_UNITS 2048u

uint32_t wr_store_exchange_slots(const struct weir_table *table)
{
	return wr_store_exchange_section(table).count;
}

/* The slot of a key is one of WR_EXCHANGE_PROBES consecutive slots. Returns the number of the first
 * of them. */
static uint32_t first_slot_of(const struct wr_store_exchange_section *in, struct wr_key key)
{
	uint64_t starts = in->count - WR_EXCHANGE_PROBES + 1;

	return (uint32_t)(((key.tag ^ 0x65786368) * 0x9e3779b97f4a7c15u >> 32) * starts >> 32);
}

int wr_store_exchange_find(const struct weir_table *table, struct wr_key key)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	uint32_t first;

	if (in.count == 0 || key.tag == 0)
		return -1;
	first = first_slot_of(&in, key);
	for (uint32_t i = first; i < first + WR_EXCHANGE_PROBES; i++)
		if (wr_slot_load(&in.slots[i].who.lo) == key.tag) {
			struct wr_pair who = wr_pair_load(&in.slots[i].who);

			if (who.lo == key.tag && wr_slot_state(who) == WR_SLOT_LIVE)
				return (int)i;
		}
	return -1;
}

/* ---- making a slot ---- */

static bool is_free(struct wr_pair who, uint64_t mono_ns)
{
	if (wr_slot_state(who) == WR_SLOT_TENTATIVE)
		return (mono_ns >> 20) - (who.hi >> 2) >= STEAL_UNITS;
	return wr_slot_state(who) == WR_SLOT_FREE;
}

/* Returns the number of a slot with the tag of the key, in any state. If the key has no such slot,
 * returns the number of the first free slot. Returns a number below 0 if there is no free slot
 * either. */
static int choose_slot(const struct wr_store_exchange_section *in, struct wr_key key,
		       uint64_t mono_ns)
{
	uint32_t first = first_slot_of(in, key);
	int room = -1;

	for (uint32_t i = first; i < first + WR_EXCHANGE_PROBES; i++) {
		struct wr_pair who = wr_pair_load(&in->slots[i].who);

		if (who.lo == key.tag)
			return (int)i;
		if (room < 0 && is_free(who, mono_ns))
			room = (int)i;
	}
	return room;
}

/* If the owner has closed the key's slot but has not freed it yet, sets the slot's state to
 * WR_SLOT_LIVE again, so that requests find the slot. The counts of the slot stay. Returns false if
 * the slot is not in the state WR_SLOT_CLOSING, or does not belong to the key. */
static bool reopen_slot(struct wr_store_exchange_slot *slot, struct wr_key key)
{
	struct wr_pair who = wr_pair_load(&slot->who);
	struct wr_pair live = {who.lo, (who.hi & ~3ull) | WR_SLOT_LIVE};

	return who.lo == key.tag && wr_slot_state(who) == WR_SLOT_CLOSING &&
	       wr_pair_cas(&slot->who, &who, live);
}

/* Returns true if the key has a slot other than `here`. A thread that makes a slot for a key first
 * reserves the slot and then calls this function. So if two threads make a slot for the same key at
 * the same time, at least one of them sees the slot of the other thread, and gives up. */
static bool has_other_slot(const struct wr_store_exchange_section *in, struct wr_key key, int here)
{
	uint32_t first = first_slot_of(in, key);

	for (uint32_t i = first; i < first + WR_EXCHANGE_PROBES; i++)
		if ((int)i != here && wr_slot_load(&in->slots[i].who.lo) == key.tag)
			return true;
	return false;
}

/* Fills in a slot that this thread has reserved. The fields of type struct wr_pair are written
 * without a compare-and-swap, because no other thread reads a reserved slot. */
static void write_name(struct wr_store_exchange_slot *slot,
		       const struct wr_store_exchange_name *name, uint64_t mono_ns)
{
	uint32_t id_len = name->id_len < WR_EXCHANGE_ID ? name->id_len : WR_EXCHANGE_ID;

	for (int i = 0; i < 2; i++) {
		wr_slot_store(&slot->own[i].lo, 0);
		wr_slot_store(&slot->own[i].hi, 0);
		wr_slot_store(&slot->charged[i].lo, 0);
		wr_slot_store(&slot->charged[i].hi, 0);
		wr_slot_store(&slot->fleet_key[i], name->fleet_key[i]);
	}
	wr_slot_store(&slot->window.lo, name->window_start_ns);
	wr_slot_store(&slot->window.hi, name->window_end_ns);
	wr_slot_store(&slot->pending_mono_ns, 0);
	wr_slot_store(&slot->sent_mono_ns, 0);
	wr_slot_store(&slot->used_mono_ns, mono_ns);
	wr_slot_store(&slot->viewed_start_ns, 0);
	wr_slot_store(&slot->viewed_plus, 0);
	wr_slot_store(&slot->numbers, (uint64_t)name->burst << 32 | name->limit);
	wr_slot_store(&slot->span_ns, wr_store_exchange_span_ns(name));
	wr_slot_store(&slot->period_ns, name->period_ns);
	wr_slot_store32(&slot->peers_due, 0);
	wr_slot_store32(&slot->applied, 0);
	wr_slot_store32(&slot->algorithm, name->algorithm);
	wr_slot_store32(&slot->granted, name->granted);
	wr_slot_store32(&slot->id_len, id_len);
	memcpy(slot->id, name->id, id_len);
}

/* Returns a new incarnation number, which no slot of this table had before. A slot of another table
 * may have the same number. Their counts have different names in Redis nevertheless, because the
 * name also contains the table's id. */
static uint64_t new_incarnation(const struct wr_store_exchange_section *in, uint64_t mono_ns)
{
	uint64_t made = __atomic_add_fetch(&in->head->made, 1, __ATOMIC_RELAXED);
	uint64_t mixed = (made << 40 ^ mono_ns) * 0x9e3779b97f4a7c15u;

	return (mixed ^ mixed >> 31) | 4;
}

int wr_store_exchange_claim(struct weir_table *table, struct wr_key key,
			    const struct wr_store_exchange_name *name, uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_pair who, live, mine = {key.tag, mono_ns >> 20 << 2 | WR_SLOT_TENTATIVE};
	int number = wr_store_exchange_find(table, key);

	wr_assert(table && name);
	if (number >= 0 || in.count == 0 || key.tag == 0)
		return number;
	number = choose_slot(&in, key, mono_ns);
	if (number < 0)
		return -1;
	if (reopen_slot(&in.slots[number], key))
		return number;
	who = wr_pair_load(&in.slots[number].who);
	if (!is_free(who, mono_ns) || !wr_pair_cas(&in.slots[number].who, &who, mine))
		return -1;
	if (has_other_slot(&in, key, number)) {
		wr_pair_cas(&in.slots[number].who, &mine, (struct wr_pair){0});
		return -1;
	}
	write_name(&in.slots[number], name, mono_ns);
	live = (struct wr_pair){key.tag, (new_incarnation(&in, mono_ns) & ~3ull) | WR_SLOT_LIVE};
	return wr_pair_cas(&in.slots[number].who, &mine, live) ? number : -1;
}

/* ---- using a slot ---- */

uint64_t wr_store_exchange_interval(const struct weir_table *table)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	uint64_t sync_ns = in.count ? wr_slot_load(&in.head->sync_ns) : 0;

	return sync_ns ? sync_ns : WR_SYNC_DEFAULT_NS;
}

bool wr_store_exchange_fresh(const struct weir_table *table, int number, uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	const struct wr_store_exchange_slot *slot = wr_store_exchange_at(table, number);
	uint64_t bound_ns = WR_SYNC_STALE * wr_store_exchange_interval(table);
	uint64_t since_ns;

	if (!slot || mono_ns > wr_slot_load(&in.head->answered_mono_ns) + bound_ns)
		return false;
	since_ns = wr_slot_load(&slot->sent_mono_ns);
	if (since_ns == 0)
		since_ns = wr_slot_load(&slot->pending_mono_ns);
	return since_ns == 0 || mono_ns <= since_ns + bound_ns;
}

/* Returns the start of the window that contains now_ns or, for a token bucket, of the fill interval
 * that contains now_ns (exchange.h). */
static uint64_t window_start_of(const struct wr_store_exchange_slot *slot,
				const struct weir_limit *limit, uint64_t now_ns)
{
	uint64_t span_ns = wr_slot_load(&slot->span_ns);

	if (limit->window_end_ns)
		return limit->window_start_ns;
	return span_ns ? now_ns - now_ns % span_ns : 0;
}

uint32_t wr_store_exchange_charged(const struct weir_table *table, int number,
				   const struct weir_limit *limit, uint64_t now_ns)
{
	const struct wr_store_exchange_slot *slot = wr_store_exchange_at(table, number);
	uint64_t start_ns;

	if (!slot || limit->algorithm == WEIR_TOKEN_BUCKET)
		return 0;
	start_ns = window_start_of(slot, limit, now_ns);
	for (int i = 0; i < 2; i++) {
		struct wr_pair charged = wr_pair_load(&slot->charged[i]);

		if (charged.lo == start_ns)
			return charged.hi < UINT32_MAX ? (uint32_t)charged.hi : UINT32_MAX;
	}
	return 0;
}

/* Stores in the slot the values of the limit that may have changed: amount, burst, and the start
 * and end of a calendar window. The owner needs these values to add units of other nodes to the
 * counter. They change after a reload, or when a calendar window has ended. */
static void note_numbers(struct wr_store_exchange_slot *slot, const struct weir_limit *limit)
{
	uint64_t numbers = (uint64_t)limit->burst << 32 | limit->limit;
	struct wr_store_exchange_name name;
	struct wr_pair window;

	if (__builtin_expect(wr_slot_load(&slot->numbers) != numbers, 0)) {
		name = (struct wr_store_exchange_name){.algorithm = limit->algorithm,
						       .limit = limit->limit,
						       .burst = limit->burst,
						       .period_ns = limit->period_ns,
						       .window_end_ns = limit->window_end_ns};
		wr_slot_store(&slot->span_ns, wr_store_exchange_span_ns(&name));
		wr_slot_store(&slot->numbers, numbers);
	}
	if (limit->window_end_ns && wr_slot_load(&slot->window.lo) != limit->window_start_ns) {
		window = wr_pair_load(&slot->window);
		if (window.lo < limit->window_start_ns)
			wr_pair_cas(&slot->window, &window,
				    (struct wr_pair){limit->window_start_ns, limit->window_end_ns});
	}
}

static uint64_t add_counts(uint64_t counts, uint64_t plus, uint64_t minus)
{
	uint64_t sum_plus = (uint32_t)counts + plus, sum_minus = (counts >> 32) + minus;

	if (sum_plus > UINT32_MAX)
		sum_plus = UINT32_MAX;
	if (sum_minus > sum_plus)
		sum_minus = sum_plus;
	return sum_minus << 32 | sum_plus;
}

/* Adds `plus` and `minus` to the counts of the window that began at start_ns. If this window is not
 * stored, it replaces the older of the two stored windows. But if it is older than both of them,
 * nothing is stored. The stored `minus` never exceeds the stored `plus`. */
static void add_to_window(struct wr_store_exchange_slot *slot, uint64_t start_ns, uint64_t plus,
			  uint64_t minus)
{
	for (;;) {
		struct wr_pair own[2] = {wr_pair_load(&slot->own[0]), wr_pair_load(&slot->own[1])};
		int at = own[0].lo == start_ns   ? 0
			 : own[1].lo == start_ns ? 1
						 : own[1].lo < own[0].lo;
		struct wr_pair next = {start_ns, own[at].lo == start_ns ? own[at].hi : 0};

		if (own[at].lo > start_ns)
			return;
		next.hi = add_counts(next.hi, plus, minus);
		if (wr_pair_cas(&slot->own[at], &own[at], next))
			return;
	}
}

void wr_store_exchange_count(struct weir_table *table, int number, const struct weir_limit *limit,
			     int64_t cost, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_store_exchange_slot *slot = wr_store_exchange_at(table, number);
	uint64_t pending_ns, none = 0;

	wr_assert(limit);
	if (!slot || cost == 0)
		return;
	note_numbers(slot, limit);
	add_to_window(slot, window_start_of(slot, limit, now_ns), cost > 0 ? (uint64_t)cost : 0,
		      cost < 0 ? 0 - (uint64_t)cost : 0);
	/* pending_mono_ns is not 0 if the slot was used since the owner last read it. The owner
	 * clears pending_mono_ns before it reads the counts (visit_slot() in exchange_owner.c), and
	 * this function has written the counts before it reads pending_mono_ns. So if the value is
	 * not 0, the owner has not read the counts yet, and will see the new ones. If the value is
	 * at most two intervals old, there is nothing more to do. If it is older, the thread that
	 * set it may have died before it set the slot's bit for the owner (in.used), so the bit is
	 * set again. */
	pending_ns = __atomic_load_n(&slot->pending_mono_ns, __ATOMIC_SEQ_CST);
	if (pending_ns && mono_ns <= pending_ns + 2 * wr_store_exchange_interval(table))
		return;
	__atomic_compare_exchange_n(&slot->pending_mono_ns, &none, mono_ns ? mono_ns : 1, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	wr_slot_mark(in.used, (uint32_t)number);
}
