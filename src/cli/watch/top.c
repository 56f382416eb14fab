/* weir top: rules, keys, table and store as they are now, from the table alone. */
#include "cli/watch/top.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/show.h"

#define PIPE_COLUMNS 160u
#define PIPE_RULES 20u
#define JSON_RULES 400u
#define PIPE_KEYS 5u
#define JSON_KEYS 10u
#define PIPE_DETAIL 5u
#define EVERY_LEAST_NS 100000000u

static const char help[] =
	"weir top\n"
	"\n"
	"Rules with what they decide a second, their hottest and most refused keys, how full the\n"
	"table is, and how the store fares. It reads the table; no service is needed. In a "
	"terminal\n"
	"it goes on until you press q; in a pipe it tells once.\n"
	"\n"
	"  --table NAME      which table (WEIR_TABLE, or default)\n"
	"  --dir DIR         where it is (WEIR_TABLE_DIR, or where weir itself looks)\n"
	"  --sort BY         requests, refused or name\n"
	"  --rules N         so many rules, when telling once (20; 400 with --json)\n"
	"  --interval TIME   between two looks (1s)\n"
	"  --once            tell once, in a terminal too\n"
	"  --json            tell once, everything\n"
	"\n"
	"Keys: q end · r f n sort by requests, refused, name · arrows choose a rule · blank hold\n"
	"\n"
	"Exit: 0 ended, 1 there is no such table, 2 not understood.\n"
	"\n"
	"  weir top\n"
	"  weir top --table edge --sort refused\n"
	"  weir top --json | jq '.rules[] | select(.refused > 0)'\n";

struct arguments {
	const char *table, *dir;
	enum top_sort sort;
	uint64_t every_ns;
	size_t rules; /* 0: not said */
	bool once, json, help;
};

static bool read_sort(const char *text, enum top_sort *sort)
{
	static const char *const names[] = {
#define SORT_NAME(name, word, key) [name] = (word),
		TOP_SORTS(SORT_NAME)
#undef SORT_NAME
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(text, names[i]) == 0) {
			*sort = (enum top_sort)i;
			return true;
		}
	return false;
}

static bool read_count(const char *text, size_t *count)
{
	char *end;

	*count = strtoul(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && *count > 0 && *count <= 100000;
}

static int set_option(int option, struct arguments *a)
{
	switch (option) {
	case 't':
		a->table = optarg;
		return 0;
	case 'd':
		a->dir = optarg;
		return 0;
	case 's':
		return read_sort(optarg, &a->sort)
			       ? 0
			       : wr_cli_usage("top", "--sort is requests, refused or name");
	case 'n':
		return read_count(optarg, &a->rules)
			       ? 0
			       : wr_cli_usage("top", "--rules is a number of 1 to 100000");
	case 'i':
		return wr_duration_parse(wr_str(optarg), &a->every_ns) == 0 &&
				       a->every_ns >= EVERY_LEAST_NS
			       ? 0
			       : wr_cli_usage("top", "--interval is a time of 100ms and more: 2s");
	case 'o':
		a->once = true;
		return 0;
	case 'j':
		a->json = true;
		return 0;
	default:
		a->help = true;
		return 0;
	}
}

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {{"table", required_argument, NULL, 't'},
						{"dir", required_argument, NULL, 'd'},
						{"sort", required_argument, NULL, 's'},
						{"rules", required_argument, NULL, 'n'},
						{"interval", required_argument, NULL, 'i'},
						{"once", no_argument, NULL, 'o'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option, rc;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == '?' || option == ':')
			return wr_cli_usage("top", "'%s' is not understood", argv[optind - 1]);
		rc = set_option(option, a);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return wr_cli_usage("top", "'%s' is one word too many", argv[optind]);
	return 0;
}

static int tell_once(const struct arguments *a, struct wr_watch *watch, struct top_look *look)
{
	struct top_page page = {0};

	top_sort_rules(watch, look->sort);
	if (a->json)
		return wr_json_print(top_json(watch, look), WR_EXIT_YES);
	top_write(watch, look, &page);
	fwrite(page.text, 1, page.len, stdout);
	free(page.text);
	return WR_EXIT_YES;
}

/* Whether what we run in can be drawn on. */
static bool is_screen(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && term && term[0] &&
	       strcmp(term, "dumb") != 0;
}

static int run(const struct arguments *a)
{
	bool live = !a->once && !a->json && is_screen();
	struct top_look look = {.sort = a->sort,
				.rules = a->rules  ? a->rules
					 : a->json ? JSON_RULES
						   : PIPE_RULES,
				.keys = a->json ? JSON_KEYS : PIPE_KEYS,
				.detail = PIPE_DETAIL,
				.columns = PIPE_COLUMNS,
				.utf8 = wr_show_setup(),
				.live = live};
	struct weir_error error = {0};
	struct wr_watch watch;
	int code;

	if (wr_watch_open(&watch, wr_watch_table(a->table), wr_watch_dir(a->dir), &error) < 0 ||
	    wr_watch_read(&watch, &error) < 0)
		return wr_watch_fail("top", &error);
	code = live ? top_live(&watch, &look, a->every_ns) : tell_once(a, &watch, &look);
	wr_watch_close(&watch);
	return code;
}

int wr_cli_top(int argc, char **argv)
{
	struct arguments a = {.every_ns = 1000000000};
	int rc = parse_arguments(argc, argv, &a);

	if (rc)
		return rc;
	if (a.help) {
		fputs(help, stdout);
		return WR_EXIT_YES;
	}
	return run(&a);
}
