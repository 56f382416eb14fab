/* Limits that are `eventual`: what this node admitted by itself is told to Redis, and what others
 * admitted is charged here, every sync_interval and only where something was used.
 *
 *   table (store/exchange.h) ──► turn ──► exchange script, own Redis ──► table: what others
 * admitted └──► push script, the Redis of each other region
 *
 * The chief loop does it for its node. Whatever is not answered is said again in the next turn, in
 * full, for numbers are absolute. A node pushes its own numbers only. A region that does not answer
 * is owed them, a bit in the slot; and the own Redis is told that the region may lack something of
 * this counter. Then one node at a time, any of those that use the counter, relays to that region
 * all that the own one has, in pages (relay.c): so it arrives too where the node that admitted it
 * is gone. */
#ifndef WR_CENTRAL_EXCHANGE_H
#define WR_CENTRAL_EXCHANGE_H

#include "redis/script_exchange.h"
#include "store/exchange.h"

struct wr_central;
struct wr_central_opts;
struct wr_redis_target;

#define WR_EXCHANGES_MAX 1024u /* calls without a reply */
#define WR_PUSHES_MAX 1024u    /* … to one other region */
#define WR_RELAYS_MAX 256u     /* counters of which all is told, at once */
#define WR_EXCHANGE_OVERSHOOT_NS 10000000000ull

/* All that the own region has of a counter, on its way to another one. */
struct wr_central_relay {
	unsigned peer;
	bool complete;     /* all has arrived, and the own Redis does not know yet */
	uint64_t since_us; /* by the clock of the own Redis */
	uint8_t last_len;
	char last[WR_EXCHANGE_NAME]; /* the last name that has arrived */
};

/* A counter under way, as its slot was when it was read. */
struct wr_exchange_job {
	struct wr_exchange_job *next; /* of those that are free */
	int slot;
	uint32_t capacity;
	uint64_t owner; /* ours, when it was sent: with another table we have another one */
	uint64_t incarnation;
	uint64_t key[2];
	struct wr_exchange_state state;
	uint64_t starts_ns[2]; /* of the state's windows */
	uint64_t oldest;       /* window that somebody may still ask for */
	uint64_t unit_ns;      /* windows are numbered in multiples of this */
	uint64_t life_us;
	uint64_t admitted; /* since the turn before */
	uint64_t sent_ns;  /* mono */
	bool used;         /* … or something else to tell */
	bool relays;       /* what follows is said, too */
	struct wr_central_relay relay;
	uint8_t due;     /* regions that are owed something, a bit each */
	uint8_t lacking; /* … that this node did not reach */
	uint8_t reached; /* … that it could relay to */
	uint8_t id_len;
	char id[WR_EXCHANGE_ID];
};

/* Of a slot: what is under way, a bit for each region where that is not one. */
struct wr_exchange_mark {
	uint8_t in_flight; /* to the own Redis */
	uint8_t pushing;   /* to others */
	uint8_t again;     /* … and there is more to be told already */
	uint8_t lacking;   /* a push has failed, and the own Redis does not know yet */
	struct wr_central_relay *relay;
};

struct wr_central_exchanges {
	uint64_t sync_ns;
	char region[WR_EXCHANGE_REGION + 1];
	uint64_t turn_ns; /* mono: when the next one is */
	uint64_t end_ns;  /* … when the node began to shut down; 0: it has not */
	uint32_t cursor;  /* how far this one has come */
	bool walking;     /* it has more than could be sent so far */
	uint32_t in_flight;
	struct wr_exchange_job *free, *jobs;
	struct wr_exchange_mark *marks; /* of the slots of this owner's table */
	uint32_t mark_count;
	uint64_t marks_owner;

	struct wr_central *peers[WR_EXCHANGE_PEERS];
	uint32_t peer_count;
	char tags[WR_EXCHANGE_PEERS][WR_EXCHANGE_TAG + 1];
	uint32_t relay_count;
	bool resend;   /* the next turn has something to say, whether or not there is more use */
	bool finished; /* shutting down: what does not arrive any more was made known */

