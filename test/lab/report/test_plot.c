/* Plots as SVG: exact coordinates, and values that cannot be drawn. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/report/plot.h"

/* Returns the plot as a text, which the next call frees. */
static char *drawn(const struct wr_lab_plot *plot, bool file)
{
	static char *text;
	size_t size;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &size);
	assert_non_null(out);
	if (file)
		wr_lab_plot_write_file(plot, out);
	else
		wr_lab_plot_write(plot, out);
	fclose(out);
	if (strstr(text, "nan"))
		fail_msg("%s", text);
	if (strstr(text, "inf"))
		fail_msg("%s", text);
	return text;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no %s in\n%s", part, text);
}

static void assert_lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("%s in\n%s", part, text);
}

static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;

	for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
		count++;
	return count;
}

/* The plot is 328 wide and 214 high. Its values are from x = 28 to 310 and from y = 14 to 186. */
static struct wr_lab_plot small_plot(const struct wr_lab_series *series, size_t count)
{
	return (struct wr_lab_plot){
		.series = series, .series_count = count, .width = 328, .height = 214};
}

static void draws_a_line_at_its_coordinates(void **state)
{
	const double x[] = {0, 1, 2}, y[] = {0, 5, 10};
	const struct wr_lab_series line = {NULL, WR_LAB_LINE, WR_LAB_COLOUR_ADMITTED, x, y, 3};
	struct wr_lab_plot plot = small_plot(&line, 1);
	const char *text = drawn(&plot, false);

	assert_has(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
			 "viewBox=\"0 0 328 214\" width=\"328\" height=\"214\"");
	assert_has(text, "<g class=\"series c1\">\n<path class=\"line\" "
			 "d=\"M27.6 186L168.8 100L310 14\"/>");
	assert_has(text, "<text x=\"19.6\" y=\"18\" text-anchor=\"end\">10</text>");
	assert_has(text, "<text x=\"19.6\" y=\"190\" text-anchor=\"end\">0</text>");
	assert_lacks(text, "<style>");
	(void)state;
}

static void draws_each_style(void **state)
{
	const double x[] = {0, 1, 2}, y[] = {0, 5, 10};
	struct wr_lab_series series = {"s", WR_LAB_DASHED, WR_LAB_COLOUR_LIMIT, x, y, 3};
	struct wr_lab_plot plot = small_plot(&series, 1);

	plot.height = 234; /* the legend has a row of 20 */
	assert_has(drawn(&plot, false),
		   "<g class=\"series c3\"><title>s</title>\n<path class=\"dash\" "
		   "d=\"M27.6 206L168.8 120L310 34\"/>");
	series.style = WR_LAB_AREA;
	assert_has(drawn(&plot, false),
		   "<path class=\"area\" d=\"M27.6 206L168.8 120L310 34V206H27.6Z\"/>");
	/* The last of three steps is as long as the others, so x ends at 3. */
	series.style = WR_LAB_STEPS;
	assert_has(drawn(&plot, false), "d=\"M27.6 206H121.7V120H215.9V34H310\"/>");
	series.style = WR_LAB_POINTS;
	assert_has(drawn(&plot, false),
		   "<circle cx=\"168.8\" cy=\"120\" r=\"3\"><title>5</title></circle>");
	/* Bars reach half a slot to both sides: x is from -0.5 to 2.5. A bar has up to 60 pixels. */
	series.style = WR_LAB_BARS;
	assert_has(drawn(&plot, false), "<rect x=\"138.8\" y=\"120\" width=\"60\" "
					"height=\"86\"><title>5</title></rect>");
	(void)state;
}

static void bars_stand_beside_each_other(void **state)
{
	const double x[] = {0, 1}, y[] = {4, 2}, z[] = {2, -2};
	const char *const names[] = {"a", "b"};
	const struct wr_lab_series bars[] = {{NULL, WR_LAB_BARS, 4, x, y, 2},
					     {NULL, WR_LAB_BARS, 5, x, z, 2}};
	struct wr_lab_plot plot = small_plot(bars, 2);
	const char *text;

	plot.names = names;
	plot.name_count = 2;
	text = drawn(&plot, false);
	assert_int_equal(count_of(text, "<rect"), 4);
	assert_has(text, "<title>a: 4</title>");
	assert_has(text, "<title>b: -2</title>");
	/* y is from -2 to 4, so that 0 is at 128.7 and 2 at 71.3. */
	assert_has(text, "y=\"71.3\" width=\"56.5\" height=\"57.3\"><title>a: 2</title>");
	assert_has(text, "y=\"128.7\" width=\"56.5\" height=\"57.3\"><title>b: -2</title>");
	(void)state;
}

