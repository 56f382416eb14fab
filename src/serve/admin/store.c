#include "serve/admin/store.h"

#include "base/str.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

static void put_text(struct wr_text *out, const char *name, const char *text)
{
	wr_json_put_name(out, name);
	wr_json_put_text_or_null(out, wr_str(text));
}

static void put_count(struct wr_text *out, bool *more, const char *name, uint64_t count)
{
	if (*more)
		wr_text_char(out, ',');
	*more = true;
	wr_json_put_text(out, wr_str(name));
	wr_text_char(out, ':');
	wr_text_number(out, count);
}

/* Only faults that there were. */
static void put_counts(struct wr_text *out, const struct wr_central_counts *counts)
{
	bool more = false;

	PUT(out, ",\"counts\":{");
#define PUT_COUNT(field, text) put_count(out, &more, #field, counts->field);
	WR_CENTRAL_COUNTS(PUT_COUNT)
#undef PUT_COUNT
	PUT(out, "},\"faults\":{");
	more = false;
	for (int i = 0; i < WR_FAULT_COUNT; i++)
		if (counts->faults[i])
			put_count(out, &more, wr_fault_name((enum wr_fault)i), counts->faults[i]);
	PUT(out, "}");
}

static void put_shard(struct wr_text *out, const struct wr_central_shard_info *shard)
{
	PUT(out, "{\"address\":");
	wr_json_put_text(out, wr_str(shard->at));
	put_text(out, "state", wr_central_shard_state_name(shard->state));
	put_text(out, "trouble", shard->trouble);
	put_text(out, "version", shard->version);
	put_text(out, "maxmemory_policy", shard->policy);
	wr_json_put_name(out, "appendonly");
	if (shard->aof < 0)
		PUT(out, "null");
	else
		wr_text_put(out, shard->aof ? WR_STR("true") : WR_STR("false"));
	wr_json_put_number(out, "slots", shard->slots);
	wr_json_put_number(out, "under_way", shard->under_way);
	put_counts(out, &shard->counts);
	PUT(out, "}");
}

static const char *secret_text(const struct wr_redis *redis, const struct wr_central_info *info)
{
	return redis->secret_set ? "configured" : info->secret_known ? "agreed" : "unknown";
}

void wr_admin_put_store(struct wr_text *out, const struct wr_redis *redis,
			const struct wr_central_info *info)
{
	if (!redis || !info) {
		PUT(out, "null");
		return;
	}
	PUT(out, "{\"url\":");
	wr_json_put_text(out, wr_str(redis->text));
	put_text(out, "prefix", redis->settings->prefix);
	wr_json_put_name(out, "timeout");
	wr_json_put_seconds(out, redis->settings->timeout_ns);
	put_text(out, "state", info->all_up ? "up" : info->any_up ? "partly" : "away");
	put_text(out, "secret", secret_text(redis, info));
	wr_json_put_number(out, "nodes", info->nodes);
	wr_json_put_number(out, "waiting", info->waiting);
	wr_json_put_number(out, "reports_waiting", info->reports_waiting);
	wr_json_put_number(out, "leases", info->leases);
	wr_json_put_number(out, "leased_units", info->leased_units);
	wr_json_put_number(out, "overshoot_ppm", info->overshoot_ppm);
	wr_json_put_number(out, "regions", info->regions);
	wr_json_put_number(out, "regions_up", info->regions_up);
	put_counts(out, &info->counts);
	wr_json_put_number(out, "shard_count", info->shard_count);
	PUT(out, ",\"shards\":[");
	for (uint32_t i = 0; i < info->shards_shown; i++) {
		if (i)
			wr_text_char(out, ',');
		put_shard(out, &info->shards[i]);
	}
	PUT(out, "]}");
}
