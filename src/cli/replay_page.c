/* Writes the result of weir replay as an HTML page with plots. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/replay.h"
#include "lab/report/page.h"
#include "stats/words.h"

/* ---- texts ---- */

/* Writes a text of the rules with a zero at its end. */
static const char *cut_text(struct weir_str text, char *out, size_t cap)
{
	snprintf(out, cap, "%.*s", (int)text.len, text.ptr);
	return out;
}

static void put_number(struct wr_lab_page *page, uint64_t number)
{
	char text[WR_NUMBER_WORDS];

	wr_number_words(number, text);
	wr_lab_page_cell(page, "%s", text);
}

static void put_percent(struct wr_lab_page *page, uint64_t part, uint64_t whole)
{
	char text[WR_REPLAY_WORDS];

	wr_cli_replay_percent(part, whole, text);
	wr_lab_page_cell(page, "%s", text);
}

static void put_figure(struct wr_lab_page *page, const char *name, uint64_t number, bool exact)
{
	char text[WR_REPLAY_WORDS];

	wr_cli_replay_estimate(number, exact, text);
	wr_lab_page_figure(page, name, "%s", text);
}

/* ---- plots ---- */

/* Plots the requests of a timeline: all, admitted and refused per second. */
static void plot_timeline(struct wr_lab_page *page, const struct wr_lab_timeline *timeline,
			  const char *title)
{
	static double x[WR_LAB_BUCKETS], admitted[WR_LAB_BUCKETS], refused[WR_LAB_BUCKETS],
		other[WR_LAB_BUCKETS], all[WR_LAB_BUCKETS];
	size_t count = wr_lab_timeline_rates(timeline, WR_LAB_TRACK_ADMITTED, x, admitted);
	struct wr_lab_series series[] = {
		{"requests", WR_LAB_STEPS, WR_LAB_COLOUR_OFFERED, x, all, count},
		{"admitted", WR_LAB_STEPS, WR_LAB_COLOUR_ADMITTED, x, admitted, count},
		{"refused", WR_LAB_STEPS, WR_LAB_COLOUR_REFUSED, x, refused, count},
	};
	struct wr_lab_plot plot = {.title = title,
				   .x_label = "time, UTC",
				   .y_label = "requests per second",
				   .x_axis = WR_LAB_TIMES,
				   .series = series,
				   .series_count = sizeof series / sizeof *series};

	wr_lab_timeline_rates(timeline, WR_LAB_TRACK_REFUSED, x, refused);
	wr_lab_timeline_rates(timeline, WR_LAB_TRACK_DEFERRED, x, other);
	for (size_t i = 0; i < count; i++)
		refused[i] += other[i];
	wr_lab_timeline_rates(timeline, WR_LAB_TRACK_ELSEWHERE, x, other);
	for (size_t i = 0; i < count; i++)
		all[i] = admitted[i] + refused[i] + other[i];
	wr_lab_page_plot(page, &plot);
}

/* Plots the refusals of the keys as bars. */
static void plot_keys(struct wr_lab_page *page, const struct wr_lab_top_key *const *keys,
		      size_t count, const char *title)
{
	static char texts[WR_LAB_TOP_KEYS][WR_REPLAY_KEY];
	const char *names[WR_LAB_TOP_KEYS];
	double x[WR_LAB_TOP_KEYS], y[WR_LAB_TOP_KEYS];
	struct wr_lab_series series = {NULL, WR_LAB_BARS, WR_LAB_COLOUR_REFUSED, x, y, count};
	struct wr_lab_plot plot = {.title = title,
				   .y_label = "refused requests",
				   .series = &series,
				   .series_count = 1,
				   .names = names,
				   .name_count = count};

	for (size_t i = 0; i < count; i++) {
		wr_cli_replay_key(keys[i], texts[i]);
		names[i] = texts[i];
		x[i] = (double)i;
		y[i] = (double)keys[i]->count;
	}
	if (count)
		wr_lab_page_plot(page, &plot);
}

