/* Runs a scenario: one run for each mode, sync interval, number of nodes and seed. */
#ifndef WR_LAB_SIMULATE_SIMULATE_H
#define WR_LAB_SIMULATE_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>

#include "lab/log/log.h"
#include "lab/simulate/arrivals.h"
#include "lab/simulate/bound.h"
#include "lab/simulate/histogram.h"
#include "lab/simulate/scenario.h"

#define WR_LAB_SECTIONS 240u /* points of the curves of a run */

/* Curves over the time of a run. The runs of several seeds are added up. */
struct wr_lab_curves {
	uint64_t offered[WR_LAB_SECTIONS], admitted[WR_LAB_SECTIONS], refused[WR_LAB_SECTIONS];
	/* Only for an eventual fixed window: what the nodes know about client 1, in the run with the
	 * first seed. The units admitted in the window, and the smallest and the largest number
	 * that a node knows of. */
	uint32_t used[WR_LAB_SECTIONS], least_known[WR_LAB_SECTIONS], most_known[WR_LAB_SECTIONS];
	bool has_known;
};

/* The result of the runs of one combination, with all seeds. */
struct wr_lab_run {
	uint8_t mode; /* enum wr_consistency */
	uint64_t sync_ns;
	uint32_t nodes; /* nodes of the fleet */
	uint64_t requests, admitted, refused;
	uint64_t lost;                    /* requests whose node was down or died */
	uint64_t without_redis;           /* requests that `on_store_failure` decided */
	uint64_t beyond, wrongly_refused; /* in units, see oracle.h */
	uint64_t exact;                   /* units that an exact limiter admits */
	struct wr_lab_histogram latency;  /* from the arrival to the verdict */
	uint64_t calls, commands;         /* that Redis received */
	uint64_t burnt;
	double duration_s; /* of all runs together */
	/* The largest number of units beyond the limit, and the client to which this applies. */
	uint64_t overshoot;
	uint32_t overshoot_client;
	struct wr_lab_bound bound;
	uint32_t gauge_ppm; /* the largest overshoot that a node reported */
	/* Only for an eventual fixed window: age of the oldest unit of client 1 that a node did not
	 * know of. Only nodes that admitted units of client 1 within D are asked, because other
	 * nodes do not exchange this counter. */
	struct wr_lab_histogram age;
	struct wr_lab_curves curves;
};

struct wr_lab_simulation {
	const struct wr_lab_scenario *scenario;
	size_t run_count;
	struct wr_lab_run *runs; /* by mode, then by number of nodes, then by sync interval */
	/* The lines that the first run read from the logs of the traffic. `lines` is 0 if the traffic
	 * has no log. */
	struct wr_lab_log_totals log;
	struct wr_lab_log_notes log_notes; /* of the first run */
	/* The earliest end of a run. Faults and traffic that begin later are left out. */
	uint64_t end_ns;
	/* The logs that have further requests after the end of a run: bit i stands for the entry i
	 * of `traffic`. */
	uint32_t unread_logs;
};

/* How far a simulation is. */
struct wr_lab_progress {
	size_t run, run_count; /* the present run, from 0; the runs of all seeds count */
	uint64_t at_ns, duration_ns;
	uint64_t requests; /* of all runs so far */
};

/* Runs the scenario. Sets its duration_ns if the run lasts as long as its logs. Calls `progress`, which may be NULL, now and then. Returns 0, WEIR_EMEMORY,
 * WEIR_ENOSPACE, WEIR_EINTERNAL if the simulation itself has failed, or an error of
 * wr_lab_log_open(). The caller keeps the scenario, and frees the simulation. */
int wr_lab_simulate(struct wr_lab_scenario *scenario,
		    void (*progress)(void *context, const struct wr_lab_progress *progress),
		    void *context, struct wr_lab_simulation **out, struct weir_error *error);
void wr_lab_simulation_free(struct wr_lab_simulation *simulation);

#endif
