/* Prints the result of weir tune for people. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/show.h"
#include "cli/tune.h"
#include "stats/words.h"

#define ROUTE_COLUMNS 34u
#define CLIENT_COLUMNS 28u
#define TEXT_BYTES(columns) (4 * (columns) + 1)
#define UNREADABLE_PERCENT 5u /* more unreadable lines cause a warning */

/* ---- cells ---- */

/* Prints a number, right-aligned in `width` columns. */
static void put_number(uint64_t number, int width)
{
	char text[WR_NUMBER_WORDS];

	wr_number_words(number, text);
	printf("%*s", width, text);
}

/* Prints a text of the log, left-aligned. */
static void put_text(const char *text, size_t columns, bool utf8)
{
	char shown[TEXT_BYTES(ROUTE_COLUMNS)];
	size_t width = wr_cli_show_text(wr_str(text), columns, utf8, shown, sizeof shown);

	printf("%s%*s", shown, (int)(columns - width), "");
}

/* Prints a burst, or a dash if no burst is enough. */
static void put_burst(uint32_t burst, int width)
{
	if (burst == WR_LAB_NO_BURST)
		printf("%*s", width, "-");
	else
		put_number(burst, width);
}

static void put_title(const char *title)
{
	printf("\n%s\n", title);
}

/* ---- the log ---- */

static void print_log(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	double days = (double)(report->last_ns - report->first_ns) / 86400e9;
	char requests[WR_NUMBER_WORDS], clients[WR_NUMBER_WORDS];
	char first[WR_TUNE_TIME], last[WR_TUNE_TIME];

	wr_number_words(report->requests, requests);
	wr_number_words(report->clients << report->sample_bits, clients);
	wr_cli_tune_time(report->first_ns, first);
	wr_cli_tune_time(report->last_ns, last);
	printf("%s requests of %s%s clients, %s to %s UTC", requests,
	       report->sample_bits ? "about " : "", clients, first, last);
	if (days >= 2)
		printf(" (%.1f days)", days);
	putchar('\n');
	if (report->sample_bits)
		printf("The clients are a sample: 1 in %u. The demand of each of them is exact. "
		       "Clients that stand out\nwere looked for in the sample only.\n",
		       1u << report->sample_bits);
}

static void print_left_out(const char *what, uint64_t count)
{
	char number[WR_NUMBER_WORDS];

	wr_number_words(count, number);
	if (count)
		printf("  %s %s\n", number, what);
}

/* Prints what the limits do not consider. */
static void print_gaps(const struct wr_cli_tune *result)
{
	const struct wr_lab_log_totals *totals = result->totals;
	const struct wr_lab_tune_report *report = result->report;

	if (totals->unreadable * 100 > totals->lines * UNREADABLE_PERCENT)
		printf("WARNING: %.1f %% of the lines cannot be read. Is --format right?\n",
		       100 * (double)totals->unreadable / (double)totals->lines);
	print_left_out("lines cannot be read, for example:", totals->unreadable);
	for (uint32_t i = 0; i < totals->example_count; i++)
		printf("    %s\n", totals->examples[i]);
	if (totals->damaged)
		printf("WARNING: %s\n", totals->damage);
	print_left_out("lines were too late to be put in order, and count at the time of the line "
		       "before",
		       totals->late);
	print_left_out("lines without a request", report->no_request);
	print_left_out("malformed requests, which weir refuses in any case", report->malformed);
	print_left_out("requests are exempt (allow: true)", report->exempt);
	print_left_out("requests have no key, so no limit applies to them", report->no_key);
}

/* ---- routes ---- */

static void print_route(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	char limit[WR_TUNE_LIMIT];

	fputs("  ", stdout);
	put_text(route->text, ROUTE_COLUMNS, result->utf8);
	put_number(route->requests, 12);
	put_number(route->clients, 9);
	put_number(route->peak_second, 8);
	if (route->reason != WR_LAB_PROPOSED) {
		printf("  (%s)\n", wr_cli_tune_reason(route->reason));
		return;
	}
	wr_cli_tune_limit(result->report, &route->limit, limit);
	printf("  %s", limit);
	if (route->limit.touched) {
		fputs("; touches ", stdout);
		put_number(route->limit.touched, 0);
	}
	putchar('\n');
}

