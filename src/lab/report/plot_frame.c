/* Draws the frame of a plot: grid, axes, labels, title and legend; see lab/report/plot_draw.h. */
#include "lab/report/plot_draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "lab/report/markup.h"

#define LETTER 6.8   /* width of an average letter, a little more than in the usual fonts */
#define ROW 20.0     /* height of a row of the legend */
#define MARGIN 18.0  /* at the right, and between the entries of the legend */
#define EDGE 2.0     /* where texts at the edge begin */
#define SWATCH 22.0  /* width of the sample before a name in the legend */
#define NAME_MAX 40u /* longest name that is shown, in characters */
#define LABEL_MAX 100u

/* ---- text ---- */

void wr_lab_draw_coordinate(FILE *out, double value)
{
	long tenths = lround(value * 10);

	fprintf(out, "%s%ld", tenths < 0 ? "-" : "", labs(tenths) / 10);
	if (tenths % 10 != 0)
		fprintf(out, ".%ld", labs(tenths) % 10);
}

/* Returns the length in bytes of the first `max` characters, and their number. */
static size_t measure(const char *text, size_t max, size_t *letters)
{
	size_t len = strlen(text), at = 0;

	for (*letters = 0; at < len && *letters < max; (*letters)++) {
		size_t step = wr_utf8_len(text + at, len - at);

		at += step ? step : 1;
	}
	return at;
}

double wr_lab_draw_text_width(const char *text)
{
	size_t letters;

	measure(text, NAME_MAX, &letters);
	return (double)letters * LETTER;
}

void wr_lab_draw_text(FILE *out, double x, double y, const char *anchor, const char *kind,
		      const char *text, size_t max)
{
	size_t letters, len = measure(text, max, &letters);

	fputs("<text x=\"", out);
	wr_lab_draw_coordinate(out, x);
	fputs("\" y=\"", out);
	wr_lab_draw_coordinate(out, y);
	fprintf(out, "\" text-anchor=\"%s\"", anchor);
	if (kind[0])
		fprintf(out, " class=\"%s\"", kind);
	fputc('>', out);
	if (text[len]) {
		len = measure(text, max - 1, &letters);
		wr_lab_markup(out, text, len);
		fputs("…", out);
	} else {
		wr_lab_markup(out, text, len);
	}
	fputs("</text>\n", out);
}

static void draw_rule(FILE *out, const char *kind, double x1, double y1, double x2, double y2)
{
	fprintf(out, "<path class=\"%s\" d=\"M", kind);
	wr_lab_draw_coordinate(out, x1);
	fputc(' ', out);
	wr_lab_draw_coordinate(out, y1);
	fputc(y1 == y2 ? 'H' : 'V', out);
	wr_lab_draw_coordinate(out, y1 == y2 ? x2 : y2);
	fputs("\"/>\n", out);
}

/* ---- legend ---- */

static void draw_swatch(FILE *out, const struct wr_lab_series *series, double x, double y)
{
	bool filled = series->style == WR_LAB_AREA || series->style == WR_LAB_BARS;

	fprintf(out, "<g class=\"%s\">", wr_lab_draw_colour(series->colour));
	if (filled) {
		fputs("<rect x=\"", out);
		wr_lab_draw_coordinate(out, x);
		fputs("\" y=\"", out);
		wr_lab_draw_coordinate(out, y - 9);
		fprintf(out, "\" width=\"16\" height=\"10\" rx=\"2\"%s/>",
			series->style == WR_LAB_AREA ? " style=\"fill-opacity:.35\"" : "");
	} else if (series->style == WR_LAB_POINTS) {
		fputs("<circle cx=\"", out);
		wr_lab_draw_coordinate(out, x + 8);
		fputs("\" cy=\"", out);
		wr_lab_draw_coordinate(out, y - 4);
		fputs("\" r=\"3\"/>", out);
	} else {
		draw_rule(out, series->style == WR_LAB_DASHED ? "dash" : "line", x, y - 4, x + 16,
			  y - 4);
	}
	fputs("</g>\n", out);
}

/* Draws the legend, or with `dry` only measures it. Returns the number of rows. */
static unsigned draw_legend(const struct wr_lab_canvas *canvas, double y, bool dry)
{
	double x = EDGE;
	unsigned rows = 0;

	for (size_t i = 0; i < canvas->plot->series_count; i++) {
		const struct wr_lab_series *series = &canvas->plot->series[i];
		double width;

		if (!series->name || !series->name[0])
			continue;
		width = SWATCH + wr_lab_draw_text_width(series->name);
		if (rows == 0 || x + width > canvas->width - MARGIN) {
			x = EDGE;
			rows++;
		}
		if (!dry) {
			draw_swatch(canvas->out, series, x, y + (rows - 1) * ROW);
			wr_lab_draw_text(canvas->out, x + SWATCH, y + (rows - 1) * ROW, "start",
					 "name", series->name, NAME_MAX);
		}
		x += width + MARGIN;
	}
	return rows;
}

