/* By which name lines are taken: the same again after its process has ended, and never two at a
 * time. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "queue/redis_backend.h"

static char folder[] = "/tmp/weir-test-owner-XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/weir-test-owner-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/table.queue", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void begin(struct wr_queue_owner *owner, const char *file)
{
	assert_int_equal(wr_queue_owner_open(owner, file, NULL), 0);
	assert_int_equal(strlen(owner->name), 16);
}

static void without_a_file(void **state)
{
	struct wr_queue_owner one, other;

	(void)state;
	begin(&one, NULL);
	begin(&other, "/does/not/exist/table.queue");
	assert_string_not_equal(one.name, other.name);
	assert_true(one.fd < 0 && other.fd < 0);
	wr_queue_owner_close(&one);
	wr_queue_owner_close(&other);
}

/* A process that is killed leaves its name to the next, and only then. */
static void one_at_a_time(void **state)
{
	char first[WR_OWNER_TEXT] = "";
	struct wr_queue_owner owner, other;
	int ends[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool told = wr_queue_owner_open(&owner, path, NULL) == 0 && owner.fd >= 0 &&
			    write(ends[1], owner.name, WR_OWNER_TEXT) == WR_OWNER_TEXT;

		if (told)
			pause(); /* to be killed */
		_exit(1);
	}
	assert_int_equal(read(ends[0], first, sizeof first), WR_OWNER_TEXT);
	begin(&other, path);
	assert_true(other.fd < 0);
	assert_string_not_equal(other.name, first);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	begin(&owner, path);
	assert_true(owner.fd >= 0);
	assert_string_equal(owner.name, first);
	wr_queue_owner_close(&other);
	/* Ended in order there is nothing to take back. */
	wr_queue_owner_close(&owner);
	assert_int_equal(access(path, F_OK), -1);
	begin(&owner, path);
	assert_string_not_equal(owner.name, first);
	wr_queue_owner_close(&owner);
	close(ends[0]);
	close(ends[1]);
}

static void write_file(const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

static void files_that_say_nothing(void **state)
{
	static const char *const texts[] = {"", "0123", "0123456789abcdeF", "../../etc/passwd"};
	struct wr_queue_owner owner;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char found[WR_OWNER_TEXT + 1] = "";
		FILE *file;

		write_file(texts[i], 0600);
		begin(&owner, path);
		assert_true(owner.fd >= 0);
		file = fopen(path, "r");
		assert_non_null(file);
		assert_int_equal(fread(found, 1, sizeof found, file), 16);
		fclose(file);
		assert_string_equal(found, owner.name);
		wr_queue_owner_close(&owner);
	}
	/* Others may have written it. */
	write_file("0123456789abcdef", 0622);
	begin(&owner, path);
	assert_true(owner.fd < 0);
	assert_string_not_equal(owner.name, "0123456789abcdef");
	wr_queue_owner_close(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_a_file, setup, teardown),
		cmocka_unit_test_setup_teardown(one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(files_that_say_nothing, setup, teardown),
	};

	return cmocka_run_group_tests_name("queue_owner", tests, NULL, NULL);
}
