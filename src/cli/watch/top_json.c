/* Writes all data of weir top as JSON. */
#include <stdio.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/watch/top.h"
#include "cli/watch/key.h"

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *hash_json(uint64_t hash)
{
	char text[20];

	snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
	return json_string(text);
}

static json_t *table_json(const struct wr_cli_watch *watch)
{
	const struct weir_info *info = &watch->info;
	json_t *json = json_object();

	json_object_set_new(json, "name", json_string(watch->name ? watch->name : "default"));
	json_object_set_new(json, "path", wr_wire_json_text(wr_str(info->path)));
	json_object_set_new(json, "keys", number(info->keys));
	json_object_set_new(json, "keys_refused", number(info->keys_refused));
	json_object_set_new(json, "room_for_keys", number(info->cells));
	json_object_set_new(json, "memory_bytes", number(info->memory_bytes));
	json_object_set_new(json, "log_bytes", number(info->log_bytes));
	json_object_set_new(json, "log_bytes_used", number(info->log_bytes_used));
	json_object_set_new(json, "expired", number(info->expired));
	json_object_set_new(json, "evicted", number(info->evicted));
	json_object_set_new(json, "evicted_refused", number(info->evicted_refused));
	json_object_set_new(json, "log_evicted", number(info->log_evicted));
	json_object_set_new(json, "log_approximate", number(info->log_approximate));
	json_object_set_new(json, "names", number(watch->room.names));
	json_object_set_new(json, "names_used", number(watch->room.names_used));
	return json;
}

/* Returns the last minute as a JSON array: one number per second, null for an unknown second. */
static json_t *points_json(const uint64_t *points)
{
	json_t *list = json_array();

	for (size_t i = 0; i < WR_WATCH_POINTS; i++)
		json_array_append_new(list,
				      points[i] == UINT64_MAX ? json_null() : number(points[i]));
	return list;
}

static void set_history(const struct wr_cli_watch *watch, uint32_t slot, json_t *json)
{
	uint64_t all[WR_WATCH_POINTS], refused[WR_WATCH_POINTS];

	wr_cli_top_minute(watch, slot, all, refused);
	json_object_set_new(json, "last_minute",
			    json_pack("{s:o, s:o}", "decisions", points_json(all), "refused",
				      points_json(refused)));
}

static json_t *keys_json(const struct wr_cli_watch *watch, uint32_t slot, enum weir_top_list list,
			 size_t max)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	int count = weir_top(watch->table, slot, list, keys, max, NULL);
	json_t *json = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(json, wr_cli_watch_key_json(&keys[i]));
	return json;
}

/* Returns the rates of units or slots. Slots in use are no rate, so they are left out. */
static json_t *cost_rates_json(const struct wr_cli_watch_rule *rule)
{
	json_t *json = json_object();

	for (int line = 0; line < WR_HISTORY_LINES; line++)
		if (rule->cost.algorithm != WEIR_CONCURRENT || line != WR_SLOT_LINE_SECONDS)
			json_object_set_new(
				json,
				wr_stats_cost_name(&rule->cost, (enum wr_history_cost_line)line),
				json_real((double)rule->cost_rates.milli[line] / 1000));
	return json;
}

/* Returns null if the rule has counted no ban. */
static json_t *bans_json(const struct weir_ban_stat *bans)
{
	json_t *json;

	if (bans->size == 0)
		return json_null();
	json = json_object();
#define SET_BANS(field, text) json_object_set_new(json, #field, number(bans->field));
	WEIR_BAN_STATS(SET_BANS)
#undef SET_BANS
	return json;
}

/* Returns the units or slots of a rule, or null if the rule has no costs. */
static json_t *cost_json(const struct wr_cli_watch_rule *rule)
{
	const struct weir_cost *cost = &rule->cost;
	json_t *json;

	if (cost->size == 0)
		return json_null();
	json = json_object();
#define SET_FIELD(field, text) json_object_set_new(json, #field, number(cost->field));
	WEIR_COST_STATS(SET_FIELD)
#undef SET_FIELD
	json_object_set_new(json, "slots_in_use",
			    cost->algorithm == WEIR_CONCURRENT ? number(cost->in_use)
							       : json_null());
	json_object_set_new(json, "per_second", cost_rates_json(rule));
	return json;
}

