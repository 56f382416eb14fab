/* Tests how text, bars and numbers are formatted for a terminal. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "cli/show.h"

static const char *shown(struct weir_str text, size_t columns, bool utf8, size_t *used)
{
	static char out[512];

	*used = wr_cli_show_text(text, columns, utf8, out, sizeof out);
	return out;
}

static void test_text(void **state)
{
	static const struct {
		struct weir_str text;
		size_t columns;
		const char *utf8, *ascii;
		size_t used, used_ascii;
	} cases[] = {
		{{"plain", 5}, 10, "plain", "plain", 5, 5},
		{{"exactly10!", 10}, 10, "exactly10!", "exactly10!", 10, 10},
		{{"eleven chars", 12}, 10, "eleven ch…", "eleven ch~", 10, 10},
		{{"\x1b[2J", 4}, 10, "\\x1b[2J", "\\x1b[2J", 7, 7},
		{{"\x1b\x1b\x1b\x1b", 4}, 10, "\\x1b\\x1b…", "\\x1b\\x1b~", 9, 9},
		{{"a\\b", 3}, 10, "a\\\\b", "a\\\\b", 4, 4},
		{{"\x00\x7f\n", 3}, 12, "\\x00\\x7f\\x0a", "\\x00\\x7f\\x0a", 12, 12},
		{{"日本", 6}, 20, "日本", "\\u{65e5}\\u{672c}", 4, 16},
		{{"日本語", 9}, 5, "日本…", "~", 5, 1},
		{{"\xe2\x80\xae", 3},
		 10,
		 "\\u{202e}",
		 "\\u{202e}",
		 8,
		 8}, /* a mark for text from right to left */
		{{"e\xcc\x81", 3}, 10, "e\\u{301}", "e\\u{301}", 8, 8}, /* a combining accent */
		{{"\xc2\x9b", 2}, 10, "\\u{9b}", "\\u{9b}", 6, 6}, /* the control character CSI */
		{{"\xff\xc3", 2}, 10, "\\xff\\xc3", "\\xff\\xc3", 8, 8}, /* not UTF-8 */
		{{"\xef\xbf\xbe", 3},
		 10,
		 "\\u{fffe}",
		 "\\u{fffe}",
		 8,
		 8}, /* not a valid character */
		{{"", 0}, 10, "", "", 0, 0},
		{{"x", 1}, 0, "", "", 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t used;

		assert_string_equal(shown(cases[i].text, cases[i].columns, true, &used),
				    cases[i].utf8);
		assert_int_equal(used, cases[i].used);
		assert_string_equal(shown(cases[i].text, cases[i].columns, false, &used),
				    cases[i].ascii);
		assert_int_equal(used, cases[i].used_ascii);
	}
}

/* Ten thousand random bytes stay within the columns and within the buffer. */
static void test_long(void **state)
{
	static char text[10000];
	char out[4 * 30 + 1];

	(void)state;
	for (int seed = 0; seed < 256; seed++) {
		size_t used;

		for (size_t i = 0; i < sizeof text; i++)
			text[i] = (char)(i * (size_t)(seed * 2 + 1) + (size_t)seed);
		used = wr_cli_show_text((struct weir_str){text, sizeof text}, 30, true, out,
					sizeof out);
		assert_true(used <= 30 && strlen(out) < sizeof out);
		for (const char *p = out; *p; p++)
			assert_true((unsigned char)*p >= ' ' && *p != 0x7f);
	}
}

static void test_bars(void **state)
{
	static const uint64_t rising[] = {0, 1, 2, 3, 4, 5, 6, 7},
			      part[] = {UINT64_MAX, UINT64_MAX, 0, 100}, none[] = {0, 0, 0, 0},
			      sums[] = {1, 1, 2, 2, 4, 4, UINT64_MAX, 8};
	char out[64];

	(void)state;
	wr_cli_show_bars(rising, 8, 8, true, out, sizeof out);
	assert_string_equal(out, "▁▂▃▄▅▆▇█");
	wr_cli_show_bars(rising, 8, 8, false, out, sizeof out);
	assert_string_equal(out, "_.:-=+*#");
	wr_cli_show_bars(part, 4, 4, true, out, sizeof out);
	assert_string_equal(out, "  ▁█");
	wr_cli_show_bars(none, 4, 4, true, out, sizeof out);
	assert_string_equal(out, "▁▁▁▁");
	wr_cli_show_bars(sums, 8, 4, true, out, sizeof out); /* the bars have the sums 2 4 8 8 */
	assert_string_equal(out, "▃▅██");
}

static void test_rates(void **state)
{
	static const struct {
		uint64_t milli;
		const char *text;
	} cases[] = {{0, "0"},
		     {1, "0.0"},
		     {400, "0.4"},
		     {9999, "9.9"},
		     {10000, "10"},
		     {9999999, "9999"},
		     {10000000, "10.0k"},
		     {999999000, "999.9k"},
		     {1000000000, "1.0M"},
		     {1234567890123, "1.2G"},
		     {UINT64_MAX, "18446.7T"}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[WR_SHOW_RATE];

		wr_cli_show_rate(cases[i].milli, text);
		assert_string_equal(text, cases[i].text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_bars),
		cmocka_unit_test(test_rates),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
