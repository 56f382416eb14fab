/* Leases that this loop holds: units borrowed from a counter in Redis and stored in a slot of the
 * table, where all processes of the node spend them without asking Redis.
 *
 *   question ─► wr_central_lease_hold_for ───► added to the question's call ─┐
 *   timer ────► wr_central_lease_holds_tick ─► a call of its own ────────────┴─► Redis ─► …_on_reply
 *
 * Example: a limit of 1,000 per minute, and 100 requests per second. A lease lasts one second. The
 * first question to Redis borrows nothing. The second question also borrows 3 units, the third 6,
 * the fourth 15: always a quarter more than the units used within the last second, until the demand
 * is met. From then on the lease has 125 units. An eighth of a second before the lease ends, 85
 * units have been spent. A call reports these 85 units, borrows another 85, and prolongs the lease
 * by another second. So 1,000 requests need 12 calls.
 *
 * A call without an answer is repeated with the same sequence number until the units that it may
 * have been granted have expired. Then the loop starts again without a lease. */
#ifndef WR_CENTRAL_LEASE_H
#define WR_CENTRAL_LEASE_H

#include "base/heap.h"
#include "central/pool.h"
#include "limiter/question.h"
#include "redis/script_lease.h"

struct wr_central;
struct wr_central_part;
struct wr_call;
struct wr_central_conn;

#define WR_LEASE_HOLD_MAGIC 0x686f6c64u
#define WR_LEASE_HOLDS_MAX 65536u  /* maximum number of leases of one loop */
#define WR_LEASE_HOLD_LISTS 16384u /* number of chains in the hash table of holds */
/* Number of entries in wr_central_lease_holds.seen. */
#define WR_LEASE_HOLD_SEEN 32768u
#define WR_LEASE_HOLD_CHECKS 8u        /* a lease is checked every ttl / 8 */
#define WR_LEASE_HOLD_TTL_MIN_US 5000u /* a lease with a shorter ttl is not requested */

/* A hold: a counter from which this loop borrows units. A hold is dropped when it has no lease and
 * no units were used for 2 s. */
struct wr_central_lease_hold {
	struct wr_central_lease_hold *next; /* next hold in the hash chain */
	uint32_t magic;                     /* WR_LEASE_HOLD_MAGIC */
	struct wr_call *call; /* the call in flight that reports and renews this lease, or NULL */
	uint64_t key[2];
	uint64_t tag;      /* the counter's tag in the table */
	uint64_t identity; /* hash of the limit that the units belong to */
	/* A take of cost 0 with the limit of the latest question. It is sent in calls that only
	 * report and renew the lease. */
	struct wr_take take;
	uint64_t ttl_ns; /* maximum duration of a lease */
	int slot;
	struct wr_heap_node node; /* entry in wr_central_lease_holds.heap */
	uint64_t check_ns;        /* when lease_renew.c next checks this hold, monotonic */

	/* The lease as Redis knows it. */
	uint64_t after; /* sequence number of the call that got the lease; 0: no lease */
	uint32_t held;  /* number of units in the table slot, plus spent units not reported yet */
	/* Number of the units in `held` that are known to be spent. They are already included in
	 * the demand. */
	uint32_t noted;
	/* Number of units that the next call returns to Redis: they expired in the table although
	 * Redis prolonged their lease, or were withdrawn because of a debt. */
	uint32_t lost;
	uint64_t ends_ns; /* when the lease ends, monotonic */
	bool capped;      /* the lease ends with its window, so it cannot be prolonged */
	bool changed;     /* the limit has changed, so the old units must be returned */
	bool returning;   /* all units must be returned */
	/* True if Redis granted no units in its latest answer, although units were requested. */
	bool starved;

	/* The content of the call in flight, or of the last call if it was not answered. */
	bool unanswered;
	uint64_t sent_identity;
	uint64_t seq;
	uint32_t spent, returned, wanted;
	uint64_t sent_ns; /* when the call was written, monotonic */

	/* The demand: the units that are used per ttl, in thousandths of a unit. */
	uint64_t demand_m;
	/* Number of units that takes have asked Redis for since the demand was last updated. */
	uint64_t asked;
	uint64_t measured_ns; /* when the demand was last updated, monotonic */
	uint64_t used_ns;     /* when units were last used, monotonic */

	uint8_t id_len;
	char id[WR_QUESTION_ID];
};

/* Remembers when Redis was last asked about a counter. Counters whose hashes select the same entry
 * overwrite each other's time. */
struct wr_central_lease_hold_seen {
	uint32_t print;
	uint32_t at_ms;
};

struct wr_central_lease_holds {
	struct wr_central_lease_hold *lists[WR_LEASE_HOLD_LISTS];
	struct wr_heap heap; /* all holds by check_ns, earliest first */
	struct wr_central_pool pool;
	uint64_t seq;    /* the sequence number used last */
	uint32_t leases; /* number of holds that have a lease */
	uint64_t units;  /* number of unspent units in all leases, as of their last checks */
	bool closed;     /* the node is shutting down and borrows no more units */
	struct wr_central_lease_hold_seen seen[WR_LEASE_HOLD_SEEN];
};

/* ---- lease_holds.c: the collection ---- */

struct wr_central_lease_holds *wr_central_lease_holds_new(void);
void wr_central_lease_holds_free(struct wr_central_lease_holds *holds);

struct wr_central_lease_hold *wr_central_lease_hold_find(const struct wr_central_lease_holds *holds,
							 const uint64_t key[2], const char *id,
							 size_t id_len);
