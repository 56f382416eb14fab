/* Whole logs of hostile input: zero bytes, binary files, long lines, cut files, impossible times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/log/lines.h"
#include "lab/log/log_test.h"

#define S 1000000000ull

static void hostile_lines_are_counted(void **state)
{
	struct test_text text = {NULL, 0, 0};
	struct test_log log;
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};

	for (unsigned i = 0; i < 50; i++)
		test_text_clf(&text, TEST_START_S + i, i);
	test_text_add(&text,
		      "192.0.2.9 - - [01/Jan/10000:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n");
	test_text_add(&text,
		      "192.0.2.9 - - [31/Dec/1969:23:59:59 +0000] \"GET / HTTP/1.1\" 200 5\n");
	test_text_clf(&text, TEST_START_S + 50, 50);
	text.text[text.len - 20] = '\0'; /* in the middle of a readable line */
	test_text_add(&text, "\x01\x02\x7f\xff\xc3\n");
	test_text_clf(&text, TEST_START_S + 51, 51);
	path = test_file("log", text.text, text.len);
	test_log_read(&log, &opts);
	assert_int_equal(log.totals.lines, 55);
	assert_int_equal(log.totals.records, 51);
	assert_int_equal(log.totals.unreadable, 4);
	assert_int_equal(log.totals.example_count, 3);
	assert_non_null(
		strstr(log.totals.examples[0], "log:51: no time: 192.0.2.9 - - [01/Jan/10000"));
	assert_non_null(
		strstr(log.totals.examples[1], "log:52: no time: 192.0.2.9 - - [31/Dec/1969"));
	assert_non_null(strstr(log.totals.examples[2], "log:53: zero byte: 192.0.2.50 - - ["));
	assert_non_null(strstr(log.totals.examples[2], "\\x00"));
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static void binary_file_has_no_records(void **state)
{
	size_t len = 3000000;
	uint8_t *bytes = malloc(len);
	struct test_log log;
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	uint32_t seed = 3;

	assert_non_null(bytes);
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (uint8_t)(seed >> 24);
	}
	path = test_file("binary", bytes, len);
	test_log_read(&log, &opts);
	assert_int_equal(log.count, 0);
	assert_true(log.totals.unreadable > 10000);
	assert_int_equal(log.totals.unreadable, log.totals.lines);
	for (uint32_t i = 0; i < 3; i++)
		for (const char *c = log.totals.examples[i]; *c; c++)
			assert_true(*c == '\xe2' || *c == '\x80' || *c == '\xa6' ||
				    (*c >= ' ' && *c <= '~'));
	test_log_free(&log);
	free(bytes);
	(void)state;
}

/* Lines of 1 MB, and a long line of which one byte too many does not fit into a block. */
static void long_lines_are_bounded(void **state)
{
	size_t fits = WR_LAB_TEXT_BYTES - 1;
	struct test_text line = {NULL, 0, 0};
	char *bytes = malloc(4000000);
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	struct test_log log;
	size_t len = 0, head;

	assert_non_null(bytes);
	test_text_clf(&line, TEST_START_S, 1);
	for (int i = 0; i < 3; i++) {
		memcpy(bytes + len, line.text, line.len);
		len += line.len;
		memset(bytes + len, i ? 'x' : '\0', 1000000);
		len += 1000000;
		bytes[len++] = '\n';
	}
	/* the longest line that is readable, and one that is longer by a byte */
	for (int more = 0; more < 2; more++) {
		head = line.len - 8; /* without `"agent"` and the line end */
		memcpy(bytes + len, line.text, head);
		memset(bytes + len + head, 'u', fits - head + (size_t)more);
		bytes[len + head] = '"';
		len += fits + (size_t)more;
		bytes[len - 1] = '"';
		bytes[len++] = '\n';
	}
	path = test_file("log", bytes, len);
	test_log_read(&log, &opts);
	assert_int_equal(log.totals.lines, 8);
	assert_int_equal(log.totals.unreadable, 4);
	assert_int_equal(log.count, 4);
	assert_int_equal(log.records[3].headers[0].value.len, fits - head - 2);
	assert_non_null(strstr(log.totals.examples[0], "log:2: longer than 256 KiB: \\x00\\x00"));
	assert_non_null(strstr(log.totals.examples[1], "log:4: longer than 256 KiB: xxxx"));
	test_log_free(&log);
	free(bytes);
	free(line.text);
	(void)state;
}

