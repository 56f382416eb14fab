/* Prints the result of weir tune for people. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/columns.h"
#include "cli/replay.h"
#include "cli/show.h"
#include "cli/tune.h"

static void put_title(const char *title, const struct wr_lab_tune_route *route, bool utf8)
{
	printf("\n%s", title);
	if (route) {
		fputs(": ", stdout);
		wr_cli_show_print(wr_str(route->text), utf8);
	}
	putchar('\n');
}

/* ---- the log ---- */

static void print_part(const char *text, uint64_t count)
{
	char number[WR_NUMBER_WORDS];

	wr_number_words(count, number);
	if (count)
		printf(", %s %s", number, text);
}

static void print_warnings(const struct wr_cli_tune *result)
{
	const struct wr_lab_log_totals *log = result->totals;

	for (size_t i = 0; i < result->warning_count; i++) {
		fputs("warning   ", stdout);
		wr_cli_show_print(wr_str(result->warnings[i]), result->utf8);
		putchar('\n');
	}
	if (log->unreadable)
		puts("unreadable lines, for example");
	for (uint32_t i = 0; i < log->example_count; i++)
		printf("  %s\n", log->examples[i]);
}

static void print_log(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	const struct wr_lab_log_totals *log = result->totals;
	char number[WR_NUMBER_WORDS], first[WR_REPLAY_WORDS], last[WR_REPLAY_WORDS];

	wr_number_words(log->lines, number);
	printf("log       %s %s", number, log->lines == 1 ? "line" : "lines");
	print_part("unreadable", log->unreadable);
	print_part("put in order", log->reordered);
	print_part("dropped because they came too late", log->late);
	wr_cli_replay_time(report->first_ns, first);
	wr_cli_replay_time(report->last_ns, last);
	printf("\ntime      %s to %s UTC\n", first, last);
	wr_number_words(report->requests, number);
	printf("requests  %s", number);
	print_part("lines without a request", report->no_request);
	print_part("malformed", report->malformed);
	print_part("exempt", report->exempt);
	print_part("without the key, so no limit applies to them", report->no_key);
	wr_number_words(report->clients << report->sample_bits, number);
	printf("\nclients   %s%s", report->sample_bits ? "about " : "", number);
	if (report->sample_bits)
		printf("; the numbers below are those of a sample, 1 in %u, whose demand is exact",
		       1u << report->sample_bits);
	putchar('\n');
	print_warnings(result);
}

/* ---- routes ---- */

static void print_routes(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	struct wr_cli_columns table;

	putchar('\n');
	wr_cli_columns_begin(&table, result->utf8, "ROUTE", "#REQUESTS", "#CLIENTS", "#PEAK/S",
			     "LIMIT PER CLIENT", "#CLIENTS TOUCHED", NULL);
	for (size_t i = 0; i < report->route_count; i++) {
		const struct wr_lab_tune_route *route = &report->routes[i];
		char limit[WR_TUNE_LIMIT];

		wr_cli_columns_text(&table, wr_str(route->text));
		wr_cli_columns_number(&table, route->requests);
		wr_cli_columns_number(&table, route->clients);
		wr_cli_columns_number(&table, route->peak_second);
		if (route->reason == WR_LAB_PROPOSED) {
			wr_cli_tune_limit(report, &route->limit, limit);
			wr_cli_columns_text(&table, wr_str(limit));
			wr_cli_columns_number(&table, route->limit.touched);
		} else {
			wr_cli_columns_cell(&table, "(%s)", wr_cli_tune_reason(route->reason));
			wr_cli_columns_cell(&table, "-");
		}
	}
	if (report->other) {
		wr_cli_columns_text(&table, WR_STR("other"));
		wr_cli_columns_number(&table, report->other);
		wr_cli_columns_cell(&table, "%s", "");
		wr_cli_columns_cell(&table, "%s", "");
		wr_cli_columns_cell(&table, "(the limit for all requests applies)");
		wr_cli_columns_cell(&table, "-");
	}
	wr_cli_columns_print(&table, 0);
}

static void print_together(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	char touched[WR_NUMBER_WORDS], all[WR_NUMBER_WORDS], most[WR_NUMBER_WORDS];

	wr_number_words(report->touched, touched);
	wr_number_words(report->considered, all);
	wr_number_words(report->touched_max, most);
	printf("\nTogether the limits refuse requests of %s of %s clients%s; %.10g %% untouched "
	       "permits %s.\n",
	       touched, all, result->without_outliers ? " that do not stand out" : "",
	       report->untouched_ppm / 1e4, most);
	if (report->loosened)
		puts("For this, some limits are larger than the same part of their own clients "
		     "needs.");
	if (report->malformed)
		puts("Malformed requests are refused too, whatever the limits are.");
}

