/* The parts of a fleet, for fleet.c and fleet_fault.c. */
#ifndef WR_SIM_FLEET_INNER_H
#define WR_SIM_FLEET_INNER_H

#include "base/list.h"
#include "sim/fleet.h"
#include "sim/sim_inner.h"

/* A request of a fleet. The object is used again for a later request. */
struct fleet_request {
	struct wr_list link; /* in fleet->waiting while the request waits for Redis */
	struct fleet_request *spare_next;
	struct wr_sim_node *node;
	struct wr_central_ask question;
	struct weir_ask *ask;
	uint32_t key, cost;
	uint64_t begun_ns; /* true time */
	void *memory;
};

struct wr_sim_fleet {
	struct wr_sim_fleet_opts opts;
	struct wr_sim *sim;
	struct wr_sim_plan plan;
	struct wr_sim_report report;
	uint64_t warm_ns; /* true time at which the traffic starts */
	/* commands that Redis received before the start of the traffic */
	uint64_t warm_calls, warm_commands;
	uint32_t loss_ppm;
	struct wr_list waiting; /* requests that wait for Redis */
	struct fleet_request *spare;
	bool asking; /* wr_central_take() is running, so a verdict is not from a new reply */
	/* The counts of `weir serve` processes that have ended, and the largest gauge so far. */
	struct wr_sim_fleet_totals ended;
	struct wr_central_info info; /* scratch memory; the struct is large */
};

/* Ends the requests of a node that dies. */
void wr_sim_fleet_end_requests(struct wr_sim_node *node);

#endif
