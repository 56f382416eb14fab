/* weir tune: finds limits and bursts in what the clients of a log do, and proposes rules. */
#include "cli/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "cli/options/log.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "cli/tune_table.h"

#define YAML_BYTES ((size_t)16 << 20)
#define COMMAND_BYTES ((size_t)1 << 20)
#define DEFAULT_FILE "tuned.yaml"       /* the file in the commands if --out is not given */
#define WINDOW_NS (300 * 1000000000ull) /* the defaults of wr_cli_log_options */
#define WINDOW_LINES 1000u
#define UNIT_CHOICE(name, text, seconds) text " "

static struct {
	const char *key, *untouched, *rules, *domain, *unit, *route, *html, *svg, *out;
	bool json, without_outliers, from_table, shadow;
	bool key_given, unit_given; /* the option is on the command line */
} given;
static struct wr_cli_log_choice log_choice;
static struct wr_cli_table_choice table;
static struct wr_cli_words words; /* logs; with --from-table, names of rules */

#define AT(field) .at = offsetof(__typeof__(given), field), .variable = WR_NO_VARIABLE
#define GIVEN(field) .given_at = offsetof(__typeof__(given), field)

static const struct wr_cli_option options[] = {
	{"key", WR_OPTION_TEXT, "SOURCE,…", "address",
	 "what identifies a client: address (IPv6: its /64), user,\n"
	 "header.NAME, cookie.NAME, or another source of rule files;\n"
	 "of several sources, the first one that a request has; all:\n"
	 "all requests count together",
	 AT(key), GIVEN(key_given)},
	{"untouched", WR_OPTION_TEXT, "PERCENT", "99.9%",
	 "part of the clients that the limits must never refuse; with\n"
	 "--from-table, part of the requests",
	 AT(untouched)},
	{"without-outliers", WR_OPTION_SWITCH, NULL, NULL,
	 "leave out clients that stand out, such as scanners, when\n"
	 "limits are chosen",
	 AT(without_outliers)},
	{"unit", WR_OPTION_TEXT, "UNIT", "any",
	 "unit of the limits: second, minute, hour, day. any: each\n"
	 "limit has the unit that suits it",
	 AT(unit), GIVEN(unit_given), .choices = "any " WR_LAB_UNITS(UNIT_CHOICE)},
	{"rules", WR_OPTION_TEXT, "PATH", NULL,
	 "take the routes from the requests: of a rule file or directory,\n"
	 "instead of finding them in the paths of the log",
	 AT(rules)},
	{"domain", WR_OPTION_TEXT, "NAME", NULL,
	 "domain of the rules, if several have requests:", AT(domain)},
	{"route", WR_OPTION_TEXT, "NAME", NULL,
	 "print the tables of this route, instead of all requests", AT(route)},
	{"out", WR_OPTION_TEXT, "FILE", NULL, "write the proposed rules to a file", AT(out)},
	{"shadow", WR_OPTION_SWITCH, NULL, NULL,
	 "propose rules in shadow mode, which count and never refuse", AT(shadow)},
	{"html", WR_OPTION_TEXT, "FILE", NULL, "write a page with all tables and plots", AT(html)},
	{"svg", WR_OPTION_TEXT, "FILE", NULL, "write a picture: the burst that each rate needs",
	 AT(svg)},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole result as JSON", AT(json)},
	{"from-table", WR_OPTION_SWITCH, NULL, NULL,
	 "tune from the live statistics of a table instead of a log", AT(from_table)},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	{"Log", wr_cli_log_options, WR_LOG_OPTIONS, &log_choice},
	{"Table (with --from-table)", wr_cli_table_options, WR_TABLE_OPTIONS, &table},
};

