/* Reads lines and logs for the suites of logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "lab/log/log_test.h"

/* ---- one line ---- */

/* Copies a text into memory of exactly its length and the padding, so that AddressSanitizer finds
 * every access behind it. */
static char *padded(const char *text, size_t len)
{
	char *bytes = malloc(len + WR_LAB_PADDING);

	assert_non_null(bytes);
	memcpy(bytes, text, len);
	memset(bytes + len, '"', WR_LAB_PADDING); /* a reader must not take these for the line */
	return bytes;
}

const char *test_line_read(struct test_line *line, enum wr_lab_format format, const char *fields,
			   const char *head, const char *text)
{
	struct weir_error error = {.text = ""};
	char copy[4096];

	*line = (struct test_line){.parser = {.format = format}};
	assert_int_equal(wr_lab_fields_new(&line->parser.fields, fields, &error), 0);
	line->bytes = padded(text, strlen(text));
	wr_lab_slot_reset(&line->slot);
	if (head) {
		assert_true(strlen(head) < sizeof copy);
		assert_true(wr_lab_csv_start(&line->parser, wr_str(head), copy));
		line->parser.csv.skip = false;
	}
	return wr_lab_parse(&line->parser, line->bytes, strlen(text), &line->slot);
}

void test_line_free(struct test_line *line)
{
	wr_lab_fields_free(line->parser.fields);
	wr_lab_slot_free(&line->slot);
	free(line->bytes);
}

const struct wr_lab_record *test_line_good(struct test_line *line, enum wr_lab_format format,
					   const char *text)
{
	const char *reason = test_line_read(line, format, NULL, NULL, text);

	if (reason)
		fail_msg("%s: %s", reason, text);
	return &line->slot.record;
}

void assert_str(struct weir_str text, const char *expected)
{
	if (!wr_str_equal(text, wr_str(expected)))
		fail_msg("\"%.*s\" is not \"%s\"", (int)text.len, text.ptr ? text.ptr : "",
			 expected);
}

void assert_header(const struct wr_lab_record *record, const char *name, const char *expected)
{
	for (uint32_t i = 0; i < record->header_count; i++) {
		if (!wr_str_equal_nocase(record->headers[i].name, wr_str(name)))
			continue;
		if (expected)
			assert_str(record->headers[i].value, expected);
		else
			fail_msg("there is a header field %s", name);
		return;
	}
	if (expected)
		fail_msg("there is no header field %s", name);
}

/* ---- texts of logs ---- */

void test_text_add(struct test_text *text, const char *format, ...)
{
	va_list args;

	if (text->cap - text->len < 4096) {
		text->cap = 2 * text->cap + 8192;
		text->text = realloc(text->text, text->cap);
		assert_non_null(text->text);
	}
	va_start(args, format);
	text->len += (size_t)vsnprintf(text->text + text->len, 4096, format, args);
	va_end(args);
}

void test_text_clf(struct test_text *text, uint64_t s, unsigned client)
{
	unsigned from_s = (unsigned)(s - 1704067200);

	test_text_add(
		text,
		"192.0.2.%u - - [%02u/Jan/2024:%02u:%02u:%02u +0000] \"GET /%u HTTP/1.1\" 200 %u "
		"\"-\" \"agent\"\n",
		client, 1 + from_s / 86400, from_s / 3600 % 24, from_s / 60 % 60, from_s % 60,
		client, client);
}

size_t test_gzip(const char *text, size_t len, uint8_t *to, size_t cap)
{
	z_stream stream = {.next_in = (uint8_t *)(uintptr_t)text,
			   .avail_in = (uInt)len,
			   .next_out = to,
			   .avail_out = (uInt)cap};

	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return stream.total_out;
}

/* ---- files ---- */

char test_folder[64];

int test_folder_make(void **state)
{
	(void)state;
	snprintf(test_folder, sizeof test_folder, "/tmp/weir-log-XXXXXX");
	return mkdtemp(test_folder) ? 0 : -1;
}

int test_folder_remove(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -r %s", test_folder);
	// NOLINTNEXTLINE(cert-env33-c): the name is made by mkdtemp()
	return system(command);
}

const char *test_file(const char *name, const void *bytes, size_t len)
{
	static char paths[8][160];
	static unsigned next;
	char *path = paths[next++ % 8];
	FILE *file;

	snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	return path;
}

const char *test_text_file(const char *name, const char *text)
{
	return test_file(name, text, strlen(text));
}

/* ---- logs ---- */

static char *copy_text(char *to, struct weir_str *text)
{
	if (text->len)
		memcpy(to, text->ptr, text->len);
	text->ptr = to;
	return to + text->len;
}

/* Copies a record with its texts, which are valid only until the next record. */
static void copy_record(struct test_record *copy, const struct wr_lab_record *record)
{
	struct weir_str *texts[] = {&copy->record.client, &copy->record.method,
				    &copy->record.target, &copy->record.host, &copy->record.user};
	size_t len = record->client.len + record->method.len + record->target.len +
		     record->host.len + record->user.len + 1;
	char *at;

	copy->record = *record;
	for (uint32_t i = 0; i < record->header_count; i++)
		len += record->headers[i].name.len + record->headers[i].value.len;
	copy->memory = at = malloc(len);
	assert_non_null(copy->memory);
	for (size_t i = 0; i < 5; i++)
		at = copy_text(at, texts[i]);
	for (uint32_t i = 0; i < record->header_count; i++) {
		copy->headers[i] = record->headers[i];
		at = copy_text(at, &copy->headers[i].name);
		at = copy_text(at, &copy->headers[i].value);
	}
}

void test_log_read(struct test_log *log, const struct wr_lab_log_opts *opts)
{
	struct weir_error error = {.text = ""};
	const struct wr_lab_record *record;
	struct wr_lab_log *open;
	size_t cap = 0;

	*log = (struct test_log){.count = 0};
	if (wr_lab_log_open(opts, &open, &error) != 0)
		fail_msg("%s", error.text);
	while ((record = wr_lab_log_next(open)) != NULL) {
		if (log->count == cap) {
			cap = cap ? 2 * cap : 64;
			log->records = realloc(log->records, cap * sizeof *log->records);
			assert_non_null(log->records);
		}
		copy_record(&log->records[log->count++], record);
	}
	wr_lab_log_totals(open, &log->totals);
	wr_lab_log_close(open);
	for (size_t i = 0; i < log->count; i++)
		log->records[i].record.headers = log->records[i].headers;
}

void test_log_read_text(struct test_log *log, const char *text)
{
	const char *path = test_text_file("log", text);
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};

	test_log_read(log, &opts);
}

void test_log_read_paths(struct test_log *log, const char *const *paths, size_t count)
{
	struct wr_lab_log_opts opts = {.paths = paths, .path_count = count};

	test_log_read(log, &opts);
}

void test_log_free(struct test_log *log)
{
	for (size_t i = 0; i < log->count; i++)
		free(log->records[i].memory);
	free(log->records);
}

void assert_same_logs(const struct test_log *a, const struct test_log *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct wr_lab_record *left = &a->records[i].record;
		const struct wr_lab_record *right = &b->records[i].record;

		assert_int_equal(left->time_ns, right->time_ns);
		assert_true(wr_str_equal(left->client, right->client));
		assert_memory_equal(&left->address, &right->address, sizeof left->address);
		assert_true(wr_str_equal(left->method, right->method));
		assert_true(wr_str_equal(left->target, right->target));
		assert_int_equal(left->status, right->status);
		assert_int_equal(left->bytes, right->bytes);
		assert_int_equal(left->cost, right->cost);
	}
}
