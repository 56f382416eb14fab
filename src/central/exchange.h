/* Exchange of counters for limits with `consistency: eventual`. Every sync_interval, this node
 * sends the units that it admitted to Redis, and charges the units that other nodes admitted. Only
 * counters that were used are sent.
 *
 *   table (store/exchange.h) ──► round ──► exchange script, Redis of this region ──► table
 *                                     └──► push script, Redis of each other region
 *
 * Only the chief loop of a node does this. All numbers are absolute, so a call without an answer is
 * simply sent again in the next round. A node pushes only its own numbers. If another region does
 * not answer, the slot has a bit set for it, and the Redis of this region stores that the other
 * region may lack data of this counter. Then one node of this region at a time relays all data of
 * the counter to it, in pages (relay.c). So the data arrives even if the node that admitted the
 * requests is gone. */
#ifndef WR_CENTRAL_EXCHANGE_H
#define WR_CENTRAL_EXCHANGE_H

#include "redis/script_exchange.h"
#include "store/exchange.h"

struct wr_central;
struct wr_central_opts;
struct wr_redis_target;

#define WR_EXCHANGES_MAX 1024u /* calls in flight */
#define WR_PUSHES_MAX 1024u    /* calls in flight to one other region */
#define WR_RELAYS_MAX 256u     /* counters that one node relays at the same time */
#define WR_EXCHANGE_OVERSHOOT_NS 10000000000ull

/* Relaying one counter to another region. */
struct wr_central_relay {
	unsigned peer;
	bool complete;     /* everything has arrived, but Redis has not been notified */
	uint64_t since_us; /* by the clock of the Redis of this region */
	uint8_t last_len;
	char last[WR_EXCHANGE_NAME]; /* the last name that has arrived */
};

/* A counter in flight, copied from its table slot. */
struct wr_exchange_job {
	struct wr_exchange_job *next; /* in the list of free jobs */
	int slot;
	uint32_t capacity;
	uint64_t owner; /* this loop's id in the table at the time of the call */
	uint64_t incarnation;
	uint64_t key[2];
	struct wr_exchange_state state;
	uint64_t starts_ns[2]; /* start of the state's two windows */
	uint64_t oldest;       /* the oldest window that a node may still need */
	uint64_t unit_ns;      /* length by which windows are numbered */
	uint64_t life_us;
	uint64_t admitted; /* units since the last round */
	uint64_t sent_ns;  /* monotonic */
	bool used;         /* there is something new to send */
	bool relays;       /* `relay` is part of the call */
	struct wr_central_relay relay;
	uint8_t due;     /* regions with outstanding data, a bit each */
	uint8_t lacking; /* regions that this node could not reach */
	uint8_t reached; /* regions that this node can relay to */
	uint8_t id_len;
	char id[WR_EXCHANGE_ID];
};

/* The calls of a table slot that are in flight. Where it is not a flag, one bit per region. */
struct wr_exchange_mark {
	uint8_t in_flight; /* exchange with the Redis of this region */
	uint8_t pushing;   /* pushes to other regions */
	uint8_t again;     /* newer data must be pushed afterwards */
	uint8_t lacking;   /* a push failed, and Redis has not been notified */
	struct wr_central_relay *relay;
};

struct wr_central_exchanges {
	uint64_t sync_ns;
	char region[WR_EXCHANGE_REGION + 1];
	uint64_t round_ns; /* start of the next round, monotonic */
	uint64_t end_ns;   /* when the node began to shut down, monotonic; 0: not yet */
	uint32_t cursor;   /* position of the round in the table */
	bool walking;      /* the round has more slots than could be sent */
	uint32_t in_flight;
	struct wr_exchange_job *free, *jobs;
	struct wr_exchange_mark *marks; /* one per slot of the table that belongs to marks_owner */
	uint32_t mark_count;
	uint64_t marks_owner;

	struct wr_central *peers[WR_EXCHANGE_PEERS];
	uint32_t peer_count;
	char tags[WR_EXCHANGE_PEERS][WR_EXCHANGE_TAG + 1];
	uint32_t relay_count;
	bool resend;   /* the next round must send slots again even without new use */
	bool finished; /* shutdown: Redis was notified of the pushes that did not arrive */