static void print_habits(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;

	put_title("What clients do", NULL, result->utf8);
	for (size_t i = 0; i < report->route_count; i++) {
		char words[256];

		wr_lab_tune_words(&report->routes[i], words, sizeof words);
		fputs("  ", stdout);
		wr_cli_show_print(wr_str(report->routes[i].text), result->utf8);
		printf("\n      %s\n", words);
	}
}

/* ---- the trade-off of one route ---- */

static void print_levels(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = result->report;
	struct wr_cli_columns table;
	char cost[48];

	snprintf(cost, sizeof cost, "#1 CLIENT PER %s",
		 report->unit == WR_LAB_PER_SECOND ? "SECOND"
		 : report->unit == WR_LAB_PER_HOUR ? "HOUR"
		 : report->unit == WR_LAB_PER_DAY  ? "DAY"
						   : "MINUTE");
	put_title("Clients against limits", route, result->utf8);
	wr_cli_columns_begin(&table, result->utf8, "#UNTOUCHED", "#MAY TOUCH", "#PEAK SECOND",
			     "#MINUTE", "#HOUR", "#DAY", "TOKEN BUCKET", cost, NULL);
	for (size_t i = 0; i < report->level_count; i++) {
		const struct wr_lab_tune_level *level = &route->levels[i];
		char limit[WR_TUNE_LIMIT];

		wr_cli_columns_cell(&table, "%s%.10g %%", i == report->level ? "> " : "",
				    level->untouched_ppm / 1e4);
		wr_cli_columns_number(&table, route->considered - level->spared);
		for (size_t unit = 0; unit < WR_LAB_UNIT_COUNT; unit++)
			wr_cli_columns_number(&table, level->peaks[unit]);
		if (level->usable) {
			wr_cli_tune_limit(report, &level->best, limit);
			wr_cli_columns_text(&table, wr_str(limit));
			wr_cli_columns_number(&table, wr_cli_tune_cost(report, &level->best));
		} else {
			wr_cli_columns_cell(&table, "none");
			wr_cli_columns_cell(&table, "-");
		}
	}
	wr_cli_columns_print(&table, 2);
}

/* Returns whether the rate is of no interest: no burst is enough for it, or it needs the same bursts
 * as the rate before it. */
static bool adds_nothing(const struct wr_lab_tune_report *report,
			 const struct wr_lab_tune_route *route, size_t rate)
{
	for (size_t i = 0; i < report->level_count; i++) {
		uint32_t burst = route->levels[i].bursts[rate];

		if (burst != WR_LAB_NO_BURST &&
		    (rate == 0 || burst != route->levels[i].bursts[rate - 1]))
			return false;
	}
	return true;
}

static void add_bursts(struct wr_cli_columns *table, const struct wr_lab_tune_report *report,
		       const struct wr_lab_tune_route *route, size_t rate)
{
	bool chosen = route->reason == WR_LAB_PROPOSED && rate == route->limit.rate;
	char words[WR_TUNE_RATE];

	wr_cli_tune_rate(&report->rates[rate], words);
	wr_cli_columns_cell(table, "%s%s", chosen ? "> " : "  ", words);
	for (size_t i = 0; i < report->level_count; i++)
		if (route->levels[i].bursts[rate] == WR_LAB_NO_BURST)
			wr_cli_columns_cell(table, "-");
		else
			wr_cli_columns_number(table, route->levels[i].bursts[rate]);
}

static void print_rates(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = result->report;
	char titles[WR_LAB_TUNE_LEVELS][32];
	struct wr_cli_columns table;

	for (size_t i = 0; i < WR_LAB_TUNE_LEVELS; i++)
		snprintf(titles[i], sizeof titles[i], "#%.10g %%",
			 route->levels[i].untouched_ppm / 1e4);
	put_title("Burst that a rate needs to leave clients untouched", route, result->utf8);
	wr_cli_columns_begin(&table, result->utf8, "  RATE", titles[0], titles[1], titles[2],
			     titles[3], titles[4], report->level_count > 5 ? titles[5] : NULL,
			     NULL);
	for (size_t rate = 0; rate < WR_LAB_RATES; rate++)
		if (!adds_nothing(report, route, rate))
			add_bursts(&table, report, route, rate);
	wr_cli_columns_print(&table, 2);
}

