/* The limiter's questions, asked of Redis.
 *
 * There is one struct wr_central per loop, used by the loop's thread only. It does no I/O and reads
 * no clock: the host (the loop) opens connections, moves bytes, passes the time in, and calls
 * wr_central_tick when asked to.
 *
 *   wr_central_new(&opts, &host, context, now, mono, &central, &error);
 *   wr_central_take(central, &ask, question, len, now, mono);   // calls ask.done once
 *   before the loop sleeps, for each link that host.dirty was called for:
 *           while (wr_central_link_output(link, &bytes, &len)) { write; wr_central_link_sent(link, written); }
 *   when bytes arrive: wr_central_link_input(link, bytes, len, now, mono);
 *
 * Guarantees:
 *   Callback  `done` is called exactly once for each take: at once, within timeout_ns, or by
 *             wr_central_free. It is never called after wr_central_cancel.
 *   Calls     A take, give-back or report is sent once. It is repeated only if Redis replies that
 *             it did not execute it (NOSCRIPT, MOVED, ASK, TRYAGAIN). Reports are also repeated
 *             after a lost reply: Redis recognises them by their number.
 *   Batches   All calls between two calls of wr_central_link_output are sent in one write. Takes of the
 *             same counter and cost are merged into one call.
 *   Memory    is bounded and comes from pools. A decision allocates nothing once the pools have
 *             grown to the load.
 *   Reentry   `done` may call all functions except wr_central_free and wr_central_tick. The host's
 *             `open` may call wr_central_link_down, and `message` may call wr_central_forget. The other
 *             callbacks must not call functions of this header.
 *
 * now_ns is CLOCK_REALTIME and mono_ns is wr_mono_ns(). All timeouts use mono_ns. */
#ifndef WR_CENTRAL_CENTRAL_H
#define WR_CENTRAL_CENTRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "limiter/question.h"
#include "redis/error.h"
#include "redis/url.h"

struct wr_central;
struct wr_central_link;

#define WR_CENTRAL_TIMEOUT_NS 250000000u /* default */
#define WR_CENTRAL_SECRET 192u           /* bytes of the fleet's secret */
#define WR_CENTRAL_MESSAGE_MAX 4096u     /* bytes of a control message */
#define WR_CENTRAL_ANSWER_MAX                                                                      \
	(sizeof(struct wr_question_head) + WEIR_NEEDS_MAX * sizeof(struct wr_answer))

struct wr_central_opts {
	const struct wr_redis_target *target; /* must outlive the struct wr_central */
	const char *prefix; /* of every key: printable, no braces, no blanks; NULL: "weir" */
	/* The fleet's secret, copied. NULL: the nodes agree on one in Redis. */
	const uint8_t *secret;
	uint64_t timeout_ns; /* for connecting and for a question; 0: WR_CENTRAL_TIMEOUT_NS */
	uint64_t holder[2];  /* the table's id, which identifies this node */
	uint32_t number;     /* of the loop, from 0, unique within the node */
	/* Whether this is the chief loop, of which a process has one. It performs the tasks that a
	 * node performs once: agrees on the secret, counts the nodes, reads control messages,
	 * checks server settings. */
	bool chief;
	uint64_t seed; /* for jitter: different in every loop and process */
	/* The table in which units of limits with `consistency: lease` are stored for all processes
	 * of the node, and this loop's id in it: random, not 0. NULL: no units are borrowed. */
	struct weir_table *table;
	uint64_t owner;
	uint32_t fleet_size; /* nodes, used until they have been counted */
	/* For the chief, limits with `consistency: eventual`: the interval at which nodes exchange
	 * counters (0: never), and the name of the region, if there are several. */
	uint64_t sync_ns;
	const char *region;
};

enum wr_say {
	WR_CENTRAL_LOG_ERROR,
	WR_CENTRAL_LOG_WARN,
	WR_CENTRAL_LOG_INFO,
};

struct wr_central_host {
	/* Connect to link->at, with TLS if link->tls is set. Resolve the name every time. Call
	 * wr_central_link_up or wr_central_link_down afterwards. The host needs no timeout of its own. */
	void (*open)(void *context, struct wr_central_link *link);
	/* Close the connection and drop the pointer. Not called after wr_central_link_down. */
	void (*close)(void *context, struct wr_central_link *link);
	/* The link has output: fetch it before the loop sleeps. Called once until wr_central_link_output
	 * returns false. */
	void (*dirty)(void *context, struct wr_central_link *link);
	/* Call wr_central_tick at this time or slightly later. Replaces the last call. */
	void (*wake_at)(void *context, uint64_t mono_ns);
	/* Log one line. Called once per event. The text contains no secrets. */
	void (*log)(void *context, enum wr_say level, const char *text);
	/* Chief: the fleet's secret is known, or has changed. */
	void (*secret)(void *context, const uint8_t secret[WR_CENTRAL_SECRET]);
	/* Chief, every 2 s: number of nodes, including this one, that were active within the last
	 * 10 s. */
	void (*nodes)(void *context, uint32_t nodes);
	/* Chief: a control message, and its age by the clock of Redis. Messages come in the order
	 * of the stream, beginning with the oldest stored one. `own`: this node published it. If
	 * two messages contradict each other, the later one in the stream wins. After a failover a
	 * message may come twice. */
	void (*message)(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own);
};