static void print_routes(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;

	printf("\n  %-*s%12s%9s%8s  %s\n", (int)ROUTE_COLUMNS, "route", "requests", "clients",
	       "peak/s", "proposed limit per client");
	for (size_t i = 0; i < report->route_count; i++)
		print_route(result, &report->routes[i]);
	if (report->other) {
		printf("  %-*s", (int)ROUTE_COLUMNS, "other");
		put_number(report->other, 12);
		printf("%9s%8s  (the limit for all requests applies)\n", "", "");
	}
	fputs("\nTogether the limits refuse requests of ", stdout);
	put_number(report->touched, 0);
	fputs(" of ", stdout);
	put_number(report->considered, 0);
	printf(" clients%s; %.10g %% untouched permits ",
	       result->without_outliers ? " that do not stand out" : "",
	       report->untouched_ppm / 1e4);
	put_number(report->touched_max, 0);
	puts(".");
	if (report->loosened)
		puts("For this, some limits are larger than the same part of their own clients "
		     "needs.");
}

static void print_habits(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;

	put_title("What clients do");
	for (size_t i = 0; i < report->route_count; i++) {
		char words[256];

		wr_lab_tune_words(&report->routes[i], words, sizeof words);
		fputs("  ", stdout);
		put_text(report->routes[i].text, ROUTE_COLUMNS, result->utf8);
		printf("  %s\n", words);
	}
}

/* ---- the trade-off of one route ---- */

static void print_levels(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = result->report;
	const char *horizon = wr_lab_unit_name(report->unit == WR_LAB_UNIT_COUNT ? WR_LAB_PER_MINUTE
										 : report->unit);

	fputs("\nUntouched clients against limits: ", stdout);
	wr_cli_show_print(wr_str(route->text), result->utf8);
	printf("\n  %9s%9s%36s    %-30s%10s\n", "", "clients", "---- peak of one client per ----",
	       "token bucket", "1 client");
	printf("  %9s%9s%9s%9s%9s%9s    %-30s%10s\n", "untouched", "touched", "second", "minute",
	       "hour", "day", "with the least per horizon", horizon);
	for (size_t i = 0; i < report->level_count; i++) {
		const struct wr_lab_tune_level *level = &route->levels[i];
		char limit[WR_TUNE_LIMIT];

		printf("%c %7.10g %%", i == report->level ? '>' : ' ', level->untouched_ppm / 1e4);
		put_number(route->considered - level->spared, 9);
		for (size_t unit = 0; unit < WR_LAB_UNIT_COUNT; unit++)
			put_number(level->peaks[unit], 9);
		if (!level->usable) {
			puts("    none");
			continue;
		}
		wr_cli_tune_limit(report, &level->best, limit);
		printf("    %-30s", limit);
		put_number(wr_lab_tune_cost(&report->rates[level->best.rate], level->best.burst,
					    report->horizon_ns),
			   10);
		putchar('\n');
	}
}

/* Returns whether the burst of the next rate is the same at all levels, so that the rate adds
 * nothing. */
static bool is_last_step(const struct wr_lab_tune_report *report,
			 const struct wr_lab_tune_route *route, size_t rate)
{
	if (rate == 0)
		return false;
	for (size_t i = 0; i < report->level_count; i++)
		if (route->levels[i].bursts[rate] != route->levels[i].bursts[rate - 1])
			return false;
	return true;
}

static void print_rates(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = result->report;

	fputs("\nBurst that each rate needs: ", stdout);
	wr_cli_show_print(wr_str(route->text), result->utf8);
	printf("\n  %-20s", "untouched");
	for (size_t i = 0; i < report->level_count; i++)
		printf("%8.10g %%", route->levels[i].untouched_ppm / 1e4);
	putchar('\n');
	for (size_t rate = 0; rate < WR_LAB_RATES; rate++) {
		char words[WR_TUNE_RATE];

		if (is_last_step(report, route, rate))
			break;
		wr_cli_tune_rate(&report->rates[rate], words);
		printf("%c %-20s",
		       route->reason == WR_LAB_PROPOSED && rate == route->limit.rate ? '>' : ' ',
		       words);
		for (size_t i = 0; i < report->level_count; i++)
			put_burst(route->levels[i].bursts[rate], 10);
		putchar('\n');
	}
}

