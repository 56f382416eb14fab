/* A fleet in virtual time: nodes, Redis and the network between them, and what may happen to them,
 * all decided by one seed.
 *
 *   struct wr_sim_plan plan;
 *   wr_sim_plan_make(&plan, seed, WR_SIM_ANY);
 *   wr_sim_run(&plan, lua, NULL, &report);
 *   if (report.failure[0]) … run it again with a FILE to see what went before
 *
 * What decides is the real thing: table, limiter, central and the scripts. What is made up is time,
 * the network and Redis' commands (mini.h). A node is one machine: a table, an engine as an nginx
 * worker has it, and the central store of one `weir serve`.
 *
 * The same plan gives the same run, event by event, on every machine; report.trace is a hash of
 * all of it. Nothing here reads a clock, or chance other than the plan's seed. */
#ifndef WR_SIM_SIM_H
#define WR_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/algo.h>

#include "sim/mini.h"

#define WR_SIM_NODES 8u
#define WR_SIM_SERVERS 3u
#define WR_SIM_SENTINELS 3u
#define WR_SIM_KEYS 8u

/* X(enum, name): what may happen. */
#define WR_SIM_FAULTS(X)                                                                           \
	X(WR_SIM_CUT, "cut")     /* connections break; what was under way may be done or not */    \
	X(WR_SIM_STALL, "stall") /* nothing passes between a node and Redis for a while */         \
	X(WR_SIM_PAUSE, "pause") /* a node stands still and goes on (SIGSTOP) */                   \
	X(WR_SIM_KILL, "kill")   /* serve dies and comes back; the table stays */                  \
	X(WR_SIM_CRASH, "crash") /* a machine dies and comes back with an empty table */           \
	X(WR_SIM_FLUSH, "flush") /* Redis loses everything */                                      \
	X(WR_SIM_RESTART, "restart")   /* Redis is away for a while, and keeps its data */         \
	X(WR_SIM_FAILOVER, "failover") /* a replica takes over that lacks the last writes */       \
	X(WR_SIM_SPLIT, "split")   /* … and some nodes go on with the old master for a while */  \
	X(WR_SIM_SKEW, "skew")     /* clocks of nodes and masters disagree, and step */            \
	X(WR_SIM_REGION, "region") /* a region is cut off from the others */                       \
	X(WR_SIM_TWICE, "twice")   /* Redis gets calls twice that may come twice */                \
	X(WR_SIM_RULES, "rules")   /* the limit changes, node by node */                           \
	X(WR_SIM_LEAVE, "leave")   /* clients go away before or after they are answered */         \
	X(WR_SIM_SLOW, "slow")     /* Redis' answers take longer than the timeout, for a while */  \
	X(WR_SIM_ERROR, "error")   /* Redis answers OOM, READONLY, LOADING or BUSY for a while */  \
	X(WR_SIM_MOVE, "move")     /* slots of a cluster move while they are in use */             \
	X(WR_SIM_DOWN, "down")     /* a master of a cluster answers CLUSTERDOWN for a while */     \
	X(WR_SIM_WATCH, "watch")   /* Sentinels are away, or name a primary of before */

enum wr_sim_fault {
#define WR_SIM_FAULT_ENUM(name, text) name,
	WR_SIM_FAULTS(WR_SIM_FAULT_ENUM)
#undef WR_SIM_FAULT_ENUM
		WR_SIM_FAULT_COUNT
};

const char *wr_sim_fault_name(enum wr_sim_fault fault);

