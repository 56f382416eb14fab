/* Durations: reading, writing, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/duration.h"
#include "base/str.h"

static const struct {
	const char *text;
	uint64_t ns;
	const char *shown;
} good[] = {
	{"30s", 30000000000, "30s"},
	{"5m", 300000000000, "5m"},
	{"3h", 10800000000000, "3h"},
	{"1w", 604800000000000, "1w"},
	{"7d", 604800000000000, "1w"},
	{"1h30m", 5400000000000, "90m"},
	{"250ms", 250000000, "250ms"},
	{"1us", 1000, "1us"},
	{"1s1ns", 1000000001, "1000000001ns"},
	{"0s", 0, "0s"},
	{"15250w", 9223200000000000000, "15250w"},
};

static const char *const bad[] = {"",       "s",    "5",   "5 m",  "m5",
				  "5M",     "1.5h", "-5s", "5m1h", "5s5s",
				  "15251w", "5sec", "+5s", "5s ",  "99999999999999999999s"};

static void values_are_read_and_written(void **state)
{
	char text[WR_DURATION_TEXT];
	uint64_t ns;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(wr_duration_parse(wr_str(good[i].text), &ns), 0);
		assert_int_equal(ns, good[i].ns);
		assert_int_equal(wr_duration_text(ns, text), strlen(good[i].shown));
		assert_string_equal(text, good[i].shown);
	}
	(void)state;
}

static void other_texts_are_refused(void **state)
{
	uint64_t ns;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (wr_duration_parse(wr_str(bad[i]), &ns) != -1)
			fail_msg("'%s' was read as %llu ns", bad[i], (unsigned long long)ns);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_read_and_written),
		cmocka_unit_test(other_texts_are_refused),
	};

	return cmocka_run_group_tests_name("base_duration", tests, NULL, NULL);
}
