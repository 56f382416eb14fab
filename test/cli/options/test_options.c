/* Tests options from the command line, the environment and a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options/options.h"

struct settings {
	const char *name, *colour, *password, *redis, *queue;
	struct wr_text_list words;
	bool loud, queue_trust;
	uint64_t workers, memory_bytes, timeout_ns, patience_ns, depth, queue_patience_ns;
	struct wr_endpoint_list listen;
};

static struct settings s;

static const struct wr_cli_option first[] = {
	{"name", WR_OPTION_TEXT, "NAME", NULL, "what it is called",
	 .at = offsetof(struct settings, name)},
	{"colour", WR_OPTION_TEXT, "COLOUR", "red", "one of a few",
	 .at = offsetof(struct settings, colour), .choices = "red green"},
	{"words", WR_OPTION_LIST, "WORD,…", "a,b", "some words\non two lines",
	 .at = offsetof(struct settings, words)},
	{"loud-mode", WR_OPTION_SWITCH, NULL, NULL, "be loud",
	 .at = offsetof(struct settings, loud)},
};

static const struct wr_cli_option second[] = {
	{"workers", WR_OPTION_NUMBER, "N", "1", "how many",
	 .at = offsetof(struct settings, workers), .min = 1, .max = 512},
	{"memory", WR_OPTION_SIZE, "SIZE", "64M", "how much",
	 .at = offsetof(struct settings, memory_bytes), .min = 262144, .max = 1099511627776},
	{"timeout", WR_OPTION_DURATION, "TIME", "30s", "how long",
	 .at = offsetof(struct settings, timeout_ns), .min = 1000000, .max = 3600000000000},
	{"listen", WR_OPTION_ADDRESSES, "ADDR,…", "8080", "where",
	 .at = offsetof(struct settings, listen)},
	{"password", WR_OPTION_TEXT, "TEXT", NULL, "hush",
	 .at = offsetof(struct settings, password), .choices = "sesame", .secret = true},
};

static const struct wr_cli_option third[] = {
	{"redis", WR_OPTION_TEXT, "URL", NULL, "a store", .at = offsetof(struct settings, redis)},
	{"queue", WR_OPTION_TEXT, "URL", NULL, "a queue", .at = offsetof(struct settings, queue)},
	{"redis-patience", WR_OPTION_DURATION, "TIME", "20ms", "of the store",
	 .at = offsetof(struct settings, patience_ns), .needs = "redis"},
	{"depth", WR_OPTION_NUMBER, "N", "1", "of either", .at = offsetof(struct settings, depth),
	 .needs = "redis queue:redis"},
	{"queue-patience", WR_OPTION_DURATION, "TIME", "20ms", "of the queue",
	 .at = offsetof(struct settings, queue_patience_ns), .needs = "queue"},
	{"queue-trust", WR_OPTION_SWITCH, NULL, NULL, "of a queue in Redis",
	 .at = offsetof(struct settings, queue_trust), .needs = "queue:redis"},
};

static const struct wr_cli_option_group groups[] = {
	{"One", first, sizeof first / sizeof *first, &s},
	{"Two", second, sizeof second / sizeof *second, &s},
	{"Three", third, sizeof third / sizeof *third, &s},
};

static const struct wr_cli_command command = {"test", "weir test\n",     "Examples\n", groups,
					      3,      .has_config = true};

static struct wr_arena arena;
static char reported[8192];

static int setup(void **state)
{
	(void)state;
	memset(&s, 0, sizeof s);
	wr_arena_init(&arena, (size_t)4 * 1024 * 1024);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wr_arena_free(&arena);
	return 0;
}

/* Reads the options. Arguments and variables end with NULL. The error messages are in `reported`.
 * */
static enum wr_cli_options_outcome run_of(const struct wr_cli_command *read,
					  const char **environment, const char **argv)
{
	enum wr_cli_options_outcome outcome;
	FILE *errors = fmemopen(reported, sizeof reported, "w");
	int argc = 0;

	while (argv[argc])
		argc++;
	outcome = wr_cli_options_read(read, argc, (char **)argv, (char **)environment, &arena,
				      errors);
	fclose(errors);
	return outcome;
}

static enum wr_cli_options_outcome run(const char **environment, const char **argv)
{
	return run_of(&command, environment, argv);
}

#define ARGS(...) ((const char *[]){"test", __VA_ARGS__, NULL})
#define NOTHING ((const char *[]){NULL})

