/* The axes of a plot: from values to coordinates, and round numbers for the ticks. */
#ifndef WR_LAB_REPORT_PLOT_SCALE_H
#define WR_LAB_REPORT_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/report/plot.h"

#define WR_LAB_TICKS_MAX 64u
#define WR_LAB_TICK_TEXT 32u

struct wr_lab_scale {
	enum wr_lab_plot_axis axis;
	bool log;
	double low, high;  /* the values at both ends; low < high after wr_lab_scale_fit() */
	double start, end; /* the coordinates of both ends */
};

struct wr_lab_tick {
	double value;
	char text[WR_LAB_TICK_TEXT];
	char date[WR_LAB_TICK_TEXT]; /* a second line, of time axes; "" if there is none */
};

/* Says whether the scale can show a value. A value is not shown if it is not finite or beyond
 * ±1e300, on a logarithmic scale if it is below 1e-300, and on a time axis if its year does not
 * have four digits. */
bool wr_lab_scale_shows(const struct wr_lab_scale *scale, double value);

/* Extends low and high so that they differ and, with `round`, so that both ends are ticks. `most`
 * is the largest number of ticks that are wanted. */
void wr_lab_scale_fit(struct wr_lab_scale *scale, unsigned most, bool round);

double wr_lab_scale_at(const struct wr_lab_scale *scale, double value);

/* Fills in the ticks between low and high. Returns their number. */
size_t wr_lab_scale_ticks(const struct wr_lab_scale *scale, unsigned most,
			  struct wr_lab_tick ticks[WR_LAB_TICKS_MAX]);

/* Writes a value in the unit of an axis, with as many decimals as a multiple of `step` needs:
 * "1,500", "2.5 M", "250 ms", "5 %", "16 MiB". Not for time axes. */
void wr_lab_plot_text(enum wr_lab_plot_axis axis, double value, double step,
		      char text[WR_LAB_TICK_TEXT]);

/* Writes a value in the unit of an axis, with all digits before the decimal point and at
 * least three digits: "1,234", "12.3", "0.0123 %". Not for time axes. */
void wr_lab_plot_value(enum wr_lab_plot_axis axis, double value, char text[WR_LAB_TICK_TEXT]);

#endif