static const struct wr_cli_command command = {
	"tune",
	"weir tune LOG… [--key SOURCE] [--untouched 99.9%] [--rules PATH] [--out FILE]\n"
	"weir tune --from-table [--untouched 99.9%] [--table NAME] [RULE…]\n"
	"\n"
	"Finds limits and bursts in what clients really do: for each route, the token bucket that\n"
	"leaves 99.9 % of the clients untouched, and the load that it still permits. Names clients "
	"that\n"
	"stand out. Proposes rules as YAML, with the reason for each number.\n"
	"\n"
	"LOG is a file, a directory of rotated files, or - for standard input. Files may be "
	"compressed.\n"
	"With --from-table, shows what the table counted for each rule, compares the rule with "
	"its\n"
	"candidates, prints the advice of weir advise, and proposes changes of limits. RULE is a "
	"rule's\n"
	"name in statistics, or the beginning of names.\n",
	"Examples\n"
	"  weir tune access.log --out tuned.yaml\n"
	"  weir tune /var/log/nginx --key user,address --untouched 99.99% --html tune.html\n"
	"  weir tune --from-table api/route=signup\n"
	"\n"
	"Exit: 0 done, 1 no usable request in the log or the table, or no such table or rule,\n"
	"2 usage error, or the rules have errors.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* ---- arguments ---- */

/* Reads a part such as "99.9%" or "99.9". Returns 0, or -1 if it is not from 0.0001 % to 100 %. */
static int read_percent(const char *text, uint32_t *ppm)
{
	char *end;
	double percent;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	percent = strtod(text, &end);
	if (*end != '%' && percent < 1) /* 0.999 is most likely meant as 99.9% */
		return -1;
	if (errno || strspn(text, "0123456789.") != (size_t)(end - text) ||
	    (*end && strcmp(end, "%") != 0 && strcmp(end, " %") != 0) || percent > 100)
		return -1;
	*ppm = (uint32_t)(percent * 1e4 + 0.5);
	return *ppm > 0 ? 0 : -1;
}

static enum wr_lab_unit read_unit(const char *name)
{
	unsigned unit = 0;

	while (unit < WR_LAB_UNIT_COUNT && strcmp(name, wr_lab_unit_name(unit)) != 0)
		unit++;
	return unit;
}

static int load_rules(const char *path, struct weir_rules **rules)
{
	struct weir_errors errors = {.size = sizeof errors};
	int rc = weir_rules_load(path, rules, &errors);

	if (rc != 0)
		wr_cli_print_errors(&errors);
	weir_errors_free(&errors);
	return rc;
}

/* ---- the command that replays the rules ---- */

/* Appends a word for a shell. */
static void add_word(struct wr_buf *buf, const char *word)
{
	bool plain = word[0] != '\0';

	for (const char *c = word; *c; c++)
		plain &= (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			 (*c >= '0' && *c <= '9') || strchr("_-./:=,+@%", *c);
	wr_buf_add_char(buf, ' ');
	if (plain) {
		wr_buf_add_str(buf, wr_str(word));
		return;
	}
	wr_buf_add_char(buf, '\'');
	for (const char *c = word; *c; c++)
		if (*c == '\'')
			wr_buf_add_str(buf, WR_STR("'\\''"));
		else
			wr_buf_add_char(buf, *c);
	wr_buf_add_char(buf, '\'');
}

static void add_option(struct wr_buf *buf, const char *name, const char *value)
{
	if (!value)
		return;
	wr_buf_printf(buf, " %s", name);
	add_word(buf, value);
}

static void make_command(struct wr_buf *buf)
{
	wr_buf_add_str(buf, WR_STR("weir replay"));
	for (size_t i = 0; i < words.count; i++)
		add_word(buf, words.items[i]);
	if (strcmp(log_choice.format, "auto") != 0)
		add_option(buf, "--format", log_choice.format);
	if (log_choice.fields.count)
		add_option(buf, "--fields", log_choice.fields.items[0]);
	add_option(buf, "--from", log_choice.from);
	add_option(buf, "--to", log_choice.to);
	add_option(buf, "--rules", given.out ? given.out : DEFAULT_FILE);
}

/* ---- running ---- */

/* Feeds the log. Returns 0 or an error. */
static int feed_log(struct wr_lab_log *log, const struct wr_cli_log_span *span,
		    struct wr_lab_tune *tune, struct weir_error *error)
{
	const struct wr_lab_record *record;
	int rc = 0;

	while (rc == 0 && (record = wr_lab_log_next(log)) != NULL)
		if (wr_cli_log_span_holds(span, record->time_ns))
			rc = wr_lab_tune_feed(tune, record, error);
	return rc ? rc : wr_lab_tune_end(tune, error);
}

static int read_log(const struct wr_lab_log_opts *given_opts, const struct wr_cli_log_span *span,
		    struct wr_lab_tune *tune, struct wr_lab_log_totals *totals,
		    struct weir_error *error)
{
	struct wr_lab_log_opts opts = *given_opts;
	struct wr_cli_progress progress;
	struct wr_lab_log *log;
	int rc;

	opts.progress = wr_cli_progress_show;
	opts.context = &progress;
	rc = wr_lab_log_open(&opts, &log, error);
	if (rc != 0)
		return rc;
	wr_cli_progress_begin(&progress);
	rc = feed_log(log, span, tune, error);
	wr_cli_progress_end(&progress);
	wr_lab_log_totals(log, totals);
	wr_lab_log_close(log);
	return rc;
}

/* Fails if there is nothing to tune. */
static int check_result(const struct wr_lab_tune_report *report,
			const struct wr_lab_log_totals *log)
{
	struct weir_error error = {0};
	size_t proposed = 0;

	for (size_t i = 0; i < report->route_count; i++)
		proposed += report->routes[i].reason == WR_LAB_PROPOSED;
	if (proposed)
		return 0;
	if (log->records == 0)
		return wr_cli_log_fail("tune", log);
	if (report->requests == 0)
		wr_error(&error, WEIR_EINVAL, "no request of the log is between --from and --to");
	else if (report->clients)
		wr_error(&error, WEIR_EINVAL,
			 "no limit fits: all clients stand out, or their demand is too large");
	else if (report->no_key)
		wr_error(&error, WEIR_EINVAL,
			 "no request has the key %s; choose another --key; --key all counts all "
			 "requests together",
			 given.rules ? "of the rules" : given.key);
	else
		wr_error(&error, WEIR_EINVAL, "no request of the log can be counted");
	return wr_cli_fail("tune", &error, WR_EXIT_NO);
}

static int find_route(const struct wr_lab_tune_report *report, size_t *route)
{
	*route = 0;
	if (!given.route)
		return 0;
	for (; *route < report->route_count; ++*route)
		if (strcmp(given.route, report->routes[*route].name) == 0 ||
		    strcmp(given.route, report->routes[*route].text) == 0)
			return 0;
	return wr_cli_usage("tune", "there is no route '%s'; the table of routes lists the names",
			    given.route);
}

static int write_file(const char *path, struct weir_str text)
{
	FILE *file = fopen(path, "w");
	bool ok = file && fwrite(text.ptr, 1, text.len, file) == text.len;

	if (file && fclose(file) != 0)
		ok = false;
	if (ok)
		return 0;
	fprintf(stderr, "weir tune: --out %s: %s\n", path, strerror(errno));
	return WR_EXIT_NO;
}

static int show_result(const struct wr_cli_tune *result)
{
	if (given.out && write_file(given.out, result->yaml) != 0)
		return WR_EXIT_NO;
	if (given.html && wr_cli_tune_page(result, given.html) < 0) {
		fprintf(stderr, "weir tune: --html %s: %s\n", given.html, strerror(errno));
		return WR_EXIT_NO;
	}
	if (given.svg && wr_cli_tune_picture(result, given.svg) < 0) {
		fprintf(stderr, "weir tune: --svg %s: %s\n", given.svg, strerror(errno));
		return WR_EXIT_NO;
	}
	if (given.json)
		return wr_cli_json_print(wr_cli_tune_json(result), WR_EXIT_YES);
	wr_cli_tune_print(result);
	return WR_EXIT_YES;
}

static int report_result(struct wr_lab_tune *tune, const struct wr_lab_log_totals *totals)
{
	struct wr_cli_tune result = {.tune = tune,
				     .report = wr_lab_tune_report(tune),
				     .totals = totals,
				     .without_outliers = given.without_outliers,
				     .out = given.out,
				     .utf8 = wr_cli_show_setup()};
	struct wr_buf yaml, replay;
	int code;

	if (check_result(result.report, totals) != 0)
		return WR_EXIT_NO;
	if (find_route(result.report, &result.route) != 0)
		return WR_EXIT_USAGE;
	wr_buf_init(&yaml, YAML_BYTES);
	wr_buf_init(&replay, COMMAND_BYTES);
	wr_lab_tune_yaml(tune, given.shadow, &yaml);
	make_command(&replay);
	if (wr_buf_failed(&yaml) || wr_buf_failed(&replay))
		abort();
	result.yaml = wr_buf_str(&yaml);
	result.replay = wr_buf_str(&replay);
	wr_cli_tune_warn(&result);
	code = show_result(&result);
	wr_buf_free(&yaml);
	wr_buf_free(&replay);
	return code;
}

/* Refuses to overwrite the log or the rules. */
static int check_outputs(void)
{
	const struct wr_cli_output outputs[] = {
		{"--out", given.out}, {"--html", given.html}, {"--svg", given.svg}};
	int code = wr_cli_outputs_check("tune", outputs, 3, words.items, words.count);

	return code ? code : wr_cli_outputs_check("tune", outputs, 3, &given.rules, 1);
}

static int tune_log(struct wr_lab_tune_opts *opts)
{
	struct wr_lab_log_totals totals = {0};
	struct weir_rules *rules = NULL;
	struct weir_error error = {0};
	struct wr_lab_log_opts log;
	struct wr_cli_log_span span;
	struct wr_lab_tune *tune;
	int code;

	if (wr_cli_log_read(&log_choice, &words, &log, &span, &error) != 0)
		return wr_cli_fail("tune", &error, WR_EXIT_USAGE);
	if (given.rules && load_rules(given.rules, &rules) != 0)
		return WR_EXIT_USAGE;
	opts->rules = rules;
	if (wr_lab_tune_open(opts, &tune, &error) < 0) {
		code = wr_cli_fail("tune", &error, WR_EXIT_USAGE);
	} else {
		code = read_log(&log, &span, tune, &totals, &error) < 0
			       ? wr_cli_fail("tune", &error, WR_EXIT_NO)
			       : report_result(tune, &totals);
		wr_lab_tune_close(tune);
	}
	weir_rules_free(rules);
	return code;
}

/* ---- a table instead of a log ---- */

/* Returns the first given option that only applies to logs, or NULL. */
static const char *option_for_logs(void)
{
	const struct {
		bool given;
		const char *name;
	} list[] = {
		{given.key_given, "--key"},
		{given.without_outliers, "--without-outliers"},
		{given.unit_given, "--unit"},
		{given.rules, "--rules"},
		{given.domain, "--domain"},
		{given.route, "--route"},
		{given.out, "--out"},
		{given.shadow, "--shadow"},
		{given.html, "--html"},
		{given.svg, "--svg"},
		{strcmp(log_choice.format, "auto") != 0, "--format"},
		{log_choice.fields.count, "--fields"},
		{log_choice.window_ns != WINDOW_NS, "--window"},
		{log_choice.window_lines != WINDOW_LINES, "--window-lines"},
		{log_choice.from, "--from"},
		{log_choice.to, "--to"},
	};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (list[i].given)
			return list[i].name;
	return NULL;
}

static int tune_table(uint32_t untouched_ppm)
{
	struct wr_cli_tune_table_opts opts = {.table = &table,
					      .names = &words,
					      .untouched_ppm = untouched_ppm,
					      .json = given.json};
	const char *option = option_for_logs();
	struct wr_buf again;
	int code;

	if (option)
		return wr_cli_usage("tune", "%s needs a log, not --from-table", option);
	wr_buf_init(&again, COMMAND_BYTES);
	wr_buf_add_str(&again, WR_STR("weir tune --from-table"));
	for (size_t i = 0; i < words.count; i++)
		add_word(&again, words.items[i]);
	if (strcmp(given.untouched, "99.9%") != 0)
		add_option(&again, "--untouched", given.untouched);
	add_option(&again, "--table", table.name);
	add_option(&again, "--dir", table.dir);
	if (wr_buf_failed(&again))
		abort();
	opts.again = again.ptr;
	code = wr_cli_tune_table(&opts);
	wr_buf_free(&again);
	return code;
}

int wr_cli_tune(int argc, char **argv)
{
	struct wr_lab_tune_opts opts = {0};
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (read_percent(given.untouched, &opts.untouched_ppm) != 0)
		return wr_cli_usage("tune", "--untouched '%s' is not a percentage such as 99.9%%",
				    given.untouched);
	if (given.from_table)
		return tune_table(opts.untouched_ppm);
	if (words.count == 0)
		return wr_cli_usage("tune", "name a log, or use --from-table");
	if (table.name_given || table.dir_given)
		return wr_cli_usage("tune", "--table and --dir are for --from-table");
	if (given.domain && !given.rules)
		return wr_cli_usage("tune", "--domain is for --rules");
	if (check_outputs() != 0)
		return WR_EXIT_USAGE;
	opts.key = given.key;
	opts.domain = given.domain;
	opts.unit = read_unit(given.unit);
	opts.without_outliers = given.without_outliers;
	return tune_log(&opts);
}
