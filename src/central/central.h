/* Sends the limiter's questions to Redis, and passes the answers back.
 *
 * There is one struct wr_central per loop, used by the loop's thread only. It does no I/O and reads
 * no clock: the host (the loop) opens connections, moves bytes, passes the time in, and calls
 * wr_central_tick at the time that host.wake_at sets. A call, in this folder, is a command to
 * Redis.
 *
 *   wr_central_new(&opts, &host, context, now, mono, &central, &error);
 *   wr_central_take(central, &ask, question, len, now, mono);   // calls ask.done once
 *   before the loop sleeps, for each link that host.dirty was called for:
 *           while (wr_central_link_output(link, &bytes, &len)) {
 *                   write; wr_central_link_sent(link, written); }
 *   when bytes arrive: wr_central_link_input(link, bytes, len, now, mono);
 *
 * Guarantees:
 *   Callback  `done` is called exactly once for each take: at once, within timeout_ns, or by
 *             wr_central_free. It is never called after wr_central_cancel.
 *   Calls     A take or a give-back is repeated only if Redis replies that it did not execute the
 *             call (NOSCRIPT, MOVED, ASK, TRYAGAIN). A report is repeated after a lost reply as
 *             well, because Redis recognises it by its sequence number.
 *   Batches   All calls made since the last wr_central_link_output are sent in one write.
 *             Takes of the same counter and cost are merged into one call.
 *   Memory    is bounded and comes from pools. A decision allocates nothing once the pools have
 *             grown to the load.
 *   Reentry   `done` is allowed to call all functions of this header except wr_central_free and
 *             wr_central_tick. The host's `open` is allowed to call wr_central_link_down, and
 *             `message` is allowed to call wr_central_forget. The other callbacks must not call
 *             functions of this header.
 *
 * now_ns is CLOCK_REALTIME and mono_ns is wr_clock_boot_ns(). All timeouts use mono_ns. */
#ifndef WR_CENTRAL_CENTRAL_H
#define WR_CENTRAL_CENTRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/list.h"
#include "limiter/question.h"
#include "redis/error.h"
#include "redis/url.h"

struct wr_central;
struct wr_central_link;

#define WR_CENTRAL_TIMEOUT_NS 250000000u /* default of wr_central_opts.timeout_ns */
#define WR_CENTRAL_SECRET 192u           /* length of the fleet's secret in bytes */
#define WR_CENTRAL_MESSAGE_MAX 4096u     /* maximum length of a control message in bytes */
#define WR_CENTRAL_ANSWER_MAX                                                                      \
	(sizeof(struct wr_question_head) + WEIR_NEEDS_MAX * sizeof(struct wr_answer))

struct wr_central_opts {
	const struct wr_redis_target *target; /* must outlive the struct wr_central */
	/* The prefix of every key. It is printable, without braces and blanks. NULL means
	 * "weir". */
	const char *prefix;
	/* The fleet's secret, with which keys are hashed. It is copied. If it is NULL, the nodes
	 * agree on a secret, which is stored in Redis. */
	const uint8_t *secret;
	/* Maximum time between a question and its answer. If connecting takes longer than this, the
	 * circuit breaker of the shard opens. 0 means WR_CENTRAL_TIMEOUT_NS. */
	uint64_t timeout_ns;
	uint64_t holder[2]; /* the table's id, which identifies this node */
	/* The loop's number within the node, from 0; no two loops have the same number. */
	uint32_t number;
	/* True for the chief loop. Each process has one chief loop. It performs the tasks that must
	 * not be repeated in every loop: it agrees with other nodes on the secret, counts the
	 * nodes, reads control messages, and checks the settings of the servers. */
	bool chief;
	/* Seed of the random numbers that vary pauses. It must differ between all loops and
	 * processes. */
	uint64_t seed;
	/* The table that stores the borrowed (leased) units of limits with `consistency: lease` for
	 * all processes of the node. NULL: this loop borrows no units. `owner` is this loop's id in
	 * the table: a random number other than 0. */
	struct weir_table *table;
	uint64_t owner;
	/* Id of the latest control message that this node has carried out before. The chief reads
	 * the stream from there. 0-0: the whole stream. */
	uint64_t read_ms, read_seq;
	uint32_t fleet_size; /* number of nodes to assume until the nodes have been counted */
	/* sync_ns and `region` are used only by the chief, for limits with `consistency: eventual`.
	 * sync_ns is the interval at which this node exchanges counters with other nodes (0:
	 * never). `region` is the name of this node's region, or NULL if there is only one
	 * region. */
	uint64_t sync_ns;
	const char *region;
};

enum wr_central_log_level {
	WR_CENTRAL_LOG_ERROR,
	WR_CENTRAL_LOG_WARN,
	WR_CENTRAL_LOG_INFO,
};