/* Returns 0, WEIR_EINVAL (options) or WEIR_EMEMORY. Copies `host`. May call host->open before it
 * returns. */
int wr_central_new(const struct wr_central_opts *opts, const struct wr_central_host *host,
		   void *context, uint64_t now_ns, uint64_t mono_ns, struct wr_central **out,
		   struct weir_error *error);

/* Ends all asks as failed, and closes all links. */
void wr_central_free(struct wr_central *central);

void wr_central_tick(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);

/* ---- questions ---- */

struct wr_central_part;

/* A question in flight. The caller provides the memory, and must not move it until `done` was
 * called or wr_central_cancel returned. */
struct wr_central_ask {
	/* Called with the answer, for weir_ask_answer. Items that could not be decided have
	 * WR_ANSWER_FAILED. If len is 0, the question was malformed or there was no memory: call
	 * weir_ask_store_failed. The bytes are valid until the function returns. */
	void (*done)(struct wr_central_ask *ask, const void *answer, size_t len);

	/* Private. */
	struct wr_central *central; /* NULL: not in flight */
	struct wr_central_ask *before, *behind;
	struct wr_central_part *parts;
	uint64_t deadline_mono_ns;
	uint16_t count, open; /* items, and items without an answer */
};

/* Asks a question of kind TAKE. The bytes are not needed after the call. */
void wr_central_take(struct wr_central *central, struct wr_central_ask *ask, const void *question,
		     size_t len, uint64_t now_ns, uint64_t mono_ns);

/* Cancels an ask: `done` will not be called, and units that Redis still grants are given back. Does
 * nothing for an ask that is zeroed or has ended. */
void wr_central_cancel(struct wr_central *central, struct wr_central_ask *ask);

/* Sends a question of kind RETURN, REPORT, LATE or RESET, which has no answer. A RETURN that cannot
 * be sent is lost and counted. A REPORT waits until its shard is back; the number of reports is
 * bounded. A LATE take is deducted from a REPORT, or given back. A RESET also drops remembered
 * refusals. */
void wr_central_send(struct wr_central *central, const void *question, size_t len, uint64_t now_ns,
		     uint64_t mono_ns);

/* Drops remembered refusals, which last up to one second: those of a key, or all (NULL). For resets
 * and grants that another loop or node made. */
void wr_central_forget(struct wr_central *central, const uint64_t key[2]);

/* Publishes a control message to all other nodes. It is stored until Redis has it. Returns 0, or
 * WEIR_EROOM if it is too long or too many are waiting. */
int wr_central_publish(struct wr_central *central, const void *bytes, size_t len, uint64_t mono_ns);

/* ---- leases ---- */

/* Sets another table, and this loop's id in it. Units borrowed for the old table expire. */
void wr_central_set_table(struct wr_central *central, struct weir_table *table, uint64_t owner);

/* Begins to shut down: returns all borrowed units, borrows no more, and sends the units admitted
 * since the last exchange. Returns the number of operations that are not finished; 0 after one
 * second at most. May be called repeatedly. */
uint32_t wr_central_shut_down(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);

/* Adds the store of another region, to which the units admitted here are pushed. `peer` has a
 * target of its own and is not the chief; free it before `central`. The order of the regions must
 * not change: the table stores per number which region lacks data. */
void wr_central_add_region(struct wr_central *central, struct wr_central *peer);

/* ---- connections ---- */

enum wr_central_link_purpose {
	WR_CENTRAL_LINK_DATA,
	WR_CENTRAL_LINK_SENTINEL,
};

struct wr_central_link {
	struct wr_endpoint at; /* NAME, V4, V6 or UNIX */
	bool tls;
	enum wr_central_link_purpose purpose;
	void *data; /* for use by the host */
};

/* The connection is established, including TLS. */
void wr_central_link_up(struct wr_central_link *link, uint64_t now_ns, uint64_t mono_ns);
/* The connection could not be established, or was lost; `why` is for the log. The host must have
 * dropped the link. */
void wr_central_link_down(struct wr_central_link *link, const char *why, uint64_t now_ns,
			  uint64_t mono_ns);
/* Bytes have arrived. May call host->close. */
void wr_central_link_input(struct wr_central_link *link, const uint8_t *bytes, size_t len,
			   uint64_t now_ns, uint64_t mono_ns);
