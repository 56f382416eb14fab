/* Whole logs: files and directories, formats, order and totals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "lab/log/log_test.h"

#define S 1000000000ull

/* ---- files ---- */

static void log_is_read_in_order(void **state)
{
	struct test_text text = {NULL, 0, 0};
	struct test_log log;

	test_text_clf(&text, TEST_START_S, 1);
	test_text_clf(&text, TEST_START_S + 2, 2);
	test_text_clf(&text, TEST_START_S + 1, 3);
	test_text_add(&text, "\n\r\nno log line\n");
	test_text_clf(&text, TEST_START_S + 2, 4);
	test_log_read_text(&log, text.text);
	assert_int_equal(log.count, 4);
	assert_str(log.records[0].record.client, "192.0.2.1");
	assert_int_equal(log.records[0].record.time_ns, TEST_START_S * S);
	assert_str(log.records[1].record.client, "192.0.2.3");
	assert_str(log.records[2].record.client, "192.0.2.2");
	assert_int_equal(log.records[2].record.time_ns, (TEST_START_S + 2) * S);
	assert_str(log.records[3].record.client, "192.0.2.4");
	assert_int_equal(log.records[3].record.time_ns, (TEST_START_S + 2) * S + S / 2);
	assert_header(&log.records[3].record, "user-agent", "agent");

	assert_int_equal(log.totals.lines, 5);
	assert_int_equal(log.totals.records, 4);
	assert_int_equal(log.totals.unreadable, 1);
	assert_int_equal(log.totals.reordered, 1);
	assert_int_equal(log.totals.late, 0);
	assert_int_equal(log.totals.bytes, text.len);
	assert_int_equal(log.totals.bytes_all, text.len);
	assert_int_equal(log.totals.first_ns, TEST_START_S * S);
	assert_int_equal(log.totals.last_ns, (TEST_START_S + 2) * S + S / 2);
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
	struct test_text text = {NULL, 0, 0};
	struct test_log log;

	for (unsigned i = 0; i < 20; i++)
		test_text_clf(&text, TEST_START_S + 3600 + 100 * i, 1);
	test_text_clf(&text, TEST_START_S, 2);
	test_text_clf(&text, TEST_START_S + 1, 2);
	for (unsigned i = 20; i < 23; i++)
		test_text_clf(&text, TEST_START_S + 3600 + 100 * i, 1);
	test_log_read_text(&log, text.text);
	assert_int_equal(log.count, 23);
	for (unsigned i = 0; i < 23; i++) {
		assert_str(log.records[i].record.client, "192.0.2.1");
		assert_int_equal(log.records[i].record.time_ns,
				 (TEST_START_S + 3600 + 100 * i) * S);
	}
	assert_int_equal(log.totals.lines, 25);
	assert_int_equal(log.totals.records, 23);
	assert_int_equal(log.totals.late, 2);
	assert_int_equal(log.totals.first_ns, (TEST_START_S + 3600) * S);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

/* The first line of a log is of the year 2099. In the second log, it is one of two files. */
static void wrong_first_time_is_late(void **state)
{
	struct test_text texts[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
	const char *paths[2];
	struct test_log log;

	test_text_add(&texts[0], "192.0.2.251 - - [01/Jan/2099:00:00:00 +0000] \"GET / HTTP/1.1\" "
				 "200 251\n");
	for (unsigned i = 0; i < 2000; i++) {
		test_text_clf(&texts[0], TEST_START_S + 2 * i, 1);
		test_text_clf(&texts[1], TEST_START_S + 2 * i + 1, 2);
	}
	paths[0] = test_text_file("web1", texts[0].text);
	paths[1] = test_text_file("web2", texts[1].text);
	for (size_t files = 1; files <= 2; files++) {
		test_log_read_paths(&log, paths, files);
		assert_int_equal(log.count, 2000 * files);
		assert_int_equal(log.totals.lines, 2000 * files + 1);
		assert_int_equal(log.totals.late, 1);
		for (uint32_t i = 0; i < log.count; i++)
			assert_int_equal(log.records[i].record.time_ns,
					 (TEST_START_S + (files == 1 ? 2 * i : i)) * S);
		test_log_free(&log);
	}
	free(texts[0].text);
	free(texts[1].text);
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
	struct test_text text = {NULL, 0, 0};
	struct test_log log;

	test_text_clf(&text, TEST_START_S, 1);
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
	struct test_text late = {NULL, 0, 0}, early = {NULL, 0, 0};
	struct test_log log;
	const char *paths[3];

	test_text_clf(&late, TEST_START_S + 50000, 3);
	test_text_clf(&early, TEST_START_S, 1);
	paths[0] = test_text_file("a", late.text);
	paths[1] = test_text_file("b", json);
	paths[2] = test_text_file("c", early.text);
	test_log_read_paths(&log, paths, 3);
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

/* Logs of several servers of the same hours. One line of the first log has a wrong time, and the
 * first log has a pause. */
static void files_of_the_same_time_are_merged(void **state)
{
	enum { FILES = 3, LINES = 9000 };
	struct test_text texts[FILES] = {{NULL, 0, 0}};
	const char *paths[FILES];
	struct test_log log;

	for (unsigned i = 0; i < LINES; i++) {
		unsigned file = i > 3000 && i < 6000 ? 1 + i % 2 : i % FILES;

		test_text_clf(&texts[file], TEST_START_S + i, i % 250);
		if (i == 999)
			test_text_add(&texts[0],
				      "192.0.2.251 - - [01/Jan/2200:00:00:00 +0000] \"GET "
				      "/ HTTP/1.1\" 200 251\n");
	}
	paths[0] = test_text_file("web1", texts[0].text);
	paths[1] = test_text_file("web2", texts[1].text);
	paths[2] = test_text_file("web3", texts[2].text);
	test_log_read_paths(&log, paths, FILES);
	assert_int_equal(log.count, LINES);
	assert_int_equal(log.totals.late, 1);
	assert_int_equal(log.totals.reordered, 0);
	assert_int_equal(log.totals.files, FILES);
	for (uint32_t i = 0; i < log.count; i++) {
		assert_int_equal(log.records[i].record.time_ns, (TEST_START_S + i) * S);
		assert_int_equal(log.records[i].record.bytes, i % 250);
	}
	test_log_free(&log);
	for (int i = 0; i < FILES; i++)
		free(texts[i].text);
	(void)state;
}

/* More files at the same time than are read at the same time. The window puts their lines in
 * order. */
static void many_files_are_merged(void **state)
{
	enum { FILES = 20, LINES = 50 };
	char folder[80];
	const char *paths[] = {folder};
	struct test_log log;

	snprintf(folder, sizeof folder, "%s/many", test_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	for (unsigned file = 0; file < FILES; file++) {
		struct test_text text = {NULL, 0, 0};
		char name[32];

		for (unsigned i = 0; i < LINES; i++)
			test_text_clf(&text, TEST_START_S + i, file);
		snprintf(name, sizeof name, "many/%u", file);
		test_text_file(name, text.text);
		free(text.text);
	}
	test_log_read_paths(&log, paths, 1);
	assert_int_equal(log.count, FILES * LINES);
	assert_int_equal(log.totals.files, FILES);
	assert_int_equal(log.totals.late, 0);
	for (uint32_t i = 0; i < log.count; i++)
		assert_int_equal(log.records[i].record.time_ns,
				 (TEST_START_S + i / FILES) * S + i % FILES * (S / FILES));
	test_log_free(&log);
	(void)state;
}

/* A folder as logrotate makes it, with a hidden file, a folder and a pipe in it. A log in it begins
 * with a byte order mark. */
static void directory_stands_for_its_files(void **state)
{
	struct test_text text = {NULL, 0, 0};
	const char *paths[1];
	char folder[80], path[160];
	struct test_log log;
	uint8_t packed[1024];

	snprintf(folder, sizeof folder, "%s/rotated", test_folder);
	snprintf(path, sizeof path, "%s/rotated/archive", test_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s/rotated/pipe", test_folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	test_text_add(&text, "\xef\xbb\xbf");
	test_text_clf(&text, TEST_START_S + 2, 3);
	test_text_file("rotated/access.log", text.text);
	text.len = 0;
	test_text_clf(&text, TEST_START_S + 1, 2);
	test_text_file("rotated/access.log.1", text.text);
	text.len = 0;
	test_text_clf(&text, TEST_START_S, 1);
	test_file("rotated/access.log.2.gz", packed,
		  test_gzip(text.text, text.len, packed, sizeof packed));
	test_text_file("rotated/.swp", "x\n");
	paths[0] = folder;
	test_log_read_paths(&log, paths, 1);
	assert_int_equal(log.count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(log.records[i].record.bytes, i + 1);
		assert_int_equal(log.records[i].record.time_ns, (TEST_START_S + i) * S);
	}
	assert_str(log.records[2].record.client, "192.0.2.3");
	assert_int_equal(log.totals.files, 3);
	assert_int_equal(log.totals.unreadable, 0);
	test_log_free(&log);
	free(text.text);
	(void)state;
}

static const char nginx_errors[] =
	"2024/01/02 03:04:05 [error] 11#11: *1 open() \"/srv/a\" failed (2: No such file or "
	"directory), client: 192.0.2.9, server: _, request: \"GET /a HTTP/1.1\", host: \"a\"\n"
	"2024/01/02 03:04:06 [notice] 11#11: signal process started\n"
	"2024/01/02 03:04:07 [error] 11#11: *2 open() \"/srv/b\" failed (2: No such file or "
	"directory), client: 192.0.2.9, server: _, request: \"GET /b HTTP/1.1\", host: \"a\"\n";

static const char apache_errors[] =
	"[Tue Jan 02 03:04:05.288843 2024] [proxy_http:error] [pid 22583:tid 12] [client "
	"192.0.2.9:5000] AH01102: error reading status line, referer: http://a.example/\n";

/* Makes the folder `name` in the folder of the tests. */
static const char *make_folder(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", test_folder, name);
	assert_int_equal(mkdir(path, 0700), 0);
	return path;
}

/* /var/log/nginx: logs of errors are left out. An empty log is not worth a note. */
static void other_files_of_a_directory_are_left_out(void **state)
{
	const char *paths[2] = {make_folder("nginx"), NULL};
	struct test_text text = {NULL, 0, 0}, vhost = {NULL, 0, 0};
	struct test_log log;

	for (unsigned i = 0; i < 10; i++) {
		test_text_clf(&text, TEST_START_S + 2 * i, 1);
		test_text_add(&vhost,
			      "b.example:443 192.0.2.2 - - [02/Jan/2024:03:04:%02u +0000] \"GET /2 "
			      "HTTP/1.1\" 200 2 \"-\" \"agent\"\n",
			      6 + 2 * i);
	}
	test_text_file("nginx/access.log", text.text);
	test_text_file("nginx/other_vhosts_access.log", vhost.text);
	test_text_file("nginx/new.log", "");
	test_text_file("nginx/error.log.1", apache_errors);
	paths[1] = test_text_file("nginx/error.log", nginx_errors);
	test_log_read_paths(&log, paths, 1);
	assert_int_equal(log.count, 20);
	assert_int_equal(log.totals.lines, 20);
	assert_int_equal(log.totals.unreadable, 0);
	assert_int_equal(log.totals.files, 3);
	assert_int_equal(log.totals.bytes_all, text.len + vhost.len);
	for (uint32_t i = 0; i < 20; i++)
		assert_str(log.records[i].record.host, i % 2 ? "b.example" : "");
	assert_int_equal(log.totals.note_count, 1);
	assert_non_null(strstr(log.totals.notes[0], "2 files are left out"));
	assert_non_null(strstr(log.totals.notes[0], "/nginx/error.log. "));
	test_log_free(&log);

	/* a file that the user names is read */
	test_log_read_paths(&log, paths, 2);
	assert_int_equal(log.count, 20);
	assert_int_equal(log.totals.unreadable, 3);
	test_log_free(&log);
	free(text.text);
	free(vhost.text);
	(void)state;
}

/* Nothing is readable: the lines are counted, and no file is left out. */
static void directory_without_logs_is_unreadable(void **state)
{
	const char *paths[1] = {make_folder("errors")};
	struct test_log log;

	test_text_file("errors/error.log", nginx_errors);
	test_text_file("errors/error.log.1", apache_errors);
	test_log_read_paths(&log, paths, 1);
	assert_int_equal(log.count, 0);
	assert_int_equal(log.totals.lines, 4);
	assert_int_equal(log.totals.unreadable, 4);
	assert_int_equal(log.totals.example_count, 3);
	assert_int_equal(log.totals.note_count, 0);
	test_log_free(&log);
	(void)state;
}

/* Opens a log that has an error. Returns the error. */
static const char *error_of(const char *path, enum wr_lab_format format, const char *fields)
{
	static struct weir_error error;
	struct wr_lab_log_opts opts = {
		.paths = &path, .path_count = 1, .format = format, .fields = fields};
	struct wr_lab_log *log;
	int rc = wr_lab_log_open(&opts, &log, &error);

	if (rc == 0)
		fail_msg("no error: %s", fields);
	assert_int_equal(rc, WEIR_EINVAL);
	return error.text;
}

static void missing_columns_are_errors(void **state)
{
	static const char csv[] = "time,client,cost\n1704164645,a,5\n";
	const char *path = test_text_file("csv", csv);
	static const char *const wrong[] = {"cost=nope", "cost=cost+nope", "header.x-a=nope",
					    "client=2,cost=nope", "time=nope"};
	char expected[256];

	snprintf(expected, sizeof expected,
		 "%s has no column \"nope\" of --fields. Its columns are: time, client, cost",
		 path);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_string_equal(error_of(path, WR_LAB_GUESS, wrong[i]), expected);
		assert_string_equal(error_of(path, WR_LAB_CSV, wrong[i]), expected);
	}
	assert_non_null(strstr(error_of(path, WR_LAB_GUESS, "cost=4"), "no column \"4\""));
	path = test_text_file("csv", "1704164645,192.0.2.1,5\n");
	snprintf(expected, sizeof expected,
		 "%s has no column \"cost\" of --fields. It has no line with the names of columns: "
		 "give the numbers of columns, from 1 to 3",
		 path);
	assert_string_equal(error_of(path, WR_LAB_GUESS, "cost=cost"), expected);
	(void)state;
}

/* A long list of columns is cut, and control characters do not reach a terminal. */
static void columns_of_errors_are_shown_safely(void **state)
{
	struct test_text text = {NULL, 0, 0};
	const char *error, *path;

	test_text_add(&text, "time,a\x1b[31mb");
	for (unsigned i = 0; i < 100; i++)
		test_text_add(&text, ",column_%u", i);
	test_text_add(&text, "\n1704164645,1\n");
	path = test_text_file("csv", text.text);
	error = error_of(path, WR_LAB_GUESS, "cost=nope");
	assert_non_null(strstr(error, "time, a?[31mb, column_0, "));
	assert_string_equal(error + strlen(error) - strlen(", …"), ", …");
	free(text.text);
	(void)state;
}

static void fields_need_a_format_with_names(void **state)
{
	const char *path = test_text_file("log", "192.0.2.1 - - [02/Jan/2024:03:04:05 +0000] "
						 "\"GET /a HTTP/1.1\" 200 5\n");
	const char *paths[2] = {path, test_text_file("csv", "time,client,cost\n1704164645,a,5\n")};
	struct wr_lab_log_opts opts = {.paths = paths, .path_count = 2, .fields = "cost=cost"};
	char expected[256];
	struct test_log log;

	assert_string_equal(error_of(path, WR_LAB_COMMON, "cost=bytes"),
			    "--fields is for JSON and CSV: the fields of the format common have no "
			    "names. Leave out --fields or --format");
	snprintf(expected, sizeof expected,
		 "--fields is for JSON and CSV, but the format of %s is common or combined, whose "
		 "fields have no names. Leave out --fields, or set --format",
		 path);
	assert_string_equal(error_of(path, WR_LAB_GUESS, "cost=bytes"), expected);
	/* the names are for the other file */
	test_log_read(&log, &opts);
	assert_int_equal(log.count, 2);
	assert_int_equal(log.records[0].record.cost + log.records[1].record.cost, 6);
	assert_int_equal(log.totals.note_count, 0);
	test_log_free(&log);
	(void)state;
}

/* A field that some lines have needs no note. An unreadable line and null do not count. */
static void absent_fields_are_noted(void **state)
{
	static const char text[] = "{\"ts\":1704164645,\"ip\":\"192.0.2.1\",\"n\":null}\n"
				   "{\"ts\":1704164646,\"ip\":\"192.0.2.1\",\"use\":{\"in\":3}}\n"
				   "{\"n\":3,\"bad\":1}\n";
	static const struct {
		const char *fields, *note;
	} cases[] = {
		{"cost=use.in", NULL},
		{"cost=n", "no readable line has the field \"n\" of --fields."},
		{"cost=use.in+use.out", "no readable line has the field \"use.out\" of --fields."},
		{"cost=use", "no readable line has the field \"use\" of --fields."},
		{"cost=bad,header.x=y", "no readable line has the fields \"bad\", \"y\" of "
					"--fields."},
	};
	const char *path = test_text_file("log", text);

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_lab_log_opts opts = {
			.paths = &path, .path_count = 1, .fields = cases[i].fields};
		struct test_log log;

		test_log_read(&log, &opts);
		assert_int_equal(log.count, 2);
		assert_int_equal(log.totals.note_count, cases[i].note ? 1 : 0);
		if (cases[i].note)
			assert_string_equal(log.totals.notes[0], cases[i].note);
		test_log_free(&log);
	}
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
	path = "/nonexistent/\x1b[31m\n";
	assert_int_equal(wr_lab_log_open(&opts, &log, &error), WEIR_ESYS);
	assert_string_equal(error.text,
			    "cannot read /nonexistent/?[31m?: No such file or directory");
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
	struct test_text text = {NULL, 0, 0};
	const char *paths[] = {"-"};
	int before = dup(STDIN_FILENO);
	struct test_log log;
	uint8_t packed[4096];

	for (unsigned i = 0; i < 100; i++)
		test_text_clf(&text, TEST_START_S + i, i);
	for (int packs = 0; packs < 2; packs++) {
		size_t len = test_gzip(text.text, text.len, packed, sizeof packed);
		const char *path = packs ? test_file("stdin", packed, len)
					 : test_text_file("stdin", text.text);

		assert_non_null(freopen(path, "rb", stdin));
		test_log_read_paths(&log, paths, 1);
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
	struct test_text text = {NULL, 0, 0};
	const char *paths[1];
	struct test_log log;
	char path[64];
	int ends[2];

	for (unsigned i = 0; i < 100; i++)
		test_text_clf(&text, TEST_START_S + i, i);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], text.text, text.len), text.len);
	close(ends[1]);
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
	paths[0] = path;
	test_log_read_paths(&log, paths, 1);
	assert_int_equal(log.count, 100);
	assert_int_equal(log.totals.bytes_all, 0);
	test_log_free(&log);
	close(ends[0]);
	free(text.text);
	(void)state;
}

/* ---- files that several paths lead to ---- */

/* Asserts that a log of two files with 10 and 20 requests has 30 requests and one note. In `note`,
 * paths begin behind the folder of the tests. */
static void assert_read_once(const char *const *paths, size_t count, const char *note)
{
	struct test_log log;
	char *at;

	test_log_read_paths(&log, paths, count);
	assert_int_equal(log.count, 30);
	assert_int_equal(log.totals.lines, 30);
	assert_int_equal(log.totals.files, 2);
	assert_int_equal(log.totals.bytes, log.totals.bytes_all);
	assert_int_equal(log.totals.note_count, 1);
	while ((at = strstr(log.totals.notes[0], test_folder)) != NULL)
		memmove(at, at + strlen(test_folder), strlen(at + strlen(test_folder)) + 1);
	assert_string_equal(log.totals.notes[0], note);
	test_log_free(&log);
}

/* Apache's rotatelogs -L keeps a link to the current log. */
static void linked_file_is_read_once(void **state)
{
	const char *folder = make_folder("linked"), *paths[4] = {folder, folder};
	struct test_text text = {NULL, 0, 0};
	char file[160], link_path[160];

	for (unsigned i = 0; i < 20; i++)
		test_text_clf(&text, TEST_START_S + i, 1);
	test_text_file("linked/access.log", text.text);
	text.len = 0;
	for (unsigned i = 0; i < 10; i++)
		test_text_clf(&text, TEST_START_S + i, 2);
	test_text_file("linked/other.log", text.text);
	snprintf(file, sizeof file, "%s/access.log", folder);
	snprintf(link_path, sizeof link_path, "%s/current.log", folder);

	assert_int_equal(symlink("access.log", link_path), 0);
	assert_read_once(paths, 1,
			 "/linked/current.log is left out, because it is the same file as "
			 "/linked/access.log.");
	unlink(link_path);
	assert_int_equal(link(file, link_path), 0);
	assert_read_once(paths, 1,
			 "/linked/current.log is left out, because it is the same file as "
			 "/linked/access.log.");
	unlink(link_path);
	/* a path that the user gives is kept */
	snprintf(link_path, sizeof link_path, "%s/now.log", test_folder);
	assert_int_equal(symlink(file, link_path), 0);
	paths[1] = link_path;
	assert_read_once(
		paths, 2,
		"/linked/access.log is left out, because it is the same file as /now.log.");
	paths[1] = file;
	assert_read_once(paths, 2, "/linked/access.log is given twice, but read once.");
	paths[1] = folder;
	assert_read_once(paths, 2,
			 "2 paths are left out, because they lead to files that are read already. "
			 "The first of them is /linked/access.log.");
	free(text.text);
	(void)state;
}

static void file_given_twice_is_read_once(void **state)
{
	struct test_text text = {NULL, 0, 0};
	const char *paths[] = {NULL, NULL, "-"};
	int before = dup(STDIN_FILENO);
	struct test_log log;

	test_text_clf(&text, TEST_START_S, 1);
	paths[0] = paths[1] = test_text_file("log", text.text);
	assert_non_null(freopen(paths[0], "rb", stdin));
	for (size_t first = 0; first < 2; first++) {
		test_log_read_paths(&log, paths + first, 2);
		assert_int_equal(log.count, 1);
		assert_int_equal(log.totals.note_count, 1);
		assert_non_null(strstr(log.totals.notes[0],
				       first ? "standard input is left out, because it is the same "
					       "file as "
					     : "/log is given twice, but read once."));
		test_log_free(&log);
	}
	assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
	close(before);
	free(text.text);
	(void)state;
}

/* ---- formats ---- */

static const struct {
	const char *text;
	uint64_t ns;
} formats[] = {
	{"192.0.2.1 - - [02/Jan/2024:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 5\n", TEST_START_S *S},
	{"192.0.2.1 - - [02/Jan/2024:03:04:05 +0000] \"GET /a HTTP/1.1\" 200 5 \"r\" \"u\"\n",
	 TEST_START_S *S},
	{"v.example:80 192.0.2.1 - - [02/Jan/2024:04:04:05 +0100] \"GET /a HTTP/1.1\" 200 5\n",
	 TEST_START_S *S},
	{"[2024-01-02T03:04:05.000Z] \"GET /a HTTP/1.1\" 200 - 0 5 3 2 \"192.0.2.1\" \"u\" \"i\" "
	 "\"h\" \"10.0.0.1:80\"\n",
	 TEST_START_S *S},
	{"{\"time\":\"2024-01-02T03:04:05Z\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET /a "
	 "HTTP/1.1\",\"status\":200,\"bytes\":5}\n",
	 TEST_START_S *S},
	{"{\"ts\":1704164645,\"request\":{\"remote_ip\":\"192.0.2.1\",\"method\":\"GET\",\"uri\":"
	 "\"/a\"},\"status\":200,\"size\":5}\n",
	 TEST_START_S *S},
	{"time,ip,method,path,status,bytes\n2024-01-02 03:04:05,192.0.2.1,GET,/a,200,5\n",
	 TEST_START_S *S},
	{"v.example,443,192.0.2.1,-,-,[02/Jan/2024:03:04:05 +0000],\"GET\",\"/a\",200,5\n",
	 TEST_START_S *S},
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
	struct test_text text = {NULL, 0, 0};
	struct test_log log;

	test_text_add(&text, "Server started\n{\"ts\":1704164645,\"ip\":\"192.0.2.9\"}\n");
	for (unsigned i = 0; i < 3; i++)
		test_text_clf(&text, TEST_START_S + i, i);
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
	struct test_text text[4] = {{NULL, 0, 0}};
	struct test_log logs[4];

	test_text_add(&text[3], "time,ip,method,path,status,bytes\n");
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t s = TEST_START_S + i / 7 + (i % 5 == 0 ? 3 : 0);
		unsigned client = i * 7919 % 250;

		test_text_clf(&text[0], s, client);
		test_text_add(
			&text[1],
			"{\"ts\":%llu,\"request\":{\"remote_ip\":\"192.0.2.%u\",\"method\":\"GET\","
			"\"uri\":\"/%u\"},\"status\":200,\"size\":%u}\n",
			(unsigned long long)s, client, client, client);
		test_text_add(
			&text[2],
			"{\"ClientHost\":\"192.0.2.%u\",\"RequestMethod\":\"GET\",\"RequestPath\":"
			"\"/"
			"%u\","
			"\"DownstreamStatus\":200,\"DownstreamContentSize\":%u,\"time\":%llu}\n",
			client, client, client, (unsigned long long)s);
		test_text_add(&text[3], "%llu,192.0.2.%u,GET,/%u,200,%u\n", (unsigned long long)s,
			      client, client, client);
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
	struct test_text sorted = {NULL, 0, 0}, shuffled = {NULL, 0, 0};
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
		test_text_add(&sorted, "%llu.%06u,192.0.2.%u\n", TEST_START_S + i / 100,
			      i % 100 * 10007, i % 251);
		test_text_add(&shuffled, "%llu.%06u,192.0.2.%u\n", TEST_START_S + places[i] / 100,
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_is_read_in_order),
		cmocka_unit_test(late_lines_are_left_out),
		cmocka_unit_test(wrong_first_time_is_late),
		cmocka_unit_test(empty_file_has_no_records),
		cmocka_unit_test(last_line_may_lack_its_end),
		cmocka_unit_test(files_are_ordered_by_time),
		cmocka_unit_test(files_of_the_same_time_are_merged),
		cmocka_unit_test(many_files_are_merged),
		cmocka_unit_test(directory_stands_for_its_files),
		cmocka_unit_test(other_files_of_a_directory_are_left_out),
		cmocka_unit_test(directory_without_logs_is_unreadable),
		cmocka_unit_test(missing_columns_are_errors),
		cmocka_unit_test(columns_of_errors_are_shown_safely),
		cmocka_unit_test(fields_need_a_format_with_names),
		cmocka_unit_test(absent_fields_are_noted),
		cmocka_unit_test(errors_name_the_file),
		cmocka_unit_test(standard_input_is_read),
		cmocka_unit_test(pipe_is_read),
		cmocka_unit_test(linked_file_is_read_once),
		cmocka_unit_test(file_given_twice_is_read_once),
		cmocka_unit_test(formats_are_recognised),
		cmocka_unit_test(most_lines_decide),
		cmocka_unit_test(forced_format_is_used),
		cmocka_unit_test(formats_give_the_same_records),
		cmocka_unit_test(shuffled_log_gives_the_same_records),
	};

	return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
