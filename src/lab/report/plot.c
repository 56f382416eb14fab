/* Writes plots; see lab/report/plot.h. This file has the ranges of the axes, the colours and the entry
 * points; the frame is in lab/report/plot_frame.c, the series are in lab/report/plot_series.c. */
#include "lab/report/plot.h"

#include <math.h>
#include <string.h>

#include "lab/report/markup.h"
#include "lab/report/plot_draw.h"

#define WIDTH 720
#define HEIGHT 320
#define FILE_PAD 12 /* white space around a plot in a file of its own */
#define MORE_COLOURS 6u

/* Each colour has a contrast of at least 3 to the ground of its theme. */
static const struct {
	const char *name, *light, *dark;
} colours[] = {
	{"c0", "#6b7b89", "#9aa8b4"}, /* offered */
	{"c1", "#1c7ca8", "#4db2e0"}, /* admitted */
	{"c2", "#c8371f", "#ff7a63"}, /* refused */
	{"c3", "#16222c", "#e7edf2"}, /* limit */
	{"c4", "#7c3aed", "#b69cff"}, {"c5", "#0f7b4f", "#5fd6a0"}, {"c6", "#a15c00", "#ffc36b"},
	{"c7", "#b0257f", "#ff8fd0"}, {"c8", "#1d4fb8", "#8fb4ff"}, {"c9", "#5d6b12", "#cfdc5f"},
};
_Static_assert(sizeof(colours) / sizeof(colours[0]) == WR_LAB_COLOUR_OTHER + MORE_COLOURS,
	       "one colour for each meaning, and the further ones");

const char *wr_lab_draw_colour(unsigned colour)
{
	if (colour >= WR_LAB_COLOUR_OTHER)
		colour = WR_LAB_COLOUR_OTHER + (colour - WR_LAB_COLOUR_OTHER) % MORE_COLOURS;
	return colours[colour].name;
}

static void put_shapes(FILE *out)
{
	fputs(".plot text{font:12px system-ui,-apple-system,\"Segoe UI\",\"DejaVu "
	      "Sans\",sans-serif;"
	      "font-variant-numeric:tabular-nums}"
	      ".plot .title{font-size:15px;font-weight:600}"
	      ".plot path{fill:none;stroke:currentColor;stroke-width:1.5;stroke-linejoin:round}"
	      ".plot .dash{stroke-dasharray:6 4}"
	      ".plot .area{stroke:none;fill:currentColor;fill-opacity:.22}"
	      ".plot .edge{stroke-width:1;stroke-opacity:.6}"
	      ".plot circle,.plot rect{fill:currentColor}"
	      ".plot .grid{stroke-width:1}.plot .axis{stroke-width:1}\n",
	      out);
}

static void put_colours(FILE *out, bool dark)
{
	fprintf(out,
		".plot text{fill:%s}.plot .title,.plot .name{fill:%s}"
		".plot .grid{color:%s}.plot .axis{color:%s}",
		dark ? "#a3b1bd" : "#51606d", dark ? "#e7edf2" : "#16222c",
		dark ? "#2b3843" : "#e3e8ec", dark ? "#6b7b89" : "#8795a1");
	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		fprintf(out, ".plot .%s{color:%s}", colours[i].name,
			dark ? colours[i].dark : colours[i].light);
	fputc('\n', out);
}

void wr_lab_plot_style(FILE *out)
{
	put_shapes(out);
	put_colours(out, false);
	fputs("@media(prefers-color-scheme:dark){\n", out);
	put_colours(out, true);
	fputs("}\n", out);
}

/* ---- ranges ---- */

bool wr_lab_draw_shows(const struct wr_lab_canvas *canvas, const struct wr_lab_series *series,
		       size_t i)
{
	return wr_lab_scale_shows(&canvas->x, series->x[i]) &&
	       wr_lab_scale_shows(&canvas->y, series->y[i]);
}

/* Returns the smallest distance of neighbouring values, or `otherwise` if there is none. */
static double smallest_gap(const struct wr_lab_series *series, double otherwise)
{
	double gap = INFINITY;

	for (size_t i = 1; i < series->count; i++)
		if (series->x[i] > series->x[i - 1])
			gap = fmin(gap, series->x[i] - series->x[i - 1]);
	return isfinite(gap) ? gap : otherwise;
}

double wr_lab_draw_last_step(const struct wr_lab_series *series)
{
	size_t n = series->count;

	return n < 2 ? 1 : fmax(series->x[n - 1] - series->x[n - 2], 0);
}