/* ---- axes ---- */

/* The ticks of the horizontal and of the vertical axis. */
struct ticks {
	struct wr_lab_tick across[WR_LAB_TICKS_MAX], up[WR_LAB_TICKS_MAX];
	size_t across_count, up_count;
	bool dates; /* a tick of the horizontal axis has a second line */
};

static bool has_names(const struct wr_lab_canvas *canvas)
{
	return canvas->plot->names && canvas->plot->name_count > 0;
}

/* Finds the ticks of the values. Names take the place of ticks. */
static void find_ticks(struct wr_lab_canvas *canvas, struct ticks *ticks)
{
	struct wr_lab_scale *across = canvas->lying ? &canvas->y : &canvas->x;
	struct wr_lab_scale *up = canvas->lying ? &canvas->x : &canvas->y;
	unsigned across_most =
		(unsigned)fmax(canvas->width / (across->axis == WR_LAB_TIMES ? 90 : 80), 2);
	unsigned up_most = (unsigned)fmax(canvas->height / 55, 2);

	ticks->across_count = ticks->up_count = 0;
	ticks->dates = false;
	if (canvas->lying || !has_names(canvas)) {
		wr_lab_scale_fit(across, across_most, canvas->lying);
		ticks->across_count = wr_lab_scale_ticks(across, across_most, ticks->across);
	}
	if (!canvas->lying) {
		wr_lab_scale_fit(up, up_most, true);
		ticks->up_count = wr_lab_scale_ticks(up, up_most, ticks->up);
	}
	for (size_t i = 0; i < ticks->across_count; i++)
		ticks->dates |= ticks->across[i].date[0] != '\0';
}

static double left_margin(const struct wr_lab_canvas *canvas, const struct ticks *ticks)
{
	double widest = 0;

	for (size_t i = 0; i < ticks->up_count; i++)
		widest = fmax(widest, wr_lab_draw_text_width(ticks->up[i].text));
	if (canvas->lying)
		for (size_t i = 0; i < canvas->plot->name_count; i++)
			widest = fmax(widest, wr_lab_draw_text_width(canvas->plot->names[i]));
	return fmin(widest + 14, canvas->width / 2);
}

/* Returns the width of the longest value behind a bar that lies. */
static double widest_value(const struct wr_lab_canvas *canvas)
{
	double widest = 0;

	for (size_t i = 0; i < canvas->plot->series_count; i++) {
		const struct wr_lab_series *series = &canvas->plot->series[i];
		char text[WR_LAB_TICK_TEXT];

		for (size_t j = 0; j < series->count; j++) {
			if (!wr_lab_draw_shows(canvas, series, j))
				continue;
			wr_lab_plot_value(canvas->plot->y_axis, series->y[j], text);
			widest = fmax(widest, wr_lab_draw_text_width(text));
		}
	}
	return widest;
}

/* Returns the label of the horizontal axis, or NULL. */
static const char *across_label(const struct wr_lab_canvas *canvas)
{
	const struct wr_lab_plot *plot = canvas->plot;

	if (canvas->lying)
		return plot->y_label;
	return plot->x_label || plot->x_axis != WR_LAB_TIMES ? plot->x_label : "UTC";
}

/* Sets the area of the values. The legend and the label of the vertical axis are above it. */
static void place_area(struct wr_lab_canvas *canvas, const struct ticks *ticks)
{
	const struct wr_lab_plot *plot = canvas->plot;
	struct wr_lab_scale *across = canvas->lying ? &canvas->y : &canvas->x;
	struct wr_lab_scale *up = canvas->lying ? &canvas->x : &canvas->y;
	const char *up_label = canvas->lying ? plot->x_label : plot->y_label;

	canvas->left = left_margin(canvas, ticks);
	canvas->right = canvas->width - MARGIN - (canvas->lying ? widest_value(canvas) : 0);
	canvas->top = 14 + (canvas->with_title ? 26 : 0) + draw_legend(canvas, 0, true) * ROW +
		      (up_label ? 22 : 0);
	canvas->bottom =
		canvas->height - 28 - (ticks->dates ? 15 : 0) - (across_label(canvas) ? 20 : 0);
	if (canvas->bottom < canvas->top + 20)
		canvas->bottom = canvas->top + 20;
	across->start = canvas->left;
	across->end = canvas->right;
	up->start = canvas->lying ? canvas->top : canvas->bottom;
	up->end = canvas->lying ? canvas->bottom : canvas->top;
}

