/* Draws the series of a plot; see lab/report/plot_draw.h. */
#include "lab/report/plot_draw.h"

#include <math.h>

#include "lab/report/markup.h"

#define RADIUS 3.0
#define SMALL_RADIUS 1.8
#define BAR_MAX 60.0 /* the widest bar */
#define LYING_MAX 24.0
#define LOG_BAR 8.0     /* half of the width of the bars at one x of a logarithmic axis */
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

static void put_steps(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		      struct run run)
{
	for (size_t i = run.from; i < run.to; i++) {
		double until = i + 1 < series->count ? series->x[i + 1]
						     : series->x[i] + wr_lab_draw_last_step(series);

		if (i == run.from)
			put_point(canvas->out, 'M', x_at(canvas, series, i),
				  y_at(canvas, series, i));
		else
			put_one(canvas->out, 'V', y_at(canvas, series, i));
		/* The next x can be beyond the axis if its value is not shown. */
		until = fmin(fmax(until, canvas->x.low), canvas->x.high);
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

/* Returns the coordinate of 0, or of the lowest value of a scale without 0. */
static double base_of(const struct wr_lab_canvas *canvas)
{
	bool has_zero = canvas->y.low <= 0 && canvas->y.high >= 0 && !canvas->y.log;

	return has_zero ? wr_lab_scale_at(&canvas->y, 0) : canvas->y.start;
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
			series->style == WR_LAB_DASHED ? "dash"
			: series->style == WR_LAB_AREA ? "edge"
						       : "line");
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
	wr_lab_plot_value(plot->y_axis, series->y[i], text);
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

/* Where a bar is: along the axis of x from `near` on, along that of the values from `base` to
 * `value`. */
struct bar {
	double near, thick, base, value;
};

/* `rank` is the number of the series among those with bars. The bars of all series take up to
 * four fifths of the slot of their x. */
static struct bar place_bar(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
			    unsigned rank, size_t i)
{
	double half = canvas->slot / 2, at = x_at(canvas, series, i);
	double from =
		canvas->x.log ? at - LOG_BAR : wr_lab_scale_at(&canvas->x, series->x[i] - half);
	double to = canvas->x.log ? at + LOG_BAR : wr_lab_scale_at(&canvas->x, series->x[i] + half);
	struct bar bar = {.base = base_of(canvas), .value = y_at(canvas, series, i)};

	bar.thick = fmin(fmax((to - from) * 0.8 / canvas->bars, 0.5),
			 canvas->lying ? LYING_MAX : BAR_MAX);
	bar.near = (from + to - bar.thick * canvas->bars) / 2 + bar.thick * rank;
	/* A value that is not 0 has at least a pixel. */
	if (series->y[i] != 0 && fabs(bar.value - bar.base) < 1)
		bar.value = bar.base + (canvas->lying == (series->y[i] > 0) ? 1 : -1);
	return bar;
}

/* Writes the value at the end of a bar that lies, or on top of a bar that is wide enough. */
static void put_bar_value(const struct wr_lab_canvas *canvas, struct bar bar, double value)
{
	double middle = bar.near + bar.thick / 2;
	char text[WR_LAB_TICK_TEXT];

	wr_lab_plot_value(canvas->plot->y_axis, value, text);
	if (canvas->lying)
		wr_lab_draw_text(canvas->out, fmax(bar.base, bar.value) + 6, middle + 4, "start",
				 "", text, WR_LAB_TICK_TEXT);
	else if (canvas->plot->names && wr_lab_draw_text_width(text) <= bar.thick)
		wr_lab_draw_text(canvas->out, middle, fmin(bar.base, bar.value) - 4, "middle", "",
				 text, WR_LAB_TICK_TEXT);
}

static void draw_bar(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		     unsigned rank, size_t i)
{
	struct bar bar = place_bar(canvas, series, rank, i);
	double length = fabs(bar.value - bar.base), start = fmin(bar.base, bar.value);

	if (canvas->lying)
		put_rect(canvas->out, start, bar.near, length, bar.thick);
	else
		put_rect(canvas->out, bar.near, start, bar.thick, length);
	if (series->count <= TITLES_MAX)
		put_value_title(canvas, series, i);
	fputs("</rect>\n", canvas->out);
	put_bar_value(canvas, bar, series->y[i]);
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

		fprintf(canvas->out, "<g class=\"series %s\">", wr_lab_draw_colour(series->colour));
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
