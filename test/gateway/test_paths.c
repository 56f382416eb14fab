/* Tests the lock on a gateway's runtime folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "gateway/paths.h"

static char folder[] = "/tmp/weir-paths-XXXXXX";
static struct wr_gateway_plan plan = {.runtime = folder};

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof path, "%s/gateway.lock", folder);
	unlink(path);
	return rmdir(folder);
}

/* Starts a process that takes the lock, as a gateway does, and forks a child that inherits the
 * lock, as its service does. The child ends when another process reads the lock file. `alive` is a
 * pipe that is closed when the child has ended. */
static pid_t start_gateway(int alive[2])
{
	pid_t gateway;

	assert_int_equal(pipe(alive), 0);
	gateway = fork();
	if (gateway == 0) {
		struct weir_error error;
		int seen = inotify_init1(IN_CLOEXEC);
		char path[64], event[512];

		if (wr_gateway_paths_lock(&plan, &error) < 0)
			_exit(1);
		snprintf(path, sizeof path, "%s/gateway.lock", folder);
		if (inotify_add_watch(seen, path, IN_ACCESS) < 0)
			_exit(1);
		close(alive[0]);
		if (fork() == 0) {
			if (write(alive[1], "!", 1) == 1 && read(seen, event, sizeof event) > 0)
				_exit(0);
			_exit(1);
		}
		close(alive[1]);
		pause();
	}
	close(alive[1]);
	return gateway;
}

static void lock_waits_for_the_service_of_a_killed_gateway(void **state)
{
	struct weir_error error;
	siginfo_t ended;
	int alive[2], lock;
	char byte;
	pid_t gateway = start_gateway(alive);

	(void)state;
	assert_int_equal(read(alive[0], &byte, 1), 1);
	kill(gateway, SIGKILL);
	/* The gateway is a zombie now: its process id is still in use. */
	assert_int_equal(waitid(P_PID, (id_t)gateway, &ended, WEXITED | WNOWAIT), 0);
	lock = wr_gateway_paths_lock(&plan, &error);
	assert_true(lock >= 0);
	assert_int_equal(read(alive[0], &byte, 1), 0);
	waitpid(gateway, NULL, 0);
	close(alive[0]);
	close(lock);
}

static void lock_names_the_running_gateway(void **state)
{
	struct weir_error error;
	char expected[256];
	int lock = wr_gateway_paths_lock(&plan, &error);

	(void)state;
	assert_true(lock >= 0);
	assert_int_equal(wr_gateway_paths_lock(&plan, &error), -1);
	snprintf(expected, sizeof expected,
		 "a weir gateway is running already in %s (process %d): stop it, or use "
		 "another port with --listen PORT",
		 folder, (int)getpid());
	assert_string_equal(error.text, expected);
	close(lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock_waits_for_the_service_of_a_killed_gateway),
		cmocka_unit_test(lock_names_the_running_gateway),
	};

	return cmocka_run_group_tests_name("paths", tests, make_folder, remove_folder);
}
