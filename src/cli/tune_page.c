/* The result of weir tune as an HTML page with plots. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"
#include "cli/tune.h"
#include "lab/report/page.h"
#include "lab/report/plot.h"
#include "stats/words.h"

#define CURVE_POINTS 400u

/* A number as text, for one cell. */
struct words {
	char text[WR_NUMBER_WORDS];
};

static struct words in_words(uint64_t number)
{
	struct words words = {""};

	wr_number_words(number, words.text);
	return words;
}

/* ---- the log ---- */

static void add_warnings(struct wr_lab_page *page, const struct wr_cli_tune *result)
{
	const struct wr_lab_log_totals *log = result->totals;

	for (size_t i = 0; i < result->warning_count; i++)
		wr_lab_page_warning(page, "%s", result->warnings[i]);
	if (log->unreadable)
		wr_lab_page_text(page, "%s of %s lines could not be read. For example:",
				 in_words(log->unreadable).text, in_words(log->lines).text);
	for (uint32_t i = 0; i < log->example_count; i++)
		wr_lab_page_code(page, log->examples[i], strlen(log->examples[i]));
}

static void add_log(struct wr_lab_page *page, const struct wr_cli_tune *result)
{
	const struct wr_lab_tune_report *report = result->report;
	char first[WR_REPLAY_WORDS], last[WR_REPLAY_WORDS];

	wr_cli_replay_time(report->first_ns, first);
	wr_cli_replay_time(report->last_ns, last);
	wr_lab_page_figure(page, "requests", "%s", in_words(report->requests).text);
	wr_lab_page_figure(page, "clients", "%s%s", report->sample_bits ? "about " : "",
			   in_words(report->clients << report->sample_bits).text);
	wr_lab_page_figure(page, "peak per second", "%s", in_words(report->timeline->peak[0]).text);
	wr_lab_page_figure(page, "clients that the limits touch", "%s",
			   in_words(report->touched).text);
	wr_lab_page_text(page, "%s to %s UTC. The limits leave %s of %s clients untouched.", first,
			 last, in_words(report->considered - report->touched).text,
			 in_words(report->considered).text);
	add_warnings(page, result);
	if (report->sample_bits)
		wr_lab_page_text(page,
				 "The clients are a sample: 1 in %u. The demand of each of them is "
				 "exact.",
				 1u << report->sample_bits);
}

static void add_timeline(struct wr_lab_page *page, const struct wr_cli_tune *result)
{
	double x[WR_LAB_BUCKETS], y[WR_LAB_BUCKETS];
	size_t count = wr_lab_timeline_rates(result->report->timeline, 0, x, y);
	struct wr_lab_series series = {"requests", WR_LAB_STEPS, WR_LAB_COLOUR_OFFERED, x,
				       y,          count};

	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = "Requests per second",
						     .x_label = "time, UTC",
						     .y_label = "requests per second",
						     .x_axis = WR_LAB_TIMES,
						     .series = &series,
						     .series_count = 1});
}

/* ---- routes ---- */

static void add_routes(struct wr_lab_page *page, const struct wr_cli_tune *result)
{
	static const char *const columns[] = {"route",   "#requests", "#clients",
					      "#peak/s", "limit",     "#clients touched"};
	const struct wr_lab_tune_report *report = result->report;

	wr_lab_page_heading(page, "Routes");
	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < report->route_count; i++) {
		const struct wr_lab_tune_route *route = &report->routes[i];
		char limit[WR_TUNE_LIMIT];

		wr_cli_tune_limit(report, &route->limit, limit);
		wr_lab_page_cell(page, "%s", route->text);
		wr_lab_page_cell(page, "%s", in_words(route->requests).text);
		wr_lab_page_cell(page, "%s", in_words(route->clients).text);
		wr_lab_page_cell(page, "%s", in_words(route->peak_second).text);
		wr_lab_page_cell(page, "%s",
				 route->reason == WR_LAB_PROPOSED
					 ? limit
					 : wr_cli_tune_reason(route->reason));
		wr_lab_page_cell(page, "%s",
				 route->reason == WR_LAB_PROPOSED
					 ? in_words(route->limit.touched).text
					 : "");
	}
	wr_lab_page_table_end(page);
}

/* ---- one route ---- */

