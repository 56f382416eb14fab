/* Leases in the table: units from Redis that processes of this node spend. The limiter spends
 * units; central deposits, reports and withdraws them. */
#include "store/lease.h"

#include "base/assert.h"

/* Every spender reads the first cache line of a slot. A spender reads the second cache line only if
 * the slot has too few units. */
struct lease_slot {
	/* lo: number of units, and the number `grant` that lease.h explains, 32 bits each. hi: time
	 * at which the units expire. */
	_Alignas(64) struct wr_pair units;
	struct wr_pair who; /* lo: tag of the key; hi: number of the owner */
	/* wr_store_lease_identity() of the limit under which the units were granted, combined with
	 * the key by bind_identity(). */
	uint64_t identity;
	uint32_t remaining;
	uint32_t limit;
	uint64_t resets_mono_ns;
	/* wr_store_lease_terms.granted_us, combined with the key by bind_identity(). 0: unknown. It
	 * is written after the units were deposited, so that it is never newer than the units. */
	uint64_t granted_us;
	/* A refusal by Redis. lo: an identity, made like `identity` above. hi: two fields, the
	 * time in ms at which the refusal ends (40 bits) and the refused cost (24 bits). */
	struct wr_pair refused;
	uint32_t refused_remaining;
	uint32_t refused_limit;
	uint64_t retry_mono_ns;
	uint64_t refused_resets_mono_ns;
	/* When requests last used more units than the slot had; 0: never. */
	uint64_t owed_mono_ns;
	/* lo: number of the previous owner; hi: number of units that it had not spent. */
	struct wr_pair lapsed;
};

struct lease_head {
	_Alignas(64) uint32_t grants; /* the latest value of `grant` that a slot has got */
	uint32_t pad;
	struct wr_store_lease_burnt burnt;
	uint64_t spare[4];
};

_Static_assert(sizeof(struct lease_slot) == 128, "two cache lines");
_Static_assert(sizeof(struct lease_head) == 64, "one cache line");

#define REFUSED_COST_MAX 0xffffffu
#define NS_PER_MS 1000000u

static struct lease_head *head_of(const struct weir_table *table)
{
	return wr_section(table, WR_SECTION_LEASES);
}

uint32_t wr_store_lease_slots(const struct weir_table *table)
{
	uint64_t bytes = table->header.sections[WR_SECTION_LEASES].bytes;

	return bytes < sizeof(struct lease_head) + WR_LEASE_PROBES * sizeof(struct lease_slot)
		       ? 0
		       : (uint32_t)((bytes - sizeof(struct lease_head)) /
				    sizeof(struct lease_slot));
}

static struct lease_slot *slot_at(const struct weir_table *table, uint32_t number)
{
	return (struct lease_slot *)(head_of(table) + 1) + number;
}

/* The slot of a key is one of WR_LEASE_PROBES consecutive slots. Returns the number of the first of
 * them. */
static uint32_t first_slot_of(const struct weir_table *table, struct wr_key key)
{
	uint64_t starts = wr_store_lease_slots(table) - WR_LEASE_PROBES + 1;

	return (uint32_t)(((key.tag ^ 0x6c656173) * 0x9e3779b97f4a7c15u >> 32) * starts >> 32);
}

