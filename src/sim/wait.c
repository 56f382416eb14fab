/* How requests fare that wait for Redis: what they hear, and how long they wait in vain. */
#include <stdlib.h>

#include "central/breaker.h"
#include "sim/sim_inner.h"

/* ---- waiting ---- */

static uint64_t breakers_opened(const struct wr_sim_node *node)
{
	struct wr_central_info *info = wr_lab_alloc(1, sizeof *info);
	uint64_t opened;

	wr_central_info(node->home.central, info);
	opened = info->counts.opened;
	free(info);
	return opened;
}

/* So many calls in vain, and some breaker is open: each shard of a cluster has one of its own. */
static uint32_t vain_enough(const struct wr_sim_plan *plan)
{
	return (plan->shards ? plan->shards : 1) * (WR_BREAKER_FAILURES - 1) + 1;
}

static void note_in_vain(struct wr_sim_node *node, const struct wr_sim_request *request)
{
	struct wr_sim *sim = node->sim;
	uint32_t enough = vain_enough(sim->plan);

	if (node->in_vain == 0)
		node->opened = breakers_opened(node);
	if (++node->in_vain == enough)
		node->vain_from_ns = sim->now_ns;
	if (node->in_vain > enough && request->begun_ns > node->vain_from_ns &&
	    breakers_opened(node) == node->opened)
		wr_sim_fail(
			sim,
			"node %u: %u requests in a row waited in vain, and the breaker is closed",
			node->number, node->in_vain);
}

/* While no answer can come in time, five calls in vain of a server are enough: those who come later
 * do not wait. Several requests may be one call, so they are counted where each comes alone. */
void wr_sim_waited(struct wr_sim_request *request, bool failed)
{
	struct wr_sim_node *node = request->node;
	const struct wr_sim *sim = node->sim;
	bool slow = node->slow_until_ns > sim->now_ns && request->begun_ns > node->slow_from_ns;

	if (!failed || !slow)
		node->in_vain = 0;
	else if (sim->plan->crowd == 1 && sim->now_ns - request->begun_ns >= sim->plan->timeout_ns)
		note_in_vain(node, request);
}

/* ---- what is known of a counter ---- */

/* An answer to a request of an earlier window may be about that window: it was counted there, and
 * came late. The node does not heed it. */
void wr_sim_told(struct wr_sim_request *request, const struct weir_decision *said, uint8_t key)
{
	struct wr_sim_node *node = request->node;
	const struct wr_sim_plan *plan = node->sim->plan;
	uint64_t epoch_ns = wr_sim_epoch_ns(plan);

	if (wr_sim_window(plan, (epoch_ns + request->begun_ns) / 1000) !=
	    wr_sim_window(plan, (epoch_ns + node->sim->now_ns) / 1000))
		return;
	node->known[key].known = true;
	node->known[key].remaining = said->remaining;
	node->known[key].nodes = weir_fleet_nodes(node->table, NULL);
	node->known[key].at_us = node->heard_us;
	node->known[key].since = 0;
}

/* A node that has heard of the counter in this window divides what was left then, not the limit. */
void wr_sim_alone(struct wr_sim_request *request, const struct wr_sim_admission *admission)
{
	struct wr_sim_node *node = request->node;
	const struct wr_sim_plan *plan = node->sim->plan;
	uint8_t key = admission->key;
	uint64_t share;

	if (plan->algorithm != WEIR_FIXED_WINDOW || wr_sim_may(node->sim, WR_SIM_SKEW) ||
	    wr_sim_may(node->sim, WR_SIM_RULES) || wr_sim_may(node->sim, WR_SIM_LEAVE) ||
	    key >= plan->keys || plan->soft_percent || plan->order_gap_ns ||
	    !node->known[key].known || node->known[key].nodes != admission->nodes ||
	    wr_sim_window(plan, node->known[key].at_us) != wr_sim_window(plan, admission->at_us))
		return;
	share = node->known[key].remaining / node->known[key].nodes;
	node->known[key].since += admission->cost;
	if (node->known[key].since > share)
		wr_sim_fail(
			node->sim,
			"key %u: node %u admits %llu without Redis, which had %u left for %u nodes",
			key, node->number, (unsigned long long)node->known[key].since,
			node->known[key].remaining, node->known[key].nodes);
}
