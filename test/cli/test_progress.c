/* The line of the progress bar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/progress.h"

#define SECOND_NS 1000000000ull

static const char *narrow_line(uint64_t lines, uint64_t bytes, uint64_t all, uint64_t took_ns,
			       unsigned columns)
{
	static char text[256];
	struct wr_lab_log_totals totals = {.lines = lines, .bytes = bytes, .bytes_all = all};

	wr_cli_progress_text(&totals, took_ns, columns, false, text, sizeof text);
	return text;
}

static const char *line(uint64_t lines, uint64_t bytes, uint64_t all, uint64_t took_ns)
{
	return narrow_line(lines, bytes, all, took_ns, 79);
}

static void the_line_has_rate_and_time_left(void **state)
{
	(void)state;
	assert_string_equal(line(500000, 25, 100, 2 * SECOND_NS),
			    "######..................  25 %  500.0k lines  250.0k/s  6 s left");
	assert_string_equal(line(1000, 100, 100, SECOND_NS),
			    "######################## 100 %  1000 lines  1000/s  0 s left");
	assert_string_equal(line(10, 1, 1000, SECOND_NS),
			    "........................   0 %  10 lines  10/s  17 min left");
}

/* A file that grows while it is read has more bytes than its size was. */
static void more_bytes_than_known_are_all(void **state)
{
	(void)state;
	assert_string_equal(line(1000, 150, 100, SECOND_NS),
			    "######################## 100 %  1000 lines  1000/s  0 s left");
}

static void the_size_of_a_pipe_is_not_known(void **state)
{
	(void)state;
	assert_string_equal(line(500000, 25, 0, 2 * SECOND_NS), "500.0k lines  250.0k/s");
	assert_string_equal(line(0, 0, 0, 0), "0 lines  0/s");
}

/* The figures have 40 columns. */
static void a_narrow_terminal_has_a_shorter_bar(void **state)
{
	(void)state;
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 52),
			    "###.........  25 %  500.0k lines  250.0k/s  6 s left");
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 48),
			    "##......  25 %  500.0k lines  250.0k/s  6 s left");
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 47),
			    "  25 %  500.0k lines  250.0k/s  6 s left");
	/* without the rate 30 columns, without the count 16, without the time left 6 */
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 39),
			    "##.......  25 %  500.0k lines  6 s left");
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 30),
			    "  25 %  500.0k lines  6 s left");
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 29),
			    "###..........  25 %  6 s left");
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 12), "  25 %");
	assert_string_equal(narrow_line(500000, 25, 100, 2 * SECOND_NS, 5), "");
	assert_string_equal(narrow_line(500000, 25, 0, 2 * SECOND_NS, 12), "500.0k lines");
	assert_string_equal(narrow_line(500000, 25, 0, 2 * SECOND_NS, 11), "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_line_has_rate_and_time_left),
		cmocka_unit_test(more_bytes_than_known_are_all),
		cmocka_unit_test(the_size_of_a_pipe_is_not_known),
		cmocka_unit_test(a_narrow_terminal_has_a_shorter_bar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
