/* weir advise: another name for weir tune --from-table. */
#include "cli/tune.h"

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
	"Does the same as weir tune --from-table: reports rules that are too tight, that are "
	"never\n"
	"reached, that refuse mostly one client, or that refuse bursts which another algorithm "
	"would\n"
	"admit. RULE is a rule's name in statistics, or the beginning of names.\n",
	"Examples\n"
	"  weir advise\n"
	"  weir advise api/route=signup\n"
	"\n"
	"Exit: 0 done, with or without advice; 1 there is no such table or rule, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &names,
};

int wr_cli_advise(int argc, char **argv)
{
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	return wr_cli_tune_table("advise", &table, &names, given.json);
}