/* Plots the algorithms side by side: admitted and refused requests, and errors. */
static void plot_algorithms(struct wr_lab_page *page,
			    const struct wr_lab_algorithms_limit *compared)
{
	const char *names[WR_LAB_ALGORITHMS];
	double x[WR_LAB_ALGORITHMS], values[4][WR_LAB_ALGORITHMS];
	struct wr_lab_series counts[] = {
		{"admitted", WR_LAB_BARS, WR_LAB_COLOUR_ADMITTED, x, values[0], WR_LAB_ALGORITHMS},
		{"refused", WR_LAB_BARS, WR_LAB_COLOUR_REFUSED, x, values[1], WR_LAB_ALGORITHMS},
	};
	struct wr_lab_series errors[] = {
		{"wrongly admitted", WR_LAB_BARS, WR_LAB_COLOUR_OTHER, x, values[2],
		 WR_LAB_ALGORITHMS},
		{"wrongly refused", WR_LAB_BARS, WR_LAB_COLOUR_OTHER + 1, x, values[3],
		 WR_LAB_ALGORITHMS},
	};
	struct wr_lab_plot plot = {.title = "Requests by algorithm",
				   .y_label = "requests",
				   .series = counts,
				   .series_count = 2,
				   .names = names,
				   .name_count = WR_LAB_ALGORITHMS};

	for (size_t i = 0; i < WR_LAB_ALGORITHMS; i++) {
		const struct wr_lab_algorithm *a = &compared->algorithms[i];
		double all = compared->requests ? (double)compared->requests : 1;

		names[i] = weir_algorithm_name((int)i + 1);
		x[i] = (double)i;
		values[0][i] = (double)a->admitted;
		values[1][i] = (double)a->refused;
		values[2][i] = 100 * (double)a->wrongly_admitted / all;
		values[3][i] = 100 * (double)a->wrongly_refused / all;
	}
	wr_lab_page_plot(page, &plot);
	plot.title = "Wrong decisions by algorithm, against an exact sliding window";
	plot.y_label = "part of all requests";
	plot.y_axis = WR_LAB_PERCENT;
	plot.series = errors;
	wr_lab_page_plot(page, &plot);
}

/* ---- sections ---- */

static void put_head(struct wr_lab_page *page, const struct wr_cli_replay *result)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(result->replay);
	const struct wr_lab_replay_totals *totals = &report->totals;
	char first[WR_REPLAY_WORDS], last[WR_REPLAY_WORDS], domain[160];

	for (size_t i = 0; i < result->warning_count; i++)
		wr_lab_page_warning(page, "%s", result->warnings[i]);
	wr_cli_replay_time(totals->first_ns, first);
	wr_cli_replay_time(totals->last_ns, last);
	wr_lab_page_text(page, "%s, domain %s. Requests from %s to %s UTC.", result->rules,
			 cut_text(report->domain, domain, sizeof domain), first, last);
	put_figure(page, "requests", totals->requests, true);
	put_figure(page, "admitted", totals->admitted, true);
	put_figure(page, "refused", totals->refused + totals->deferred, true);
	put_figure(page, "clients", report->clients, report->clients_exact);
	put_figure(page, "clients refused", report->clients_refused, report->clients_exact);
	if (report->timeline)
		plot_timeline(page, report->timeline, "All requests");
}

static void put_unreadable(struct wr_lab_page *page, const struct wr_lab_log_totals *log)
{
	if (log->unreadable == 0)
		return;
	wr_lab_page_text(page, "%llu of %llu lines could not be read. For example:",
			 (unsigned long long)log->unreadable, (unsigned long long)log->lines);
	for (uint32_t i = 0; i < log->example_count; i++)
		wr_lab_page_code(page, log->examples[i], strlen(log->examples[i]));
}

static void put_limits(struct wr_lab_page *page, const struct wr_lab_replay_report *report)
{
	static const char *const columns[] = {"rule",          "limit",         "#requests",
					      "#admitted",     "#refused",      "#in %",
					      "#keys refused", "#longest wait", "#peak per s"};

	wr_lab_page_heading(page, "Limits");
	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < report->limit_count; i++) {
		const struct wr_lab_replay_limit *limit = &report->limits[i];
		uint64_t refused = limit->refused + limit->deferred + limit->would_refuse;
		char text[160], keys[WR_REPLAY_WORDS];

		wr_lab_page_cell(page, "%s", cut_text(limit->rule->stat, text, sizeof text));
		wr_lab_page_cell(page, "%s", wr_cli_replay_limit(limit->rule, text, sizeof text));
		put_number(page, limit->requests);
		put_number(page, limit->admitted);
		put_number(page, refused);
		put_percent(page, refused, limit->requests);
		wr_cli_replay_estimate(limit->keys_refused, limit->keys_exact, text);
		wr_cli_replay_estimate(limit->keys, limit->keys_exact, keys);
		wr_lab_page_cell(page, "%s of %s", text, keys);
		wr_cli_replay_longest(limit, text);
		wr_lab_page_cell(page, "%s", text);
		put_number(page, limit->peak_offered);
	}
	wr_lab_page_table_end(page);
}