static void cut_file_is_used_and_reported(void **state)
{
	struct test_text text = {NULL, 0, 0};
	uint8_t *packed = malloc(1000000);
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	struct test_log log;
	size_t len;

	assert_non_null(packed);
	for (unsigned i = 0; i < 50000; i++)
		test_text_clf(&text, TEST_START_S + i, i * 7919 % 251);
	len = test_gzip(text.text, text.len, packed, 1000000);
	path = test_file("cut.gz", packed, len / 2);
	test_log_read(&log, &opts);
	assert_true(log.count > 20000 && log.count < 30000);
	assert_true(log.totals.unreadable <= 1); /* the line at the cut */
	assert_int_equal(log.totals.damaged, 1);
	assert_non_null(strstr(log.totals.damage, "/cut.gz: the file is cut off"));
	for (uint32_t i = 0; i < log.count; i++)
		assert_int_equal(log.records[i].record.time_ns, (TEST_START_S + i) * S);
	test_log_free(&log);
	free(packed);
	free(text.text);
	(void)state;
}

/* Writes `to` over the line ends of a text. */
static void set_line_ends(struct test_text *text, char to)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->text[i] == '\n')
			text->text[i] = to;
}

/* The files are shorter and longer than the bytes from which the format is recognised. */
static void carriage_returns_end_lines(void **state)
{
	static const unsigned counts[] = {7, 9000};

	for (size_t i = 0; i < 2; i++) {
		struct test_text text = {NULL, 0, 0};
		const char *path;
		struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
		struct test_log log;

		for (unsigned n = 0; n < counts[i]; n++)
			test_text_clf(&text, TEST_START_S + n, n % 250);
		set_line_ends(&text, '\r');
		path = test_file("log", text.text, text.len);
		test_log_read(&log, &opts);
		assert_int_equal(log.totals.lines, counts[i]);
		assert_int_equal(log.totals.unreadable, 0);
		assert_int_equal(log.count, counts[i]);
		for (uint32_t n = 0; n < log.count; n++)
			assert_int_equal(log.records[n].record.bytes, n % 250);
		test_log_free(&log);
		free(text.text);
	}
	(void)state;
}

/* Two files that were joined: the lines of one end with \r, those of the other with \n. */
static void carriage_return_in_a_line_is_unreadable(void **state)
{
	struct test_text text = {NULL, 0, 0};
	struct test_log log;

	for (unsigned i = 0; i < 3; i++)
		test_text_clf(&text, TEST_START_S + i, i);
	set_line_ends(&text, '\r');
	for (unsigned i = 3; i < 10; i++)
		test_text_clf(&text, TEST_START_S + i, i);
	text.text[text.len - 1] = '\r';
	test_text_add(&text, "\r\n"); /* more than one \r at the end of a line */
	test_log_read_text(&log, text.text);
	assert_int_equal(log.totals.lines, 7);
	assert_int_equal(log.totals.unreadable, 1);
	assert_int_equal(log.count, 6);
	assert_non_null(
		strstr(log.totals.examples[0], "log:1: carriage return in the line: 192.0.2.0"));
	test_log_free(&log);
	free(text.text);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_lines_are_counted),
		cmocka_unit_test(binary_file_has_no_records),
		cmocka_unit_test(long_lines_are_bounded),
		cmocka_unit_test(cut_file_is_used_and_reported),
		cmocka_unit_test(carriage_returns_end_lines),
		cmocka_unit_test(carriage_return_in_a_line_is_unreadable),
	};

	return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
