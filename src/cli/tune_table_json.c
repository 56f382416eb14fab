/* Writes the result of weir tune --from-table as JSON. */
#include "base/str.h"
#include "cli/tune_table.h"
#include "cli/watch/key.h"

static const char *const result_names[] = {
#define RESULT_NAME(result, name) [result] = (name),
	WR_TUNE_TABLE_RESULTS(RESULT_NAME)
#undef RESULT_NAME
};

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

json_t *wr_cli_tune_table_advice_json(const struct wr_cli_tune_table_rule *tuned, size_t i)
{
	const struct wr_advice *advice = &tuned->advice[i];
	json_t *numbers = json_object();
	json_t *json = json_pack(
		"{s:o, s:s, s:s, s:o}", "rule", wr_wire_json_text(tuned->rule->stat.rule), "kind",
		wr_advice_names[advice->kind], "text", advice->text, "numbers", numbers);

	for (size_t k = 0; k < advice->number_count; k++)
		json_object_set_new(numbers, advice->numbers[k].name,
				    number(advice->numbers[k].value));
	if (advice->key)
		json_object_set_new(json, "client", wr_cli_watch_key_json(advice->key));
	if (advice->yaml[0])
		json_object_set_new(json, "change", json_string(advice->yaml));
	return json;
}

/* Returns the peak, or null if the table has no history of the rule. */
static json_t *peak_json(const struct wr_cli_tune_table_peak *peak)
{
	if (peak->known == 0)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "known", number(peak->known), "requests",
			 number(peak->most), "refused", number(peak->refused));
}

static json_t *keys_json(const struct weir_top_key *keys, size_t count, uint64_t total)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *key = wr_cli_watch_key_json(&keys[i]);

		json_object_set_new(key, "share",
				    json_real(total ? (double)keys[i].count / (double)total : 0));
		json_array_append_new(list, key);
	}
	return list;
}

static json_t *limit_json(const struct wr_cli_tune_table_rule *tuned, size_t i)
{
	const struct wr_cli_tune_table_limit *limit = &tuned->limits[i];
	char words[160], yaml[200];

	wr_stats_limit_yaml(&limit->limit, yaml, sizeof yaml);
	return json_pack(
		"{s:s, s:s, s:s, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b}", "text",
		wr_stats_limit_words(&limit->limit, NULL, words, sizeof words), "yaml", yaml,
		"algorithm", weir_algorithm_name((int)limit->limit.algorithm) ?: "unknown", "limit",
		number(limit->limit.limit), "burst", number(limit->limit.burst), "period",
		(double)limit->limit.period_ns / 1e9, "per_key",
		limit->per_key == UINT64_MAX ? json_null() : number(limit->per_key), "requests",
		number(limit->requests), "would_refuse", number(limit->would_refuse),
		"rule_refused", number(limit->rule_refused), "enough", limit->enough, "in_force",
		i == 0, "chosen", i == tuned->chosen, "less_than_a_period", limit->may_start);
}

static json_t *proposal_json(const struct wr_cli_tune_table_rule *tuned)
{
	if (!tuned->change[0])
		return json_null();
	return json_pack("{s:s, s:s}", "change", tuned->change, "reason", tuned->reason);
}

json_t *wr_cli_tune_table_json(const struct wr_cli_tune_table_rule *tuned)
{
	const struct weir_stat *stat = &tuned->rule->stat;
	json_t *limits = json_array(), *advice = json_array();

	for (size_t i = 0; i < tuned->limit_count; i++)
		json_array_append_new(limits, limit_json(tuned, i));
	for (size_t i = 0; i < tuned->advice_count; i++)
		json_array_append_new(advice, wr_cli_tune_table_advice_json(tuned, i));
	return json_pack("{s:o, s:o, s:o, s:b, s:f, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}",
			 "rule", wr_wire_json_text(stat->rule), "requests", number(tuned->requests),
			 "refused", number(tuned->refused), "shadow",
			 (stat->flags & WEIR_STAT_SHADOW) != 0, "since",
			 (double)stat->since_ns / 1e9, "peak_second", peak_json(&tuned->second),
			 "peak_minute", peak_json(&tuned->minute), "hottest",
			 keys_json(tuned->hot, tuned->hot_count, tuned->hot_total), "most_refused",
			 keys_json(tuned->most_refused, tuned->most_refused_count,
				   tuned->most_refused_total),
			 "limits", limits, "result", result_names[tuned->result], "advice", advice,
			 "proposal", proposal_json(tuned));
}
