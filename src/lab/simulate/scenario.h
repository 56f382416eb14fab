/* Reads a scenario: a YAML file that describes a fleet, its limit, its traffic and its faults.
 *
 *   struct wr_lab_scenario *scenario;
 *   struct weir_errors errors = {.size = sizeof errors};
 *
 *   if (wr_lab_scenario_load(path, &scenario, &errors) != 0)
 *           …                                     // print `errors`
 *   wr_lab_simulate(scenario, …);                 // simulate.h
 *   wr_lab_scenario_free(scenario);
 *
 * docs/simulate.md describes all keys. */
#ifndef WR_LAB_SIMULATE_SCENARIO_H
#define WR_LAB_SIMULATE_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/algo.h>
#include <weir/rules.h>

#define WR_LAB_NAME 32u
#define WR_LAB_REGIONS 9u  /* `weir serve` exchanges counters with 8 other regions at most */
#define WR_LAB_NODES 4096u /* most nodes of a fleet */
#define WR_LAB_CLIENTS 1000000u
#define WR_LAB_MODES 4u
#define WR_LAB_SWEEP 16u /* most values of a list of sync intervals or of numbers of nodes */
#define WR_LAB_TRAFFIC 16u
#define WR_LAB_FAULTS 64u
#define WR_LAB_LINKS 36u
#define WR_LAB_SEEDS 1000u
#define WR_LAB_DURATION_MAX_NS 604800000000000ull /* a week */

/* A number of sites that share one Redis. */
struct wr_lab_region {
	char name[WR_LAB_NAME + 1];
	uint32_t sites;
	uint32_t nodes; /* nodes of each site; 0: wr_lab_scenario.nodes */
	/* Delay of a message to the region's Redis, one way: of the first site and of the last
	 * site. The delays of the other sites are in between. */
	uint64_t near_ns, far_ns;
};

/* The delay of a message between two regions, one way. */
struct wr_lab_link {
	uint8_t from, to;
	uint64_t delay_ns;
};

/* X(enum value, name): the kinds of traffic. */
#define WR_LAB_TRAFFIC_KINDS(X)                                                                    \
	X(WR_LAB_STEADY, "steady")                                                                 \
	X(WR_LAB_BURSTS, "bursts")                                                                 \
	X(WR_LAB_FLASH_SALE, "flash_sale")                                                         \
	X(WR_LAB_ATTACK, "attack")                                                                 \
	X(WR_LAB_LOG, "log")

enum wr_lab_traffic_kind {
#define WR_LAB_TRAFFIC_ENUM(name, text) name,
	WR_LAB_TRAFFIC_KINDS(WR_LAB_TRAFFIC_ENUM)
#undef WR_LAB_TRAFFIC_ENUM
};

struct wr_lab_traffic {
	uint8_t kind;         /* enum wr_lab_traffic_kind */
	uint64_t rate_mhz;    /* thousandths of a request per second */
	uint64_t peak_mhz;    /* flash sale: rate at start_ns, in addition to rate_mhz */
	uint64_t start_ns;    /* start of this traffic, or of the flash sale */
	uint64_t for_ns;      /* its length; 0: until the end of the run */
	uint64_t half_ns;     /* flash sale: time in which the additional rate halves */
	uint64_t every_ns;    /* bursts: time between two bursts */
	uint32_t burst;       /* bursts: requests of a burst */
	uint32_t client;      /* number of the only client, from 1; 0: all clients */
	uint32_t cost;        /* cost of a request */
	uint32_t regions;     /* set of the regions where the requests arrive, one bit each */
	char *path;           /* of a log; relative to the folder of the scenario */
	uint32_t speed_milli; /* of a log: 2,000 means twice as fast */
};

/* X(enum value, name): the kinds of faults. */
#define WR_LAB_FAULT_KINDS(X)                                                                      \
	X(WR_LAB_PARTITION, "partition") /* a region does not reach the other regions */           \
	X(WR_LAB_REDIS_DOWN, "redis_down")                                                         \
	X(WR_LAB_REDIS_FLUSH, "redis_flush")                                                       \
	X(WR_LAB_REDIS_SLOW, "redis_slow")                                                         \
	X(WR_LAB_REDIS_FAILOVER, "redis_failover")                                                 \
	X(WR_LAB_LOSS, "loss")                                                                     \
	X(WR_LAB_NODE_CRASH, "node_crash")                                                         \
	X(WR_LAB_CLOCK_SKEW, "clock_skew")

