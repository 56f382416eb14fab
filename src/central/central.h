/* State in Redis: questions of the limiter carried out there.
 *
 * One for each loop, used by its thread alone. It does no I/O and reads no clock: the host (the
 * loop) opens connections, carries bytes, tells the time and calls wr_central_tick when asked to.
 *
 *   wr_central_new(&opts, &host, context, now, mono, &central, &error);
 *   wr_central_take(central, &ask, question, len, now, mono);   // ask.done comes once
 *   before the loop sleeps, for each link that was told `dirty`:
 *           while (wr_link_output(link, &bytes, &len)) { write; wr_link_sent(link, written); }
 *   bytes came: wr_link_input(link, bytes, len, now, mono);
 *
 * WHAT IT PROMISES
 *   Once      `done` comes exactly once for each take: at once, or within timeout_ns, or from
 *             wr_central_free; never after wr_central_leave.
 *   Calls     A take, give-back or report goes out once. Repeated is only what Redis says it has
 * not done (NOSCRIPT, MOVED, ASK, TRYAGAIN), and reports, which Redis knows to be the same. Turns
 * What is asked between two calls of wr_link_output goes out in one write, and takes of the same
 * counter and cost go out as one call. Memory    All of it is bounded and comes from pools; a
 * decision allocates nothing once they are as large as the load needs. Reentry   `done` may call
 * anything here but wr_central_free and wr_central_tick. Of the other callbacks `open` may call
 * wr_link_down, `heard` wr_central_forget; else nothing here.
 *
 * Times: now_ns is CLOCK_REALTIME, mono_ns wr_mono_ns(); every wait is by mono_ns. */
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
struct wr_link;

#define WR_CENTRAL_TIMEOUT_NS 250000000u /* unless told otherwise */
#define WR_CENTRAL_SECRET 192u           /* bytes of the fleet's secret */
#define WR_CENTRAL_MESSAGE_MAX 4096u     /* bytes of a control message */
#define WR_CENTRAL_ANSWER_MAX                                                                      \
	(sizeof(struct wr_question_head) + WEIR_NEEDS_MAX * sizeof(struct wr_answer))

struct wr_central_opts {
	const struct wr_redis_target *target; /* lasts as long as the central store */
	const char *prefix; /* of every key; NULL: "weir". Printable, no braces, no blanks */
	/* The fleet's secret, or NULL: it is agreed upon in Redis. Copied. */
	const uint8_t *secret;
	uint64_t timeout_ns; /* for connecting and for a question; 0: WR_CENTRAL_TIMEOUT_NS */
	uint64_t holder[2];  /* the table's id: who this node is */
	uint32_t number;     /* of the loop, from 0; other loops of the node have others */
	/* The loop that does what a node does once: agrees upon the secret, counts nodes, listens
	 * to control messages, looks at the servers' settings. One of a process. */
	bool chief;
	uint64_t seed; /* of the jitter: different in every loop and process */
	/* Where units of limits with `consistency: lease` are laid for all processes of the node to
	 * spend, and who we are there: random, not 0. NULL: none are borrowed. */
	struct weir_table *table;
	uint64_t owner;
	uint32_t fleet_size; /* nodes, until they have been counted */
	/* Limits with `consistency: eventual`, by the chief: how often nodes tell each other what
	 * they admitted; 0: they do not. And the region's name, where there are several. */
	uint64_t sync_ns;
	const char *region;
};

enum wr_say {
	WR_SAY_ERROR,
	WR_SAY_WARN,
	WR_SAY_INFO,
};

struct wr_central_host {
	/* Connect to link->at, by TLS if link->tls; name resolution is anew each time. Report by
	 * wr_link_up or wr_link_down. There is no need for a timeout of the host's own. */
	void (*open)(void *context, struct wr_link *link);
	/* Close it and forget it; not called after wr_link_down. */
	void (*close)(void *context, struct wr_link *link);
	/* It has output: fetch it before the loop sleeps. Told once until wr_link_output has no
	 * more. */
	void (*dirty)(void *context, struct wr_link *link);
	/* Call wr_central_tick then, or somewhat later; replaces what was asked before. */
	void (*wake_at)(void *context, uint64_t mono_ns);
	/* One line for the log, once for each event. No secrets in it. */
	void (*say)(void *context, enum wr_say level, const char *text);
	/* Chief: the fleet's secret is known, or has become another one. */
	void (*secret)(void *context, const uint8_t secret[WR_CENTRAL_SECRET]);
	/* Chief: so many nodes, this one included, were heard from within 10 s. Every 2 s. */
	void (*nodes)(void *context, uint32_t nodes);
	/* Chief: a control message, so old by Redis' clock; in order, those that are still kept at
	 * the start included, and `own` ones, which may have been overtaken by others' and stand
	 * for the last word if they have not. Rarely one comes twice (failover). */
	void (*heard)(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own);
};

