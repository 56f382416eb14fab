/* weir advise: reports rules whose statistics suggest a change. The advice is a part of what weir
 * tune --from-table prints. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/show.h"
#include "cli/tune_table.h"

static struct {
	bool json;
} given;
static struct wr_cli_table_choice table;
static struct wr_cli_words names; /* names of rules, or beginnings of names; empty: all rules */

static const struct wr_cli_option options[] = {
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole answer as JSON",
	 .at = offsetof(__typeof__(given), json), .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	{"Table", wr_cli_table_options, WR_TABLE_OPTIONS, &table},
};

static const struct wr_cli_command command = {
	"advise",
	"weir advise [RULE…]\n"
	"\n"
	"Reports rules that are too tight, that are never reached, that refuse mostly one client, "
	"or\n"
	"that refuse bursts which another algorithm would admit. weir tune --from-table also "
	"prints "
	"the\n"
	"numbers of each rule and compares its candidates. RULE is a rule's name in statistics, or "
	"the\n"
	"beginning of names.\n",
	"Examples\n"
	"  weir advise\n"
	"  weir advise api/route=signup\n"
	"\n"
	"Exit: 0 done, with or without advice; 1 there is no such table or rule, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &names,
};

/* Prints the advice on a rule, or adds it to `list` if that is not NULL. */
static void show_advice(const struct wr_cli_tune_table_rule *tuned, json_t *list, bool utf8)
{
	struct wr_stats_limit_view own = wr_stat_limit(&tuned->rule->stat);
	char words[160];

	for (size_t i = 0; list && i < tuned->advice_count; i++)
		json_array_append_new(list, wr_cli_tune_table_advice_json(tuned, i));
	if (list || tuned->advice_count == 0)
		return;
	wr_cli_show_print(tuned->rule->stat.rule, utf8);
	printf(" (%s)\n", wr_stats_limit_words(&own, NULL, words, sizeof words));
	wr_cli_tune_table_print_advice(tuned, utf8);
}

/* Shows the advice on each selected rule. Returns the number of pieces of advice. */
static size_t advise_all(const struct wr_cli_watch *watch, json_t *list)
{
	struct wr_cli_tune_table_rule *tuned = malloc(sizeof *tuned);
	bool utf8 = wr_cli_show_setup();
	size_t pieces = 0;

	if (!tuned)
		abort();
	for (size_t i = 0; i < watch->rule_count; i++) {
		if (!wr_cli_watch_selects(&names, watch->rules[i].stat.rule))
			continue;
		wr_cli_tune_table_read(watch, &watch->rules[i], tuned);
		show_advice(tuned, list, utf8);
		pieces += tuned->advice_count;
	}
	free(tuned);
	return pieces;
}

int wr_cli_advise(int argc, char **argv)
{
	struct weir_error error = {0};
	struct wr_cli_watch watch;
	json_t *list = NULL;
	size_t pieces;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (wr_cli_watch_open(&watch, &table, &error) < 0)
		return wr_cli_fail("advise", &error, WR_EXIT_NO);
	if (names.count && wr_cli_tune_table_selected(&watch, &names) == 0) {
		wr_cli_watch_close(&watch);
		return wr_cli_tune_table_no_rule("advise");
	}
	if (given.json)
		list = json_array();
	pieces = advise_all(&watch, list);
	wr_cli_watch_close(&watch);
	if (given.json)
		return wr_cli_json_print(list, WR_EXIT_YES);
	if (pieces == 0)
		puts("no advice for any of the rules");
	return WR_EXIT_YES;
}
