/* Exchange of counters for limits with `consistency: eventual`. Every sync_interval, this node
 * reports to Redis how many units it admitted, and charges in its table the units that other nodes
 * admitted. Only counters that were used are sent.
 *
 *   table (store/exchange.h) ──► round ──► exchange script, Redis of this region ──► table
 *                                     └──► push script, Redis of each other region
 *
 * Only the chief loop of a node exchanges counters. A call contains totals, not differences, so a
 * call without an answer is simply sent again in the next round. A node pushes only the units that
 * it admitted itself. If another region does not answer, the bit of that region is set in the table
 * slot, and the Redis of this region stores that the other region may lack data of this counter.
 * Then one node of this region at a time relays all data of the counter to the other region, in
 * pages (relay.c). So the data arrives even if the node that admitted the requests is gone. */
#ifndef WR_CENTRAL_EXCHANGE_H
#define WR_CENTRAL_EXCHANGE_H

#include "central/pool.h"
#include "redis/script_exchange.h"
#include "store/exchange.h"

struct wr_central;
struct wr_central_opts;
struct wr_redis_target;

#define WR_EXCHANGES_MAX 1024u /* maximum number of exchange calls in flight */
#define WR_PUSHES_MAX 1024u    /* maximum number of push calls in flight to one other region */
#define WR_RELAYS_MAX 256u     /* maximum number of counters that one node relays at once */
#define WR_EXCHANGE_OVERSHOOT_NS 10000000000ull

/* The progress of relaying one counter to another region. */
struct wr_central_relay {
	unsigned peer;
	/* True if all data has arrived in the other region, but the Redis of this region does not
	 * know it yet. */
	bool complete;
	uint64_t since_us; /* when relaying began, by the clock of the Redis of this region */
	uint8_t last_len;
	/* Name of the last node whose data has arrived; data is sent in the order of names. */
	char last[WR_EXCHANGE_NAME];
};

/* The data of an exchange call in flight: a copy of a table slot, and what is sent with it. */
struct wr_central_exchange_job {
	int slot;
	uint32_t capacity;
	uint64_t owner; /* this loop's id in the table at the time of the call */
	uint64_t incarnation;
	uint64_t key[2];
	struct wr_redis_exchange_state state;
	uint64_t starts_ns[2]; /* starts of the two windows of `state` */
	uint64_t oldest;       /* number of the oldest window that a node may still need */
	uint64_t unit_ns; /* a window's number is its start since the epoch, divided by unit_ns */
	uint64_t life_us;
	uint64_t admitted; /* number of units that this node admitted since the last round */
	uint64_t sent_ns;  /* when the call was written, monotonic */
	bool used;         /* true if the counter was used since its last exchange */
	bool relays;       /* true if the call tells Redis the progress that `relay` contains */
	struct wr_central_relay relay;
	uint8_t due;     /* the regions to which data must still be pushed, one bit each */
	uint8_t lacking; /* the regions that may lack data of this counter, one bit each */
	uint8_t reached; /* the regions that this node can relay to, one bit each */
	uint8_t id_len;
	char id[WR_EXCHANGE_ID];
};

/* The state of a table slot in the exchange. */
struct wr_central_exchange_mark {
	uint8_t in_flight; /* 1: an exchange with this region's Redis is in flight; 0: none */
	uint8_t pushing;   /* one bit per other region; 1: a push to that region is in flight */
	/* One bit per other region; 1: newer data must be pushed to that region when the push in
	 * flight has ended. */
	uint8_t again;
	/* One bit per other region; 1: a push to that region failed, and the next exchange call
	 * must report this to the Redis of this node's own region. */
	uint8_t lacking;
	struct wr_central_relay *relay;
};

struct wr_central_exchanges {
	uint64_t sync_ns;
	char region[WR_EXCHANGE_REGION + 1];
	uint64_t round_ns; /* start of the next round, monotonic */
	uint64_t end_ns;   /* when the node began to shut down, monotonic; 0: not yet */
	uint32_t cursor;   /* the table slot at which the round continues */
	bool walking;      /* the round is not complete, because too many calls are in flight */
	uint32_t in_flight;
	struct wr_central_pool jobs;
	/* One struct wr_central_exchange_mark for each slot of the table. marks_owner is the id
	 * that this loop had in the table (central->owner) when the marks were made. If
	 * central->owner is another id now, the table was replaced, and the marks are not valid. */
	struct wr_central_exchange_mark *marks;
	uint32_t mark_count;
	uint64_t marks_owner;

	struct wr_central *peers[WR_EXCHANGE_PEERS];
	uint32_t peer_count;
	char tags[WR_EXCHANGE_PEERS][WR_EXCHANGE_TAG + 1];
	uint32_t relay_count;
	bool resend; /* some counters must be sent in the next round even if they were not used */
	/* True if the final round of the shutdown has begun. That round notifies Redis of the
	 * pushes that did not arrive. */
	bool finished;