/* WEIR_EINVAL (options), WEIR_EMEMORY. Links may be opened before it returns. `host` is copied. */
int wr_central_new(const struct wr_central_opts *opts, const struct wr_central_host *host,
		   void *context, uint64_t now_ns, uint64_t mono_ns, struct wr_central **out,
		   struct weir_error *error);

/* Whoever still waits is done with (failed), links are closed. */
void wr_central_free(struct wr_central *central);

void wr_central_tick(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);

/* ---- asking ---- */

struct wr_central_part;

/* A question under way; the caller's memory, which stays where it is until `done` or leave. */
struct wr_central_ask {
	/* For weir_ask_answer: items that nobody could decide say WR_ANSWER_FAILED. len 0: the
	 * question made no sense or there was no memory; weir_ask_store_failed. The bytes last
	 * until it returns. */
	void (*done)(struct wr_central_ask *ask, const void *answer, size_t len);

	/* Not the caller's. */
	struct wr_central *central; /* while under way */
	struct wr_central_ask *before, *behind;
	struct wr_central_part *parts;
	uint64_t deadline_mono_ns;
	uint16_t count, open; /* items, and those not answered yet */
};

/* A question of kind TAKE; the bytes are not kept. */
void wr_central_take(struct wr_central *central, struct wr_central_ask *ask, const void *question,
		     size_t len, uint64_t now_ns, uint64_t mono_ns);

/* The asker has gone: `done` will not be called; what Redis grants after all is given back. Fine
 * for an ask that is zeroed or done with. */
void wr_central_leave(struct wr_central *central, struct wr_central_ask *ask);

/* A question of kind RETURN, REPORT, LATE or RESET. A RETURN that cannot be sent is lost and
 * counted; a REPORT waits, bounded, until its shard is back; a LATE one is settled against a REPORT
 * or given back; a RESET makes this loop forget refusals, too. */
void wr_central_send(struct wr_central *central, const void *question, size_t len, uint64_t now_ns,
		     uint64_t mono_ns);

/* Forgets remembered refusals, which act for up to a second: those of a key, or all (NULL). For
 * resets and grants made elsewhere. */
void wr_central_forget(struct wr_central *central, const uint64_t key[2]);

/* A control message to all other nodes: kept until Redis has it. WEIR_EROOM: too long, or too many
 * are waiting. */
int wr_central_publish(struct wr_central *central, const void *bytes, size_t len, uint64_t mono_ns);

/* ---- leases ---- */

/* Another table is in use, and another number of ours in it: what was borrowed for the one before
 * ends with its time. */
void wr_central_table(struct wr_central *central, struct weir_table *table, uint64_t owner);

/* The node shuts down: all that was borrowed goes back, nothing more is borrowed, and what was
 * admitted since the last exchange is told. How much of that is still to be done: 0 after a second
 * at most. May be called again. */
uint32_t wr_central_drain(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);

/* Another region's store, which is told what is admitted here: a central with a target of its own
 * and no duties, which is freed before this one. In the same order each time: a table remembers by
 * number what they are owed. */
void wr_central_peer(struct wr_central *central, struct wr_central *peer);

/* ---- connections ---- */

enum wr_link_purpose {
	WR_LINK_DATA,
	WR_LINK_SENTINEL,
};

struct wr_link {
	struct wr_endpoint at; /* NAME, V4, V6 or UNIX */
	bool tls;
	enum wr_link_purpose purpose;
	void *data; /* the host's own */
};

/* Connected, TLS included. */
void wr_link_up(struct wr_link *link, uint64_t now_ns, uint64_t mono_ns);
/* Could not be connected, or was lost; `why` is for the log. The host has forgotten it. */
void wr_link_down(struct wr_link *link, const char *why, uint64_t now_ns, uint64_t mono_ns);
/* `close` may be called meanwhile. */
void wr_link_input(struct wr_link *link, const uint8_t *bytes, size_t len, uint64_t now_ns,
		   uint64_t mono_ns);
/* What is to be written, all there is; false: nothing. Lasts until wr_link_sent. */
bool wr_link_output(struct wr_link *link, const uint8_t **bytes, size_t *len);
void wr_link_sent(struct wr_link *link, size_t len);

