/* Counters for limits with consistency `eventual`. The nodes of a fleet send each other the units
 * that they have admitted, once per interval.
 *
 * The counter is the key's cell in the table, and decisions use it as for a local rule. In
 * addition, a slot in WR_SECTION_EXCHANGE counts the units that this node admitted, in numbers that
 * only grow. The owner of the slots sends these numbers to Redis, and adds the units of other nodes
 * to the cell.
 *
 *   decisions  take units from the cell and then call wr_store_exchange_count(), which adds to a count
 *              of the slot and, the first time since the owner's last turn, sets the slot's bit
 *              for the owner
 *   owner      one loop of one process (wr_store_exchange_own): once per interval (a turn), reads the
 *              slots whose bit is set, sends their counts to Redis, and adds the units of all
 *              other nodes to the cells
 *
 *   fixed window, sliding counter   a slot holds this node's counts (plus, minus) of each of the
 *                                   two latest windows
 *   token bucket                    a slot holds these counts of the two latest fill intervals. A
 *                                   fill interval is as long as the empty bucket needs to fill up
 *                                   (wr_store_exchange_span_ns), so units taken in earlier fill intervals
 *                                   have flowed in again
 *
 * The units of other nodes are counted in full: a window may count beyond its limit, and a bucket
 * may go below empty; later tokens fill the deficit first. The units are counted even if the key is
 * banned. When a slot is new, a window counts all units that other nodes took in it, but a bucket
 * counts only units that other nodes take later. If Redis has lost counts, the sum of the other
 * nodes' units is smaller than before. Then no units are counted until the sum exceeds its earlier
 * value, or until its window or fill interval has ended. The units are added to the cell before the
 * slot records them: if the owner is killed in between, the units of one turn are counted twice,
 * but never lost.
 *
 * If the counts of a slot have not been exchanged for three intervals, or if the slots have no
 * owner, wr_store_exchange_fresh() returns false. The limiter then enforces this node's share of
 * the limit: the limit divided by the number of nodes.
 *
 * Starts of windows and now_ns are times of the wall clock. Times called mono_ns are
 * wr_clock_boot_ns(). */
#ifndef WR_STORE_EXCHANGE_H
#define WR_STORE_EXCHANGE_H

#include "store/store.h"

#define WR_EXCHANGE_ID 128u
#define WR_EXCHANGE_PROBES 8u
#define WR_EXCHANGE_PEERS 8u
/* The default interval between two exchanges, which applies until an owner sets another
 * interval. */
#define WR_SYNC_DEFAULT_NS 100000000ull
/* After this many intervals without exchange, only the node's share of the limit is admitted. */
#define WR_SYNC_STALE 3u

/* Identifies a counter on all nodes. Also contains the values of its limit (amount, burst, period
 * and so on), which the owner needs to add units of other nodes to the counter. */
struct wr_store_exchange_name {
	uint64_t fleet_key[2];
	uint32_t algorithm;
	uint32_t limit;
	uint32_t burst;
	uint32_t granted;
	uint64_t period_ns; /* for a calendar window, the nominal length of the window */
	/* Start and end of the latest calendar window. Both are 0 for other limits. */
	uint64_t window_start_ns;
	uint64_t window_end_ns;
	uint32_t id_len;
	char id[WR_EXCHANGE_ID];
};

/* Counts of one window or, for a token bucket, of one fill interval. `plus` is the number of units
 * admitted, `minus` the number of units given back. Both numbers only grow. */
struct wr_store_exchange_count {
	uint64_t start_ns; /* start of the window or fill interval; 0: nothing was counted */
	uint64_t plus;
	uint64_t minus;
};

/* The contents of a slot, as its owner reads them and sends them to Redis. counts[0] belongs to the
 * later of the two windows or fill intervals, counts[1] to the earlier one. */
struct wr_store_exchange_view {
	struct wr_store_exchange_name name;
	/* A number that the slot got when it was made for its key. It is part of the name of the
	 * counts in Redis, because the counts of a new slot start from 0 again. */
	uint64_t incarnation;
	struct wr_store_exchange_count counts[2];
	/* Number of units that this node admitted in the latest window since the owner last read
	 * this slot. Other nodes do not know of these units yet. All nodes together can exceed the
	 * limit only by such units. */
	uint64_t admitted;
	/* One bit per peer (another region's Redis). 1: the peer has not received the counts. */
	uint32_t peers_due;
	/* True if the bit "used" of the slot was set, so that the counts have to be sent to Redis.
	 * If false, the counts only have to be sent to a peer. */
	bool used;
};

/* Units that all other nodes together have admitted and given back. counts[0] and counts[1] belong
 * to the same windows as in wr_store_exchange_view. */
struct wr_store_exchange_totals {
	struct wr_store_exchange_count counts[2];
};

#define WR_EXCHANGE_SPAN_LEAST_NS 1000000000ull

