/* The report of weir simulate as an HTML page, and its main picture as SVG. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "base/error.h"
#include "cli/simulate.h"
#include "lab/report/page.h"
#include "rules/rules.h"

#define CURVES_MAX (2 * WR_LAB_SWEEP + 4)

/* Memory for the series of one plot. */
struct drawing {
	struct wr_lab_series series[CURVES_MAX];
	char names[CURVES_MAX][WR_SIMULATE_NAME];
	double x[CURVES_MAX][WR_LAB_SECTIONS], y[CURVES_MAX][WR_LAB_SECTIONS];
	size_t count;
};

/* Adds a series with room for WR_LAB_SECTIONS values, and returns it. */
static struct wr_lab_series *add_series(struct drawing *drawing, enum wr_lab_plot_style style,
					unsigned colour)
{
	size_t i = drawing->count++;

	drawing->series[i] = (struct wr_lab_series){.name = drawing->names[i],
						    .style = style,
						    .colour = colour,
						    .x = drawing->x[i],
						    .y = drawing->y[i]};
	return &drawing->series[i];
}

static void add_point(struct drawing *drawing, const struct wr_lab_series *series, double x,
		      double y)
{
	size_t i = (size_t)(series - drawing->series);

	drawing->x[i][series->count] = x;
	drawing->y[i][series->count] = y;
	drawing->series[i].count++;
}

/* Returns the end of a section of the run, in seconds. */
static double point_s(const struct wr_lab_scenario *scenario, size_t point)
{
	return (double)scenario->duration_ns / 1e9 * (double)(point + 1) / WR_LAB_SECTIONS;
}

/* Adds a curve of counts as a rate per second, averaged over the seeds. */
static void add_rates(struct drawing *drawing, const struct wr_lab_scenario *scenario,
		      const uint64_t *counts, const struct wr_lab_series *series)
{
	double width_s = (double)scenario->duration_ns / 1e9 / WR_LAB_SECTIONS * scenario->seeds;

	for (size_t i = 0; i < WR_LAB_SECTIONS; i++)
		add_point(drawing, series, point_s(scenario, i), (double)counts[i] / width_s);
}

/* ---- plots ---- */

typedef void emit_fn(void *context, const struct wr_lab_plot *plot);

/* The requests that one run admitted and refused over time. */
static void plot_run(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run,
		     struct drawing *drawing, emit_fn *emit, void *context)
{
	static const char *const names[] = {"offered", "admitted", "refused"};
	const uint64_t *const counts[] = {run->curves.offered, run->curves.admitted,
					  run->curves.refused};
	struct wr_lab_plot plot = {.title = "Requests per second",
				   .x_label = "time",
				   .y_label = "requests per second",
				   .x_axis = WR_LAB_SECONDS,
				   .series = drawing->series};

	drawing->count = 0;
	for (unsigned i = 0; i < 3; i++) {
		const struct wr_lab_series *series =
			add_series(drawing, WR_LAB_LINE, WR_LAB_COLOUR_OFFERED + i);

		snprintf(drawing->names[i], WR_SIMULATE_NAME, "%s", names[i]);
		add_rates(drawing, scenario, counts[i], series);
	}
	plot.series_count = drawing->count;
	emit(context, &plot);
}

/* The admitted requests of all runs over time. */
static void plot_admitted(const struct wr_lab_simulation *simulation, struct drawing *drawing,
			  emit_fn *emit, void *context)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	struct wr_lab_plot plot = {.title = "Admitted requests per second",
				   .x_label = "time",
				   .y_label = "requests per second",
				   .x_axis = WR_LAB_SECONDS,
				   .series = drawing->series};
	const struct wr_lab_series *series;

	drawing->count = 0;
	series = add_series(drawing, WR_LAB_DASHED, WR_LAB_COLOUR_OFFERED);
	snprintf(drawing->names[0], WR_SIMULATE_NAME, "offered");
	add_rates(drawing, scenario, simulation->runs[0].curves.offered, series);
	for (size_t i = 0; i < simulation->run_count && drawing->count < CURVES_MAX; i++) {
		series = add_series(drawing, WR_LAB_LINE, WR_LAB_COLOUR_OTHER + (unsigned)i);
		wr_cli_simulate_name(simulation, &simulation->runs[i],
				     drawing->names[drawing->count - 1]);
		add_rates(drawing, scenario, simulation->runs[i].curves.admitted, series);
	}
	plot.series_count = drawing->count;
	emit(context, &plot);
}

