/* The documented bound on the overshoot of a limit (docs/consistency.md), for a run of a scenario.
 *
 *   local     N · C
 *   strict    C for each Redis. After a loss of data, C once more. If Redis was unavailable and the
 *   lease     rule has `on_store_failure: local`, N · max(1, ⌊C ÷ N⌋) more.
 *   eventual  C + the units that all nodes but one admitted within D, and at most N · C. With
 *             faults, more: see bound.c.
 *
 * C is the capacity of the limit: `burst` for a token bucket, otherwise the limit. N is the number
 * of nodes. D is the time after which all nodes count a unit that one node has admitted. */
#ifndef WR_LAB_SIMULATE_BOUND_H
#define WR_LAB_SIMULATE_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/simulate/scenario.h"
#include "sim/fleet.h"

struct wr_lab_oracle;

struct wr_lab_bound {
	bool exists; /* false: the documents state no bound, see `reason` */
	bool held;   /* no client exceeded its bound */
	/* The client that exceeded its bound by most, or if there is none, the client with the most
	 * units beyond the limit: these units, and how many the bound allows. */
	uint64_t allowed, measured;
	uint32_t client;
	uint64_t allowed_most;  /* the largest bound of a client, in units beyond the limit */
	uint64_t delay_ns;      /* D, for eventual limits */
	uint32_t clients_known; /* the bound was computed for the first clients only; 0: for all */
	const char *reason;     /* the terms of the bound, for people */
};

/* Collects what the bound of a run depends on. */
struct wr_lab_bounds;

struct wr_lab_bounds_opts {
	const struct wr_lab_scenario *scenario;
	uint8_t mode; /* enum wr_consistency */
	uint64_t sync_ns;
	uint64_t end_ns; /* end of the run; later faults do not happen */
	uint32_t node_count, server_count;
	const uint16_t *node_servers;          /* as in struct wr_sim_fleet_opts */
	const struct wr_sim_fleet_path *paths; /* as in struct wr_sim_fleet_opts */
};

/* Returns NULL if there is no memory. */
struct wr_lab_bounds *wr_lab_bounds_new(const struct wr_lab_bounds_opts *opts);
void wr_lab_bounds_free(struct wr_lab_bounds *bounds);
/* Called for each decision, in the order of counted_ns, before the oracle sees it. */
void wr_lab_bounds_note(struct wr_lab_bounds *bounds, const struct wr_sim_fleet_verdict *verdict,
			struct wr_lab_oracle *oracle);
/* Returns whether the node admitted units of the client within D before now_ns. */
bool wr_lab_bounds_is_active(struct wr_lab_bounds *bounds, uint32_t node, uint32_t client,
			     uint64_t now_ns);

/* Computes the bound of all clients at the end of a run, and compares it with what the oracle has
 * measured. */
void wr_lab_bounds_compare(const struct wr_lab_bounds *bounds, const struct wr_lab_oracle *oracle,
			   struct wr_lab_bound *bound);
/* Keeps the worse one of two results. */
void wr_lab_bound_merge(struct wr_lab_bound *into, const struct wr_lab_bound *from);

/* Returns the longest time between two turns of a node's exchange. */
uint64_t wr_lab_bound_turn_ns(const struct wr_lab_bounds_opts *opts);
/* Returns D for an eventual limit. */
uint64_t wr_lab_bound_delay_ns(const struct wr_lab_bounds_opts *opts);

#endif
