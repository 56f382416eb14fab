/* Reads scenarios. Each diagnostic has a file in scenarios/ with its name. The comments at the top of
 * a file list all its diagnostics:
 *
 *   # 4:8: error: `nodes` must be a whole number from 1 to 4096, without quotes
 *
 * With an argument, the program prints the diagnostics of that file. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/simulate/scenario_fields.h"
#include "rules/rules.h"

#define TEXT_MAX 16384
#define MS 1000000ull
#define S_NS (1000 * MS)

static void read_expected(const char *path, char text[TEXT_MAX])
{
	char line[2048];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[0] = '\0';
	while (fgets(line, sizeof line, file) && strncmp(line, "# ", 2) == 0)
		strncat(text, line + 2, TEXT_MAX - strlen(text) - 1);
	fclose(file);
}

static void describe(const struct weir_errors *errors, char text[TEXT_MAX])
{
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < errors->count; i++) {
		const struct weir_diagnostic *d = &errors->items[i];

		len += (size_t)snprintf(text + len, TEXT_MAX - len, "%u:%u: %s: %s\n", d->line,
					d->column, d->severity == WEIR_ERROR ? "error" : "warning",
					d->text);
	}
}

static bool says(const struct weir_errors *errors, const char *id)
{
	for (size_t i = 0; i < errors->count; i++)
		if (strcmp(errors->items[i].id, id) == 0)
			return true;
	return false;
}

/* Returns whether the file has the expected diagnostics, and sets the flags of its diagnostics. */
static bool run_file(const char *path, bool seen[WR_LAB_D_COUNT])
{
	static const char *const ids[] = {
#define ID(id, text) #id,
		WR_LAB_SCENARIO_DIAGNOSTICS(ID)
#undef ID
	};
	static char expected[TEXT_MAX], actual[TEXT_MAX];
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_lab_scenario *scenario;
	int rc = wr_lab_scenario_load(path, &scenario, &errors);
	bool good;

	read_expected(path, expected);
	describe(&errors, actual);
	good = strcmp(expected, actual) == 0 && (rc == 0) == (errors.errors == 0) &&
	       (rc == 0) == (scenario != NULL);
	if (!good)
		print_message("%s\nexpected:\n%sgot:\n%s\n", path, expected, actual);
	for (size_t i = 0; i < WR_LAB_D_COUNT; i++)
		seen[i] |= says(&errors, ids[i]);
	wr_lab_scenario_free(scenario);
	weir_errors_free(&errors);
	return good;
}

static void test_files_have_the_expected_diagnostics(void **state)
{
	bool seen[WR_LAB_D_COUNT] = {false};
	struct dirent **entries;
	int count = scandir(TEST_SCENARIOS, &entries, NULL, alphasort), wrong = 0, files = 0;

	(void)state;
	assert_true(count > 0);
	assert_int_equal(chdir(TEST_SCENARIOS), 0);
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.') {
			wrong += !run_file(entries[i]->d_name, seen);
			files++;
		}
		free(entries[i]);
	}
	free(entries);
	assert_int_equal(wrong, 0);
	assert_true(files > 60);
	/* these two are about files that are not in the folder */
	seen[WR_LAB_D_not_a_file] = seen[WR_LAB_D_too_large] = true;
	for (int i = 0; i < WR_LAB_D_COUNT; i++)
		if (!seen[i])
			fail_msg("no file for diagnostic number %d", i);
}

static void assert_only_error(const char *path, const char *text)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_lab_scenario *scenario;

	assert_int_equal(wr_lab_scenario_load(path, &scenario, &errors), WEIR_ERULES);
	assert_null(scenario);
	assert_int_equal(errors.count, 1);
	assert_string_equal(errors.items[0].text, text);
	assert_string_equal(errors.items[0].file, path);
	weir_errors_free(&errors);
}

static void test_a_path_that_is_no_scenario(void **state)
{
	char path[] = "/tmp/weir-scenario-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_only_error("/tmp", "this is a directory; name a file with a scenario");
	assert_only_error("/nonexistent/a.yaml",
			  "cannot read this path: No such file or directory; "
			  "check the path and its permissions");
	assert_int_equal(ftruncate(fd, 1000001), 0);
	assert_only_error(path,
			  "the file has more than 1000000 bytes; name a file with a scenario");
	close(fd);
	unlink(path);
}

static struct wr_lab_scenario *load(const char *path)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_lab_scenario *scenario;

	assert_int_equal(wr_lab_scenario_load(path, &scenario, &errors), 0);
	assert_int_equal(errors.count, 0);
	weir_errors_free(&errors);
	return scenario;
}

