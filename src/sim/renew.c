/* Replaces random nodes during a run. A node shuts down like the service: it ends its requests and
 * reports its admissions. Then it starts again with an empty table and a new id. sim.c calls
 * wr_sim_renewals_start(). */
#include "sim/sim_inner.h"

#define MS 1000000ull
#define POLL_NS (5 * MS)
/* No node is replaced in the last 4 s of a run, so that each new node gets requests. */
#define STOP_BEFORE_NS (4000 * MS)

static void finish_renewal(struct wr_sim *sim, void *object, uint64_t incarnation)
{
	struct wr_sim_node *node = object;

	if (node->incarnation != incarnation || !node->table)
		return;
	if (node->home.central && wr_central_shut_down(node->home.central, wr_sim_node_now(node),
						       wr_sim_node_mono(node)) > 0) {
		wr_sim_schedule(sim, sim->now_ns + POLL_NS, node, finish_renewal, node,
				incarnation);
		return;
	}
	wr_sim_node_stop(node);
	wr_sim_node_start(sim, node->number);
	node->leaving = false;
}

static void renew_node(struct wr_sim *sim, void *object, uint64_t arg)
{
	const struct wr_sim_plan *plan = sim->plan;
	struct wr_sim_node *node = &sim->nodes[wr_rng_below(&sim->fault_rng, plan->nodes)];
	/* A node is not replaced before settled_ns. By then it has run long enough to report
	 * admissions to Redis, even if all messages have the longest delay (20 times the
	 * jitter). */
	uint64_t settled_ns =
		node->started_ns + 8 * (plan->delay_ns + 20 * plan->jitter_ns) + 2 * plan->sync_ns;

	(void)object;
	(void)arg;
	if (sim->now_ns + STOP_BEFORE_NS >= plan->length_ns)
		return;
	if (node->table && node->home.central && !node->leaving && sim->now_ns >= settled_ns) {
		wr_sim_trace(sim, node, "is replaced");
		sim->report->renewals++;
		node->leaving = true;
		node->incarnation++;
		wr_sim_requests_end(node);
		finish_renewal(sim, node, node->incarnation);
	}
	wr_sim_schedule(sim,
			sim->now_ns + 1 + wr_rng_below(&sim->fault_rng, 2 * plan->renew_gap_ns),
			NULL, renew_node, NULL, 0);
}

void wr_sim_renewals_start(struct wr_sim *sim)
{
	if (sim->plan->renew_gap_ns)
		wr_sim_schedule(sim, sim->plan->begin_ns + sim->plan->renew_gap_ns, NULL,
				renew_node, NULL, 0);
}