	/* overshoot_ppm is the largest overshoot of a counter in parts per million: [0] within the
	 * current interval of 10 s, [1] within the interval before. delay_ns is the average
	 * duration of an exchange call. If a push to another region takes longer than delay_ns,
	 * delay_ns is raised to the duration of the push. */
	uint32_t overshoot_ppm[2];
	uint64_t overshoot_ns; /* start of the interval of overshoot_ppm[0], monotonic */
	uint64_t delay_ns;
};

/* Starts exchanging counters if the loop is the chief, has a table, and sync_ns is not 0. Otherwise
 * does nothing. Returns false if there is no memory. */
bool wr_central_exchanges_start(struct wr_central *central, const struct wr_central_opts *opts);
void wr_central_exchanges_free(struct wr_central *central);
void wr_central_exchanges_tick(struct wr_central *central);
/* Called repeatedly at shutdown. Sends the units admitted since the last round. Returns 0 when all
 * calls have ended, or after one second; until then returns a number above 0. */
uint32_t wr_central_exchanges_finish(struct wr_central *central);
uint32_t wr_central_exchanges_overshoot(const struct wr_central *central);

/* Writes the name under which Redis stores the units that this node admitted, for example
 * "eu/1f2e3d4c.0123456789abcdef". Returns the length of the name. */
size_t wr_central_exchange_holder(const struct wr_central *central, uint64_t incarnation,
				  char name[WR_EXCHANGE_NAME]);

/* Estimates the largest overshoot, in parts per million of `capacity`. This node admitted
 * `admitted` units within sync_ns, and each of the `others` other nodes is assumed to admit units
 * at the same rate. This node does not yet know the units that they have admitted within the last
 * sync_ns + delay_ns. The overshoot is the sum of these units, with at most `capacity` units for
 * each node. */
uint32_t wr_central_exchange_overshoot_ppm(uint64_t admitted, uint32_t others, uint32_t capacity,
					   uint64_t sync_ns, uint64_t delay_ns);

/* ---- regions.c: pushing to other regions ---- */

/* Returns whether at least one server of the region's Redis answers. */
bool wr_central_region_is_up(const struct wr_central *region);

/* Returns the other regions whose Redis answers, one bit each. */
uint32_t wr_central_regions_up(const struct wr_central *central);

/* Called when the Redis of this region has stored the units of the job. Pushes these units to the
 * other regions. `page` comes from the reply to the job's exchange call. It contains states of
 * other nodes, which may have to be relayed. */
void wr_central_regions_push(struct wr_central *central, const struct wr_central_exchange_job *job,
			     const struct wr_redis_exchange_page *page);

/* Called at shutdown. Marks the pushes in flight as failed, because it is unknown whether they
 * arrive. The next round notifies Redis of these failures. */
void wr_central_regions_give_up(struct wr_central *central);

/* Returns the number of pushes in flight to all other regions. */
uint32_t wr_central_regions_in_flight(const struct wr_central *central);

struct wr_central_info;
void wr_central_regions_info(const struct wr_central *central, struct wr_central_info *info);

/* Called when `central` is freed. Removes the pointers from `central` to the struct wr_central of
 * other regions, and their pointers to `central`. */
void wr_central_regions_unlink(struct wr_central *central);

/* ---- relay.c: relaying all data of a counter to another region ---- */

/* Adds to the job which regions lack data, which regions can be reached, and which region this node
 * is relaying to. */
void wr_central_relay_fill(struct wr_central *central, struct wr_central_exchange_job *job);
/* Buffers for the tags of regions (see wr_central_region_tag), needed while the exchange call is
 * written. */
struct wr_central_relay_text {
	char lacking[WR_EXCHANGE_PEERS * WR_EXCHANGE_TAG];
	char reached[WR_EXCHANGE_PEERS * WR_EXCHANGE_TAG];
};
void wr_central_relay_write(const struct wr_central *central,
			    const struct wr_central_exchange_job *job,
			    struct wr_central_relay_text *text,
			    struct wr_redis_exchange_call *args);
/* Called when the exchange call of the job has failed. The next exchange call of the table slot
 * will report again which regions lack data. */
void wr_central_relay_on_failure(struct wr_central *central,
				 const struct wr_central_exchange_job *job);

/* Called when the exchange call of the job was answered. `page` comes from the reply. It contains
 * states of other nodes and the tag of the region to which this node must relay them. Returns the
 * index of this region, or -1 if nothing is to be relayed. */
int wr_central_relay_on_reply(struct wr_central *central, const struct wr_central_exchange_job *job,
			      const struct wr_redis_exchange_page *page);
/* Called when a page of relayed states has arrived in the other region. `last` is the name of the
 * last node in the page. `more` is true if another page follows. */
void wr_central_relay_advance(struct wr_central_exchange_mark *mark, struct weir_str last,
			      bool more);
void wr_central_relay_drop(struct wr_central_exchanges *x, struct wr_central_exchange_mark *mark);

/* Writes the tag of a region: a hash of its URL, by which nodes identify the region. All nodes that
 * use the same URL get the same tag. */
void wr_central_region_tag(const struct wr_redis_target *target, char tag[WR_EXCHANGE_TAG + 1]);

#endif
