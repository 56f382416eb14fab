/* Begins, renews, reports, returns and ends a lease. Called by lease_call.c and lease_renew.c. */
#include "base/assert.h"
#include "central/inner.h"

#include "store/lease.h"

/* lease_renew.c checks each lease several times. The time of a check is rounded up to a multiple of
 * ttl / 16, so that one wr_central_tick checks many leases. */
#define STEP 16u
#define STEP_MIN_NS (2 * WR_MS_NS)
/* A loop borrows 5/4 of the units that it expects to be used (demand + demand / SPARE), because
 * requests come in bursts. */
#define SPARE 4u

uint64_t wr_central_lease_hold_step_ns(const struct wr_central_lease_hold *hold)
{
	uint64_t ns = hold->ttl_ns / STEP;

	wr_assert_magic(hold, WR_LEASE_HOLD_MAGIC);
	return ns > STEP_MIN_NS ? ns : STEP_MIN_NS;
}

void wr_central_lease_hold_check_in(struct wr_central *central, struct wr_central_lease_hold *hold,
				    uint64_t ns)
{
	uint64_t step = wr_central_lease_hold_step_ns(hold);
	uint64_t at = (central->mono_ns + ns + step - 1) / step * step;

	wr_central_lease_hold_check_at(central->holds, hold, at);
	wr_central_wake_at(central, at);
}

/* When a lease has expired, another key of this loop can get its table slot. If both keys had the
 * same owner id, ending the old lease could destroy the units of the other key. So the id is
 * different for every key. */
uint64_t wr_central_lease_slot_owner(const struct wr_central *central, uint64_t tag)
{
	uint64_t owner = central->owner ^ tag * 0x9e3779b97f4a7c15u;

	return owner ? owner : 1;
}

/* ---- the units of a lease ---- */

static void set_units(struct wr_central *central, struct wr_central_lease_hold *hold, uint32_t held,
		      uint32_t noted)
{
	central->holds->units -= hold->held - hold->noted;
	hold->held = held;
	hold->noted = noted < held ? noted : held;
	central->holds->units += hold->held - hold->noted;
}

static void set_after(struct wr_central *central, struct wr_central_lease_hold *hold,
		      uint64_t after)
{
	central->holds->leases += !hold->after && after;
	central->holds->leases -= hold->after && !after;
	hold->after = after;
}

/* Counts the units of the lease as spent or as expired (burnt). Two kinds of units are expired:
 * units that are still in the lease's table slot, and units that were in this slot when another key
 * got it. All other units were spent. */
void wr_central_lease_hold_end(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	uint64_t owner = wr_central_lease_slot_owner(central, hold->tag);
	uint32_t burnt = wr_store_lease_void(central->table, hold->slot, owner, central->mono_ns);

	wr_assert(hold->magic == WR_LEASE_HOLD_MAGIC);
	burnt += wr_store_lease_lapsed(central->table, hold->slot, owner);
	burnt = burnt < hold->held ? burnt : hold->held;
	if (hold->held - burnt > hold->noted)
		hold->asked += hold->held - burnt - hold->noted;
	central->counts.units_spent += hold->held - burnt;
	central->counts.units_burnt += burnt + hold->lost;
	hold->lost = 0;
	set_units(central, hold, 0, 0);
	set_after(central, hold, 0);
}

bool wr_central_lease_hold_has_ended(const struct wr_central *central,
				     const struct wr_central_lease_hold *hold)
{
	wr_assert_magic(hold, WR_LEASE_HOLD_MAGIC);
	return hold->after && central->mono_ns >= hold->ends_ns;
}

void wr_central_lease_hold_drop(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	wr_assert_magic(hold, WR_LEASE_HOLD_MAGIC);
	wr_assert(central->table);
	if (hold->after)
		wr_central_lease_hold_end(central, hold);
	wr_store_lease_release(central->table, hold->slot,
			       wr_central_lease_slot_owner(central, hold->tag), central->mono_ns);
	wr_central_lease_hold_remove(central->holds, hold);
}

/* Updates hold->demand_m, the units used per ttl, with the units used since the last call of this
 * function. These are the units of the lease that processes have spent, and the units that takes of
 * this loop have asked Redis for. */
