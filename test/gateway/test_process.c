/* Tests how processes and listeners are found in /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "gateway/process.h"

static void reads_its_own_process(void **state)
{
	struct wr_process process;

	(void)state;
	prctl(PR_SET_NAME, "odd ) name (");
	assert_true(wr_process_read(getpid(), &process));
	assert_int_equal(process.pid, getpid());
	assert_int_equal(process.parent, getppid());
	assert_int_equal(process.session, getsid(0));
	assert_string_equal(process.name, "odd ) name (");
	assert_false(wr_process_read(0, &process));
	assert_false(wr_process_read(-1, &process));
}

static void finds_the_process_that_listens(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof address;
	struct wr_process process;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	assert_false(wr_process_listening(ntohs(address.sin_port), &process));
	assert_int_equal(listen(fd, 1), 0);
	assert_true(wr_process_listening(ntohs(address.sin_port), &process));
	assert_int_equal(process.pid, getpid());
	close(fd);
}

/* Starts a session of two processes named nginx and returns its leader when both run. */
static pid_t start_session(void)
{
	int ready[2];
	char byte;
	pid_t leader;

	assert_int_equal(pipe(ready), 0);
	leader = fork();
	if (leader == 0) {
		setsid();
		prctl(PR_SET_NAME, "nginx");
		if (fork() == 0 && write(ready[1], "x", 1) == 1)
			close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return leader;
}

static void finds_workers_by_their_session(void **state)
{
	pid_t leader = start_session();
	char folder[] = "/tmp/weir-process-XXXXXX", path[64];
	struct wr_process process;
	pid_t left;
	FILE *file;

	(void)state;
	assert_int_equal(wr_process_signal_session(leader, 0, 0), 2);
	assert_int_equal(wr_process_signal_session(leader, leader, 0), 1);
	assert_int_equal(wr_process_signal_session(0, 0, 0), 0);

	assert_non_null(mkdtemp(folder));
	assert_false(wr_process_master(folder, &process, &left));
	assert_int_equal(left, 0);
	snprintf(path, sizeof path, "%s/nginx.pid", folder);
	file = fopen(path, "w");
	fprintf(file, "%d\n", (int)leader);
	fclose(file);
	/* The process is alive and named nginx, but was not started with this prefix. */
	assert_false(wr_process_master(folder, &process, &left));
	assert_int_equal(left, 0);
	kill(leader, SIGKILL);
	waitpid(leader, NULL, 0);
	assert_false(wr_process_master(folder, &process, &left));
	assert_int_equal(left, leader);
	assert_int_equal(wr_process_signal_session(left, 0, SIGKILL), 1);
	unlink(path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_its_own_process),
		cmocka_unit_test(finds_the_process_that_listens),
		cmocka_unit_test(finds_workers_by_their_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