static void defaults(void **state)
{
	(void)state;
	assert_int_equal(run(NOTHING, (const char *[]){"test", NULL}), WR_OPTIONS_READ);
	assert_null(s.name);
	assert_string_equal(s.colour, "red");
	assert_int_equal(s.words.count, 2);
	assert_string_equal(s.words.items[1], "b");
	assert_false(s.loud);
	assert_int_equal(s.workers, 1);
	assert_int_equal(s.memory_bytes, 67108864);
	assert_int_equal(s.timeout_ns, 30000000000);
	assert_int_equal(s.listen.count, 1);
	assert_int_equal(s.listen.items[0].port, 8080);
	assert_string_equal(reported, "");
}

static void flags_of_every_kind(void **state)
{
	(void)state;
	assert_int_equal(
		run(NOTHING, ARGS("--name", "-", "--colour=green", "--words", "x, y,,z", "--words",
				  "w", "--loud-mode", "--workers", "512", "--memory", "256K",
				  "--timeout=1ms", "--listen", "80,[::1]:81")),
		WR_OPTIONS_READ);
	assert_string_equal(s.name, "-");
	assert_string_equal(s.colour, "green");
	assert_int_equal(s.words.count, 4); /* a repeated flag extends the list */
	assert_string_equal(s.words.items[1], "y");
	assert_string_equal(s.words.items[3], "w");
	assert_true(s.loud);
	assert_int_equal(s.workers, 512);
	assert_int_equal(s.memory_bytes, 262144);
	assert_int_equal(s.timeout_ns, 1000000);
	assert_int_equal(s.listen.count, 2);
	assert_string_equal(s.listen.items[1].host, "::1");
}