static void put_algorithms(struct wr_lab_page *page, const struct wr_lab_algorithms_limit *compared)
{
	static const char *const columns[] = {
		"algorithm", "#admitted",        "#refused", "#wrongly admitted",
		"#in %",     "#wrongly refused", "#in %"};

	if (compared->not_compared) {
		wr_lab_page_text(page, "The algorithms are not compared: %s.",
				 compared->not_compared);
		return;
	}
	wr_lab_page_subheading(page, "Algorithms on this limit");
	if (compared->level)
		wr_lab_page_text(page, "Estimated from one key in %llu.", 1ull << compared->level);
	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < WR_LAB_ALGORITHMS; i++) {
		const struct wr_lab_algorithm *a = &compared->algorithms[i];

		wr_lab_page_cell(page, "%s", weir_algorithm_name((int)i + 1));
		put_number(page, a->admitted);
		put_number(page, a->refused);
		put_number(page, a->wrongly_admitted);
		put_percent(page, a->wrongly_admitted, compared->requests);
		put_number(page, a->wrongly_refused);
		put_percent(page, a->wrongly_refused, compared->requests);
	}
	wr_lab_page_table_end(page);
	plot_algorithms(page, compared);
}

/* Writes the plots of a limit that refused requests, or whose algorithms are compared. */
static void put_limit(struct wr_lab_page *page, const struct wr_lab_replay *replay, size_t at)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(replay);
	const struct wr_lab_replay_limit *limit = &report->limits[at];
	const struct wr_lab_algorithms_limit *compared = wr_lab_replay_algorithms(replay, at);
	const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
	size_t count = wr_lab_replay_top(replay, at, keys);
	char name[160], text[160];

	if (limit->requests == 0 || (count == 0 && !compared))
		return;
	wr_lab_page_heading(page, cut_text(limit->rule->stat, name, sizeof name));
	wr_lab_page_text(page, "%s", wr_cli_replay_limit(limit->rule, text, sizeof text));
	if (limit->timeline && limit->requests < report->totals.requests)
		plot_timeline(page, limit->timeline, "Requests of this limit");
	plot_keys(page, keys, count, "Most refused keys");
	if (compared)
		put_algorithms(page, compared);
}

static void put_diff(struct wr_lab_page *page, const struct wr_lab_diff *diff, const char *first,
		     const char *second)
{
	static const char *const columns[] = {"refused by", "#requests", "#in %", "#clients"};
	const uint64_t requests[] = {diff->both, diff->only[0], diff->only[1]};
	const uint64_t clients[] = {diff->clients_both, diff->clients_only[0],
				    diff->clients_only[1]};
	const char *const names[] = {"both", first, second};

	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < 3; i++) {
		char text[WR_REPLAY_WORDS];

		wr_lab_page_cell(page, "%s%s", i ? "only " : "", names[i]);
		put_number(page, requests[i]);
		put_percent(page, requests[i], diff->requests);
		wr_cli_replay_estimate(clients[i], diff->clients_exact, text);
		wr_lab_page_cell(page, "%s", text);
	}
	wr_lab_page_table_end(page);
	for (size_t i = 0; i < 2; i++) {
		const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
		char title[320];

		snprintf(title, sizeof title, "Clients refused only by %s", names[i + 1]);
		plot_keys(page, keys, wr_lab_diff_top(diff, (enum wr_lab_side)i, keys), title);
	}
}

static void put_notes(struct wr_lab_page *page, const struct wr_lab_replay_report *report)
{
	if (report->note_count)
		wr_lab_page_heading(page, "Notes");
	for (size_t i = 0; i < report->note_count; i++)
		wr_lab_page_text(page, "%s", report->notes[i]);
}

int wr_cli_replay_page(const struct wr_cli_replay *result, const char *path,
		       struct weir_error *error)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(result->replay);
	struct wr_lab_page *page = wr_lab_page_open(path, "weir replay");

	if (!page)
		return wr_error_errno(error, WEIR_ESYS, "--html %s", path);
	put_head(page, result);
	put_unreadable(page, &result->log);
	put_limits(page, report);
	for (size_t i = 0; i < report->limit_count; i++)
		put_limit(page, result->replay, i);
	if (result->other) {
		wr_lab_page_heading(page, "Compared with other rules");
		put_diff(page, &result->difference, result->rules, result->other_rules);
	}
	if (result->answered_text) {
		wr_lab_page_heading(page, "Compared with the refusals in the log");
		wr_lab_page_text(page, "The log records a refusal as status %s.",
				 result->answered_text);
		put_diff(page, &result->answered, "the log", "weir");
	}
	put_notes(page, report);
	if (wr_lab_page_close(page) != 0)
		return wr_error_errno(error, WEIR_ESYS, "--html %s", path);
	return 0;
}
