/* One counter that some nodes use by lease and others strictly, as happens while a rule's
 * consistency is changed on one node after the other. The counter remains one limit. */
#include "redis/script_test.h"

static const struct wr_take bucket = {
	.algorithm = WEIR_TOKEN_BUCKET, .limit = 100, .burst = 50, .period_us = 10 * SECOND_US};
static const struct wr_take log_of_100 = {
	.algorithm = WEIR_SLIDING_LOG, .limit = 100, .period_us = MINUTE_US};

/* Calls lease.lua with the counter NAME0, which is the key of a strict call on NAME. */
static struct wr_leased lease_by_name(struct script_test *test, const char *name,
				      struct wr_take take, struct wr_redis_lease_call call,
				      uint64_t now_us)
{
	char key[32];

	snprintf(key, sizeof key, "%s0", name);
	call.take = take;
	call.holder = 7;
	call.nodes = 1;
	call.after = call.seq - 1;
	return script_lease(test, key, &call, now_us);
}

static struct wr_taken strictly(struct script_test *test, const char *name, struct wr_take take,
				uint32_t times, uint64_t now_us)
{
	take.cost = 1;
	take.times = times;
	return script_take(test, name, take, now_us);
}

static uint32_t take_up_to(struct script_test *test, const char *name, struct wr_take take,
			   uint32_t times, uint64_t now_us)
{
	return strictly(test, name, take, times, now_us).admitted_times;
}

/* 40 of 100 units are lent, and 25 of them are spent. Other nodes get 60 units, and then the 15
 * returned units. */
static void test_log(void **state)
{
	struct wr_taken taken;

	assert_int_equal(lease_by_name(*state, "log", log_of_100,
				       (struct wr_redis_lease_call){.seq = 1, .wanted = 40}, NOW)
				 .granted,
			 40);
	assert_int_equal(take_up_to(*state, "log", log_of_100, 99, NOW + 100000), 60);
	taken = strictly(*state, "log", log_of_100, 1, NOW + 100000);
	assert_int_equal(taken.remaining, 0);
	assert_int_equal(taken.retry_after_us, 900000); /* the lease ends at 1 s */
	assert_true(
		lease_by_name(*state, "log", log_of_100,
			      (struct wr_redis_lease_call){.seq = 2, .spent = 25, .returned = 15},
			      NOW + 200000)
			.known);
	assert_int_equal(take_up_to(*state, "log", log_of_100, 99, NOW + 300000), 15);
	assert_int_equal(take_up_to(*state, "log", log_of_100, 99, NOW + MINUTE_US + 99999), 0);
	assert_int_equal(take_up_to(*state, "log", log_of_100, 99, NOW + MINUTE_US + 100000), 60);
	assert_int_equal(take_up_to(*state, "log", log_of_100, 99, NOW + MINUTE_US + 200000), 25);
}

/* The holder never calls again. Its units may have been spent until the lease ends, so they count
 * as taken. */
static void test_log_burnt(void **state)
{
	lease_by_name(*state, "burnt", log_of_100,
		      (struct wr_redis_lease_call){.seq = 1, .wanted = 40}, NOW);
	assert_int_equal(take_up_to(*state, "burnt", log_of_100, 99, NOW + 30 * SECOND_US), 60);
	assert_int_equal(take_up_to(*state, "burnt", log_of_100, 99, NOW + MINUTE_US + 999999), 0);
	assert_int_equal(take_up_to(*state, "burnt", log_of_100, 99, NOW + MINUTE_US + SECOND_US),
			 40);
	assert_int_equal(take_up_to(*state, "burnt", log_of_100, 99, NOW + 3 * MINUTE_US), 99);
}

