/* Tests wr_cli_arguments_hide(): it overwrites passwords in argv, but not in its copy of the
 * arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/options/arguments.h"

static const struct wr_cli_option options[] = {
	{"redis", WR_OPTION_TEXT, "URL", NULL, "", .secret = true},
	{"peer", WR_OPTION_LIST, "URL,…", NULL, "", .secret = true},
	{"redis-prefix", WR_OPTION_TEXT, "TEXT", NULL, "", .at = 0},
	{"loud", WR_OPTION_SWITCH, NULL, NULL, "", .at = 0},
};
static const struct wr_cli_option_group groups[] = {{"One", options, 4, NULL}};
static const struct wr_cli_command command = {"test", "", "", groups, .group_count = 1};

/* Splits `line` into arguments, hides their passwords, and returns the changed arguments as a line.
 * The result is valid until the next call. */
static const char *shown(const char *line, bool *hidden)
{
	static char words[512], text[512];
	char *argv[16], *save = NULL, **copy;
	char again[512] = "";
	int argc = 0;

	snprintf(words, sizeof words, "%s", line);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	copy = wr_cli_arguments_hide(&command, argc, argv, hidden);
	assert_non_null(copy);
	assert_null(copy[argc]);
	text[0] = '\0';
	for (int i = 0; i < argc; i++) {
		size_t at = strlen(text);

		snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", argv[i]);
		snprintf(again + strlen(again), sizeof again - strlen(again), "%s%s", i ? " " : "",
			 copy[i]);
	}
	assert_string_equal(again, line);
	free(copy);
	return text;
}

static void assert_hidden(const char *line, const char *expected)
{
	bool hidden;

	assert_string_equal(shown(line, &hidden), expected);
	assert_true(hidden);
}

static void assert_unchanged(const char *line)
{
	bool hidden;

	assert_string_equal(shown(line, &hidden), line);
	assert_false(hidden);
}

static void hides_passwords(void **state)
{
	(void)state;
	assert_hidden("test --redis redis://weir:hush@h:1/2 --loud",
		      "test --redis redis://weir:****@h:1/2 --loud");
	assert_hidden("test --redis=redis://:hush@h", "test --redis=redis://:****@h");
	assert_hidden("test --redis redis://u:a@b:c@h", "test --redis redis://u:*****@h");
	assert_hidden("test --redis redis+sentinel://u:pw@a:1,b:2/m?sentinel_password=hush",
		      "test --redis redis+sentinel://u:**@a:1,b:2/m?sentinel_password=****");
	assert_hidden("test --redis redis+sentinel://a/m?sentinel_password=x@y",
		      "test --redis redis+sentinel://a/m?sentinel_password=***");
}

static void hides_every_password_of_a_list(void **state)
{
	(void)state;
	assert_hidden(
		"test --peer redis://u:one@a,redis://b,redis://:two@c --peer=redis://:three@d",
		"test --peer redis://u:***@a,redis://b,redis://:***@c --peer=redis://:*****@d");
}

static void keeps_text_without_passwords(void **state)
{
	(void)state;
	assert_unchanged("test");
	assert_unchanged("test --redis");
	assert_unchanged("test --redis=");
	assert_unchanged("test --redis redis://h:6379/1 --redis-prefix a://b:c@d");
	assert_unchanged("test --redis redis://user@h:6379");
	assert_unchanged("test --redis redis+unix:///run/redis?db=3");
	assert_unchanged("test - -- --= --unknown redis://:a@b");
	assert_unchanged("--redis=redis://:a@b"); /* argv[0], the command's name */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hides_passwords),
		cmocka_unit_test(hides_every_password_of_a_list),
		cmocka_unit_test(keeps_text_without_passwords),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