struct wr_central_host {
	/* The host must connect to link->at, with TLS if link->tls is set, and resolve the name
	 * every time. Afterwards the host must call wr_central_link_up or wr_central_link_down. The
	 * host needs no timeout of its own: if connecting takes too long, `close` is called. */
	void (*open)(void *context, struct wr_central_link *link);
	/* The host must close the connection and drop its pointer to the link. `close` is not
	 * called for a link that the host has passed to wr_central_link_down. */
	void (*close)(void *context, struct wr_central_link *link);
	/* The link has output, which the host must fetch with wr_central_link_output before the
	 * loop sleeps. `dirty` is not called again for this link until wr_central_link_output has
	 * returned false. */
	void (*dirty)(void *context, struct wr_central_link *link);
	/* The host must call wr_central_tick at mono_ns or slightly later. Each call of `wake_at`
	 * replaces the time of the call before. */
	void (*wake_at)(void *context, uint64_t mono_ns);
	/* The host must log `text`, which contains no secrets. `log` is called once per event. */
	void (*log)(void *context, enum wr_central_log_level level, const char *text);
	/* Called in the chief loop when the fleet's secret has become known, or has changed. */
	void (*secret)(void *context, const uint8_t secret[WR_CENTRAL_SECRET]);
	/* Called in the chief loop every 2 s with the number of nodes that were active within the
	 * last 10 s, including this one. */
	void (*nodes)(void *context, uint32_t nodes);
	/* Called in the chief loop with a control message, which was read from a stream in Redis.
	 * age_ns is the message's age by the clock of Redis. Messages come in the order of the
	 * Redis stream, beginning with the oldest stored message. `own` is true if this node
	 * published the message. If two messages contradict each other, the later message wins.
	 * After a failover a message may come twice. Returns true if the call took some
	 * milliseconds. After a few of these calls, the chief lets its loop do other work before
	 * it passes further messages. */
	bool (*message)(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own);
};

/* Creates *out, and copies `host`. Returns 0, WEIR_EINVAL (invalid options) or WEIR_EMEMORY. May
 * call host->open before it returns. */
int wr_central_new(const struct wr_central_opts *opts, const struct wr_central_host *host,
		   void *context, uint64_t now_ns, uint64_t mono_ns, struct wr_central **out,
		   struct weir_error *error);

/* Ends all asks as failed, closes all links, and frees the structure. */
void wr_central_free(struct wr_central *central);

void wr_central_tick(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);

/* ---- questions ---- */

struct wr_central_part;

/* A question in flight. The caller provides the memory, and must not move it until `done` was
 * called or wr_central_cancel returned. */
struct wr_central_ask {
	/* Called with the answer, which the caller passes to weir_ask_answer. Limits that could not
	 * be decided have the flag WR_ANSWER_FAILED in the answer. If len is 0, the question was
	 * malformed or there was no memory; the caller must then call weir_ask_store_failed. The
	 * bytes of the answer are valid until `done` returns. */
	void (*done)(struct wr_central_ask *ask, const void *answer, size_t len);

	/* The fields below are private. */
	struct wr_central *central; /* NULL: the ask is not in flight */
	struct wr_list link;
	struct wr_central_part *parts;
	uint64_t deadline_mono_ns;
	uint16_t count, open; /* number of all limits, and number of limits without an answer */
};

/* Sends a question of kind TAKE or SETTLE, and calls ask->done once with the answer. The bytes of
 * the question are not used after this function has returned. After a SETTLE without an answer, it
 * is not known whether Redis has executed it. A second SETTLE with the same marker is then refused,
 * or executed. */
void wr_central_take(struct wr_central *central, struct wr_central_ask *ask, const void *question,
		     size_t len, uint64_t now_ns, uint64_t mono_ns);

/* Cancels an ask: `done` will not be called. Units that Redis has taken or will take for the ask
 * are given back. A SETTLE is not undone, but if it was not written yet, it is not sent. Has no effect on an ask that is zeroed or has ended. */
void wr_central_cancel(struct wr_central *central, struct wr_central_ask *ask);

/* Sends a question of kind RETURN, REPORT, LATE or RESET. The caller gets no answer. A RETURN that
 * cannot be sent is lost and counted as lost. A REPORT waits until its shard is available; the
 * number of waiting reports is limited. LATE lists late takes: their units are deducted from a
 * REPORT of the same counter, or given back. A RESET deletes counters in Redis. It also drops what
 * this loop remembers of the key: refusals, leases and late takes. */
void wr_central_send(struct wr_central *central, const void *question, size_t len, uint64_t now_ns,
		     uint64_t mono_ns);

/* Drops the remembered refusals of a key, or of all keys if `key` is NULL. If `key` is not NULL,
 * also ends the leases of the key. The host calls this function after another loop or node has
 * reset a counter or granted units. Otherwise this loop would repeat an old refusal for up to one
 * second. */
void wr_central_forget(struct wr_central *central, const uint64_t key[2]);

#define WR_MESSAGES_MAX 1024u /* maximum number of messages that wait for Redis */

/* Publishes a control message (an operator's command or an automatic ban) to all other nodes. The
 * message is kept in memory until Redis has stored it. Returns 0, or WEIR_EROOM if the message is
 * too long or WR_MESSAGES_MAX messages are waiting. */
int wr_central_publish(struct wr_central *central, const void *bytes, size_t len, uint64_t mono_ns);

