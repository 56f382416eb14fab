/* A fleet in virtual time: nodes, Redis, the network between them, and faults. One seed decides
 * everything.
 *
 *   struct wr_sim_plan plan;
 *   wr_sim_plan_make(&plan, seed, WR_SIM_ANY);
 *   wr_sim_run(&plan, lua, NULL, &report);
 *   if (report.failure[0]) … // run the plan again with a FILE, which gets all events as text
 *
 * Table, limiter, central and the scripts are the real code. Time, the network and the commands of
 * Redis (redis.h) are simulated. A node is one machine. It has a table, an engine like that of an
 * nginx worker, and the central store of one `weir serve`.
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
#include "sim/trace.h"

#define WR_SIM_NODES 8u   /* maximum number of nodes of a plan; a fleet (fleet.h) has no maximum */
#define WR_SIM_SERVERS 3u /* maximum number of Redis servers of a plan */
#define WR_SIM_SENTINELS 3u
#define WR_SIM_KEYS 8u

/* The list of all faults: X(enum value, name). */
#define WR_SIM_FAULTS(X)                                                                           \
	X(WR_SIM_CUT, "cut")           /* connections break; calls in flight are run or lost */    \
	X(WR_SIM_STALL, "stall")       /* no bytes pass between a node and Redis for a while */    \
	X(WR_SIM_PAUSE, "pause")       /* a node stops and continues later (SIGSTOP) */            \
	X(WR_SIM_KILL, "kill")         /* `weir serve` dies and restarts; its table is kept */     \
	X(WR_SIM_CRASH, "crash")       /* a machine dies and restarts with an empty table */       \
	X(WR_SIM_FLUSH, "flush")       /* Redis loses all data */                                  \
	X(WR_SIM_RESTART, "restart")   /* Redis is down for a while and keeps its data */          \
	X(WR_SIM_FAILOVER, "failover") /* a replica without the latest writes is promoted */       \
	X(WR_SIM_SPLIT, "split") /* a failover after which some nodes still use the old master */  \
	X(WR_SIM_SKEW, "skew")   /* clocks of nodes and masters disagree and jump */               \
	X(WR_SIM_REGION, "region") /* a region is disconnected from the other regions */           \
	X(WR_SIM_TWICE, "twice")   /* Redis runs idempotent calls twice */                         \
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
	uint8_t on_store_failure; /* enum wr_rules_store_failure */
	uint32_t algorithm;       /* enum weir_algorithm */
	uint32_t limit, burst;
	uint32_t limit_after; /* WR_SIM_RULES changes the limit to limit_after and back */
	uint64_t period_ns;
	/* If `calendar` is 0, windows are multiples of the period. Otherwise `calendar` is 1 + the
	 * index of a row of calendars[] in calendar.c. In a run with a calendar, requests arrive
	 * only from half_ns before to half_ns after a window edge. There are `sessions` such edges;
	 * first_edge is the index of the first of them in the row's edges_s. */
	unsigned calendar, first_edge, sessions;
	uint64_t half_ns;
	unsigned nodes, keys;
	unsigned ahead;     /* the clocks of the first `ahead` nodes are 3 to 10 windows ahead */
	unsigned shards;    /* number of masters of the cluster; 0: no cluster */
	unsigned sentinels; /* number of Sentinels; 0: no Sentinels */
	unsigned instances; /* with Sentinels: number of Redis servers, including the primary */
	unsigned regions;   /* each region has its own Redis; node i is in region i % regions */
	uint64_t begin_ns;  /* requests start to arrive at this time */
	uint64_t length_ns; /* requests and faults end at this time */
	uint64_t gap_ns;    /* mean time between two batches of requests at a node */
	unsigned batch_max; /* largest number of requests in a batch */
	unsigned cost_max;  /* largest cost of a request */
	unsigned pairs_percent; /* percentage of requests that have two keys */
	uint64_t delay_ns;      /* shortest delay of a message, one way */
	/* A random time up to jitter_ns is added to each delay. For 2 % of the messages, this time
	 * is up to 20 times jitter_ns. */
	uint64_t jitter_ns;
	uint64_t timeout_ns; /* time after which central stops waiting for a reply */
	/* set of the faults that can happen: bit f for fault f of enum wr_sim_fault */
	unsigned faults;
	uint64_t sync_ns;      /* for eventual limits: time between two exchanges of a node */
	uint64_t fault_gap_ns; /* mean time between two faults */
	uint64_t renew_gap_ns; /* mean time between replacements of nodes; 0: no replacements */
	uint64_t order_gap_ns; /* mean time between orders of an operator; 0: no orders */
	uint64_t quiet_ns;     /* time without requests and faults at the end */
	/* A second limit of each key. A request is admitted only if both limits admit it.
	 * second_limit is 0 if there is only one limit. For a concurrent limit, second_period_ns is
	 * max_hold. */
	uint32_t second_limit, second_algorithm;
	uint64_t second_period_ns;
	/* for `mode: soft`, allowed excess in percent of the limit; 0: hard limit */
	uint32_t soft_percent;
	/* Requests are settled when their responses have been sent, up to hold_ns after the
	 * decision. The actual cost is at most cost_max above the reserved cost. */
	bool settles;
	uint64_t hold_ns;
	uint64_t table_bytes;  /* size of a node's table; 0 means 256 KiB */
	const char *table_dir; /* folder of the tables' files; NULL means /dev/shm */
	/* Unix time in ns at true time 0, for a run without a calendar; 0 means WR_SIM_EPOCH_NS. */
	uint64_t epoch_ns;
	int64_t max_debt;    /* max_debt of the first limit; -1: the rule has no max_debt */
	uint32_t queue_size; /* size of the leaky bucket's queue; 0 for other algorithms */
	bool count_rejected;
	/* Only for tests of the oracle. If hide_losses is set, losses of data are not recorded, and
	 * a replica that Sentinels promote is empty. The oracle does not allow for the losses, so
	 * it must find a failure. */
	bool hide_losses;
};

