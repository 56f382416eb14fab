/* The options of commands that read logs: times, formats and the span of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "cli/options/log.h"

#define NS 1000000000ull

static void times_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t seconds;
	} cases[] = {
		{"1970-01-01", 0},
		{"2026-03-01", 1772323200},
		{"2026-03-01 14:30", 1772375400},
		{"2026-03-01T14:30:05Z", 1772375405},
		{"2026-03-01T14:30:05+02:00", 1772368205},
		{"2026-03-01T14:30:05-0530", 1772395205},
		{"2024-02-29", 1709164800},
		{"1772375405", 1772375405},
		{"0", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t ns = 1;

		if (wr_cli_log_time(wr_str(cases[i].text), &ns) != 0)
			fail_msg("%s is not read", cases[i].text);
		if (ns != cases[i].seconds * NS)
			fail_msg("%s is %llu", cases[i].text, (unsigned long long)ns);
	}
}

static void other_texts_are_not_times(void **state)
{
	static const char *const wrong[] = {
		"",
		"2026",
		"2026-13-01",
		"2026-00-01",
		"2026-03-32",
		"2026-3-1",
		"2026-03-01T",
		"2026-03-01T24:00",
		"2026-03-01T14:60",
		"2026-03-01T14:30x",
		"2026-03-01T14:30:05+2",
		"1969-12-31",
		"2300-01-01",
		"-5",
		"12345678901",
		"1970-01-01T00:00:00+01:00",
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		uint64_t ns;

		if (wr_cli_log_time(wr_str(wrong[i]), &ns) == 0)
			fail_msg("%s is a time", wrong[i]);
	}
}

static int read(const struct wr_cli_log_choice *choice, struct wr_lab_log_opts *opts,
		struct wr_cli_log_span *span, struct weir_error *error)
{
	static const char *items[] = {"a.log", "b.log"};
	struct wr_cli_words paths = {2, items};

	return wr_cli_log_read(choice, &paths, opts, span, error);
}

static void options_become_those_of_the_log(void **state)
{
	static const char *fields[] = {"time=t"};
	struct wr_cli_log_choice choice = {.format = "csv",
					   .fields = {1, fields},
					   .window_lines = 7,
					   .window_ns = 9,
					   .from = "100",
					   .to = "200"};
	struct wr_cli_log_span span;
	struct wr_lab_log_opts opts;
	struct weir_error error;

	(void)state;
	assert_int_equal(read(&choice, &opts, &span, &error), 0);
	assert_int_equal(opts.format, WR_LAB_CSV);
	assert_string_equal(opts.fields, "time=t");
	assert_int_equal(opts.path_count, 2);
	assert_string_equal(opts.paths[1], "b.log");
	assert_int_equal(opts.window_lines, 7);
	assert_int_equal(opts.window_ns, 9);
	assert_true(wr_cli_log_span_holds(&span, 100 * NS));
	assert_true(wr_cli_log_span_holds(&span, 200 * NS - 1));
	assert_false(wr_cli_log_span_holds(&span, 200 * NS));
	assert_false(wr_cli_log_span_holds(&span, 100 * NS - 1));
	choice = (struct wr_cli_log_choice){.format = "auto"};
	assert_int_equal(read(&choice, &opts, &span, &error), 0);
	assert_int_equal(opts.format, WR_LAB_GUESS);
	assert_null(opts.fields);
	assert_true(wr_cli_log_span_holds(&span, 0));
	assert_true(wr_cli_log_span_holds(&span, INT64_MAX));
}

static void wrong_spans_are_refused(void **state)
{
	struct wr_cli_log_choice choice = {.format = "auto", .from = "200", .to = "100"};
	struct wr_cli_log_span span;
	struct wr_lab_log_opts opts;
	struct weir_error error;

	(void)state;
	assert_int_equal(read(&choice, &opts, &span, &error), WEIR_EINVAL);
	assert_string_equal(error.text, "--from 200 is not before --to 100");
	choice.to = "soon";
	assert_int_equal(read(&choice, &opts, &span, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "--to 'soon' is not a time"));
}

static void wrong_fields_are_refused(void **state)
{
	static const struct {
		const char *fields[2], *text;
	} cases[] = {
		{{"bogus=when"}, "--fields: \"bogus\" in the names of fields is unknown"},
		{{"time="}, "--fields: a name of a field is empty"},
		{{"time"}, "--fields: a name of a field is empty"},
		{{"time=when,client=when"}, "--fields: the names of fields contain \"when\" twice"},
		{{"time=when,time=tenant"}, "--fields: \"time\" has two fields: give one"},
		{{"time=when", "client=ip"}, "--fields is given 2 times: give it once"},
	};
	struct wr_cli_log_span span;
	struct wr_lab_log_opts opts;
	struct weir_error error;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *items[] = {cases[i].fields[0], cases[i].fields[1]};
		struct wr_cli_log_choice choice = {.format = "auto",
						   .fields = {items[1] ? 2 : 1, items}};

		assert_int_equal(read(&choice, &opts, &span, &error), WEIR_EINVAL);
		if (strncmp(error.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s: %s", items[0], error.text);
	}
}

static void standard_input_is_given_once(void **state)
{
	static const char *items[] = {"-", "a.log", "-"};
	struct wr_cli_log_choice choice = {.format = "auto"};
	struct wr_cli_words paths = {3, items};
	struct wr_cli_log_span span;
	struct wr_lab_log_opts opts;
	struct weir_error error;

	(void)state;
	assert_int_equal(wr_cli_log_read(&choice, &paths, &opts, &span, &error), WEIR_EINVAL);
	assert_string_equal(error.text, "standard input can be read once: give - only once");
	paths.count = 2;
	assert_int_equal(wr_cli_log_read(&choice, &paths, &opts, &span, &error), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(other_texts_are_not_times),
		cmocka_unit_test(options_become_those_of_the_log),
		cmocka_unit_test(wrong_spans_are_refused),
		cmocka_unit_test(wrong_fields_are_refused),
		cmocka_unit_test(standard_input_is_given_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
