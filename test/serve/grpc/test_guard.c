/* Tests the exact numbers of the limits on abuse of HTTP/2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/grpc/guard.h"

static struct wr_serve_grpc_guard guard;

static int setup(void **state)
{
	(void)state;
	wr_serve_grpc_guard_init(&guard, 1000);
	return 0;
}

static int charge_until_out(enum wr_guard_cost cost)
{
	int count = 0;

	while (wr_serve_grpc_guard_passes(&guard, 0, 1000)) {
		wr_serve_grpc_guard_charge(&guard, cost);
		count++;
	}
	return count;
}

static void test_resets(void **state)
{
	(void)state;
	assert_int_equal(charge_until_out(WR_GUARD_UNFINISHED), 2000);
}

static void test_pings(void **state)
{
	(void)state;
	assert_int_equal(charge_until_out(WR_GUARD_EMPTY), 10000);
}

/* A second gives 4,000 points back, up to the initial number. */
static void test_time_gives_points(void **state)
{
	(void)state;
	charge_until_out(WR_GUARD_UNFINISHED);
	assert_true(wr_serve_grpc_guard_passes(&guard, 0, 2000));
	assert_int_equal(guard.points, 4000);
	assert_true(wr_serve_grpc_guard_passes(&guard, 0, 1500)); /* the clock was set back */
	assert_int_equal(guard.points, 4000);
	assert_true(wr_serve_grpc_guard_passes(&guard, 0, UINT64_MAX));
	assert_int_equal(guard.points, 20000);
}

/* A client that gets a response for each call that it resets may go on for ever. */
static void test_responses_give_points(void **state)
{
	(void)state;
	for (int i = 0; i < 100000; i++) {
		wr_serve_grpc_guard_charge(&guard, WR_GUARD_UNFINISHED);
		wr_serve_grpc_guard_answered(&guard);
		assert_true(wr_serve_grpc_guard_passes(&guard, 0, 1000));
	}
	for (int i = 0; i < 100000; i++)
		wr_serve_grpc_guard_answered(&guard);
	assert_int_equal(guard.points, 20000);
}

/* 32 KiB that nghttp2 did not report are free; above them, 64 bytes cost a point. */
static void test_unknown_bytes(void **state)
{
	(void)state;
	assert_true(wr_serve_grpc_guard_passes(&guard, 16384, 1000));
	assert_true(wr_serve_grpc_guard_passes(&guard, 16384, 1000));
	assert_int_equal(guard.points, 20000);
	assert_true(wr_serve_grpc_guard_passes(&guard, 6400, 1000));
	assert_int_equal(guard.points, 19900);
	wr_serve_grpc_guard_known(&guard, 32768);
	assert_true(wr_serve_grpc_guard_passes(&guard, 16384, 1000));
	assert_int_equal(guard.points, 19900);
	for (int i = 0; i < 79; i++)
		wr_serve_grpc_guard_passes(&guard, 16384, 1000);
	assert_false(wr_serve_grpc_guard_passes(&guard, 16384, 1000));
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_resets), TEST(test_pings), TEST(test_time_gives_points),
		TEST(test_responses_give_points), TEST(test_unknown_bytes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
