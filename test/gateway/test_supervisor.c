/* Tests the supervisor with a shell script instead of nginx, so that each step can fail. */
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

#include "gateway/supervisor.h"

static struct {
	uv_loop_t loop;
	struct wr_supervisor supervisor;
	char folder[32], nginx[64];
	char reported[4096];
	bool is_done, failed;
	int ready, configured, accepted, answer;
	uv_timer_t *stop; /* if set, stops the supervisor 100 ms after a check has succeeded */
} t;

static int on_configure(void *context, const char *path)
{
	FILE *file = fopen(path, "w");

	(void)context;
	t.configured++;
	fclose(file);
	return t.answer;
}

static void on_stop(uv_timer_t *timer)
{
	wr_supervisor_stop(&t.supervisor);
	uv_close((uv_handle_t *)timer, NULL);
}

static void on_accepted(void *context)
{
	(void)context;
	t.accepted++;
	if (t.stop)
		uv_timer_start(t.stop, on_stop, 100, 0);
}

static void on_ready(void *context, bool taken_over)
{
	(void)context;
	assert_false(taken_over);
	t.ready++;
}

static void on_message(void *context, const char *text)
{
	(void)context;
	snprintf(t.reported + strlen(t.reported), sizeof t.reported - strlen(t.reported), "%s\n",
		 text);
}

static void on_done(void *context, bool failed)
{
	(void)context;
	t.is_done = true;
	t.failed = failed;
}

/* Writes the script. $1 is -t in a check and -p in a start. */
static void nginx_is(const char *script)
{
	FILE *file;

	snprintf(t.nginx, sizeof t.nginx, "%s/nginx", t.folder);
	file = fopen(t.nginx, "w");
	fprintf(file, "#!/bin/sh\n%s\n", script);
	fclose(file);
	chmod(t.nginx, 0700);
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof t);
	strcpy(t.folder, "/tmp/weir-supervisor-XXXXXX");
	return mkdtemp(t.folder) && uv_loop_init(&t.loop) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = {"nginx", "nginx.conf", "nginx.conf.new", "nginx.pid"};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[64];

		snprintf(path, sizeof path, "%s/%s", t.folder, names[i]);
		unlink(path);
	}
	rmdir(t.folder);
	return uv_loop_close(&t.loop);
}

/* Runs the loop until opts.done. The loop ends only if every handle was closed. */
static void run_supervisor(void)
{
	struct wr_supervisor_opts opts = {.nginx = t.nginx,
					  .folder = t.folder,
					  .configure = on_configure,
					  .accepted = on_accepted,
					  .ready = on_ready,
					  .report = on_message,
					  .done = on_done};

	assert_int_equal(wr_supervisor_init(&t.supervisor, &t.loop, &opts), 0);
	wr_supervisor_start(&t.supervisor);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	assert_true(t.is_done);
}

static void backoff_doubles_up_to_ten_seconds(void **state)
{
	static const unsigned ms[] = {100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000};

	(void)state;
	for (unsigned i = 0; i < sizeof ms / sizeof *ms; i++)
		assert_int_equal(wr_supervisor_backoff_ms(i + 1), ms[i]);
	assert_int_equal(wr_supervisor_backoff_ms(UINT32_MAX), 10000);
}

static void does_not_start_without_a_configuration(void **state)
{
	(void)state;
	t.answer = -1;
	nginx_is("exit 0");
	run_supervisor();
	assert_true(t.failed);
	assert_int_equal(t.ready, 0);
	assert_int_equal(t.configured, 1);
	assert_int_equal(t.accepted, 0);
}

static void reports_the_output_of_a_failed_check(void **state)
{
	(void)state;
	nginx_is("echo 'unknown directive' >&2; exit 1");
	run_supervisor();
	assert_true(t.failed);
	assert_non_null(strstr(t.reported, "nginx refuses the configuration"));
	assert_non_null(strstr(t.reported, "unknown directive"));
	assert_int_equal(t.accepted, 0);
}

/* The child must not block when its output is longer than the report. */
static void a_long_report_is_cut(void **state)
{
	(void)state;
	nginx_is("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1");
	run_supervisor();
	assert_true(t.failed);
	assert_int_equal(t.supervisor.check.len, sizeof t.supervisor.check.report - 1);
}

static void reports_a_missing_program(void **state)
{
	(void)state;
	nginx_is("exit 0");
	unlink(t.nginx);
	run_supervisor();
	assert_true(t.failed);
	assert_non_null(strstr(t.reported, "no such file"));
}

static void reports_an_nginx_that_ends_before_it_is_ready(void **state)
{
	(void)state;
	nginx_is("[ \"$1\" = -t ] || exit 3");
	run_supervisor();
	assert_true(t.failed);
	assert_non_null(strstr(t.reported, "ended with code 3 before it was ready"));
}

static void stops_during_the_check(void **state)
{
	uv_timer_t timer;

	(void)state;
	nginx_is("exec sleep 60");
	uv_timer_init(&t.loop, &timer);
	uv_timer_start(&timer, on_stop, 100, 0);
	run_supervisor();
	assert_false(t.failed);
	assert_int_equal(t.accepted, 0);
	assert_int_equal(t.ready, 0);
}

static void stops_while_nginx_is_starting(void **state)
{
	uv_timer_t timer;

	(void)state;
	nginx_is("[ \"$1\" = -t ] || exec sleep 60");
	uv_timer_init(&t.loop, &timer);
	t.stop = &timer;
	run_supervisor();
	assert_false(t.failed);
	assert_int_equal(t.accepted, 1);
	assert_int_equal(t.ready, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backoff_doubles_up_to_ten_seconds),
		cmocka_unit_test_setup_teardown(does_not_start_without_a_configuration, setup,
						teardown),
		cmocka_unit_test_setup_teardown(reports_the_output_of_a_failed_check, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_long_report_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(reports_a_missing_program, setup, teardown),
		cmocka_unit_test_setup_teardown(reports_an_nginx_that_ends_before_it_is_ready,
						setup, teardown),
		cmocka_unit_test_setup_teardown(stops_during_the_check, setup, teardown),
		cmocka_unit_test_setup_teardown(stops_while_nginx_is_starting, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