/* Draws the part of the clients that each burst touches, at the rate of the limit. */
static void add_curve(struct wr_lab_page *page, const struct wr_cli_tune *result, size_t at)
{
	const struct wr_lab_tune_report *report = result->report;
	const struct wr_lab_tune_route *route = &report->routes[at];
	double *x = calloc((size_t)2 * CURVE_POINTS, sizeof *x), *y;
	double burst[2] = {route->limit.burst, route->limit.burst}, ends[2] = {100, 0};
	char title[160], rate[WR_TUNE_RATE];
	struct wr_lab_series series[2];
	size_t count;

	if (!x)
		abort();
	y = x + CURVE_POINTS;
	count = wr_lab_tune_curve(result->tune, at, route->limit.rate, x, y, CURVE_POINTS);
	ends[1] = 100.0 / (double)route->considered;
	wr_cli_tune_rate(&report->rates[route->limit.rate], rate);
	snprintf(title, sizeof title, "Clients that a token bucket of %s would touch", rate);
	series[0] = (struct wr_lab_series){
		"clients touched", WR_LAB_STEPS, WR_LAB_COLOUR_REFUSED, x, y, count};
	series[1] = (struct wr_lab_series){
		"proposed burst", WR_LAB_DASHED, WR_LAB_COLOUR_LIMIT, burst, ends, 2};
	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = title,
						     .x_label = "burst",
						     .y_label = "clients touched",
						     .y_axis = WR_LAB_PERCENT,
						     .log_x = true,
						     .log_y = true,
						     .series = series,
						     .series_count = 2});
	free(x);
}

/* Returns the number of rates up to the first one that needs no burst at any level. */
static size_t count_rates(const struct wr_lab_tune_report *report,
			  const struct wr_lab_tune_route *route)
{
	size_t count = 0;

	while (count < WR_LAB_RATES && route->levels[report->level_count - 1].bursts[count] > 1)
		count++;
	return count < WR_LAB_RATES ? count + 1 : count;
}

/* The burst that each rate needs, one line per level. */
struct trade_off {
	struct wr_lab_plot plot;
	struct wr_lab_series series[WR_LAB_TUNE_LEVELS + 1];
	double x[WR_LAB_RATES], y[WR_LAB_TUNE_LEVELS][WR_LAB_RATES];
	double best_x, best_y;
	char names[WR_LAB_TUNE_LEVELS][32];
};

static void fill_level(struct trade_off *trade, const struct wr_lab_tune_level *level, size_t at,
		       size_t count)
{
	for (size_t i = 0; i < count; i++)
		trade->y[at][i] =
			level->bursts[i] == WR_LAB_NO_BURST ? NAN : (double)level->bursts[i];
	snprintf(trade->names[at], sizeof trade->names[at], "%.10g %%", level->untouched_ppm / 1e4);
	trade->series[at] = (struct wr_lab_series){
		trade->names[at], WR_LAB_LINE,  (unsigned)(WR_LAB_COLOUR_OTHER + at),
		trade->x,         trade->y[at], count};
}

static void fill_trade_off(struct trade_off *trade, const struct wr_cli_tune *result, size_t at)
{
	const struct wr_lab_tune_report *report = result->report;
	const struct wr_lab_tune_route *route = &report->routes[at];
	bool proposed = route->reason == WR_LAB_PROPOSED;
	size_t count = count_rates(report, route);

	for (size_t i = 0; i < WR_LAB_RATES; i++)
		trade->x[i] = report->rates[i].limit * 60e9 / (double)report->rates[i].period_ns;
	for (size_t level = 0; level < report->level_count; level++)
		fill_level(trade, &route->levels[level], level, count);
	trade->best_x = trade->x[route->limit.rate];
	trade->best_y = route->limit.burst;
	trade->series[report->level_count] = (struct wr_lab_series){
		"proposed", WR_LAB_POINTS, WR_LAB_COLOUR_LIMIT, &trade->best_x, &trade->best_y, 1};
	trade->plot = (struct wr_lab_plot){
		.title = "Burst that each rate needs, by the part of the "
			 "clients that stays untouched",
		.x_label = report->costs ? "units per minute" : "requests per minute",
		.y_label = "burst",
		.log_x = true,
		.log_y = true,
		.series = trade->series,
		.series_count = report->level_count + proposed};
}

