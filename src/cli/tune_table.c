/* weir tune --from-table: compares each rule with its candidates by the live statistics of a table,
 * and proposes changes. Reads the table; no service is needed. */
#include "cli/tune_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "cli/show.h"

#define YAML_BYTES ((size_t)16 << 20)

/* ---- statistics of a rule ---- */

static size_t count_or_none(int count)
{
	return count > 0 ? (size_t)count : 0;
}

static void read_keys(const struct wr_cli_watch *watch, uint32_t slot,
		      struct wr_cli_tune_table_rule *tuned)
{
	struct weir_top_info hot = {.size = sizeof hot}, refused = {.size = sizeof refused};

	tuned->hot_count = count_or_none(
		weir_top(watch->table, slot, WEIR_TOP_HOT, tuned->hot, WEIR_TOP_KEYS, &hot));
	tuned->most_refused_count =
		count_or_none(weir_top(watch->table, slot, WEIR_TOP_REFUSED, tuned->most_refused,
				       WEIR_TOP_KEYS, &refused));
	tuned->hot_total = tuned->hot_count ? hot.total : 0;
	tuned->most_refused_total = tuned->most_refused_count ? refused.total : 0;
}

static struct wr_cli_tune_table_peak find_peak(const struct weir_point *points, size_t count)
{
	struct wr_cli_tune_table_peak peak = {0};

	for (size_t i = 0; i < count; i++) {
		uint64_t refused = points[i].refused + points[i].shadowed;
		uint64_t all = points[i].admitted + refused;

		if (!points[i].known)
			continue;
		peak.known++;
		peak.most = all > peak.most ? all : peak.most;
		peak.refused = refused > peak.refused ? refused : peak.refused;
	}
	return peak;
}

static void read_history(const struct wr_cli_watch *watch, uint32_t slot,
			 struct wr_cli_tune_table_rule *tuned)
{
	uint64_t end_s;

	tuned->second_count = count_or_none(weir_history(
		watch->table, slot, WEIR_SECONDS, tuned->seconds, WEIR_HISTORY_SECONDS, &end_s));
	tuned->minute_count = count_or_none(weir_history(
		watch->table, slot, WEIR_MINUTES, tuned->minutes, WEIR_HISTORY_MINUTES, &end_s));
	tuned->second = find_peak(tuned->seconds, tuned->second_count);
	tuned->minute = find_peak(tuned->minutes, tuned->minute_count);
}

void wr_cli_tune_table_read(const struct wr_cli_watch *watch, const struct wr_cli_watch_rule *rule,
			    struct wr_cli_tune_table_rule *tuned)
{
	const struct wr_cli_watch_candidate *found[WR_WATCH_CANDIDATES];
	struct wr_advice_view view;

	tuned->rule = rule;
	tuned->requests = wr_cli_watch_all(&rule->stat);
	tuned->refused = wr_cli_watch_refused(&rule->stat);
	read_history(watch, rule->stat.slot, tuned);
	read_keys(watch, rule->stat.slot, tuned);
	tuned->candidate_count = wr_cli_watch_candidates(watch, &rule->stat, false, found);
	for (size_t i = 0; i < tuned->candidate_count; i++)
		tuned->candidates[i] = found[i]->counts;
	view = (struct wr_advice_view){.stat = &rule->stat,
				       .now_ns = watch->now_ns,
				       .seconds = tuned->seconds,
				       .second_count = tuned->second_count,
				       .hot = tuned->hot,
				       .hot_count = tuned->hot_count,
				       .refused = tuned->most_refused,
				       .refused_count = tuned->most_refused_count,
				       .refused_total = tuned->most_refused_total,
				       .candidates = tuned->candidates,
				       .candidate_count = tuned->candidate_count};
	tuned->advice_count = wr_advise(&view, tuned->advice);
}

/* ---- running ---- */

/* The result of a run. */
struct outcome {
	json_t *list;       /* the rules, or NULL: the rules are printed */
	struct wr_buf yaml; /* the proposed changes */
	uint64_t requests;  /* of the selected rules */
	size_t advice_count;
};