	/* Worst overshoot of a counter in parts per million: of the current 10 s, and of the 10 s
	 * before. And the time that an exchange takes, including other regions. */
	uint32_t overshoot_ppm[2];
	uint64_t overshoot_ns; /* start of the current 10 s, monotonic */
	uint64_t delay_ns;
};

/* Does nothing unless the loop is the chief and has a table and sync_ns. Returns false without
 * memory. */
bool wr_central_exchanges_start(struct wr_central *central, const struct wr_central_opts *opts);
void wr_central_exchanges_free(struct wr_central *central);
void wr_central_exchanges_tick(struct wr_central *central);
/* Shutdown: sends the units admitted since the last round. Returns the number of calls in flight; 0
 * after one second at most. */
uint32_t wr_central_exchanges_finish(struct wr_central *central);
uint32_t wr_central_exchanges_overshoot(const struct wr_central *central);

/* Writes the name under which Redis stores the numbers of a slot: "eu/1f2e3d4c.0123456789abcdef".
 * Returns its length. */
size_t wr_central_exchange_holder(const struct wr_central *central, uint64_t incarnation,
				  char name[WR_EXCHANGE_NAME]);

/* Upper bound of the overshoot in parts per million, assuming that each of the `others` admits as
 * much between two exchanges as this node did: (N - 1) · admitted ÷ limit. No node admits more than
 * the limit. */
uint32_t wr_exchange_overshoot_ppm(uint64_t admitted, uint32_t others, uint32_t capacity,
				   uint64_t sync_ns, uint64_t delay_ns);

/* ---- regions.c: pushing to other regions ---- */

/* Whether a server of the region answers. */
bool wr_central_region_is_up(const struct wr_central *region);

/* The regions that answer, one bit each. */
uint32_t wr_central_regions_up(const struct wr_central *central);

/* Redis of this region has the numbers of the job: pushes them to the other regions. `page` is part
 * of the same reply. */
void wr_central_regions_push(struct wr_central *central, const struct wr_exchange_job *job,
			     const struct wr_exchange_page *page);

/* Shutdown: pushes in flight may not arrive. The next round notifies Redis of that. */
void wr_central_regions_give_up(struct wr_central *central);

/* Number of pushes in flight. */
uint32_t wr_central_regions_in_flight(const struct wr_central *central);

struct wr_central_info;
void wr_central_regions_info(const struct wr_central *central, struct wr_central_info *info);

/* Called when this object is freed: unlinks the home and its regions. */
void wr_central_regions_unlink(struct wr_central *central);

/* ---- relay.c: relaying all data of a counter to another region ---- */

/* Adds the state of the regions to the job. */
void wr_central_relay_fill(struct wr_central *central, struct wr_exchange_job *job);
/* Buffers for tags while the call is written. */
struct wr_central_relay_text {
	char lacking[WR_EXCHANGE_PEERS * WR_EXCHANGE_TAG];
	char reached[WR_EXCHANGE_PEERS * WR_EXCHANGE_TAG];
};
void wr_central_relay_write(const struct wr_central *central, const struct wr_exchange_job *job,
			    struct wr_central_relay_text *text, struct wr_exchange_call *args);
/* The call failed: the failed regions are reported again. */
void wr_central_relay_on_failure(struct wr_central *central, const struct wr_exchange_job *job);

/* Handles the reply. Returns the region that the page is for, or -1. */
int wr_central_relay_on_reply(struct wr_central *central, const struct wr_exchange_job *job,
			      const struct wr_exchange_page *page);
/* The page arrived, up to the name `last`. */
void wr_central_relay_advance(struct wr_exchange_mark *mark, struct weir_str last, bool more);
void wr_central_relay_drop(struct wr_central_exchanges *x, struct wr_exchange_mark *mark);

/* Writes the tag of a region, a hash of its URL: the same on all nodes with the same URL. */
void wr_central_region_tag(const struct wr_redis_target *target, char tag[WR_EXCHANGE_TAG + 1]);

#endif