static void bars_with_long_names_lie(void **state)
{
	const double x[] = {0, 1}, y[] = {100, 1};
	const char *const names[] = {"2001:db8:1234:5678:9abc:def0:1234:5678", "203.0.113.7"};
	const struct wr_lab_series bars = {"refused", WR_LAB_BARS, WR_LAB_COLOUR_REFUSED, x, y, 2};
	struct wr_lab_plot plot = {
		.series = &bars, .series_count = 1, .names = names, .name_count = 2, .width = 400};
	const char *text = drawn(&plot, false);

	assert_has(text, "viewBox=\"0 0 400 158\"");
	/* Names have up to half of the width. */
	assert_has(text, "class=\"name\">2001:db8:1234:5678:9abc:def…</text>");
	assert_has(text, "text-anchor=\"end\" class=\"name\">203.0.113.7</text>");
	assert_has(text, "><title>203.0.113.7: 1</title></rect>");
	/* The values begin at 200. They end at 361.6, so that "100" has room behind its bar. */
	assert_has(text, "<rect x=\"200\" y=\"46\" width=\"161.6\" height=\"24\">");
	assert_has(text, "<rect x=\"200\" y=\"94\" width=\"1.6\" height=\"24\">");
	(void)state;
}

static void says_that_there_is_no_data(void **state)
{
	const double x[] = {NAN, 1, 2}, y[] = {1, INFINITY, -INFINITY};
	const struct wr_lab_series line = {"s", WR_LAB_LINE, 0, x, y, 3};
	struct wr_lab_plot plot = small_plot(&line, 1);

	assert_has(drawn(&plot, false), ">no data</text>");
	plot.series_count = 0;
	assert_has(drawn(&plot, true), ">no data</text>");
	(void)state;
}

static void a_missing_value_interrupts_a_line(void **state)
{
	const double x[] = {0, 1, 2, 3, 4}, y[] = {10, 10, NAN, 10, 10};
	const struct wr_lab_series line = {NULL, WR_LAB_LINE, 0, x, y, 5};
	struct wr_lab_plot plot = small_plot(&line, 1);
	const char *text = drawn(&plot, false);

	assert_has(text, "<path class=\"line\" d=\"M27.6 14L98.2 14\"/>\n"
			 "<path class=\"line\" d=\"M239.4 14L310 14\"/>");
	(void)state;
}

static void a_single_value_is_a_point(void **state)
{
	const double x[] = {7}, y[] = {3};
	struct wr_lab_series series = {NULL, WR_LAB_LINE, 0, x, y, 1};
	struct wr_lab_plot plot = small_plot(&series, 1);

	assert_has(drawn(&plot, false), "<circle cx=\"165.4\" cy=\"14\" r=\"3\"/>");
	series.style = WR_LAB_BARS;
	assert_has(drawn(&plot, false), "<rect ");
	series.style = WR_LAB_STEPS;
	assert_has(drawn(&plot, false), "d=\"M20.8 14H310\"");
	(void)state;
}

static void logarithmic_axes_leave_out_zero(void **state)
{
	const double x[] = {0, 1, 10, 100}, y[] = {5, 0, 10, 1000};
	const struct wr_lab_series line = {NULL, WR_LAB_LINE, 0, x, y, 4};
	struct wr_lab_plot plot = small_plot(&line, 1);
	const char *text;

	plot.log_x = plot.log_y = true;
	text = drawn(&plot, false);
	assert_has(text, "<path class=\"line\" d=\"M48 186L310 14\"/>");
	(void)state;
}

static void assert_coordinate(const char *number)
{
	double value = strtod(number, NULL);

	if (!(value >= -12 && value <= 744))
		fail_msg("%.80s", number);
}

/* Checks an attribute such as cx="12.3". */
static void assert_inside(const char *attribute)
{
	static const char *const names[] = {"x=\"",  "y=\"",     "cx=\"",
					    "cy=\"", "width=\"", "height=\""};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(attribute, names[i], strlen(names[i])) == 0)
			assert_coordinate(attribute + strlen(names[i]));
}

/* Checks the coordinates of a path: M1 2L3 4. */
static void assert_path_inside(const char *path)
{
	if (path[0] != 'M' || !strchr("-0123456789", path[1]))
		return;
	for (; path[0] != '"'; path++)
		if (strchr("MLHV ", path[0]))
			assert_coordinate(path + 1);
}

