/* weir tune --from-table, and its other name, weir advise: reports rules whose statistics suggest a
 * change. Reads the table; no service is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/options/table.h"
#include "cli/show.h"
#include "cli/tune.h"
#include "cli/watch/data.h"
#include "cli/watch/key.h"
#include "stats/words.h"

/* The data of a rule from which its advice is derived. */
struct evidence {
	struct weir_point seconds[WEIR_HISTORY_SECONDS];
	struct weir_top_key hot[WEIR_TOP_KEYS], refused[WEIR_TOP_KEYS];
	struct weir_candidate candidates[WR_WATCH_CANDIDATES];
};

/* ---- evidence ---- */

static size_t count_or_none(int count)
{
	return count > 0 ? (size_t)count : 0;
}

static void gather_evidence(struct wr_cli_watch *watch, const struct wr_cli_watch_rule *rule,
			    struct evidence *evidence, struct wr_advice_view *view)
{
	const struct wr_cli_watch_candidate *found[WR_WATCH_CANDIDATES];
	struct weir_top_info info = {.size = sizeof info};
	uint32_t slot = rule->stat.slot;
	uint64_t end_s;

	*view = (struct wr_advice_view){.stat = &rule->stat,
					.now_ns = watch->now_ns,
					.seconds = evidence->seconds,
					.hot = evidence->hot,
					.refused = evidence->refused,
					.candidates = evidence->candidates};
	view->second_count = count_or_none(weir_history(
		watch->table, slot, WEIR_SECONDS, evidence->seconds, WEIR_HISTORY_SECONDS, &end_s));
	view->hot_count = count_or_none(
		weir_top(watch->table, slot, WEIR_TOP_HOT, evidence->hot, WEIR_TOP_KEYS, NULL));
	view->refused_count = count_or_none(weir_top(watch->table, slot, WEIR_TOP_REFUSED,
						     evidence->refused, WEIR_TOP_KEYS, &info));
	view->refused_total = view->refused_count ? info.total : 0;
	view->candidate_count = wr_cli_watch_candidates(watch, &rule->stat, false, found);
	for (size_t i = 0; i < view->candidate_count; i++)
		evidence->candidates[i] = found[i]->counts;
}

/* ---- output ---- */

static json_t *advice_json(const struct wr_cli_watch_rule *rule, const struct wr_advice *advice)
{
	json_t *numbers = json_object();
	json_t *json = json_pack("{s:o, s:s, s:s, s:o}", "rule", wr_wire_json_text(rule->stat.rule),
				 "kind", wr_advice_names[advice->kind], "text", advice->text,
				 "numbers", numbers);

	for (size_t i = 0; i < advice->number_count; i++)
		json_object_set_new(numbers, advice->numbers[i].name,
				    json_integer((json_int_t)advice->numbers[i].value));
	if (advice->key)
		json_object_set_new(json, "client", wr_cli_watch_key_json(advice->key));
	if (advice->yaml[0])
		json_object_set_new(json, "change", json_string(advice->yaml));
	return json;
}

static void print_advice(const struct wr_cli_watch_rule *rule, const struct wr_advice *advice,
			 size_t count, bool utf8)
{
	struct wr_stats_limit_view own = wr_stat_limit(&rule->stat);
	char words[160];

	wr_cli_show_print(rule->stat.rule, utf8);
	printf(" (%s)\n", wr_stats_limit_words(&own, NULL, words, sizeof words));
	for (size_t i = 0; i < count; i++) {
		printf("  %s: %s\n", wr_advice_names[advice[i].kind], advice[i].text);
		if (advice[i].key) {
			char text[4 * WR_KEY_COLUMNS + 1];

			wr_cli_watch_key_text(advice[i].key, WR_KEY_COLUMNS, utf8, text,
					      sizeof text);
			printf("    the client: %s\n", text);
		}
		if (advice[i].yaml[0])
			printf("    %s\n", advice[i].yaml);
	}
}

/* ---- running ---- */

/* Prints the advice for each selected rule, or adds it to `list` if that is not NULL. Returns the
 * number of pieces of advice. */
static size_t advise_all(struct wr_cli_watch *watch, const struct wr_cli_words *names, json_t *list)
{
	struct evidence *evidence = malloc(sizeof *evidence);
	bool utf8 = wr_cli_show_setup();
	size_t pieces = 0;

	if (!evidence)
		abort();
	for (size_t i = 0; i < watch->rule_count; i++) {
		const struct wr_cli_watch_rule *rule = &watch->rules[i];
		struct wr_advice advice[WR_ADVICE_MAX];
		struct wr_advice_view view;
		size_t count;

		if (!wr_cli_watch_selects(names, rule->stat.rule))
			continue;
		gather_evidence(watch, rule, evidence, &view);
		count = wr_advise(&view, advice);
		for (size_t k = 0; list && k < count; k++)
			json_array_append_new(list, advice_json(rule, &advice[k]));
		if (!list && count)
			print_advice(rule, advice, count, utf8);
		pieces += count;
	}
	free(evidence);
	return pieces;
}

int wr_cli_tune_table(const char *command, const struct wr_cli_table_choice *table,
		      const struct wr_cli_words *names, bool json)
{
	struct weir_error error = {0};
	struct wr_cli_watch watch;
	json_t *list = NULL;
	size_t pieces = 0, selected = 0;

	if (wr_cli_watch_open(&watch, table, &error) < 0)
		return wr_cli_fail(command, &error, WR_EXIT_NO);
	for (size_t i = 0; i < watch.rule_count; i++)
		selected += wr_cli_watch_selects(names, watch.rules[i].stat.rule);
	if (json)
		list = json_array();
	if (selected)
		pieces = advise_all(&watch, names, list);
	wr_cli_watch_close(&watch);
	if (selected == 0 && names->count) {
		fprintf(stderr,
			"weir %s: there is no such rule; weir top --sort name lists the rules\n",
			command);
		json_decref(list);
		return WR_EXIT_NO;
	}
	if (json)
		return wr_cli_json_print(list, WR_EXIT_YES);
	if (pieces == 0)
		puts("no advice for any of the rules");
	return WR_EXIT_YES;
}
