/* Fills struct wr_central_info, which describes connections, shards and counts for the admin API,
 * the metrics and the logs. Called by the host through wr_central_info. */
#include <string.h>

#include "base/assert.h"
#include "central/inner.h"

const char *wr_central_shard_state_name(enum wr_central_shard_state state)
{
	static const char *const names[] = {
#define NAME(name, text) text,
		WR_CENTRAL_SHARD_STATES(NAME)
#undef NAME
	};

	wr_assert(state < sizeof names / sizeof *names);
	return names[state];
}

static enum wr_central_shard_state state_of(const struct wr_central_shard *shard)
{
	if (shard->breaker.state == WR_BREAKER_OPEN)
		return WR_CENTRAL_SHARD_DOWN;
	if (!wr_central_shard_is_ready(shard))
		return WR_CENTRAL_SHARD_CONNECTING;
	return shard->breaker.state == WR_BREAKER_HALF_OPEN ? WR_CENTRAL_SHARD_HALF_OPEN
							    : WR_CENTRAL_SHARD_UP;
}

void wr_central_counts_add(struct wr_central_counts *sum, const struct wr_central_counts *part)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)part;

	for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
		to[i] += from[i];
}

static void fill_shard(const struct wr_central_shard *shard, struct wr_central_shard_info *info)
{
	*info = (struct wr_central_shard_info){
		.state = state_of(shard),
		.slots = shard->slots,
		.under_way =
			shard->unwritten.count + (shard->conn ? shard->conn->waiting.count : 0),
		.back_at_ns =
			shard->breaker.state == WR_BREAKER_OPEN ? shard->breaker.probe_at_ns : 0,
		.aof = shard->aof,
		.counts = shard->counts,
	};
	if (shard->at.kind != WR_ENDPOINT_ANY)
		wr_endpoint_text(&shard->at, info->at);
	memcpy(info->trouble, shard->trouble, sizeof info->trouble);
	memcpy(info->version, shard->version, sizeof info->version);
	memcpy(info->policy, shard->policy, sizeof info->policy);
}

void wr_central_info(const struct wr_central *central, struct wr_central_info *info)
{
	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	*info = (struct wr_central_info){
		.counts = central->counts,
		.nodes = central->duties.nodes,
		.secret_known = central->duties.secret_known,
		.all_up = true,
		.waiting = central->waiting,
		.reports_waiting = central->reports.parts,
		.leases = central->holds->leases,
		.leased_units = central->holds->units,
		.overshoot_ppm = wr_central_exchanges_overshoot(central),
	};
	for (uint32_t i = 0; i < central->shard_count; i++) {
		const struct wr_central_shard *shard = central->shards[i];

		wr_central_counts_add(&info->counts, &shard->counts);
		/* Shards without slots get no questions and are not listed. */
		if (central->cluster && central->cluster->known && !shard->slots)
			continue;
		info->shard_count++;
		info->any_up |= wr_central_shard_is_up(shard);
		info->all_up &= wr_central_shard_is_up(shard);
		if (info->shards_shown < WR_CENTRAL_SHARDS_SHOWN)
			fill_shard(shard, &info->shards[info->shards_shown++]);
	}
	wr_central_regions_info(central, info);
}