/* Returns the length of a window or, for a token bucket, of a fill interval: the time in which the
 * empty bucket fills up, but at least a second. Returns 0 for calendar windows, which differ in
 * length. */
static inline uint64_t wr_store_exchange_span_ns(const struct wr_store_exchange_name *name)
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

/* Returns the start of the window that contains now_ns or, for a token bucket, of the fill interval
 * that contains now_ns. */
static inline uint64_t wr_store_exchange_start_ns(const struct wr_store_exchange_name *name,
						  uint64_t now_ns)
{
	return name->window_end_ns ? name->window_start_ns
				   : now_ns - now_ns % wr_store_exchange_span_ns(name);
}

uint32_t wr_store_exchange_slots(const struct weir_table *table);

/* ---- functions for decisions; `number` is the number of a slot ---- */

/* Returns the number of the key's slot, or a number below 0 if the key has no slot. */
int wr_store_exchange_find(const struct weir_table *table, struct wr_key key);

/* Returns the number of the key's slot, which is made if necessary. Returns a number below 0 if
 * there is no room, or if another thread is making the slot; the caller tries again with the
 * next request. */
int wr_store_exchange_claim(struct weir_table *table, struct wr_key key,
			    const struct wr_store_exchange_name *name, uint64_t mono_ns);

/* Returns true if the counts of the slot were exchanged recently. This has two conditions: Redis
 * has replied within the last WR_SYNC_STALE intervals, and Redis has confirmed all units that were
 * counted in the slot before these intervals. If the result is true, the node is allowed to use the
 * whole limit, otherwise only its share. */
bool wr_store_exchange_fresh(const struct weir_table *table, int number, uint64_t mono_ns);

/* Returns how many units of other nodes the cell counts in the window that contains now_ns. Returns
 * 0 for a token bucket. A node without recent exchanges raises its share of the limit by these
 * units, because they would otherwise use up the share. */
uint32_t wr_store_exchange_charged(const struct weir_table *table, int number,
				   const struct weir_limit *limit, uint64_t now_ns);

/* Counts units that were taken (cost > 0) or given back (cost < 0). Called after the key's cell was
 * changed at now_ns. */
void wr_store_exchange_count(struct weir_table *table, int number, const struct weir_limit *limit,
			     int64_t cost, uint64_t now_ns, uint64_t mono_ns);

/* ---- functions for the owner ---- */

/* Makes `owner` (a random number, not 0) the owner of the table's slots, or renews its ownership,
 * and sets the interval between two exchanges. Called once per interval. A new owner sets the bits
 * of all slots whose counts the previous owner has not exchanged. Returns false if another owner is
 * alive, or if the table has no slots. */
bool wr_store_exchange_own(struct weir_table *table, uint64_t owner, uint64_t sync_ns,
			   uint64_t mono_ns);
void wr_store_exchange_leave(struct weir_table *table, uint64_t owner);

uint64_t wr_store_exchange_interval(const struct weir_table *table);

/* Records that Redis replied at mono_ns. Called even if there were no counts to exchange. */
void wr_store_exchange_answered(struct weir_table *table, uint64_t owner, uint64_t mono_ns);

/* Finds the next slot whose bit "used" is set (exchange_slot.h), or whose counts have to be sent to
 * one of `peers` (a set of bits). The search begins at slot number *cursor. The caller sets *cursor
 * to 0 at the start of a turn, and each call sets it to the number after the slot that it finds.
 * Clears the bit "used" of that slot, fills `view`, and returns the number of the slot. Returns a
 * number below 0 if there are no more such slots in this turn. The first call of a turn also frees
 * slots whose counters have expired. */
int wr_store_exchange_next(struct weir_table *table, uint64_t owner, uint32_t *cursor,
			   uint32_t peers, uint64_t now_ns, uint64_t mono_ns,
			   struct wr_store_exchange_view *view);

/* Adds to the key's cell the units of other nodes that were not added before. `others` is from the
 * reply of Redis. Does nothing if the slot has another incarnation by now, that is, if it was freed
 * and made for a key again. */
void wr_store_exchange_apply(struct weir_table *table, int number, uint64_t owner,
			     uint64_t incarnation, const struct wr_store_exchange_totals *others,
			     uint64_t now_ns, uint64_t mono_ns);

/* Sets the bit "used" of a slot for which there was no reply, so that the owner reads the slot
 * again in the next turn. */
void wr_store_exchange_failed(struct weir_table *table, int number, uint64_t owner);

/* wr_store_exchange_owe() records that the counts of the slot still have to be sent to `peers`,
 * which is a set of bits. wr_store_exchange_paid() records that `peer` has received the counts. */
void wr_store_exchange_owe(struct weir_table *table, int number, uint64_t owner, uint32_t peers);
void wr_store_exchange_paid(struct weir_table *table, int number, uint64_t owner,
			    uint64_t incarnation, unsigned peer);

#endif
