/* The parts of a plot; see lab/report/plot.c. */
#ifndef WR_LAB_REPORT_PLOT_DRAW_H
#define WR_LAB_REPORT_PLOT_DRAW_H

#include "lab/report/plot_scale.h"

/* A plot on its way to a file. Coordinates are in pixels, from the top left corner. */
struct wr_lab_canvas {
	const struct wr_lab_plot *plot;
	FILE *out;
	double width, height;
	double left, right, top, bottom; /* the area of the values */
	struct wr_lab_scale x, y;
	bool lying;      /* bars lie: x is the vertical scale, y the horizontal one */
	bool with_title; /* draw the title */
	bool has_values;
	double slot;   /* width of the bars at one x, in units of x; 0: no bars */
	unsigned bars; /* number of series with bars */
};

/* Writes a coordinate with up to one decimal. */
void wr_lab_draw_coordinate(FILE *out, double value);

/* Returns about how many pixels wide a text is. */
double wr_lab_draw_text_width(const char *text);

/* Writes a text. `anchor` is "start", "middle" or "end". Texts of more than `max` characters are
 * cut. `kind` is a class of the style, or "". */
void wr_lab_draw_text(FILE *out, double x, double y, const char *anchor, const char *kind,
		      const char *text, size_t max);

/* Draws the grid, the axes with their labels, the title and the legend. Sets the area of the values
 * and the coordinates of both scales. */
void wr_lab_draw_frame(struct wr_lab_canvas *canvas);

/* Returns the class of a series' colour: "c0" and so on. */
const char *wr_lab_draw_colour(unsigned colour);

/* Draws all series. */
void wr_lab_draw_series(const struct wr_lab_canvas *canvas);

/* Says whether the value at `i` can be drawn on both scales. */
bool wr_lab_draw_shows(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		       size_t i);

/* Returns how long the last of a series of steps is: as long as the step before it. */
double wr_lab_draw_last_step(const struct wr_lab_series *series);

#endif