static void include(struct wr_lab_scale *scale, double value)
{
	if (!wr_lab_scale_shows(scale, value))
		return;
	scale->low = fmin(scale->low, value);
	scale->high = fmax(scale->high, value);
}

static void include_series(struct wr_lab_canvas *canvas, const struct wr_lab_series *series)
{
	for (size_t i = 0; i < series->count; i++) {
		if (!wr_lab_draw_shows(canvas, series, i))
			continue;
		canvas->has_values = true;
		include(&canvas->x, series->x[i]);
		include(&canvas->y, series->y[i]);
		if (series->style == WR_LAB_STEPS && i + 1 == series->count)
			include(&canvas->x, series->x[i] + wr_lab_draw_last_step(series));
	}
	if (series->style == WR_LAB_BARS) {
		canvas->slot =
			fmin(canvas->slot > 0 ? canvas->slot : INFINITY, smallest_gap(series, 1));
		canvas->bars++;
	}
}

static void find_ranges(struct wr_lab_canvas *canvas)
{
	const struct wr_lab_plot *plot = canvas->plot;

	canvas->x = (struct wr_lab_scale){
		plot->x_axis, plot->log_x && !plot->names, INFINITY, -INFINITY, 0, 0};
	canvas->y = (struct wr_lab_scale){plot->y_axis, plot->log_y, INFINITY, -INFINITY, 0, 0};
	if (plot->x_axis == WR_LAB_TIMES)
		canvas->x.log = false;
	if (plot->y_axis == WR_LAB_TIMES)
		canvas->y.log = false;
	for (size_t i = 0; i < plot->series_count; i++)
		include_series(canvas, &plot->series[i]);
	if (plot->names)
		canvas->slot = 1;
	if (!canvas->has_values)
		return;
	if (!canvas->y.log && canvas->y.axis != WR_LAB_TIMES)
		include(&canvas->y, 0);
	if (plot->names) {
		canvas->x.low = -0.5;
		canvas->x.high = (double)plot->name_count - 0.5;
	} else if (canvas->bars > 0 && !canvas->x.log) {
		canvas->x.low -= canvas->slot / 2;
		canvas->x.high += canvas->slot / 2;
	}
}

/* ---- entry points ---- */

/* Bars lie if a name has no room below its bar. */
static bool should_lie(const struct wr_lab_canvas *canvas)
{
	const struct wr_lab_plot *plot = canvas->plot;
	double room = (canvas->width - 60) / (double)(plot->name_count ? plot->name_count : 1);

	if (!plot->names || canvas->bars != plot->series_count)
		return false;
	for (size_t i = 0; i < plot->name_count; i++)
		if (wr_lab_draw_text_width(plot->names[i]) > room)
			return true;
	return false;
}

static void put_opening(const struct wr_lab_canvas *canvas, bool file)
{
	const struct wr_lab_plot *plot = canvas->plot;
	const char *label = plot->title ? plot->title : plot->y_label ? plot->y_label : "plot";
	int pad = file ? FILE_PAD : 0;
	double width = canvas->width + 2 * pad, height = canvas->height + 2 * pad;

	fprintf(canvas->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
		"viewBox=\"%d %d %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" aria-label=\"",
		-pad, -pad, width, height, width, height);
	wr_lab_markup_text(canvas->out, label);
	fputs("\">\n", canvas->out);
	if (file) {
		fputs("<style>", canvas->out);
		put_shapes(canvas->out);
		put_colours(canvas->out, false);
		fprintf(canvas->out,
			"</style>\n<rect x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%.0f\" "
			"style=\"fill:#fff\"/>\n",
			-pad, -pad, width, height);
	}
}

static void write_plot(const struct wr_lab_plot *plot, FILE *out, bool file)
{
	struct wr_lab_canvas canvas = {.plot = plot, .out = out};

	canvas.width = plot->width ? plot->width : WIDTH;
	canvas.with_title = file && plot->title;
	find_ranges(&canvas);
	canvas.lying = should_lie(&canvas);
	canvas.height = plot->height   ? plot->height
			: canvas.lying ? (double)plot->name_count * (10 + 14.0 * canvas.bars) + 110
				       : HEIGHT;
	put_opening(&canvas, file);
	wr_lab_draw_frame(&canvas);
	if (canvas.has_values)
		wr_lab_draw_series(&canvas);
	fputs("</svg>\n", out);
}

void wr_lab_plot_write(const struct wr_lab_plot *plot, FILE *out)
{
	write_plot(plot, out, false);
}

void wr_lab_plot_write_file(const struct wr_lab_plot *plot, FILE *out)
{
	write_plot(plot, out, true);
}