/* Prints the load that the limit still permits, beside the load of the log. */
static void print_load(const struct wr_cli_tune *result, const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = result->report;
	const char *what = report->costs ? "units" : "requests";
	uint64_t active = route->peak_clients << report->sample_bits;

	if (route->reason != WR_LAB_PROPOSED)
		return;
	fputs("\nPeak load: ", stdout);
	wr_cli_show_print(wr_str(route->text), result->utf8);
	fputs("\n  In the log, at most ", stdout);
	put_number(route->peak_second, 0);
	printf(" %s per second and ", what);
	put_number(route->peak_minute, 0);
	fputs(" per minute, from at most ", stdout);
	put_number(active, 0);
	fputs(" clients in a minute.\n  If so many clients sent all that the limit permits: ",
	      stdout);
	put_number(active * route->limit.burst, 0);
	fputs(" at once, ", stdout);
	put_number(active * wr_lab_tune_cost(&report->rates[route->limit.rate], route->limit.burst,
					     wr_lab_unit_ns(WR_LAB_PER_MINUTE)),
		   0);
	fputs(" in a minute. If all clients did: ", stdout);
	put_number((route->clients << report->sample_bits) * route->limit.burst, 0);
	puts(" at once.");
}

/* ---- clients that stand out ---- */

static void print_outliers(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	uint64_t all = report->clients - report->kinds[WR_LAB_USUAL];

	put_title("Clients that stand out");
	if (all == 0)
		puts("  none");
	for (size_t i = 0; i < report->outlier_count; i++) {
		const struct wr_lab_tune_outlier *outlier = &report->outliers[i];
		char reason[512];

		fputs("  ", stdout);
		put_text(outlier->client->name, CLIENT_COLUMNS, result->utf8);
		printf("  %-13s  ", wr_lab_kind_name(outlier->kind));
		wr_lab_client_reason(outlier->client, outlier->kind, reason, sizeof reason);
		wr_cli_show_print(wr_str(reason), result->utf8);
		putchar('\n');
	}
	if (all > report->outlier_count) {
		fputs("  and ", stdout);
		put_number(all - report->outlier_count, 0);
		puts(" more");
	}
}

static uint64_t cost_of(const struct wr_lab_tune_report *report,
			const struct wr_lab_tune_limit *limit)
{
	return wr_lab_tune_cost(&report->rates[limit->rate], limit->burst, report->horizon_ns);
}

/* Prints the limits that become much tighter without the clients that stand out. */
static void print_without(const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	bool any = false;

	for (size_t i = 0; i < report->route_count && !result->without_outliers; i++) {
		const struct wr_lab_tune_route *route = &report->routes[i];
		const struct wr_lab_tune_limit *all = &route->levels[report->level].best;
		char limit[WR_TUNE_LIMIT];

		if (!route->usual_usable || route->reason == WR_LAB_FEW_CLIENTS ||
		    2 * cost_of(report, &route->usual) > cost_of(report, all))
			continue;
		if (!any)
			puts("\nWithout the clients that stand out (--without-outliers):");
		any = true;
		fputs("  ", stdout);
		put_text(route->text, ROUTE_COLUMNS, result->utf8);
		wr_cli_tune_limit(report, &route->usual, limit);
		printf("  %s", limit);
		wr_cli_tune_limit(report, all, limit);
		printf(", instead of %s\n", limit);
	}
}

/* ---- the rules ---- */

static void print_rules(const struct wr_cli_tune *result)
{
	if (result->out) {
		printf("\nThe proposed rules are in %s. To see what they would have refused:\n",
		       result->out);
	} else {
		put_title("Proposed rules");
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
	print_gaps(result);
	print_routes(result);
	print_habits(result);
	print_levels(result, route);
	print_rates(result, route);
	print_load(result, route);
	print_outliers(result);
	print_without(result);
	print_rules(result);
}