static void test_defaults(void **state)
{
	struct wr_lab_scenario *s = load(TEST_SCENARIOS "/good.yaml");

	(void)state;
	assert_string_equal(s->title, "good.yaml");
	assert_string_equal(s->folder, TEST_SCENARIOS "/");
	assert_int_equal(s->algorithm, WEIR_FIXED_WINDOW);
	assert_int_equal(s->limit, 10);
	assert_int_equal(s->period_ns, S_NS);
	assert_int_equal(s->mode_count, 4);
	assert_int_equal(s->sync_ns[0], 100 * MS);
	assert_int_equal(s->nodes[0], 1);
	assert_int_equal(s->region_count, 1);
	assert_int_equal(s->regions[0].near_ns, MS / 2);
	assert_int_equal(s->timeout_ns, 250 * MS);
	assert_int_equal(s->clients, 1);
	assert_int_equal(s->duration_ns, 30 * S_NS);
	assert_int_equal(s->traffic[0].rate_mhz, 10000);
	assert_int_equal(s->traffic[0].regions, 1);
	assert_int_equal(s->seed, 1);
	assert_int_equal(s->seeds, 1);
	assert_int_equal(wr_lab_scenario_capacity(s), 10);
	wr_lab_scenario_free(s);
}

static void test_fleet_of_a_scenario(void **state)
{
	struct wr_lab_scenario *s = load(TEST_SCENARIOS "/good_all_keys.yaml");

	(void)state;
	assert_string_equal(s->title, "All keys");
	assert_int_equal(s->algorithm, WEIR_TOKEN_BUCKET);
	assert_int_equal(s->period_ns, 60 * S_NS);
	assert_int_equal(s->on_store_failure, WR_FAIL_DENY);
	assert_int_equal(wr_lab_scenario_capacity(s), 20);
	assert_int_equal(s->sync_count, 2);
	assert_int_equal(s->node_counts, 2);
	assert_int_equal(wr_lab_scenario_sites(s), 3);
	assert_int_equal(wr_lab_scenario_nodes(s, 2), 2 * 3 + 2);
	assert_int_equal(s->regions[0].far_ns, 5 * MS);
	assert_int_equal(s->regions[1].far_ns, 700000);
	assert_true(s->shared_redis);
	assert_int_equal(s->redis_region, 0);
	assert_int_equal(s->loss_ppm, 5000);
	assert_int_equal(s->links[0].delay_ns, 45 * MS);
	assert_int_equal(s->zipf_milli, 1200);
	assert_int_equal(s->spread, WR_LAB_SPREAD_ROUND_ROBIN);
	wr_lab_scenario_free(s);
}

static void test_traffic_and_faults_of_a_scenario(void **state)
{
	struct wr_lab_scenario *s = load(TEST_SCENARIOS "/good_all_keys.yaml");

	(void)state;
	assert_int_equal(s->traffic_count, 4);
	assert_int_equal(s->traffic[0].rate_mhz, 1500); /* 90 per minute */
	assert_int_equal(s->traffic[0].client, 3);
	assert_int_equal(s->traffic[0].cost, 2);
	assert_int_equal(s->traffic[0].regions, 2);
	assert_int_equal(s->traffic[1].burst, 10);
	assert_int_equal(s->traffic[1].regions, 3);
	assert_int_equal(s->traffic[2].peak_mhz, 100000);
	assert_int_equal(s->traffic[3].client, 1); /* the default of an attack */
	/* faults are sorted by time */
	assert_int_equal(s->fault_count, 8);
	assert_int_equal(s->faults[0].kind, WR_LAB_PARTITION);
	assert_int_equal(s->faults[0].regions, 2);
	assert_int_equal(s->faults[1].kind, WR_LAB_LOSS);
	assert_int_equal(s->faults[1].loss_ppm, 10000);
	assert_int_equal(s->faults[6].node, 6);
	assert_true(s->faults[7].by_ns == -2 * (int64_t)S_NS);
	assert_int_equal(s->seed, 7);
	assert_int_equal(s->seeds, 2);
	wr_lab_scenario_free(s);
}

/* Every byte of a scenario is cut off or changed. The reader must not crash, and must not accept a
 * file without freeing what it read. */
static void test_damaged_files(void **state)
{
	char path[] = "/tmp/weir-scenario-XXXXXX", text[4096];
	FILE *file = fopen(TEST_SCENARIOS "/good_all_keys.yaml", "r");
	size_t len = fread(text, 1, sizeof text, file);
	int fd = mkstemp(path);

	(void)state;
	fclose(file);
	assert_true(len > 1000 && len < sizeof text && fd >= 0);
	for (size_t i = 0; i < 2 * len; i++) {
		struct weir_errors errors = {.size = sizeof errors};
		struct wr_lab_scenario *scenario;
		size_t size = i < len ? i : len;
		char kept = text[i % len];

		if (i >= len)
			text[i - len] = "\0[{:9-"[i % 6];
		assert_int_equal(pwrite(fd, text, size, 0), size);
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		text[i % len] = kept;
		wr_lab_scenario_load(path, &scenario, &errors);
		wr_lab_scenario_free(scenario);
		weir_errors_free(&errors);
	}
	close(fd);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_have_the_expected_diagnostics),
		cmocka_unit_test(test_a_path_that_is_no_scenario),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_fleet_of_a_scenario),
		cmocka_unit_test(test_traffic_and_faults_of_a_scenario),
		cmocka_unit_test(test_damaged_files),
	};

	if (argc > 1) {
		bool seen[WR_LAB_D_COUNT] = {false};

		run_file(argv[1], seen);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
