/* Each diagnostic has a file in fixtures/ with its name. The comments at the top of a file list all
 * diagnostics of the file:
 *
 *   # 5:7: error: unknown key 'untis' in a limit; did you mean `unit`?
 *
 * "# bounds: NAME=NUMBER" lowers a bound, "# zones: here" reads time zones from fixtures/.zones. A
 * fixture of several files is a directory with an .expect file, whose lines name the file as well.
 * With an argument, the program prints the diagnostics. */
#include "helper.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "rules/diag.h"
#include "rules/load.h"

#define TEXT_MAX 16384

static const struct {
	const char *name;
	size_t offset;
	size_t size;
} bound_names[] = {
#define BOUND(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct wr_bounds, name), sizeof((struct wr_bounds *)NULL)->name    \
	}
	BOUND(files),      BOUND(bytes),     BOUND(yaml_depth), BOUND(yaml_values),
	BOUND(wildcards),  BOUND(requests),  BOUND(addresses),  BOUND(text_bytes),
	BOUND(body_bytes), BOUND(lint_steps)};

static void set_bound(struct wr_bounds *bounds, const char *text)
{
	const char *equals = strchr(text, '=');
	uint64_t number = strtoull(equals + 1, NULL, 10);

	for (size_t i = 0; i < sizeof bound_names / sizeof *bound_names; i++)
		if (strncmp(text, bound_names[i].name, (size_t)(equals - text)) == 0) {
			memcpy((char *)bounds + bound_names[i].offset, &number,
			       bound_names[i].size);
			return;
		}
	fail_msg("there is no bound %s", text);
}

/* Reads the expected diagnostics of a fixture, one per line, without "# ". */
static void read_expected(const char *name, bool directory, char expected[TEXT_MAX],
			  struct wr_bounds *bounds, const char **zones)
{
	char path[512], line[2048];
	FILE *file;

	snprintf(path, sizeof path, directory ? "%s/.expect" : "%s", name);
	file = fopen(path, "r");
	expected[0] = '\0';
	while (file && fgets(line, sizeof line, file) && strncmp(line, "# ", 2) == 0) {
		if (strncmp(line, "# bounds: ", 10) == 0)
			set_bound(bounds, line + 10);
		else if (strncmp(line, "# zones: here", 13) == 0)
			*zones = ".zones";
		else if (strncmp(line, "# schema: ", 10) != 0)
			strncat(expected, line + 2, TEXT_MAX - strlen(expected) - 1);
	}
	if (file)
		fclose(file);
}

static void describe(const struct weir_errors *errors, const char *name, bool directory,
		     char text[TEXT_MAX])
{
	text[0] = '\0';
	for (size_t i = 0; i < errors->count; i++) {
		const struct weir_diagnostic *d = &errors->items[i];
		const char *file = directory && strlen(d->file) > strlen(name)
					   ? d->file + strlen(name) + 1
					   : "";
		char location[64] = "";
		size_t len = strlen(text);

		if (d->line)
			snprintf(location, sizeof location, "%u:%u: ", d->line, d->column);
		snprintf(text + len, TEXT_MAX - len, "%s%s%s%s: %s\n", file, *file ? ":" : "",
			 location, d->severity == WEIR_ERROR ? "error" : "warning", d->text);
	}
}

static bool says(const struct weir_errors *errors, const char *id)
{
	for (size_t i = 0; i < errors->count; i++)
		if (strcmp(errors->items[i].id, id) == 0)
			return true;
	return false;
}

/* Returns whether the diagnostics of the fixture are the expected ones. */
static bool run_fixture(const char *name, const char *id, bool directory, bool show)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_bounds bounds = wr_default_bounds;
	static char expected[TEXT_MAX], actual[TEXT_MAX];
	const char *zones = WR_ZONE_DIRECTORY;
	struct weir_rules *rules;
	bool good;

	read_expected(name, directory, expected, &bounds, &zones);
	wr_rules_load_within(name, &bounds, zones, &rules, &errors);
	describe(&errors, name, directory, actual);
	good = strcmp(expected, actual) == 0;
	if (show)
		printf("%s", actual);
	else if (!good)
		print_message("%s\nexpected:\n%sgot:\n%s\n", name, expected, actual);
	for (int i = 0; i < WR_D_COUNT && !show; i++)
		if (strcmp(id, wr_diag_name(i)) == 0 && !says(&errors, id)) {
			print_message("%s does not say what it is named after\n", name);
			good = false;
		}
	assert_true((errors.errors == 0) == (rules != NULL));
	weir_rules_free(rules);
	weir_errors_free(&errors);
	return good;
}

static void fixtures_have_the_expected_diagnostics(void **state)
{
	struct dirent **entries;
	int count = scandir(".", &entries, NULL, alphasort);
	int wrong = 0;

	assert_true(count > WR_D_COUNT);
	for (int i = 0; i < count; i++) {
		char id[256];
		struct stat st;

		snprintf(id, sizeof id, "%s", entries[i]->d_name);
		if (strchr(id, '.') && id[0] != '.')
			*strchr(id, '.') = '\0';
		assert_int_equal(stat(entries[i]->d_name, &st), 0);
		if (entries[i]->d_name[0] != '.')
			wrong += !run_fixture(entries[i]->d_name, id, S_ISDIR(st.st_mode), false);
		free(entries[i]);
	}
	free(entries);
	assert_int_equal(wrong, 0);
	(void)state;
}

static void everything_has_a_fixture(void **state)
{
	int missing = 0;

	for (int i = 0; i < WR_D_COUNT; i++) {
		char file[256];

		snprintf(file, sizeof file, "%s.yaml", wr_diag_name(i));
		if (access(file, R_OK) == 0 || access(wr_diag_name(i), R_OK) == 0)
			continue;
		print_message("no fixture for %s\n", wr_diag_name(i));
		missing++;
	}
	assert_int_equal(missing, 0);
	(void)state;
}

/* The text of a diagnostic contains the line of the file, and a caret below the location. */
static void carets_point_at_the_location(void **state)
{
	struct weir_diagnostic d = {.severity = WEIR_ERROR,
				    .line = 3,
				    .column = 4,
				    .width = 3,
				    .file = "é.yaml",
				    .text = "wrong",
				    .source = "\té bad x"};
	char text[256];
	size_t len = weir_diagnostic_text(&d, text, sizeof text);

	assert_string_equal(text, "é.yaml:3:4: error: wrong\n     é bad x\n       ^~~\n");
	assert_int_equal(len, strlen(text));
	d.severity = WEIR_WARNING;
	d.line = 0;
	assert_int_equal(weir_diagnostic_text(&d, text, 10), 24);
	assert_string_equal(text, "é.yaml: ");
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixtures_have_the_expected_diagnostics),
		cmocka_unit_test(everything_has_a_fixture),
		cmocka_unit_test(carets_point_at_the_location),
	};
	struct stat st;

	if (argc > 1) {
		if (stat(argv[1], &st) == 0)
			run_fixture(argv[1], "", S_ISDIR(st.st_mode), true);
		return 0;
	}
	if (chdir(TEST_FIXTURES) != 0)
		return 1;
	return cmocka_run_group_tests_name("rules_fixtures", tests, NULL, NULL);
}
