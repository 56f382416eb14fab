/* weir candidates: what other limits would have said to the same requests. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/watch/data.h"
#include "cli/options/watch.h"
#include "stats/words.h"

static const char help[] =
	"weir candidates [RULE…]\n"
	"\n"
	"What the limits under a rule's `candidates` would have said to the requests that the "
	"rule\n"
	"decided: on the same keys, without effect, counted by every process on the table. RULE "
	"is\n"
	"a rule's name in statistics, or what names begin with.\n"
	"\n"
	"  --all         those of earlier rule files too\n"
	"  --table NAME  which table (WEIR_TABLE, or default)\n"
	"  --dir DIR     where it is (WEIR_TABLE_DIR, or where weir itself looks)\n"
	"  --json        the whole answer\n"
	"\n"
	"Exit: 0 told, 1 there is no such table, or no candidate, 2 not understood.\n"
	"\n"
	"  weir candidates\n"
	"  weir candidates api/user --json\n";

/* ---- JSON ---- */

static json_t *candidate_json(const struct weir_candidate *c)
{
	char words[96];

	return json_pack("{s:o, s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:s}",
			 "candidate", wr_json_text(c->text), "algorithm",
			 weir_algorithm_name((int)c->algorithm) ?: "unknown", "limit",
			 (json_int_t)c->limit, "burst", (json_int_t)c->burst, "period",
			 (double)c->period_ns / 1e9, "would_admit", (json_int_t)c->would_admit,
			 "would_refuse", (json_int_t)c->would_refuse, "fewer_refusals",
			 (json_int_t)c->admits_more, "more_refusals", (json_int_t)c->refuses_more,
			 "would_delay", (json_int_t)c->would_delay, "would_delay_seconds",
			 (double)c->would_delay_us / 1e6, "difference",
			 wr_candidate_words(c, words, sizeof words));
}

static json_t *rule_json(const struct wr_watch_rule *rule,
			 const struct wr_watch_candidate *const *found, size_t count)
{
	uint64_t refused = rule->stat.refused + rule->stat.deferred;
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, candidate_json(&found[i]->counts));
	return json_pack("{s:o, s:I, s:I, s:I, s:o}", "rule", wr_json_text(rule->stat.rule),
			 "admitted", (json_int_t)rule->stat.admitted, "refused",
			 (json_int_t)refused, "shadowed", (json_int_t)rule->stat.shadowed,
			 "candidates", list);
}

/* ---- text ---- */

static void tell(const struct wr_watch_rule *rule, const struct wr_watch_candidate *const *found,
		 size_t count, bool utf8)
{
	struct wr_limit_view own = wr_stat_limit(&rule->stat);
	char words[160], a[WR_NUMBER_WORDS], b[WR_NUMBER_WORDS];

	wr_number_words(rule->stat.admitted, a);
	wr_number_words(wr_watch_refused(&rule->stat), b);
	wr_show_print(rule->stat.rule, utf8);
	printf("\n  %s: %s admitted, %s refused\n", wr_limit_words(&own, NULL, words, sizeof words),
	       a, b);
	for (size_t i = 0; i < count; i++) {
		const struct weir_candidate *c = &found[i]->counts;
		struct wr_limit_view limit = wr_candidate_limit(c);
		char difference[96];

		printf("  with %s: %s", wr_limit_words(&limit, &own, words, sizeof words),
		       wr_candidate_words(c, difference, sizeof difference));
		wr_number_words(c->would_admit + c->would_refuse, a);
		if (c->would_admit + c->would_refuse)
			printf("; of %s requests", a);
		putchar('\n');
	}
}

/* ---- running ---- */

static int run(const struct wr_watch_options *a)
{
	json_t *list = a->json ? json_array() : NULL;
	bool utf8 = wr_show_setup(), any = false;
	struct weir_error error = {0};
	struct wr_watch watch;

	if (wr_watch_open(&watch, wr_watch_table(a->table), wr_watch_dir(a->dir), &error) < 0 ||
	    wr_watch_read(&watch, &error) < 0) {
		json_decref(list);
		return wr_watch_fail("candidates", &error);
	}
	for (size_t i = 0; i < watch.rule_count; i++) {
		const struct wr_watch_candidate *found[WR_WATCH_CANDIDATES];
		size_t count = wr_watch_candidates(&watch, &watch.rules[i].stat, a->all, found);

		if (count == 0 || !wr_watch_means(a, watch.rules[i].stat.rule))
			continue;
		any = true;
		if (a->json)
			json_array_append_new(list, rule_json(&watch.rules[i], found, count));
		else
			tell(&watch.rules[i], found, count, utf8);
	}
	wr_watch_close(&watch);
	if (a->json)
		return wr_json_print(list, any ? WR_EXIT_YES : WR_EXIT_NO);
	if (!any)
		printf("no rule %shas candidates; docs/watching.md says how to give it some\n",
		       a->rule_count ? "of that name " : "");
	return any ? WR_EXIT_YES : WR_EXIT_NO;
}

int wr_cli_candidates(int argc, char **argv)
{
	static const struct wr_watch_command command = {"candidates", help, true, run};

	return wr_watch_main(&command, argc, argv);
}
