/* Sizes: reading, writing, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "base/str.h"

static const struct {
	const char *text;
	uint64_t bytes;
	const char *shown;
} good[] = {
	{"0", 0, "0"},
	{"1", 1, "1"},
	{"1000", 1000, "1000"},
	{"1024", 1024, "1K"},
	{"64M", 67108864, "64M"},
	{"64m", 67108864, "64M"},
	{"64MiB", 67108864, "64M"},
	{"64MB", 67108864, "64M"},
	{"100b", 100, "100"},
	{"1536K", 1572864, "1536K"},
	{"2048G", 2199023255552, "2T"},
	{"8388607T", 9223370937343148032u, "8388607T"},
};

static const char *const bad[] = {"",
				  "M",
				  "-1",
				  "+1",
				  "1.5G",
				  "64 M",
				  "64Mb/s",
				  "1X",
				  "1i",
				  "1ib",
				  "64MM",
				  "8388608T",
				  "18446744073709551616"};

static void values_are_read_and_written(void **state)
{
	char text[WR_SIZE_TEXT];
	uint64_t bytes;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(wr_size_parse(wr_str(good[i].text), &bytes), 0);
		assert_int_equal(bytes, good[i].bytes);
		assert_int_equal(wr_size_text(bytes, text), strlen(good[i].shown));
		assert_string_equal(text, good[i].shown);
	}
	(void)state;
}

static void other_texts_are_refused(void **state)
{
	uint64_t bytes;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (wr_size_parse(wr_str(bad[i]), &bytes) != -1)
			fail_msg("'%s' was taken for a size", bad[i]);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_read_and_written),
					   cmocka_unit_test(other_texts_are_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