/* Returns all bytes to be written, valid until wr_central_link_sent; false if there are none. */
bool wr_central_link_output(struct wr_central_link *link, const uint8_t **bytes, size_t *len);
void wr_central_link_sent(struct wr_central_link *link, size_t len);

/* ---- state and counters ---- */

/* X(field, meaning): counters of a loop since its start, or of one shard. */
#define WR_CENTRAL_COUNTS(X)                                                                       \
	X(asked, "limits that Redis was asked to decide")                                          \
	X(admitted, "limits that admitted")                                                        \
	X(refused, "limits that refused")                                                          \
	X(failed, "limits that could not be decided")                                              \
	X(remembered, "limits refused from memory, without asking Redis")                          \
	X(calls, "script calls sent")                                                              \
	X(merged, "takes that were merged into another call")                                      \
	X(again, "calls repeated because Redis had not executed them")                             \
	X(late, "replies that came after the timeout")                                             \
	X(returned, "give-backs executed")                                                         \
	X(returns_lost, "give-backs that were lost: their units stay used")                        \
	X(reported, "reports confirmed after an outage")                                           \
	X(reports_stale, "reports dropped because their windows had ended")                        \
	X(reports_lost, "reports lost, or dropped for lack of room")                               \
	X(connects, "connections made")                                                            \
	X(opened, "times that a breaker opened")                                                   \
	X(leases_granted, "leases granted")                                                        \
	X(renewals, "leases renewed")                                                              \
	X(leases_voided, "leases that Redis had lost, or that were reset")                         \
	X(units_granted, "units borrowed")                                                         \
	X(units_spent, "borrowed units that were spent")                                           \
	X(units_returned, "borrowed units that were returned")                                     \
	X(units_burnt, "borrowed units that expired unspent, or that Redis had lost")              \
	X(exchanges, "counters exchanged with other nodes")                                        \
	X(exchanges_failed, "exchanges that failed and will be repeated")                          \
	X(pushes, "counters pushed to other regions")                                              \
	X(pushes_failed, "pushes that failed and will be repeated")

struct wr_central_counts {
#define WR_CENTRAL_COUNT_FIELD(field, text) uint64_t field;
	WR_CENTRAL_COUNTS(WR_CENTRAL_COUNT_FIELD)
#undef WR_CENTRAL_COUNT_FIELD
	uint64_t faults[WR_FAULT_COUNT];
};

/* X(enum, name) */
#define WR_CENTRAL_SHARD_STATES(X)                                                                 \
	X(WR_CENTRAL_SHARD_CONNECTING, "connecting")                                               \
	X(WR_CENTRAL_SHARD_UP, "up")                                                               \
	X(WR_CENTRAL_SHARD_HALF_OPEN, "half-open")                                                 \
	X(WR_CENTRAL_SHARD_DOWN, "open")

enum wr_central_shard_state {
#define WR_CENTRAL_SHARD_STATE_ENUM(name, text) name,
	WR_CENTRAL_SHARD_STATES(WR_CENTRAL_SHARD_STATE_ENUM)
#undef WR_CENTRAL_SHARD_STATE_ENUM
};

const char *wr_central_shard_state_name(enum wr_central_shard_state state);

/* A server that questions are sent to. */
struct wr_central_shard_info {
	char at[WR_ENDPOINT_TEXT];
	enum wr_central_shard_state state;
	uint32_t slots;      /* of a cluster: slots that it owns */
	uint32_t under_way;  /* calls without a reply */
	uint64_t back_at_ns; /* state "open": time of the next probe, monotonic */
	char trouble[160];   /* the last fault as text, or "" */
	char version[24];    /* from INFO, read by the chief; "" */
	char policy[24];     /* maxmemory-policy; "" */
	int8_t aof;          /* 1 on, 0 off, -1 unknown */
	struct wr_central_counts counts;
};

#define WR_CENTRAL_SHARDS_SHOWN 64

struct wr_central_info {
	struct wr_central_counts counts; /* of all shards, including removed ones */
	uint32_t nodes;                  /* nodes of the fleet; 0: unknown */
	bool secret_known;
	bool any_up;              /* at least one shard answers */
	bool all_up;              /* every shard answers */
	uint32_t waiting;         /* takes in flight */
	uint32_t reports_waiting; /* counters in reports that wait for their shard */
	uint32_t leases;          /* leases held */
	uint64_t leased_units;    /* unspent units in leases, as of the last check */
	uint32_t regions;         /* other regions that units are pushed to */
	uint32_t regions_up;      /* regions whose store answers */
	uint32_t overshoot_ppm;   /* worst overshoot of limits that are `eventual` */
	uint32_t shard_count;     /* all shards; shards_shown of them are listed: */
	uint32_t shards_shown;
	struct wr_central_shard_info shards[WR_CENTRAL_SHARDS_SHOWN];
};

/* The structure is large: not for the stack of a small thread. */
void wr_central_info(const struct wr_central *central, struct wr_central_info *info);

#endif
