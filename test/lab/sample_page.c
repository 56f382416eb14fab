/* Writes a page with every element of lab/report/page.h, every style of lab/report/plot.h, and texts of an
 * attacker.
 *
 *   build/test/lab/lab_sample_page page.html http://127.0.0.1:8080
 *
 * The texts refer to the given address in every way that would make a browser open it, if the texts
 * were not escaped. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/report/page.h"

#define COUNT 200
#define START_S 1767225600.0 /* 2026-01-01 00:00 UTC */

static double x[COUNT], offered[COUNT], admitted[COUNT], refused[COUNT];

static void fill_in(void)
{
	for (int i = 0; i < COUNT; i++) {
		x[i] = START_S + i * 60;
		offered[i] = 50 + 40 * sin(i / 15.0);
		admitted[i] = fmin(offered[i], 60);
		refused[i] = offered[i] - admitted[i];
	}
}

static void put_times(struct wr_lab_page *page)
{
	const double ends[] = {x[0], x[COUNT - 1]}, limit[] = {60, 60};
	const struct wr_lab_series series[] = {
		{"offered", WR_LAB_AREA, WR_LAB_COLOUR_OFFERED, x, offered, COUNT},
		{"admitted", WR_LAB_STEPS, WR_LAB_COLOUR_ADMITTED, x, admitted, COUNT},
		{"refused", WR_LAB_LINE, WR_LAB_COLOUR_REFUSED, x, refused, COUNT},
		{"limit", WR_LAB_DASHED, WR_LAB_COLOUR_LIMIT, ends, limit, 2},
	};

	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = "Requests over time",
						     .x_axis = WR_LAB_TIMES,
						     .y_label = "requests per second",
						     .series = series,
						     .series_count = 4});
}

static void put_clients(struct wr_lab_page *page, const char *const *texts, size_t count)
{
	static const double at[] = {0, 1, 2, 3, 4, 5, 6, 7},
			    values[] = {900, 400, 90, 80, 70, 20, 2, 1};
	const struct wr_lab_series bars = {"refused", WR_LAB_BARS, WR_LAB_COLOUR_REFUSED,
					   at,        values,      count};

	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = "Refusals per client",
						     .y_label = "refused requests",
						     .series = &bars,
						     .series_count = 1,
						     .names = texts,
						     .name_count = count});
}

static void put_points(struct wr_lab_page *page)
{
	static const double at[] = {0.01, 0.1, 1, 10}, values[] = {0.1, 0.5, 3, 40};
	const struct wr_lab_series points = {"overshoot", WR_LAB_POINTS, WR_LAB_COLOUR_OTHER,
					     at,          values,        4};

	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = "Overshoot",
						     .x_axis = WR_LAB_SECONDS,
						     .y_axis = WR_LAB_PERCENT,
						     .log_x = true,
						     .log_y = true,
						     .series = &points,
						     .series_count = 1});
}

static void put_table(struct wr_lab_page *page, const char *const *texts, size_t count)
{
	static const char *const columns[] = {"client", "#refused"};

	wr_lab_page_table(page, columns, 2);
	for (size_t i = 0; i < count; i++) {
		wr_lab_page_cell(page, "%s", texts[i]);
		wr_lab_page_cell(page, "%zu", i);
	}
	wr_lab_page_table_end(page);
}

int main(int argc, char **argv)
{
	static const char *const attacks[] = {
		"<img src=\"%s/img\">",
		"<script src='%s/script'></script><script>document.title = 'attacked'</script>",
		"</style><style>@import '%s/import';body{background:url(%s/style)}</style>",
		"\"><iframe src=%s/frame></iframe>",
		"</title></svg></pre><link rel=stylesheet href=%s/link>",
		"<meta http-equiv=refresh content='0;url=%s/refresh'>",
		"\xff\x01<svg onload=\"fetch('%s/load')\">",
		"<base href=%s/><object data=o></object>",
	};
	enum { ATTACKS = sizeof(attacks) / sizeof(attacks[0]) };
	static char texts[ATTACKS][400];
	const char *list[ATTACKS];
	struct wr_lab_page *page;

	if (argc != 3) {
		fprintf(stderr, "usage: lab_sample_page PAGE.html ADDRESS\n");
		return 2;
	}
	for (size_t i = 0; i < ATTACKS; i++) {
		const char *part = attacks[i], *mark;

		list[i] = texts[i];
		while ((mark = strstr(part, "%s")) != NULL) {
			strncat(texts[i], part, (size_t)(mark - part));
			strncat(texts[i], argv[2], 100);
			part = mark + 2;
		}
		strncat(texts[i], part, 100);
	}
	fill_in();
	page = wr_lab_page_open(argv[1], "A sample & its \"title\"");
	if (!page) {
		perror(argv[1]);
		return 1;
	}
	wr_lab_page_figure(page, "requests", "%d", 12345);
	wr_lab_page_figure(page, "refused", "%s", list[0]);
	wr_lab_page_warning(page, "6 %% of the lines could not be read: %s", list[1]);
	wr_lab_page_heading(page, list[2]);
	put_times(page);
	wr_lab_page_heading(page, "Clients");
	wr_lab_page_subheading(page, list[3]);
	put_clients(page, list, ATTACKS);
	put_table(page, list, ATTACKS);
	wr_lab_page_text(page, "%s", list[4]);
	wr_lab_page_code(page, list[5], strlen(list[5]));
	put_points(page);
	if (wr_lab_page_close(page) < 0) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