/* What the nodes know about client 1: the admitted units, and the smallest and the largest number
 * that a node counts. */
static void plot_known(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run,
		       struct drawing *drawing, emit_fn *emit, void *context)
{
	static const char *const names[] = {"admitted in the window", "least that a node counts",
					    "most that a node counts", "limit"};
	const uint32_t *const counts[] = {run->curves.used, run->curves.least_known,
					  run->curves.most_known};
	struct wr_lab_plot plot = {.title = "Units of client 1 in the window, and what nodes count",
				   .x_label = "time",
				   .y_label = "units",
				   .x_axis = WR_LAB_SECONDS,
				   .series = drawing->series};

	drawing->count = 0;
	for (unsigned i = 0; i < 4; i++) {
		const struct wr_lab_series *series = add_series(
			drawing, i == 3 ? WR_LAB_DASHED : WR_LAB_LINE,
			i == 3 ? WR_LAB_COLOUR_LIMIT
			       : (i == 0 ? WR_LAB_COLOUR_ADMITTED : WR_LAB_COLOUR_OTHER + i));

		snprintf(drawing->names[i], WR_SIMULATE_NAME, "%s", names[i]);
		for (size_t k = 0; k < WR_LAB_SECTIONS; k++)
			add_point(drawing, series, point_s(scenario, k),
				  i == 3 ? scenario->limit : counts[i][k]);
	}
	plot.series_count = drawing->count;
	emit(context, &plot);
}

/* The overshoot by the sync interval: a curve for each number of nodes, and its bound, dashed. */
static void plot_sweep(const struct wr_lab_simulation *simulation, struct drawing *drawing,
		       emit_fn *emit, void *context)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	double capacity = wr_lab_scenario_capacity(scenario);
	struct wr_lab_plot plot = {.title = scenario->title,
				   .x_label = "sync_interval; dashed: the bound",
				   .y_label = "beyond the limit",
				   .x_axis = WR_LAB_SECONDS,
				   .y_axis = WR_LAB_PERCENT,
				   .log_x = true,
				   .log_y = true,
				   .series = drawing->series};
	const struct wr_lab_series *measured = NULL, *bound = NULL;
	uint32_t nodes = 0;

	drawing->count = 0;
	for (size_t i = 0; i < simulation->run_count; i++) {
		const struct wr_lab_run *run = &simulation->runs[i];
		double x = (double)run->sync_ns / 1e9;

		if (run->mode != WR_EVENTUAL)
			continue;
		if (!measured || run->nodes != nodes) {
			unsigned colour = WR_LAB_COLOUR_OTHER + (unsigned)drawing->count / 2;

			nodes = run->nodes;
			measured = add_series(drawing, WR_LAB_LINE, colour);
			snprintf(drawing->names[drawing->count - 1], WR_SIMULATE_NAME, "%u nodes",
				 nodes);
			bound = add_series(drawing, WR_LAB_DASHED, colour);
			drawing->series[drawing->count - 1].name = NULL;
		}
		add_point(drawing, measured, x,
			  run->overshoot ? 100 * (double)run->overshoot / capacity : NAN);
		add_point(drawing, bound, x,
			  run->bound.exists ? 100 * (double)run->bound.allowed_most / capacity
					    : NAN);
	}
	plot.series_count = drawing->count;
	emit(context, &plot);
}

static bool is_sweep(const struct wr_lab_simulation *simulation)
{
	for (size_t i = 0; i < simulation->run_count; i++)
		if (simulation->runs[i].mode == WR_EVENTUAL)
			return simulation->scenario->sync_count > 1;
	return false;
}

/* ---- the page ---- */

static void emit_to_page(void *context, const struct wr_lab_plot *plot)
{
	wr_lab_page_plot(context, plot);
}

/* Writes the label of a figure into a cell. Labels that begin with blanks belong to the label
 * before them. */
static void write_label(struct wr_lab_page *page, const char *label)
{
	if (label[0] == ' ')
		wr_lab_page_cell(page, "– %s", label + strspn(label, " "));
	else
		wr_lab_page_cell(page, "%s", label);
}

