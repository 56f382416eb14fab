/* A fleet in virtual time: nodes, Redis, the network between them, and faults. One seed decides
 * everything.
 *
 *   struct wr_sim_plan plan;
 *   wr_sim_plan_make(&plan, seed, WR_SIM_ANY);
 *   wr_sim_run(&plan, lua, NULL, &report);
 *   if (report.failure[0]) … run the plan again with a FILE to see the events before the failure
 *
 * Table, limiter, central and the scripts are the real code. Time, the network and the commands of
 * Redis (redis.h) are simulated. A node is one machine: a table, an engine as an nginx worker has
 * it, and the central store of one `weir serve`.
 *
 * The same plan gives the same run, event by event, on every machine. report.trace is a hash of all
 * events. The simulator reads no clock, and its only random numbers come from the plan's seed. */
#ifndef WR_SIM_SIM_H
#define WR_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/algo.h>

#include "sim/redis.h"

#define WR_SIM_NODES 8u
#define WR_SIM_SERVERS 3u
#define WR_SIM_SENTINELS 3u
#define WR_SIM_KEYS 8u

/* X(enum, name): the faults of a fleet. */
#define WR_SIM_FAULTS(X)                                                                           \
	X(WR_SIM_CUT, "cut")           /* connections break; Redis may run the calls in flight */  \
	X(WR_SIM_STALL, "stall")       /* no bytes pass between a node and Redis for a while */    \
	X(WR_SIM_PAUSE, "pause")       /* a node stops and continues later (SIGSTOP) */            \
	X(WR_SIM_KILL, "kill")         /* serve dies and restarts; the table stays */              \
	X(WR_SIM_CRASH, "crash")       /* a machine dies and restarts with an empty table */       \
	X(WR_SIM_FLUSH, "flush")       /* Redis loses all data */                                  \
	X(WR_SIM_RESTART, "restart")   /* Redis is down for a while and keeps its data */          \
	X(WR_SIM_FAILOVER, "failover") /* a replica without the last writes is promoted */         \
	X(WR_SIM_SPLIT, "split")   /* the same, and some nodes use the old master for a while */   \
	X(WR_SIM_SKEW, "skew")     /* clocks of nodes and masters disagree, and step */            \
	X(WR_SIM_REGION, "region") /* a region is disconnected from the others */                  \
	X(WR_SIM_TWICE, "twice")   /* Redis gets idempotent calls twice */                         \
	X(WR_SIM_RULES, "rules")   /* the limit changes, node by node */                           \
	X(WR_SIM_LEAVE, "leave")   /* clients disconnect before or after the decision */           \
	X(WR_SIM_SLOW, "slow")     /* replies of Redis take longer than the timeout for a while */ \
	X(WR_SIM_ERROR, "error")   /* Redis replies OOM, READONLY, LOADING or BUSY for a while */  \
	X(WR_SIM_MOVE, "move")     /* slots of a cluster move while they are in use */             \
	X(WR_SIM_DOWN, "down")     /* a master of a cluster replies CLUSTERDOWN for a while */     \
	X(WR_SIM_WATCH, "watch")   /* Sentinels are down or name an earlier primary */

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
	uint32_t limit, burst;
	uint32_t limit_after; /* WR_SIM_RULES: the limit alternates between the two values */
	uint64_t period_ns;
	/* Calendar windows: `calendar` is the number of a table row in calendar.c plus 1, or 0 for
	 * windows that are multiples of the period. The run is active for half_ns before and after
	 * each of `sessions` window edges, the first of which is first_edge. */
	unsigned calendar, first_edge, sessions;
	uint64_t half_ns;
	unsigned nodes, keys;
	unsigned ahead;         /* the clocks of the first `ahead` nodes are windows ahead */
	unsigned shards;        /* masters of a cluster; 0: no cluster */
	unsigned sentinels;     /* 0: no Sentinels */
	unsigned instances;     /* with Sentinels: the primary and its replicas */
	unsigned regions;       /* each has its own Redis; nodes are assigned in turn */
	uint64_t begin_ns;      /* requests begin */
	uint64_t length_ns;     /* requests and faults end */
	uint64_t gap_ns;        /* between batches of requests at a node, on average */
	unsigned batch_max;     /* requests of a batch */
	unsigned cost_max;      /* cost of a request */
	unsigned pairs_percent; /* requests that ask for two keys at once */
	uint64_t delay_ns;      /* of a message, one way, at least */
	uint64_t jitter_ns;     /* up to this much is added to most delays */
	uint64_t timeout_ns;    /* of central */
	unsigned faults;        /* a bit for each enum wr_sim_fault that may happen */
	uint64_t sync_ns;       /* eventual: between exchanges */
	uint64_t fault_gap_ns;  /* between faults, on average */
	uint64_t renew_gap_ns;  /* between replacements of nodes, on average; 0: none */
	uint64_t order_gap_ns;  /* between orders of an operator, on average; 0: none */
	uint64_t quiet_ns;      /* time without requests and faults at the end */
	/* A second limit of the same descriptor, which must admit too. 0: there is none. */
	uint32_t second_limit, second_algorithm;
	uint64_t second_period_ns;
	uint32_t soft_percent; /* mode: soft, allowed overshoot; 0: hard */
	uint32_t queue_size;   /* leaky bucket */
	bool count_rejected;
	bool hide_losses; /* the oracle does not allow for losses, and a promoted replica is empty;
			     tests that the oracle finds both */
};

