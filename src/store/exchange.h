/* Counters whose use the nodes exchange in intervals, for limits with consistency `eventual`.
 *
 * The counter is the key's cell in the table, and decisions use it as for a local rule. A slot in
 * WR_SECTION_EXCHANGE also holds the units that this node admitted, in numbers that only grow. The
 * owner of the slots publishes these numbers, and charges the units of other nodes to the cell.
 *
 *   decisions  take from the cell and then call wr_exchange_count(), which swaps a count and, the
 *              first time since the owner's last turn, sets a bit for the owner
 *   owner      one loop of one process (wr_exchange_own): visits the slots whose bit is set,
 *              publishes their counts, and applies the sum of all other nodes
 *
 *   fixed window, sliding counter   a slot holds this node's counts (plus, minus) of each of the
 *                                   two latest windows
 *   token bucket                    a slot holds these counts of the two latest spans; a span is
 *                                   the time in which the bucket fills up (wr_exchange_span_ns), so
 *                                   units taken in earlier spans have flowed in again
 *
 * The units of other nodes are charged in full: a window may count beyond its limit, and a bucket
 * may go below empty; later tokens fill the deficit first. A banned key is charged as well. When a
 * slot is new, a bucket accepts the totals of other nodes in both spans without a charge, and is
 * charged only what is added later; a window is charged all units that other nodes took in it. If a
 * sum has become smaller because Redis lost it, nothing is charged until the sum has grown again or
 * its span ends. The charge is written before it is recorded: if the owner is killed in between,
 * the difference of one turn is charged twice, but never lost.
 *
 * If the use of a node has not been exchanged for three intervals, or if its slots have no owner,
 * the node is on its own: wr_exchange_fresh() returns false, and the limiter enforces the node's
 * share of the limit.
 *
 * Starts of windows and now_ns are times of the wall clock. Times called mono_ns are
 * wr_clock_boot_ns(). */
#ifndef WR_STORE_EXCHANGE_H
#define WR_STORE_EXCHANGE_H

#include "store/store.h"

#define WR_EXCHANGE_ID 128u
#define WR_EXCHANGE_PROBES 8u
#define WR_EXCHANGE_PEERS 8u
#define WR_SYNC_DEFAULT_NS 100000000ull /* the interval until an owner has set another one */
#define WR_SYNC_STALE 3u /* intervals without exchange until the node is on its own */

/* The name that a counter has on all nodes, and the numbers that the owner needs to charge units
 * to the counter. */
struct wr_exchange_name {
	uint64_t fleet_key[2];
	uint32_t algorithm;
	uint32_t limit;
	uint32_t burst;
	uint32_t granted;
	uint64_t period_ns; /* for windows of a calendar, the period of the rule */
	/* Only for a calendar: start of the window seen last; 0 otherwise. */
	uint64_t window_start_ns;
	uint64_t window_end_ns;
	uint32_t id_len;
	char id[WR_EXCHANGE_ID];
};

/* Counts of one window or span. plus: units admitted; minus: units given back. Both numbers only
 * grow. */
struct wr_exchange_count {
	uint64_t start_ns; /* start of the window or span; 0: none */
	uint64_t plus;
	uint64_t minus;
};

/* A slot as its owner publishes it. counts[0] is the later window or span, counts[1] the one before
 * it. A start_ns of 0 means that nothing was counted yet. */
struct wr_exchange_view {
	struct wr_exchange_name name;
	/* Part of the name under which this node publishes: the counts of a new slot start from 0
	 * again. */
	uint64_t incarnation;
	struct wr_exchange_count counts[2];
	uint64_t admitted;  /* units since the previous visit, of which an overshoot consists */
	uint32_t peers_due; /* a bit for each peer that has not received the counts */
	bool used;          /* used since the previous visit; if false, the slot owes a peer */
};

/* Sums over all other nodes, in the order of wr_exchange_view.counts. */
struct wr_exchange_totals {
	struct wr_exchange_count counts[2];
};

#define WR_EXCHANGE_SPAN_LEAST_NS 1000000000ull

/* Returns the length of a window. For a bucket, returns the time in which it fills up, and at least
 * a second. Returns 0 for calendars. */
