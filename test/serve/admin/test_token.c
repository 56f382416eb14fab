/* Token files whose mode cannot be read, because fstat() fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool broken;

/* On failure *info is all zero, which looks like a file without rights for other users. */
static int fstat_or_fail(int fd, struct stat *info)
{
	memset(info, 0, sizeof *info);
	if (!broken)
		return fstat(fd, info);
	errno = EOVERFLOW;
	return -1;
}

#define fstat fstat_or_fail
#include "serve/admin/token.c"
#undef fstat

#define FIRST "a-token-of-the-first-file"
#define SECOND "a-token-of-the-second-file"

static char path[] = "/tmp/weir-test-token-XXXXXX";

/* Sets the time of the file to `second`, so that each file is newer than the one before. */
static void write_token(const char *token, time_t second)
{
	struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fprintf(file, "%s\n", token) > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static bool knows(struct wr_tokens *tokens, const char *token)
{
	char field[64];

	snprintf(field, sizeof field, "Bearer %s", token);
	return wr_tokens_find(tokens, wr_str(field)) != NULL;
}

static void a_file_without_a_readable_mode_is_refused(void **state)
{
	struct wr_tokens *tokens = (struct wr_tokens *)1;
	struct weir_error error = {0};
	char expected[128];

	(void)state;
	write_token(FIRST, 1000);
	broken = true;
	assert_int_equal(wr_tokens_open(path, &tokens, &error), WEIR_ESYS);
	broken = false;
	assert_null(tokens);
	wr_tokens_free(tokens);
	snprintf(expected, sizeof expected, "cannot read the mode of %s: %s", path,
		 strerror(EOVERFLOW));
	assert_string_equal(error.text, expected);
}

/* The tokens stay as they are while the changed file cannot be read. The file is read as soon as
 * that is possible, without another change, so that a removed token becomes invalid. */
static void a_failed_refresh_is_retried(void **state)
{
	struct wr_tokens *tokens = NULL;
	struct weir_error error;

	(void)state;
	write_token(FIRST, 1000);
	if (wr_tokens_open(path, &tokens, &error) < 0 || !tokens) {
		fail_msg("%s", error.text);
		return;
	}
	write_token(SECOND, 2000);
	broken = true;
	assert_true(knows(tokens, FIRST));
	assert_false(knows(tokens, SECOND));
	broken = false;
	assert_true(knows(tokens, SECOND));
	assert_false(knows(tokens, FIRST));
	wr_tokens_free(tokens);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_without_a_readable_mode_is_refused),
		cmocka_unit_test(a_failed_refresh_is_retried),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
