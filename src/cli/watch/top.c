/* weir top: shows the current state of rules, keys, table and Redis. Reads the table; no service is
 * needed. */
#include "cli/watch/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "cli/cli.h"
#include "cli/options/table.h"
#include "cli/show.h"

#define PIPE_COLUMNS 160u
#define PIPE_RULES 20u
#define JSON_RULES 400u
#define PIPE_KEYS 5u
#define JSON_KEYS 10u
#define PIPE_DETAIL 5u

static struct top_arguments {
	const char *sort;
	uint64_t interval_ns, rules; /* `rules` is the value of --rules; 0: not given */
	bool once, json;
} given;
static struct wr_cli_table_choice table;

#define AT(field) .at = offsetof(struct top_arguments, field)

static const struct wr_cli_option options[] = {
	{"sort", WR_OPTION_TEXT, "BY", "requests", "order of rules: requests, refused or name",
	 AT(sort), .choices = "requests refused name"},
	{"rules", WR_OPTION_NUMBER, "N", NULL,
	 "number of rules, when printed once; without it 20, and\n"
	 "400 with --json",
	 AT(rules), .min = 1, .max = 100000, .variable = WR_NO_VARIABLE},
	{"interval", WR_OPTION_DURATION, "TIME", "1s", "time between two updates, at least 100ms",
	 AT(interval_ns), .min = 100000000},
	{"once", WR_OPTION_SWITCH, NULL, NULL, "print once, in a terminal too", AT(once),
	 .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print everything once, as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	{"Table", wr_cli_table_options, WR_TABLE_OPTIONS, &table},
};

static const struct wr_cli_command command = {
	"top",
	"weir top\n"
	"\n"
	"Shows rules with their decisions per second, their busiest and most refused keys, how "
	"full\n"
	"the table is, and the state of Redis. It reads the table; no service is needed. In a\n"
	"terminal it updates until you press q; in a pipe it prints once.\n"
	"\n"
	"Keys: q quit · r f n sort by requests, refused, name · arrows select a rule · space "
	"pause\n",
	"Examples\n"
	"  weir top\n"
	"  weir top --table edge --sort refused\n"
	"  weir top --json | jq '.rules[] | select(.refused > 0)'\n"
	"\n"
	"Exit: 0 done, 1 the table does not exist, 2 usage error.\n",
	groups,
	.group_count = sizeof groups / sizeof *groups,
};

static enum wr_cli_top_sort sort_named(const char *name)
{
	static const char *const names[] = {
#define SORT_ROW(name, word, key) [name] = (word),
		WR_CLI_TOP_SORTS(SORT_ROW)
#undef SORT_ROW
	};
	size_t i = 0;

	while (i < sizeof names / sizeof *names && strcmp(name, names[i]) != 0)
		i++;
	wr_assert(i < sizeof names / sizeof *names);
	return (enum wr_cli_top_sort)i;
}

static int print_once(struct wr_cli_watch *watch, struct wr_cli_top_look *look)
{
	struct wr_buf page;

	wr_cli_top_sort_rules(watch, look->sort);
	if (given.json)
		return wr_cli_json_print(wr_cli_top_json(watch, look), WR_EXIT_YES);
	wr_buf_init(&page, WR_CLI_TOP_PAGE);
	wr_cli_top_write(watch, look, &page);
	fwrite(page.ptr, 1, page.len, stdout);
	wr_buf_free(&page);
	return WR_EXIT_YES;
}

/* Returns whether input and output are a terminal that can move the cursor. */
static bool is_screen(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && term && term[0] &&
	       strcmp(term, "dumb") != 0;
}

int wr_cli_top(int argc, char **argv)
{
	struct wr_cli_top_look look = {.columns = PIPE_COLUMNS, .detail = PIPE_DETAIL};
	struct weir_error error = {0};
	struct wr_cli_watch watch;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	look.sort = sort_named(given.sort);
	look.rules = given.rules ? given.rules : given.json ? JSON_RULES : PIPE_RULES;
	look.keys = given.json ? JSON_KEYS : PIPE_KEYS;
	look.utf8 = wr_cli_show_setup();
	look.live = !given.once && !given.json && is_screen();
	if (wr_cli_watch_open(&watch, &table, &error) < 0)
		return wr_cli_fail("top", &error, WR_EXIT_NO);
	code = look.live ? wr_cli_top_live(&watch, &look, given.interval_ns)
			 : print_once(&watch, &look);
	wr_cli_watch_close(&watch);
	return code;
}
