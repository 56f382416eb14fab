/* Leases in the course of time: renewed, returned, given up. */
#include "central/inner.h"

#include "store/lease.h"

#define IDLE_NS (2000 * WR_MS_NS) /* a counter without a lease is remembered so long */
#define SENT_AT_ONCE 1024u        /* calls of one tick */

/* Nobody knows what came of the last call. What it may have brought has ended by now. */
static void give_up(struct wr_central *central, struct wr_lease_hold *hold)
{
	central->counts.units_burnt += hold->returned;
	hold->unanswered = false;
	wr_lease_hold_end(central, hold);
}

static bool is_hopeless(const struct wr_central *central, const struct wr_lease_hold *hold)
{
	uint64_t last_ns = hold->sent_ns + hold->ttl_ns;

	return central->mono_ns >= (last_ns > hold->ends_ns ? last_ns : hold->ends_ns);
}

/* True: it was sent. */
static bool send(struct wr_central *central, struct wr_lease_hold *hold)
{
	if (wr_lease_send(central, hold))
		return true;
	if (central->holds->closed)
		wr_lease_hold_drop(central, hold); /* there is no later */
	else
		wr_lease_hold_check_in(central, hold, wr_lease_hold_step_ns(hold));
	return false;
}

/* Whether there is not enough until the next time, or until the end of the window. In the last
 * moments of that nothing is said: it would be known there as a lease that is over. */
static bool is_low(const struct wr_central *central, const struct wr_lease_hold *hold)
{
	uint64_t next_ns = hold->ttl_ns / WR_LEASE_HOLD_CHECKS + wr_lease_hold_step_ns(hold);
	uint64_t left_ns = hold->ends_ns - central->mono_ns;

	if (hold->starved || (hold->capped && left_ns < wr_lease_hold_step_ns(hold)))
		return false;
	if (hold->capped && left_ns < next_ns)
		next_ns = left_ns;
	return hold->held - hold->noted <
	       wr_lease_demand_units(hold->demand_m, next_ns, hold->ttl_ns);
}

/* Whether the next time would be too late. */
static bool is_near_its_end(const struct wr_central *central, const struct wr_lease_hold *hold)
{
	return !hold->capped &&
	       hold->ends_ns - central->mono_ns <=
		       hold->ttl_ns / WR_LEASE_HOLD_CHECKS + wr_lease_hold_step_ns(hold);
}

static bool care_for_lease(struct wr_central *central, struct wr_lease_hold *hold)
{
	bool near = is_near_its_end(central, hold);

	hold->returning = central->holds->closed || (near && hold->used_ns <= hold->sent_ns);
	if (hold->returning || hold->changed || is_low(central, hold) ||
	    (near && hold->held > hold->noted))
		return send(central, hold);
	wr_lease_hold_check_in(central, hold, hold->ttl_ns / WR_LEASE_HOLD_CHECKS);
	return false;
}

/* True: a call was sent. The hold may be gone. */
static bool care(struct wr_central *central, struct wr_lease_hold *hold)
{
	if (hold->call) {
		wr_lease_hold_check_in(central, hold, hold->ttl_ns);
		return false;
	}
	if (hold->unanswered && !is_hopeless(central, hold))
		return send(central, hold);
	if (hold->unanswered)
		give_up(central, hold);
	if (wr_lease_hold_has_ended(central, hold))
		wr_lease_hold_end(central, hold);
	wr_lease_hold_measure(central, hold);
	if (hold->after)
		return care_for_lease(central, hold);
	if (hold->returning || central->mono_ns - hold->used_ns >= IDLE_NS)
		wr_lease_hold_drop(central, hold);
	else
		wr_lease_hold_check_in(central, hold, IDLE_NS / WR_LEASE_HOLD_CHECKS);
	return false;
}

void wr_lease_holds_tick(struct wr_central *central)
{
	struct wr_lease_holds *holds = central->holds;
	uint32_t sent = 0;

	while (holds->count && holds->heap[0]->check_ns <= central->mono_ns) {
		if (sent == SENT_AT_ONCE) {
			wr_central_wake_at(central, central->mono_ns + WR_MS_NS);
			return;
		}
		sent += care(central, holds->heap[0]);
	}
	if (holds->count)
		wr_central_wake_at(central, holds->heap[0]->check_ns);
}

/* ---- the end ---- */

void wr_lease_holds_void(struct wr_central *central, const uint64_t key[2])
{
	struct wr_lease_holds *holds = central->holds;

	for (uint32_t i = 0; i < holds->count; i++) {
		struct wr_lease_hold *hold = holds->heap[i];

		if (hold->key[0] != key[0] || hold->key[1] != key[1] || !hold->after)
			continue;
		central->counts.leases_voided++;
		wr_lease_hold_end(central, hold);
	}
}

/* The table may be gone already: what was not seen to be spent counts as burnt. */
static void write_off(struct wr_central *central, const struct wr_lease_hold *hold)
{
	central->counts.units_spent += hold->noted;
	central->counts.units_burnt += hold->held - hold->noted + hold->lost;
	if (hold->unanswered)
		central->counts.units_burnt += hold->returned;
}

void wr_lease_holds_drop(struct wr_central *central)
{
	struct wr_lease_holds *holds = central->holds;

	while (holds->count) {
		struct wr_lease_hold *hold = holds->heap[holds->count - 1];

		if (hold->call)
			hold->call->hold = NULL;
		write_off(central, hold);
		wr_lease_hold_remove(holds, hold);
	}
	holds->leases = 0;
	holds->units = 0;
}

void wr_central_table(struct wr_central *central, struct weir_table *table, uint64_t owner)
{
	wr_lease_holds_drop(central);
	central->table = table;
	central->owner = owner;
}

/* Each is looked after at once: what it has goes back. */
uint32_t wr_central_drain(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_lease_holds *holds = central->holds;
	uint32_t exchanges;

	wr_central_enter(central, now_ns, mono_ns);
	if (!holds->closed)
		for (uint32_t i = 0; i < holds->count; i++) {
			holds->heap[i]->returning = true;
			holds->heap[i]->check_ns = central->mono_ns;
		}
	holds->closed = true;
	wr_lease_holds_tick(central);
	exchanges = wr_central_exchanges_finish(central);
	wr_central_exit(central);
	return holds->count + exchanges;
}
