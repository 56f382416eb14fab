/* The clocks. The suite is linked with --wrap=clock_gettime, so that a test sets their times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static struct timespec wall, mono, boot;

// NOLINTBEGIN(bugprone-reserved-identifier): the name that --wrap needs
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = clock == CLOCK_REALTIME    ? wall
	       : clock == CLOCK_MONOTONIC ? mono
	       : clock == CLOCK_BOOTTIME  ? boot
					  : (struct timespec){-1, -1};
	return 0;
}
// NOLINTEND(bugprone-reserved-identifier)

static void each_function_reads_its_clock_in_ns(void **state)
{
	wall = (struct timespec){1796000000, 999999999};
	mono = (struct timespec){0, 1};
	boot = (struct timespec){4294967296, 0};
	assert_int_equal(wr_clock_wall_ns(), 1796000000999999999u);
	assert_int_equal(wr_clock_mono_ns(), 1u);
	assert_int_equal(wr_clock_boot_ns(), 4294967296000000000u);
	(void)state;
}

static void a_step_of_the_wall_clock_is_seen_at_once(void **state)
{
	wall = (struct timespec){2000, 5};
	assert_int_equal(wr_clock_wall_ns(), 2000000000005u);
	wall = (struct timespec){1000, 5};
	assert_int_equal(wr_clock_wall_ns(), 1000000000005u);
	(void)state;
}

static void a_timespec_holds_the_same_moment(void **state)
{
	struct timespec t = wr_clock_timespec(1796000000999999999u);

	assert_int_equal(t.tv_sec, 1796000000);
	assert_int_equal(t.tv_nsec, 999999999);
	t = wr_clock_timespec(1000000000u);
	assert_int_equal(t.tv_sec, 1);
	assert_int_equal(t.tv_nsec, 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_function_reads_its_clock_in_ns),
		cmocka_unit_test(a_step_of_the_wall_clock_is_seen_at_once),
		cmocka_unit_test(a_timespec_holds_the_same_moment),
	};

	return cmocka_run_group_tests_name("base_clock", tests, NULL, NULL);
}
