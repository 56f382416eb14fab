/* Picks faults by the seed, injects them, and ends them. sim.c calls wr_sim_faults_start(). */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/sim_inner.h"
#include "rules/rules.h"

#define MS 1000000ull

const char *wr_sim_fault_name(enum wr_sim_fault fault)
{
	static const char *const names[] = {
#define NAME(name, text) [name] = (text),
		WR_SIM_FAULTS(NAME)
#undef NAME
	};

	return names[fault];
}

unsigned wr_sim_fault_kinds(const struct wr_sim_plan *plan)
{
	if (plan->sentinels)
		return WR_SIM_WATCH + 1;
	if (plan->shards)
		return WR_SIM_DOWN + 1;
	return plan->consistency == WR_EVENTUAL ? WR_SIM_SLOW : WR_SIM_MOVE;
}

/* ---- nodes ---- */

static struct wr_sim_node *random_node(struct wr_sim *sim)
{
	return &sim->nodes[wr_rng_below(&sim->fault_rng, sim->plan->nodes)];
}

static void restart_serve(struct wr_sim *sim, void *object, uint64_t incarnation)
{
	struct wr_sim_node *node = object;

	(void)sim;
	if (node->incarnation == incarnation && node->table && !node->home.central)
		wr_sim_serve_start(node);
}

static void restart_node(struct wr_sim *sim, void *object, uint64_t arg)
{
	const struct wr_sim_node *node = object;

	(void)arg;
	if (!node->table)
		wr_sim_node_start(sim, node->number);
}

static void change_rules(struct wr_sim *sim, void *object, uint64_t limit)
{
	(void)sim;
	wr_sim_node_rules(object, (uint32_t)limit);
}

/* All nodes change their limit, each at a random time within the next half second. */
static void change_limit(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;
	uint32_t limit = sim->nodes[0].limit == plan->limit ? plan->limit_after : plan->limit;

	for (unsigned i = 0; i < plan->nodes; i++)
		wr_sim_schedule(sim, sim->now_ns + wr_rng_scale(&sim->fault_rng, 1, 500 * MS),
				&sim->nodes[i], change_rules, &sim->nodes[i], limit);
}

/* ---- Redis ---- */

void wr_sim_loss_add(struct wr_sim *sim, uint64_t to_ns, bool limit_changed)
{
	/* A lease is valid for a tenth of the period, but for one second at most. */
	uint64_t lease_ns = sim->plan->consistency != WR_LEASE      ? 0
			    : sim->plan->period_ns / 10 < 1000 * MS ? sim->plan->period_ns / 10
								    : 1000 * MS;

	if (sim->plan->hide_losses)
		return;
	if (sim->loss_count == WR_SIM_LOSSES) {
		wr_sim_fail(sim, "more losses than the simulator counts");
		return;
	}
	sim->losses[sim->loss_count++] =
		(struct wr_sim_loss){sim->now_ns, to_ns, to_ns + lease_ns, limit_changed};
	sim->report->losses += !limit_changed;
}

static void end_split(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	wr_sim_trace(sim, NULL, "the old master of %llu is disconnected",
		     (unsigned long long)server);
	wr_sim_disconnect_old_master(sim, (unsigned)server);
}

void wr_sim_fail_over(struct wr_sim *sim, unsigned server, bool split)
{
	struct wr_sim_server *at = &sim->servers[server];
	int64_t skew_ns = at->master->skew_ns;
	uint64_t split_ns = split ? wr_rng_scale(&sim->fault_rng, MS, 2000 * MS) : 0;

	if (wr_sim_has_fault(sim, WR_SIM_SKEW))
		skew_ns += (int64_t)wr_rng_below(&sim->fault_rng, 4000 * MS) - (int64_t)(2000 * MS);
	at->master = wr_sim_master_new(sim, server, skew_ns);
	wr_sim_redis_copy(at->master->redis, at->replica);
	wr_sim_cluster_take_over(sim, server);
	wr_sim_loss_add(sim, sim->now_ns + split_ns, false);
	if (split)
		wr_sim_schedule(sim, sim->now_ns + split_ns, NULL, end_split, NULL, server);
	wr_sim_disconnect(sim, server, NULL, split ? 50 : 100);
	if (!split)
		wr_sim_disconnect_old_master(sim, server);
}

static void replicate(struct wr_sim *sim, void *object, uint64_t server)
{
	struct wr_sim_server *at = &sim->servers[server];

	(void)object;
	wr_sim_redis_copy(at->replica, at->master->redis);
	if (sim->now_ns < sim->plan->length_ns)
		wr_sim_schedule(sim, sim->now_ns + wr_rng_scale(&sim->fault_rng, MS, 300 * MS),
				NULL, replicate, NULL, server);
}

/* Disconnects a region. The nodes of the region do not reach the servers of other regions, and the
 * nodes of other regions do not reach the server of this region. */
