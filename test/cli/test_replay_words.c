/* Texts of the result of weir replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "cli/replay.h"

#define SECOND_NS 1000000000ull

static void waits_are_rounded_up(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "0 ms"},
		{1, "1 ms"},
		{250 * 1000000, "250 ms"},
		{SECOND_NS, "1 s"},
		{39 * SECOND_NS + 1, "40 s"},
		{120 * SECOND_NS, "120 s"},
		{121 * SECOND_NS, "3 min"},
		{7200 * SECOND_NS, "120 min"},
		{7201 * SECOND_NS, "3 h"},
		{172801 * SECOND_NS, "3 days"},
	};
	char text[WR_REPLAY_WORDS];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		wr_cli_replay_wait(cases[i].ns, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void the_longest_wait_of_a_limit(void **state)
{
	struct wr_lab_replay_limit limit = {0};
	char text[WR_REPLAY_WORDS];

	(void)state;
	wr_cli_replay_longest(&limit, text);
	assert_string_equal(text, "-");
	limit.refused = limit.never = 2;
	wr_cli_replay_longest(&limit, text);
	assert_string_equal(text, "never");
	limit.refused = 3;
	limit.longest_wait_ns = 40 * SECOND_NS;
	wr_cli_replay_longest(&limit, text);
	assert_string_equal(text, "40 s");
}

static void percentages_keep_small_parts(void **state)
{
	static const struct {
		uint64_t part, whole;
		const char *text;
	} cases[] = {
		{0, 0, "0 %"},
		{0, 7, "0 %"},
		{7, 7, "100 %"},
		{1, 2, "50.0 %"},
		{999, 1000, "99.9 %"},
		{3, 100000, "0.0030 %"},
		{30, 100000, "0.030 %"},
		{702, 100000, "0.702 %"},
		{1, 10000000, "< 0.0001 %"},
	};
	char text[WR_REPLAY_WORDS];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		wr_cli_replay_percent(cases[i].part, cases[i].whole, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void times_are_in_utc(void **state)
{
	char text[WR_REPLAY_WORDS];

	(void)state;
	wr_cli_replay_time(1772375405 * SECOND_NS + 999, text);
	assert_string_equal(text, "2026-03-01 14:30:05");
	wr_cli_replay_time(0, text);
	assert_string_equal(text, "1970-01-01 00:00:00");
}

static void estimates_are_marked(void **state)
{
	char text[WR_REPLAY_WORDS];

	(void)state;
	wr_cli_replay_estimate(1234567, true, text);
	assert_string_equal(text, "1,234,567");
	wr_cli_replay_estimate(1234567, false, text);
	assert_string_equal(text, "about 1,234,567");
}

static const char *key_text(const char *bytes, size_t len, bool cut)
{
	static char text[WR_REPLAY_KEY];
	struct wr_lab_top_key key = {.text_len = (uint8_t)len, .cut = cut};

	memcpy(key.text, bytes, len);
	wr_cli_replay_key(&key, text);
	return text;
}

static void keys_are_values(void **state)
{
	(void)state;
	assert_string_equal(key_text("192.0.2.7", 9, false), "192.0.2.7");
	assert_string_equal(key_text("a\x1f/b", 4, false), "a | /b");
	assert_string_equal(key_text("", 0, false), "(all requests)");
	assert_string_equal(key_text("abc", 3, true), "abc...");
	assert_string_equal(key_text("a\0b", 3, false), "a?b");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_rounded_up),
		cmocka_unit_test(the_longest_wait_of_a_limit),
		cmocka_unit_test(percentages_keep_small_parts),
		cmocka_unit_test(times_are_in_utc),
		cmocka_unit_test(estimates_are_marked),
		cmocka_unit_test(keys_are_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
