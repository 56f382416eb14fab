/* Runs a plan: starts the nodes and servers, runs the events, and checks the invariants. Tests and
 * test/sim/sim.c call wr_sim_run(). */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_inner.h"
#include "rules/rules.h"

#define END_NS 1000000000ull /* time for the replies to the final probes */

static void start_node(struct wr_sim *sim, void *object, uint64_t number)
{
	(void)object;
	if (!sim->nodes[number].table)
		wr_sim_node_start(sim, (unsigned)number);
}

/* First only one node gets a request for each key. Then a probe reads the counters of this node.
 * The node must know the sum of all admissions that the other nodes have reported. Later all nodes
 * get two requests for each key. After the first of these requests, the nodes report again the
 * counts that Redis may have lost. After the second of these requests, the nodes learn the new
 * sum. */
static void schedule_final_requests(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t part_ns = plan->quiet_ns / 4;
	uint64_t one = plan->ahead + plan->seed % (plan->nodes - plan->ahead);

	wr_sim_schedule(sim, plan->length_ns + part_ns, NULL, wr_sim_final_requests, NULL, one);
	wr_sim_schedule(sim, plan->length_ns + 2 * part_ns - 1, NULL, wr_sim_probe, NULL, one);
	for (unsigned i = 2; i <= 3; i++)
		wr_sim_schedule(sim, plan->length_ns + i * part_ns, NULL, wr_sim_final_requests,
				NULL, WR_SIM_NODES);
}

static void start_run(struct wr_sim *sim, const struct wr_sim_plan *plan)
{
	struct wr_rng rng = {plan->seed};

	sim->traffic_rng = wr_rng_fork(&rng);
	sim->net_rng = wr_rng_fork(&rng);
	sim->fault_rng = wr_rng_fork(&rng);
	wr_sim_events_init(sim);
	wr_sim_servers_start(sim);
	/* Nodes start at different times, so that their exchanges are not synchronized. */
	for (unsigned i = 0; i < plan->nodes; i++) {
		wr_sim_node_init(sim, i, i % plan->regions);
		wr_sim_schedule(sim, wr_rng_below(&sim->fault_rng, plan->sync_ns + 100000000), NULL,
				start_node, NULL, i);
	}
	wr_sim_faults_start(sim);
	wr_sim_renewals_start(sim);
	wr_sim_orders_start(sim);
	wr_sim_calendar_start(sim);
	if (plan->consistency == WR_EVENTUAL)
		schedule_final_requests(sim);
	wr_sim_schedule(sim, plan->length_ns + plan->quiet_ns, NULL, wr_sim_probe, NULL,
			WR_SIM_NODES);
}

static void end_run(struct wr_sim *sim)
{
	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		wr_sim_node_stop(&sim->nodes[i]);
		wr_sim_requests_free(&sim->nodes[i]);
		wr_sim_node_free(&sim->nodes[i]);
	}
	wr_sim_net_free(sim);
	wr_sim_events_free(sim);
	free(sim->nodes);
	free(sim->admissions);
	free(sim->arrivals);
	free(sim);
}

void wr_sim_run(const struct wr_sim_plan *plan, struct wr_sim_lua *lua, FILE *trace,
		struct wr_sim_report *report)
{
	struct wr_sim *sim = wr_sim_alloc(1, sizeof *sim);
	struct wr_sim_event *event;

	wr_assert(plan && lua && report && plan->nodes >= 1 && plan->nodes <= WR_SIM_NODES);
	*report = (struct wr_sim_report){0};
	sim->plan = plan;
	sim->report = report;
	sim->lua = lua;
	sim->trace = trace;
	sim->nodes = wr_sim_alloc(plan->nodes, sizeof *sim->nodes);
	wr_sim_servers_init(sim, WR_SIM_ENDPOINTS);
	start_run(sim, plan);
	while ((event = wr_sim_event_next(sim, plan->length_ns + plan->quiet_ns + END_NS))) {
		wr_sim_event_run(sim, event);
		free(event);
	}
	wr_sim_check(sim);
	end_run(sim);
}
