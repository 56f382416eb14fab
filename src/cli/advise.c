/* weir advise: whether the rules are right, by their numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/watch/data.h"
#include "cli/watch/key.h"
#include "cli/options/watch.h"
#include "stats/words.h"

static const char help[] =
	"weir advise [RULE…]\n"
	"\n"
	"Rules that are too tight, never reached, refuse one client above all, or refuse in "
	"bursts\n"
	"that another algorithm would let pass: with the numbers behind it, and what to change.\n"
	"RULE is a rule's name in statistics, or what names begin with.\n"
	"\n"
	"Clients and bursts are known of the busiest rules, from the last ten minutes, while a\n"
	"weir serve, a gateway or weir top runs; totals since the table was made.\n"
	"\n"
	"  --table NAME  which table (WEIR_TABLE, or default)\n"
	"  --dir DIR     where it is (WEIR_TABLE_DIR, or where weir itself looks)\n"
	"  --json        the whole answer\n"
	"\n"
	"Exit: 0 told, or nothing to say; 1 there is no such table or rule, 2 not understood.\n"
	"\n"
	"  weir advise\n"
	"  weir advise api/route=signup\n";

/* What is read of a rule for it. */
struct evidence {
	struct weir_point seconds[WEIR_HISTORY_SECONDS];
	struct weir_top_key hot[WEIR_TOP_KEYS], refused[WEIR_TOP_KEYS];
	struct weir_candidate candidates[WR_WATCH_CANDIDATES];
};

/* ---- evidence ---- */

static size_t or_none(int count)
{
	return count > 0 ? (size_t)count : 0;
}

static void gather(struct wr_watch *watch, const struct wr_watch_rule *rule,
		   struct evidence *evidence, struct wr_advice_view *view)
{
	const struct wr_watch_candidate *found[WR_WATCH_CANDIDATES];
	struct weir_top_info info = {.size = sizeof info};
	uint32_t slot = rule->stat.slot;
	uint64_t end_s;

	*view = (struct wr_advice_view){.stat = &rule->stat,
					.now_ns = watch->now_ns,
					.seconds = evidence->seconds,
					.hot = evidence->hot,
					.refused = evidence->refused,
					.candidates = evidence->candidates};
	view->second_count = or_none(weir_history(watch->table, slot, WEIR_SECONDS,
						  evidence->seconds, WEIR_HISTORY_SECONDS, &end_s));
	view->hot_count = or_none(
		weir_top(watch->table, slot, WEIR_TOP_HOT, evidence->hot, WEIR_TOP_KEYS, NULL));
	view->refused_count = or_none(weir_top(watch->table, slot, WEIR_TOP_REFUSED,
					       evidence->refused, WEIR_TOP_KEYS, &info));
	view->refused_total = view->refused_count ? info.total : 0;
	view->candidate_count = wr_watch_candidates(watch, &rule->stat, false, found);
	for (size_t i = 0; i < view->candidate_count; i++)
		evidence->candidates[i] = found[i]->counts;
}

/* ---- telling ---- */

static json_t *advice_json(const struct wr_watch_rule *rule, const struct wr_advice *advice)
{
	json_t *numbers = json_object();
	json_t *json =
		json_pack("{s:o, s:s, s:s, s:o}", "rule", wr_json_text(rule->stat.rule), "kind",
			  wr_advice_names[advice->kind], "text", advice->text, "numbers", numbers);

	for (size_t i = 0; i < advice->number_count; i++)
		json_object_set_new(numbers, advice->numbers[i].name,
				    json_integer((json_int_t)advice->numbers[i].value));
	if (advice->key)
		json_object_set_new(json, "client", wr_watch_key_json(advice->key));
	if (advice->yaml[0])
		json_object_set_new(json, "change", json_string(advice->yaml));
	return json;
}

static void tell(const struct wr_watch_rule *rule, const struct wr_advice *advice, size_t count,
		 bool utf8)
{
	struct wr_limit_view own = wr_stat_limit(&rule->stat);
	char words[160];

	wr_show_print(rule->stat.rule, utf8);
	printf(" (%s)\n", wr_limit_words(&own, NULL, words, sizeof words));
	for (size_t i = 0; i < count; i++) {
		printf("  %s: %s\n", wr_advice_names[advice[i].kind], advice[i].text);
		if (advice[i].key) {
			char text[4 * WR_KEY_COLUMNS + 1];

			wr_watch_key_text(advice[i].key, WR_KEY_COLUMNS, utf8, text, sizeof text);
			printf("    the client: %s\n", text);
		}
		if (advice[i].yaml[0])
			printf("    %s\n", advice[i].yaml);
	}
}

/* ---- running ---- */

static size_t advise_all(const struct wr_watch_options *a, struct wr_watch *watch, json_t *list)
{
	struct evidence *evidence = malloc(sizeof *evidence);
	bool utf8 = wr_show_setup();
	size_t pieces = 0;

	if (!evidence)
		abort();
	for (size_t i = 0; i < watch->rule_count; i++) {
		const struct wr_watch_rule *rule = &watch->rules[i];
		struct wr_advice advice[WR_ADVICE_MAX];
		struct wr_advice_view view;
		size_t count;

		if (!wr_watch_means(a, rule->stat.rule))
			continue;
		gather(watch, rule, evidence, &view);
		count = wr_advise(&view, advice);
		for (size_t k = 0; a->json && k < count; k++)
			json_array_append_new(list, advice_json(rule, &advice[k]));
		if (!a->json && count)
			tell(rule, advice, count, utf8);
		pieces += count;
	}
	free(evidence);
	return pieces;
}

static bool any_is_meant(const struct wr_watch_options *a, const struct wr_watch *watch)
{
	for (size_t i = 0; i < watch->rule_count; i++)
		if (wr_watch_means(a, watch->rules[i].stat.rule))
			return true;
	return a->rule_count == 0;
}

static int run(const struct wr_watch_options *a)
{
	struct weir_error error = {0};
	struct wr_watch watch;
	json_t *list;
	size_t pieces;

	if (wr_watch_open(&watch, wr_watch_table(a->table), wr_watch_dir(a->dir), &error) < 0 ||
	    wr_watch_read(&watch, &error) < 0)
		return wr_watch_fail("advise", &error);
	if (!any_is_meant(a, &watch)) {
		fputs("weir advise: there is no such rule; weir top --sort name lists them\n",
		      stderr);
		wr_watch_close(&watch);
		return WR_EXIT_NO;
	}
	list = json_array();
	pieces = advise_all(a, &watch, list);
	wr_watch_close(&watch);
	if (a->json)
		return wr_json_print(list, WR_EXIT_YES);
	json_decref(list);
	if (pieces == 0)
		puts("nothing to say: no rule stands out");
	return WR_EXIT_YES;
}

int wr_cli_advise(int argc, char **argv)
{
	static const struct wr_watch_command command = {"advise", help, false, run};

	return wr_watch_main(&command, argc, argv);
}
