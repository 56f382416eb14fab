#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_inner.h"
#include "rules/rules.h"

#define END_NS 1000000000ull /* for the last looks to be answered */

static void node_start(struct wr_sim *sim, void *object, uint64_t number)
{
	(void)object;
	if (!sim->nodes[number].table)
		wr_sim_node_start(sim, (unsigned)number);
}

/* At the end one node alone asks for what the others have told by then. Later all have a request,
 * twice: the first time they tell what Redis may have lost, the second time they hear of it. */
static void start_pokes(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint64_t part_ns = plan->quiet_ns / 4;
	uint64_t one = plan->ahead + plan->seed % (plan->nodes - plan->ahead);

	wr_sim_at(sim, plan->length_ns + part_ns, NULL, wr_sim_poke_one, NULL, one);
	wr_sim_at(sim, plan->length_ns + 2 * part_ns - 1, NULL, wr_sim_look_one, NULL, one);
	wr_sim_at(sim, plan->length_ns + 2 * part_ns, NULL, wr_sim_poke, NULL, 0);
	wr_sim_at(sim, plan->length_ns + 3 * part_ns, NULL, wr_sim_poke, NULL, 0);
}

static void start(struct wr_sim *sim, const struct wr_sim_plan *plan)
{
	struct wr_dice dice = {plan->seed};

	sim->traffic = wr_dice_part(&dice);
	sim->net = wr_dice_part(&dice);
	sim->fate = wr_dice_part(&dice);
	wr_sim_servers_start(sim);
	/* Their turns are not to be in step. */
	for (unsigned i = 0; i < plan->nodes; i++) {
		wr_sim_node_init(sim, i);
		wr_sim_at(sim, wr_dice_below(&sim->fate, plan->sync_ns + 100000000), NULL,
			  node_start, NULL, i);
	}
	wr_sim_faults_start(sim);
	wr_sim_renewals_start(sim);
	wr_sim_orders_start(sim);
	wr_sim_calendar_start(sim);
	if (plan->consistency == WR_EVENTUAL)
		start_pokes(sim);
	wr_sim_at(sim, plan->length_ns + plan->quiet_ns, NULL, wr_sim_look, NULL, 0);
}

static void turn(struct wr_sim *sim, const struct wr_sim_event *event)
{
	struct wr_sim_node *node = event->node;

	sim->now_ns = event->at_ns;
	if (node && node->still_until_ns > sim->now_ns) {
		wr_sim_at(sim, node->still_until_ns, node, event->run, event->object, event->word);
		return;
	}
	sim->report->events++;
	event->run(sim, event->object, event->word);
	for (unsigned i = 0; i < sim->plan->nodes; i++)
		if (sim->nodes[i].dirty)
			wr_sim_flush(&sim->nodes[i]);
}

static void end(struct wr_sim *sim)
{
	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		wr_sim_node_stop(&sim->nodes[i]);
		wr_sim_requests_free(&sim->nodes[i]);
	}
	wr_sim_net_free(sim);
	free(sim->events);
	free(sim->admissions);
	free(sim->arrivals);
	free(sim);
}

void wr_sim_run(const struct wr_sim_plan *plan, struct wr_lua *lua, FILE *trace,
		struct wr_sim_report *report)
{
	struct wr_sim *sim = wr_lab_alloc(1, sizeof *sim);
	struct wr_sim_event event;

	*report = (struct wr_sim_report){0};
	sim->plan = plan;
	sim->report = report;
	sim->lua = lua;
	sim->trace = trace;
	start(sim, plan);
	while (wr_sim_next(sim, plan->length_ns + plan->quiet_ns + END_NS, &event))
		turn(sim, &event);
	wr_sim_check(sim);
	end(sim);
}