/* Adds a zeroed hold, whose first check is due at once. Returns NULL if there are too many holds or
 * there is no memory. */
struct wr_central_lease_hold *wr_central_lease_hold_add(struct wr_central_lease_holds *holds,
							const uint64_t key[2], const char *id,
							size_t id_len);
void wr_central_lease_hold_remove(struct wr_central_lease_holds *holds,
				  struct wr_central_lease_hold *hold);

/* Returns the hold at index `at` of the heap. Index 0 has the hold to be checked next. */
static inline struct wr_central_lease_hold *
wr_central_lease_hold_at(const struct wr_central_lease_holds *holds, size_t at)
{
	return wr_container_of(holds->heap.nodes[at], struct wr_central_lease_hold, node);
}

/* Sets the time of the next check. */
void wr_central_lease_hold_check_at(struct wr_central_lease_holds *holds,
				    struct wr_central_lease_hold *hold, uint64_t mono_ns);

/* Records that Redis is asked about the counter now. Returns true if Redis was also asked about it
 * within the last ttl_ns. */
bool wr_central_lease_hold_was_seen(struct wr_central_lease_holds *holds, const uint64_t key[2],
				    uint64_t identity, uint64_t mono_ns, uint64_t ttl_ns);

/* ---- lease_demand.c: pure functions ---- */

/* Returns the new demand per ttl after `units` were used within elapsed_ns. The old demand is first
 * reduced by the fraction elapsed_ns ÷ ttl_ns. demand_m and the result are in thousandths of a
 * unit. */
uint64_t wr_central_lease_demand_add(uint64_t demand_m, uint64_t units, uint64_t elapsed_ns,
				     uint64_t ttl_ns);

/* Returns how many units will be used during lasts_ns, but at most those of one ttl. */
uint32_t wr_central_lease_demand_units(uint64_t demand_m, uint64_t lasts_ns, uint64_t ttl_ns);

/* Returns the time until the counter's window ends, by the clock of Redis. Returns UINT64_MAX for
 * limits without windows. */
uint64_t wr_central_lease_window_left_ns(const struct wr_take *take, uint64_t now_us);

/* ---- lease.c: a lease from beginning to end ---- */

/* Returns the hold of the part's counter if one call can contain the part's take and also report
 * and renew the lease of the hold. Returns NULL if the call must contain only the take. */
struct wr_central_lease_hold *wr_central_lease_hold_for(struct wr_central *central,
							const struct wr_central_part *part);

/* Called when a call that reports and renews the lease of the hold is about to be written. Sets the
 * fields of the hold that the call sends: seq, spent, returned and wanted. Returns false if there
 * is no lease and none can be requested, because there is no table slot or the demand is too small.
 * The call then contains only takes; if it has no takes, it is not sent. */
bool wr_central_lease_hold_prepare(struct wr_central *central, struct wr_central_lease_hold *hold);

/* wr_central_lease_hold_on_reply is called when the call that reports and renews the lease of the
 * hold was answered, and wr_central_lease_hold_on_failure when that call failed. */
void wr_central_lease_hold_on_reply(struct wr_central *central, struct wr_central_lease_hold *hold,
				    const struct wr_leased *leased);
void wr_central_lease_hold_on_failure(struct wr_central *central,
				      struct wr_central_lease_hold *hold);

uint64_t wr_central_lease_hold_step_ns(const struct wr_central_lease_hold *hold);
void wr_central_lease_hold_check_in(struct wr_central *central, struct wr_central_lease_hold *hold,
				    uint64_t ns);
bool wr_central_lease_hold_has_ended(const struct wr_central *central,
				     const struct wr_central_lease_hold *hold);
/* Updates hold->demand_m with the units used since the last call of this function. */
void wr_central_lease_hold_measure(struct wr_central *central, struct wr_central_lease_hold *hold);
/* Returns this loop's owner id for the table slot of the key `tag`. The id is different for every
 * key. */
uint64_t wr_central_lease_slot_owner(const struct wr_central *central, uint64_t tag);
/* Ends the lease. Units that are still in its table slot expire. */
void wr_central_lease_hold_end(struct wr_central *central, struct wr_central_lease_hold *hold);
/* Ends the lease and frees the hold. */
void wr_central_lease_hold_drop(struct wr_central *central, struct wr_central_lease_hold *hold);

/* ---- lease_renew.c: periodic checks ---- */

void wr_central_lease_holds_tick(struct wr_central *central);

/* Called when an operator has reset the key. Ends the leases of the key. */
void wr_central_lease_holds_void(struct wr_central *central, const uint64_t key[2]);

/* Frees all holds. The units in the table expire later. */
void wr_central_lease_holds_drop(struct wr_central *central);

/* ---- lease_call.c: calls of the lease script ---- */

/* Makes a call with this part only. Returns NULL if there is no memory. */
struct wr_call *wr_central_lease_call_new(struct wr_central *central, struct wr_central_part *part);

/* Sends a call that contains no take, but only reports and renews the lease of the hold. Returns
 * false if there is no memory or the shard is down. */
bool wr_central_lease_send(struct wr_central *central, struct wr_central_lease_hold *hold);

/* Writes a report or a give-back for a counter whose units can be leased. The call runs the lease
 * script, but neither reports nor renews a lease. For a report, `reporter` is the key under which
 * Redis stores the sequence number of this loop's latest report. For a give-back, `reporter` is
 * NULL. Returns false if the output buffer is full. */
bool wr_central_lease_write(struct wr_central_conn *conn, struct wr_call *call,
			    const char *reporter, const struct wr_take *take);

#endif
