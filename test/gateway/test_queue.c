/* Tests whether a gateway has a queue for deferred requests, and in which folder. */
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

#include "gateway/plan.h"
#include "needs.h"

#define NOBODY 65534

static const char defers[] = "domain: api\n"
			     "descriptors:\n"
			     "- key: a\n"
			     "  descriptors:\n"
			     "  - key: b\n"
			     "    rate_limit: {unit: day, requests_per_unit: 1, on_limit: defer}\n"
			     "- key: c\n"
			     "  rate_limit: {unit: day, requests_per_unit: 1}\n";
static const char refuses[] = "domain: api\n"
			      "descriptors:\n"
			      "- key: c\n"
			      "  rate_limit: {unit: day, requests_per_unit: 1}\n";

static char folder[64];
static struct wr_arena arena;
static struct wr_gateway_settings settings;
static struct wr_gateway_plan plan;
static struct weir_error error;

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/weir-test-queue-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	wr_arena_init(&arena, 65536);
	settings = (struct wr_gateway_settings){.listen = {.count = 1}};
	plan = (struct wr_gateway_plan){.settings = &settings,
					.domain = "api",
					.name = "gateway-8080",
					.socket = "/run/weir.sock",
					.deliver = "/run/deliver/api.sock"};
	error.text[0] = 0;
	unsetenv("XDG_STATE_HOME");
	return setenv("HOME", folder, 1);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	if (seteuid(getuid()) != 0)
		return -1;
	wr_arena_free(&arena);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	// NOLINTNEXTLINE(cert-env33-c): a folder this test has made
	return system(command);
}

static int plan_with(const char *text)
{
	char path[96];
	struct weir_rules *rules;
	FILE *file;
	int rc;

	snprintf(path, sizeof path, "%s/rules.yaml", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(weir_rules_load(path, &rules, NULL), 0);
	rc = wr_gateway_plan_queue(&plan, rules, &arena, &error);
	weir_rules_free(rules);
	return rc;
}

static void has_a_queue_only_if_a_rule_defers(void **state)
{
	(void)state;
	assert_int_equal(plan_with(refuses), 0);
	assert_null(plan.queue);
	settings.queue = "file:/srv/queue";
	assert_int_equal(plan_with(refuses), 0);
	assert_string_equal(plan.queue, "file:/srv/queue");
	settings.queue = "off";
	assert_int_equal(plan_with(defers), 0);
	assert_null(plan.queue);
}

/* With print_config no folder is created in /var/lib. */
static void queue_of_root_is_in_var_lib(void **state)
{
	(void)state;
	needs("root");
	settings.print_config = true;
	assert_int_equal(plan_with(defers), 0);
	assert_string_equal(plan.queue, "file:/var/lib/weir/gateway-8080/queue");
}

/* If root runs this test, the process changes to another user. */
static void queue_of_a_user_is_in_the_home_folder(void **state)
{
	char expected[160];
	struct stat st;

	(void)state;
	if (getuid() == 0) {
		assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
		assert_int_equal(seteuid(NOBODY), 0);
	}
	assert_int_equal(plan_with(defers), 0);
	snprintf(expected, sizeof expected, "file:%s/.local/state/weir/gateway-8080/queue", folder);
	assert_string_equal(plan.queue, expected);
	*strrchr(expected, '/') = 0;
	assert_int_equal(stat(expected + 5, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	snprintf(expected, sizeof expected, "%s/state", folder);
	setenv("XDG_STATE_HOME", expected, 1);
	assert_int_equal(plan_with(defers), 0);
	snprintf(expected, sizeof expected, "file:%s/state/weir/gateway-8080/queue", folder);
	assert_string_equal(plan.queue, expected);
	unsetenv("XDG_STATE_HOME");
	unsetenv("HOME");
	assert_int_equal(plan_with(defers), -1);
	assert_non_null(strstr(error.text, "--queue file:/FOLDER"));
}

static void refuses_a_socket_path_that_is_too_long(void **state)
{
	char path[160];

	(void)state;
	memset(path, 'x', sizeof path - 1);
	path[0] = '/';
	path[sizeof path - 1] = 0;
	plan.deliver = path;
	settings.queue = "file:/srv/queue";
	assert_int_equal(plan_with(defers), -1);
	assert_non_null(strstr(error.text, "--runtime DIR"));
	settings.queue = "off";
	assert_int_equal(plan_with(defers), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(has_a_queue_only_if_a_rule_defers, setup, teardown),
		cmocka_unit_test_setup_teardown(queue_of_root_is_in_var_lib, setup, teardown),
		cmocka_unit_test_setup_teardown(queue_of_a_user_is_in_the_home_folder, setup,
						teardown),
		cmocka_unit_test_setup_teardown(refuses_a_socket_path_that_is_too_long, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
