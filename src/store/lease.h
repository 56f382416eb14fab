/* Leases: units that Redis granted in advance. Every process of the node may spend them.
 *
 *   owner     one loop of one process, identified by a random number. Claims a slot for a key,
 *             deposits granted units, reports spent units, withdraws units to return them
 *   spenders  take from the slot by one compare-and-swap, in any thread of any process
 *
 * WR_SECTION_LEASES is a head followed by slots of 128 bytes. The slot of a key is one of
 * WR_LEASE_PROBES slots from its first slot on. If a key has no slot, Redis is asked, as for
 * consistency `strict`.
 *
 *   who    {tag, owner}                          tag 0: free
 *   units  {units 32 · grant 32, end}            spent while the clock is before the end
 *
 * `grant` is a number that stands for a span of time in which spent units may still come back. The
 * number changes with every claim, report and void, so that an older compare-and-swap or give-back
 * fails, even if the key is in another slot by then. `identity` is wr_lease_identity() of the
 * limit's numbers, bound to the key, so that units granted under other numbers are not spent.
 * `identity` is written only while there are no units. It is read between the load of `units` and
 * the swap, so that it belongs to the units that were loaded.
 *
 * A process may be killed at any point. Its slots stay its own until their end has passed. Then any
 * other owner may claim them, and the units that are left are counted as burnt; a former owner that
 * is alive learns their number by wr_lease_lapsed(). Each unit is finally spent, withdrawn or burnt
 * (struct wr_lease_burnt).
 *
 * All times are wr_clock_boot_ns(), or times of the simulator. Leases are never checkpointed and
 * never imported into another table. */
#ifndef WR_STORE_LEASE_H
#define WR_STORE_LEASE_H

#include "table/table.h"

#define WR_LEASE_PROBES 8u
#define WR_LEASE_HOLD_NS 1000000000ull    /* a claim without a deposit lasts this long */
#define WR_LEASE_REFUSED_NS 1000000000ull /* a refusal is remembered for at most this long */

/* The terms of a grant by Redis. */
struct wr_lease_terms {
	uint32_t units;
	uint32_t remaining; /* units left in Redis after this grant */
	/* The total that `remaining` counts down from, including an operator's grant. */
	uint32_t limit;
	uint32_t reserved;
	/* End of all units in the slot, counted from the time when the question was sent. */
	uint64_t ends_mono_ns;
	uint64_t resets_mono_ns; /* when the counter is reset, as far as known */
	uint64_t identity; /* wr_lease_identity() of the limit that the units were granted under */
};

/* A refusal by Redis. */
struct wr_lease_refusal {
	int64_t cost; /* requests of this cost or more are refused */
	uint32_t remaining;
	uint32_t limit;
	uint64_t retry_mono_ns; /* time from which a retry may be admitted; UINT64_MAX: never */
	uint64_t resets_mono_ns;
	/* The refusal is remembered until then, but at most for WR_LEASE_REFUSED_NS from now. */
	uint64_t until_mono_ns;
	uint64_t identity;
};

enum wr_lease_answer {
	/* No slot, too few units, other numbers, or the lease has ended: the caller asks Redis. */
	WR_LEASE_NOTHING,
	WR_LEASE_SPENT,
	WR_LEASE_REFUSED, /* Redis refused a similar request a moment ago */
};

/* Numbers of units that were lost without being spent, since the table was made. */
struct wr_lease_burnt {
	uint64_t expired; /* their end passed */
	uint64_t late;    /* given back after a report had counted them as spent */
	uint64_t voided;  /* removed by the owner, because Redis did not know them */
};

/* Returns the identity of a limit's numbers: `limit`, `burst` and `granted` as in the question to
 * Redis. Algorithm and period are part of the key. The owner and the spenders must use the same
 * identity. It is never 0. */
static inline uint64_t wr_lease_identity(uint32_t limit, uint32_t burst, uint32_t granted)
{
	uint64_t mixed = ((uint64_t)burst << 32 | limit) * 0x9e3779b97f4a7c15u;

	return ((mixed ^ mixed >> 29) + granted * 0xbf58476d1ce4e5b9u) | 1;
}