/* No value gives a coordinate outside of the picture. */
static void hostile_values_stay_inside(void **state)
{
	static const double values[] = {0,        -1,     1,      1e300, -1e300,   1.7e308,
					-1.7e308, 5e-324, 1e-300, NAN,   INFINITY, 1e15,
					1e9,      2e11,   -7e10,  3e11};
	enum { COUNT = sizeof(values) / sizeof(values[0]) };
	double x[COUNT], y[COUNT];
	unsigned seed = 19;

	for (unsigned round = 0; round < 3000; round++) {
		struct wr_lab_series series = {"s", round % 6, round % 12, x, y, 1 + round % COUNT};
		struct wr_lab_plot plot = {.series = &series,
					   .series_count = 1,
					   .x_axis = (enum wr_lab_plot_axis)(round / 6 % 5),
					   .y_axis = (enum wr_lab_plot_axis)(round / 30 % 5),
					   .log_x = round / 150 % 2,
					   .log_y = round / 300 % 2};
		const char *text;

		for (size_t i = 0; i < COUNT; i++) {
			x[i] = values[(unsigned)rand_r(&seed) % COUNT];
			y[i] = values[(unsigned)rand_r(&seed) % COUNT];
		}
		text = drawn(&plot, round % 2);
		for (const char *at = text; (at = strpbrk(at, "\" ")) != NULL; at++)
			if (at[0] == ' ')
				assert_inside(at + 1);
			else
				assert_path_inside(at + 1);
	}
	(void)state;
}

static void texts_are_escaped(void **state)
{
	const double x[] = {0, 1}, y[] = {1, 2};
	const char *const names[] = {"<script>1</script>", "\x1b\"&"};
	const struct wr_lab_series bars = {"<i>'", WR_LAB_BARS, 0, x, y, 2};
	struct wr_lab_plot plot = {.title = "\"><script>",
				   .x_label = "<x>",
				   .y_label = "<y>",
				   .series = &bars,
				   .series_count = 1,
				   .names = names,
				   .name_count = 2};
	const char *text = drawn(&plot, true);

	assert_has(text, "aria-label=\"&quot;&gt;&lt;script&gt;\"");
	assert_has(text, ">&lt;x&gt;</text>");
	assert_has(text, ">&lt;y&gt;</text>");
	assert_has(text, "<title>&lt;i&gt;&#39;</title>");
	assert_has(text, "<title>&lt;script&gt;1&lt;/script&gt;: 1</title>");
	assert_has(text, "\xef\xbf\xbd&quot;&amp;: 2");
	assert_lacks(text, "<script");
	(void)state;
}

static void long_texts_are_cut_between_characters(void **state)
{
	const double x[] = {0, 1}, y[] = {1, 2};
	const struct wr_lab_series line = {
		"ééééééééééééééééééééééééééééééééééééééééé", WR_LAB_LINE, 0, x, y, 2}; /* 41 */
	struct wr_lab_plot plot = small_plot(&line, 1);

	assert_has(drawn(&plot, false), ">ééééééééééééééééééééééééééééééééééééééé…</text>");
	(void)state;
}

static void a_file_has_a_white_ground(void **state)
{
	const double x[] = {0, 1}, y[] = {1, 2};
	const struct wr_lab_series line = {"s", WR_LAB_LINE, 0, x, y, 2};
	struct wr_lab_plot plot = {.title = "T", .series = &line, .series_count = 1};
	const char *text = drawn(&plot, true);

	assert_has(text, "viewBox=\"-12 -12 744 344\" width=\"744\" height=\"344\"");
	assert_has(text, "<rect x=\"-12\" y=\"-12\" width=\"744\" height=\"344\" "
			 "style=\"fill:#fff\"/>");
	assert_has(text, "class=\"title\">T</text>");
	assert_lacks(text, "@media");
	assert_lacks(text, "url(");
	assert_lacks(drawn(&plot, false), "class=\"title\"");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws_a_line_at_its_coordinates),
		cmocka_unit_test(draws_each_style),
		cmocka_unit_test(bars_stand_beside_each_other),
		cmocka_unit_test(bars_with_long_names_lie),
		cmocka_unit_test(says_that_there_is_no_data),
		cmocka_unit_test(a_missing_value_interrupts_a_line),
		cmocka_unit_test(a_single_value_is_a_point),
		cmocka_unit_test(logarithmic_axes_leave_out_zero),
		cmocka_unit_test(hostile_values_stay_inside),
		cmocka_unit_test(texts_are_escaped),
		cmocka_unit_test(long_texts_are_cut_between_characters),
		cmocka_unit_test(a_file_has_a_white_ground),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