/* A text at the end of the axis would leave the picture if it were centred on its tick. */
static void draw_across_text(const struct wr_lab_canvas *canvas, double x, double y,
			     const char *text)
{
	double half = wr_lab_draw_text_width(text) / 2;
	double right = canvas->width - EDGE;

	if (x + half > right)
		wr_lab_draw_text(canvas->out, right, y, "end", "", text, NAME_MAX);
	else if (x - half < EDGE)
		wr_lab_draw_text(canvas->out, EDGE, y, "start", "", text, NAME_MAX);
	else
		wr_lab_draw_text(canvas->out, x, y, "middle", "", text, NAME_MAX);
}

static void draw_axes(const struct wr_lab_canvas *canvas, const struct ticks *ticks)
{
	const struct wr_lab_scale *across = canvas->lying ? &canvas->y : &canvas->x;
	FILE *out = canvas->out;

	for (size_t i = 0; i < ticks->up_count; i++) {
		double y = wr_lab_scale_at(&canvas->y, ticks->up[i].value);

		draw_rule(out, "grid", canvas->left, y, canvas->right, y);
		wr_lab_draw_text(out, canvas->left - 8, y + 4, "end", "", ticks->up[i].text,
				 NAME_MAX);
	}
	for (size_t i = 0; i < ticks->across_count; i++) {
		double x = wr_lab_scale_at(across, ticks->across[i].value);

		if (canvas->lying)
			draw_rule(out, "grid", x, canvas->top, x, canvas->bottom);
		else
			draw_rule(out, "axis", x, canvas->bottom, x, canvas->bottom + 5);
		draw_across_text(canvas, x, canvas->bottom + 19, ticks->across[i].text);
		if (ticks->across[i].date[0])
			draw_across_text(canvas, x, canvas->bottom + 34, ticks->across[i].date);
	}
	if (canvas->lying)
		draw_rule(out, "axis", canvas->left, canvas->top, canvas->left, canvas->bottom);
	else
		draw_rule(out, "axis", canvas->left, canvas->bottom, canvas->right, canvas->bottom);
}

static void draw_names(const struct wr_lab_canvas *canvas)
{
	for (size_t i = 0; i < canvas->plot->name_count; i++) {
		const char *name = canvas->plot->names[i];
		double at = wr_lab_scale_at(&canvas->x, (double)i);

		if (canvas->lying)
			wr_lab_draw_text(canvas->out, canvas->left - 8, at + 4, "end", "name", name,
					 (size_t)(canvas->left / LETTER) - 1);
		else
			draw_across_text(canvas, at, canvas->bottom + 19, name);
	}
}

static void draw_labels(const struct wr_lab_canvas *canvas, const struct ticks *ticks)
{
	const struct wr_lab_plot *plot = canvas->plot;
	const char *up = canvas->lying ? plot->x_label : plot->y_label;
	const char *across = across_label(canvas);
	double y = 18;

	if (canvas->with_title) {
		wr_lab_draw_text(canvas->out, EDGE, 22, "start", "title", plot->title, LABEL_MAX);
		y += 26;
	}
	y += draw_legend(canvas, y, false) * ROW;
	if (up)
		wr_lab_draw_text(canvas->out, EDGE, y + 2, "start", "", up, LABEL_MAX);
	if (across)
		wr_lab_draw_text(canvas->out, (canvas->left + canvas->right) / 2,
				 canvas->bottom + 39 + (ticks->dates ? 15 : 0), "middle", "",
				 across, LABEL_MAX);
}

void wr_lab_draw_frame(struct wr_lab_canvas *canvas)
{
	struct ticks ticks;

	if (!canvas->has_values) {
		if (canvas->with_title)
			wr_lab_draw_text(canvas->out, EDGE, 22, "start", "title",
					 canvas->plot->title, LABEL_MAX);
		wr_lab_draw_text(canvas->out, canvas->width / 2, canvas->height / 2, "middle", "",
				 "no data", NAME_MAX);
		return;
	}
	find_ticks(canvas, &ticks);
	place_area(canvas, &ticks);
	draw_axes(canvas, &ticks);
	if (has_names(canvas))
		draw_names(canvas);
	draw_labels(canvas, &ticks);
}