static int compare_requests(const void *a, const void *b)
{
	const struct weir_stat *x = &((const struct wr_cli_watch_rule *)a)->stat;
	const struct weir_stat *y = &((const struct wr_cli_watch_rule *)b)->stat;
	uint64_t more = wr_cli_watch_all(x), less = wr_cli_watch_all(y);

	if (more != less)
		return more > less ? -1 : 1;
	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void sort_rules(struct wr_cli_watch *watch)
{
	if (watch->rule_count)
		qsort(watch->rules, watch->rule_count, sizeof *watch->rules, compare_requests);
	for (size_t i = 0; i < watch->rule_count; i++)
		watch->rules[i].stat.rule.ptr = watch->rules[i].name;
}

/* Returns the number of requests that the selected rules have decided. */
static uint64_t count_requests(const struct wr_cli_watch *watch, const struct wr_cli_words *names)
{
	uint64_t requests = 0;

	for (size_t i = 0; i < watch->rule_count; i++)
		if (wr_cli_watch_selects(names, watch->rules[i].stat.rule))
			requests += wr_cli_watch_all(&watch->rules[i].stat);
	return requests;
}

/* Tunes the selected rules, the busiest first. A rule without requests is printed only if there is
 * advice on it. */
static void tune_rules(const struct wr_cli_watch *watch, const struct wr_cli_tune_table_opts *opts,
		       struct outcome *outcome)
{
	struct wr_cli_tune_table_rule *tuned = malloc(sizeof *tuned);
	bool utf8 = wr_cli_show_setup();

	if (!tuned)
		abort();
	for (size_t i = 0; i < watch->rule_count; i++) {
		const struct wr_cli_watch_rule *rule = &watch->rules[i];

		if (!wr_cli_watch_selects(opts->names, rule->stat.rule))
			continue;
		wr_cli_tune_table_read(watch, rule, tuned);
		wr_cli_tune_table_choose(tuned, opts->untouched_ppm, watch->now_ns);
		if (outcome->list)
			json_array_append_new(outcome->list, wr_cli_tune_table_json(tuned));
		else if (tuned->requests || tuned->advice_count)
			wr_cli_tune_table_print(tuned, opts, utf8);
		if (tuned->change[0])
			wr_cli_tune_table_yaml(tuned, &outcome->yaml);
		outcome->advice_count += tuned->advice_count;
	}
	free(tuned);
}

static int fail_without_statistics(const struct wr_cli_watch *watch,
				   const struct wr_cli_tune_table_opts *opts)
{
	fprintf(stderr,
		"weir tune: no request has been counted yet for %s of the table %s; let requests "
		"arrive, for example with rules in shadow mode, then run again: %s\n",
		opts->names->count ? "these rules" : "any rule",
		watch->name ? watch->name : "default", opts->again);
	return WR_EXIT_NO;
}

static void print_end(const struct wr_cli_tune_table_opts *opts, const struct wr_buf *yaml)
{
	if (yaml->len) {
		puts("\nProposed changes\n");
		fwrite(yaml->ptr, 1, yaml->len, stdout);
		printf("\nPut these numbers into the limits of the rules, and keep the other keys "
		       "of each limit.\nThen check the rules, and look again after a usual period "
		       "of the traffic:\n\n  weir check PATH\n  %s\n",
		       opts->again);
		return;
	}
	printf("\nThese statistics support no change. Look again after a usual period of the "
	       "traffic:\n\n  %s\n",
	       opts->again);
}

static json_t *whole_json(const struct wr_cli_watch *watch,
			  const struct wr_cli_tune_table_opts *opts, struct outcome *outcome)
{
	json_t *next = json_array();

	if (outcome->yaml.len)
		json_array_append_new(next, json_string("weir check PATH"));
	json_array_append_new(next, wr_wire_json_text(wr_str(opts->again)));
	return json_pack("{s:s, s:f, s:f, s:s, s:o, s:o, s:o}", "table",
			 watch->name ? watch->name : "default", "time", (double)watch->now_ns / 1e9,
			 "untouched", opts->untouched_ppm / 1e4, "share_of", "requests", "rules",
			 outcome->list, "changes", wr_wire_json_text(wr_buf_str(&outcome->yaml)),
			 "next", next);
}

static int run(struct wr_cli_watch *watch, const struct wr_cli_tune_table_opts *opts)
{
	struct outcome outcome = {.list = opts->json ? json_array() : NULL};
	int code = WR_EXIT_YES;

	sort_rules(watch);
	wr_buf_init(&outcome.yaml, YAML_BYTES);
	outcome.requests = count_requests(watch, opts->names);
	if (!opts->json && outcome.requests)
		wr_cli_tune_table_head(watch, opts);
	tune_rules(watch, opts, &outcome);
	if (wr_buf_failed(&outcome.yaml))
		abort();
	if (outcome.requests == 0 && outcome.advice_count == 0)
		code = fail_without_statistics(watch, opts);
	else if (!opts->json)
		print_end(opts, &outcome.yaml);
	if (opts->json)
		code = wr_cli_json_print(whole_json(watch, opts, &outcome), code);
	wr_buf_free(&outcome.yaml);
	return code;
}

size_t wr_cli_tune_table_selected(const struct wr_cli_watch *watch,
				  const struct wr_cli_words *names)
{
	size_t selected = 0;

	for (size_t i = 0; i < watch->rule_count; i++)
		selected += wr_cli_watch_selects(names, watch->rules[i].stat.rule);
	return selected;
}

int wr_cli_tune_table_no_rule(const char *command)
{
	fprintf(stderr, "weir %s: there is no such rule; weir top --sort name lists the rules\n",
		command);
	return WR_EXIT_NO;
}

int wr_cli_tune_table(const struct wr_cli_tune_table_opts *opts)
{
	struct weir_error error = {0};
	struct wr_cli_watch watch;
	int code;

	if (wr_cli_watch_open(&watch, opts->table, &error) < 0)
		return wr_cli_fail("tune", &error, WR_EXIT_NO);
	if (opts->names->count && wr_cli_tune_table_selected(&watch, opts->names) == 0)
		code = wr_cli_tune_table_no_rule("tune");
	else
		code = run(&watch, opts);
	wr_cli_watch_close(&watch);
	return code;
}
