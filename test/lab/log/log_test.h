/* Shared by the suites of logs: reads a line, or a whole log from files that a test writes. */
#ifndef TEST_LAB_LOG_TEST_H
#define TEST_LAB_LOG_TEST_H

#include <stddef.h>
#include <stdint.h>

#include "lab/log/log.h"
#include "lab/log/format.h"

/* ---- one line ---- */

struct test_line {
	struct wr_lab_parser parser;
	struct wr_lab_slot slot;
	char *bytes;
};

/* Reads a line with the reader of a format. Returns NULL, or why the line is unreadable. For CSV,
 * `head` is the header line; otherwise it is NULL. The caller calls test_line_free(). */
const char *test_line_read(struct test_line *line, enum wr_lab_format format, const char *fields,
			   const char *head, const char *text);
void test_line_free(struct test_line *line);

/* Returns the record of the line that was read last. Fails the test if the line is unreadable. */
const struct wr_lab_record *test_line_good(struct test_line *line, enum wr_lab_format format,
					   const char *text);

void assert_str(struct weir_str text, const char *expected);

/* Asserts the value of a header field; NULL: the record has no such field. */
void assert_header(const struct wr_lab_record *record, const char *name, const char *expected);

/* ---- texts of logs ---- */

#define TEST_START_S 1704164645ull /* 2024-01-02T03:04:05Z */

/* A text that grows. All zero is empty. The caller frees `text`. */
struct test_text {
	char *text;
	size_t len, cap;
};

/* Appends up to 4,095 bytes. */
void test_text_add(struct test_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Appends a line of the format combined, of a time in January 2024. The client is
 * 192.0.2.`client`, the target /`client`, and the length `client`. */
void test_text_clf(struct test_text *text, uint64_t s, unsigned client);

/* Compresses a text. Returns the number of bytes. */
size_t test_gzip(const char *text, size_t len, uint8_t *to, size_t cap);

/* ---- a log ---- */

/* A copy of a record. The texts are in `memory`. */
struct test_record {
	struct wr_lab_record record;
	struct weir_header headers[WR_LAB_HEADERS_MAX];
	char *memory;
};

struct test_log {
	struct test_record *records;
	size_t count;
	struct wr_lab_log_totals totals;
};

/* A folder for the files of a test. */
extern char test_folder[64];
int test_folder_make(void **state);
int test_folder_remove(void **state);

/* Writes a file into the folder, and returns its path, which is valid until the next call but
 * seven. */
const char *test_file(const char *name, const void *bytes, size_t len);
const char *test_text_file(const char *name, const char *text);

/* Reads a log to its end. */
void test_log_read(struct test_log *log, const struct wr_lab_log_opts *opts);
void test_log_read_text(struct test_log *log, const char *text);
void test_log_read_paths(struct test_log *log, const char *const *paths, size_t count);
void test_log_free(struct test_log *log);

/* Asserts that two logs have the same records. */
void assert_same_logs(const struct test_log *a, const struct test_log *b);

#endif
