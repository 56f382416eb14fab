/* Leases that this loop holds: units borrowed from counters in Redis and laid into slots of the
 * table, where every process of the node spends them without asking.
 *
 *   question ──► wr_lease_hold_for ──► goes along in the question's own call ─┐
 *   tick ──────► wr_lease_holds_tick ──► a call of its own ───────────────────┴─► Redis ─►
 * wr_lease_hold_on_reply
 *
 * Example, 1,000 per minute, 100 requests a second, so leases of a second: the first request is
 * asked strictly; the second brings 3 units, the next question 6, then 15: a quarter more than were
 * used up within the last second, until the demand is met. From then on there are 125, of which 85
 * are spent when an eighth of the second is left, and a call reports them, asks for as many more
 * and makes all of them last for another second: 12 calls for 1,000 requests.
 *
 * A call that got no answer is sent again under its number, for as long as what it may have brought
 * can last; then the holder begins anew and says that it has nothing. */
#ifndef WR_CENTRAL_LEASE_H
#define WR_CENTRAL_LEASE_H

#include "limiter/question.h"
#include "redis/script_lease.h"

struct wr_central;
struct wr_central_part;
struct wr_call;
struct wr_central_conn;
struct wr_lease_hold_block;

#define WR_LEASE_HOLDS_MAX 65536u      /* leases of one loop */
#define WR_LEASE_HOLD_LISTS 16384u     /* by counter */
#define WR_LEASE_HOLD_SEEN 32768u      /* counters that were asked for once */
#define WR_LEASE_HOLD_CHECKS 8u        /* a lease is looked after so often in its ttl */
#define WR_LEASE_HOLD_TTL_MIN_US 5000u /* what ends sooner is not worth lending */

/* A counter of which this loop holds units, or did a moment ago. */
struct wr_lease_hold {
	struct wr_lease_hold *next; /* of its list, or of those that are free */
	struct wr_call *call;      /* the call that speaks for it, under way; NULL: none */
	uint64_t key[2];
	uint64_t tag;        /* its name in the table */
	uint64_t identity;   /* of the limit the units are of */
	struct wr_take take; /* as it was asked for last, but for the cost: none */
	uint64_t ttl_ns;     /* the longest that its leases last */
	int slot;
	uint32_t heap_at;  /* in the heap */
	uint64_t check_ns; /* mono: when it is to be looked after */

	/* What we have of Redis. */
	uint64_t after;   /* number of the call whose answer left us with it; 0: nothing */
	uint32_t held;    /* units laid into the slot, less those told to be spent or returned */
	uint32_t noted;   /* of those: spent, and part of the demand */
	uint32_t lost;    /* ended here while Redis prolonged them: to be returned */
	uint64_t ends_ns; /* mono */
	bool capped;      /* it ends with its window: no call can prolong it */
	bool changed;     /* the limit has: units of the old one go back */
	bool returning;   /* all of it goes back */
	bool starved;     /* Redis had none to spare the last time */

	/* What the call under way says, or the one that was not answered. */
	bool unanswered;
	uint64_t sent_identity;
	uint64_t seq;
	uint32_t spent, returned, wanted;
	uint64_t sent_ns; /* mono */

	/* What is used up. */
	uint64_t demand_m;    /* thousandths of a unit in a ttl */
	uint64_t asked;       /* units that were asked for strictly and are not part of it yet */
	uint64_t measured_ns; /* mono */
	uint64_t used_ns;     /* mono: something was */

	uint8_t id_len;
	char id[WR_QUESTION_ID];
};

/* A counter that was asked for: one of many that may stand in this place. */
struct wr_lease_hold_seen {
	uint32_t print;
	uint32_t at_ms;
};

struct wr_lease_holds {
	struct wr_lease_hold *lists[WR_LEASE_HOLD_LISTS];
	struct wr_lease_hold **heap; /* by care_ns, the first one first */
	uint32_t count, cap;
	struct wr_lease_hold *free;
	struct wr_lease_hold_block *blocks;
	uint64_t seq;    /* last number of a call */
	uint32_t leases; /* holds with something */
	uint64_t units;  /* in slots, as far as we have looked */
	bool closed;     /* the node shuts down: nothing is borrowed any more */
	struct wr_lease_hold_seen seen[WR_LEASE_HOLD_SEEN];
};

/* ---- lease_book.c: where they stand ---- */

