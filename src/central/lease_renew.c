/* Checks leases periodically: renews leases, returns unused units, and drops idle holds. Called by
 * the timer, and at shutdown by wr_central_shut_down. */
#include "base/assert.h"
#include "central/inner.h"

#include "store/lease.h"

#define IDLE_NS (2000 * WR_MS_NS) /* an unused hold without a lease is dropped after this time */
#define SENT_AT_ONCE 1024u        /* maximum number of calls sent in one wr_central_tick */

static bool is_call_expired(const struct wr_central *central,
			    const struct wr_central_lease_hold *hold)
{
	uint64_t last_ns = hold->sent_ns + hold->ttl_ns;

	return central->mono_ns >= (last_ns > hold->ends_ns ? last_ns : hold->ends_ns);
}

/* Sends a call that reports and renews the lease, or returns it. Returns false if the call could
 * not be sent. */
static bool send_renewal(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	if (wr_central_lease_send(central, hold))
		return true;
	if (central->holds->closed)
		wr_central_lease_hold_drop(central,
					   hold); /* at shutdown, the call is not sent later */
	else
		wr_central_lease_hold_check_in(central, hold, wr_central_lease_hold_step_ns(hold));
	return false;
}

/* Returns whether the units will run out before the next check, or before the end of the window if
 * the window ends earlier. Returns false in the last moments of a window, because a call would
 * arrive after the lease has ended. */
static bool is_low(const struct wr_central *central, const struct wr_central_lease_hold *hold)
{
	uint64_t next_ns =
		hold->ttl_ns / WR_LEASE_HOLD_CHECKS + wr_central_lease_hold_step_ns(hold);
	uint64_t left_ns = hold->ends_ns - central->mono_ns;

	if (hold->starved || (hold->capped && left_ns < wr_central_lease_hold_step_ns(hold)))
		return false;
	if (hold->capped && left_ns < next_ns)
		next_ns = left_ns;
	return hold->held - hold->noted <
	       wr_central_lease_demand_units(hold->demand_m, next_ns, hold->ttl_ns);
}

static bool check_lease(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	/* True if the lease can be prolonged, and would otherwise end before the next check. */
	bool near = !hold->capped &&
		    hold->ends_ns - central->mono_ns <= hold->ttl_ns / WR_LEASE_HOLD_CHECKS +
								wr_central_lease_hold_step_ns(hold);

	hold->returning = central->holds->closed || (near && hold->used_ns <= hold->sent_ns);
	if (hold->returning || hold->changed || is_low(central, hold) ||
	    (near && hold->held > hold->noted))
		return send_renewal(central, hold);
	wr_central_lease_hold_check_in(central, hold, hold->ttl_ns / WR_LEASE_HOLD_CHECKS);
	return false;
}

/* Checks one hold: renews, returns or ends its lease, or drops a hold that is idle. Returns true if
 * a call was sent. May free the hold. */
static bool check_hold(struct wr_central *central, struct wr_central_lease_hold *hold)
{
	if (hold->call) {
		wr_central_lease_hold_check_in(central, hold, hold->ttl_ns);
		return false;
	}
	if (hold->unanswered && !is_call_expired(central, hold))
		return send_renewal(central, hold);
	/* An unanswered call is not repeated any more: if Redis granted units to it, these units
	 * have expired by now. */
	if (hold->unanswered) {
		central->counts.units_burnt += hold->returned;
		hold->unanswered = false;
		wr_central_lease_hold_end(central, hold);
	}
	if (wr_central_lease_hold_has_ended(central, hold))
		wr_central_lease_hold_end(central, hold);
	wr_central_lease_hold_measure(central, hold);
	if (hold->after)
		return check_lease(central, hold);
	if (hold->returning || central->mono_ns - hold->used_ns >= IDLE_NS)
		wr_central_lease_hold_drop(central, hold);
	else
		wr_central_lease_hold_check_in(central, hold, IDLE_NS / WR_LEASE_HOLD_CHECKS);
	return false;
}

void wr_central_lease_holds_tick(struct wr_central *central)
{
	struct wr_central_lease_holds *holds = central->holds;
	uint32_t sent = 0;

	while (holds->heap.count &&
	       wr_central_lease_hold_at(holds, 0)->check_ns <= central->mono_ns) {
		if (sent == SENT_AT_ONCE) {
			wr_central_wake_at(central, central->mono_ns + WR_MS_NS);
			return;
		}
		sent += check_hold(central, wr_central_lease_hold_at(holds, 0));
	}
	if (holds->heap.count)
		wr_central_wake_at(central, wr_central_lease_hold_at(holds, 0)->check_ns);
}

/* ---- reset and shutdown ---- */

void wr_central_lease_holds_void(struct wr_central *central, const uint64_t key[2])
{
	struct wr_central_lease_holds *holds = central->holds;

	for (size_t i = 0; i < holds->heap.count; i++) {
		struct wr_central_lease_hold *hold = wr_central_lease_hold_at(holds, i);

		if (!wr_central_same_key(hold->key, key) || !hold->after)
			continue;
		central->counts.leases_voided++;
		wr_central_lease_hold_end(central, hold);
	}
}

void wr_central_lease_holds_drop(struct wr_central *central)
{
	struct wr_central_lease_holds *holds = central->holds;

	while (holds->heap.count) {
		struct wr_central_lease_hold *hold =
			wr_central_lease_hold_at(holds, holds->heap.count - 1);

		if (hold->call)
			hold->call->hold = NULL;
		/* The table may already be unmapped, so its slots cannot be read. Units that were
		 * not known to be spent count as expired. */
		central->counts.units_spent += hold->noted;
		central->counts.units_burnt += hold->held - hold->noted + hold->lost;
		if (hold->unanswered)
			central->counts.units_burnt += hold->returned;
		wr_central_lease_hold_remove(holds, hold);
	}
	holds->leases = 0;
	holds->units = 0;
}

void wr_central_set_table(struct wr_central *central, struct weir_table *table, uint64_t owner)
{
	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	wr_central_lease_holds_drop(central);
	central->table = table;
	central->owner = owner;
}

/* Sets `returning` in all holds and makes their checks due at once. The check of such a hold
 * returns its units to Redis. */
uint32_t wr_central_shut_down(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_central_lease_holds *holds = central->holds;
	uint32_t exchanges;

	wr_central_enter(central, now_ns, mono_ns);
	if (!holds->closed)
		for (size_t i = 0; i < holds->heap.count; i++) {
			struct wr_central_lease_hold *hold = wr_central_lease_hold_at(holds, i);

			hold->returning = true;
			/* The heap stays in order, because all holds get the same check_ns. */
			hold->check_ns = central->mono_ns;
		}
	holds->closed = true;
	wr_central_lease_holds_tick(central);
	exchanges = wr_central_exchanges_finish(central);
	wr_central_exit(central);
	return (uint32_t)holds->heap.count + exchanges;
}
