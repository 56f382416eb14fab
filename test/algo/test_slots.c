/* The pure functions of limits on concurrent requests: the words of slots and the average holding
 * time. */
#include "algo/algo_test.h"
#include "algo/slots.h"

static void masks(void **unused)
{
	static const struct {
		uint32_t slots;
		uint64_t mask;
	} cases[] = {{0, 0}, {1, 0},   {2, 1},   {3, 3},   {4, 3},
		     {5, 7}, {30, 31}, {32, 31}, {33, 63}, {WEIR_SLOTS_MAX, 0x7fff}};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(wr_slots_mask(cases[i].slots), cases[i].mask);
}

static bool is_held(uint64_t word, uint64_t max_hold_ns, uint64_t now_ns)
{
	return wr_slots_held(word, wr_slots_lowest(max_hold_ns, now_ns));
}

/* A slot is free at exactly max_hold after its stamp, and not a nanosecond earlier. */
static void held_until_max_hold(void **unused)
{
	(void)unused;
	assert_true(is_held(T0, MINUTE, T0));
	assert_true(is_held(T0, MINUTE, T0 + MINUTE - 1));
	assert_false(is_held(T0, MINUTE, T0 + MINUTE));
	assert_true(is_held(T0, 1, T0));
	assert_false(is_held(T0, 1, T0 + 1));
	/* The stamp is later than now: another thread has a later time. */
	assert_true(is_held(T0 + 5, MINUTE, T0));
	assert_true(is_held(TIME_MAX, MINUTE, 0));
}

static void not_held(void **unused)
{
	(void)unused;
	assert_false(is_held(0, MINUTE, T0));
	assert_false(is_held(0, MINUTE, 0));
	assert_false(is_held(0, WEIR_SPAN_MAX_NS, 0));
	assert_false(is_held(T0 | WR_SLOTS_FREE, MINUTE, T0));
	assert_false(is_held(TIME_MAX | WR_SLOTS_FREE, MINUTE, T0));
	/* With a clock that begins at 0, every stamp from 1 on is held. */
	assert_true(is_held(1, MINUTE, 0));
}

static void a_stamp_far_ahead(void **unused)
{
	(void)unused;
	assert_false(wr_slots_ahead(T0, T0));
	assert_false(wr_slots_ahead(T0 + 2 * SECOND, T0));
	assert_true(wr_slots_ahead(T0 + 2 * SECOND + 1, T0));
	assert_false(wr_slots_ahead((T0 + HOUR) | WR_SLOTS_FREE, T0));
	assert_false(wr_slots_ahead(T0 - HOUR, T0));
}

/* The stamp is the first number from now on with the slot's number in its low bits. T0 is a multiple
 * of 8. */
static void stamps_round_up(void **unused)
{
	(void)unused;
	assert_int_equal(T0 % 8, 0);
	assert_int_equal(wr_slots_stamp(0, 0, 7, T0), T0);
	assert_int_equal(wr_slots_stamp(0, 3, 7, T0), T0 + 3);
	assert_int_equal(wr_slots_stamp(0, 3, 7, T0 + 3), T0 + 3);
	assert_int_equal(wr_slots_stamp(0, 3, 7, T0 + 4), T0 + 11);
	assert_int_equal(wr_slots_stamp(0, 0, 0, T0 + 5), T0 + 5);
	/* 0 is the word of a slot that was never used. */
	assert_int_equal(wr_slots_stamp(0, 0, 0, 0), 1);
	assert_int_equal(wr_slots_stamp(0, 0, 7, 0), 8);
	assert_int_equal(wr_slots_stamp(0, 1, 7, 0), 1);
}

/* The stamps of a slot rise, even if the clock stands still or steps back by up to a second. */
static void stamps_rise(void **unused)
{
	uint64_t word = 0;

	(void)unused;
	for (uint64_t i = 0; i < 5; i++) {
		uint64_t stamp = wr_slots_stamp(word, 3, 7, T0);

		assert_int_equal(stamp, T0 + 3 + 8 * i);
		word = stamp | WR_SLOTS_FREE;
	}
	assert_int_equal(wr_slots_stamp((T0 + 3) | WR_SLOTS_FREE, 3, 7, T0 + 3 - SECOND), T0 + 11);
	assert_int_equal(wr_slots_stamp((T0 + 3) | WR_SLOTS_FREE, 3, 7, T0 + 2 - SECOND),
			 T0 + 3 - SECOND);
	/* The slot of a request that has held it for too long. */
	assert_int_equal(wr_slots_stamp(T0 + 3, 3, 7, T0 + MINUTE), T0 + MINUTE + 3);
}