struct wr_sim_report {
	uint64_t trace; /* hash of all events */
	uint64_t events, requests, admitted, refused, failed;
	uint64_t commands, calls; /* that Redis received; `calls` are those of scripts */
	uint64_t faults;
	uint64_t renewals;      /* nodes that were replaced */
	uint64_t redirected;    /* commands that a cluster redirected */
	uint64_t losses;        /* of Redis' data */
	uint64_t burnt;         /* units of leases that expired unspent */
	uint32_t overshoot_ppm; /* eventual: the largest excess over the limit */
	uint32_t bound_ppm;     /* eventual: the largest excess that unseen admissions allow */
	uint32_t gauge_ppm;     /* eventual: the largest excess that nodes reported */
	char failure[512];      /* the first invariant that was violated, or "" */
};

#define WR_SIM_ANY 0xff /* consistency: the seed decides */

/* Fills the plan of a seed. */
void wr_sim_plan_make(struct wr_sim_plan *plan, uint64_t seed, uint8_t consistency);

/* A kind of runs, and the function that fills the plan of a seed. */
struct wr_sim_kind {
	const char *name;
	void (*make)(struct wr_sim_plan *plan, uint64_t seed);
};
extern const struct wr_sim_kind wr_sim_kinds[]; /* the last element has no name */

/* A few nodes in regions. Nodes are replaced all the time, so that a counter has more holders than
 * there are nodes. */
void wr_sim_plan_regions(struct wr_sim_plan *plan, uint64_t seed);
/* The same in one region, where the clock of one node is windows ahead. */
void wr_sim_plan_ahead(struct wr_sim_plan *plan, uint64_t seed);
/* An operator bans keys and grants more to them. */
void wr_sim_plan_operator(struct wr_sim_plan *plan, uint64_t seed);
/* A cluster whose slots move. */
void wr_sim_plan_cluster(struct wr_sim_plan *plan, uint64_t seed);
/* Days, weeks, months and years of time zones. */
void wr_sim_plan_calendar(struct wr_sim_plan *plan, uint64_t seed);
/* A primary, replicas and Sentinels. */
void wr_sim_plan_sentinel(struct wr_sim_plan *plan, uint64_t seed);

/* Returns n: the first n kinds of faults may happen in this plan. An eventual limit has no caller
 * that waits for a reply, so faults from WR_SIM_SLOW on do not concern it. */
unsigned wr_sim_fault_kinds(const struct wr_sim_plan *plan);

/* Writes the plan as one line of text. */
void wr_sim_plan_text(const struct wr_sim_plan *plan, char *text, size_t cap);

/* Runs the plan and fills the report. Writes each event to `trace` unless it is NULL. */
void wr_sim_run(const struct wr_sim_plan *plan, struct wr_sim_lua *lua, FILE *trace,
		struct wr_sim_report *report);

#endif
