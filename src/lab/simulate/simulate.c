/* Runs the combinations of a scenario one after the other: see simulate.h. */
#include "lab/simulate/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "lab/simulate/inner.h"
#include "rules/rules.h"
#include "sim/redis.h"
#include "store/exchange.h"

#define US 1000ull
#define MS 1000000ull
/* After the end of the traffic, requests in flight have this time, in addition to the timeout. */
#define DRAIN_NS (2000 * MS)
#define PROGRESS_REQUESTS 65536u

_Static_assert(WR_LAB_REGIONS == WR_EXCHANGE_PEERS + 1, "regions that exchange counters");

struct progress {
	void (*call)(void *context, const struct wr_lab_progress *progress);
	void *context;
	struct wr_lab_progress now;
	uint64_t before; /* requests of the runs that have ended */
};

static void show_progress(struct progress *progress, const struct wr_lab_state *state,
			  uint64_t at_ns)
{
	progress->now.at_ns = at_ns;
	progress->now.requests = progress->before + state->requests;
	if (progress->call)
		progress->call(progress->context, &progress->now);
}

/* ---- one run ---- */

/* Runs the fleet until at_ns, with the faults and samples that are due until then. */
static void run_until(struct wr_lab_state *state, uint64_t at_ns, struct progress *progress)
{
	for (;;) {
		const struct wr_lab_action *action = &state->actions[state->next_action];
		bool acts = state->next_action < state->action_count;
		uint64_t action_ns = acts ? action->at_ns : UINT64_MAX;

		if (state->next_sample_ns <= at_ns && state->next_sample_ns <= action_ns) {
			wr_sim_fleet_run(state->fleet, state->next_sample_ns);
			wr_lab_verdicts_judge(state, wr_sim_fleet_oldest_ns(state->fleet));
			if (state->admitted_ns)
				wr_lab_knowledge_sample(state, state->next_sample_ns);
			show_progress(progress, state, state->next_sample_ns);
			state->sample++;
			state->next_sample_ns =
				state->sample < WR_LAB_SECTIONS
					? (uint64_t)((unsigned __int128)(state->sample + 1) *
						     state->scenario->duration_ns / WR_LAB_SECTIONS)
					: UINT64_MAX;
		} else if (action_ns <= at_ns) {
			wr_sim_fleet_run(state->fleet, action_ns);
			wr_lab_fault_act(state, action);
			state->next_action++;
		} else {
			break;
		}
	}
	wr_sim_fleet_run(state->fleet, at_ns);
}

static void make_request(struct wr_lab_state *state, const struct wr_lab_arrival *arrival)
{
	uint32_t node, attempt = 0;

	state->requests++;
	state->run->requests++;
	state->run->curves.offered[state->sample]++;
	do {
		node = wr_lab_fleet_pick(state, arrival, attempt++);
	} while (node != UINT32_MAX &&
		 !wr_sim_fleet_request(state->fleet, node, arrival->client, arrival->cost));
	state->run->lost += node == UINT32_MAX;
}

static void drive(struct wr_lab_state *state, struct progress *progress)
{
	const struct wr_lab_scenario *scenario = state->scenario;
	struct wr_sim_fleet_totals totals;
	struct wr_lab_arrival arrival;

	while (!state->failed &&
	       (!scenario->requests_max || state->requests < scenario->requests_max) &&
	       wr_lab_arrivals_next(state->arrivals, &arrival)) {
		run_until(state, arrival.at_ns, progress);
		make_request(state, &arrival);
		if (state->pending.count)
			wr_lab_verdicts_judge(state, wr_sim_fleet_oldest_ns(state->fleet));
		if (state->requests % PROGRESS_REQUESTS == 0)
			show_progress(progress, state, arrival.at_ns);
	}
	run_until(state, state->end_ns, progress);
	state->action_count = state->next_action; /* no faults while requests in flight end */
	wr_sim_fleet_totals(state->fleet, &totals);
	state->run->calls += totals.calls;
	state->run->commands += totals.commands;
	state->run->duration_s += (double)state->end_ns / 1e9;
	state->next_sample_ns = UINT64_MAX;
	state->sample = WR_LAB_SECTIONS - 1;
	run_until(state, state->end_ns + scenario->timeout_ns + DRAIN_NS, progress);
	wr_lab_verdicts_judge(state, UINT64_MAX);
}

