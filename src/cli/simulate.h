/* The report of weir simulate: the figures of a run, and the functions that show a simulation as
 * text, as JSON, as a page and as a picture. */
#ifndef WR_CLI_SIMULATE_H
#define WR_CLI_SIMULATE_H

#include <jansson.h>

#include <weir/error.h>

#include "lab/simulate/simulate.h"

/* The kinds of figures decide how a figure is written. */
enum wr_cli_figure_kind {
	WR_FIGURE_COUNT,   /* a whole number */
	WR_FIGURE_DECIMAL, /* a number with one decimal */
	WR_FIGURE_PERCENT,
	WR_FIGURE_TIME, /* a duration in ns */
	WR_FIGURE_FLAG, /* yes or no */
};

/* A figure of a run. The rows are in simulate_figures.c, in the order in which they are shown. */
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order in which rows are written
struct wr_cli_figure {
	const char *name;  /* in JSON */
	const char *label; /* for people */
	enum wr_cli_figure_kind kind;
	double (*value)(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run);
	/* Returns whether the run has the figure. NULL: every run has it. */
	bool (*applies)(const struct wr_lab_run *run);
	bool optional;    /* not shown to people if it is 0 in all runs */
	const char *plot; /* name in the legend of a plot; NULL: not in a plot */
};

extern const struct wr_cli_figure wr_cli_figures[]; /* the last element has no name */

/* The names of the figures that are shown of each run if there are many runs. NULL ends the list. */
extern const char *const wr_cli_simulate_short[];
#define WR_SIMULATE_FEW 6u /* up to this many runs are shown side by side, with all figures */

/* Returns the figure with this name, which must exist. */
const struct wr_cli_figure *wr_cli_figure_find(const char *name);

#define WR_FIGURE_TEXT 48u

/* Writes a figure of a run: "1,234", "12.5 %", "1.2 ms", "yes". Writes "-" if the run does not have
 * the figure. */
void wr_cli_figure_text(const struct wr_cli_figure *figure, const struct wr_lab_scenario *scenario,
			const struct wr_lab_run *run, char text[WR_FIGURE_TEXT]);
/* Returns whether the figure is shown to people. */
bool wr_cli_figure_shown(const struct wr_cli_figure *figure,
			 const struct wr_lab_simulation *simulation);

const char *wr_cli_simulate_mode(uint8_t mode);
/* Writes what distinguishes a run from the others: "eventual", or in a sweep "eventual, 4 nodes,
 * 100 ms". */
#define WR_SIMULATE_NAME 64u
void wr_cli_simulate_name(const struct wr_lab_simulation *simulation, const struct wr_lab_run *run,
			  char text[WR_SIMULATE_NAME]);
/* Writes the limit, the fleet and the length of the runs in one line. */
#define WR_SIMULATE_LINE 320u
void wr_cli_simulate_line(const struct wr_lab_scenario *scenario, char text[WR_SIMULATE_LINE]);
/* Writes a sentence about the bound of a run. */
void wr_cli_simulate_bound(const struct wr_lab_scenario *scenario, const struct wr_lab_run *run,
			   char text[WR_SIMULATE_LINE]);

/* Sentences about faults, traffic and lines of logs that the simulation left out. */
#define WR_SIMULATE_WARNING 5120u /* room for 16 paths */
#define WR_SIMULATE_WARNINGS (6u + WR_LAB_TRAFFIC)
struct wr_cli_simulate_warnings {
	char texts[WR_SIMULATE_WARNINGS][WR_SIMULATE_WARNING];
	size_t count;
};
void wr_cli_simulate_warn(const struct wr_lab_simulation *simulation,
			  struct wr_cli_simulate_warnings *warnings);

void wr_cli_simulate_print(const struct wr_lab_simulation *simulation);
json_t *wr_cli_simulate_json(const struct wr_lab_simulation *simulation);

/* Writes an HTML page. Returns 0, or an error that names the file. */
int wr_cli_simulate_page(const struct wr_lab_simulation *simulation, const char *path,
			 struct weir_error *error);
/* Writes a picture. If the scenario has several sync intervals, the picture shows the overshoot by
 * the interval; otherwise it shows the admitted requests over time. Returns 0, or an error that
 * names the file. */
int wr_cli_simulate_picture(const struct wr_lab_simulation *simulation, const char *path,
			    struct weir_error *error);

#endif
