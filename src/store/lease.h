/* Units a central store handed over ahead of time, spent by every process of the node.
 *
 *   keeper    claims a slot for a key, deposits what the store granted, reports what was spent,
 *             withdraws what it returns: one loop of one process, known by a random number
 *   spenders  take from the slot by one compare-and-swap, any process, any thread
 *
 * WR_SECTION_LEASES is a head, then slots of 128 bytes. A key is in one of WR_LEASE_PROBES slots
 * behind the place its tag names, or has none; then it is asked for as a strict one.
 *
 *   who    {tag, owner}                          tag 0: nobody's
 *   units  {units 32 · grant 32, end}            spent while the clock is before the end
 *
 * `grant` is a number of its own for each span in which what is spent may still come back: it
 * changes with every claim, report and void, so that a compare-and-swap or a give-back from before
 * that fails, wherever the key is by then. `identity` is that of the limit's numbers, bound to the
 * key: units granted under other numbers are not spent. It is written only while there are no
 * units, and read between the load of `units` and the swap, so what was read belongs to them.
 *
 * A process may be killed at any point. Its slots hold until their end has passed; then anybody may
 * claim them, and what was left is counted as burnt; a keeper that lives asks wr_lease_lapsed.
 * Units that are gone are always in one of: spent, withdrawn, burnt (struct wr_lease_burnt).
 *
 * All times are wr_mono_ns(), or the simulator's. Leases are never checkpointed and never imported
 * into another table. */
#ifndef WR_STORE_LEASE_H
#define WR_STORE_LEASE_H

#include "table/table.h"

#define WR_LEASE_PROBES 8u
#define WR_LEASE_HOLD_NS 1000000000ull    /* a claim without a deposit holds so long */
#define WR_LEASE_REFUSED_NS 1000000000ull /* a refusal is remembered no longer than this */

/* What the store said when it granted. */
struct wr_lease_terms {
	uint32_t units;
	uint32_t remaining; /* left in the store after this grant */
	uint32_t limit;     /* what remaining counts down from, an operator's grant included */
	uint32_t reserved;
	uint64_t ends_mono_ns;   /* of all units in the slot: counted from sending */
	uint64_t resets_mono_ns; /* when the counter is as good as new, as far as known */
	uint64_t identity;       /* wr_lease_identity of the numbers they were granted under */
};

/* … and when it refused. */
struct wr_lease_refusal {
	int64_t cost; /* and all that costs more */
	uint32_t remaining;
	uint32_t limit;
	uint64_t retry_mono_ns; /* UINT64_MAX: never */
	uint64_t resets_mono_ns;
	uint64_t until_mono_ns; /* remembered until then, within WR_LEASE_REFUSED_NS from now */
	uint64_t identity;
};

enum wr_lease_answer {
	WR_LEASE_NOTHING, /* no slot, no units, other numbers, or its time is up: ask the store */
	WR_LEASE_SPENT,
	WR_LEASE_REFUSED, /* by the store, a moment ago */
};

/* Units that nobody will spend, since the table was made. */
struct wr_lease_burnt {
	uint64_t expired; /* the end came first */
	uint64_t late;    /* given back after the report that had them as spent */
	uint64_t voided;  /* by the keeper: the store knew nothing of them */
};

/* Algorithm and period are part of the key. Keeper and spender have to agree on it: `limit`,
 * `burst` and `granted` as the question has them. Never 0. */
static inline uint64_t wr_lease_identity(uint32_t limit, uint32_t burst, uint32_t granted)
{
	uint64_t mixed = ((uint64_t)burst << 32 | limit) * 0x9e3779b97f4a7c15u;

	return ((mixed ^ mixed >> 29) + granted * 0xbf58476d1ce4e5b9u) | 1;
}

/* How many slots there are; 0: the table has no room for any. */
uint32_t wr_lease_slots(const struct weir_table *table);

struct wr_lease_burnt wr_lease_burnt(const struct weir_table *table);

/* ---- spenders ---- */

/* cost > 0. SPENT and REFUSED fill `decision`; SPENT says in *grant what unspending needs. A unit
 * counts as spent at mono_ns: whoever is held up after reading the clock has decided before it. */
enum wr_lease_answer wr_lease_spend(struct weir_table *table, struct wr_key key, uint64_t identity,
				    int64_t cost, uint64_t mono_ns, struct weir_decision *decision,
				    uint32_t *grant);

/* The request was refused elsewhere, or its client left. Units come back if they were not reported
 * and have not ended; else they are burnt, and counted. */
void wr_lease_unspend(struct weir_table *table, struct wr_key key, int64_t cost, uint32_t grant,
		      uint64_t mono_ns);

/* ---- the keeper: `owner` is random, not 0, and of one thread; `number` is the slot's ---- */

/* The key's slot, its own or a free one; it holds for WR_LEASE_HOLD_NS or as long as what is
 * deposited. Below 0: no room, or another living keeper has the key. */
int wr_lease_claim(struct weir_table *table, struct wr_key key, uint64_t owner, uint64_t mono_ns);

/* Adds units; all of the slot's end at ends_mono_ns from now on. Units that had ended, or were
 * granted under another identity, are burnt first: how many is in *burnt, which may be NULL. units
 * 0 only says a new end. False: the slot is not the owner's any more, or ends_mono_ns has passed:
 * nothing was deposited, and the units are the caller's to return or to count. */
bool wr_lease_deposit(struct weir_table *table, int number, uint64_t owner,
		      const struct wr_lease_terms *terms, uint64_t mono_ns, uint32_t *burnt);

/* What could still be spent; 0 when the slot is not the owner's or has ended. Just to know: it may
 * rise again when a spender gives back. */
uint32_t wr_lease_left(const struct weir_table *table, int number, uint64_t owner,
		       uint64_t mono_ns);

/* The same, to be told to the store: what is neither left nor in *burnt (its end came; may be NULL)
 * is spent, and does not come back. */
uint32_t wr_lease_report(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns,
			 uint32_t *burnt);

/* Takes up to `units` out, to be returned to the store. What has ended cannot be. Returns how many.
 */
uint32_t wr_lease_withdraw(struct weir_table *table, int number, uint64_t owner, uint32_t units,
			   uint64_t mono_ns);

/* Nothing in it may be spent any more: the store has forgotten the lease, or a key was reset.
 * Returns how many were burnt. The slot stays the owner's for WR_LEASE_HOLD_NS; a remembered
 * refusal goes too. */
uint32_t wr_lease_void(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns);

/* Units that the owner had left in the slot when another keeper took it over: that one has counted
 * them as expired. Told once; 0 if the slot is still the owner's, or was taken over again since. */
uint32_t wr_lease_lapsed(struct weir_table *table, int number, uint64_t owner);

/* So that every process refuses without asking, until min(the wait, a second). */
void wr_lease_refuse(struct weir_table *table, int number, uint64_t owner,
		     const struct wr_lease_refusal *refusal, uint64_t mono_ns);

/* Void, and anybody's again at once. */
uint32_t wr_lease_release(struct weir_table *table, int number, uint64_t owner, uint64_t mono_ns);

#endif