/* Adds the figures that are known at the end of a run. */
static int finish(struct wr_lab_state *state, struct weir_error *error)
{
	struct wr_lab_run *run = state->run;
	struct wr_sim_fleet_totals totals;
	struct wr_lab_oracle_totals error_units;
	struct wr_lab_bound bound;

	wr_lab_oracle_totals(state->oracle, &error_units);
	run->beyond += error_units.beyond;
	run->wrongly_refused += error_units.wrongly_refused;
	run->exact += error_units.exact;
	wr_sim_fleet_totals(state->fleet, &totals);
	run->burnt += totals.burnt;
	if (totals.overshoot_ppm > run->gauge_ppm)
		run->gauge_ppm = totals.overshoot_ppm;
	for (uint32_t i = 0; i < state->scenario->clients; i++)
		if (wr_lab_oracle_excess(state->oracle, i) > run->overshoot) {
			run->overshoot = wr_lab_oracle_excess(state->oracle, i);
			run->overshoot_client = i;
		}
	wr_lab_bounds_compare(state->bounds, state->oracle, &bound);
	if (run->bound.reason)
		wr_lab_bound_merge(&run->bound, &bound);
	else
		run->bound = bound;
	if (state->failed || wr_lab_oracle_failed(state->oracle))
		return wr_error(error, WEIR_EMEMORY, "no memory for the requests of the run");
	if (totals.failure[0])
		return wr_error(error, WEIR_ESYS, "the simulation has failed: %s", totals.failure);
	return 0;
}

static int open_run(struct wr_lab_state *state, uint32_t nodes, uint64_t seed,
		    struct wr_sim_lua *lua, struct weir_error *error)
{
	const struct wr_lab_scenario *scenario = state->scenario;
	const struct wr_lab_run *run = state->run;
	struct wr_lab_fleet *layout = &state->layout;
	struct wr_sim_fleet_opts opts = {.seed = seed,
					 .consistency = run->mode,
					 .on_store_failure = scenario->on_store_failure,
					 .algorithm = scenario->algorithm,
					 .limit = scenario->limit,
					 .burst = scenario->burst,
					 .queue_size = scenario->queue_size,
					 .period_ns = scenario->period_ns,
					 .sync_ns = run->sync_ns,
					 .timeout_ns = scenario->timeout_ns,
					 .keys = scenario->clients,
					 .decided = wr_lab_verdict_note,
					 .context = state};
	struct wr_lab_oracle_opts judge = {.algorithm = scenario->algorithm,
					   .limit = scenario->limit,
					   .capacity = wr_lab_scenario_capacity(scenario),
					   .period_ns = scenario->period_ns,
					   .keys = scenario->clients,
					   .slack_ns = 2 * US};
	struct wr_lab_bounds_opts limits = {.scenario = scenario,
					    .mode = run->mode,
					    .sync_ns = run->sync_ns,
					    .end_ns = state->end_ns};
	int rc;

	if (!wr_lab_fleet_make(scenario, nodes, run->mode, layout))
		return wr_error(error, WEIR_EMEMORY, "no memory for %u nodes", layout->node_count);
	opts.node_count = limits.node_count = layout->node_count;
	opts.server_count = limits.server_count = layout->server_count;
	opts.node_servers = limits.node_servers = layout->node_servers;
	opts.paths = limits.paths = layout->paths;
	state->oracle = wr_lab_oracle_new(&judge);
	state->bounds = wr_lab_bounds_new(&limits);
	if (run->mode == WR_EVENTUAL && scenario->algorithm == WEIR_FIXED_WINDOW &&
	    scenario->limit <= WR_LAB_AGE_LIMIT)
		state->admitted_ns = calloc(scenario->limit, sizeof *state->admitted_ns);
	if (!state->oracle || !state->bounds)
		return wr_error(error, WEIR_EMEMORY, "no memory for %u clients", scenario->clients);
	rc = wr_lab_arrivals_open(scenario, seed, &state->arrivals, error);
	return rc == 0 ? wr_sim_fleet_new(&opts, lua, &state->fleet, error) : rc;
}

static void close_run(struct wr_lab_state *state)
{
	wr_sim_fleet_free(state->fleet);
	wr_lab_arrivals_close(state->arrivals);
	wr_lab_bounds_free(state->bounds);
	wr_lab_oracle_free(state->oracle);
	wr_lab_fleet_free(&state->layout);
	free(state->pending.verdicts);
	free(state->admitted_ns);
	free(state);
}

