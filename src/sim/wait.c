/* Checks requests that ask Redis: the circuit breaker must open after timeouts, and a node without
 * Redis may admit at most its share of the amount that remained in the latest reply of Redis.
 * request.c calls these functions. */
#include <stdlib.h>

#include "central/breaker.h"
#include "sim/sim_inner.h"

/* ---- the circuit breaker ---- */

static uint64_t breakers_opened(const struct wr_sim_node *node)
{
	struct wr_central_info *info = wr_sim_alloc(1, sizeof *info);
	uint64_t opened;

	wr_central_info(node->home.central, info);
	opened = info->counts.opened;
	free(info);
	return opened;
}

static void count_timeout(struct wr_sim_node *node, const struct wr_sim_request *request)
{
	struct wr_sim *sim = node->sim;
	/* Each shard of a cluster has a circuit breaker, which opens after WR_CENTRAL_BREAKER_FAILURES
	 * timeouts. All breakers can stay closed if each has one timeout less than that. `expected`
	 * is one more than the sum of these timeouts. So after `expected` timeouts, at least one
	 * breaker must be open. */
	uint32_t expected =
		(sim->plan->shards ? sim->plan->shards : 1) * (WR_CENTRAL_BREAKER_FAILURES - 1) + 1;

	if (node->timeouts == 0)
		node->opened_before = breakers_opened(node);
	if (++node->timeouts == expected)
		node->timeouts_since_ns = sim->now_ns;
	if (node->timeouts > expected && request->begun_ns > node->timeouts_since_ns &&
	    breakers_opened(node) == node->opened_before)
		wr_sim_fail(sim,
			    "node %u: %u requests in a row timed out, and the breaker is closed",
			    node->number, node->timeouts);
}

/* While replies take longer than the timeout, the circuit breaker of a server must open after
 * WR_CENTRAL_BREAKER_FAILURES timeouts. Later requests then do not wait. Only runs without batches are
 * checked: in a batch, several requests may wait for one call to Redis, and the breaker counts the
 * timeout of this call only once. */
void wr_sim_check_wait(struct wr_sim_request *request, bool failed)
{
	struct wr_sim_node *node = request->node;
	const struct wr_sim *sim = node->sim;
	bool slow = node->slow_until_ns > sim->now_ns && request->begun_ns > node->slow_from_ns;

	if (!failed || !slow)
		node->timeouts = 0;
	else if (sim->plan->batch_max == 1 &&
		 sim->now_ns - request->begun_ns >= sim->plan->timeout_ns)
		count_timeout(node, request);
}

/* ---- the last reply about a key ---- */

/* Ignores the reply if the request began in an earlier window, because the reply may describe that
 * earlier window. The node ignores such a reply too. */
void wr_sim_known_update(struct wr_sim_request *request, const struct weir_decision *decision,
			 uint8_t key)
{
	struct wr_sim_node *node = request->node;
	const struct wr_sim_plan *plan = node->sim->plan;
	uint64_t epoch_ns = wr_sim_epoch_ns(plan);

	if (wr_sim_window_of(plan, (epoch_ns + request->begun_ns) / 1000) !=
	    wr_sim_window_of(plan, (epoch_ns + node->sim->now_ns) / 1000))
		return;
	node->known[key].known = true;
	node->known[key].remaining = decision->remaining;
	node->known[key].nodes = weir_fleet_nodes(node->table, NULL);
	node->known[key].at_us = node->reply_us;
	node->known[key].since = 0;
}

/* If the node has a reply of Redis about the current window, the node's share is a part of the
 * amount that remained in the reply, not of the limit. */
void wr_sim_check_known_share(struct wr_sim_request *request,
			      const struct wr_sim_admission *admission)
{
	struct wr_sim_node *node = request->node;
	const struct wr_sim_plan *plan = node->sim->plan;
	uint8_t key = admission->key;
	uint64_t share;

	if (plan->algorithm != WEIR_FIXED_WINDOW || wr_sim_has_fault(node->sim, WR_SIM_SKEW) ||
	    wr_sim_has_fault(node->sim, WR_SIM_RULES) ||
	    wr_sim_has_fault(node->sim, WR_SIM_LEAVE) || key >= plan->keys || plan->soft_percent ||
	    plan->settles || plan->order_gap_ns || !node->known[key].known ||
	    node->known[key].nodes != admission->nodes ||
	    wr_sim_window_of(plan, node->known[key].at_us) !=
		    wr_sim_window_of(plan, admission->at_us))
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