/* Sets *ms and *seq to the id of the latest control message that was passed to host->message(). */
void wr_central_read_place(const struct wr_central *central, uint64_t *ms, uint64_t *seq);

/* Returns the number of published messages that Redis has not stored yet. */
uint32_t wr_central_publishing(const struct wr_central *central);

/* ---- leases ---- */

/* Replaces the table, and this loop's id in the table. Units borrowed for the old table expire. */
void wr_central_set_table(struct wr_central *central, struct weir_table *table, uint64_t owner);

/* Begins to shut down: returns all borrowed units, borrows no more, and sends the units admitted
 * since the last exchange. Returns the number of unfinished operations. The caller calls this
 * function repeatedly until it returns 0, which takes at most one second. */
uint32_t wr_central_shut_down(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);

/* Adds another region. The units admitted by this node are pushed to the Redis of that region.
 * `peer` is a struct wr_central that connects to that Redis and is not the chief. The caller frees
 * `peer` before `central`. Regions must always be added in the same order: the table identifies a
 * region by its position in this order. */
void wr_central_add_region(struct wr_central *central, struct wr_central *peer);

/* ---- connections ---- */

enum wr_central_link_purpose {
	WR_CENTRAL_LINK_DATA,
	WR_CENTRAL_LINK_SENTINEL,
};

struct wr_central_link {
	struct wr_endpoint at; /* the server's address, of kind NAME, V4, V6 or UNIX */
	bool tls;
	enum wr_central_link_purpose purpose;
	void *data; /* for use by the host */
};

/* Called by the host when the connection is established, including TLS. */
void wr_central_link_up(struct wr_central_link *link, uint64_t now_ns, uint64_t mono_ns);
/* Called by the host when the connection could not be established, or was lost. `why` is a text for
 * the log. Before this call, the host must have dropped its pointer to the link. */
void wr_central_link_down(struct wr_central_link *link, const char *why, uint64_t now_ns,
			  uint64_t mono_ns);
/* Called by the host when bytes have arrived. May call host->close. */
void wr_central_link_input(struct wr_central_link *link, const uint8_t *bytes, size_t len,
			   uint64_t now_ns, uint64_t mono_ns);
/* If there are bytes to be written, sets *bytes and *len to all of these bytes and returns true.
 * Otherwise returns false. The bytes are valid until wr_central_link_sent is called. */
bool wr_central_link_output(struct wr_central_link *link, const uint8_t **bytes, size_t *len);
void wr_central_link_sent(struct wr_central_link *link, size_t len);

/* ---- state and counters ---- */

/* Each loop and each shard counts these events since its creation: X(field, meaning). */
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
	X(owed, "debts charged")                                                                   \
	X(owed_lost, "debts that were lost: their units stay unused")                              \
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

/* The states of a shard: X(enum value, name). */
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

/* The state of a server that questions are sent to. */
struct wr_central_shard_info {
	char at[WR_ENDPOINT_TEXT];
	enum wr_central_shard_state state;
	uint32_t slots;      /* number of cluster slots that the server owns */
	uint32_t under_way;  /* number of calls without a reply */
	uint64_t back_at_ns; /* time of the next PING, monotonic; 0 if the state is not "open" */
	char trouble[160];   /* text of the latest error, or "" */
	char version[24];    /* version from INFO, which only the chief reads; "": unknown */
	char policy[24];     /* maxmemory-policy from INFO; "": unknown */
	int8_t aof; /* 1: the server writes an append-only file, 0: it does not, -1: unknown */
	struct wr_central_counts counts;
};

#define WR_CENTRAL_SHARDS_SHOWN 64

struct wr_central_info {
	struct wr_central_counts counts; /* sums over all shards, including removed shards */
	uint32_t nodes;                  /* number of nodes in the fleet; 0 if unknown */
	bool secret_known;
	bool any_up;              /* at least one shard answers */
	bool all_up;              /* every shard answers */
	uint32_t waiting;         /* number of asks in flight */
	uint32_t reports_waiting; /* number of counters in reports that Redis has not confirmed */
	uint32_t leases;          /* number of leases that the loop holds */
	/* Number of unspent units in all leases. It may be out of date: each lease is counted as it
	 * was when lease_renew.c last checked it. */
	uint64_t leased_units;
	uint32_t regions;    /* number of other regions that units are pushed to */
	uint32_t regions_up; /* number of other regions whose Redis answers */
	/* Estimate of the largest overshoot of a limit with `consistency: eventual` within the last
	 * 10 to 20 s, in parts per million of the limit. */
	uint32_t overshoot_ppm;
	uint32_t shard_count;  /* number of shards; in a cluster, only shards that own slots */
	uint32_t shards_shown; /* number of entries in `shards`, at most WR_CENTRAL_SHARDS_SHOWN */
	struct wr_central_shard_info shards[WR_CENTRAL_SHARDS_SHOWN];
};

/* Fills *info. The structure is large: it does not fit on the stack of a thread with a small
 * stack. */
void wr_central_info(const struct wr_central *central, struct wr_central_info *info);

#endif