/* Prints the load that the limit still permits, beside the load of the log. */
static void print_load(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = result->report;
	uint64_t active = route->peak_clients << report->sample_bits;
	uint64_t all = route->clients << report->sample_bits;
	struct wr_cli_columns table;

	if (route->reason != WR_LAB_PROPOSED)
		return;
	put_title("Peak load", route, result->utf8);
	wr_cli_columns_begin(&table, result->utf8, "", "#CLIENTS", "#AT ONCE", "#IN A MINUTE",
			     NULL);
	wr_cli_columns_cell(&table, "busiest moments of the log");
	wr_cli_columns_number(&table, active);
	wr_cli_columns_number(&table, route->peak_second);
	wr_cli_columns_number(&table, route->peak_minute);
	wr_cli_columns_cell(&table, "the same clients, each at its limit");
	wr_cli_columns_number(&table, active);
	wr_cli_columns_number(&table, active * route->limit.burst);
	wr_cli_columns_number(&table, active * wr_lab_tune_cost(&report->rates[route->limit.rate],
								route->limit.burst,
								wr_lab_unit_ns(WR_LAB_PER_MINUTE)));
	wr_cli_columns_cell(&table, "all clients, each at its limit");
	wr_cli_columns_number(&table, all);
	wr_cli_columns_number(&table, all * route->limit.burst);
	wr_cli_columns_number(&table, all * wr_lab_tune_cost(&report->rates[route->limit.rate],
							     route->limit.burst,
							     wr_lab_unit_ns(WR_LAB_PER_MINUTE)));
	wr_cli_columns_print(&table, 2);
}

/* ---- clients that stand out ---- */

static void print_outliers(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	uint64_t all = report->clients - report->kinds[WR_LAB_USUAL];
	char number[WR_NUMBER_WORDS];

	put_title("Clients that stand out", NULL, result->utf8);
	if (all == 0)
		puts("  none");
	for (size_t i = 0; i < report->outlier_count; i++) {
		const struct wr_lab_tune_outlier *outlier = &report->outliers[i];
		char reason[512];

		fputs("  ", stdout);
		wr_cli_show_print(wr_str(outlier->client->name), result->utf8);
		printf(", %s: ", wr_lab_kind_name(outlier->kind));
		wr_lab_client_reason(outlier->client, outlier->kind, reason, sizeof reason);
		wr_cli_show_print(wr_str(reason), result->utf8);
		putchar('\n');
	}
	wr_number_words(all - report->outlier_count, number);
	if (all > report->outlier_count)
		printf("  and %s more\n", number);
}

/* Prints the limits that become much tighter without the clients that stand out. */
static void print_without(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	struct wr_cli_columns table;
	bool any = false;

	wr_cli_columns_begin(&table, result->utf8, "ROUTE", "LIMIT WITHOUT THEM", "INSTEAD OF",
			     NULL);
	for (size_t i = 0; i < report->route_count && !result->without_outliers; i++) {
		const struct wr_lab_tune_route *route = &report->routes[i];
		const struct wr_lab_tune_limit *with = &route->levels[report->level].best;
		char limit[WR_TUNE_LIMIT];

		if (!route->usual_usable || route->reason == WR_LAB_FEW_CLIENTS ||
		    2 * wr_cli_tune_cost(report, &route->usual) > wr_cli_tune_cost(report, with))
			continue;
		any = true;
		wr_cli_columns_text(&table, wr_str(route->text));
		wr_cli_tune_limit(report, &route->usual, limit);
		wr_cli_columns_text(&table, wr_str(limit));
		wr_cli_tune_limit(report, with, limit);
		wr_cli_columns_text(&table, wr_str(limit));
	}
	if (any)
		puts("\nWithout these clients (--without-outliers), limits can be tighter:");
	wr_cli_columns_print(&table, 2);
}

/* ---- the rules ---- */

static void print_rules(const struct wr_cli_tune *result)
{
	if (result->out) {
		printf("\nThe proposed rules are in %s. To see what they would have refused:\n",
		       result->out);
	} else {
		put_title("Proposed rules", NULL, result->utf8);
		putchar('\n');
		fwrite(result->yaml.ptr, 1, result->yaml.len, stdout);
		puts("\nWrite these rules to a file with --out tuned.yaml. To see what they would "
		     "have refused:");
	}
	printf("\n  %s\n", result->replay.ptr);
}

void wr_cli_tune_print(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_route *route = &result->report->routes[result->route];

	print_log(result);
	print_routes(result);
	print_together(result);
	print_habits(result);
	print_levels(result, route);
	print_rates(result, route);
	print_load(result, route);
	print_outliers(result);
	print_without(result);
	print_rules(result);
}