static uint64_t load64(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint32_t load32(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static uint32_t units_in(struct wr_pair units)
{
	return (uint32_t)units.lo;
}

static uint32_t grant_in(struct wr_pair units)
{
	return (uint32_t)(units.lo >> 32);
}

static struct wr_pair units_pair(uint32_t units, uint32_t grant, uint64_t end_ns)
{
	return (struct wr_pair){(uint64_t)grant << 32 | units, end_ns};
}

/* Combines an identity with a key. An owner that has lost its slot may still write an identity into
 * the slot. That identity contains the key for which this owner had claimed the slot, so it does
 * not match the key that the slot belongs to now. */
static uint64_t bind_identity(uint64_t identity, struct wr_key key)
{
	return identity ^ key.tag * 0x94d049bb133111ebu;
}

static struct lease_slot *find_slot(const struct weir_table *table, struct wr_key key)
{
	uint32_t first;

	if (wr_store_lease_slots(table) == 0 || key.tag == 0)
		return NULL;
	first = first_slot_of(table, key);
	for (uint32_t i = 0; i < WR_LEASE_PROBES; i++) {
		struct lease_slot *slot = slot_at(table, first + i);

		if (load64(&slot->who.lo) == key.tag)
			return slot;
	}
	return NULL;
}

static uint64_t left_until(uint64_t then_ns, uint64_t mono_ns)
{
	return then_ns > mono_ns ? then_ns - mono_ns : 0;
}

/* ---- functions for spenders ---- */

static void fill_spent(const struct lease_slot *slot, uint32_t units_left, uint64_t mono_ns,
		       struct weir_decision *decision)
{
	uint32_t limit = load32(&slot->limit);
	uint64_t remaining = (uint64_t)load32(&slot->remaining) + units_left;

	*decision = (struct weir_decision){
		.admitted = 1,
		.limit = limit,
		.remaining = (uint32_t)(remaining < limit ? remaining : limit),
		.reset_after_ns = left_until(load64(&slot->resets_mono_ns), mono_ns),
	};
}

static bool is_refused(const struct lease_slot *slot, uint64_t bound, int64_t cost,
		       uint64_t mono_ns, struct weir_decision *decision)
{
	struct wr_pair refused;
	uint64_t retry_ns;

	if (load64(&slot->refused.lo) != bound)
		return false;
	refused = wr_pair_load(&slot->refused);
	if (refused.lo != bound || refused.hi >> 24 <= mono_ns / NS_PER_MS ||
	    (uint64_t)cost < (refused.hi & REFUSED_COST_MAX))
		return false;
	retry_ns = load64(&slot->retry_mono_ns);
	*decision = (struct weir_decision){
		.limit = load32(&slot->refused_limit),
		.remaining = load32(&slot->refused_remaining),
		.retry_after_ns = retry_ns == UINT64_MAX ? WEIR_NEVER
				  : retry_ns > mono_ns   ? retry_ns - mono_ns
							 : 1,
		.reset_after_ns = left_until(load64(&slot->refused_resets_mono_ns), mono_ns),
	};
	return true;
}

enum wr_store_lease_answer wr_store_lease_spend(struct weir_table *table, struct wr_key key,
						uint64_t identity, int64_t cost, uint64_t mono_ns,
						struct weir_decision *decision, uint32_t *grant)
{
	struct lease_slot *slot = find_slot(table, key);
	uint64_t bound = bind_identity(identity, key);
	struct wr_pair seen;

	wr_assert(cost > 0);
	if (!slot)
		return WR_LEASE_NOTHING;
	seen = wr_pair_load(&slot->units);
	/* Acquire: this load is paired with the swaps of `units` in empty_slot() and
	 * wr_store_lease_deposit(). Identity and tag are written only while the slot has no units.
	 * So the identity and the tag that are read below belong to the units in `seen`, unless
	 * another thread has changed `units` since. In that case the swap below fails. */
	while (seen.hi > mono_ns && units_in(seen) >= (uint64_t)cost) {
		struct wr_pair next = {seen.lo - (uint64_t)cost, seen.hi};

		if (load64(&slot->identity) != bound || load64(&slot->who.lo) != key.tag)
			return WR_LEASE_NOTHING;
		if (wr_pair_cas(&slot->units, &seen, next)) {
			*grant = grant_in(next);
			fill_spent(slot, units_in(next), mono_ns, decision);
			return WR_LEASE_SPENT;
		}
	}
	return is_refused(slot, bound, cost, mono_ns, decision) ? WR_LEASE_REFUSED
								: WR_LEASE_NOTHING;
}

static uint64_t spend_up_to(struct lease_slot *slot, struct wr_key key, uint64_t bound,
			    uint64_t most, uint64_t mono_ns)
{
	struct wr_pair seen;

	/* As in wr_store_lease_spend(): identity and tag belong to the units in `seen`, or the swap
	 * fails. */
	seen = wr_pair_load(&slot->units);
	while (seen.hi > mono_ns && units_in(seen) > 0) {
		uint64_t units = units_in(seen) < most ? units_in(seen) : most;
		struct wr_pair next = {seen.lo - units, seen.hi};

		if (load64(&slot->identity) != bound || load64(&slot->who.lo) != key.tag)
			return 0;
		if (wr_pair_cas(&slot->units, &seen, next))
			return units;
	}
	return 0;
}

/* After the time of the debt is written, this function tries once more to take the missing units. So
 * if a deposit adds units at the same time, this function takes them, or the depositor reads the time
 * with wr_store_lease_owed_since(). */
uint64_t wr_store_lease_spend_rest(struct weir_table *table, struct wr_key key, uint64_t identity,
				   uint64_t most, uint64_t mono_ns)
{
	struct lease_slot *slot = find_slot(table, key);
	uint64_t bound = bind_identity(identity, key), spent;

	if (!slot)
		return 0;
	spent = spend_up_to(slot, key, bound, most, mono_ns);
	if (spent == most)
		return spent;
	__atomic_store_n(&slot->owed_mono_ns, mono_ns, __ATOMIC_SEQ_CST);
	return spent + spend_up_to(slot, key, bound, most - spent, mono_ns);
}

static void count_burnt(uint64_t *count, uint64_t units)
{
	if (units)
		__atomic_fetch_add(count, units, __ATOMIC_RELAXED);
}

/* Acquire: load64() is paired with the store of `granted_us` in wr_store_lease_deposit(). A deposit
 * writes the time after it has added its units. So the units that the caller spends next come from
 * the deposit that wrote the time, or from a later one. */
uint64_t wr_store_lease_granted_us(const struct weir_table *table, struct wr_key key)
{
	const struct lease_slot *slot = find_slot(table, key);
	uint64_t bound = slot ? load64(&slot->granted_us) : 0;

	return bound ? bind_identity(bound, key) : 0;
}

bool wr_store_lease_give_back(struct weir_table *table, struct wr_key key, int64_t cost,
			      uint32_t grant, uint64_t mono_ns)
{
	struct lease_slot *slot = find_slot(table, key);
	struct wr_pair seen = {0};

	wr_assert(cost > 0);
	if (slot)
		seen = wr_pair_load(&slot->units);
	while (slot && grant_in(seen) == grant && seen.hi > mono_ns &&
	       load64(&slot->who.lo) == key.tag && units_in(seen) + (uint64_t)cost <= UINT32_MAX) {
		struct wr_pair next = {seen.lo + (uint64_t)cost, seen.hi};

		if (wr_pair_cas(&slot->units, &seen, next))
			return true;
	}
	return false;
}

void wr_store_lease_unspend(struct weir_table *table, struct wr_key key, int64_t cost,
			    uint32_t grant, uint64_t mono_ns)
{
	if (!wr_store_lease_give_back(table, key, cost, grant, mono_ns))
		count_burnt(&head_of(table)->burnt.late, (uint64_t)cost);
}

/* ---- functions for the owner ---- */

struct wr_store_lease_burnt wr_store_lease_burnt(const struct weir_table *table)
{
	const struct wr_store_lease_burnt *burnt = &head_of(table)->burnt;

	return (struct wr_store_lease_burnt){
		.expired = load64(&burnt->expired),
		.late = load64(&burnt->late),
		.voided = load64(&burnt->voided),
	};
}

/* Returns a new value for `grant` of a slot (lease.h). The values wrap after 2^32. 0 is skipped,
 * because it stands for a slot that was never used. */
static uint32_t new_grant(const struct weir_table *table)
{
	uint32_t grant;

	do
		grant = __atomic_add_fetch(&head_of(table)->grants, 1, __ATOMIC_RELAXED);
	while (grant == 0);
	return grant;
}

/* Returns the slot if it belongs to the owner, otherwise NULL. Sets *key to the key of the slot,
 * unless `key` is NULL. The functions below load `units`, then check the owner once more with
 * is_own(), and then swap `units`. A thread that takes a slot over changes `who` before `units`. So
 * if the slot is taken over after the check, the swap fails, or it only changes units that the new
 * owner is about to clear. */
static struct lease_slot *owned_slot(const struct weir_table *table, int number, uint64_t owner,
				     struct wr_key *key)
{
	struct wr_pair who;
	struct lease_slot *slot;

	if (number < 0 || (uint32_t)number >= wr_store_lease_slots(table))
		return NULL;
	slot = slot_at(table, (uint32_t)number);
	who = wr_pair_load(&slot->who);
	if (key)
		key->tag = who.lo;
	return who.hi == owner ? slot : NULL;
}

static bool is_own(const struct lease_slot *slot, uint64_t owner)
{
	return load64(&slot->who.hi) == owner;
}

static void forget_refusal(struct lease_slot *slot)
{
	struct wr_pair seen = wr_pair_load(&slot->refused);

	while (seen.lo && !wr_pair_cas(&slot->refused, &seen, (struct wr_pair){0}))
		;
}

/* Removes all units from the owner's slot and gives the slot a new grant number. Units whose lease
 * had ended are counted as expired, other units as voided (struct wr_store_lease_burnt). Returns
 * the number of units removed. */
static uint32_t empty_slot(struct weir_table *table, struct lease_slot *slot, uint64_t owner,
			   uint64_t end_ns, uint64_t mono_ns)
{
	struct wr_store_lease_burnt *burnt = &head_of(table)->burnt;
	struct wr_pair seen = wr_pair_load(&slot->units);

	do
		if (!is_own(slot, owner))
			return 0;
	while (!wr_pair_cas(&slot->units, &seen, units_pair(0, new_grant(table), end_ns)));
	count_burnt(seen.hi > mono_ns ? &burnt->voided : &burnt->expired, units_in(seen));
	return units_in(seen);
}

/* Takes over a slot whose units have expired, or which is no longer reserved. Stores for
 * wr_store_lease_lapsed() the number of units that the previous owner had not spent. This
 * overwrites the number that was stored for an earlier owner. The new key is written after the slot
 * was emptied. Returns false if another thread was faster. */
static bool take_over(struct weir_table *table, struct lease_slot *slot, struct wr_key key,
		      uint64_t owner, uint64_t mono_ns)
{
	struct wr_pair who = wr_pair_load(&slot->who);
	struct wr_pair mine = {0, owner}, seen;
	uint32_t units;

	if (load64(&slot->units.hi) > mono_ns || !wr_pair_cas(&slot->who, &who, mine))
		return false;
	units = empty_slot(table, slot, owner, mono_ns + WR_LEASE_HOLD_NS, mono_ns);
	seen = wr_pair_load(&slot->lapsed);
	while (!wr_pair_cas(&slot->lapsed, &seen, (struct wr_pair){who.hi, units}))
		;
	forget_refusal(slot);
	__atomic_store_n(&slot->identity, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->granted_us, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->owed_mono_ns, 0, __ATOMIC_RELEASE);
	return wr_pair_cas(&slot->who, &mine, (struct wr_pair){key.tag, owner});
}

/* Returns true if the key has a slot other than `here`. */
static bool has_other_slot(const struct weir_table *table, struct wr_key key,
			   const struct lease_slot *here)
{
	uint32_t first = first_slot_of(table, key);

	for (uint32_t i = 0; i < WR_LEASE_PROBES; i++) {
		const struct lease_slot *slot = slot_at(table, first + i);

		if (slot != here && load64(&slot->who.lo) == key.tag)
			return true;
	}
	return false;
}

/* Returns the number of the key's own slot, or of the first free slot if the key has no slot.
 * Returns UINT32_MAX if there is no free slot either. */
static uint32_t choose_slot(const struct weir_table *table, struct wr_key key, uint64_t mono_ns)
{
	uint32_t first = first_slot_of(table, key), room = UINT32_MAX;

	for (uint32_t i = 0; i < WR_LEASE_PROBES; i++) {
		const struct lease_slot *slot = slot_at(table, first + i);

		if (load64(&slot->who.lo) == key.tag)
			return first + i;
		if (room == UINT32_MAX && load64(&slot->units.hi) <= mono_ns)
			room = first + i;
	}
	return room;
}

/* If the slot has no usable units, reserves the slot for its owner for WR_LEASE_HOLD_NS from now
 * on. */
static void extend_hold(struct weir_table *table, struct lease_slot *slot, uint64_t owner,
			uint64_t mono_ns)
{
	struct wr_pair seen = wr_pair_load(&slot->units);

	while ((units_in(seen) == 0 || seen.hi <= mono_ns) && is_own(slot, owner))
		if (wr_pair_cas(&slot->units, &seen,
				units_pair(0, new_grant(table), mono_ns + WR_LEASE_HOLD_NS))) {
			count_burnt(&head_of(table)->burnt.expired, units_in(seen));
			return;
		}
}

/* Two owners that claim a slot for the same key at the same time may get two slots. Therefore each
 * owner then looks for another slot of the key, and releases its own slot if it finds one. If both
 * owners release their slots, they try again with the next request. */
int wr_store_lease_claim(struct weir_table *table, struct wr_key key, uint64_t owner,
			 uint64_t mono_ns)
{
	struct wr_key named;
	struct lease_slot *slot;
	uint32_t number;

	wr_assert(owner != 0);
	if (wr_store_lease_slots(table) == 0 || key.tag == 0)
		return -1;
	number = choose_slot(table, key, mono_ns);
	if (number == UINT32_MAX)
		return -1;
	slot = slot_at(table, number);
	if (owned_slot(table, (int)number, owner, &named) && named.tag == key.tag) {
		extend_hold(table, slot, owner, mono_ns);
		return (int)number;
	}
	if (!take_over(table, slot, key, owner, mono_ns))
		return -1;
	if (has_other_slot(table, key, slot)) {
		wr_store_lease_release(table, (int)number, owner, mono_ns);
		return -1;
	}
	return (int)number;
}

/* Removes the units if their lease has ended, and counts them as expired. Returns the number of
 * units removed. */
static uint32_t burn_ended(struct weir_table *table, struct lease_slot *slot, uint64_t owner,
			   uint64_t mono_ns)
{
	struct wr_pair seen = wr_pair_load(&slot->units);

	while (units_in(seen) && seen.hi <= mono_ns && is_own(slot, owner))
		if (wr_pair_cas(&slot->units, &seen, units_pair(0, new_grant(table), seen.hi))) {
			count_burnt(&head_of(table)->burnt.expired, units_in(seen));
			return units_in(seen);
		}
	return 0;
}

/* Changes the identity of the slot. Units that were granted under another identity are removed
 * first. Returns the number of units removed. */
static uint32_t change_identity(struct weir_table *table, struct lease_slot *slot, uint64_t owner,
				uint64_t bound, uint64_t mono_ns)
{
	uint32_t burnt;

	if (load64(&slot->identity) == bound)
		return 0;
	burnt = empty_slot(table, slot, owner, mono_ns + WR_LEASE_HOLD_NS, mono_ns);
	__atomic_store_n(&slot->identity, bound, __ATOMIC_RELEASE);
	return burnt;
}

bool wr_store_lease_deposit(struct weir_table *table, int number, uint64_t owner,
			    const struct wr_store_lease_terms *terms, uint64_t mono_ns,
			    uint32_t *burnt)
{
	struct wr_key key;
	struct lease_slot *slot = owned_slot(table, number, owner, &key);
	struct wr_pair seen, next;
	uint32_t gone;

	wr_assert(owner != 0 && terms);
	if (!slot || terms->ends_mono_ns <= mono_ns)
		return false;
	gone = burn_ended(table, slot, owner, mono_ns);
	gone += change_identity(table, slot, owner, bind_identity(terms->identity, key), mono_ns);
	if (burnt)
		*burnt = gone;
	__atomic_store_n(&slot->remaining, terms->remaining, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->limit, terms->limit, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->resets_mono_ns, terms->resets_mono_ns, __ATOMIC_RELEASE);
	if (terms->units)
		forget_refusal(slot);
	seen = wr_pair_load(&slot->units);
	do {
		uint64_t sum = (uint64_t)units_in(seen) + terms->units;

		if (!is_own(slot, owner) || sum > UINT32_MAX)
			return false;
		next = units_pair((uint32_t)sum, grant_in(seen), terms->ends_mono_ns);
	} while (!wr_pair_cas(&slot->units, &seen, next));
	/* Release: paired with the load in wr_store_lease_granted_us(). */
	__atomic_store_n(&slot->granted_us, bind_identity(terms->granted_us, key),
			 __ATOMIC_RELEASE);
	return true;
}

bool wr_store_lease_owed_since(const struct weir_table *table, int number, uint64_t owner,
			       uint64_t mono_ns)
{
	const struct lease_slot *slot = owned_slot(table, number, owner, NULL);

	return slot && __atomic_load_n(&slot->owed_mono_ns, __ATOMIC_SEQ_CST) >= mono_ns;
}

uint32_t wr_store_lease_left(const struct weir_table *table, int number, uint64_t owner,
			     uint64_t mono_ns)
{
	const struct lease_slot *slot = owned_slot(table, number, owner, NULL);
	struct wr_pair seen = {0};

	if (slot)
		seen = wr_pair_load(&slot->units);
	return seen.hi > mono_ns ? units_in(seen) : 0;
}

uint32_t wr_store_lease_report(struct weir_table *table, int number, uint64_t owner,
			       uint64_t mono_ns, uint32_t *burnt)
{
	struct lease_slot *slot = owned_slot(table, number, owner, NULL);
	struct wr_pair seen;
	uint32_t gone;

	if (burnt)
		*burnt = 0;
	if (!slot)
		return 0;
	gone = burn_ended(table, slot, owner, mono_ns);
	if (burnt)
		*burnt = gone;
	seen = wr_pair_load(&slot->units);
	do
		if (!is_own(slot, owner))
			return 0;
	while (!wr_pair_cas(&slot->units, &seen,
			    units_pair(units_in(seen), new_grant(table), seen.hi)));
	return units_in(seen);
}

uint32_t wr_store_lease_withdraw(struct weir_table *table, int number, uint64_t owner,
				 uint32_t units, uint64_t mono_ns)
{
	struct lease_slot *slot = owned_slot(table, number, owner, NULL);
	struct wr_pair seen;
	uint32_t out;

	if (!slot)
		return 0;
	seen = wr_pair_load(&slot->units);
	do {
		out = units_in(seen) < units ? units_in(seen) : units;
		if (out == 0 || seen.hi <= mono_ns || !is_own(slot, owner))
			return 0;
	} while (!wr_pair_cas(&slot->units, &seen,
			      units_pair(units_in(seen) - out, grant_in(seen), seen.hi)));
	return out;
}

uint32_t wr_store_lease_void(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns)
{
	struct lease_slot *slot = owned_slot(table, number, owner, NULL);

	if (!slot)
		return 0;
	forget_refusal(slot);
	return empty_slot(table, slot, owner, mono_ns + WR_LEASE_HOLD_NS, mono_ns);
}

uint32_t wr_store_lease_lapsed(struct weir_table *table, int number, uint64_t owner)
{
	struct lease_slot *slot;
	struct wr_pair seen;

	if (number < 0 || (uint32_t)number >= wr_store_lease_slots(table))
		return 0;
	slot = slot_at(table, (uint32_t)number);
	if (is_own(slot, owner))
		return 0;
	seen = wr_pair_load(&slot->lapsed);
	while (seen.lo == owner)
		if (wr_pair_cas(&slot->lapsed, &seen, (struct wr_pair){0}))
			return (uint32_t)seen.hi;
	return 0;
}

void wr_store_lease_refuse(struct weir_table *table, int number, uint64_t owner,
			   const struct wr_store_lease_refusal *refusal, uint64_t mono_ns)
{
	struct wr_key key;
	struct lease_slot *slot = owned_slot(table, number, owner, &key);
	uint64_t until_ns = refusal->until_mono_ns;
	struct wr_pair seen, next;

	wr_assert(owner != 0 && refusal);
	if (!slot || refusal->cost < 0 || refusal->cost > (int64_t)REFUSED_COST_MAX)
		return;
	if (until_ns > mono_ns + WR_LEASE_REFUSED_NS)
		until_ns = mono_ns + WR_LEASE_REFUSED_NS;
	next = (struct wr_pair){
		bind_identity(refusal->identity, key),
		until_ns / NS_PER_MS << 24 | (uint64_t)refusal->cost,
	};
	__atomic_store_n(&slot->refused_limit, refusal->limit, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->refused_remaining, refusal->remaining, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->refused_resets_mono_ns, refusal->resets_mono_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->retry_mono_ns, refusal->retry_mono_ns, __ATOMIC_RELEASE);
	seen = wr_pair_load(&slot->refused);
	while (!wr_pair_cas(&slot->refused, &seen, next))
		;
}

/* First clears the time until which the slot is reserved, then the key. Between the two writes
 * another owner may take the slot over and write its own key. So the key is cleared only if the
 * slot still belongs to this owner. */
uint32_t wr_store_lease_release(struct weir_table *table, int number, uint64_t owner,
				uint64_t mono_ns)
{
	struct lease_slot *slot = owned_slot(table, number, owner, NULL);
	struct wr_pair who;
	uint32_t burnt;

	if (!slot)
		return 0;
	burnt = empty_slot(table, slot, owner, 0, mono_ns);
	who = wr_pair_load(&slot->who);
	if (who.hi == owner)
		wr_pair_cas(&slot->who, &who, (struct wr_pair){0});
	return burnt;
}