	/* How far beyond its limit a counter may be, in millionths: the worst of the last 10 s and
	 * of those before. And how long an exchange takes, all regions included. */
	uint32_t overshoot_ppm[2];
	uint64_t overshoot_ns; /* mono: since when [0] */
	uint64_t delay_ns;
};

/* Without a table, sync_ns or a chief's duties there is nothing to do. False: no memory. */
bool wr_central_exchanges_start(struct wr_central *central, const struct wr_central_opts *opts);
void wr_central_exchanges_free(struct wr_central *central);
void wr_central_exchanges_tick(struct wr_central *central);
/* The node shuts down: what was used since the last turn is said at once. How many calls are still
 * under way: 0 after a second at most. */
uint32_t wr_central_exchanges_finish(struct wr_central *central);
uint32_t wr_central_exchanges_overshoot(const struct wr_central *central);

/* "eu/1f2e3d4c.0123456789abcdef": whom the numbers of a slot are of. */
size_t wr_central_exchange_holder(const struct wr_central *central, uint64_t incarnation,
				  char name[WR_EXCHANGE_NAME]);

/* Beyond its limit by so many millionths at most, if `others` admit as much between two exchanges
 * as this node did: (N - 1) · admitted ÷ limit, and never more than all of them their own limit. */
uint32_t wr_exchange_overshoot_ppm(uint64_t admitted, uint32_t others, uint32_t capacity,
				   uint64_t sync_ns, uint64_t delay_ns);

/* ---- regions.c ---- */

/* Whether some server of the region answers. */
bool wr_central_region_is_up(const struct wr_central *region);

/* Regions that answer, a bit each. */
uint32_t wr_central_regions_up(const struct wr_central *central);

/* The own Redis has it: others are owed it, and told as far as they answer. The page is that of the
 * reply. */
void wr_central_regions_push(struct wr_central *central, const struct wr_exchange_job *job,
			     const struct wr_exchange_page *page);

/* The node shuts down, and pushes that are under way may not arrive: in the next turn the own Redis
 * is told so. */
void wr_central_regions_give_up(struct wr_central *central);

/* Calls to them that are under way. */
uint32_t wr_central_regions_in_flight(const struct wr_central *central);

struct wr_central_info;
void wr_central_regions_info(const struct wr_central *central, struct wr_central_info *info);

/* One of the two is going: no more is told. */
void wr_central_regions_unlink(struct wr_central *central);

/* ---- relay.c ---- */

/* What is said of regions in a call about this slot. */
void wr_central_relay_fill(struct wr_central *central, struct wr_exchange_job *job);
/* Room for tags, as long as the call is being written. */
struct wr_central_relay_text {
	char lacking[WR_EXCHANGE_PEERS * WR_EXCHANGE_TAG];
	char reached[WR_EXCHANGE_PEERS * WR_EXCHANGE_TAG];
};
void wr_central_relay_write(const struct wr_central *central, const struct wr_exchange_job *job,
			    struct wr_central_relay_text *text, struct wr_exchange_call *args);
/* The call failed: all that is to be said again. */
void wr_central_relay_on_failure(struct wr_central *central, const struct wr_exchange_job *job);

/* The reply: the region that the page is for, or -1. What was relayed before and is not any more is
 * forgotten. */
int wr_central_relay_on_reply(struct wr_central *central, const struct wr_exchange_job *job,
			      const struct wr_exchange_page *page);
/* The page has arrived, up to this name. */
void wr_central_relay_advance(struct wr_exchange_mark *mark, struct weir_str last, bool more);
void wr_central_relay_drop(struct wr_central_exchanges *x, struct wr_exchange_mark *mark);

/* What stands for the region in Redis: the same for all nodes that are told the same URL. */
void wr_central_region_tag(const struct wr_redis_target *target, char tag[WR_EXCHANGE_TAG + 1]);

#endif
