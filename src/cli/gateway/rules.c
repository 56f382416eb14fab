/* Reads which rules the service beside nginx uses. Called by child.c. */
#include "cli/gateway/rules.h"

#include "gateway/plan.h"
#include "limiter/engine.h"

uint64_t wr_gateway_rules_read(struct weir_engine *engine, const char *domain, bool *defers)
{
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);
	uint64_t number = held->number;

	*defers = wr_gateway_defers(held->rules, domain);
	wr_generation_release(engine, held, shard);
	return number;
}
