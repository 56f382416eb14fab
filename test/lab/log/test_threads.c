/* The thread that reads a log, and the thread that uses the records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/log/log_test.h"

#define S 1000000000ull

static void count_calls(void *context, const struct wr_lab_log_totals *totals)
{
	uint64_t *seen = context;

	assert_true(totals->lines >= seen[1]);
	assert_true(totals->bytes <= totals->bytes_all);
	seen[0]++;
	seen[1] = totals->lines;
}

/* More records than the batches between the threads have room for. */
static void long_log_is_read_to_its_end(void **state)
{
	struct test_text text = {NULL, 0, 0};
	uint64_t seen[2] = {0, 0};
	const char *path;
	struct wr_lab_log_opts opts = {
		.paths = &path, .path_count = 1, .progress = count_calls, .context = seen};
	struct test_log log;

	for (unsigned i = 0; i < 100000; i++)
		test_text_clf(&text, TEST_START_S + i / 3, i % 250);
	path = test_text_file("log", text.text);
	test_log_read(&log, &opts);
	assert_int_equal(log.count, 100000);
	for (uint32_t i = 0; i < log.count; i++) {
		char target[16];

		snprintf(target, sizeof target, "/%u", i % 250);
		assert_str(log.records[i].record.target, target);
		assert_header(&log.records[i].record, "user-agent", "agent");
		assert_int_equal(log.records[i].record.bytes, i % 250);
		assert_int_equal(log.records[i].record.time_ns,
				 (TEST_START_S + i / 3) * S + (i % 3 * S) / (i < 99999 ? 3 : 1));
	}
	assert_in_range(seen[0], 98, 1000);
	assert_int_equal(seen[1], 100000);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static void log_can_be_closed_early(void **state)
{
	struct test_text text = {NULL, 0, 0};
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	struct wr_lab_log_totals totals;
	struct weir_error error;
	struct wr_lab_log *log;

	for (unsigned i = 0; i < 100000; i++)
		test_text_clf(&text, TEST_START_S + i / 3, i % 250);
	path = test_text_file("log", text.text);
	for (int records = 0; records < 5000; records = records * 10 + 1) {
		assert_int_equal(wr_lab_log_open(&opts, &log, &error), 0);
		for (int i = 0; i < records; i++)
			assert_non_null(wr_lab_log_next(log));
		wr_lab_log_totals(log, &totals);
		assert_int_equal(totals.records, records);
		wr_lab_log_close(log);
	}
	free(text.text);
	(void)state;
}

/* Lines so long that the blocks of text run out before the batches do. */
static void long_lines_use_up_the_blocks(void **state)
{
	enum { LINES = 600, BYTES = 200000 };
	char path[128], *agent = malloc(BYTES + 1);
	const char *paths[] = {path};
	struct test_log log;
	FILE *file;

	assert_non_null(agent);
	memset(agent, 'u', BYTES);
	agent[BYTES] = '\0';
	snprintf(path, sizeof path, "%s/large", test_folder);
	file = fopen(path, "wb");
	assert_non_null(file);
	for (unsigned i = 0; i < LINES; i++)
		fprintf(file, "{\"ts\":%llu.5,\"ip\":\"192.0.2.%u\",\"http_user_agent\":\"%s\"}\n",
			TEST_START_S + i / 2, i % 250, agent);
	assert_int_equal(fclose(file), 0);
	test_log_read_paths(&log, paths, 1);
	assert_int_equal(log.count, LINES);
	assert_int_equal(log.totals.late, 0);
	for (uint32_t i = 0; i < LINES; i++) {
		assert_int_equal(log.records[i].record.time_ns, (TEST_START_S + i / 2) * S + S / 2);
		assert_int_equal(log.records[i].headers[0].value.len, BYTES);
	}
	test_log_free(&log);
	assert_int_equal(remove(path), 0);
	free(agent);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_log_is_read_to_its_end),
		cmocka_unit_test(log_can_be_closed_early),
		cmocka_unit_test(long_lines_use_up_the_blocks),
	};

	return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