/* At the end of the range of times, a stamp has its slot's number and bit 63 is 0. */
static void stamps_at_the_end_of_time(void **unused)
{
	(void)unused;
	assert_int_equal(wr_slots_stamp(0, 3, 7, TIME_MAX), TIME_MAX - 4);
	assert_int_equal(wr_slots_stamp(0, 7, 7, TIME_MAX), TIME_MAX);
	assert_int_equal(wr_slots_stamp(TIME_MAX | WR_SLOTS_FREE, 7, 7, TIME_MAX), TIME_MAX);
	assert_int_equal(wr_slots_stamp(0, 0, 0, TIME_MAX), TIME_MAX);
}

/* Two slots never get the same stamp, whatever the times are. */
static void stamps_differ(void **unused)
{
	struct rnd r = {rnd_seed()};
	uint64_t words[30] = {0}, given[2000];

	(void)unused;
	for (int i = 0; i < 2000; i++) {
		uint32_t slot = (uint32_t)rnd_below(&r, 30);
		uint64_t now_ns = T0 + (uint64_t)i / 4 + rnd_below(&r, 40);

		given[i] = wr_slots_stamp(words[slot], slot, 31, now_ns);
		assert_true(given[i] >= now_ns && (given[i] & 31) == slot);
		words[slot] = given[i] | WR_SLOTS_FREE;
		for (int k = 0; k < i; k++)
			assert_int_not_equal(given[k], given[i]);
	}
}

/* A time is stored with an error of at most 1 in 128, plus half a unit. */
static void hold_times_are_stored(void **unused)
{
	(void)unused;
	assert_int_equal(wr_hold_code(0), 1);
	assert_int_equal(wr_hold_ns(0), 0);
	assert_int_equal(wr_hold_ns(1), WR_HOLD_UNIT_NS);
	for (uint64_t ns = 100000; ns < 180 * DAY; ns += ns / 9) {
		uint32_t code = wr_hold_code(ns);
		uint64_t stored = wr_hold_ns(code);
		uint64_t error = stored > ns ? stored - ns : ns - stored;

		assert_true(code > 0 && code >> WR_HOLD_BITS == 0);
		assert_true(error <= ns / 128 + WR_HOLD_UNIT_NS);
	}
	assert_int_equal(wr_hold_code(WEIR_SPAN_MAX_NS), (1u << WR_HOLD_BITS) - 1);
	assert_int_equal(wr_hold_code(TIME_MAX), (1u << WR_HOLD_BITS) - 1);
	assert_true(wr_hold_ns((1u << WR_HOLD_BITS) - 1) > 200 * DAY);
}

/* The first time is the average. Later times count one eighth each. */
static void hold_times_are_averaged(void **unused)
{
	uint32_t code = wr_hold_average(0, 8 * SECOND);

	(void)unused;
	assert_in_range(wr_hold_ns(code), 7930 * MS, 8070 * MS);
	code = wr_hold_average(code, 16 * SECOND);
	assert_in_range(wr_hold_ns(code), 8900 * MS, 9100 * MS);
	for (int i = 0; i < 60; i++)
		code = wr_hold_average(code, SECOND);
	assert_in_range(wr_hold_ns(code), 950 * MS, 1070 * MS);
	for (int i = 0; i < 60; i++)
		code = wr_hold_average(code, MINUTE);
	assert_in_range(wr_hold_ns(code), 56 * SECOND, 61 * SECOND);
}

/* The average is 10 s, and max_hold is a minute. */
static void waits(void **unused)
{
	(void)unused;
	assert_int_equal(wr_slots_wait(T0, MINUTE, 10 * SECOND, T0), 10 * SECOND);
	assert_int_equal(wr_slots_wait(T0, MINUTE, 10 * SECOND, T0 + 4 * SECOND), 6 * SECOND);
	assert_int_equal(wr_slots_wait(T0, MINUTE, 10 * SECOND, T0 + 10 * SECOND), 10 * SECOND);
	assert_int_equal(wr_slots_wait(T0, MINUTE, 10 * SECOND, T0 + 30 * SECOND), 10 * SECOND);
	assert_int_equal(wr_slots_wait(T0, MINUTE, 10 * SECOND, T0 + 57 * SECOND), 3 * SECOND);
	assert_int_equal(wr_slots_wait(T0, MINUTE, 10 * SECOND, T0 + MINUTE), 0);
	assert_int_equal(wr_slots_wait(T0 + SECOND, MINUTE, 10 * SECOND, T0), 10 * SECOND);
	assert_int_equal(wr_slots_wait(T0, MINUTE, 0, T0 + SECOND), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks),
		cmocka_unit_test(held_until_max_hold),
		cmocka_unit_test(not_held),
		cmocka_unit_test(a_stamp_far_ahead),
		cmocka_unit_test(stamps_round_up),
		cmocka_unit_test(stamps_rise),
		cmocka_unit_test(stamps_at_the_end_of_time),
		cmocka_unit_test(stamps_differ),
		cmocka_unit_test(hold_times_are_stored),
		cmocka_unit_test(hold_times_are_averaged),
		cmocka_unit_test(waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
