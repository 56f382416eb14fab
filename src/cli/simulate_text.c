/* Prints the report of weir simulate as text. A few runs stand side by side. Many runs, as in a
 * sweep, have a line each. */
#include <stdio.h>

#include "base/duration.h"
#include "base/str.h"
#include "cli/columns.h"
#include "cli/show.h"
#include "cli/simulate.h"
#include "rules/rules.h"
#include "stats/words.h"

static void print_side_by_side(const struct wr_lab_simulation *simulation, bool utf8)
{
	char names[WR_SIMULATE_FEW][WR_SIMULATE_NAME + 1], text[WR_FIGURE_TEXT];
	struct wr_cli_columns table;

	wr_cli_columns_begin(&table, utf8, "", NULL);
	for (size_t i = 0; i < simulation->run_count; i++) {
		names[i][0] = '#';
		wr_cli_simulate_name(simulation, &simulation->runs[i], names[i] + 1);
		wr_cli_columns_add(&table, names[i]);
	}
	for (const struct wr_cli_figure *figure = wr_cli_figures; figure->name; figure++) {
		if (!wr_cli_figure_shown(figure, simulation))
			continue;
		wr_cli_columns_text(&table, wr_str(figure->label));
		for (size_t i = 0; i < simulation->run_count; i++) {
			wr_cli_figure_text(figure, simulation->scenario, &simulation->runs[i],
					   text);
			wr_cli_columns_text(&table, wr_str(text));
		}
	}
	wr_cli_columns_print(&table, 0);
}

static void print_lines(const struct wr_lab_simulation *simulation, bool utf8)
{
	struct wr_cli_columns table;
	char text[WR_FIGURE_TEXT], interval[WR_DURATION_TEXT];

	wr_cli_columns_begin(&table, utf8, "MODE", "#NODES", "#SYNC", "#REQUESTS", "#ADMITTED",
			     "#BEYOND", "#WRONGLY REFUSED", "#CALLS/1,000", "#OVERSHOOT", "#BOUND",
			     "HELD", NULL);
	for (size_t i = 0; i < simulation->run_count; i++) {
		const struct wr_lab_run *run = &simulation->runs[i];

		wr_cli_columns_text(&table, wr_str(wr_cli_simulate_mode(run->mode)));
		wr_cli_columns_number(&table, run->nodes);
		wr_duration_text(run->sync_ns, interval);
		wr_cli_columns_text(&table, wr_str(run->mode == WR_EVENTUAL ? interval : "-"));
		for (const char *const *figure = wr_cli_simulate_short; *figure; figure++) {
			wr_cli_figure_text(wr_cli_figure_find(*figure), simulation->scenario, run,
					   text);
			wr_cli_columns_text(&table, wr_str(text));
		}
	}
	wr_cli_columns_print(&table, 0);
}

/* Prints what the logs of the traffic contained, and the warnings. */
static void print_notes(const struct wr_lab_simulation *simulation, bool utf8)
{
	const struct wr_lab_log_totals *log = &simulation->log;
	struct wr_cli_simulate_warnings warnings;
	char lines[WR_NUMBER_WORDS], unreadable[WR_NUMBER_WORDS];

	wr_cli_simulate_warn(simulation, &warnings);
	wr_number_words(log->lines, lines);
	wr_number_words(log->unreadable, unreadable);
	if (log->lines)
		printf("log       %s lines, %s unreadable\n", lines, unreadable);
	for (size_t i = 0; i < warnings.count; i++) {
		fputs("warning   ", stdout);
		wr_cli_show_print(wr_str(warnings.texts[i]), utf8);
		putchar('\n');
	}
	if (log->example_count)
		puts("unreadable lines, for example");
	for (uint32_t i = 0; i < log->example_count; i++)
		printf("  %s\n", log->examples[i]);
}

void wr_cli_simulate_print(const struct wr_lab_simulation *simulation)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	bool utf8 = wr_cli_show_setup();
	char line[WR_SIMULATE_LINE], name[WR_SIMULATE_NAME];

	wr_cli_show_print(wr_str(scenario->title), utf8);
	wr_cli_simulate_line(scenario, line);
	printf("\n%s\n", line);
	print_notes(simulation, utf8);
	putchar('\n');
	if (simulation->run_count > WR_SIMULATE_FEW) {
		print_lines(simulation, utf8);
		return;
	}
	print_side_by_side(simulation, utf8);
	printf("\nbound\n");
	for (size_t i = 0; i < simulation->run_count; i++) {
		wr_cli_simulate_name(simulation, &simulation->runs[i], name);
		wr_cli_simulate_bound(scenario, &simulation->runs[i], line);
		printf("  %s: %s\n", name, line);
	}
}
