/* Draws the series of a plot; see lab/plot_draw.h. */
#include "lab/plot_draw.h"

#include <math.h>

#include "lab/markup.h"

#define RADIUS 3.0
#define SMALL_RADIUS 1.8
#define CROWDED 200u    /* from this number of points on, points are small */
#define TITLES_MAX 100u /* up to this number of bars and points, each has a text of its own */

/* A run of neighbouring values that can be drawn: from `from` to before `to`. */
struct run {
	size_t from, to;
};

/* Finds the next run from `at` on. Returns false if there is none. */
static bool next_run(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		     size_t at, struct run *run)
{
	while (at < series->count && !wr_lab_draw_shows(canvas, series, at))
		at++;
	run->from = run->to = at;
	while (run->to < series->count && wr_lab_draw_shows(canvas, series, run->to))
		run->to++;
	return run->from < run->to;
}

static double x_at(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series, size_t i)
{
	return wr_lab_scale_at(&canvas->x, series->x[i]);
}

static double y_at(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series, size_t i)
{
	return wr_lab_scale_at(&canvas->y, series->y[i]);
}

static void put_point(FILE *out, char command, double x, double y)
{
	fputc(command, out);
	wr_lab_draw_coordinate(out, x);
	fputc(' ', out);
	wr_lab_draw_coordinate(out, y);
}

static void put_one(FILE *out, char command, double value)
{
	fputc(command, out);
	wr_lab_draw_coordinate(out, value);
}

/* Writes a line through the values of a run. A point that differs from the one before it by less
 * than the resolution is left out. */
static void put_line(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		     struct run run)
{
	long last_x = 0, last_y = 0;

	for (size_t i = run.from; i < run.to; i++) {
		double x = x_at(canvas, series, i), y = y_at(canvas, series, i);
		long tenths_x = lround(x * 10), tenths_y = lround(y * 10);

		if (i > run.from && i + 1 < run.to && tenths_x == last_x && tenths_y == last_y)
			continue;
		put_point(canvas->out, i == run.from ? 'M' : 'L', x, y);
		last_x = tenths_x;
		last_y = tenths_y;
	}
}

/* The last value of the series holds for as long as the value before it. */
static void put_steps(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		      struct run run)
{
	for (size_t i = run.from; i < run.to; i++) {
		double until = i + 1 < series->count ? series->x[i + 1]
			       : i > 0               ? 2 * series->x[i] - series->x[i - 1]
						     : series->x[i] + 1;

		if (i == run.from)
			put_point(canvas->out, 'M', x_at(canvas, series, i),
				  y_at(canvas, series, i));
		else
			put_one(canvas->out, 'V', y_at(canvas, series, i));
		if (wr_lab_scale_shows(&canvas->x, until))
			put_one(canvas->out, 'H', wr_lab_scale_at(&canvas->x, until));
	}
}

static void put_circle(FILE *out, double x, double y, double radius, bool close)
{
	fputs("<circle cx=\"", out);
	wr_lab_draw_coordinate(out, x);
	fputs("\" cy=\"", out);
	wr_lab_draw_coordinate(out, y);
	fputs("\" r=\"", out);
	wr_lab_draw_coordinate(out, radius);
	fputs(close ? "\"/>\n" : "\">", out);
}

/* Returns the coordinate of 0, or of the lowest value of a logarithmic scale. */
static double base_of(const struct wr_lab_canvas *canvas)
{
	return canvas->y.log ? canvas->y.start : wr_lab_scale_at(&canvas->y, 0);
}

static void draw_lines(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series)
{
	FILE *out = canvas->out;
	struct run run = {0, 0};

	while (next_run(canvas, series, run.to, &run)) {
		if (series->style != WR_LAB_STEPS && run.to - run.from == 1) {
			put_circle(out, x_at(canvas, series, run.from),
				   y_at(canvas, series, run.from), RADIUS, true);
			continue;
		}
		if (series->style == WR_LAB_AREA) {
			fputs("<path class=\"area\" d=\"", out);
			put_line(canvas, series, run);
			put_one(out, 'V', base_of(canvas));
			put_one(out, 'H', x_at(canvas, series, run.from));
			fputs("Z\"/>\n", out);
		}
		fprintf(out, "<path class=\"%s\" d=\"",
			series->style == WR_LAB_DASHED ? "dash" : "line");
		if (series->style == WR_LAB_STEPS)
			put_steps(canvas, series, run);
		else
			put_line(canvas, series, run);
		fputs("\"/>\n", out);
	}
}

