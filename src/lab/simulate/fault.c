/* Injects the faults of a scenario at their times. */
#include <stdlib.h>

#include "lab/simulate/inner.h"

static int compare_actions(const void *a, const void *b)
{
	const struct wr_lab_action *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->fault < y->fault ? -1 : x->fault > y->fault;
}

static uint64_t end_of(const struct wr_lab_fault *fault)
{
	return fault->for_ns ? fault->at_ns + fault->for_ns : UINT64_MAX;
}

void wr_lab_faults_plan(struct wr_lab_state *state)
{
	for (uint32_t i = 0; i < state->scenario->fault_count; i++) {
		const struct wr_lab_fault *fault = &state->scenario->faults[i];

		/* --duration and --requests can end the run before its last faults. */
		if (fault->at_ns >= state->end_ns)
			break;
		if (fault->kind == WR_LAB_REDIS_FAILOVER)
			state->actions[state->action_count++] = (struct wr_lab_action){
				fault->at_ns > fault->lag_ns ? fault->at_ns - fault->lag_ns : 0,
				fault, WR_LAB_ACTION_COPY};
		state->actions[state->action_count++] =
			(struct wr_lab_action){fault->at_ns, fault, WR_LAB_ACTION_BEGIN};
		if (fault->for_ns)
			state->actions[state->action_count++] =
				(struct wr_lab_action){end_of(fault), fault, WR_LAB_ACTION_END};
	}
	qsort(state->actions, state->action_count, sizeof *state->actions, compare_actions);
	wr_sim_fleet_lose(state->fleet, state->scenario->loss_ppm);
}

/* ---- the kinds ---- */

/* The regions of the set do not reach the others. Messages between them wait until the end. */
static void partition(const struct wr_lab_state *state, const struct wr_lab_fault *fault)
{
	const struct wr_lab_scenario *scenario = state->scenario;

	for (uint32_t node = 0; node < state->layout.node_count; node++)
		for (uint32_t server = 0; server < state->layout.server_count; server++) {
			uint32_t here = state->layout.node_regions[node];
			uint32_t there = scenario->shared_redis ? scenario->redis_region : server;

			if ((fault->regions >> here & 1) != (fault->regions >> there & 1))
				wr_sim_fleet_cut(state->fleet, node, server, end_of(fault));
		}
}

static void act_on_redis(const struct wr_lab_state *state, const struct wr_lab_action *action,
			 uint32_t server)
{
	const struct wr_lab_fault *fault = action->fault;

	switch (fault->kind) {
	case WR_LAB_REDIS_DOWN:
		wr_sim_fleet_redis_stop(state->fleet, server, end_of(fault));
		break;
	case WR_LAB_REDIS_FLUSH:
		wr_sim_fleet_redis_flush(state->fleet, server);
		break;
	case WR_LAB_REDIS_SLOW:
		wr_sim_fleet_redis_slow(state->fleet, server, (uint64_t)fault->by_ns,
					end_of(fault));
		break;
	default:
		if (action->step == WR_LAB_ACTION_COPY)
			wr_sim_fleet_replicate(state->fleet, server);
		else
			wr_sim_fleet_failover(state->fleet, server);
	}
}

static void act_on_servers(const struct wr_lab_state *state, const struct wr_lab_action *action)
{
	const struct wr_lab_scenario *scenario = state->scenario;

	if (action->step == WR_LAB_ACTION_END) /* the fleet ends the fault by itself */
		return;
	for (uint32_t server = 0; server < state->layout.server_count; server++) {
		uint32_t region = scenario->shared_redis ? scenario->redis_region : server;

		if (action->fault->regions >> region & 1)
			act_on_redis(state, action, server);
	}
}

static void act_on_nodes(const struct wr_lab_state *state, const struct wr_lab_action *action)
{
	const struct wr_lab_fault *fault = action->fault;
	bool begins = action->step == WR_LAB_ACTION_BEGIN;

	for (uint32_t node = 0; node < state->layout.node_count; node++) {
		uint32_t region = state->layout.node_regions[node];

		if (!(fault->regions >> region & 1) ||
		    (fault->node && node != state->layout.region_first[region] + fault->node - 1))
			continue;
		if (fault->kind == WR_LAB_CLOCK_SKEW)
			wr_sim_fleet_skew(state->fleet, node, begins ? fault->by_ns : 0);
		else if (begins)
			wr_sim_fleet_crash(state->fleet, node);
		else
			wr_sim_fleet_restart(state->fleet, node);
	}
}

void wr_lab_fault_act(struct wr_lab_state *state, const struct wr_lab_action *action)
{
	const struct wr_lab_fault *fault = action->fault;

	switch (fault->kind) {
	case WR_LAB_PARTITION:
		if (action->step == WR_LAB_ACTION_BEGIN)
			partition(state, fault);
		break;
	case WR_LAB_LOSS:
		wr_sim_fleet_lose(state->fleet, action->step == WR_LAB_ACTION_BEGIN
							? fault->loss_ppm
							: state->scenario->loss_ppm);
		break;
	case WR_LAB_NODE_CRASH:
	case WR_LAB_CLOCK_SKEW:
		act_on_nodes(state, action);
		break;
	default:
		act_on_servers(state, action);
	}
}