struct wr_lease_holds *wr_lease_holds_new(void);
void wr_lease_holds_free(struct wr_lease_holds *holds);

struct wr_lease_hold *wr_lease_hold_find(const struct wr_lease_holds *holds, const uint64_t key[2],
					 const char *id, size_t id_len);
/* Zeroed but for its name, and to be looked after at once. NULL: there are too many. */
struct wr_lease_hold *wr_lease_hold_add(struct wr_lease_holds *holds, const uint64_t key[2],
					const char *id, size_t id_len);
void wr_lease_hold_remove(struct wr_lease_holds *holds, struct wr_lease_hold *hold);

void wr_lease_hold_check_at(struct wr_lease_holds *holds, struct wr_lease_hold *hold,
			    uint64_t mono_ns);

/* Whether the counter was asked for within the last ttl_ns. From now on it was. */
bool wr_lease_hold_was_seen(struct wr_lease_holds *holds, const uint64_t key[2], uint64_t identity,
			    uint64_t mono_ns, uint64_t ttl_ns);

/* ---- lease_demand.c: how much is wanted; numbers in, numbers out ---- */

/* What is used up in a ttl, after `units` more were within `elapsed_ns`: a sum that leaks away
 * within a ttl. Thousandths. */
uint64_t wr_lease_demand_add(uint64_t demand_m, uint64_t units, uint64_t elapsed_ns,
			     uint64_t ttl_ns);

/* Units for the time that a lease lasts. */
uint32_t wr_lease_demand_units(uint64_t demand_m, uint64_t lasts_ns, uint64_t ttl_ns);

/* How long the counter's window lasts from now on, by the clock of Redis; UINT64_MAX: it has
 * none. */
uint64_t wr_lease_window_left_ns(const struct wr_take *take, uint64_t now_us);

/* ---- lease.c ---- */

/* Somebody asks for the part: the hold that goes along in his call, or NULL. */
struct wr_lease_hold *wr_lease_hold_for(struct wr_central *central,
					const struct wr_central_part *part);

/* The call is about to be written: what it says of the hold is in hold->said and the fields behind
 * it. False: there is nothing to say, and the call no longer speaks for it. */
bool wr_lease_hold_prepare(struct wr_central *central, struct wr_lease_hold *hold);

/* … was answered, or was not. */
void wr_lease_hold_on_reply(struct wr_central *central, struct wr_lease_hold *hold,
			    const struct wr_leased *leased);
void wr_lease_hold_on_failure(struct wr_central *central, struct wr_lease_hold *hold);

uint64_t wr_lease_hold_step_ns(const struct wr_lease_hold *hold);
void wr_lease_hold_check_in(struct wr_central *central, struct wr_lease_hold *hold, uint64_t ns);
bool wr_lease_hold_has_ended(const struct wr_central *central, const struct wr_lease_hold *hold);
/* Brings the demand up to date. */
void wr_lease_hold_measure(struct wr_central *central, struct wr_lease_hold *hold);
/* Who has its slot: a number of its own for each key. */
uint64_t wr_lease_hold_owner(const struct wr_central *central, const struct wr_lease_hold *hold);
/* Its lease is over: what is still in the slot is burnt. */
void wr_lease_hold_end(struct wr_central *central, struct wr_lease_hold *hold);
/* … and it is forgotten. */
void wr_lease_hold_drop(struct wr_central *central, struct wr_lease_hold *hold);

/* ---- lease_care.c ---- */

void wr_lease_holds_tick(struct wr_central *central);

/* An operator's reset: what is held of the key is void. */
void wr_lease_holds_void(struct wr_central *central, const uint64_t key[2]);

/* Forgets all of them; what lies in the table ends by itself. */
void wr_lease_holds_drop(struct wr_central *central);

/* ---- lease_call.c ---- */

/* A call for the part, which goes alone: the script decides on one counter. NULL: no memory. */
struct wr_call *wr_lease_call_new(struct wr_central *central, struct wr_central_part *part);

/* A call that speaks for the hold alone. False: no memory, or Redis is away. */
bool wr_lease_send(struct wr_central *central, struct wr_lease_hold *hold);

/* Writes a call of one part that speaks for no hold: a give-back or, with the key that names who
 * reports, a report. False: there was no room. */
bool wr_lease_write(struct wr_central_conn *conn, struct wr_call *call, const char *reporter,
		    const struct wr_take *take);

#endif