enum wr_lab_fault_kind {
#define WR_LAB_FAULT_ENUM(name, text) name,
	WR_LAB_FAULT_KINDS(WR_LAB_FAULT_ENUM)
#undef WR_LAB_FAULT_ENUM
};

struct wr_lab_fault {
	uint8_t kind; /* enum wr_lab_fault_kind */
	uint64_t at_ns;
	uint64_t for_ns;   /* 0: the fault does not end, or has no length */
	int64_t by_ns;     /* redis_slow: additional delay; clock_skew: how far ahead */
	uint64_t lag_ns;   /* redis_failover: age of the replica's data */
	uint32_t loss_ppm; /* loss: share of the messages that are lost */
	uint32_t regions;  /* set of regions, one bit each */
	uint32_t node;     /* number of a node in its region, from 1; 0: all nodes */
};

enum wr_lab_spread { WR_LAB_SPREAD_RANDOM, WR_LAB_SPREAD_CLIENT, WR_LAB_SPREAD_ROUND_ROBIN };

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): fields are grouped by meaning
struct wr_lab_scenario {
	char *title;  /* never NULL */
	char *folder; /* folder of the file, with a slash at the end; "" for the current folder */

	uint8_t algorithm; /* enum weir_algorithm */
	uint32_t limit, burst, queue_size;
	uint64_t period_ns;
	uint8_t on_store_failure; /* enum wr_rules_store_failure */

	uint8_t modes[WR_LAB_MODES]; /* enum wr_consistency */
	uint32_t mode_count;
	uint64_t sync_ns[WR_LAB_SWEEP];
	uint32_t sync_count;
	uint32_t nodes[WR_LAB_SWEEP]; /* nodes of a site, for regions that do not set their own */
	uint32_t node_counts;         /* number of elements of `nodes` */

	struct wr_lab_region regions[WR_LAB_REGIONS];
	uint32_t region_count;
	bool shared_redis; /* all nodes use the Redis of the region redis_region */
	uint32_t redis_region;
	uint64_t redis_delay_ns;  /* delay of a message to the region's Redis, one way */
	uint64_t region_delay_ns; /* delay of a message between two regions, one way */
	struct wr_lab_link links[WR_LAB_LINKS];
	uint32_t link_count;
	uint64_t jitter_ns; /* a random time up to jitter_ns is added to each delay */
	uint32_t loss_ppm;
	uint64_t timeout_ns;

	uint32_t clients;
	uint32_t zipf_milli; /* exponent of Zipf's law in thousandths; 0: all clients are alike */
	uint8_t spread;      /* enum wr_lab_spread */
	struct wr_lab_traffic traffic[WR_LAB_TRAFFIC];
	uint32_t traffic_count;
	struct wr_lab_fault faults[WR_LAB_FAULTS]; /* in the order of at_ns */
	uint32_t fault_count;

	uint64_t duration_ns;
	/* All traffic comes from logs, and the file has no `duration`: the run lasts as long as the
	 * logs. duration_ns is the longest duration until wr_lab_simulate() has read the logs. */
	bool as_long_as_logs;
	uint64_t requests_max; /* a run ends after this many requests; 0: no maximum */
	uint64_t seed;
	uint32_t seeds; /* number of runs, with the seeds `seed`, `seed` + 1, … */
};

/* Reads a scenario. Returns 0, WEIR_ERULES (`errors` has the reasons) or WEIR_EMEMORY. The caller
 * frees `errors` with weir_errors_free() in all cases. There may be warnings on success. */
int wr_lab_scenario_load(const char *path, struct wr_lab_scenario **out,
			 struct weir_errors *errors);
void wr_lab_scenario_free(struct wr_lab_scenario *scenario);

/* Returns the number of sites of all regions, and the number of nodes if a site has `nodes`. */
uint32_t wr_lab_scenario_sites(const struct wr_lab_scenario *scenario);
uint32_t wr_lab_scenario_nodes(const struct wr_lab_scenario *scenario, uint32_t nodes);
/* Returns whether rule files allow this mode for the algorithm of the scenario. */
bool wr_lab_scenario_allows(const struct wr_lab_scenario *scenario, uint8_t mode);
/* Returns the number of units that the limit admits at once. */
uint32_t wr_lab_scenario_capacity(const struct wr_lab_scenario *scenario);

#endif
