/* Leases: units that Redis granted in advance. Every process of the node may spend them.
 *
 *   owner     one loop of one process, identified by a random number. It claims a slot for a key,
 *             deposits the units that Redis granted, reports spent units to Redis, and withdraws
 *             units to return them
 *   spenders  threads of any process that take units from the slot by one compare-and-swap
 *
 * WR_SECTION_LEASES is a struct lease_head, followed by slots of 128 bytes. The slot of a key is
 * one of WR_LEASE_PROBES consecutive slots; the key's tag selects the first of them. If a key has
 * no slot, each request asks Redis, as for consistency `strict`.
 *
 *   who    lo: tag of the key, or 0 if the slot is free; hi: number of the owner
 *   units  lo: number of units, and `grant`; hi: `end`, the time until which they may be spent
 *
 * `grant` is a number that changes when the slot is claimed, when its units are reported to Redis,
 * and when its units are removed. A compare-and-swap or a give-back with an older number fails,
 * even if the key is in another slot by then. `identity` is wr_store_lease_identity() of the
 * limit's numbers, combined with the key, so that units that were granted under other numbers are
 * not spent. `identity` is written only while there are no units. It is read between the load of
 * `units` and the swap, so that it belongs to the units that were loaded.
 *
 * A process may be killed at any point. Its slots stay its own until the time `end` has passed.
 * Then any other owner may claim these slots. Units that remain in them are counted as burnt, which
 * means lost without being spent. If the former owner is still alive, wr_store_lease_lapsed()
 * returns the number of these units to it. Each unit is finally spent, withdrawn or burnt (struct
 * wr_store_lease_burnt).
 *
 * All times are wr_clock_boot_ns(), or times of the simulator. Leases are never checkpointed and
 * never imported into another table. */
#ifndef WR_STORE_LEASE_H
#define WR_STORE_LEASE_H

#include "table/table.h"

#define WR_LEASE_PROBES 8u
/* How long a slot without units is reserved for its owner. */
#define WR_LEASE_HOLD_NS 1000000000ull
#define WR_LEASE_REFUSED_NS 1000000000ull /* how long a refusal by Redis is remembered at most */

/* Units that Redis granted for a lease, with their limit and the time at which they expire. */
struct wr_store_lease_terms {
	uint32_t units;
	uint32_t remaining; /* number of units that remain in Redis after it granted these units */
	/* The value that `remaining` has for an unused key, including an operator's grant. */
	uint32_t limit;
	uint32_t reserved;
	/* The time at which all units of the slot expire. It is computed from the time when the
	 * question to Redis was sent. */
	uint64_t ends_mono_ns;
	uint64_t resets_mono_ns; /* time of the counter's full reset, from the reply of Redis */
	/* wr_store_lease_identity() of the limit under which the units were granted */
	uint64_t identity;
	/* Time of the grant by the clock of Redis, in µs. All units of the slot are counted in the
	 * window of this time. */
	uint64_t granted_us;
};

/* A refusal by Redis. */
struct wr_store_lease_refusal {
	int64_t cost; /* requests of this cost or more are refused */
	uint32_t remaining;
	uint32_t limit;
	uint64_t retry_mono_ns; /* time from which a retry may be admitted; UINT64_MAX: never */
	uint64_t resets_mono_ns;
	/* The refusal is remembered until this time, but for at most WR_LEASE_REFUSED_NS. */
	uint64_t until_mono_ns;
	uint64_t identity;
};

enum wr_store_lease_answer {
	/* The caller must ask Redis, because the key has no slot, its slot has too few units or
	 * units of another identity, or the lease has ended. */
	WR_LEASE_NOTHING,
	WR_LEASE_SPENT,
	/* Redis refused a request of the same or a lower cost less than a second ago. */
	WR_LEASE_REFUSED,
};

/* Numbers of burnt units since the table was made. Burnt units were lost without being spent. */
struct wr_store_lease_burnt {
	uint64_t expired; /* units whose lease ended */
	/* Units that were given back too late: a report had already counted them as spent. */
	uint64_t late;
	/* Units that the owner removed, because Redis had lost the lease, the key was reset, the
	 * slot was released, or the limit changed. */
	uint64_t voided;
};

/* Returns a hash of the numbers `limit`, `burst` and `granted` in the question to Redis. It
 * identifies the limit under which units were granted. Algorithm and period are part of the key, so
 * they are not hashed here. The owner and the spenders must use the same numbers. The result is
 * never 0. */
static inline uint64_t wr_store_lease_identity(uint32_t limit, uint32_t burst, uint32_t granted)
{
	uint64_t mixed = ((uint64_t)burst << 32 | limit) * 0x9e3779b97f4a7c15u;

	return ((mixed ^ mixed >> 29) + granted * 0xbf58476d1ce4e5b9u) | 1;
}

/* Returns the number of slots; 0 if the table has no room for any. */
uint32_t wr_store_lease_slots(const struct weir_table *table);

struct wr_store_lease_burnt wr_store_lease_burnt(const struct weir_table *table);

/* ---- functions for spenders ---- */

/* Spends `cost` units; `cost` must be above 0. If it returns WR_LEASE_SPENT or WR_LEASE_REFUSED,
 * *decision is filled in. If it returns WR_LEASE_SPENT, it also sets *grant, for
 * wr_store_lease_unspend(). Units are spent if their lease has not ended at mono_ns. If the thread
 * is stopped after it has read the clock, the lease may have ended by the time the units are taken.
 * */