static inline uint64_t wr_exchange_span_ns(const struct wr_exchange_name *name)
{
	unsigned __int128 ns = name->burst ? name->burst : name->limit;

	if (name->window_end_ns)
		return 0;
	if (name->algorithm != WEIR_TOKEN_BUCKET)
		return name->period_ns;
	ns = name->limit ? ns * name->period_ns / name->limit : 0;
	if (ns < WR_EXCHANGE_SPAN_LEAST_NS)
		return WR_EXCHANGE_SPAN_LEAST_NS;
	return ns < WEIR_SPAN_MAX_NS ? (uint64_t)ns : WEIR_SPAN_MAX_NS;
}

/* Returns the start of the window or span that contains now_ns. */
static inline uint64_t wr_exchange_start_ns(const struct wr_exchange_name *name, uint64_t now_ns)
{
	return name->window_end_ns ? name->window_start_ns
				   : now_ns - now_ns % wr_exchange_span_ns(name);
}

uint32_t wr_exchange_slots(const struct weir_table *table);

/* ---- functions for decisions; `number` is the number of a slot ---- */

/* Returns the number of the key's slot, or a number below 0 if the key has none. */
int wr_exchange_find(const struct weir_table *table, struct wr_key key);

/* Returns the number of the key's slot, which is made if necessary. Returns a number below 0 if
 * there is no room, or if another participant is making the slot; the caller tries again with the
 * next request. */
int wr_exchange_claim(struct weir_table *table, struct wr_key key,
		      const struct wr_exchange_name *name, uint64_t mono_ns);

/* Whether the units of other nodes in the key's cell are recent enough that this node may use the
 * whole limit. */
bool wr_exchange_fresh(const struct weir_table *table, int number, uint64_t mono_ns);

/* Returns the units of other nodes that are charged to the cell in the window of now_ns; 0 for a
 * token bucket. A node on its own subtracts these units to compare its own use with its share. */
uint32_t wr_exchange_charged(const struct weir_table *table, int number,
			     const struct weir_limit *limit, uint64_t now_ns);

/* Counts a take (cost > 0) or a give-back (cost < 0). Called after the key's cell was changed at
 * now_ns. */
void wr_exchange_count(struct weir_table *table, int number, const struct weir_limit *limit,
		       int64_t cost, uint64_t now_ns, uint64_t mono_ns);

/* ---- functions for the owner ---- */

/* Makes `owner` (a random number, not 0) the owner of the table's slots, or renews its ownership,
 * and sets the interval of exchanges. Called every turn. A new owner marks all slots that were not
 * exchanged. Returns false if another owner is alive, or if the table has no slots. */
bool wr_exchange_own(struct weir_table *table, uint64_t owner, uint64_t sync_ns, uint64_t mono_ns);
void wr_exchange_leave(struct weir_table *table, uint64_t owner);

uint64_t wr_exchange_interval(const struct weir_table *table);

/* Records that Redis answered. Called even if there was nothing to exchange. */
void wr_exchange_answered(struct weir_table *table, uint64_t owner, uint64_t mono_ns);

/* Returns the number of the next slot, from *cursor on (0 at first), that was used since the last
 * visit or owes one of `peers`. Clears its mark and fills `view`. Returns a number below 0 if there
 * are no more slots in this turn. On the way, frees slots that have not been used for as long as
 * their counter lasts. */
int wr_exchange_next(struct weir_table *table, uint64_t owner, uint32_t *cursor, uint32_t peers,
		     uint64_t now_ns, uint64_t mono_ns, struct wr_exchange_view *view);

/* Applies the reply of Redis for a slot that had this incarnation when it was published: charges
 * the units of other nodes beyond those that were charged before. */
void wr_exchange_apply(struct weir_table *table, int number, uint64_t owner, uint64_t incarnation,
		       const struct wr_exchange_totals *others, uint64_t now_ns, uint64_t mono_ns);

/* Called when there is no reply, so that the slot is tried again in the next turn. */
void wr_exchange_failed(struct weir_table *table, int number, uint64_t owner);

/* wr_exchange_owe() records that the published counts have still to be sent to `peers`;
 * wr_exchange_paid() records that `peer` has received them. */
void wr_exchange_owe(struct weir_table *table, int number, uint64_t owner, uint32_t peers);
void wr_exchange_paid(struct weir_table *table, int number, uint64_t owner, uint64_t incarnation,
		      unsigned peer);

#endif