struct wr_sim_report {
	uint64_t trace; /* hash of all events */
	uint64_t events, requests, admitted, refused, failed;
	/* number of commands that Redis received, and number of script calls among them */
	uint64_t commands, calls;
	uint64_t faults;
	uint64_t renewals;      /* number of nodes that were replaced */
	uint64_t redirected;    /* number of commands that a cluster redirected */
	uint64_t losses;        /* how often Redis lost data */
	uint64_t burnt;         /* units of leases that expired unspent */
	uint32_t overshoot_ppm; /* for eventual limits: largest overshoot, in ppm of the limit */
	/* For eventual limits: the largest allowed overshoot_ppm. The limit may be exceeded because
	 * a node learns of the admissions of other nodes late. */
	uint32_t bound_ppm;
	uint32_t gauge_ppm; /* for eventual limits: the largest overshoot_ppm that nodes reported */
	char failure[WR_SIM_FAILURE]; /* the first invariant that was violated, or "" */
};

#define WR_SIM_ANY 0xff /* value of `consistency`: the seed selects the consistency */

/* Makes the plan of a seed. `consistency` is a value of enum wr_consistency, which all limits get,
 * or WR_SIM_ANY. */
void wr_sim_plan_make(struct wr_sim_plan *plan, uint64_t seed, uint8_t consistency);

/* A kind of run, with the function that makes a plan of this kind. */
struct wr_sim_kind {
	const char *name;
	void (*make)(struct wr_sim_plan *plan, uint64_t seed);
};
extern const struct wr_sim_kind wr_sim_kinds[]; /* the last element has no name */

/* Each of the functions below makes the plan of a seed. The comment above a function describes the
 * runs. */

/* A few nodes in two or three regions. Nodes are replaced all the time, so a counter in Redis
 * contains the counts of more nodes than exist at the same time. */
void wr_sim_plan_regions(struct wr_sim_plan *plan, uint64_t seed);
/* Like wr_sim_plan_regions(), but in one region, and the clock of one node is several windows
 * ahead. */
void wr_sim_plan_ahead(struct wr_sim_plan *plan, uint64_t seed);
/* An operator bans keys, and raises the limits of keys by grants. */
void wr_sim_plan_operator(struct wr_sim_plan *plan, uint64_t seed);
/* A cluster whose slots move. */
void wr_sim_plan_cluster(struct wr_sim_plan *plan, uint64_t seed);
/* Windows are days, weeks, months or years of a time zone. */
void wr_sim_plan_calendar(struct wr_sim_plan *plan, uint64_t seed);
/* A primary, replicas and Sentinels. */
void wr_sim_plan_sentinel(struct wr_sim_plan *plan, uint64_t seed);

/* Requests whose cost is known only afterwards. Most runs have a limit on concurrent requests
 * too. */
void wr_sim_plan_settle(struct wr_sim_plan *plan, uint64_t seed);

/* Returns how many kinds of faults can happen in this plan: a result n means the first n values of
 * enum wr_sim_fault. With an eventual limit no caller waits for a reply of Redis, so WR_SIM_SLOW
 * and the values after it are excluded. */
unsigned wr_sim_fault_kinds(const struct wr_sim_plan *plan);

/* Writes the plan to `text`, which has room for `cap` bytes, as one line. */
void wr_sim_plan_text(const struct wr_sim_plan *plan, char *text, size_t cap);

/* Runs the plan and fills the report. Writes each event to `trace`, which may be NULL. */
void wr_sim_run(const struct wr_sim_plan *plan, struct wr_sim_lua *lua, FILE *trace,
		struct wr_sim_report *report);

#endif
