/* Whole logs: files and directories, formats, order, totals and hostile input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "lab/log_lines.h"
#include "log_test.h"

#define S 1000000000ull
#define START_S 1704164645ull /* 2024-01-02T03:04:05Z */

/* A text that grows. */
struct growing {
	char *text;
	size_t len, cap;
};

static void grow(struct growing *growing, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void grow(struct growing *growing, const char *format, ...)
{
	va_list args;

	if (growing->cap - growing->len < 4096) {
		growing->cap = 2 * growing->cap + 8192;
		growing->text = realloc(growing->text, growing->cap);
		assert_non_null(growing->text);
	}
	va_start(args, format);
	growing->len += (size_t)vsnprintf(growing->text + growing->len, 4096, format, args);
	va_end(args);
}

static void read_paths(struct test_log *log, const char *const *paths, size_t count)
{
	struct wr_lab_log_opts opts = {.paths = paths, .path_count = count};

	test_log_read(log, &opts);
}

/* A line of a day in January 2024, with the client 192.0.2.`client`. */
static void grow_clf(struct growing *growing, uint64_t s, unsigned client)
{
	uint64_t day_s = (s - 1704067200) % 86400;

	grow(growing,
	     "192.0.2.%u - - [%02u/Jan/2024:%02u:%02u:%02u +0000] \"GET /%u HTTP/1.1\" 200 %u "
	     "\"-\" "
	     "\"agent\"\n",
	     client, 1 + (unsigned)((s - 1704067200) / 86400), (unsigned)(day_s / 3600),
	     (unsigned)(day_s / 60 % 60), (unsigned)(day_s % 60), client, client);
}

/* ---- files ---- */

static void log_is_read_in_order(void **state)
{
	struct growing text = {NULL, 0, 0};
	struct test_log log;

	grow_clf(&text, START_S, 1);
	grow_clf(&text, START_S + 2, 2);
	grow_clf(&text, START_S + 1, 3);
	grow(&text, "\n\r\nno log line\n");
	grow_clf(&text, START_S + 2, 4);
	test_log_read_text(&log, text.text);
	assert_int_equal(log.count, 4);
	assert_str(log.records[0].record.client, "192.0.2.1");
	assert_int_equal(log.records[0].record.time_ns, START_S * S);
	assert_str(log.records[1].record.client, "192.0.2.3");
	assert_str(log.records[2].record.client, "192.0.2.2");
	assert_int_equal(log.records[2].record.time_ns, (START_S + 2) * S);
	assert_str(log.records[3].record.client, "192.0.2.4");
	assert_int_equal(log.records[3].record.time_ns, (START_S + 2) * S + S / 2);
	assert_header(&log.records[3].record, "user-agent", "agent");

	assert_int_equal(log.totals.lines, 5);
	assert_int_equal(log.totals.records, 4);
	assert_int_equal(log.totals.unreadable, 1);
	assert_int_equal(log.totals.reordered, 1);
	assert_int_equal(log.totals.late, 0);
	assert_int_equal(log.totals.bytes, text.len);
	assert_int_equal(log.totals.bytes_all, text.len);
	assert_int_equal(log.totals.first_ns, START_S * S);
	assert_int_equal(log.totals.last_ns, (START_S + 2) * S + S / 2);
	assert_int_equal(log.totals.files, 1);
	assert_int_equal(log.totals.damaged, 0);
	assert_int_equal(log.totals.example_count, 1);
	assert_non_null(strstr(log.totals.examples[0], "/log:6: no time: no log line"));
	test_log_free(&log);
	free(text.text);
	(void)state;
}

/* Twenty lines 100 s apart, then two lines of an hour before, then three lines that continue.
 * At any other time the two lines would be part of a burst. */
static void late_lines_are_left_out(void **state)
{
	struct growing text = {NULL, 0, 0};
	struct test_log log;

	for (unsigned i = 0; i < 20; i++)
		grow_clf(&text, START_S + 3600 + 100 * i, 1);
	grow_clf(&text, START_S, 2);
	grow_clf(&text, START_S + 1, 2);
	for (unsigned i = 20; i < 23; i++)
		grow_clf(&text, START_S + 3600 + 100 * i, 1);
	test_log_read_text(&log, text.text);
	assert_int_equal(log.count, 23);
	for (unsigned i = 0; i < 23; i++) {
		assert_str(log.records[i].record.client, "192.0.2.1");
		assert_int_equal(log.records[i].record.time_ns, (START_S + 3600 + 100 * i) * S);
	}
	assert_int_equal(log.totals.lines, 25);
	assert_int_equal(log.totals.records, 23);
	assert_int_equal(log.totals.late, 2);
	assert_int_equal(log.totals.first_ns, (START_S + 3600) * S);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static void empty_file_has_no_records(void **state)
{
	struct test_log log;

	test_log_read_text(&log, "");
	assert_int_equal(log.totals.lines, 0);
	assert_int_equal(log.count, 0);
	test_log_free(&log);
	(void)state;
}

static void last_line_may_lack_its_end(void **state)
{
	struct growing text = {NULL, 0, 0};
	struct test_log log;

	grow_clf(&text, START_S, 1);
	text.text[text.len - 1] = '\0';
	test_log_read_text(&log, text.text);
	assert_int_equal(log.count, 1);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

/* Files are read in the order of their first times, whatever their formats and names are. */
static void files_are_ordered_by_time(void **state)
{
	static const char json[] = "{\"ts\":1704174645.5,\"client_ip\":\"192.0.2.2\"}\n";
	struct growing late = {NULL, 0, 0}, early = {NULL, 0, 0};
	struct test_log log;
	const char *paths[3];

	grow_clf(&late, START_S + 50000, 3);
	grow_clf(&early, START_S, 1);
	paths[0] = test_text_file("a", late.text);
	paths[1] = test_text_file("b", json);
	paths[2] = test_text_file("c", early.text);
	read_paths(&log, paths, 3);
	assert_int_equal(log.count, 3);
	assert_str(log.records[0].record.client, "192.0.2.1");
	assert_str(log.records[1].record.client, "192.0.2.2");
	assert_int_equal(log.records[1].record.time_ns, 1704174645500000000);
	assert_str(log.records[2].record.client, "192.0.2.3");
	assert_int_equal(log.totals.files, 3);
	assert_int_equal(log.totals.late, 0);
	assert_int_equal(log.totals.bytes_all, late.len + early.len + sizeof json - 1);
	test_log_free(&log);
	free(late.text);
	free(early.text);
	(void)state;
}

static size_t gzip(const char *text, size_t len, uint8_t *to, size_t cap)
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

/* A folder as logrotate makes it, with a hidden file and a folder in it. */
static void directory_stands_for_its_files(void **state)
{
	struct growing text = {NULL, 0, 0};
	const char *paths[1];
	char folder[80], path[160];
	struct test_log log;
	uint8_t packed[1024];

	snprintf(folder, sizeof folder, "%s/rotated", test_folder);
	snprintf(path, sizeof path, "%s/rotated/archive", test_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	grow_clf(&text, START_S + 2, 3);
	test_text_file("rotated/access.log", text.text);
	text.len = 0;
	grow_clf(&text, START_S + 1, 2);
	test_text_file("rotated/access.log.1", text.text);
	text.len = 0;
	grow_clf(&text, START_S, 1);
	test_file("rotated/access.log.2.gz", packed,
		  gzip(text.text, text.len, packed, sizeof packed));
	test_text_file("rotated/.swp", "x\n");
	paths[0] = folder;
	read_paths(&log, paths, 1);
	assert_int_equal(log.count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(log.records[i].record.bytes, i + 1);
		assert_int_equal(log.records[i].record.time_ns, (START_S + i) * S);
	}
	assert_int_equal(log.totals.files, 3);
	assert_int_equal(log.totals.unreadable, 0);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static void errors_name_the_file(void **state)
{
	struct wr_lab_log_opts opts = {.path_count = 1};
	const char *path = "/nonexistent/a.log";
	struct weir_error error;
	struct wr_lab_log *log;
	char folder[80], expected[160];

	opts.paths = &path;
	assert_int_equal(wr_lab_log_open(&opts, &log, &error), WEIR_ESYS);
	assert_string_equal(error.text,
			    "cannot read /nonexistent/a.log: No such file or directory");
	snprintf(folder, sizeof folder, "%s/empty", test_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	path = folder;
	assert_int_equal(wr_lab_log_open(&opts, &log, &error), WEIR_ENOENT);
	snprintf(expected, sizeof expected, "there is no file in the directory %s", folder);
	assert_string_equal(error.text, expected);
	path = test_text_file("log", "x\n");
	opts.fields = "when=x";
	assert_int_equal(wr_lab_log_open(&opts, &log, &error), WEIR_EINVAL);
	opts.fields = NULL;
	opts.window_ns = 604801 * S;
	assert_int_equal(wr_lab_log_open(&opts, &log, &error), WEIR_EINVAL);
	assert_string_equal(error.text,
			    "the window of a log is longer than a week: sort the log first");
	(void)state;
}

/* Standard input is a compressed file here. */
static void standard_input_is_read(void **state)
{
	struct growing text = {NULL, 0, 0};
	const char *paths[] = {"-"};
	int before = dup(STDIN_FILENO);
	struct test_log log;
	uint8_t packed[4096];

	for (unsigned i = 0; i < 100; i++)
		grow_clf(&text, START_S + i, i);
	for (int packs = 0; packs < 2; packs++) {
		size_t len = gzip(text.text, text.len, packed, sizeof packed);
		const char *path = packs ? test_file("stdin", packed, len)
					 : test_text_file("stdin", text.text);

		assert_non_null(freopen(path, "rb", stdin));
		read_paths(&log, paths, 1);
		assert_int_equal(log.count, 100);
		assert_int_equal(log.totals.bytes_all, 0);
		assert_int_equal(log.totals.bytes, packs ? len : text.len);
		test_log_free(&log);
	}
	assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
	close(before);
	free(text.text);
	(void)state;
}

/* A pipe cannot be read twice, so that its first bytes must not be lost. */
static void pipe_is_read(void **state)
{
	struct growing text = {NULL, 0, 0};
	const char *paths[1];
	struct test_log log;
	char path[64];
	int ends[2];

	for (unsigned i = 0; i < 100; i++)
		grow_clf(&text, START_S + i, i);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], text.text, text.len), text.len);
	close(ends[1]);
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
	paths[0] = path;
	read_paths(&log, paths, 1);
	assert_int_equal(log.count, 100);
	assert_int_equal(log.totals.bytes_all, 0);
	test_log_free(&log);
	close(ends[0]);
	free(text.text);
	(void)state;
}

/* ---- formats ---- */

static const struct {
	const char *text;
	uint64_t ns;
} formats[] = {
	{"192.0.2.1 - - [02/Jan/2024:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 5\n", START_S *S},
	{"192.0.2.1 - - [02/Jan/2024:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 5 \"r\" \"u\"\n",
	 START_S *S},
	{"v.example:80 192.0.2.1 - - [02/Jan/2024:04:04:05 +0100] \"GET /a HTTP/1.1\" 200 5\n",
	 START_S *S},
	{"[2024-01-02T03:04:05.000Z] \"GET /a HTTP/1.1\" 200 - 0 5 3 2 \"192.0.2.1\" \"u\" \"i\" "
	 "\"h\" \"10.0.0.1:80\"\n",
	 START_S *S},
	{"{\"time\":\"2024-01-02T03:04:05Z\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET /a "
	 "HTTP/1.1\",\"status\":200,\"bytes\":5}\n",
	 START_S *S},
	{"{\"ts\":1704164645,\"request\":{\"remote_ip\":\"192.0.2.1\",\"method\":\"GET\",\"uri\":"
	 "\"/a\"},\"status\":200,\"size\":5}\n",
	 START_S *S},
	{"time,ip,method,path,status,bytes\n2024-01-02 03:04:05,192.0.2.1,GET,/a,200,5\n",
	 START_S *S},
	{"v.example,443,192.0.2.1,-,-,[02/Jan/2024:03:04:05 +0000],\"GET\",\"/a\",200,5\n",
	 START_S *S},
};

#define FORMATS (sizeof formats / sizeof *formats)

static void formats_are_recognised(void **state)
{
	for (size_t i = 0; i < FORMATS; i++) {
		struct test_log log;
		const struct wr_lab_record *record;

		test_log_read_text(&log, formats[i].text);
		if (log.count != 1)
			fail_msg("%s: %s", formats[i].text, log.totals.examples[0]);
		record = &log.records[0].record;
		assert_int_equal(log.totals.lines, 1);
		assert_int_equal(record->time_ns, formats[i].ns);
		assert_str(record->client, "192.0.2.1");
		assert_str(record->method, "GET");
		assert_str(record->target, "/a");
		assert_int_equal(record->status, 200);
		test_log_free(&log);
	}
	(void)state;
}

/* The format of most of the first lines is the format of the file. */
static void most_lines_decide(void **state)
{
	struct growing text = {NULL, 0, 0};
	struct test_log log;

	grow(&text, "Server started\n{\"ts\":1704164645,\"ip\":\"192.0.2.9\"}\n");
	for (unsigned i = 0; i < 3; i++)
		grow_clf(&text, START_S + i, i);
	test_log_read_text(&log, text.text);
	assert_int_equal(log.count, 3);
	assert_int_equal(log.totals.unreadable, 2);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static void forced_format_is_used(void **state)
{
	const char *path = test_text_file("log", formats[1].text);
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	static const uint64_t readable[] = {
		[WR_LAB_COMMON] = 1, [WR_LAB_COMBINED] = 1, [WR_LAB_ENVOY] = 0};

	for (unsigned format = WR_LAB_COMMON; format <= WR_LAB_ENVOY; format++) {
		struct test_log log;

		opts.format = (enum wr_lab_format)format;
		test_log_read(&log, &opts);
		assert_int_equal(log.count, readable[format]);
		assert_int_equal(log.totals.unreadable, 1 - readable[format]);
		test_log_free(&log);
	}
	(void)state;
}

/* The same requests in all formats give the same records. */
static void formats_give_the_same_records(void **state)
{
	struct growing text[4] = {{NULL, 0, 0}};
	struct test_log logs[4];

	grow(&text[3], "time,ip,method,path,status,bytes\n");
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t s = START_S + i / 7 + (i % 5 == 0 ? 3 : 0);
		unsigned client = i * 7919 % 250;

		grow_clf(&text[0], s, client);
		grow(&text[1],
		     "{\"ts\":%llu,\"request\":{\"remote_ip\":\"192.0.2.%u\",\"method\":\"GET\","
		     "\"uri\":\"/%u\"},\"status\":200,\"size\":%u}\n",
		     (unsigned long long)s, client, client, client);
		grow(&text[2],
		     "{\"ClientHost\":\"192.0.2.%u\",\"RequestMethod\":\"GET\",\"RequestPath\":\"/"
		     "%u\","
		     "\"DownstreamStatus\":200,\"DownstreamContentSize\":%u,\"time\":%llu}\n",
		     client, client, client, (unsigned long long)s);
		grow(&text[3], "%llu,192.0.2.%u,GET,/%u,200,%u\n", (unsigned long long)s, client,
		     client, client);
	}
	for (int i = 0; i < 4; i++) {
		test_log_read_text(&logs[i], text[i].text);
		assert_int_equal(logs[i].count, 3000);
		assert_same_logs(&logs[0], &logs[i]);
	}
	for (int i = 0; i < 4; i++) {
		test_log_free(&logs[i]);
		free(text[i].text);
	}
	(void)state;
}

/* A log with exact times, and the same log with its lines moved by up to 900 places. */
static void shuffled_log_gives_the_same_records(void **state)
{
	enum { LINES = 20000, BLOCK = 900 };
	struct growing sorted = {NULL, 0, 0}, shuffled = {NULL, 0, 0};
	struct test_log logs[2];
	uint32_t *places = malloc(LINES * sizeof *places), seed = 7;

	assert_non_null(places);
	for (uint32_t i = 0; i < LINES; i++)
		places[i] = i;
	for (uint32_t i = 0; i < LINES; i++) {
		uint32_t start = i / BLOCK * BLOCK,
			 size = LINES - start < BLOCK ? LINES - start : BLOCK;
		uint32_t other, swap;

		seed = seed * 1664525 + 1013904223;
		other = start + (seed >> 8) % size;
		swap = places[i];
		places[i] = places[other];
		places[other] = swap;
	}
	for (uint32_t i = 0; i < LINES; i++) {
		grow(&sorted, "%llu.%06u,192.0.2.%u\n", START_S + i / 100, i % 100 * 10007,
		     i % 251);
		grow(&shuffled, "%llu.%06u,192.0.2.%u\n", START_S + places[i] / 100,
		     places[i] % 100 * 10007, places[i] % 251);
	}
	test_log_read_text(&logs[0], sorted.text);
	test_log_read_text(&logs[1], shuffled.text);
	assert_int_equal(logs[0].count, LINES);
	assert_int_equal(logs[0].totals.reordered, 0);
	assert_true(logs[1].totals.reordered > LINES / 2);
	assert_int_equal(logs[1].totals.late, 0);
	assert_same_logs(&logs[0], &logs[1]);
	test_log_free(&logs[0]);
	test_log_free(&logs[1]);
	free(sorted.text);
	free(shuffled.text);
	free(places);
	(void)state;
}

/* ---- hostile input ---- */

static void hostile_lines_are_counted(void **state)
{
	struct growing text = {NULL, 0, 0};
	struct test_log log;
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};

	for (unsigned i = 0; i < 50; i++)
		grow_clf(&text, START_S + i, i);
	grow(&text, "192.0.2.9 - - [01/Jan/10000:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n");
	grow(&text, "192.0.2.9 - - [31/Dec/1969:23:59:59 +0000] \"GET / HTTP/1.1\" 200 5\n");
	grow_clf(&text, START_S + 50, 50);
	text.text[text.len - 20] = '\0'; /* in the middle of a readable line */
	grow(&text, "\x01\x02\x7f\xff\xc3\n");
	grow_clf(&text, START_S + 51, 51);
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
	struct growing line = {NULL, 0, 0};
	char *bytes = malloc(4000000);
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	struct test_log log;
	size_t len = 0, head;

	assert_non_null(bytes);
	grow_clf(&line, START_S, 1);
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
	struct growing text = {NULL, 0, 0};
	uint8_t *packed = malloc(1000000);
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	struct test_log log;
	size_t len;

	assert_non_null(packed);
	for (unsigned i = 0; i < 50000; i++)
		grow_clf(&text, START_S + i, i * 7919 % 251);
	len = gzip(text.text, text.len, packed, 1000000);
	path = test_file("cut.gz", packed, len / 2);
	test_log_read(&log, &opts);
	assert_true(log.count > 20000 && log.count < 30000);
	assert_true(log.totals.unreadable <= 1); /* the line at the cut */
	assert_int_equal(log.totals.damaged, 1);
	assert_non_null(strstr(log.totals.damage, "/cut.gz: the file is cut off"));
	for (uint32_t i = 0; i < log.count; i++)
		assert_int_equal(log.records[i].record.time_ns, (START_S + i) * S);
	test_log_free(&log);
	free(packed);
	free(text.text);
	(void)state;
}

/* ---- threads ---- */

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
	struct growing text = {NULL, 0, 0};
	uint64_t seen[2] = {0, 0};
	const char *path;
	struct wr_lab_log_opts opts = {
		.paths = &path, .path_count = 1, .progress = count_calls, .context = seen};
	struct test_log log;

	for (unsigned i = 0; i < 100000; i++)
		grow_clf(&text, START_S + i / 3, i % 250);
	path = test_text_file("log", text.text);
	test_log_read(&log, &opts);
	assert_int_equal(log.count, 100000);
	for (uint32_t i = 0; i < log.count; i++) {
		assert_int_equal(log.records[i].record.bytes, i % 250);
		assert_int_equal(log.records[i].record.time_ns,
				 (START_S + i / 3) * S + (i % 3 * S) / (i < 99999 ? 3 : 1));
	}
	assert_in_range(seen[0], 98, 1000);
	assert_int_equal(seen[1], 100000);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static void log_can_be_closed_early(void **state)
{
	struct growing text = {NULL, 0, 0};
	const char *path;
	struct wr_lab_log_opts opts = {.paths = &path, .path_count = 1};
	struct wr_lab_log_totals totals;
	struct weir_error error;
	struct wr_lab_log *log;

	for (unsigned i = 0; i < 100000; i++)
		grow_clf(&text, START_S + i / 3, i % 250);
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
			START_S + i / 2, i % 250, agent);
	assert_int_equal(fclose(file), 0);
	read_paths(&log, paths, 1);
	assert_int_equal(log.count, LINES);
	assert_int_equal(log.totals.late, 0);
	for (uint32_t i = 0; i < LINES; i++) {
		assert_int_equal(log.records[i].record.time_ns, (START_S + i / 2) * S + S / 2);
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
		cmocka_unit_test(log_is_read_in_order),
		cmocka_unit_test(late_lines_are_left_out),
		cmocka_unit_test(empty_file_has_no_records),
		cmocka_unit_test(last_line_may_lack_its_end),
		cmocka_unit_test(files_are_ordered_by_time),
		cmocka_unit_test(directory_stands_for_its_files),
		cmocka_unit_test(errors_name_the_file),
		cmocka_unit_test(standard_input_is_read),
		cmocka_unit_test(pipe_is_read),
		cmocka_unit_test(formats_are_recognised),
		cmocka_unit_test(most_lines_decide),
		cmocka_unit_test(forced_format_is_used),
		cmocka_unit_test(formats_give_the_same_records),
		cmocka_unit_test(shuffled_log_gives_the_same_records),
		cmocka_unit_test(hostile_lines_are_counted),
		cmocka_unit_test(binary_file_has_no_records),
		cmocka_unit_test(long_lines_are_bounded),
		cmocka_unit_test(cut_file_is_used_and_reported),
		cmocka_unit_test(long_log_is_read_to_its_end),
		cmocka_unit_test(log_can_be_closed_early),
		cmocka_unit_test(long_lines_use_up_the_blocks),
	};

	return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