static void add_trade_off(struct wr_lab_page *page, const struct wr_cli_tune *result, size_t at)
{
	struct trade_off trade;

	fill_trade_off(&trade, result, at);
	wr_lab_page_plot(page, &trade.plot);
}

int wr_cli_tune_picture(const struct wr_cli_tune *result, const char *path)
{
	FILE *file = fopen(path, "w");
	struct trade_off trade;
	bool failed;

	if (!file)
		return -1;
	fill_trade_off(&trade, result, result->route);
	wr_lab_plot_write_file(&trade.plot, file);
	failed = ferror(file);
	return fclose(file) != 0 || failed ? -1 : 0;
}

static void add_levels(struct wr_lab_page *page, const struct wr_cli_tune *result, size_t at)
{
	static const char *const columns[] = {
		"#untouched", "#clients touched", "#peak second", "#minute", "#hour",
		"#day",       "token bucket"};
	const struct wr_lab_tune_report *report = result->report;
	const struct wr_lab_tune_route *route = &report->routes[at];

	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < report->level_count; i++) {
		const struct wr_lab_tune_level *level = &route->levels[i];
		char limit[WR_TUNE_LIMIT];

		wr_cli_tune_limit(report, &level->best, limit);
		wr_lab_page_cell(page, "%.10g %%", level->untouched_ppm / 1e4);
		wr_lab_page_cell(page, "%s", in_words(route->considered - level->spared).text);
		for (size_t unit = 0; unit < WR_LAB_UNIT_COUNT; unit++)
			wr_lab_page_cell(page, "%s", in_words(level->peaks[unit]).text);
		wr_lab_page_cell(page, "%s", level->usable ? limit : "none");
	}
	wr_lab_page_table_end(page);
}

static void add_route(struct wr_lab_page *page, const struct wr_cli_tune *result, size_t at)
{
	const struct wr_lab_tune_report *report = result->report;
	const struct wr_lab_tune_route *route = &report->routes[at];
	uint64_t active = route->peak_clients << report->sample_bits;
	char words[256];

	wr_lab_page_heading(page, route->text);
	wr_lab_tune_words(route, words, sizeof words);
	wr_lab_page_text(page, "What clients do: %s.", words);
	wr_lab_page_text(
		page,
		"In the log: at most %s per second, from at most %s clients in a minute. If "
		"so many clients sent their whole bursts at once: %s.",
		in_words(route->peak_second).text, in_words(active).text,
		in_words(active * route->limit.burst).text);
	add_levels(page, result, at);
	add_curve(page, result, at);
	add_trade_off(page, result, at);
}

/* ---- clients and rules ---- */

static void add_outliers(struct wr_lab_page *page, const struct wr_cli_tune *result)
{
	static const char *const columns[] = {"client", "kind", "why"};
	const struct wr_lab_tune_report *report = result->report;

	wr_lab_page_heading(page, "Clients that stand out");
	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < report->outlier_count; i++) {
		const struct wr_lab_tune_outlier *outlier = &report->outliers[i];
		char reason[512];

		wr_lab_client_reason(outlier->client, outlier->kind, reason, sizeof reason);
		wr_lab_page_cell(page, "%s", outlier->client->name);
		wr_lab_page_cell(page, "%s", wr_lab_kind_name(outlier->kind));
		wr_lab_page_cell(page, "%s", reason);
	}
	wr_lab_page_table_end(page);
	wr_lab_page_text(page, "%s of %s clients stand out.",
			 in_words(report->clients - report->kinds[WR_LAB_USUAL]).text,
			 in_words(report->clients).text);
}

int wr_cli_tune_page(const struct wr_cli_tune *result, const char *path)
{
	struct wr_lab_page *page = wr_lab_page_open(path, "Limits from a log");

	if (!page)
		return -1;
	add_log(page, result);
	add_timeline(page, result);
	add_routes(page, result);
	for (size_t i = 0; i < result->report->route_count; i++)
		if (result->report->routes[i].reason == WR_LAB_PROPOSED)
			add_route(page, result, i);
	add_outliers(page, result);
	wr_lab_page_heading(page, "Proposed rules");
	wr_lab_page_code(page, result->yaml.ptr, result->yaml.len);
	wr_lab_page_text(page, "To see what these rules would have refused:");
	wr_lab_page_code(page, result->replay.ptr, result->replay.len);
	return wr_lab_page_close(page);
}