static void write_config(char path[32], const char *text)
{
	int fd;

	snprintf(path, 32, "/tmp/weir-options-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void command_line_over_environment_over_file(void **state)
{
	char path[32];

	(void)state;
	write_config(path, "name: file\ncolour: green\nwords: [f, g, h]\nworkers: 7\n"
			   "loud-mode: yes\nlisten:\n  - 81\n  - 82\n");
	assert_int_equal(
		run((const char *[]){"WEIR_NAME=variable", "WEIR_WORDS=v", "WEIR_LOUD_MODE=off",
				     "WEIR_COLOUR=", "UNRELATED=1", NULL},
		    ARGS("--config", path, "--name", "flag")),
		WR_OPTIONS_READ);
	assert_string_equal(s.name, "flag");
	assert_string_equal(s.colour, "green"); /* an empty variable counts as not set */
	assert_int_equal(s.words.count, 1);     /* the list was replaced, not extended */
	assert_string_equal(s.words.items[0], "v");
	assert_false(s.loud);
	assert_int_equal(s.workers, 7);
	assert_int_equal(s.listen.count, 2);
	assert_int_equal(s.listen.items[1].port, 82);
	unlink(path);
}

static void config_by_variable(void **state)
{
	char path[32], variable[64];

	(void)state;
	write_config(path, "workers: 3\n");
	snprintf(variable, sizeof variable, "WEIR_CONFIG=%s", path);
	assert_int_equal(run((const char *[]){variable, NULL}, (const char *[]){"test", NULL}),
			 WR_OPTIONS_READ);
	assert_int_equal(s.workers, 3);
	unlink(path);
}

static const struct {
	const char *argv[4];
	const char *reported;
} wrong[] = {
	{{"test", "--memroy", "1G"}, "there is no option --memroy; did you mean --memory?"},
	{{"test", "--help=x"}, "weir test: --help takes no value\n"},
	{{"test", "--zzzzzzzzz"}, "there is no option '--zzzzzzzzz'"},
	{{"test", "config"}, "'config' is not an option"},
	{{"test", "extra"}, "'extra' is not an option: options begin with --"},
	{{"test", "-n"}, "there is no option '-n'"},
	{{"test", "--name"}, "--name needs a value: --name NAME"},
	{{"test", "--name", "--loud-mode"}, "--name needs a value"},
	{{"test", "--name="}, "--name has an empty value"},
	{{"test", "--name=a\nb"}, "--name has a value with control characters"},
	{{"test", "--colour", "blue"}, "--colour is 'blue', which is not one of: red green"},
	{{"test", "--loud-mode=maybe"}, "--loud-mode is 'maybe', which is not on or off"},
	{{"test", "--workers", "0"}, "--workers is '0', which is not from 1 to 512"},
	{{"test", "--workers", "513"}, "--workers is '513', which is not from 1 to 512"},
	{{"test", "--workers", "1K"}, "--workers is '1K', which is not a whole number"},
	{{"test", "--memory", "64X"}, "--memory is '64X', which is not a size such as 64M"},
	{{"test", "--memory", "2T"}, "--memory is '2T', which is not from 256K to 1T"},
	{{"test", "--timeout", "5"}, "--timeout is '5', which is not a duration such as 30s"},
	{{"test", "--timeout", "2h"}, "--timeout is '2h', which is not from 1ms to 1h"},
	{{"test", "--listen", "http"}, "--listen 'http' is not PORT, HOST:PORT"},
	{{"test", "--config"}, "--config needs a value: --config FILE"},
	{{"test", "--config", "/nowhere.yaml"}, "--config /nowhere.yaml: No such file"},
};

static void reports_wrong_arguments(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(run(NOTHING, (const char **)wrong[i].argv), WR_OPTIONS_WRONG);
		if (!strstr(reported, wrong[i].reported) ||
		    strncmp(reported, "weir test: ", 11) != 0)
			fail_msg("expected '%s' in '%s'", wrong[i].reported, reported);
	}
}

static void errors_hide_secrets(void **state)
{
	(void)state;
	assert_int_equal(run((const char *[]){"WEIR_PASSWORD=hunter2", NULL},
			     (const char *[]){"test", NULL}),
			 WR_OPTIONS_WRONG);
	assert_null(strstr(reported, "hunter2"));
	assert_non_null(strstr(reported, "WEIR_PASSWORD has a value that is not one of"));
}

static const struct {
	const char *text, *reported;
} wrong_files[] = {
	{"workers: 1\nmemroy: 1G\n", ":2:1: there is no option 'memroy'; did you mean 'memory'?"},
	{"\n\nworkers: many\n", ":3:1: workers is 'many', which is not a whole number"},
	{"workers: [1, 2]\n", ":1:10: is a list; this option has one value"},
	{"words: {a: b}\n", ":1:8: has neither a value nor a list of values"},
	{"words: [a, {b: c}]\n", ":1:12: is not a value"},
	{"[a]: b\n", ":1:1: is not the name of an option"},
	{"- a\n", ":1:1: is not a list of `option: value`"},
	{"name: a\nname: b\n", ":2:1: name occurs twice"},
	{"words: [\n", ":2:1: did not find expected node content"},
	{"name: \"a\\0b\"\n", "name has a value with control characters"},
};

static void reports_the_location_in_a_file(void **state)
{
	char path[32];

	(void)state;
	for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
		write_config(path, wrong_files[i].text);
		assert_int_equal(run(NOTHING, ARGS("--config", path)), WR_OPTIONS_WRONG);
		if (!strstr(reported, wrong_files[i].reported) || !strstr(reported, path))
			fail_msg("expected '%s' in '%s'", wrong_files[i].reported, reported);
		unlink(path);
	}
}

static void reports_all_errors(void **state)
{
	char path[32];

	(void)state;
	write_config(path, "memroy: 1\nworkers: 0\n");
	assert_int_equal(run(NOTHING, ARGS("--config", path, "--nmae=x")), WR_OPTIONS_WRONG);
	assert_non_null(strstr(reported, "memroy"));
	assert_non_null(strstr(reported, "workers is '0'"));
	assert_non_null(strstr(reported, "did you mean --name?"));
	unlink(path);
}

static void lists_have_a_maximum(void **state)
{
	char many[4 * 65 + 1] = "";

	(void)state;
	for (int i = 0; i < 65; i++)
		memcpy(many + 4 * i, "abc,", 4);
	assert_int_equal(run(NOTHING, ARGS("--words", many)), WR_OPTIONS_WRONG);
	assert_non_null(strstr(reported, "has more than 64 items"));
	many[4 * 64] = 0;
	assert_int_equal(run(NOTHING, ARGS("--words", many)), WR_OPTIONS_READ);
	assert_int_equal(s.words.count, 64);
}