/* A long log is a ring. The number of lent units precedes the ring, and is removed later. */
static void test_ring(void **state)
{
	struct wr_take ring = log_of_100;

	ring.limit = 1000;
	assert_int_equal(take_up_to(*state, "ring", ring, 600, NOW), 600);
	lease_by_name(*state, "ring", ring, (struct wr_redis_lease_call){.seq = 1, .wanted = 200},
		      NOW + 1);
	assert_int_equal(take_up_to(*state, "ring", ring, 999, NOW + 2), 200);
	lease_by_name(*state, "ring", ring,
		      (struct wr_redis_lease_call){.seq = 2, .spent = 150, .returned = 50},
		      NOW + 3);
	assert_int_equal(take_up_to(*state, "ring", ring, 999, NOW + 4), 50);
	assert_int_equal(take_up_to(*state, "ring", ring, 999, NOW + MINUTE_US), 600);
	assert_int_equal(take_up_to(*state, "ring", ring, 999, NOW + MINUTE_US + 4), 400);
}

/* The limit is 50 at once and 10 per second. Tokens that are refilled before the lease of 20 units
 * has ended would be too many. */
static void test_bucket(void **state)
{
	lease_by_name(*state, "bucket", bucket,
		      (struct wr_redis_lease_call){.seq = 1, .wanted = 20}, NOW);
	assert_int_equal(take_up_to(*state, "bucket", bucket, 99, NOW + 900000), 30);
	lease_by_name(*state, "bucket", bucket, (struct wr_redis_lease_call){.seq = 2, .spent = 20},
		      NOW + 900000);
	assert_int_equal(take_up_to(*state, "bucket", bucket, 99, NOW + 1900000), 10);
}

/* The lease ends at 1 s. At 2 s ten of its units are refilled. */
static void test_bucket_burnt(void **state)
{
	lease_by_name(*state, "empty", bucket, (struct wr_redis_lease_call){.seq = 1, .wanted = 20},
		      NOW);
	assert_int_equal(take_up_to(*state, "empty", bucket, 99, NOW + 2 * SECOND_US), 40);
	assert_int_equal(take_up_to(*state, "empty", bucket, 99, NOW + 3 * SECOND_US), 10);
	assert_int_equal(take_up_to(*state, "empty", bucket, 99, NOW + MINUTE_US), 50);
}

/* 40 of 100 units are lent, and a request of another node used 1000 more than it reserved. The debt
 * is at most 100, so 160 units are charged. The debt refuses further requests and leases. */
static void test_debt(void **state)
{
	static const uint8_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					     WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	for (size_t i = 0; i < sizeof algorithms; i++) {
		struct wr_take take = {
			.algorithm = algorithms[i], .limit = 100, .period_us = MINUTE_US};
		struct wr_redis_lease_call owes = {.take = take}, more = {.seq = 2, .wanted = 5};
		struct wr_leased first, again;
		char name[16], key[24];

		snprintf(name, sizeof name, "debt%zu", i);
		snprintf(key, sizeof key, "%s0", name);
		assert_int_equal(lease_by_name(*state, name, take,
					       (struct wr_redis_lease_call){.seq = 1, .wanted = 40},
					       NOW)
					 .granted,
				 40);
		owes.take.mode = WR_MODE_OWE;
		owes.take.cost = 1000;
		assert_int_equal(script_lease(*state, key, &owes, NOW + 1).taken.debt, 100);
		take.cost = 1;
		first = lease_by_name(*state, name, take, more, NOW + 2);
		assert_false(first.taken.admitted);
		assert_int_equal(first.granted, 0);
		assert_int_equal(first.taken.remaining, 0);
		assert_int_equal(first.taken.debt, 100);
		again = lease_by_name(*state, name, take, more, NOW + 3); /* a repeated call */
		assert_int_equal(again.taken.debt, 100);
		assert_int_equal(again.granted, 0);
		assert_int_equal(again.taken.retry_after_us, first.taken.retry_after_us);
		assert_int_equal(strictly(*state, name, take, 1, NOW + 4).debt, 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log),          cmocka_unit_test(test_log_burnt),
		cmocka_unit_test(test_ring),         cmocka_unit_test(test_bucket),
		cmocka_unit_test(test_bucket_burnt), cmocka_unit_test(test_debt),
	};

	return cmocka_run_group_tests(tests, script_lease_setup, script_teardown);
}
