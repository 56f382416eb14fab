/* Counters that nodes exchange now and then: consistency `eventual`.
 *
 * The counter is the key's cell in the table, and decisions use it as for a local rule. Beside it,
 * a slot in WR_SECTION_EXCHANGE holds the units that this node admitted, in numbers that only grow.
 * The owner of the slots publishes them, and charges the units of other nodes to the cell.
 *
 *   decisions  take from the cell and then call wr_exchange_count(): a compare-and-swap or an add,
 *              and a bit for the owner the first time since its last turn
 *   owner      one loop of one process (wr_exchange_keep): visits the slots whose bit is set,
 *              publishes their counts, and applies the sum of all other nodes
 *
 *   fixed window, sliding counter   own counts of the two latest windows, (plus, minus) each
 *   token bucket                    the same, in spans in which it fills up (wr_exchange_start_ns):
 *                                   units taken before the last two have flowed in again
 *
 * The units of other nodes are charged in full: a window counts beyond its limit, and a bucket goes
 * below empty, which later tokens fill up first. A banned key is charged as well. The bucket of a
 * new slot accepts the totals of other nodes in both spans as they are, and is charged what is
 * added to them; windows are charged all units of other nodes in them. A sum that has become
 * smaller (Redis lost it) charges nothing until it has grown again, or its span ends. The charge is
 * written before it is recorded: if the owner is killed in between, one turn's difference is
 * charged twice, and never lost.
 *
 * A node whose use has not been exchanged for three intervals, or that has no owner, is on its own:
 * wr_exchange_fresh() returns false, and the limiter enforces the node's share.
 *
 * Window starts are times of the wall clock, all other times are wr_mono_ns(). */
#ifndef WR_STORE_EXCHANGE_H
#define WR_STORE_EXCHANGE_H

#include "store/store.h"

#define WR_EXCHANGE_ID 128u
#define WR_EXCHANGE_PROBES 8u
#define WR_EXCHANGE_PEERS 8u
#define WR_SYNC_DEFAULT_NS 100000000ull /* until an owner has set it */
#define WR_SYNC_STALE 3u /* intervals without an exchange, after which the node is on its own */

/* The name of a counter among nodes, and the numbers that the owner needs to charge it. */
struct wr_exchange_name {
	uint64_t fleet_key[2];
	uint32_t algorithm;
	uint32_t limit;
	uint32_t burst;
	uint32_t granted;
	uint64_t period_ns;       /* windows of a calendar: as in the rule */
	uint64_t window_start_ns; /* … and the window as it was seen last; both 0 otherwise */
	uint64_t window_end_ns;
	uint32_t id_len;
	char id[WR_EXCHANGE_ID];
};

/* plus: admitted; minus: given back. Both only grow. */
struct wr_exchange_count {
	uint64_t start_ns; /* of the window or span; 0: none */
	uint64_t plus;
	uint64_t minus;
};

/* A slot as its owner publishes it: [0] the later window or span, [1] the one before it. start_ns
 * is 0 if nothing was counted yet. */
struct wr_exchange_view {
	struct wr_exchange_name name;
	uint64_t incarnation; /* part of the holder's name: the numbers of a new slot start again
				 from 0 */
	struct wr_exchange_count counts[2];
	uint64_t admitted;  /* since the previous visit: the overshoot consists of it */
	uint32_t peers_due; /* a bit for each peer that has not received it */
	bool used;          /* since the previous visit; otherwise the slot owes a peer */
};

/* Sums over all other holders, in the same order. */
struct wr_exchange_totals {
	struct wr_exchange_count counts[2];
};

#define WR_EXCHANGE_SPAN_LEAST_NS 1000000000ull

/* The length of a window. For a bucket, the time in which it fills up, and at least a second. 0 for
 * calendars. */
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

/* The start of the window or span that contains now_ns. */
static inline uint64_t wr_exchange_start_ns(const struct wr_exchange_name *name, uint64_t now_ns)
{
	return name->window_end_ns ? name->window_start_ns
				   : now_ns - now_ns % wr_exchange_span_ns(name);
}

uint32_t wr_exchange_slots(const struct weir_table *table);

/* ---- deciders; `number` is a slot's ---- */

/* Returns the key's slot, or below 0. */
int wr_exchange_find(const struct weir_table *table, struct wr_key key);

/* Returns the key's slot, or a new one. Below 0: there is no room, or another participant is making
 * it; the caller tries again with the next request. */
int wr_exchange_claim(struct weir_table *table, struct wr_key key,
		      const struct wr_exchange_name *name, uint64_t mono_ns);

/* Whether the cell's knowledge of other nodes is recent enough to use the whole limit. */
bool wr_exchange_fresh(const struct weir_table *table, int number, uint64_t mono_ns);

/* The units of other nodes that are charged to the cell in the window of now_ns; 0 for a token
 * bucket. A node on its own subtracts them to compare its own use with its share. */
uint32_t wr_exchange_charged(const struct weir_table *table, int number,
			     const struct weir_limit *limit, uint64_t now_ns);

/* Called after a take (cost > 0) or a give-back (cost < 0) on the key's cell at now_ns. */
void wr_exchange_count(struct weir_table *table, int number, const struct weir_limit *limit,
		       int64_t cost, uint64_t now_ns, uint64_t mono_ns);

/* ---- the owner ---- */

/* Makes `owner` (random, not 0) the owner of the table's slots, or renews it, and sets the interval
 * of exchanges. Called every turn. A new owner marks all slots that were not exchanged. Returns
 * false if another owner is alive. */
bool wr_exchange_keep(struct weir_table *table, uint64_t owner, uint64_t sync_ns, uint64_t mono_ns);
void wr_exchange_leave(struct weir_table *table, uint64_t owner);

uint64_t wr_exchange_interval(const struct weir_table *table);

/* Called when Redis has answered, whether or not there was something to exchange. */
void wr_exchange_heard(struct weir_table *table, uint64_t owner, uint64_t mono_ns);

/* Returns the next slot from *cursor on (0 at first) that was used since the last visit, or owes a
 * peer of `peers`. Clears the mark and fills `view`. Below 0: no more in this turn. Slots that have
 * not been used for as long as their counter lasts are freed on the way. */
int wr_exchange_next(struct weir_table *table, uint64_t owner, uint32_t *cursor, uint32_t peers,
		     uint64_t now_ns, uint64_t mono_ns, struct wr_exchange_view *view);

/* Applies the reply of Redis for a slot that was seen with this incarnation: charges the units of
 * other nodes beyond those charged before. */
void wr_exchange_apply(struct weir_table *table, int number, uint64_t owner, uint64_t incarnation,
		       const struct wr_exchange_totals *others, uint64_t now_ns, uint64_t mono_ns);

/* Called when there is no reply: the slot is tried again in the next turn. */
void wr_exchange_failed(struct weir_table *table, int number, uint64_t owner);

/* The published counts have still to be sent to these peers, or the peer has received them. */
void wr_exchange_owe(struct weir_table *table, int number, uint64_t owner, uint32_t peers);
void wr_exchange_paid(struct weir_table *table, int number, uint64_t owner, uint64_t incarnation,
		      unsigned peer);

#endif
