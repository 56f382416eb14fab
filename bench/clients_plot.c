/* Draws the counts of clients-load as SVG: clients-plot TITLE FILE.svg < COUNTS. Each point is the
 * mean of some seconds. */
#include <stdio.h>
#include <stdlib.h>

#include "lab/report/plot.h"

#define POINTS_MAX 3600u

static double x[POINTS_MAX], admitted[POINTS_MAX], refused[POINTS_MAX];

/* Reads the lines "second admitted refused", and adds `every` of them up to one point. Other lines are
 * skipped. Returns the number of points. */
static size_t read_counts(unsigned every)
{
	char line[128], *at;
	unsigned lines = 0;
	size_t points = 0;

	while (points < POINTS_MAX && fgets(line, sizeof line, stdin)) {
		double second = (double)strtoul(line, &at, 10);

		if (at == line)
			continue;
		admitted[points] += (double)strtoul(at, &at, 10) / every;
		refused[points] += (double)strtoul(at, &at, 10) / every;
		x[points] = second + 1 - every / 2.0;
		points += ++lines % every == 0;
	}
	return points;
}

int main(int argc, char **argv)
{
	size_t count = argc == 3 ? read_counts(2) : 0;
	double ends[] = {0, count ? x[count - 1] : 0}, limit[] = {100, 100};
	struct wr_lab_series series[] = {
		{"admitted", WR_LAB_LINE, WR_LAB_COLOUR_ADMITTED, x, admitted, count},
		{"refused", WR_LAB_LINE, WR_LAB_COLOUR_REFUSED, x, refused, count},
		{"limit", WR_LAB_DASHED, WR_LAB_COLOUR_LIMIT, ends, limit, 2},
	};
	struct wr_lab_plot plot = {.title = argc == 3 ? argv[1] : NULL,
				   .x_label = "time since the start",
				   .y_label = "requests per second",
				   .x_axis = WR_LAB_SECONDS,
				   .series = series,
				   .series_count = 3};
	FILE *out = argc == 3 ? fopen(argv[2], "we") : NULL;

	if (!out) {
		fprintf(stderr, "usage: clients-plot TITLE FILE.svg < COUNTS\n");
		return 1;
	}
	wr_lab_plot_write_file(&plot, out);
	return fclose(out) != 0;
}
