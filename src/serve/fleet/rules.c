/* Counts the limits of the current rules, and the limits that Redis decides. */
#include "limiter/fleet.h"
#include "serve/fleet/redis.h"

static void count_limits(const struct wr_node *node, struct wr_serve_redis_rules *rules)
{
	for (unsigned i = 0; i < node->limit_count; i++) {
		const struct wr_rules_limit *limit = &node->limits[i];

		rules->limits++;
		if (limit->consistency == WR_LOCAL)
			continue;
		rules->there++;
		rules->deny += limit->on_store_failure == WR_FAIL_DENY;
		rules->leased += limit->consistency == WR_LEASE;
		rules->eventual += limit->consistency == WR_EVENTUAL;
	}
}

struct wr_serve_redis_rules wr_serve_redis_rules(struct weir_engine *engine)
{
	struct wr_serve_redis_rules found = {0};
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *generation = wr_generation_hold(engine, shard);
	const struct wr_node *node = generation->rules ? generation->rules->first_domain : NULL;

	for (; node; node = wr_limiter_node_next(node))
		if (!(node->flags & WR_IS_UNLIMITED))
			count_limits(node, &found);
	wr_generation_release(engine, generation, shard);
	return found;
}

const uint8_t *wr_serve_redis_secret(const struct weir_engine *engine)
{
	return wr_fleet_secret(engine);
}
