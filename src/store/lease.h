/* Units that Redis granted ahead of time, spent by every process of the node.
 *
 *   owner     one loop of one process, identified by a random number. Claims a slot for a key,
 *             deposits granted units, reports spent units, withdraws units to return them
 *   spenders  take from the slot by one compare-and-swap, in any thread of any process
 *
 * WR_SECTION_LEASES is a head followed by slots of 128 bytes. A key is in one of WR_LEASE_PROBES
 * slots from its first slot on, or has none; then Redis is asked, as for consistency `strict`.
 *
 *   who    {tag, owner}                          tag 0: free
 *   units  {units 32 · grant 32, end}            spent while the clock is before the end
 *
 * `grant` is a number for each span in which spent units may still come back. It changes with every
 * claim, report and void, so that an older compare-and-swap or give-back fails, wherever the key is
 * by then. `identity` is that of the limit's numbers, bound to the key: units granted under other
 * numbers are not spent. It is written only while there are no units, and read between the load of
 * `units` and the swap, so that it belongs to those units.
 *
 * A process may be killed at any point. Its slots hold until their end has passed. Then any other
 * owner may claim them, and the units left are counted as burnt; the former owner, if it lives,
 * calls wr_lease_lapsed(). Each unit ends as one of: spent, withdrawn, burnt (struct
 * wr_lease_burnt).
 *
 * All times are wr_mono_ns(), or the simulator's. Leases are never checkpointed and never imported
 * into another table. */
#ifndef WR_STORE_LEASE_H
#define WR_STORE_LEASE_H

#include "table/table.h"

#define WR_LEASE_PROBES 8u
#define WR_LEASE_HOLD_NS 1000000000ull    /* a claim without a deposit holds so long */
#define WR_LEASE_REFUSED_NS 1000000000ull /* a refusal is remembered no longer than this */

/* The terms of a grant by Redis. */
struct wr_lease_terms {
	uint32_t units;
	uint32_t remaining; /* left in Redis after this grant */
	uint32_t
		limit; /* the total that remaining counts down from, an operator's grant included */
	uint32_t reserved;
	uint64_t ends_mono_ns; /* end of all units in the slot, counted from the time of sending */
	uint64_t resets_mono_ns; /* when the counter is reset, as far as known */
	uint64_t identity;       /* wr_lease_identity() of the numbers they were granted under */
};

/* A refusal by Redis. */
struct wr_lease_refusal {
	int64_t cost; /* requests of this cost or more are refused */
	uint32_t remaining;
	uint32_t limit;
	uint64_t retry_mono_ns; /* UINT64_MAX: never */
	uint64_t resets_mono_ns;
	uint64_t until_mono_ns; /* remembered until then, within WR_LEASE_REFUSED_NS from now */
	uint64_t identity;
};

enum wr_lease_answer {
	WR_LEASE_NOTHING, /* no slot, no units, other numbers, or the lease has ended: ask Redis */
	WR_LEASE_SPENT,
	WR_LEASE_REFUSED, /* by Redis, a moment ago */
};

/* Units that were never spent, since the table was made. */
struct wr_lease_burnt {
	uint64_t expired; /* they ended first */
	uint64_t late;    /* given back after the report that counted them as spent */
	uint64_t voided;  /* by the owner: Redis did not know them */
};

/* The identity of a limit's numbers: `limit`, `burst` and `granted` as in the question. Algorithm
 * and period are part of the key. Owner and spender have to agree on it. Never 0. */
static inline uint64_t wr_lease_identity(uint32_t limit, uint32_t burst, uint32_t granted)
{
	uint64_t mixed = ((uint64_t)burst << 32 | limit) * 0x9e3779b97f4a7c15u;

	return ((mixed ^ mixed >> 29) + granted * 0xbf58476d1ce4e5b9u) | 1;
}

/* The number of slots; 0: the table has no room for any. */
uint32_t wr_lease_slots(const struct weir_table *table);

struct wr_lease_burnt wr_lease_burnt(const struct weir_table *table);

/* ---- spenders ---- */

/* Spends `cost` > 0 units. SPENT and REFUSED fill `decision`; SPENT sets *grant, which
 * wr_lease_unspend needs. A unit counts as spent at mono_ns: a spender that is held up after it has
 * read the clock has decided at that time. */
enum wr_lease_answer wr_lease_spend(struct weir_table *table, struct wr_key key, uint64_t identity,
				    int64_t cost, uint64_t mono_ns, struct weir_decision *decision,
				    uint32_t *grant);

/* Called when the request was refused elsewhere, or its client has gone. The units come back if
 * they were not reported and have not ended; otherwise they are burnt and counted. */
void wr_lease_unspend(struct weir_table *table, struct wr_key key, int64_t cost, uint32_t grant,
		      uint64_t mono_ns);

/* ---- the owner: `owner` is random, not 0, and of one thread; `number` is the slot's ---- */

/* Claims a slot for the key, its own or a free one. The claim holds for WR_LEASE_HOLD_NS, or as
 * long as deposited units. Returns the slot's number. Below 0: there is no room, or another living
 * owner has the key. */
int wr_lease_claim(struct weir_table *table, struct wr_key key, uint64_t owner, uint64_t mono_ns);

/* Adds units. All units of the slot end at ends_mono_ns from now on. Units that had ended, or were
 * granted under another identity, are burnt first; their number is in *burnt, which may be NULL.
 * With units 0 only the end changes. Returns false if the slot is not the owner's any more, or
 * ends_mono_ns has passed. Nothing was deposited then, and the caller returns or counts the units.
 */
bool wr_lease_deposit(struct weir_table *table, int number, uint64_t owner,
		      const struct wr_lease_terms *terms, uint64_t mono_ns, uint32_t *burnt);

/* The units that can still be spent; 0 if the slot is not the owner's or has ended. A snapshot: it
 * may rise again when a spender gives units back. */
uint32_t wr_lease_left(const struct weir_table *table, int number, uint64_t owner,
		       uint64_t mono_ns);

/* The same for a report to Redis: units that are neither left nor in *burnt (ended; may be NULL)
 * are spent, and do not come back. */
uint32_t wr_lease_report(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns,
			 uint32_t *burnt);

/* Takes up to `units` out, to return them to Redis. Units that have ended cannot be returned.
 * Returns how many were taken. */
uint32_t wr_lease_withdraw(struct weir_table *table, int number, uint64_t owner, uint32_t units,
			   uint64_t mono_ns);

/* Burns all units: Redis has forgotten the lease, or the key was reset. Returns how many were
 * burnt. The slot stays the owner's for WR_LEASE_HOLD_NS; a remembered refusal is cleared too. */
uint32_t wr_lease_void(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns);

/* Units that the owner had left in the slot when another owner took it over and counted them as
 * expired. Reported once; 0 if the slot is still the owner's, or was taken over again since. */
uint32_t wr_lease_lapsed(struct weir_table *table, int number, uint64_t owner);

/* Makes every process refuse without asking Redis, until min(the wait, a second). */
void wr_lease_refuse(struct weir_table *table, int number, uint64_t owner,
		     const struct wr_lease_refusal *refusal, uint64_t mono_ns);

/* Burns all units and frees the slot at once. */
uint32_t wr_lease_release(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns);

#endif
