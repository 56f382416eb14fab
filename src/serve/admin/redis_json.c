/* Writes the state of the central store for GET /v1/status. Called by status.c. */
#include "base/str.h"
#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"

/* Writes the members "counts" and "faults". "faults" has the number of failures of each kind, such
 * as timeouts. Kinds that have not occurred are left out. */
static void write_counts(struct wr_json_out *json, const struct wr_central_counts *counts)
{
	wr_json_key(json, "counts");
	wr_json_object(json);
#define WRITE_COUNT(field, text) wr_json_member_uint(json, #field, counts->field);
	WR_CENTRAL_COUNTS(WRITE_COUNT)
#undef WRITE_COUNT
	wr_json_end_object(json);
	wr_json_key(json, "faults");
	wr_json_object(json);
	for (int i = 0; i < WR_FAULT_COUNT; i++)
		if (counts->faults[i])
			wr_json_member_uint(json, wr_fault_name((enum wr_fault)i),
					    counts->faults[i]);
	wr_json_end_object(json);
}

static void write_shard(struct wr_json_out *json, const struct wr_central_shard_info *shard)
{
	wr_json_object(json);
	wr_json_member_string(json, "address", wr_str(shard->at));
	wr_json_member_string_or_null(json, "state",
				      wr_str(wr_central_shard_state_name(shard->state)));
	wr_json_member_string_or_null(json, "trouble", wr_str(shard->trouble));
	wr_json_member_string_or_null(json, "version", wr_str(shard->version));
	wr_json_member_string_or_null(json, "maxmemory_policy", wr_str(shard->policy));
	if (shard->aof < 0)
		wr_json_member_null(json, "appendonly");
	else
		wr_json_member_bool(json, "appendonly", shard->aof);
	wr_json_member_uint(json, "slots", shard->slots);
	wr_json_member_uint(json, "under_way", shard->under_way);
	write_counts(json, &shard->counts);
	wr_json_end_object(json);
}

void wr_admin_json_redis(struct wr_json_out *json, const struct wr_serve_redis *redis,
			 const struct wr_central_info *info)
{
	if (!redis || !info) {
		wr_json_null(json);
		return;
	}
	wr_json_object(json);
	wr_json_member_string(json, "url", wr_str(redis->text));
	wr_json_member_string_or_null(json, "prefix", wr_str(redis->settings->prefix));
	wr_json_member_seconds(json, "timeout", redis->settings->timeout_ns);
	wr_json_member_string(json, "state",
			      wr_str(info->all_up   ? "up"
				     : info->any_up ? "partly"
						    : "away"));
	wr_json_member_string(json, "secret",
			      wr_str(redis->secret_set    ? "configured"
				     : info->secret_known ? "agreed"
							  : "unknown"));
	wr_json_member_uint(json, "nodes", info->nodes);
	wr_json_member_uint(json, "waiting", info->waiting);
	wr_json_member_uint(json, "reports_waiting", info->reports_waiting);
	wr_json_member_uint(json, "leases", info->leases);
	wr_json_member_uint(json, "leased_units", info->leased_units);
	wr_json_member_uint(json, "overshoot_ppm", info->overshoot_ppm);
	wr_json_member_uint(json, "regions", info->regions);
	wr_json_member_uint(json, "regions_up", info->regions_up);
	write_counts(json, &info->counts);
	wr_json_member_uint(json, "shard_count", info->shard_count);
	wr_json_key(json, "shards");
	wr_json_array(json);
	for (uint32_t i = 0; i < info->shards_shown; i++)
		write_shard(json, &info->shards[i]);
	wr_json_end_array(json);
	wr_json_end_object(json);
}