void wr_central_lease_hold_measure(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	uint64_t elapsed_ns = central->mono_ns - hold->measured_ns;
	uint64_t units = hold->asked;
	uint32_t left, used;

	wr_assert_magic(hold, WR_LEASE_HOLD_MAGIC);
	wr_assert(central->table);
	if (hold->after) {
		left = wr_store_lease_left(central->table, hold->slot,
					   wr_central_lease_slot_owner(central, hold->tag),
					   central->mono_ns);
		used = left < hold->held ? hold->held - left : 0;
		units += used > hold->noted ? used - hold->noted : 0;
		set_units(central, hold, hold->held, used);
	}
	hold->demand_m =
		wr_central_lease_demand_add(hold->demand_m, units, elapsed_ns, hold->ttl_ns);
	hold->measured_ns = central->mono_ns;
	hold->asked = 0;
	if (units)
		hold->used_ns = central->mono_ns;
}

/* ---- beginning a lease ---- */

static void note_limit(struct wr_central_lease_hold *hold, const struct wr_central_part *part)
{
	uint64_t identity =
		wr_store_lease_identity(part->take.limit, part->take.burst, part->take.granted);

	hold->changed |= hold->identity && hold->identity != identity;
	hold->identity = identity;
	hold->take = part->take;
	hold->take.cost = 0;
	hold->take.times = 0;
	hold->take.decided_us = 0;
	hold->take.mode = WR_MODE_TAKE;
	hold->ttl_ns = wr_redis_lease_ttl_us(&part->take) * 1000;
}

/* If Redis was asked about the counter twice within a ttl, makes a hold (struct
 * wr_central_lease_hold) for the counter. Returns NULL if Redis was asked only once, if there is no
 * table slot, or if there is no memory. */
static struct wr_central_lease_hold *begin_hold(struct wr_central *central,
						const struct wr_central_part *part)
{
	struct wr_central_lease_holds *holds = central->holds;
	uint64_t ttl_ns = wr_redis_lease_ttl_us(&part->take) * 1000;
	struct wr_central_lease_hold *hold;
	int slot;

	if (!wr_central_lease_hold_was_seen(holds, part->key, part->identity, central->mono_ns,
					    ttl_ns))
		return NULL;
	slot = wr_store_lease_claim(central->table, (struct wr_key){part->tag},
				    wr_central_lease_slot_owner(central, part->tag),
				    central->mono_ns);
	if (slot < 0)
		return NULL;
	hold = wr_central_lease_hold_add(holds, part->key, part->id, part->id_len);
	if (!hold) {
		wr_store_lease_release(central->table, slot,
				       wr_central_lease_slot_owner(central, part->tag),
				       central->mono_ns);
		return NULL;
	}
	hold->slot = slot;
	hold->tag = part->tag;
	/* A hold begins with the second question about its counter. The cost of the first question
	 * is not known, so it is assumed to be the cost of the second. `asked` starts with the cost
	 * of the first question, and the caller adds the cost of the second. */
	hold->asked = (uint64_t)part->take.cost;
	hold->measured_ns = hold->used_ns = central->mono_ns;
	note_limit(hold, part);
	wr_central_lease_hold_check_in(central, hold, hold->ttl_ns);
	return hold;
}

/* Returns true if the part must be sent without a request for units: Redis had no units to lend,
 * and less than wr_central_lease_hold_step_ns() has passed since the last request. */
static bool is_turned_away(const struct wr_central *central,
			   const struct wr_central_lease_hold *hold)
{
	return hold->starved && !hold->after &&
	       central->mono_ns - hold->sent_ns < wr_central_lease_hold_step_ns(hold);
}

/* Returns whether the lease is about to end with its window. A call that is sent now might arrive
 * in the next window, in which Redis does not know the lease. */
static bool is_ending(const struct wr_central *central, const struct wr_central_lease_hold *hold)
{
	return hold->after && hold->capped && hold->ends_ns > central->mono_ns &&
	       hold->ends_ns - central->mono_ns < wr_central_lease_hold_step_ns(hold) / 8;
}

