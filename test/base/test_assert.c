/* wr_assert: a true condition has no effect; a false condition is reported on stderr and aborts. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/assert.h"

struct object {
	uint32_t magic;
};
#define OBJECT_MAGIC 0x5eed1234u

static void fail_condition(void)
{
	int answer = 42;

	wr_assert(answer == 43);
}

static void require_magic(const struct object *object)
{
	wr_assert_magic(object, OBJECT_MAGIC);
}

static void fail_magic(void)
{
	require_magic(&(struct object){.magic = 7});
}

static void fail_null(void)
{
	require_magic(NULL);
}

static void fail_with_long_text(void)
{
	char text[2000];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	wr_assert_failed("file.c", 1, text);
}

/* Runs `body` in a child process, which SIGABRT must end. Copies the stderr of the child to `text`,
 * and returns its length. */
static size_t stderr_of(void (*body)(void), char *text, size_t cap)
{
	int fds[2], status;
	size_t len = 0;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		body();
		_exit(0);
	}
	close(fds[1]);
	while ((got = read(fds[0], text + len, cap - 1 - len)) > 0)
		len += (size_t)got;
	text[len] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	return len;
}

static void a_true_condition_has_no_effect(void **state)
{
	int count = 0;

	wr_assert(++count == 1); /* the condition is evaluated once, even with NDEBUG */
	require_magic(&(struct object){.magic = OBJECT_MAGIC});
	assert_int_equal(count, 1);
	(void)state;
}

static void a_false_condition_is_reported_and_aborts(void **state)
{
	char text[2048];

	stderr_of(fail_condition, text, sizeof text);
	assert_memory_equal(text, "weir: ", 6);
	assert_non_null(strstr(text, "test_assert.c:"));
	assert_non_null(strstr(text, ": assertion failed: answer == 43\n"));
	(void)state;
}

static void a_wrong_magic_aborts(void **state)
{
	char text[2048];

	stderr_of(fail_magic, text, sizeof text);
	assert_non_null(strstr(text, "magic"));
	stderr_of(fail_null, text, sizeof text);
	assert_non_null(strstr(text, "magic"));
	(void)state;
}

static void a_long_condition_is_cut(void **state)
{
	char text[2048];

	assert_int_equal(stderr_of(fail_with_long_text, text, sizeof text), 511);
	assert_memory_equal(text, "weir: file.c:1: assertion failed: xxx", 37);
	assert_string_equal(text + 508, "xx\n");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_true_condition_has_no_effect),
		cmocka_unit_test(a_false_condition_is_reported_and_aborts),
		cmocka_unit_test(a_wrong_magic_aborts),
		cmocka_unit_test(a_long_condition_is_cut),
	};

	return cmocka_run_group_tests_name("base_assert", tests, NULL, NULL);
}