/* Writes the warnings, and the unreadable lines of the logs of the traffic. */
static void write_notes(struct wr_lab_page *page, const struct wr_lab_simulation *simulation)
{
	const struct wr_lab_log_totals *log = &simulation->log;
	struct wr_cli_simulate_warnings warnings;

	wr_cli_simulate_warn(simulation, &warnings);
	for (size_t i = 0; i < warnings.count; i++) {
		const char *text = warnings.texts[i];
		bool ended = wr_str_ends(wr_str(text), WR_STR("."));

		wr_lab_page_warning(page, "%s%s", text, ended ? "" : ".");
	}
	if (log->lines)
		wr_lab_page_text(page, "%llu of %llu lines of the log could not be read.",
				 (unsigned long long)log->unreadable,
				 (unsigned long long)log->lines);
	for (uint32_t i = 0; i < log->example_count; i++)
		wr_lab_page_code(page, log->examples[i], strlen(log->examples[i]));
}

/* A table with a column for each run. */
static void write_columns(struct wr_lab_page *page, const struct wr_lab_simulation *simulation)
{
	char titles[WR_SIMULATE_FEW][WR_SIMULATE_NAME + 1], text[WR_FIGURE_TEXT];
	const char *columns[WR_SIMULATE_FEW + 1] = {"figure"};

	for (size_t i = 0; i < simulation->run_count; i++) {
		titles[i][0] = '#';
		wr_cli_simulate_name(simulation, &simulation->runs[i], titles[i] + 1);
		columns[i + 1] = titles[i];
	}
	wr_lab_page_table(page, columns, simulation->run_count + 1);
	for (const struct wr_cli_figure *figure = wr_cli_figures; figure->name; figure++) {
		if (!wr_cli_figure_shown(figure, simulation))
			continue;
		write_label(page, figure->label);
		for (size_t i = 0; i < simulation->run_count; i++) {
			wr_cli_figure_text(figure, simulation->scenario, &simulation->runs[i],
					   text);
			wr_lab_page_cell(page, "%s", text);
		}
	}
	wr_lab_page_table_end(page);
}

/* A table with a row for each run. */
static void write_rows(struct wr_lab_page *page, const struct wr_lab_simulation *simulation)
{
	static const char *const columns[] = {"run",        "#requests",        "#admitted",
					      "#beyond",    "#wrongly refused", "#calls per 1,000",
					      "#overshoot", "#bound",           "bound held"};
	char text[WR_FIGURE_TEXT], name[WR_SIMULATE_NAME];

	wr_lab_page_table(page, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < simulation->run_count; i++) {
		wr_cli_simulate_name(simulation, &simulation->runs[i], name);
		wr_lab_page_cell(page, "%s", name);
		for (const char *const *figure = wr_cli_simulate_short; *figure; figure++) {
			wr_cli_figure_text(wr_cli_figure_find(*figure), simulation->scenario,
					   &simulation->runs[i], text);
			wr_lab_page_cell(page, "%s", text);
		}
	}
	wr_lab_page_table_end(page);
}

/* Bars for each run: one for each of the named figures. */
static void plot_bars(const struct wr_lab_simulation *simulation, const char *title,
		      const char *const *figures, enum wr_lab_plot_axis axis,
		      struct drawing *drawing, struct wr_lab_page *page)
{
	char names[WR_SIMULATE_FEW][WR_SIMULATE_NAME];
	const char *positions[WR_SIMULATE_FEW];
	struct wr_lab_plot plot = {.title = title,
				   .y_axis = axis,
				   .series = drawing->series,
				   .names = positions,
				   .name_count = simulation->run_count};

	drawing->count = 0;
	for (size_t i = 0; i < simulation->run_count; i++) {
		wr_cli_simulate_name(simulation, &simulation->runs[i], names[i]);
		positions[i] = names[i];
	}
	for (; *figures; figures++) {
		const struct wr_cli_figure *figure = wr_cli_figure_find(*figures);
		const struct wr_lab_series *series = add_series(
			drawing, WR_LAB_BARS, WR_LAB_COLOUR_OTHER + (unsigned)drawing->count);

		snprintf(drawing->names[drawing->count - 1], WR_SIMULATE_NAME, "%s", figure->plot);
		for (size_t i = 0; i < simulation->run_count; i++) {
			const struct wr_lab_run *run = &simulation->runs[i];
			bool has = !figure->applies || figure->applies(run);
			double value = has ? figure->value(simulation->scenario, run) : NAN;

			add_point(drawing, series, (double)i,
				  figure->kind == WR_FIGURE_TIME ? value / 1e9 : value);
		}
	}
	plot.series_count = drawing->count;
	wr_lab_page_plot(page, &plot);
}