/* ---- how it fares ---- */

/* X(field, what it counts): of one loop since it began, or of one shard. */
#define WR_CENTRAL_COUNTS(X)                                                                       \
	X(asked, "limits asked for")                                                               \
	X(admitted, "limits that admitted")                                                        \
	X(refused, "limits that refused")                                                          \
	X(failed, "limits nobody could decide")                                                    \
	X(remembered, "limits refused from memory, without asking")                                \
	X(calls, "script calls sent")                                                              \
	X(merged, "takes that went along in another one's call")                                   \
	X(again, "calls repeated, because Redis had not done them")                                \
	X(late, "replies that came after their timeout")                                           \
	X(returned, "give-backs carried out")                                                      \
	X(returns_lost, "give-backs that were lost: quota burnt")                                  \
	X(reported, "reports of an outage confirmed")                                              \
	X(reports_stale, "reports dropped, because their windows had ended")                       \
	X(reports_lost, "reports that were lost, or for which there was no room")                  \
	X(connects, "connections made")                                                            \
	X(opened, "times a breaker opened")                                                        \
	X(leases_granted, "leases begun")                                                          \
	X(renewals, "leases prolonged")                                                            \
	X(leases_voided, "leases that Redis had forgotten, or that were reset")                    \
	X(units_granted, "units borrowed")                                                         \
	X(units_spent, "… of which spent")                                                         \
	X(units_returned, "… of which returned")                                                   \
	X(units_burnt, "… of which nobody will spend: their end came first, or Redis forgot them") \
	X(exchanges, "counters exchanged with other nodes")                                        \
	X(exchanges_failed, "… in vain, for the time being")                                       \
	X(pushes, "counters told to other regions")                                                \
	X(pushes_failed, "… in vain, for the time being")

struct wr_central_counts {
#define WR_CENTRAL_COUNT_FIELD(field, text) uint64_t field;
	WR_CENTRAL_COUNTS(WR_CENTRAL_COUNT_FIELD)
#undef WR_CENTRAL_COUNT_FIELD
	uint64_t faults[WR_FAULT_COUNT];
};

/* X(enum, name) */
#define WR_SHARD_STATES(X)                                                                         \
	X(WR_SHARD_CONNECTING, "connecting")                                                       \
	X(WR_SHARD_UP, "up")                                                                       \
	X(WR_SHARD_TRYING, "half-open")                                                            \
	X(WR_SHARD_AWAY, "open")

enum wr_shard_state {
#define WR_SHARD_STATE_ENUM(name, text) name,
	WR_SHARD_STATES(WR_SHARD_STATE_ENUM)
#undef WR_SHARD_STATE_ENUM
};

const char *wr_shard_state_name(enum wr_shard_state state);

/* A server that questions go to. */
struct wr_shard_info {
	char at[WR_ENDPOINT_TEXT];
	enum wr_shard_state state;
	uint32_t slots;      /* cluster: how many are its own */
	uint32_t under_way;  /* calls without a reply */
	uint64_t back_at_ns; /* away: when it is tried again, mono */
	char trouble[160];   /* the last one, for people; "" */
	char version[24];    /* what INFO told the chief; "" */
	char policy[24];     /* maxmemory-policy; "" */
	int8_t aof;          /* 1 on, 0 off, -1 unknown */
	struct wr_central_counts counts;
};

#define WR_CENTRAL_SHARDS_SHOWN 64

struct wr_central_info {
	struct wr_central_counts counts; /* all shards, those that are gone included */
	uint32_t nodes;                  /* heard from; 0: unknown */
	bool secret_known;
	bool any_up;              /* some shard answers */
	bool all_up;              /* every shard answers */
	uint32_t waiting;         /* takes under way */
	uint32_t reports_waiting; /* for their shard to come back */
	uint32_t leases;          /* held */
	uint64_t leased_units;    /* in them and not spent, as far as we have looked */
	uint32_t regions;         /* others that are told what is admitted here */
	uint32_t regions_up;      /* … whose store answers */
	uint32_t overshoot_ppm;   /* limits that are eventual: how far beyond at worst */
	uint32_t shard_count;     /* of which so many are shown: */
	uint32_t shards_shown;
	struct wr_shard_info shards[WR_CENTRAL_SHARDS_SHOWN];
};

/* Large: not for the stack of a small thread. */
void wr_central_info(const struct wr_central *central, struct wr_central_info *info);

#endif
