/* Writes the pieces of JSON that overview_json.c, rule_json.c and fleet_json.c share. */
#include "serve/admin/watch_json.h"

#include <stddef.h>

#include "base/assert.h"
#include "serve/admin/admin.h"
#include "stats/words.h"

/* ---- history ---- */

static void write_series(struct wr_json_out *json, const char *name,
			 const struct weir_point *points, size_t count, size_t offset)
{
	wr_json_key(json, name);
	wr_json_array(json);
	for (size_t i = 0; i < count; i++) {
		uint64_t number;

		memcpy(&number, (const char *)&points[i] + offset, sizeof number);
		if (points[i].known)
			wr_json_uint(json, number);
		else
			wr_json_null(json);
	}
	wr_json_end_array(json);
}

void wr_admin_json_history(struct wr_json_out *json, enum weir_span span, uint64_t end_s,
			   const struct weir_point *points, size_t count)
{
	wr_assert(points || count == 0);
	wr_json_key(json, "history");
	wr_json_object(json);
	wr_json_member_uint(json, "span", span);
	wr_json_member_uint(json, "end", end_s);
	write_series(json, "admitted", points, count, offsetof(struct weir_point, admitted));
	write_series(json, "refused", points, count, offsetof(struct weir_point, refused));
	write_series(json, "shadowed", points, count, offsetof(struct weir_point, shadowed));
	write_series(json, "delayed", points, count, offsetof(struct weir_point, delayed));
	wr_json_end_object(json);
}

/* ---- keys ---- */

void wr_admin_json_key(struct wr_json_out *json, const struct weir_top_key *key)
{
	bool is_utf8 = true;

	wr_json_object(json);
	wr_admin_json_hash(json, "hash", key->hash);
	if (key->text_kind == WEIR_TOP_NO_TEXT)
		wr_json_member_null(json, "text");
	else
		is_utf8 = wr_json_member_bytes(json, "text",
					       (struct weir_str){key->text, key->text_len});
	wr_json_member_bool(json, "exact", is_utf8 && key->text_kind == WEIR_TOP_WHOLE);
	wr_json_member_uint(json, "count", key->count);
	wr_json_member_uint(json, "over", key->over);
	wr_json_member_uint(json, "noise", key->noise);
	wr_json_end_object(json);
}

/* ---- rules ---- */

bool wr_admin_is_rule(const struct weir_stat *stat)
{
	return stat->loaded_ns || stat->admitted || stat->refused || stat->shadowed ||
	       stat->deferred;
}

void wr_admin_add_counts(struct weir_stat *sum, const struct weir_stat *stat)
{
#define ADD_COUNT(field, what) sum->field += stat->field;
	WEIR_STATS(ADD_COUNT)
#undef ADD_COUNT
}

/* Writes the member "per_second". Slots in use are no rate, so they are left out. */
static void write_cost_rates(struct wr_json_out *json, struct weir_table *table,
			     const struct weir_cost *cost)
{
	struct wr_rate_costs rates = wr_rate_costs_now(table, cost);

	wr_json_key(json, "per_second");
	wr_json_object(json);
	for (int line = 0; line < WR_HISTORY_LINES; line++) {
		if (cost->algorithm == WEIR_CONCURRENT && line == WR_SLOT_LINE_SECONDS)
			continue;
		wr_json_key(json, wr_stats_cost_name(cost, (enum wr_history_cost_line)line));
		wr_json_milli(json, rates.milli[line]);
	}
	wr_json_end_object(json);
}

void wr_admin_json_cost(struct wr_json_out *json, struct weir_table *table,
			const struct weir_cost *cost)
{
	wr_json_object(json);
#define WRITE_COST(field, what) wr_json_member_uint(json, #field, cost->field);
	WEIR_COST_STATS(WRITE_COST)
#undef WRITE_COST
	if (cost->algorithm == WEIR_CONCURRENT)
		wr_json_member_uint(json, "slots_in_use", cost->in_use);
	else
		wr_json_member_null(json, "slots_in_use");
	write_cost_rates(json, table, cost);
}

static void write_stat_limit(struct wr_json_out *json, const struct weir_stat *stat)
{
	struct wr_stats_limit_view limit = wr_stat_limit(stat);
	const char *algorithm = weir_algorithm_name((int)stat->algorithm);
	char words[128];

	wr_json_member_string_or_null(json, "algorithm", wr_str(algorithm ? algorithm : ""));
	if (stat->flags & WEIR_STAT_UNLIMITED)
		wr_json_member_string(json, "words", WR_STR("unlimited"));
	else if (!algorithm)
		wr_json_member_null(json, "words");
	else
		wr_json_member_string(
			json, "words",
			wr_str(wr_stats_limit_words(&limit, NULL, words, sizeof words)));
	wr_json_member_uint(json, "limit", stat->limit);
	wr_json_member_uint(json, "burst", stat->burst);
	wr_json_member_seconds(json, "period", stat->period_ns);
}

void wr_admin_json_stat(struct wr_json_out *json, struct weir_table *table,
			const struct weir_stat *stat)
{
	wr_json_member_uint(json, "slot", stat->slot);
	wr_json_member_bytes(json, "rule", stat->rule);
	write_stat_limit(json, stat);
	wr_json_member_bool(json, "watched", stat->flags & WEIR_STAT_HISTORY);
	wr_json_member_bool(json, "shadow", stat->flags & WEIR_STAT_SHADOW);
	wr_json_member_bool(json, "quota", stat->flags & WEIR_STAT_QUOTA);
	wr_json_member_bool(json, "central", stat->flags & WEIR_STAT_CENTRAL);
#define WRITE_COUNT(field, what) wr_json_member_uint(json, #field, stat->field);
	WEIR_STATS(WRITE_COUNT)
#undef WRITE_COUNT
	wr_json_key(json, "per_second");
	wr_json_milli(json, wr_rate_now(table, stat).all_milli);
	wr_json_member_seconds(json, "loaded_at", stat->loaded_ns);
}