struct wr_central_lease_hold *wr_central_lease_hold_for(struct wr_central *central,
							const struct wr_central_part *part)
{
	struct wr_central_lease_hold *hold;

	wr_assert(part->id_len <= WR_QUESTION_ID);
	if (!central->table || central->holds->closed || part->take.cost <= 0 ||
	    wr_redis_lease_ttl_us(&part->take) < WR_LEASE_HOLD_TTL_MIN_US)
		return NULL;
	hold = wr_central_lease_hold_find(central->holds, part->key, part->id, part->id_len);
	if (hold && hold->tag != part->tag && !hold->call && !hold->unanswered) {
		/* The counter has another tag, because the processes use another table now. So the
		 * hold is replaced by a new one. */
		wr_central_lease_hold_drop(central, hold);
		hold = NULL;
	}
	if (!hold)
		hold = begin_hold(central, part);
	if (!hold)
		return NULL;
	hold->asked += (uint64_t)part->take.cost;
	hold->returning = false;
	note_limit(hold, part);
	/* While a lease call for this hold is unanswered, the take is sent in a call of its own. It
	 * cannot join the unanswered call: if that call is repeated, Redis only repeats its first
	 * answer, in which the new take is missing. */
	return hold->call || hold->unanswered || is_turned_away(central, hold) ||
			       is_ending(central, hold)
		       ? NULL
		       : hold;
}

/* ---- writing a call ---- */

/* Returns the number of units that the lease should have: the demand until the lease ends, plus a
 * quarter. Returns 0 if this is too little for a lease, or if all units must be returned. */
static uint32_t target_of(struct wr_central *central, const struct wr_central_lease_hold *hold)
{
	const struct wr_central_shard *shard = wr_central_key_shard(central, hold->key);
	uint64_t redis_us = central->now_ns / 1000 + (shard ? (uint64_t)shard->clock_us : 0);
	uint64_t lasts_ns = wr_central_lease_window_left_ns(&hold->take, redis_us);
	uint32_t units = wr_central_lease_demand_units(hold->demand_m + hold->demand_m / SPARE,
						       lasts_ns, hold->ttl_ns);

	return units < WR_LEASE_CHUNK_MIN || hold->returning ? 0 : units;
}

/* If the lease's table slot has more than 5/4 of `target` units, withdraws the units above
 * `target`. If the limit has changed, withdraws all units. Returns the number of withdrawn
 * units. */
static uint32_t withdraw_excess(struct wr_central *central,
				const struct wr_central_lease_hold *hold, uint32_t target)
{
	uint32_t keep = hold->changed ? 0 : target;
	uint32_t left = wr_store_lease_left(central->table, hold->slot,
					    wr_central_lease_slot_owner(central, hold->tag),
					    central->mono_ns);

	if (left <= keep + keep / 4)
		return 0;
	return wr_store_lease_withdraw(central->table, hold->slot,
				       wr_central_lease_slot_owner(central, hold->tag), left - keep,
				       central->mono_ns);
}

/* Sets hold->spent and hold->returned. Units that this function withdraws from the lease's table
 * slot are returned. Other units that are no longer in this slot were spent. */
static void settle_units(struct wr_central *central, struct wr_central_lease_hold *hold,
			 uint32_t target)
{
	uint32_t back = withdraw_excess(central, hold, target);
	uint32_t rest = hold->held > back ? hold->held - back : 0;
	uint32_t left = wr_store_lease_report(central->table, hold->slot,
					      wr_central_lease_slot_owner(central, hold->tag),
					      central->mono_ns, NULL);

	left = left < rest ? left : rest;
	hold->spent = rest - left;
	hold->returned = back + hold->lost;
	hold->lost = 0;
	central->counts.units_spent += hold->spent;
	set_units(central, hold, left, 0);
}

bool wr_central_lease_hold_prepare(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	uint32_t target;

	wr_assert(hold->magic == WR_LEASE_HOLD_MAGIC);
	if (hold->unanswered) { /* the last call got no answer: its content is sent again */
		hold->sent_ns = central->mono_ns;
		return true;
	}
	if (wr_central_lease_hold_has_ended(central, hold))
		wr_central_lease_hold_end(central, hold);
	if (!hold->after)
		hold->slot = wr_store_lease_claim(central->table, (struct wr_key){hold->tag},
						  wr_central_lease_slot_owner(central, hold->tag),
						  central->mono_ns);
	if (hold->slot < 0) {
		wr_central_lease_hold_remove(central->holds, hold);
		return false;
	}
	wr_central_lease_hold_measure(central, hold);
	target = target_of(central, hold);
	hold->spent = hold->returned = 0;
	if (hold->after)
		settle_units(central, hold, target);
	hold->wanted = target > hold->held ? target - hold->held : 0;
	if (!hold->after && hold->wanted < WR_LEASE_CHUNK_MIN) {
		hold->call = NULL;
		return false;
	}
	hold->changed = false;
	hold->unanswered = true;
	hold->sent_identity = hold->identity;
	hold->seq = ++central->holds->seq;
	hold->sent_ns = central->mono_ns;
	return true;
}

