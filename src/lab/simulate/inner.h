/* The state of one run of a scenario, for simulate.c, simulate_fault.c and simulate_verdict.c. */
#ifndef WR_LAB_SIMULATE_INNER_H
#define WR_LAB_SIMULATE_INNER_H

#include "lab/simulate/arrivals.h"
#include "lab/simulate/oracle.h"
#include "lab/simulate/simulate.h"

/* The largest limit for which the ages of unknown units are measured. */
#define WR_LAB_AGE_LIMIT 1000000u
#define WR_LAB_ACTIONS (3 * WR_LAB_FAULTS)

/* A step of a fault: a replica copies its data before a failover, the fault begins, or it ends. */
struct wr_lab_action {
	uint64_t at_ns;
	const struct wr_lab_fault *fault;
	enum { WR_LAB_ACTION_COPY, WR_LAB_ACTION_BEGIN, WR_LAB_ACTION_END } step;
};

/* The nodes of the fleet: the nodes of the first region come first, site by site. */
struct wr_lab_fleet {
	uint32_t node_count, server_count;
	uint16_t *node_servers, *node_regions;
	struct wr_sim_fleet_path *paths;
	uint32_t region_first[WR_LAB_REGIONS], region_nodes[WR_LAB_REGIONS];
};

/* The verdicts that wait until all verdicts with earlier times are known: a heap. */
struct wr_lab_pending {
	struct wr_sim_fleet_verdict *verdicts;
	size_t count, cap;
};

struct wr_lab_state {
	const struct wr_lab_scenario *scenario;
	struct wr_lab_run *run;
	struct wr_lab_fleet layout;
	struct wr_sim_fleet *fleet;
	struct wr_lab_oracle *oracle;
	struct wr_lab_bounds *bounds;
	struct wr_lab_arrivals *arrivals;
	struct wr_lab_pending pending;
	struct wr_lab_action actions[WR_LAB_ACTIONS];
	size_t action_count, next_action;
	uint64_t next_sample_ns;
	uint32_t sample; /* index of the next sample */
	uint32_t round_robin;
	uint64_t requests;
	uint64_t end_ns; /* end of the traffic */
	bool first_seed;
	bool failed; /* no memory */
	/* Ages: admitted_ns[i] is the time at which client 1 got its unit i in the window
	 * window_number, of which it got window_count units. NULL: no ages are measured. */
	uint64_t *admitted_ns;
	uint64_t window_number;
	uint32_t window_count;
};

/* measure.c: if the run lasts as long as its logs, reads the logs and sets duration_ns to the first
 * full second after their last request. Returns 0, or an error of wr_lab_arrivals_open(). */
int wr_lab_measure_logs(struct wr_lab_scenario *scenario, struct weir_error *error);

/* measure.c: sets *end_ns to the end of a run with this seed: the time of the first request that
 * requests_max leaves out, or duration_ns. Returns 0, or an error of wr_lab_arrivals_open(). */
int wr_lab_measure_run(const struct wr_lab_scenario *scenario, uint64_t seed, uint64_t *end_ns,
		       struct weir_error *error);

/* simulate_layout.c: places the nodes. Returns false if there is no memory. */
bool wr_lab_fleet_make(const struct wr_lab_scenario *scenario, uint32_t nodes, uint8_t mode,
		       struct wr_lab_fleet *layout);
void wr_lab_fleet_free(struct wr_lab_fleet *layout);
/* Returns the node for a request. If it is down, the caller tries the next one, with `attempt` from
 * 0 on. Returns UINT32_MAX if all nodes were tried. */
uint32_t wr_lab_fleet_pick(struct wr_lab_state *state, const struct wr_lab_arrival *arrival,
			   uint32_t attempt);

/* simulate_fault.c */
void wr_lab_faults_plan(struct wr_lab_state *state);
void wr_lab_fault_act(struct wr_lab_state *state, const struct wr_lab_action *action);

/* simulate_verdict.c: wr_lab_verdict_note() is the callback of the fleet. wr_lab_verdicts_judge()
 * passes all verdicts before until_ns to the oracle. */
void wr_lab_verdict_note(void *context, const struct wr_sim_fleet_verdict *verdict);
void wr_lab_verdicts_judge(struct wr_lab_state *state, uint64_t until_ns);
/* Samples what the nodes know, at the present time now_ns. */
void wr_lab_knowledge_sample(struct wr_lab_state *state, uint64_t now_ns);

#endif