static json_t *rule_json(const struct wr_cli_watch *watch, const struct wr_cli_watch_rule *rule,
			 const struct wr_cli_top_look *look)
{
	const struct weir_stat *stat = &rule->stat;
	const char *algorithm = weir_algorithm_name((int)stat->algorithm);
	json_t *json = json_object();

	json_object_set_new(json, "rule", wr_wire_json_text(stat->rule));
	json_object_set_new(json, "algorithm",
			    algorithm && !(stat->flags & WEIR_STAT_UNLIMITED)
				    ? json_string(algorithm)
				    : json_null());
	json_object_set_new(json, "limit", number(stat->limit));
	json_object_set_new(json, "burst", number(stat->burst));
	json_object_set_new(json, "period", json_real((double)stat->period_ns / 1e9));
	json_object_set_new(json, "shadow", json_boolean(stat->flags & WEIR_STAT_SHADOW));
	json_object_set_new(json, "per_second", json_real((double)rule->rate.all_milli / 1000));
	json_object_set_new(json, "refused_per_second",
			    json_real((double)rule->rate.refused_milli / 1000));
#define SET_FIELD(field, text) json_object_set_new(json, #field, number(stat->field));
	WEIR_STATS(SET_FIELD)
#undef SET_FIELD
	json_object_set_new(json, "cost", cost_json(rule));
	json_object_set_new(json, "bans", bans_json(&rule->bans));
	if (stat->flags & WEIR_STAT_HISTORY)
		set_history(watch, stat->slot, json);
	json_object_set_new(json, "hottest",
			    keys_json(watch, stat->slot, WEIR_TOP_HOT, look->keys));
	json_object_set_new(json, "most_refused",
			    keys_json(watch, stat->slot, WEIR_TOP_REFUSED, look->keys));
	return json;
}

static json_t *hosts_json(const struct wr_cli_watch *watch)
{
	json_t *list = json_array();

	for (size_t i = 0; i < watch->host_count; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:I, s:o, s:b}", "name",
						wr_wire_json_text(wr_str(watch->hosts[i].name)),
						"pid", (json_int_t)watch->hosts[i].pid,
						"rules_hash", hash_json(watch->hosts[i].rules_hash),
						"load_failed", watch->hosts[i].failed));
	return list;
}

static json_t *latency_json(const struct weir_latency *latency)
{
	if (latency->count == 0)
		return json_null();
	return json_pack("{s:I, s:f, s:f, s:f}", "timed", (json_int_t)latency->count, "p50_seconds",
			 (double)wr_cli_watch_quantile_ns(latency, 50) / 1e9, "p90_seconds",
			 (double)wr_cli_watch_quantile_ns(latency, 90) / 1e9, "p99_seconds",
			 (double)wr_cli_watch_quantile_ns(latency, 99) / 1e9);
}

/* Returns an object with a member for each reason to decide a request without a rule, such as
 * "no_rule". The value is the number of requests that were decided for this reason. */
static json_t *ruleless_json(const struct wr_cli_watch *watch)
{
	json_t *json = json_object();

#define SET_NAME(name, text, what)                                                                 \
	if ((name) != WEIR_STAT_OTHER)                                                             \
		json_object_set_new(json, text,                                                    \
				    number(watch->own[name].admitted + watch->own[name].refused));
	WEIR_STAT_NAMES(SET_NAME)
#undef SET_NAME
	return json;
}

json_t *wr_cli_top_json(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look)
{
	json_t *json = json_object(), *rules = json_array(), *gauges = json_object();

	for (size_t i = 0; i < watch->rule_count && i < look->rules; i++)
		json_array_append_new(rules, rule_json(watch, &watch->rules[i], look));
	for (size_t i = 0; i < watch->gauge_count; i++)
		json_object_set_new(gauges, watch->gauges[i].name,
				    json_integer((json_int_t)watch->gauges[i].value));
	json_object_set_new(json, "time", json_real((double)watch->now_ns / 1e9));
	json_object_set_new(json, "table", table_json(watch));
	json_object_set_new(json, "hosts", hosts_json(watch));
	json_object_set_new(json, "gauges", gauges);
	json_object_set_new(json, "latency", latency_json(&watch->latency));
	json_object_set_new(json, "without_rule", ruleless_json(watch));
	json_object_set_new(json, "rule_count", number(watch->rule_count));
	json_object_set_new(json, "rules", rules);
	set_history(watch, WEIR_STAT_ALL, json);
	return json;
}