/* ---- reading a reply ---- */

/* Withdraws the units that Redis granted to a call, if requests have used more units than the lease
 * had since the call was sent. The next call returns them to Redis. Redis may have granted them before
 * it got the debt, and they must not admit requests while the counter has a debt. */
static void withdraw_before_debt(struct wr_central *central, struct wr_central_lease_hold *hold,
				 uint32_t granted)
{
	uint64_t owner = wr_central_lease_slot_owner(central, hold->tag);
	uint32_t back;

	if (!granted ||
	    !wr_store_lease_owed_since(central->table, hold->slot, owner, hold->sent_ns))
		return;
	back = wr_store_lease_withdraw(central->table, hold->slot, owner, granted,
				       central->mono_ns);
	hold->lost += back;
	set_units(central, hold, hold->held - back, hold->noted);
}

/* Stores the granted units in the lease's table slot and prolongs the lease. */
static void deposit_grant(struct wr_central *central, struct wr_central_lease_hold *hold,
			  const struct wr_leased *leased)
{
	const struct wr_taken *taken = &leased->taken;
	struct wr_store_lease_terms terms = {
		.units = leased->granted,
		.remaining = taken->remaining < taken->limit ? taken->remaining : taken->limit,
		.limit = taken->limit,
		.ends_mono_ns = hold->sent_ns + leased->ttl_us * 1000,
		.resets_mono_ns = central->mono_ns + taken->reset_after_us * 1000,
		.identity = hold->sent_identity,
		.granted_us = taken->now_us,
	};
	uint32_t burnt = 0;

	central->counts.units_granted += leased->granted;
	central->counts.renewals += hold->after != 0;
	central->counts.leases_granted += !hold->after && leased->granted > 0;
	if (!wr_store_lease_deposit(central->table, hold->slot,
				    wr_central_lease_slot_owner(central, hold->tag), &terms,
				    central->mono_ns, &burnt)) {
		/* The units cannot be stored, because the lease has already ended or another key
		 * owns the table slot. So they are burnt. */
		central->counts.units_burnt += leased->granted;
		wr_central_lease_hold_end(central, hold);
		return;
	}
	burnt = burnt < hold->held ? burnt : hold->held;
	hold->lost += burnt;
	set_units(central, hold, hold->held - burnt + leased->granted, hold->noted);
	withdraw_before_debt(central, hold, leased->granted);
	set_after(central, hold, hold->seq);
	hold->ends_ns = terms.ends_mono_ns;
	hold->capped = leased->ttl_us * 1000 < hold->ttl_ns &&
		       wr_central_lease_window_left_ns(&hold->take, taken->now_us) != UINT64_MAX;
}

void wr_central_lease_hold_on_reply(struct wr_central *central, struct wr_central_lease_hold *hold,
				    const struct wr_leased *leased)
{
	wr_assert(hold->magic == WR_LEASE_HOLD_MAGIC);
	hold->call = NULL;
	hold->unanswered = false;
	hold->starved = hold->wanted && !leased->granted;
	if (leased->known)
		central->counts.units_returned += hold->returned;
	else
		central->counts.units_burnt += hold->returned;
	if (!leased->known && hold->after) {
		central->counts.leases_voided++;
		wr_central_lease_hold_end(central, hold);
	}
	if (leased->ttl_us)
		deposit_grant(central, hold, leased);
	else if (hold->after)
		wr_central_lease_hold_end(central, hold);
	if (hold->returning && !hold->after)
		wr_central_lease_hold_drop(central, hold);
	else
		wr_central_lease_hold_check_in(
			central, hold, hold->returning ? 0 : hold->ttl_ns / WR_LEASE_HOLD_CHECKS);
}

void wr_central_lease_hold_on_failure(struct wr_central *central,
				      struct wr_central_lease_hold *hold)
{
	wr_assert(hold->magic == WR_LEASE_HOLD_MAGIC);
	hold->call = NULL;
	wr_central_lease_hold_check_in(central, hold,
				       hold->unanswered ? wr_central_lease_hold_step_ns(hold)
							: hold->ttl_ns / WR_LEASE_HOLD_CHECKS);
}