static void options_that_need_another_option(void **state)
{
	char path[32];

	(void)state;
	assert_int_equal(run(NOTHING, ARGS("--redis-patience", "1s")), WR_OPTIONS_WRONG);
	assert_non_null(strstr(reported, "weir test: --redis-patience needs --redis: "));
	assert_int_equal(run(((const char *[]){"WEIR_REDIS_PATIENCE=1s", NULL}),
			     ARGS("--queue", "redis://x")),
			 WR_OPTIONS_WRONG);
	assert_non_null(strstr(reported, "weir test: WEIR_REDIS_PATIENCE needs --redis: "));
	write_config(path, "depth: 2\n");
	assert_int_equal(run(NOTHING, ARGS("--config", path, "--queue", "file:/x")),
			 WR_OPTIONS_WRONG);
	assert_non_null(
		strstr(reported, "weir test: depth needs --redis, or a --queue in Redis: "));
	assert_int_equal(run(NOTHING, ARGS("--config", path, "--queue", "redis+unix:/x")),
			 WR_OPTIONS_READ);
	assert_int_equal(run(((const char *[]){"WEIR_REDIS=redis://x", NULL}),
			     ARGS("--config", path, "--redis-patience", "1s")),
			 WR_OPTIONS_READ);
	unlink(path);
}

static void options_of_a_queue_need_a_queue(void **state)
{
	struct wr_cli_command gateway = command;

	(void)state;
	gateway.has_default_queue = true;
	assert_int_equal(run(NOTHING, ARGS("--queue-patience", "1s")), WR_OPTIONS_WRONG);
	assert_non_null(strstr(reported, "weir test: --queue-patience needs --queue: without a "
					 "queue it has no effect\n"));
	assert_int_equal(run(NOTHING, ARGS("--queue-patience", "1s", "--queue", "off")),
			 WR_OPTIONS_WRONG);
	assert_int_equal(run(NOTHING, ARGS("--queue-patience", "1s", "--queue", "file:/x")),
			 WR_OPTIONS_READ);
	assert_int_equal(run(NOTHING, ARGS("--queue-trust", "--queue", "file:/x")),
			 WR_OPTIONS_WRONG);
	assert_non_null(strstr(reported, "weir test: --queue-trust needs a --queue in Redis: "
					 "without Redis it has no effect\n"));
	assert_int_equal(run(NOTHING, ARGS("--queue-trust=off")), WR_OPTIONS_READ);
	assert_int_equal(run(NOTHING, ARGS("--queue-trust", "--queue", "redis://x")),
			 WR_OPTIONS_READ);
	assert_int_equal(run_of(&gateway, NOTHING, ARGS("--queue-patience", "1s")),
			 WR_OPTIONS_READ);
	assert_int_equal(
		run_of(&gateway, NOTHING, ARGS("--queue-patience", "1s", "--queue", "off")),
		WR_OPTIONS_WRONG);
	assert_int_equal(run_of(&gateway, NOTHING, ARGS("--queue-trust")), WR_OPTIONS_WRONG);
}

/* ---- a command with words and without --config ---- */

static struct {
	struct wr_cli_words headers;
	int64_t hits;
	bool has_hits, all;
	const char *dir;
} w;
static struct wr_cli_words words;

#define AT_W(field) .at = offsetof(__typeof__(w), field)

static const struct wr_cli_option word_options[] = {
	{"header", WR_OPTION_REPEATED, "H", NULL, "a header", AT_W(headers), .letter = 'H'},
	{"hits", WR_OPTION_SIGNED, "N", "1", "cost", AT_W(hits), .max = 100,
	 .given_at = offsetof(__typeof__(w), has_hits)},
	{"all", WR_OPTION_SWITCH, NULL, NULL, "everything", AT_W(all), .variable = WR_NO_VARIABLE},
	{"dir", WR_OPTION_TEXT, "DIR", NULL, "a folder", AT_W(dir), .variable = "WEIR_TABLE_DIR"},
};

static const struct wr_cli_option_group word_groups[] = {WR_OPTION_GROUP("One", word_options, &w)};

static const struct wr_cli_command word_command = {
	"words", "weir words\n", "Examples\n", word_groups, 1, .words = &words, .words_max = 3};

static void words_between_options(void **state)
{
	(void)state;
	assert_int_equal(
		run_of(&word_command, NOTHING,
		       ARGS("get", "-H", "a: 1, 2", "--hits", "-7", "-", "-Hb:3", "--", "--all")),
		WR_OPTIONS_READ);
	assert_int_equal(words.count, 3);
	assert_string_equal(words.items[0], "get");
	assert_string_equal(words.items[1], "-");
	assert_string_equal(words.items[2], "--all");
	assert_false(w.all);
	assert_int_equal(w.headers.count, 2); /* a comma does not split a value */
	assert_string_equal(w.headers.items[0], "a: 1, 2");
	assert_string_equal(w.headers.items[1], "b:3");
	assert_int_equal(w.hits, -7);
	assert_true(w.has_hits);
}

