/* Sums up the status of Redis over all loops, for the admin API and for the gauges in the table. */
#include <stdlib.h>
#include <string.h>

#include <weir/stats.h>

#include "serve/fleet/redis.h"

/* add_counts() uses struct wr_central_counts as an array of 64-bit counters, so the size of the
 * struct has to be a multiple of 8 bytes. */
_Static_assert(sizeof(struct wr_central_counts) % sizeof(uint64_t) == 0, "words");

static void add_counts(struct wr_central_counts *sum, const struct wr_central_counts *part)
{
	for (size_t i = 0; i < sizeof *sum / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)part)[i];
}

static int badness(enum wr_central_shard_state state)
{
	static const int order[] = {[WR_CENTRAL_SHARD_UP] = 0,
				    [WR_CENTRAL_SHARD_CONNECTING] = 1,
				    [WR_CENTRAL_SHARD_HALF_OPEN] = 2,
				    [WR_CENTRAL_SHARD_DOWN] = 3};

	return order[state];
}

/* Adds the status of a shard, as one loop sees it, to the sum. If the loops see different states of
 * the shard, the sum has the worst state. */
static void add_shard(struct wr_central_info *sum, const struct wr_central_shard_info *shard)
{
	struct wr_central_shard_info *have = sum->shards;

	while (have < sum->shards + sum->shards_shown && strcmp(have->at, shard->at) != 0)
		have++;
	if (have == sum->shards + WR_CENTRAL_SHARDS_SHOWN)
		return;
	if (have == sum->shards + sum->shards_shown) {
		*have = *shard;
		sum->shards_shown++;
		return;
	}
	if (badness(shard->state) > badness(have->state)) {
		have->state = shard->state;
		memcpy(have->trouble, shard->trouble, sizeof have->trouble);
	}
	have->under_way += shard->under_way;
	add_counts(&have->counts, &shard->counts);
}

static void add_info(struct wr_central_info *sum, const struct wr_central_info *part)
{
	add_counts(&sum->counts, &part->counts);
	sum->nodes = part->nodes ? part->nodes : sum->nodes;
	sum->any_up |= part->any_up;
	sum->all_up &= part->all_up;
	sum->waiting += part->waiting;
	sum->reports_waiting += part->reports_waiting;
	sum->regions += part->regions;
	sum->regions_up += part->regions_up;
	sum->leases += part->leases;
	sum->leased_units += part->leased_units;
	if (part->overshoot_ppm > sum->overshoot_ppm)
		sum->overshoot_ppm = part->overshoot_ppm;
	sum->shard_count =
		part->shard_count > sum->shard_count ? part->shard_count : sum->shard_count;
	for (uint32_t i = 0; i < part->shards_shown; i++)
		add_shard(sum, &part->shards[i]);
}

struct wr_central_info *wr_serve_redis_info(struct wr_serve_redis *redis)
{
	struct wr_central_info *sum = calloc(1, sizeof *sum);

	if (!sum)
		return NULL;
	sum->all_up = true;
	pthread_mutex_lock(&redis->lock);
	sum->secret_known = redis->secret_known;
	for (unsigned i = 0; i < redis->loop_count; i++)
		if (redis->status[i].info)
			add_info(sum, redis->status[i].info);
	pthread_mutex_unlock(&redis->lock);
	/* Without the fleet's secret no question is sent, even if the servers answer, so Redis does
	 * not count as up. */
	sum->any_up &= sum->secret_known;
	sum->all_up &= sum->any_up;
	return sum;
}

bool wr_serve_redis_is_away(struct wr_serve_redis *redis)
{
	bool away = true;

	pthread_mutex_lock(&redis->lock);
	for (unsigned i = 0; i < redis->loop_count; i++)
		away &= redis->status[i].info &&
			!(redis->secret_known && redis->status[i].info->any_up);
	pthread_mutex_unlock(&redis->lock);
	return away;
}

/* Returns the round-trip time of the slowest loop. */
static uint64_t rtt_ns(struct wr_serve_redis *redis)
{
	uint64_t most = 0;

	pthread_mutex_lock(&redis->lock);
	for (unsigned i = 0; i < redis->loop_count; i++)
		most = redis->status[i].rtt_ns > most ? redis->status[i].rtt_ns : most;
	pthread_mutex_unlock(&redis->lock);
	return most;
}

/* Sets the gauges whose values are members of `info`. Gauges that count events begin at 0 again
 * when the service restarts. */
static void set_plain_gauges(const struct wr_central_info *info, struct weir_table *table,
			     uint64_t now_ns)
{
	const struct wr_central_counts *counts = &info->counts;
	const struct {
		enum weir_gauge_name gauge;
		uint64_t value;
	} gauges[] = {
		{WEIR_GAUGE_STORE_UP, info->all_up},
		{WEIR_GAUGE_STORE_NODES, info->shard_count},
		{WEIR_GAUGE_STORE_WAITING, info->waiting},
		{WEIR_GAUGE_LEASES, info->leases},
		{WEIR_GAUGE_LEASED_UNITS, info->leased_units},
		{WEIR_GAUGE_LEASES_GRANTED, counts->leases_granted},
		{WEIR_GAUGE_LEASES_RENEWED, counts->renewals},
		{WEIR_GAUGE_LEASES_VOIDED, counts->leases_voided},
		{WEIR_GAUGE_UNITS_GRANTED, counts->units_granted},
		{WEIR_GAUGE_UNITS_SPENT, counts->units_spent},
		{WEIR_GAUGE_UNITS_RETURNED, counts->units_returned},
		{WEIR_GAUGE_UNITS_BURNT, counts->units_burnt},
		{WEIR_GAUGE_EXCHANGES, counts->exchanges},
		{WEIR_GAUGE_PUSHES, counts->pushes},
		{WEIR_GAUGE_REGIONS, info->regions},
		{WEIR_GAUGE_REGIONS_UP, info->regions_up},
		{WEIR_GAUGE_OVERSHOOT_PPM, info->overshoot_ppm},
	};

	for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++)
		weir_gauge_set(table, gauges[i].gauge, (int64_t)gauges[i].value, now_ns);
}

void wr_serve_redis_set_gauges(struct wr_serve_redis *redis, struct weir_table *table,
			       uint64_t now_ns)
{
	struct wr_central_info *info = redis ? wr_serve_redis_info(redis) : NULL;
	uint32_t nodes = weir_fleet_nodes(table, NULL);
	int worst = 0;
	int64_t up = 0;

	if (!info)
		return;
	nodes = nodes ? nodes : (uint32_t)redis->settings->fleet_size;
	for (uint32_t i = 0; i < info->shards_shown; i++) {
		int state = badness(info->shards[i].state);

		worst = state > worst ? state : worst;
		up += info->shards[i].state == WR_CENTRAL_SHARD_UP;
	}
	/* The value of this gauge is 2 if at least one circuit breaker is open. Otherwise it is 1
	 * if one is half open, and 0 if all are closed. */
	weir_gauge_set(table, WEIR_GAUGE_STORE_BREAKER, worst > 1 ? worst - 1 : 0, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_STORE_NODES_UP, up, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_STORE_RTT_US, (int64_t)(rtt_ns(redis) / 1000), now_ns);
	weir_gauge_set(table, WEIR_GAUGE_FLEET_NODES, nodes, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_SHARE_PPM, 1000000 / (nodes ? nodes : 1), now_ns);
	set_plain_gauges(info, table, now_ns);
	free(info);
}