enum wr_store_lease_answer wr_store_lease_spend(struct weir_table *table, struct wr_key key,
						uint64_t identity, int64_t cost, uint64_t mono_ns,
						struct weir_decision *decision, uint32_t *grant);

/* Spends `most` units, or all units of the slot if it has fewer. Called for units that a request
 * used beyond its reserved ones. Returns the number of units spent. If the slot had fewer units,
 * stores mono_ns for wr_store_lease_owed_since(). */
uint64_t wr_store_lease_spend_rest(struct weir_table *table, struct wr_key key, uint64_t identity,
				   uint64_t most, uint64_t mono_ns);

/* Returns when Redis last granted or prolonged the units of the key's slot, by the clock of Redis
 * in µs. Returns 0 if this is unknown. Redis counts the units in the window of this time. The
 * caller reads the time before it spends units with wr_store_lease_spend(). If units of the next
 * window are deposited between the two calls, the returned time is in the window before. */
uint64_t wr_store_lease_granted_us(const struct weir_table *table, struct wr_key key);

/* Gives back units that were spent, so that they can be spent again. Returns false, and changes
 * nothing, if a report to Redis has counted them as spent or their lease has ended. */
bool wr_store_lease_give_back(struct weir_table *table, struct wr_key key, int64_t cost,
			      uint32_t grant, uint64_t mono_ns);

/* Gives back units that were spent, as wr_store_lease_give_back() does. Called if another limit
 * refused the request. Units that cannot be given back are counted as burnt. */
void wr_store_lease_unspend(struct weir_table *table, struct wr_key key, int64_t cost,
			    uint32_t grant, uint64_t mono_ns);

/* ---- functions for the owner ----
 *
 * `owner` is a random number, not 0, that belongs to one thread. `number` is the number of a
 * slot. */

/* Claims a slot for the key: the key's own slot, or a free slot. The slot stays reserved for the
 * owner for WR_LEASE_HOLD_NS, or until the units that are deposited in it expire. Returns the
 * number of the slot. Returns a number below 0 if there is no room, or if another living owner has
 * a slot for the key. */
int wr_store_lease_claim(struct weir_table *table, struct wr_key key, uint64_t owner,
			 uint64_t mono_ns);

/* Adds units to the slot. From now on all units of the slot expire at ends_mono_ns. Units that have
 * already expired, or that were granted under another identity, are removed first, and *burnt is
 * set to their number (`burnt` may be NULL). If terms->units is 0, only the time of expiry changes.
 * Returns false if the slot does not belong to the owner any more, if ends_mono_ns has passed, or
 * if the slot would hold more than UINT32_MAX units. Then nothing was deposited, and the caller has
 * to return the units to Redis or to count them as burnt. */
bool wr_store_lease_deposit(struct weir_table *table, int number, uint64_t owner,
			    const struct wr_store_lease_terms *terms, uint64_t mono_ns,
			    uint32_t *burnt);

/* Returns whether, at mono_ns or later, requests have used more units than the slot had. Redis
 * charges the missing units as a debt. Units that the owner asked Redis for at mono_ns may have been
 * granted before Redis got the debt, so they must not be spent. */
bool wr_store_lease_owed_since(const struct weir_table *table, int number, uint64_t owner,
			       uint64_t mono_ns);

/* Returns the number of units that can still be spent; 0 if the slot does not belong to the owner,
 * or if the units have expired. The number may rise again when a spender gives units back. */
uint32_t wr_store_lease_left(const struct weir_table *table, int number, uint64_t owner,
			     uint64_t mono_ns);

/* Returns the number of unspent units, for a report to Redis. The report tells Redis that all other
 * units are spent, so units that were spent before this call can no longer be given back. Sets
 * *burnt to the number of units that have expired (`burnt` may be NULL). */
uint32_t wr_store_lease_report(struct weir_table *table, int number, uint64_t owner,
			       uint64_t mono_ns, uint32_t *burnt);

/* Takes up to `units` units out of the slot, so that the caller can return them to Redis. Units
 * that have expired cannot be returned. Returns the number of units taken. */
uint32_t wr_store_lease_withdraw(struct weir_table *table, int number, uint64_t owner,
				 uint32_t units, uint64_t mono_ns);

/* Removes all units, because Redis has lost the lease or the key was reset, and clears a remembered
 * refusal. The units are counted as burnt. The slot stays reserved for the owner for
 * WR_LEASE_HOLD_NS. Returns the number of units removed. */
uint32_t wr_store_lease_void(struct weir_table *table, int number, uint64_t owner,
			     uint64_t mono_ns);

/* Returns the number of unspent units that this owner lost when another owner took the slot over.
 * These units were counted as expired. The next call returns 0. Returns 0 if the slot still belongs
 * to this owner, or if a third owner has taken the slot over since. */
uint32_t wr_store_lease_lapsed(struct weir_table *table, int number, uint64_t owner);

/* Stores a refusal by Redis in the slot. Every process then refuses requests of refusal->cost or
 * more without asking Redis, until refusal->until_mono_ns, but for at most a second. */
void wr_store_lease_refuse(struct weir_table *table, int number, uint64_t owner,
			   const struct wr_store_lease_refusal *refusal, uint64_t mono_ns);

/* Removes all units, which are counted as burnt, and frees the slot at once. Returns the number of
 * units removed. */
uint32_t wr_store_lease_release(struct weir_table *table, int number, uint64_t owner,
				uint64_t mono_ns);

#endif
