/* Tests owner names. A process gets the name of a killed process. Two running processes never have
 * the same name. */
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

static void open_owner(struct wr_queue_owner *owner, const char *file)
{
	assert_int_equal(wr_queue_owner_open(owner, file, NULL), 0);
	assert_int_equal(strlen(owner->name), 16);
}

static void names_without_a_file_are_random(void **state)
{
	struct wr_queue_owner one, other;

	(void)state;
	open_owner(&one, NULL);
	open_owner(&other, "/does/not/exist/table.queue");
	assert_string_not_equal(one.name, other.name);
	assert_true(one.fd < 0 && other.fd < 0);
	wr_queue_owner_close(&one);
	wr_queue_owner_close(&other);
}

/* The next process gets the name of a process that was killed, but not the name of a running
 * process. */
static void a_killed_process_passes_on_its_name(void **state)
{
	char first[WR_QUEUE_OWNER_TEXT] = "";
	struct wr_queue_owner owner, other;
	int ends[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool reported =
			wr_queue_owner_open(&owner, path, NULL) == 0 && owner.fd >= 0 &&
			write(ends[1], owner.name, WR_QUEUE_OWNER_TEXT) == WR_QUEUE_OWNER_TEXT;

		if (reported)
			pause(); /* waits until the parent kills this process */
		_exit(1);
	}
	assert_int_equal(read(ends[0], first, sizeof first), WR_QUEUE_OWNER_TEXT);
	open_owner(&other, path);
	assert_true(other.fd < 0);
	assert_string_not_equal(other.name, first);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	open_owner(&owner, path);
	assert_true(owner.fd >= 0);
	assert_string_equal(owner.name, first);
	wr_queue_owner_close(&other);
	/* wr_queue_owner_close() removes the file, so the next process gets another name. */
	wr_queue_owner_close(&owner);
	assert_int_equal(access(path, F_OK), -1);
	open_owner(&owner, path);
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

static void files_without_a_valid_name(void **state)
{
	static const char *const texts[] = {"", "0123", "0123456789abcdeF", "../../etc/passwd"};
	struct wr_queue_owner owner;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char found[WR_QUEUE_OWNER_TEXT + 1] = "";
		FILE *file;

		write_file(texts[i], 0600);
		open_owner(&owner, path);
		assert_true(owner.fd >= 0);
		file = fopen(path, "r");
		assert_non_null(file);
		assert_int_equal(fread(found, 1, sizeof found, file), 16);
		fclose(file);
		assert_string_equal(found, owner.name);
		wr_queue_owner_close(&owner);
	}
	/* A name in a file to which other users can write is not used. */
	write_file("0123456789abcdef", 0622);
	open_owner(&owner, path);
	assert_true(owner.fd < 0);
	assert_string_not_equal(owner.name, "0123456789abcdef");
	wr_queue_owner_close(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_without_a_file_are_random, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_process_passes_on_its_name, setup,
						teardown),
		cmocka_unit_test_setup_teardown(files_without_a_valid_name, setup, teardown),
	};

	return cmocka_run_group_tests_name("queue_owner", tests, NULL, NULL);
}
