/* Places the nodes of a scenario, computes the delays between nodes and Redis servers, and chooses
 * the node of a request. */
#include <stdlib.h>

#include "lab/simulate/inner.h"
#include "rules/rules.h"

static uint64_t link_delay_ns(const struct wr_lab_scenario *scenario, uint32_t a, uint32_t b)
{
	if (a == b)
		return 0;
	for (uint32_t i = 0; i < scenario->link_count; i++) {
		const struct wr_lab_link *link = &scenario->links[i];

		if ((link->from == a && link->to == b) || (link->from == b && link->to == a))
			return link->delay_ns;
	}
	return scenario->region_delay_ns;
}

static uint64_t site_delay_ns(const struct wr_lab_region *region, uint32_t site)
{
	if (region->sites < 2)
		return region->near_ns;
	return region->near_ns + (region->far_ns - region->near_ns) * site / (region->sites - 1);
}

static void place_node(const struct wr_lab_scenario *scenario, struct wr_lab_fleet *layout,
		       uint32_t node, uint32_t region, uint32_t site)
{
	uint64_t site_ns = site_delay_ns(&scenario->regions[region], site);

	layout->node_regions[node] = (uint16_t)region;
	layout->node_servers[node] = layout->server_count > 1 ? (uint16_t)region : 0;
	for (uint32_t server = 0; server < layout->server_count; server++) {
		uint32_t there = scenario->shared_redis ? scenario->redis_region : server;

		layout->paths[node * layout->server_count + server] = (struct wr_sim_fleet_path){
			.delay_ns = site_ns + link_delay_ns(scenario, region, there),
			.jitter_ns = scenario->jitter_ns};
	}
}

bool wr_lab_fleet_make(const struct wr_lab_scenario *scenario, uint32_t nodes, uint8_t mode,
		       struct wr_lab_fleet *layout)
{
	uint32_t count = wr_lab_scenario_nodes(scenario, nodes), node = 0;

	*layout = (struct wr_lab_fleet){.node_count = count};
	/* A local limit needs no Redis. One server without connections stands for it. */
	layout->server_count =
		scenario->shared_redis || mode == WR_LOCAL ? 1 : scenario->region_count;
	layout->node_servers = calloc(count, sizeof *layout->node_servers);
	layout->node_regions = calloc(count, sizeof *layout->node_regions);
	layout->paths = calloc((size_t)count * layout->server_count, sizeof *layout->paths);
	if (!layout->node_servers || !layout->node_regions || !layout->paths)
		return false;
	for (uint32_t r = 0; r < scenario->region_count; r++) {
		const struct wr_lab_region *region = &scenario->regions[r];
		uint32_t each = region->nodes ? region->nodes : nodes;

		layout->region_first[r] = node;
		layout->region_nodes[r] = region->sites * each;
		for (uint32_t i = 0; i < region->sites * each; i++)
			place_node(scenario, layout, node++, r, i / each);
	}
	return true;
}

void wr_lab_fleet_free(struct wr_lab_fleet *layout)
{
	free(layout->node_servers);
	free(layout->node_regions);
	free(layout->paths);
}

/* Returns node number `index` of the regions in the set `regions`, counted over these regions. */
static uint32_t nth_node(const struct wr_lab_state *state, uint32_t regions, uint32_t index)
{
	uint32_t r = 0;

	if (regions == (1u << state->scenario->region_count) - 1)
		return index;
	for (;; r++) {
		if (!(regions >> r & 1))
			continue;
		if (index < state->layout.region_nodes[r])
			return state->layout.region_first[r] + index;
		index -= state->layout.region_nodes[r];
	}
}

uint32_t wr_lab_fleet_pick(struct wr_lab_state *state, const struct wr_lab_arrival *arrival,
			   uint32_t attempt)
{
	uint32_t nodes = state->layout.node_count, index;
	uint64_t random = arrival->random;

	if (arrival->regions != (1u << state->scenario->region_count) - 1) {
		nodes = 0;
		for (uint32_t r = 0; r < state->scenario->region_count; r++)
			nodes += arrival->regions >> r & 1 ? state->layout.region_nodes[r] : 0;
	}
	if (attempt == nodes)
		return UINT32_MAX;
	if (state->scenario->spread == WR_LAB_SPREAD_CLIENT)
		random = (arrival->client + 1) * 0x9e3779b97f4a7c15u;
	index = (uint32_t)((unsigned __int128)random * nodes >> 64);
	if (state->scenario->spread == WR_LAB_SPREAD_ROUND_ROBIN)
		index = state->round_robin++ % nodes;
	return nth_node(state, arrival->regions, (index + attempt) % nodes);
}
