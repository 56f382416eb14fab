/* Counters that nodes tell each other about now and then: consistency `eventual`.
 *
 * The counter is the key's cell in the table, decided on as a local rule's is. Beside it a slot in
 * WR_SECTION_EXCHANGE has what this node admitted, in numbers that only grow, for the keeper to
 * publish; and the keeper charges to the cell what others admitted.
 *
 *   deciders  take from the cell, then wr_exchange_count: a compare-and-swap or an add, and the
 *             first time since the last turn a bit that says "look here"
 *   keeper    one loop of one process (wr_exchange_keep): visits the slots whose bit is set,
 *             publishes what they have, and applies the sum of all others
 *
 *   fixed window, sliding counter   own counts of the two latest windows, (plus, minus) each
 *   token bucket                    the same, in spans in which it fills up (wr_exchange_start_ns):
 *                                   what was taken before the last two has flown in again
 *
 * Others' numbers are charged in full: a window counts beyond its limit, a bucket goes below empty,
 * and what flows in fills that up first. A banned key is charged as well. A new slot's bucket
 * begins at the others' totals as they are, of both spans, and is charged what comes on top;
 * windows count what others had in them. A sum that has become smaller (Redis lost it) is waited
 * for: it rises again as others publish, or its span ends. The charge is written before it is
 * noted: a keeper killed in between charges one turn's difference twice, never not at all.
 *
 * A node whose use has not been exchanged for three intervals, or whose keeper is gone, is on its
 * own: wr_exchange_fresh says no, and the limiter enforces its share.
 *
 * Window starts are by the wall clock, everything else by wr_mono_ns(). */
#ifndef WR_STORE_EXCHANGE_H
#define WR_STORE_EXCHANGE_H

#include "store/store.h"

#define WR_EXCHANGE_ID 128u
#define WR_EXCHANGE_PROBES 8u
#define WR_EXCHANGE_PEERS 8u
#define WR_SYNC_DEFAULT_NS 100000000ull /* where no keeper has said otherwise */
#define WR_SYNC_STALE 3u                /* intervals without an exchange: on its own */

/* What names a counter among nodes, and what the keeper needs to charge it. */
struct wr_exchange_name {
	uint64_t fleet_key[2];
	uint32_t algorithm;
	uint32_t limit;
	uint32_t burst;
	uint32_t granted;
	uint64_t period_ns;       /* windows of a calendar: as the rule has it */
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

/* A slot as its keeper publishes it: [0] the later window or span, [1] the one before it, with
 * start_ns 0 where nothing was counted yet. */
struct wr_exchange_view {
	struct wr_exchange_name name;
	uint64_t incarnation; /* part of the holder's name: a slot made anew never goes backwards */
	struct wr_exchange_count counts[2];
	uint64_t admitted;  /* since it was visited before: what the overshoot is made of */
	uint32_t peers_due; /* a bit for each peer that has not taken it yet */
	bool used;          /* since it was visited before; else it owes a peer */
};

/* Sums over all other holders, in the same shape. */
struct wr_exchange_totals {
	struct wr_exchange_count counts[2];
};

#define WR_EXCHANGE_SPAN_LEAST_NS 1000000000ull

/* How long a window is; a bucket's span: until it is full, and at least a second. Calendars: 0. */
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

/* When the window or span that has now_ns in it began. */
static inline uint64_t wr_exchange_start_ns(const struct wr_exchange_name *name, uint64_t now_ns)
{
	return name->window_end_ns ? name->window_start_ns
				   : now_ns - now_ns % wr_exchange_span_ns(name);
}

uint32_t wr_exchange_slots(const struct weir_table *table);

/* ---- deciders; `number` is a slot's ---- */

/* The key's slot, or below 0. */
int wr_exchange_find(const struct weir_table *table, struct wr_key key);

/* … or a new one. Below 0: no room, or somebody is making it just now; try the next time. */
int wr_exchange_claim(struct weir_table *table, struct wr_key key,
		      const struct wr_exchange_name *name, uint64_t mono_ns);

/* Whether what the cell knows of others is recent enough to use the whole limit. */
bool wr_exchange_fresh(const struct weir_table *table, int number, uint64_t mono_ns);

/* What of others is charged to the cell in the window of now_ns; token bucket: 0. So a node on its
 * own compares its own use with its share. */
uint32_t wr_exchange_charged(const struct weir_table *table, int number,
			     const struct weir_limit *limit, uint64_t now_ns);

/* After a take (cost > 0) or a give-back (cost < 0) on the key's cell at now_ns. */
void wr_exchange_count(struct weir_table *table, int number, const struct weir_limit *limit,
		       int64_t cost, uint64_t now_ns, uint64_t mono_ns);

/* ---- the keeper ---- */

/* Makes the owner (random, not 0) the table's keeper, or keeps it so, and says how often it
 * exchanges; to be called every turn. A new keeper marks everything that was not exchanged. False:
 * another one is alive. */
bool wr_exchange_keep(struct weir_table *table, uint64_t owner, uint64_t sync_ns, uint64_t mono_ns);
void wr_exchange_leave(struct weir_table *table, uint64_t owner);

uint64_t wr_exchange_interval(const struct weir_table *table);

/* The store was heard from: exchanges go on, whether or not there is something to exchange. */
void wr_exchange_heard(struct weir_table *table, uint64_t owner, uint64_t mono_ns);

/* The next slot from *cursor on (0 at first) that was used since it was visited last, or owes a
 * peer of `peers`. Takes the mark away and fills `view`. Below 0: no more in this turn. Slots that
 * nobody has used for as long as their counter lasts are freed on the way. */
int wr_exchange_next(struct weir_table *table, uint64_t owner, uint32_t *cursor, uint32_t peers,
		     uint64_t now_ns, uint64_t mono_ns, struct wr_exchange_view *view);

/* The store's answer for a slot seen with this incarnation. Charges what others have beyond what
 * was charged before. */
void wr_exchange_apply(struct weir_table *table, int number, uint64_t owner, uint64_t incarnation,
		       const struct wr_exchange_totals *others, uint64_t now_ns, uint64_t mono_ns);

/* There is none: it is tried again in the next turn. */
void wr_exchange_failed(struct weir_table *table, int number, uint64_t owner);

/* What was published has still to be pushed to these peers; this one has it. */
void wr_exchange_owe(struct weir_table *table, int number, uint64_t owner, uint32_t peers);
void wr_exchange_paid(struct weir_table *table, int number, uint64_t owner, uint64_t incarnation,
		      unsigned peer);

#endif