static void write_bars(struct wr_lab_page *page, const struct wr_lab_simulation *simulation,
		       struct drawing *drawing)
{
	static const char *const errors[] = {"beyond_percent", "wrongly_refused_percent", NULL};
	static const char *const overshoots[] = {"overshoot_percent", "bound_percent", NULL};
	static const char *const latencies[] = {"latency_mean_ns", "latency_p99_ns", NULL};
	static const char *const calls[] = {"redis_calls_per_1000", NULL};

	plot_bars(simulation, "Error, in percent of the requests", errors, WR_LAB_PERCENT, drawing,
		  page);
	plot_bars(simulation, "Largest overshoot and its bound, in percent of the limit",
		  overshoots, WR_LAB_PERCENT, drawing, page);
	plot_bars(simulation, "Added latency", latencies, WR_LAB_SECONDS, drawing, page);
	plot_bars(simulation, "Calls to Redis per 1,000 requests", calls, WR_LAB_NUMBERS, drawing,
		  page);
}

static void write_run(struct wr_lab_page *page, const struct wr_lab_simulation *simulation,
		      const struct wr_lab_run *run, struct drawing *drawing)
{
	char name[WR_SIMULATE_NAME], line[WR_SIMULATE_LINE];

	wr_cli_simulate_name(simulation, run, name);
	wr_lab_page_heading(page, name);
	wr_cli_simulate_bound(simulation->scenario, run, line);
	if (run->bound.exists && !run->bound.held)
		wr_lab_page_warning(page, "Documented bound: %s.", line);
	else
		wr_lab_page_text(page, "Documented bound: %s.", line);
	plot_run(simulation->scenario, run, drawing, emit_to_page, page);
	if (run->curves.has_known)
		plot_known(simulation->scenario, run, drawing, emit_to_page, page);
}

int wr_cli_simulate_page(const struct wr_lab_simulation *simulation, const char *path,
			 struct weir_error *error)
{
	struct wr_lab_page *page = wr_lab_page_open(path, simulation->scenario->title);
	struct drawing *drawing = calloc(1, sizeof *drawing);
	char line[WR_SIMULATE_LINE];
	bool few;

	if (!page || !drawing) {
		if (page)
			wr_lab_page_close(page);
		free(drawing);
		return wr_error_errno(error, WEIR_ESYS, "cannot write %s", path);
	}
	wr_cli_simulate_line(simulation->scenario, line);
	wr_lab_page_text(page, "%s.", line);
	write_notes(page, simulation);
	wr_lab_page_heading(page, simulation->run_count > 1 ? "All runs" : "Figures");
	few = simulation->run_count <= WR_SIMULATE_FEW;
	if (few)
		write_columns(page, simulation);
	else
		write_rows(page, simulation);
	if (is_sweep(simulation))
		plot_sweep(simulation, drawing, emit_to_page, page);
	else if (simulation->run_count > 1)
		plot_admitted(simulation, drawing, emit_to_page, page);
	if (few && simulation->run_count > 1)
		write_bars(page, simulation, drawing);
	for (size_t i = 0; few && i < simulation->run_count; i++)
		write_run(page, simulation, &simulation->runs[i], drawing);
	free(drawing);
	if (wr_lab_page_close(page) != 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot write %s", path);
	return 0;
}

/* ---- the picture ---- */

static void emit_to_file(void *context, const struct wr_lab_plot *plot)
{
	wr_lab_plot_write_file(plot, context);
}

int wr_cli_simulate_picture(const struct wr_lab_simulation *simulation, const char *path,
			    struct weir_error *error)
{
	struct drawing *drawing = calloc(1, sizeof *drawing);
	FILE *out = drawing ? fopen(path, "w") : NULL;

	if (!out) {
		free(drawing);
		return wr_error_errno(error, WEIR_ESYS, "cannot write %s", path);
	}
	if (is_sweep(simulation))
		plot_sweep(simulation, drawing, emit_to_file, out);
	else
		plot_admitted(simulation, drawing, emit_to_file, out);
	free(drawing);
	if (ferror(out) | fclose(out))
		return wr_error_errno(error, WEIR_ESYS, "cannot write %s", path);
	return 0;
}
