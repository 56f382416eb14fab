/* Tests that a process cannot regain rights that it has given up. Each case runs in a process of
 * its own, which root starts. */
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/user.h"

/* Returns the value of the line with this name in /proc/self/status. */
static const char *status_of(const char *name)
{
	static char line[512];
	FILE *file = fopen("/proc/self/status", "re");
	size_t len = strlen(name);
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file))
		found = strncmp(line, name, len) == 0 && line[len] == ':';
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = 0;
	return found ? line + len + 1 + strspn(line + len + 1, " \t") : "";
}

static bool has_no_capability(void)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapAmb"};

	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		if (strcmp(status_of(sets[i]), "0000000000000000") != 0)
			return false;
	return true;
}

/* Returns 0, or the number of the step that failed. */
static int become_nobody(void)
{
	const gid_t many[] = {0, 4, 6};
	struct wr_user user;
	struct weir_error error;

	if (setgroups(3, many) != 0 || wr_user_find("nobody", &user, &error) != 0 || !user.change)
		return 1;
	if (wr_user_become(&user, &error) != 0)
		return 2;
	if (strcmp(status_of("Uid"), "65534\t65534\t65534\t65534") != 0 ||
	    strcmp(status_of("Gid"), "65534\t65534\t65534\t65534") != 0)
		return 3;
	if (strtol(status_of("Groups"), NULL, 10) != 65534)
		return 4;
	if (!has_no_capability() || strcmp(status_of("CapBnd"), "0000000000000000") != 0)
		return 5;
	if (strcmp(status_of("NoNewPrivs"), "1") != 0)
		return 6;
	return setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0 ? 7 : 0;
}

/* Becomes a user id without an account, whose only group is its own number. Returns 0, or the
 * number of the step that failed. */
static int become_number(void)
{
	const gid_t many[] = {0, 4, 6};
	struct wr_user user;
	struct weir_error error;

	if (setgroups(3, many) != 0 || wr_user_find("60901", &user, &error) != 0 || !user.change)
		return 1;
	if (wr_user_become(&user, &error) != 0)
		return 2;
	if (strcmp(status_of("Uid"), "60901\t60901\t60901\t60901") != 0 ||
	    strcmp(status_of("Gid"), "60901\t60901\t60901\t60901") != 0 ||
	    strcmp(status_of("Groups"), "60901 ") != 0)
		return 3;
	return !has_no_capability() || setuid(0) == 0 ? 4 : 0;
}

static int stay_root(void)
{
	struct wr_user user;
	struct weir_error error;

	if (wr_user_find("root", &user, &error) != 0 || user.change ||
	    wr_user_stays_root("root", &user) || !wr_user_stays_root(NULL, &user))
		return 1;
	if (wr_user_become(&user, &error) != 0 || geteuid() != 0)
		return 2;
	return strcmp(status_of("NoNewPrivs"), "1") != 0 ? 3 : 0;
}

/* Runs as an ordinary user with a capability, as systemd starts it with AmbientCapabilities=.
 * Returns 0, or the number of the step that failed. */
static int anybody(void)
{
	struct wr_user user;
	struct weir_error error;

	if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
		return 1;
	if (wr_user_find(NULL, &user, &error) != 0 || user.change ||
	    wr_user_stays_root(NULL, &user))
		return 2;
	if (wr_user_become(&user, &error) != 0)
		return 3;
	return !has_no_capability() || strcmp(status_of("NoNewPrivs"), "1") != 0 ? 4 : 0;
}

static int run(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_become(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(run(become_nobody), 0);
	assert_int_equal(run(become_number), 0);
}

/* 0 and 65534 belong to accounts; 65535 and 4294967295 mean "no user" to the kernel. */
static void test_numbers_that_are_not_free(void **state)
{
	static const char *const numbers[] = {"0",          "65534",      "65535",
					      "4294967295", "4294967296", "99999999999999999999",
					      "60901x",     "-60901"};
	struct wr_user user;
	struct weir_error error;

	(void)state;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		assert_int_equal(wr_user_find(numbers[i], &user, &error), WEIR_EINVAL);
}

static void test_root(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(run(stay_root), 0);
}

static void test_anybody(void **state)
{
	(void)state;
	assert_int_equal(run(anybody), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_become),
		cmocka_unit_test(test_numbers_that_are_not_free),
		cmocka_unit_test(test_root),
		cmocka_unit_test(test_anybody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
