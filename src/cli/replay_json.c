/* Writes the result of weir replay as JSON. docs/replay.md lists the members. */
#include <weir/stats.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/replay.h"

static json_t *number(uint64_t value)
{
	return json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX);
}

static json_t *seconds(uint64_t ns)
{
	return json_real((double)ns / 1e9);
}

static json_t *percent(uint64_t part, uint64_t whole)
{
	return json_real(whole ? 100.0 * (double)part / (double)whole : 0);
}

/* X(name in JSON, field): members that are counts. */
#define TOTALS(X)                                                                                  \
	X("requests", requests)                                                                    \
	X("no_request", no_request)                                                                \
	X("malformed", malformed)                                                                  \
	X("exempt", exempt)                                                                        \
	X("unlimited", unlimited)                                                                  \
	X("admitted", admitted)                                                                    \
	X("refused", refused)                                                                      \
	X("deferred", deferred)                                                                    \
	X("missing", missing)                                                                      \
	X("too_many_limits", too_many)                                                             \
	X("undecided", undecided)                                                                  \
	X("delayed", delayed)

#define LIMIT_COUNTS(X)                                                                            \
	X("requests", requests)                                                                    \
	X("admitted", admitted)                                                                    \
	X("refused", refused)                                                                      \
	X("deferred", deferred)                                                                    \
	X("would_refuse", would_refuse)                                                            \
	X("refused_elsewhere", elsewhere)                                                          \
	X("delayed", delayed)                                                                      \
	X("refused_for_good", never)                                                               \
	X("keys", keys)                                                                            \
	X("keys_refused", keys_refused)                                                            \
	X("peak_offered", peak_offered)                                                            \
	X("peak_admitted", peak_admitted)

static json_t *texts_json(const char *texts, size_t size, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, wr_wire_json_text(wr_str(texts + i * size)));
	return list;
}

static json_t *log_json(const struct wr_cli_replay *result)
{
	const struct wr_lab_log_totals *log = &result->log;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "lines",
			 number(log->lines), "records", number(log->records), "unreadable",
			 number(log->unreadable), "unreadable_examples",
			 texts_json(log->examples[0], sizeof *log->examples, log->example_count),
			 "late", number(log->late), "reordered", number(log->reordered), "files",
			 number(log->files), "damaged", number(log->damaged), "bytes",
			 number(log->bytes), "left_out", number(result->outside),
			 "unreadable_percent", percent(log->unreadable, log->lines));
}

static json_t *totals_json(const struct wr_lab_replay_totals *totals)
{
	json_t *json = json_object();

#define PUT(name, field) json_object_set_new(json, name, number(totals->field));
	TOTALS(PUT)
#undef PUT
	json_object_set_new(json, "first", seconds(totals->first_ns));
	json_object_set_new(json, "last", seconds(totals->last_ns));
	return json;
}

/* Returns the values of a key, which are separated by WEIR_TOP_BETWEEN. */
static json_t *values_json(const struct wr_lab_top_key *key)
{
	struct weir_str rest = {key->text, key->text_len};
	json_t *values = json_array();

	while (rest.len) {
		size_t end = wr_str_find(rest, WEIR_TOP_BETWEEN);

		json_array_append_new(values, wr_wire_json_text(wr_str_first(rest, end)));
		rest = wr_str_from(rest, end + (end < rest.len));
	}
	return values;
}

static json_t *keys_json(const struct wr_lab_top_key *const *keys, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:o, s:b, s:o, s:o}", "values",
						      values_json(keys[i]), "cut", keys[i]->cut,
						      "count", number(keys[i]->count), "missed",
						      number(keys[i]->error)));
	return list;
}

static json_t *algorithms_json(const struct wr_lab_algorithms_limit *compared)
{
	json_t *list = json_array();

	if (compared->not_compared) {
		json_decref(list);
		return json_pack("{s:s}", "not_compared", compared->not_compared);
	}
	for (size_t i = 0; i < WR_LAB_ALGORITHMS; i++) {
		const struct wr_lab_algorithm *a = &compared->algorithms[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "algorithm",
						weir_algorithm_name((int)i + 1), "admitted",
						number(a->admitted), "refused", number(a->refused),
						"wrongly_admitted", number(a->wrongly_admitted),
						"wrongly_admitted_percent",
						percent(a->wrongly_admitted, compared->requests),
						"wrongly_refused", number(a->wrongly_refused),
						"wrongly_refused_percent",
						percent(a->wrongly_refused, compared->requests)));
	}
	return json_pack("{s:o, s:b, s:o}", "requests", number(compared->requests), "exact",
			 compared->level == 0, "results", list);
}