struct wr_sim_plan {
	uint64_t seed;
	uint8_t consistency;      /* enum wr_consistency */
	uint8_t on_store_failure; /* enum wr_store_failure */
	uint32_t algorithm;       /* enum weir_algorithm */
	uint32_t limit, burst;    /* the limit, and the highest it is changed to: */
	uint32_t limit_after;     /* WR_SIM_RULES: what it becomes */
	uint64_t period_ns;
	/* Windows of a calendar: which one, from 1 on; 0: multiples of the period. The run meets so
	 * many of its edges, and half_ns before and behind each. */
	unsigned calendar, first_edge, sessions;
	uint64_t half_ns;
	unsigned nodes, keys;
	unsigned ahead;         /* nodes whose clocks are windows ahead: the first so many */
	unsigned shards;        /* masters of a cluster; 0: there is none */
	unsigned sentinels;     /* that name the primary; 0: there are none */
	unsigned instances;     /* … of so many, the others being its replicas */
	unsigned regions;       /* each with a Redis of its own; nodes take turns */
	uint64_t begin_ns;      /* no requests before */
	uint64_t length_ns;     /* no requests from then on */
	uint64_t gap_ns;        /* between turns with requests at a node, on average */
	unsigned crowd;         /* requests of a turn, at most */
	unsigned costs;         /* what a request costs at most */
	unsigned pairs_percent; /* requests that ask for two keys at once */
	uint64_t delay_ns;      /* one way, at least */
	uint64_t jitter_ns;     /* and so much more, usually */
	uint64_t timeout_ns;    /* of central */
	unsigned faults;        /* a bit for each enum wr_sim_fault that may happen */
	uint64_t sync_ns;       /* eventual: between exchanges */
	uint64_t fault_gap_ns;  /* between them, on average */
	uint64_t renew_gap_ns;  /* between replacements of nodes, on average; 0: there are none */
	uint64_t order_gap_ns;  /* between orders of an operator, on average; 0: there are none */
	uint64_t quiet_ns;      /* without requests and faults, at the end */
	/* A second limit of the same descriptor, which has to admit as well; 0: there is none. */
	uint32_t second_limit, second_algorithm;
	uint64_t second_period_ns;
	uint32_t soft_percent; /* mode: soft, so much beyond the limit; 0: hard */
	uint32_t queue_size;   /* leaky bucket */
	bool count_rejected;
	bool secretly; /* losses are not allowed for, and replicas that are promoted are empty: a
			  test of the invariants */
};

struct wr_sim_report {
	uint64_t trace; /* hash of all that happened */
	uint64_t events, requests, admitted, refused, failed;
	uint64_t commands, calls; /* that Redis got; of which scripts */
	uint64_t faults;
	uint64_t renewals;      /* nodes that were replaced */
	uint64_t redirected;    /* commands that a cluster did not carry out where they came */
	uint64_t losses;        /* of Redis' data */
	uint64_t burnt;         /* units of leases that were never spent nor returned */
	uint32_t overshoot_ppm; /* eventual: how far beyond the limit, at worst */
	uint32_t bound_ppm; /* … what others admitted between an exchange and the next but one */
	uint32_t gauge_ppm; /* … and how far at most, as the nodes said at some time */
	char failure[512];  /* the first invariant that did not hold; "": all did */
};

#define WR_SIM_ANY 0xff /* consistency: by the seed */

/* What the seed stands for. */
void wr_sim_plan_make(struct wr_sim_plan *plan, uint64_t seed, uint8_t consistency);

/* What it stands for in runs of a kind. The last one has no name. */
struct wr_sim_kind {
	const char *name;
	void (*make)(struct wr_sim_plan *plan, uint64_t seed);
};
extern const struct wr_sim_kind wr_sim_kinds[];

/* A few nodes in regions that are replaced all the time, so that a counter has more holders than
 * there are nodes. */
void wr_sim_plan_regions(struct wr_sim_plan *plan, uint64_t seed);
/* The same in one region, where the clock of one node is windows ahead. */
void wr_sim_plan_ahead(struct wr_sim_plan *plan, uint64_t seed);
/* An operator bans keys and grants more to them. */
void wr_sim_plan_operator(struct wr_sim_plan *plan, uint64_t seed);
/* A cluster, of which slots move. */
void wr_sim_plan_cluster(struct wr_sim_plan *plan, uint64_t seed);
/* Days, weeks, months and years of time zones. */
void wr_sim_plan_calendar(struct wr_sim_plan *plan, uint64_t seed);
/* A primary, replicas and Sentinels. */
void wr_sim_plan_sentinel(struct wr_sim_plan *plan, uint64_t seed);

/* Kinds of faults that may happen: the first so many. Exchanges have no caller who waits for them.
 */
unsigned wr_sim_fault_kinds(const struct wr_sim_plan *plan);

/* In one line, for people. */
void wr_sim_plan_text(const struct wr_sim_plan *plan, char *text, size_t cap);

/* Runs it. `trace`: each event is written there, or NULL. */
void wr_sim_run(const struct wr_sim_plan *plan, struct wr_lua *lua, FILE *trace,
		struct wr_sim_report *report);

#endif
