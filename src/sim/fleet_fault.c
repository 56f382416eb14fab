/* The faults that the caller of a fleet injects. */
#include <string.h>

#include "sim/fleet_inner.h"

/* Returns the true time of the end of a fault. A fault without an end ends long after the run. The
 * result is small enough that a delay can be added to it. */
static uint64_t true_ns(const struct wr_sim_fleet *fleet, uint64_t until_ns)
{
	uint64_t never_ns = INT64_MAX;

	return until_ns < never_ns - fleet->warm_ns ? until_ns + fleet->warm_ns : never_ns;
}

void wr_sim_fleet_cut(struct wr_sim_fleet *fleet, unsigned node, unsigned server, uint64_t until_ns)
{
	fleet->sim->nodes[node].cut_until_ns[server] = true_ns(fleet, until_ns);
}

void wr_sim_fleet_redis_stop(struct wr_sim_fleet *fleet, unsigned server, uint64_t until_ns)
{
	struct wr_sim *sim = fleet->sim;
	struct wr_sim_redis *redis = sim->servers[server].master->redis;

	sim->servers[server].down_until_ns = true_ns(fleet, until_ns);
	wr_sim_disconnect(sim, server, NULL, 100);
	memset(redis->cached, 0, sizeof redis->cached);
}

void wr_sim_fleet_redis_flush(struct wr_sim_fleet *fleet, unsigned server)
{
	wr_sim_redis_flush(fleet->sim->servers[server].master->redis, false);
}

void wr_sim_fleet_redis_slow(struct wr_sim_fleet *fleet, unsigned server, uint64_t slow_ns,
			     uint64_t until_ns)
{
	fleet->sim->servers[server].slow_ns = slow_ns;
	fleet->sim->servers[server].slow_until_ns = true_ns(fleet, until_ns);
}

void wr_sim_fleet_replicate(struct wr_sim_fleet *fleet, unsigned server)
{
	struct wr_sim_server *at = &fleet->sim->servers[server];

	wr_sim_redis_copy(at->replica, at->master->redis);
}

void wr_sim_fleet_failover(struct wr_sim_fleet *fleet, unsigned server)
{
	wr_sim_fail_over(fleet->sim, server, false);
}

void wr_sim_fleet_lose(struct wr_sim_fleet *fleet, uint32_t loss_ppm)
{
	fleet->loss_ppm = loss_ppm;
}

void wr_sim_fleet_crash(struct wr_sim_fleet *fleet, unsigned node)
{
	struct wr_sim_node *at = &fleet->sim->nodes[node];

	if (!at->table)
		return;
	wr_sim_fleet_end_requests(at);
	wr_sim_node_stop(at);
}

void wr_sim_fleet_restart(struct wr_sim_fleet *fleet, unsigned node)
{
	if (!fleet->sim->nodes[node].table)
		wr_sim_node_start(fleet->sim, node);
	wr_sim_output_send(fleet->sim);
}

void wr_sim_fleet_skew(struct wr_sim_fleet *fleet, unsigned node, int64_t skew_ns)
{
	fleet->sim->nodes[node].skew_ns = skew_ns;
}
