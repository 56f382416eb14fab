/* Writes the body of GET /v1/rule: counts, costs, history, top keys, candidates and advice of one
 * rule. Called by watch.c. */
#include <stdlib.h>

#include "serve/admin/rules_json.h"
#include "serve/admin/watch_json.h"
#include "stats/advice.h"
#include "stats/words.h"

#define CANDIDATES_MAX 8u

/* The data of a rule. The struct is too large for the stack. */
struct rule_data {
	struct weir_stat stat;
	char name[WEIR_STAT_NAME_BYTES];
	struct weir_point seconds[WEIR_HISTORY_SECONDS];
	struct weir_point points[WEIR_HISTORY_MINUTES];
	int second_count;
	struct weir_top_key hot[WEIR_TOP_KEYS], refused[WEIR_TOP_KEYS];
	int hot_count, refused_count;
	struct weir_top_info hot_info, refused_info;
	struct weir_candidate candidates[CANDIDATES_MAX];
	char texts[CANDIDATES_MAX][WEIR_STAT_NAME_BYTES];
	size_t candidate_count;
	struct weir_cost cost; /* the size is 0 if the rule has no costs */
};

/* ---- reading ---- */

/* Copies a candidate of the rule. Skips a candidate that the rule no longer has: the table still
 * has the candidates of older rules. */
static int on_candidate(void *context, const struct weir_candidate *candidate)
{
	struct rule_data *rule = context;
	char *text = rule->texts[rule->candidate_count];
	size_t len = candidate->text.len < WEIR_STAT_NAME_BYTES ? candidate->text.len
								: WEIR_STAT_NAME_BYTES;

	if (candidate->rule_slot != rule->stat.slot || candidate->loaded_ns < rule->stat.loaded_ns)
		return 0;
	rule->candidates[rule->candidate_count] = *candidate;
	memcpy(text, candidate->text.ptr, len);
	rule->candidates[rule->candidate_count].text = (struct weir_str){text, len};
	return ++rule->candidate_count == CANDIDATES_MAX;
}

static int on_cost(void *context, const struct weir_cost *cost)
{
	struct rule_data *rule = context;

	if (cost->slot != rule->stat.slot)
		return 0;
	rule->cost = *cost;
	return 1;
}

static int read_rule(struct weir_table *table, uint32_t slot, struct rule_data *rule)
{
	uint64_t end_s;
	int rc;

	rule->stat.size = sizeof rule->stat;
	rule->hot_info.size = rule->refused_info.size = sizeof rule->hot_info;
	rc = weir_stats_slot(table, slot, rule->name, &rule->stat);
	if (rc < 0)
		return rc;
	rule->second_count = weir_history(table, slot, WEIR_SECONDS, rule->seconds,
					  WEIR_HISTORY_SECONDS, &end_s);
	rule->hot_count =
		weir_top(table, slot, WEIR_TOP_HOT, rule->hot, WEIR_TOP_KEYS, &rule->hot_info);
	rule->refused_count = weir_top(table, slot, WEIR_TOP_REFUSED, rule->refused, WEIR_TOP_KEYS,
				       &rule->refused_info);
	weir_candidates_each(table, on_candidate, rule);
	weir_costs_each(table, on_cost, rule);
	return 0;
}

static size_t count_or_zero(int count)
{
	return count > 0 ? (size_t)count : 0;
}

/* ---- writing ---- */

static void write_history(struct wr_json_out *json, struct weir_table *table, uint32_t slot,
			  enum weir_span span, struct rule_data *rule)
{
	uint64_t end_s = 0;
	int count = weir_history(table, slot, span, rule->points,
				 span == WEIR_SECONDS ? WEIR_HISTORY_SECONDS : WEIR_HISTORY_MINUTES,
				 &end_s);

	if (count < 0)
		wr_json_member_null(json, "history");
	else
		wr_admin_json_history(json, span, end_s, rule->points, (size_t)count);
}

static void write_keys(struct wr_json_out *json, const char *name, const struct weir_top_key *keys,
		       int count, const struct weir_top_info *info)
{
	if (count < 0) {
		wr_json_member_null(json, name);
		return;
	}
	wr_json_key(json, name);
	wr_json_object(json);
	wr_json_member_uint(json, "total", info->total);
	wr_json_member_uint(json, "every", info->every);
	wr_json_key(json, "keys");
	wr_json_array(json);
	for (int i = 0; i < count; i++)
		wr_admin_json_key(json, &keys[i]);
	wr_json_end_array(json);
	wr_json_end_object(json);
}

static void write_candidate(struct wr_json_out *json, const struct weir_candidate *candidate,
			    const struct wr_stats_limit_view *like)
{
	struct wr_stats_limit_view limit = wr_stats_candidate_limit(candidate);
	char text[256];

	wr_json_member_uint(json, "slot", candidate->slot);
	wr_json_member_bytes(json, "text", candidate->text);
	wr_json_member_string(json, "short",
			      wr_str(wr_stats_limit_words(&limit, like, text, sizeof text)));
	wr_json_member_string(json, "words",
			      wr_str(wr_stats_candidate_words(candidate, text, sizeof text)));
	wr_json_member_uint(json, "would_admit", candidate->would_admit);
	wr_json_member_uint(json, "would_refuse", candidate->would_refuse);
	wr_json_member_uint(json, "admits_more", candidate->admits_more);
	wr_json_member_uint(json, "refuses_more", candidate->refuses_more);
	wr_json_member_uint(json, "would_delay", candidate->would_delay);
}

