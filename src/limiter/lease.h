/* Units of leases, spent by an ask: what the keeper of leases deposited in the table is taken
 * without asking anybody. */
#ifndef WR_LIMITER_LEASE_H
#define WR_LIMITER_LEASE_H

#include "base/clock.h"
#include "limiter/ask.h"

/* Whether the limit may be leased at all. A soft one's overshoot and what counts rejected requests
 * have to be seen by the store each time; a leaky bucket hands out places, not units. */
static inline bool wr_lease_fits(const struct wr_limit *rule)
{
	return rule->consistency == WR_LEASE && rule->mode != WR_SOFT &&
	       !(rule->limit.flags & WEIR_COUNT_REJECTED) &&
	       rule->limit.algorithm != WEIR_LEAKY_BUCKET;
}

/* The clock of leases: the machine's, or the one a simulation put in the engine. */
static inline uint64_t wr_engine_mono_ns(const struct weir_engine *engine)
{
	return __builtin_expect(engine->mono != NULL, 0) ? engine->mono(engine->mono_context)
							 : wr_clock_boot_ns();
}

/* Once for a decision, if the host has not passed it. */
static inline void wr_ask_read_mono(struct weir_ask *ask)
{
	if (ask->mono_ns == 0)
		ask->mono_ns = wr_engine_mono_ns(ask->engine);
}

/* The usual case, an ask whose limits are all leased (ask->leased): spends for all of them and
 * books it. False: nothing was done, or what was spent is undone; go the long way. */
bool wr_ask_spend_quickly(struct weir_ask *ask);

/* Spends for each need that may be. Those have part WR_SPENT then; one that the store refused a
 * moment ago is decided, too. True: one that is enforced is. */
bool wr_ask_spend(struct weir_ask *ask);

/* The request is refused or its client left: units go back where they came from. */
void wr_ask_unspend(struct weir_ask *ask);

#endif