/* ---- points and bars ---- */

/* Writes the text of a value: "10.0.0.1: 1,234". */
static void put_value_title(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
			    size_t i)
{
	const struct wr_lab_plot *plot = canvas->plot;
	char text[WR_LAB_TICK_TEXT];

	fputs("<title>", canvas->out);
	if (plot->names && series->x[i] >= 0 && series->x[i] < (double)plot->name_count) {
		wr_lab_markup_text(canvas->out, plot->names[(size_t)series->x[i]]);
		fputs(": ", canvas->out);
	}
	wr_lab_plot_text(plot->y_axis, series->y[i], series->y[i], text);
	fprintf(canvas->out, "%s</title>", text);
}

static void draw_points(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series)
{
	double radius = series->count >= CROWDED ? SMALL_RADIUS : RADIUS;

	for (size_t i = 0; i < series->count; i++) {
		bool titled = series->count <= TITLES_MAX;

		if (!wr_lab_draw_shows(canvas, series, i))
			continue;
		put_circle(canvas->out, x_at(canvas, series, i), y_at(canvas, series, i), radius,
			   !titled);
		if (titled) {
			put_value_title(canvas, series, i);
			fputs("</circle>\n", canvas->out);
		}
	}
}

static void put_rect(FILE *out, double x, double y, double width, double height)
{
	fputs("<rect x=\"", out);
	wr_lab_draw_coordinate(out, x);
	fputs("\" y=\"", out);
	wr_lab_draw_coordinate(out, y);
	fputs("\" width=\"", out);
	wr_lab_draw_coordinate(out, width);
	fputs("\" height=\"", out);
	wr_lab_draw_coordinate(out, height);
	fputs("\">", out);
}

/* Draws the bar at `i`. `rank` is the number of the series among those with bars. Bars of all
 * series take four fifths of the slot of their x. */
static void draw_bar(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		     unsigned rank, size_t i)
{
	double left = series->x[i] - canvas->slot / 2, right = series->x[i] + canvas->slot / 2;
	double from =
		canvas->x.log ? x_at(canvas, series, i) - 8 : wr_lab_scale_at(&canvas->x, left);
	double to =
		canvas->x.log ? x_at(canvas, series, i) + 8 : wr_lab_scale_at(&canvas->x, right);
	double thick = (to - from) * 0.8 / canvas->bars,
	       near = from + (to - from) * 0.1 + thick * rank;
	double base = base_of(canvas), value = y_at(canvas, series, i);
	char text[WR_LAB_TICK_TEXT];

	/* A value that is not 0 has at least a pixel. */
	if (series->y[i] != 0 && fabs(value - base) < 1)
		value = base + (canvas->lying ? 1 : -1) * (series->y[i] < 0 ? -1 : 1);
	if (canvas->lying)
		put_rect(canvas->out, fmin(base, value), near, fabs(value - base), thick);
	else
		put_rect(canvas->out, near, fmin(base, value), fmax(thick, 0.5),
			 fabs(value - base));
	if (series->count <= TITLES_MAX)
		put_value_title(canvas, series, i);
	fputs("</rect>\n", canvas->out);
	if (canvas->lying) {
		wr_lab_plot_text(canvas->plot->y_axis, series->y[i], series->y[i], text);
		wr_lab_draw_text(canvas->out, fmax(base, value) + 6, near + thick / 2 + 4, "start",
				 "", text, WR_LAB_TICK_TEXT);
	}
}

static void draw_bars(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		      unsigned rank)
{
	for (size_t i = 0; i < series->count; i++)
		if (wr_lab_draw_shows(canvas, series, i))
			draw_bar(canvas, series, rank, i);
}

void wr_lab_draw_series(const struct wr_lab_canvas *canvas)
{
	unsigned rank = 0;

	for (size_t i = 0; i < canvas->plot->series_count; i++) {
		const struct wr_lab_series *series = &canvas->plot->series[i];

		fprintf(canvas->out, "<g class=\"%s\">", wr_lab_draw_colour(series->colour));
		if (series->name) {
			fputs("<title>", canvas->out);
			wr_lab_markup_text(canvas->out, series->name);
			fputs("</title>", canvas->out);
		}
		fputc('\n', canvas->out);
		if (series->style == WR_LAB_BARS)
			draw_bars(canvas, series, rank++);
		else if (series->style == WR_LAB_POINTS)
			draw_points(canvas, series);
		else
			draw_lines(canvas, series);
		fputs("</g>\n", canvas->out);
	}
}