static void isolate_region(struct wr_sim *sim, unsigned region)
{
	uint64_t until_ns = sim->now_ns + wr_rng_scale(&sim->fault_rng, 50 * MS, 5000 * MS);

	for (unsigned i = 0; i < sim->plan->nodes; i++)
		for (unsigned server = 0; server < sim->plan->regions; server++)
			if ((sim->nodes[i].server == region) != (server == region))
				sim->nodes[i].cut_until_ns[server] = until_ns;
}

/* Slows down the replies to all nodes or to one node. A reply then takes longer than the timeout of
 * a call, but less than the time after which a connection without replies is closed. */
static void slow_down(struct wr_sim *sim)
{
	uint64_t until_ns = sim->now_ns + wr_rng_scale(&sim->fault_rng, 50 * MS, 5000 * MS);
	uint64_t slow_ns =
		wr_rng_between(&sim->fault_rng, sim->plan->timeout_ns, 2 * sim->plan->timeout_ns);
	const struct wr_sim_node *only =
		wr_rng_percent(&sim->fault_rng, 50) ? random_node(sim) : NULL;

	wr_assert(sim->nodes);
	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		struct wr_sim_node *node = &sim->nodes[i];

		if (only && node != only)
			continue;
		wr_sim_trace(sim, node, "replies take %llu ms longer until %llu ms",
			     (unsigned long long)(slow_ns / MS),
			     (unsigned long long)(until_ns / MS));
		node->slow_from_ns = sim->now_ns;
		node->slow_until_ns = until_ns;
		node->slow_ns = slow_ns;
		node->timeouts = 0;
	}
}

static void clear_error_reply(struct wr_sim *sim, void *object, uint64_t number)
{
	struct wr_sim_redis *redis = ((struct wr_sim_master *)object)->redis;

	(void)sim;
	if (redis->error_number == number)
		redis->error_reply = NULL;
}

static void set_error_reply(struct wr_sim *sim, unsigned server)
{
	static const char *const writes[] = {
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"MISCONF Redis is configured to save RDB snapshots",
		"NOREPLICAS Not enough good replicas to write.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
	};
	static const char *const all[] = {
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script.",
	};
	struct wr_sim_master *master = sim->servers[server].master;
	struct wr_sim_redis *redis = master->redis;

	redis->error_for_reads = wr_rng_percent(&sim->fault_rng, 33);
	redis->error_reply = redis->error_for_reads ? all[wr_rng_below(&sim->fault_rng, 2)]
						    : writes[wr_rng_below(&sim->fault_rng, 5)];
	wr_sim_trace(sim, NULL, "%u replies %s", server, redis->error_reply);
	wr_sim_schedule(sim, sim->now_ns + wr_rng_scale(&sim->fault_rng, 5 * MS, 3000 * MS), NULL,
			clear_error_reply, master, ++redis->error_number);
}

/* ---- injection ---- */

static void inject_node_fault(struct wr_sim *sim, enum wr_sim_fault fault, unsigned shard)
{
	struct wr_sim_node *node = random_node(sim);
	unsigned server = sim->cluster || sim->sentinels ? shard : node->server;
	uint64_t until_ns = sim->now_ns + wr_rng_scale(&sim->fault_rng, 5 * MS, 3000 * MS);

	wr_sim_trace(sim, node, "%s until %llu ms", wr_sim_fault_name(fault),
		     (unsigned long long)(until_ns / MS));
	switch (fault) {
	case WR_SIM_CUT:
		wr_sim_disconnect(sim, server, node, 100);
		break;
	case WR_SIM_STALL:
		node->cut_until_ns[server] = until_ns;
		break;
	case WR_SIM_PAUSE:
		node->paused_until_ns = until_ns;
		break;
	case WR_SIM_KILL:
		wr_sim_serve_stop(node);
		wr_sim_schedule(sim, until_ns, node, restart_serve, node, node->incarnation);
		break;
	case WR_SIM_CRASH:
		sim->crashes += node->table != NULL;
		wr_sim_node_stop(node);
		wr_sim_schedule(sim, until_ns, NULL, restart_node, node, 0);
		break;
	default:
		/* The node's clock jumps. In calendar runs with an eventual limit clocks do not
		 * jump. If a clock jumped back across a window edge, the oracle could not determine
		 * the window of a request. */
		if (sim->plan->calendar && sim->plan->consistency == WR_EVENTUAL)
			break;
		node->skew_ns +=
			(int64_t)wr_rng_below(&sim->fault_rng, 6000 * MS) - (int64_t)(3000 * MS);
		break;
	}
}