static json_t *limit_json(const struct wr_lab_replay *replay, size_t at)
{
	const struct wr_lab_replay_limit *limit = &wr_lab_replay_report(replay)->limits[at];
	const struct wr_lab_algorithms_limit *compared = wr_lab_replay_algorithms(replay, at);
	const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
	size_t count = wr_lab_replay_top(replay, at, keys);
	json_t *json = json_object();
	char text[160];

	json_object_set_new(json, "rule", wr_wire_json_text(limit->rule->stat));
	json_object_set_new(json, "limit",
			    json_string(wr_cli_replay_limit(limit->rule, text, sizeof text)));
	json_object_set_new(json, "algorithm",
			    json_string(weir_algorithm_name((int)limit->rule->limit.algorithm)));
#define PUT(name, field) json_object_set_new(json, name, number(limit->field));
	LIMIT_COUNTS(PUT)
#undef PUT
	json_object_set_new(json, "keys_exact", json_boolean(limit->keys_exact));
	json_object_set_new(json, "longest_wait", seconds(limit->longest_wait_ns));
	json_object_set_new(json, "longest_delay", seconds(limit->longest_delay_ns));
	json_object_set_new(json, "most_refused", keys_json(keys, count));
	if (compared)
		json_object_set_new(json, "algorithms", algorithms_json(compared));
	return json;
}

static json_t *limits_json(const struct wr_lab_replay *replay)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(replay);
	json_t *list = json_array();

	for (size_t i = 0; i < report->limit_count; i++)
		json_array_append_new(list, limit_json(replay, i));
	return list;
}

static json_t *clients_json(const struct wr_lab_replay *replay)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(replay);
	const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
	size_t count = wr_lab_replay_top_clients(replay, keys);

	return json_pack("{s:o, s:o, s:b, s:o}", "all", number(report->clients), "refused",
			 number(report->clients_refused), "exact", report->clients_exact,
			 "most_refused", keys_json(keys, count));
}

static json_t *table_json(const struct wr_lab_replay_report *report)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "evicted", number(report->evicted), "log_evicted",
			 number(report->log_evicted), "log_approximate",
			 number(report->log_approximate), "log_full", number(report->log_full));
}

/* Returns the parts of the result that belong to one set of rules. */
static json_t *rules_json(const char *path, const struct wr_lab_replay *replay)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(replay);

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rules",
			 wr_wire_json_text(wr_str(path)), "domain",
			 wr_wire_json_text(report->domain), "totals", totals_json(&report->totals),
			 "clients", clients_json(replay), "limits", limits_json(replay), "table",
			 table_json(report), "notes",
			 texts_json(report->notes[0], sizeof *report->notes, report->note_count));
}

/* `first` and `second` are the beginnings of the names of members. */
static json_t *diff_json(const struct wr_lab_diff *diff, const char *first, const char *second)
{
	const char *const names[] = {first, second};
	json_t *json = json_pack("{s:o, s:o, s:o, s:b}", "requests", number(diff->requests), "both",
				 number(diff->both), "clients_both", number(diff->clients_both),
				 "clients_exact", diff->clients_exact);

	for (unsigned side = WR_LAB_FIRST; side <= WR_LAB_SECOND; side++) {
		const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
		size_t count = wr_lab_diff_top(diff, (enum wr_lab_side)side, keys);

		json_object_set_new(json, names[side],
				    json_pack("{s:o, s:o, s:o}", "requests",
					      number(diff->only[side]), "clients",
					      number(diff->clients_only[side]), "most_refused",
					      keys_json(keys, count)));
	}
	return json;
}

json_t *wr_cli_replay_json(const struct wr_cli_replay *result)
{
	json_t *json = rules_json(result->rules, result->replay);

	json_object_set_new(json, "log", log_json(result));
	json_object_set_new(
		json, "warnings",
		texts_json(result->warnings[0], sizeof *result->warnings, result->warning_count));
	if (result->other) {
		json_t *other = rules_json(result->other_rules, result->other);

		json_object_set_new(other, "difference",
				    diff_json(&result->difference, "only_first", "only_second"));
		json_object_set_new(json, "compare", other);
	}
	if (result->answered_text)
		json_object_set_new(json, "where_answered",
				    diff_json(&result->answered, "only_log", "only_weir"));
	return json;
}