static void variables_of_other_names(void **state)
{
	(void)state;
	assert_int_equal(
		run_of(&word_command,
		       ((const char *[]){"WEIR_ALL=on", "WEIR_TABLE_DIR=/x", "WEIR_DIR=/y",
					 "WEIR_HITS=5", "WEIR_CONFIG=/nowhere", "=on", NULL}),
		       ARGS("get")),
		WR_OPTIONS_READ);
	assert_false(w.all);
	assert_string_equal(w.dir, "/x");
	assert_int_equal(w.hits, 5);
	assert_false(w.has_hits); /* set by the command line only */
}

static void reports_wrong_words(void **state)
{
	static const struct {
		const char *argv[6];
		const char *reported;
	} cases[] = {
		{{"words", "a", "b", "c", "d"}, "'d' is an unexpected argument"},
		{{"words", "--hits", "101"}, "--hits is '101', which is not from -100 to 100"},
		{{"words", "--hits", "-101"}, "--hits is '-101', which is not from -100 to 100"},
		{{"words", "--hits", "-"}, "--hits is '-', which is not a whole number"},
		{{"words", "--hits", "1x"}, "--hits is '1x', which is not a whole number"},
		{{"words", "-H"}, "--header needs a value: --header H"},
		{{"words", "-x"}, "there is no option '-x'"},
		{{"words", "--al", "a"}, "there is no option --al; did you mean --all?"},
		{{"words", "--config", "x"}, "there is no option '--config'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(run_of(&word_command, NOTHING, (const char **)cases[i].argv),
				 WR_OPTIONS_WRONG);
		if (!strstr(reported, cases[i].reported))
			fail_msg("expected '%s' in '%s'", cases[i].reported, reported);
	}
}

static void help_names_variables(void **state)
{
	char text[4096] = "";
	FILE *out = fmemopen(text, sizeof text, "w");

	(void)state;
	wr_cli_options_help(&word_command, out);
	fclose(out);
	assert_non_null(strstr(text, "  -H, --header H            a header (WEIR_HEADER)\n"));
	assert_non_null(strstr(text, "  --hits N                  cost (default: 1; WEIR_HITS)\n"));
	assert_non_null(strstr(text, "  --all                     everything\n"));
	assert_non_null(strstr(text, "  --dir DIR                 a folder (WEIR_TABLE_DIR)\n"));
	assert_non_null(strstr(text, "The other options have no variable"));
	assert_null(strstr(text, "--config"));
}

static void help_is_the_table(void **state)
{
	char text[4096] = "";
	FILE *out = fmemopen(text, sizeof text, "w");

	(void)state;
	assert_int_equal(run(NOTHING, ARGS("--bogus", "--help")), WR_OPTIONS_HELP);
	wr_cli_options_help(&command, out);
	fclose(out);
	assert_non_null(strstr(text, "\nTwo\n  --workers N               how many (default: 1)\n"));
	assert_non_null(strstr(text, "  --words WORD,…            some words\n"
				     "                            on two lines (default: a,b)\n"));
	assert_non_null(strstr(text, "Examples\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(defaults, setup, teardown),
		cmocka_unit_test_setup_teardown(flags_of_every_kind, setup, teardown),
		cmocka_unit_test_setup_teardown(command_line_over_environment_over_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(config_by_variable, setup, teardown),
		cmocka_unit_test_setup_teardown(reports_wrong_arguments, setup, teardown),
		cmocka_unit_test_setup_teardown(errors_hide_secrets, setup, teardown),
		cmocka_unit_test_setup_teardown(reports_the_location_in_a_file, setup, teardown),
		cmocka_unit_test_setup_teardown(reports_all_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(lists_have_a_maximum, setup, teardown),
		cmocka_unit_test_setup_teardown(options_that_need_another_option, setup, teardown),
		cmocka_unit_test_setup_teardown(options_of_a_queue_need_a_queue, setup, teardown),
		cmocka_unit_test_setup_teardown(words_between_options, setup, teardown),
		cmocka_unit_test_setup_teardown(variables_of_other_names, setup, teardown),
		cmocka_unit_test_setup_teardown(reports_wrong_words, setup, teardown),
		cmocka_unit_test_setup_teardown(help_names_variables, setup, teardown),
		cmocka_unit_test_setup_teardown(help_is_the_table, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
