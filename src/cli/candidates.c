/* weir candidates: compares a rule with the limits in its `candidates`, which count requests but
 * have no effect. Reads the table; no service is needed. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/options/table.h"
#include "cli/show.h"
#include "cli/watch/data.h"
#include "stats/words.h"

static struct {
	bool json, all;
} given;
static struct wr_cli_table_choice table;
static struct wr_cli_words names; /* names of rules, or beginnings of names; empty: all rules */

#define AT(field) .at = offsetof(__typeof__(given), field)

static const struct wr_cli_option options[] = {
	{"all", WR_OPTION_SWITCH, NULL, NULL, "candidates of earlier rule files too", AT(all),
	 .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole answer as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	{"Table", wr_cli_table_options, WR_TABLE_OPTIONS, &table},
};

static const struct wr_cli_command command = {
	"candidates",
	"weir candidates [RULE…]\n"
	"\n"
	"Shows the decisions that the limits under a rule's `candidates` would have made for the\n"
	"requests that the rule decided: on the same keys, without effect, counted by every "
	"process\n"
	"on the table. RULE is a rule's name in statistics, or the beginning of names.\n",
	"Examples\n"
	"  weir candidates\n"
	"  weir candidates api/user --json\n"
	"\n"
	"Exit: 0 done, 1 there is no such table or no candidate, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &names,
};

/* ---- JSON ---- */

static json_t *candidate_json(const struct weir_candidate *c)
{
	char words[96];

	return json_pack("{s:o, s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:s}",
			 "candidate", wr_wire_json_text(c->text), "algorithm",
			 weir_algorithm_name((int)c->algorithm) ?: "unknown", "limit",
			 (json_int_t)c->limit, "burst", (json_int_t)c->burst, "period",
			 (double)c->period_ns / 1e9, "would_admit", (json_int_t)c->would_admit,
			 "would_refuse", (json_int_t)c->would_refuse, "fewer_refusals",
			 (json_int_t)c->admits_more, "more_refusals", (json_int_t)c->refuses_more,
			 "would_delay", (json_int_t)c->would_delay, "would_delay_seconds",
			 (double)c->would_delay_us / 1e6, "would_ban", (json_int_t)c->would_ban,
			 "would_refuse_by_bans", (json_int_t)c->would_banned, "difference",
			 wr_stats_candidate_words(c, words, sizeof words));
}

static json_t *rule_json(const struct wr_cli_watch_rule *rule,
			 const struct wr_cli_watch_candidate *const *found, size_t count)
{
	uint64_t refused = rule->stat.refused + rule->stat.deferred;
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, candidate_json(&found[i]->counts));
	return json_pack("{s:o, s:I, s:I, s:I, s:o}", "rule", wr_wire_json_text(rule->stat.rule),
			 "admitted", (json_int_t)rule->stat.admitted, "refused",
			 (json_int_t)refused, "shadowed", (json_int_t)rule->stat.shadowed,
			 "candidates", list);
}

/* ---- text ---- */

static void print_rule(const struct wr_cli_watch_rule *rule,
		       const struct wr_cli_watch_candidate *const *found, size_t count, bool utf8)
{
	struct wr_stats_limit_view own = wr_stat_limit(&rule->stat);
	char words[160], a[WR_NUMBER_WORDS], b[WR_NUMBER_WORDS];

	wr_number_words(rule->stat.admitted, a);
	wr_number_words(wr_cli_watch_refused(&rule->stat), b);
	wr_cli_show_print(rule->stat.rule, utf8);
	printf("\n  %s: %s admitted, %s refused\n",
	       wr_stats_limit_words(&own, NULL, words, sizeof words), a, b);
	for (size_t i = 0; i < count; i++) {
		const struct weir_candidate *c = &found[i]->counts;
		struct wr_stats_limit_view limit = wr_stats_candidate_limit(c);
		char difference[96];

		printf("  with %s: %s", wr_stats_limit_words(&limit, &own, words, sizeof words),
		       wr_stats_candidate_words(c, difference, sizeof difference));
		wr_number_words(c->would_admit + c->would_refuse, a);
		if (c->would_admit + c->would_refuse)
			printf("; of %s requests", a);
		if (c->would_ban) {
			wr_number_words(c->would_ban, a);
			wr_number_words(c->would_banned, b);
			printf("; would start %s %s %s request%s", a,
			       c->would_ban == 1 ? "ban, which refuses" : "bans, which refuse", b,
			       c->would_banned == 1 ? "" : "s");
		}
		putchar('\n');
	}
}

/* ---- running ---- */

int wr_cli_candidates(int argc, char **argv)
{
	json_t *list = NULL;
	bool utf8 = wr_cli_show_setup(), any = false;
	struct weir_error error = {0};
	struct wr_cli_watch watch;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (wr_cli_watch_open(&watch, &table, &error) < 0)
		return wr_cli_fail("candidates", &error, WR_EXIT_NO);
	if (given.json)
		list = json_array();
	for (size_t i = 0; i < watch.rule_count; i++) {
		const struct wr_cli_watch_rule *rule = &watch.rules[i];
		const struct wr_cli_watch_candidate *found[WR_WATCH_CANDIDATES];
		size_t count = wr_cli_watch_candidates(&watch, &rule->stat, given.all, found);

		if (count == 0 || !wr_cli_watch_selects(&names, rule->stat.rule))
			continue;
		any = true;
		if (given.json)
			json_array_append_new(list, rule_json(rule, found, count));
		else
			print_rule(rule, found, count, utf8);
	}
	wr_cli_watch_close(&watch);
	code = any ? WR_EXIT_YES : WR_EXIT_NO;
	if (given.json)
		return wr_cli_json_print(list, code);
	if (!any)
		printf("no rule %shas candidates; docs/watching.md shows how to add them\n",
		       names.count ? "of that name " : "");
	return code;
}