/* Returns the number of slots; 0 if the table has no room for any. */
uint32_t wr_lease_slots(const struct weir_table *table);

struct wr_lease_burnt wr_lease_burnt(const struct weir_table *table);

/* ---- functions for spenders ---- */

/* Spends `cost` units; `cost` must be above 0. SPENT and REFUSED fill `decision`. SPENT also sets
 * *grant, which wr_lease_unspend() needs. Units count as spent at mono_ns, even if the spender is
 * held up after it has read the clock. */
enum wr_lease_answer wr_lease_spend(struct weir_table *table, struct wr_key key, uint64_t identity,
				    int64_t cost, uint64_t mono_ns, struct weir_decision *decision,
				    uint32_t *grant);

/* Gives back units that were spent. Called when the request was refused elsewhere, or its client
 * has gone. The units come back if they were not reported yet and have not ended; otherwise they
 * are counted as burnt. */
void wr_lease_unspend(struct weir_table *table, struct wr_key key, int64_t cost, uint32_t grant,
		      uint64_t mono_ns);

/* ---- functions for the owner ----
 *
 * `owner` is a random number, not 0, that belongs to one thread. `number` is the number of a
 * slot. */

/* Claims a slot for the key: the key's own slot, or a free one. The claim lasts WR_LEASE_HOLD_NS,
 * or as long as the units that are deposited. Returns the number of the slot. Returns a number
 * below 0 if there is no room, or if another living owner has the key. */
int wr_lease_claim(struct weir_table *table, struct wr_key key, uint64_t owner, uint64_t mono_ns);

/* Adds units. From now on all units of the slot end at ends_mono_ns. Units that have ended already,
 * or that were granted under another identity, are burnt first, and *burnt is set to their number
 * (burnt may be NULL). With 0 units only the end changes. Returns false if the slot does not belong
 * to the owner any more, if ends_mono_ns has passed, or if the slot would hold more than UINT32_MAX
 * units. Then nothing was deposited, and the caller returns or counts the units. */
bool wr_lease_deposit(struct weir_table *table, int number, uint64_t owner,
		      const struct wr_lease_terms *terms, uint64_t mono_ns, uint32_t *burnt);

/* Returns the number of units that can still be spent; 0 if the slot is not the owner's or has
 * ended. The number may rise again when a spender gives units back. */
uint32_t wr_lease_left(const struct weir_table *table, int number, uint64_t owner,
		       uint64_t mono_ns);

/* Returns the number of units that are left, for a report to Redis. *burnt is set to the number of
 * units that have ended (burnt may be NULL). All other units are spent and cannot come back. */
uint32_t wr_lease_report(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns,
			 uint32_t *burnt);

/* Takes up to `units` units out of the slot, so that the caller can return them to Redis. Units
 * that have ended cannot be returned. Returns the number of units taken. */
uint32_t wr_lease_withdraw(struct weir_table *table, int number, uint64_t owner, uint32_t units,
			   uint64_t mono_ns);

/* Burns all units, because Redis has forgotten the lease or the key was reset. Also clears a
 * remembered refusal. The slot stays the owner's for WR_LEASE_HOLD_NS. Returns the number of units
 * burnt. */
uint32_t wr_lease_void(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns);

/* Returns the number of units that the owner had left in the slot when another owner took the slot
 * over and counted them as expired. Each number is returned only once. Returns 0 if the slot is
 * still the owner's, or was taken over once more since. */
uint32_t wr_lease_lapsed(struct weir_table *table, int number, uint64_t owner);

/* Makes every process refuse without asking Redis, until the wait is over, but at most for a
 * second. */
void wr_lease_refuse(struct weir_table *table, int number, uint64_t owner,
		     const struct wr_lease_refusal *refusal, uint64_t mono_ns);

/* Burns all units and frees the slot at once. Returns the number of units burnt. */
uint32_t wr_lease_release(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns);

#endif