static void write_candidates(struct wr_json_out *json, struct weir_table *table,
			     enum weir_span span, struct rule_data *rule)
{
	struct wr_stats_limit_view like = wr_stat_limit(&rule->stat);

	wr_json_key(json, "candidates");
	wr_json_array(json);
	for (size_t i = 0; i < rule->candidate_count; i++) {
		wr_json_object(json);
		write_candidate(json, &rule->candidates[i], &like);
		write_history(json, table, rule->candidates[i].slot, span, rule);
		wr_json_end_object(json);
	}
	wr_json_end_array(json);
}

/* Writes one list of the history of costs. Slots in use are averages over the span of a point. */
static void write_cost_line(struct wr_json_out *json, const struct rule_data *rule, size_t count,
			    enum weir_span span, enum wr_history_cost_line line)
{
	bool average = rule->cost.algorithm == WEIR_CONCURRENT && line == WR_SLOT_LINE_SECONDS;

	wr_json_key(json, wr_stats_cost_name(&rule->cost, line));
	wr_json_array(json);
	for (size_t i = 0; i < count; i++) {
		uint64_t number = wr_stats_cost_count(&rule->points[i], line);

		if (!rule->points[i].known)
			wr_json_null(json);
		else if (average)
			wr_json_milli(json, number * 1000 / span);
		else
			wr_json_uint(json, number);
	}
	wr_json_end_array(json);
}

static void write_cost_history(struct wr_json_out *json, struct weir_table *table,
			       enum weir_span span, struct rule_data *rule)
{
	uint64_t end_s = 0;
	int count = weir_history(table, rule->cost.history_slot, span, rule->points,
				 span == WEIR_SECONDS ? WEIR_HISTORY_SECONDS : WEIR_HISTORY_MINUTES,
				 &end_s);

	if (count < 0) {
		wr_json_member_null(json, "history");
		return;
	}
	wr_json_key(json, "history");
	wr_json_object(json);
	wr_json_member_uint(json, "span", span);
	wr_json_member_uint(json, "end", end_s);
	for (int line = 0; line < WR_HISTORY_LINES; line++)
		write_cost_line(json, rule, (size_t)count, span, (enum wr_history_cost_line)line);
	wr_json_end_object(json);
}

/* Writes the member "cost": the units of the rule since the table was made, or its slots, or null if
 * the rule has no costs. */
static void write_cost(struct wr_json_out *json, struct weir_table *table, enum weir_span span,
		       struct rule_data *rule)
{
	const struct weir_cost *cost = &rule->cost;

	if (cost->size == 0) {
		wr_json_member_null(json, "cost");
		return;
	}
	wr_json_key(json, "cost");
	wr_admin_json_cost(json, table, cost);
	write_cost_history(json, table, span, rule);
	wr_json_end_object(json);
}

static void write_one_advice(struct wr_json_out *json, const struct wr_advice *advice)
{
	wr_json_object(json);
	wr_json_member_string(json, "kind", wr_str(wr_advice_names[advice->kind]));
	wr_json_member_string(json, "text", wr_str(advice->text));
	wr_json_member_string_or_null(json, "yaml", wr_str(advice->yaml));
	wr_json_key(json, "key");
	if (advice->key)
		wr_admin_json_key(json, advice->key);
	else
		wr_json_null(json);
	wr_json_key(json, "numbers");
	wr_json_object(json);
	for (size_t i = 0; i < advice->number_count; i++)
		wr_json_member_uint(json, advice->numbers[i].name, advice->numbers[i].value);
	wr_json_end_object(json);
	wr_json_end_object(json);
}

static void write_advice(struct wr_json_out *json, const struct rule_data *rule, uint64_t now_ns)
{
	struct wr_advice_view view = {.stat = &rule->stat,
				      .now_ns = now_ns,
				      .seconds = rule->seconds,
				      .second_count = count_or_zero(rule->second_count),
				      .hot = rule->hot,
				      .refused = rule->refused,
				      .hot_count = count_or_zero(rule->hot_count),
				      .refused_count = count_or_zero(rule->refused_count),
				      .refused_total = rule->refused_info.total,
				      .candidates = rule->candidates,
				      .candidate_count = rule->candidate_count};
	struct wr_advice advice[WR_ADVICE_MAX];
	size_t count = wr_advise(&view, advice);

	wr_json_key(json, "advice");
	wr_json_array(json);
	for (size_t i = 0; i < count; i++)
		write_one_advice(json, &advice[i]);
	wr_json_end_array(json);
}

int wr_admin_json_rule(struct wr_json_out *json, const struct wr_admin_view *view,
		       const struct wr_admin_query *query)
{
	struct rule_data *rule = calloc(1, sizeof *rule);
	int rc = rule ? read_rule(view->table, query->slot, rule) : WEIR_EMEMORY;

	if (rc == 0) {
		wr_admin_json_stat(json, view->table, &rule->stat);
		write_cost(json, view->table, query->span, rule);
		wr_json_key(json, "in_force");
		wr_admin_json_limit(json, view->engine, rule->stat.rule);
		write_history(json, view->table, query->slot, query->span, rule);
		write_keys(json, "hot", rule->hot, rule->hot_count, &rule->hot_info);
		write_keys(json, "refused_keys", rule->refused, rule->refused_count,
			   &rule->refused_info);
		write_candidates(json, view->table, query->span, rule);
		write_advice(json, rule, view->now_ns);
		wr_admin_json_latency(json, view);
	}
	free(rule);
	return rc;
}
