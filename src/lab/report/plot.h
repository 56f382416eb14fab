/* Draws plots as SVG. A plot uses no script, no font file and no network. The same plot gives the
 * same bytes on every machine. */
#ifndef WR_LAB_REPORT_PLOT_H
#define WR_LAB_REPORT_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum wr_lab_plot_style {
	WR_LAB_LINE,
	WR_LAB_DASHED, /* for bounds and comparisons */
	WR_LAB_AREA,   /* the area between 0 and the values */
	WR_LAB_STEPS,  /* each value holds until the next x */
	WR_LAB_POINTS,
	WR_LAB_BARS, /* bars beside each other; all series with bars of a plot have the same x */
};

/* One series of values. A value that is NaN or infinite is left out, and interrupts a line. */
struct wr_lab_series {
	const char *name; /* for the legend; NULL: not in the legend */
	enum wr_lab_plot_style style;
	/* Index of a colour, from 0. Series with the same meaning have the same colour in all
	 * plots: WR_LAB_COLOUR_ADMITTED and so on. */
	unsigned colour;
	const double *x, *y;
	size_t count;
};

enum wr_lab_plot_colour {
	WR_LAB_COLOUR_OFFERED,
	WR_LAB_COLOUR_ADMITTED,
	WR_LAB_COLOUR_REFUSED,
	WR_LAB_COLOUR_LIMIT,
	WR_LAB_COLOUR_OTHER, /* from here on: further series; the colours repeat after six */
};

/* How the numbers of an axis are written. */
enum wr_lab_plot_axis {
	WR_LAB_NUMBERS,
	WR_LAB_TIMES,   /* Unix time in seconds, written as dates or times of day in UTC */
	WR_LAB_SECONDS, /* durations in seconds: 100 ms, 2 s, 5 min */
	WR_LAB_PERCENT, /* 12.5 is written as 12.5 % */
	WR_LAB_BYTES,
};

struct wr_lab_plot {
	const char *title; /* NULL: no title */
	const char *x_label, *y_label;
	enum wr_lab_plot_axis x_axis, y_axis;
	/* Logarithmic; values of 0 and less are left out. Not for times and names. */
	bool log_x, log_y;
	const struct wr_lab_series *series;
	size_t series_count;
	/* Names of the positions 0, 1, … of the x axis. NULL: x values are numbers. If a name is
	 * too long for its position and all series are bars, the bars lie: the names are on the
	 * left and each bar ends with its value. */
	const char *const *names;
	size_t name_count;
	unsigned width, height; /* 0 means 720 by 320, or a height that suits the lying bars */
};

/* Writes the plot as one <svg> element, for a page with the style of wr_lab_plot_style(). The
 * title is only in an attribute: the page writes it as a caption. A plot without values says
 * "no data". */
void wr_lab_plot_write(const struct wr_lab_plot *plot, FILE *out);

/* Writes the plot as a file of its own, on a white ground and with its title. */
void wr_lab_plot_write_file(const struct wr_lab_plot *plot, FILE *out);

/* Writes the CSS rules of plots in a page, with colours for light and dark. */
void wr_lab_plot_style(FILE *out);

#endif
