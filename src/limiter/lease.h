/* Spending units of leases: the service deposits leased units in the table, and an ask takes them
 * without a question to the central store. */
#ifndef WR_LIMITER_LEASE_H
#define WR_LIMITER_LEASE_H

#include "base/clock.h"
#include "limiter/ask.h"

/* Returns whether the limit can be leased. A limit with soft mode or `count_rejected` cannot be
 * leased, because the central store must see each request. A leaky bucket cannot be leased, because
 * it has positions in a queue instead of units. */
static inline bool wr_limiter_lease_fits(const struct wr_rules_limit *rule)
{
	return rule->consistency == WR_LEASE && rule->mode != WR_SOFT &&
	       !(rule->limit.flags & WEIR_COUNT_REJECTED) &&
	       rule->limit.algorithm != WEIR_LEAKY_BUCKET;
}

/* Returns whether units that the request used beyond its reserved ones are taken from the lease
 * first. Also true for requests that the central store decided: its answer may have added units to
 * the lease, and these units must not admit further requests while the key has a debt. */
static inline bool wr_ask_need_owes_lease(const struct wr_ask_need *need)
{
	return need->decided_by == WR_NEED_LEASED ||
	       (need->decided_by == WR_NEED_CENTRAL && need->rule &&
		wr_limiter_lease_fits(need->rule));
}

/* Returns the current time on the clock that leases use: CLOCK_BOOTTIME, or the clock that a
 * simulation set in the engine. */
static inline uint64_t wr_engine_mono_ns(const struct weir_engine *engine)
{
	return __builtin_expect(engine->mono != NULL, 0) ? engine->mono(engine->mono_context)
							 : wr_clock_boot_ns();
}

/* Sets ask->mono_ns to the current time on the clock that leases use. Does nothing if ask->mono_ns
 * was already set, by this decision or by the host. */
static inline void wr_ask_read_mono(struct weir_ask *ask)
{
	if (ask->mono_ns == 0)
		ask->mono_ns = wr_engine_mono_ns(ask->engine);
}

/* Spends leased units for all needs, and adds them to this node's own counters. Called in the
 * common case that ask->leased is true. Returns false if there are not enough units for a need;
 * units that were already spent are then given back. */
bool wr_ask_spend_quickly(struct weir_ask *ask);

/* Handles each need that can be leased in one of three ways. If there are enough leased units,
 * spends them and sets decided_by of the need to WR_NEED_LEASED. If the table contains a recent
 * refusal of the key by the central store, refuses the need. Otherwise leaves the need to the
 * central store. Returns whether an enforced need is refused. */
bool wr_ask_spend(struct weir_ask *ask);

/* Gives back the spent units. Called if the request is refused, or if it was cancelled. */
void wr_ask_unspend(struct weir_ask *ask);

/* Gives back `units` of the units that the need has spent. If the central store has counted them as
 * spent, or their lease has ended, they are given back with a message, into the window in which the
 * central store has granted them. */
void wr_ask_need_lease_return(struct weir_ask *ask, struct wr_ask_need *need, int64_t units,
			      uint64_t mono_ns);

#endif