static void inject_fault(struct wr_sim *sim, enum wr_sim_fault fault)
{
	unsigned server = (unsigned)wr_rng_below(&sim->fault_rng, wr_sim_server_count(sim->plan));
	struct wr_sim_redis *redis = sim->servers[server].master->redis;

	sim->report->faults++;
	if (sim->sentinels &&
	    (fault == WR_SIM_FAILOVER || fault == WR_SIM_SPLIT || fault == WR_SIM_WATCH)) {
		wr_sim_sentinel_fault(sim, fault);
		return;
	}
	switch (fault) {
	case WR_SIM_FLUSH:
	case WR_SIM_RESTART:
	case WR_SIM_FAILOVER:
	case WR_SIM_SPLIT:
		wr_sim_trace(sim, NULL, "%s of %u", wr_sim_fault_name(fault), server);
		if (fault == WR_SIM_FLUSH) {
			wr_sim_redis_flush(redis, wr_rng_percent(&sim->fault_rng, 50));
			wr_sim_loss_add(sim, sim->now_ns, false);
		} else if (fault == WR_SIM_RESTART) {
			sim->servers[server].down_until_ns =
				sim->now_ns + wr_rng_scale(&sim->fault_rng, 5 * MS, 2000 * MS);
			wr_sim_disconnect(sim, server, NULL, 100);
			memset(redis->cached, 0, sizeof redis->cached);
		} else if (!wr_sim_cluster_is_moving(sim, server)) {
			wr_sim_fail_over(sim, server, fault == WR_SIM_SPLIT);
		}
		break;
	case WR_SIM_RULES:
		change_limit(sim);
		break;
	case WR_SIM_REGION:
		wr_sim_trace(sim, NULL, "region %u is disconnected", server);
		isolate_region(sim, server);
		break;
	case WR_SIM_TWICE: /* switches the repetition of calls on or off */
		redis->repeats_calls ^= true;
		break;
	case WR_SIM_LEAVE: /* request.c injects this fault */
		break;
	case WR_SIM_SLOW:
		slow_down(sim);
		break;
	case WR_SIM_ERROR:
		set_error_reply(sim, server);
		break;
	case WR_SIM_MOVE:
		wr_sim_cluster_move(sim);
		break;
	case WR_SIM_DOWN:
		wr_sim_cluster_down(sim, server);
		break;
	default:
		inject_node_fault(sim, fault, server);
	}
}

static void inject_next_fault(struct wr_sim *sim, void *object, uint64_t arg)
{
	unsigned kinds = wr_sim_fault_kinds(sim->plan);
	enum wr_sim_fault fault = (enum wr_sim_fault)wr_rng_below(&sim->fault_rng, kinds);

	(void)object;
	(void)arg;
	if (sim->now_ns >= sim->plan->length_ns)
		return;
	while (!wr_sim_has_fault(sim, fault))
		fault = (enum wr_sim_fault)((fault + 1) % kinds);
	inject_fault(sim, fault);
	wr_sim_schedule(
		sim,
		wr_sim_active_ns(sim->plan, sim->now_ns + 1 +
						    wr_rng_below(&sim->fault_rng,
								 2 * sim->plan->fault_gap_ns)),
		NULL, inject_next_fault, NULL, 0);
}

/* Event every 5 s: asks each node by how much limits were exceeded in the last ten seconds, and
 * records the maximum. */
static void record_overshoot(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct wr_central_info *info = wr_sim_alloc(1, sizeof *info);

	(void)object;
	(void)arg;
	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		if (!sim->nodes[i].home.central)
			continue;
		wr_central_info(sim->nodes[i].home.central, info);
		if (info->overshoot_ppm > sim->report->gauge_ppm)
			sim->report->gauge_ppm = info->overshoot_ppm;
	}
	free(info);
	if (sim->now_ns < sim->plan->length_ns)
		wr_sim_schedule(sim, wr_sim_active_ns(sim->plan, sim->now_ns + 5000 * MS), NULL,
				record_overshoot, NULL, 0);
}

static void end_faults(struct wr_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	wr_sim_trace(sim, NULL, "all faults have ended");
	wr_sim_cluster_heal(sim);
	wr_sim_sentinel_heal(sim);
	for (unsigned i = 0; i < sim->endpoints; i++)
		sim->servers[i].down_until_ns = 0;
	for (struct wr_sim_master *master = sim->masters; master; master = master->next)
		master->redis->error_reply = NULL;
	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		struct wr_sim_node *node = &sim->nodes[i];

		memset(node->cut_until_ns, 0, sim->endpoints * sizeof *node->cut_until_ns);
		node->paused_until_ns = node->slow_until_ns = 0;
		if (!node->table)
			wr_sim_node_start(sim, i);
		else if (!node->home.central)
			wr_sim_serve_start(node);
	}
}

void wr_sim_faults_start(struct wr_sim *sim)
{
	if (!sim->sentinels &&
	    (wr_sim_has_fault(sim, WR_SIM_FAILOVER) || wr_sim_has_fault(sim, WR_SIM_SPLIT)))
		for (unsigned i = 0; i < wr_sim_server_count(sim->plan); i++)
			replicate(sim, NULL, i);
	wr_sim_schedule(sim, sim->plan->length_ns, NULL, end_faults, NULL, 0);
	if (sim->plan->consistency == WR_EVENTUAL)
		wr_sim_schedule(sim, 5000 * MS, NULL, record_overshoot, NULL, 0);
	if (sim->plan->faults)
		wr_sim_schedule(sim, wr_rng_below(&sim->fault_rng, 2 * sim->plan->fault_gap_ns),
				NULL, inject_next_fault, NULL, 0);
}