/* Runs one combination with one seed. `nodes` is the number of nodes of a site. */
static int run_once(struct wr_lab_simulation *simulation, struct wr_lab_run *run, uint32_t nodes,
		    uint64_t seed, struct wr_sim_lua *lua, struct progress *progress,
		    struct weir_error *error)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	struct wr_lab_state *state = calloc(1, sizeof *state);
	int rc;

	if (!state)
		return wr_error(error, WEIR_EMEMORY, "no memory for a run");
	state->scenario = scenario;
	state->run = run;
	state->first_seed = seed == scenario->seed;
	state->next_sample_ns = scenario->duration_ns / WR_LAB_SECTIONS;
	rc = wr_lab_measure_run(scenario, seed, &state->end_ns, error);
	if (rc == 0)
		rc = open_run(state, nodes, seed, lua, error);
	if (rc == 0) {
		wr_lab_faults_plan(state);
		drive(state, progress);
		rc = finish(state, error);
		if (progress->now.run == 0) {
			wr_lab_arrivals_logs(state->arrivals, &simulation->log);
			wr_lab_arrivals_notes(state->arrivals, &simulation->log_notes);
		}
		simulation->unread_logs |= wr_lab_arrivals_unread(state->arrivals, state->end_ns);
		if (state->end_ns < simulation->end_ns)
			simulation->end_ns = state->end_ns;
	}
	progress->before += state->requests;
	progress->now.run++;
	close_run(state);
	return rc;
}

/* ---- all runs ---- */

/* Only an eventual limit depends on the sync interval. */
static uint32_t intervals_of(const struct wr_lab_scenario *scenario, uint8_t mode)
{
	return mode == WR_EVENTUAL ? scenario->sync_count : 1;
}

static int run_all(struct wr_lab_simulation *simulation, struct wr_sim_lua *lua,
		   struct progress *progress, struct weir_error *error)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	int rc = 0;

	for (uint32_t m = 0; m < scenario->mode_count; m++)
		for (uint32_t n = 0; n < scenario->node_counts; n++)
			for (uint32_t s = 0; s < intervals_of(scenario, scenario->modes[m]); s++) {
				struct wr_lab_run *run = &simulation->runs[simulation->run_count++];

				run->mode = scenario->modes[m];
				run->sync_ns = scenario->sync_ns[s];
				run->nodes = wr_lab_scenario_nodes(scenario, scenario->nodes[n]);
				for (uint32_t i = 0; rc == 0 && i < scenario->seeds; i++)
					rc = run_once(simulation, run, scenario->nodes[n],
						      scenario->seed + i, lua, progress, error);
				if (rc != 0)
					return rc;
			}
	return 0;
}

static struct wr_lab_simulation *simulation_new(const struct wr_lab_scenario *scenario,
						size_t run_count)
{
	struct wr_lab_simulation *simulation = calloc(1, sizeof *simulation);

	if (!simulation)
		return NULL;
	simulation->scenario = scenario;
	simulation->end_ns = scenario->duration_ns;
	simulation->runs = calloc(run_count, sizeof *simulation->runs);
	if (simulation->runs)
		return simulation;
	free(simulation);
	return NULL;
}

int wr_lab_simulate(struct wr_lab_scenario *scenario,
		    void (*progress)(void *context, const struct wr_lab_progress *progress),
		    void *context, struct wr_lab_simulation **out, struct weir_error *error)
{
	struct progress shown = {.call = progress, .context = context};
	struct wr_lab_simulation *simulation;
	struct wr_sim_lua *lua;
	size_t count = 0;
	int rc = wr_lab_measure_logs(scenario, error);

	if (rc != 0)
		return rc;
	for (uint32_t m = 0; m < scenario->mode_count; m++)
		count += (size_t)scenario->node_counts * intervals_of(scenario, scenario->modes[m]);
	wr_assert(count > 0);
	simulation = simulation_new(scenario, count);
	if (!simulation)
		return wr_error(error, WEIR_EMEMORY, "no memory for %zu runs", count);
	shown.now.run_count = count * scenario->seeds;
	shown.now.duration_ns = scenario->duration_ns;
	lua = wr_sim_lua_new();
	rc = run_all(simulation, lua, &shown, error);
	wr_sim_lua_free(lua);
	if (rc == 0)
		*out = simulation;
	else
		wr_lab_simulation_free(simulation);
	return rc;
}

void wr_lab_simulation_free(struct wr_lab_simulation *simulation)
{
	if (!simulation)
		return;
	free(simulation->runs);
	free(simulation);
}
