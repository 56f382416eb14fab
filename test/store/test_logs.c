/* Sliding window logs in a table: rings that grow with their keys. If the slab has no room,
 * requests are refused and counted, and never admitted silently. */
#include "table/table_test.h"

#include "table/slab.h"

static void a_log_grows_to_the_largest_there_is(void **unused)
{
	struct weir_table *table = table_open("grow", 16 * MIB, 8 * MIB);
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, WEIR_LOG_MAX, HOUR);

	(void)unused;
	for (uint32_t i = 0; i < WEIR_LOG_MAX; i++) {
		struct weir_decision d = take(table, &limit, "k", 1, T0 + i);

		if (!d.admitted || d.remaining != WEIR_LOG_MAX - 1 - i)
			fail_msg("request %u: admitted %u, %u left", i, d.admitted, d.remaining);
	}
	assert_int_equal(take(table, &limit, "k", 1, T0 + WEIR_LOG_MAX).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 1, T0 + WEIR_LOG_MAX).retry_after_ns,
			 HOUR - WEIR_LOG_MAX);
	/* The smaller rings were freed. */
	assert_int_equal(info_of(table, T0).log_bytes_used, 512 * KIB);
	/* The entries leave one by one, in the order in which they came. */
	assert_int_equal(take(table, &limit, "k", 2, T0 + HOUR).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 2, T0 + HOUR + 1).admitted, 1);
	table_drop(table);
}

static void a_burst_in_one_instant_needs_the_same_room(void **unused)
{
	struct weir_table *table = table_open("burst", 16 * MIB, 8 * MIB);
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, WEIR_LOG_MAX, HOUR);

	(void)unused;
	assert_int_equal(take(table, &limit, "k", WEIR_LOG_MAX, T0).admitted, 1);
	assert_int_equal(take(table, &limit, "k", 1, T0 + HOUR - 1).admitted, 0);
	assert_int_equal(take(table, &limit, "k", WEIR_LOG_MAX, T0 + HOUR).admitted, 1);
	assert_int_equal(take(table, &limit, "k", -10, T0 + HOUR).remaining, 10);
	table_drop(table);
}

/* Returns the limit of a log whose requests are refused if the slab has no room. */
static struct weir_limit exact(uint32_t size, uint64_t period_ns)
{
	return LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = size, .period_ns = period_ns,
		     .flags = WEIR_FULL_REFUSES);
}

/* Returns a table with one span of 8 KiB, which has eight rings of 124 stamps. All keys are refused
 * keys, so none may be evicted. */
static struct weir_table *full_table(const struct weir_limit *limit)
{
	struct weir_table *table = table_narrow("full", 32, 1);

	for (uint64_t i = 0; i < 8; i++) {
		assert_int_equal(take_nth(table, limit, i, 123, T0).admitted, 1);
		assert_int_equal(take_nth(table, limit, i, 1, T0 + 1).admitted, 1);
		assert_int_equal(take_nth(table, limit, i, 1, T0 + 1).admitted, 0);
	}
	assert_int_equal(info_of(table, T0).log_bytes_used, 8192);
	return table;
}

static void a_full_slab_refuses_and_reports_it(void **unused)
{
	struct weir_limit limit = exact(124, MINUTE);
	struct weir_limit other = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	struct weir_table *table = full_table(&limit);

	(void)unused;
	/* One request needs no ring. */
	assert_int_equal(take_nth(table, &limit, 100, 1, T0).admitted, 1);
	for (uint64_t i = 0; i < 5; i++) {
		struct weir_decision d = take_nth(table, &limit, 100, 1, T0 + 1 + i);

		assert_int_equal(d.admitted, 0);
		assert_int_equal(d.full, 1);
		assert_int_equal(d.retry_after_ns, SECOND);
		assert_int_equal(info_of(table, T0).log_full, i + 1);
	}
	assert_int_equal(info_of(table, T0).log_evicted, 0);
	/* Requests of cost 0 and other algorithms need no ring. */
	assert_int_equal(take_nth(table, &limit, 101, 0, T0).admitted, 1);
	assert_int_equal(take_nth(table, &other, 101, 1, T0).admitted, 1);
	assert_int_equal(info_of(table, T0).log_full, 5);
	/* As soon as the other keys have expired, there is room. */
	assert_int_equal(take_nth(table, &limit, 100, 1, T0 + 2 * MINUTE).admitted, 1);
	assert_int_equal(info_of(table, T0).log_full, 5);
	table_drop(table);
}

static void a_full_slab_refuses_one_of_several_limits(void **unused)
{
	struct weir_limit limit = exact(124, MINUTE);
	struct weir_limit other = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	struct weir_table *table = full_table(&limit);
	struct weir_need needs[2] = {{&limit, "new", 3, 1}, {&other, "new", 3, 1}};
	struct weir_decision d[2];
	int admitted = 1;

	(void)unused;
	assert_int_equal(take(table, &limit, "new", 1, T0).admitted, 1);
	assert_int_equal(weir_take_all(table, needs, 2, T0 + 1, d, &admitted), 0);
	assert_int_equal(admitted, 0);
	assert_int_equal(d[0].full, 1);
	assert_int_equal(take(table, &other, "new", 0, T0).remaining, 10);
	table_drop(table);
}

static void a_log_that_cannot_grow_keeps_its_entries(void **unused)
{
	struct weir_limit limit = exact(500, MINUTE);
	struct weir_limit filler = exact(124, MINUTE);
	struct weir_table *table = table_narrow("stuck", 32, 1);
	uint32_t admitted = 0;

	(void)unused;
	for (uint64_t i = 0; i < 7; i++) {
		take_nth(table, &filler, i, 123, T0);
		take_nth(table, &filler, i, 1, T0 + 1);
		take_nth(table, &filler, i, 1, T0 + 1);
	}
	assert_int_equal(take_nth(table, &limit, 100, 100, T0).admitted, 1);
	for (uint64_t i = 1; i <= 100; i++) {
		struct weir_decision d = take_nth(table, &limit, 100, 1, T0 + i);

		admitted += d.admitted;
		assert_int_equal(d.admitted, !d.full);
	}
	assert_int_equal(admitted, 24);
	assert_int_equal(info_of(table, T0).log_full, 76);
	/* The 100 entries expire, and their ring is used again. */
	assert_int_equal(take_nth(table, &limit, 100, 100, T0 + MINUTE).admitted, 1);
	assert_int_equal(take_nth(table, &limit, 100, 1, T0 + MINUTE).full, 1);
	table_drop(table);
}

/* Eight keys with three requests have all rings. A key with more requests gets one of the rings in
 * the next third of the period. The key that loses the ring is counted without it. */
static void a_live_log_that_becomes_brief_is_counted(void **unused)
{
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 124, MINUTE);
	struct weir_table *table = table_narrow("evicted", 32, 1);
	uint32_t left = 0;
	struct weir_info info;

	(void)unused;
	for (uint64_t i = 0; i < 8; i++)
		for (uint64_t k = 0; k < 3; k++)
			assert_int_equal(take_nth(table, &limit, i, k ? 15 : 60, T0 + k).admitted,
					 1);
	for (uint64_t k = 0; k < 70; k++)
		assert_int_equal(take_nth(table, &limit, 100, 1, T0 + k).remaining, 123 - k);
	info = info_of(table, T0);
	assert_int_equal(info.log_evicted, 0);
	assert_int_equal(info.log_approximate, 69);
	for (uint64_t k = 0; k < 40; k++)
		assert_int_equal(take_nth(table, &limit, 100, 1, T0 + 20 * SECOND + k).remaining,
				 53 - k);
	info = info_of(table, T0);
	assert_int_equal(info.log_evicted, 1);
	assert_int_equal(info.log_approximate, 69);
	assert_int_equal(info.evicted + info.log_full + info.log_lost, 0);
	for (uint64_t i = 0; i < 8; i++)
		left += take_nth(table, &limit, i, 0, T0 + 30 * SECOND).remaining;
	assert_int_equal(left, 8 * 34);
	table_drop(table);
}

/* The limit is larger than any ring of the table: the request that would need such a ring is
 * refused, and `full` is set. */
static void a_limit_beyond_the_largest_ring_is_full_there(void **unused)
{
	struct weir_table *table = table_narrow("beyond", 32, 4);
	struct weir_limit limit = exact(2000, MINUTE);

	(void)unused;
	assert_int_equal(take(table, &limit, "k", 1019, T0).admitted, 1);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 1).admitted, 1);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 2).full, 1);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 2).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 1020, T0 + MINUTE + 1).admitted, 1);
	table_drop(table);
}

/* The cell contains the name of a block that has another generation, which only damage causes. The
 * log of the key is emptied, and the loss is counted. */
static void a_lost_log_is_counted(void **unused)
{
	struct weir_table *table = table_narrow("lost", 32, 4);
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	struct wr_spot spot;

	(void)unused;
	take(table, &limit, "k", 1, T0);
	take(table, &limit, "k", 3, T0 + 1);
	assert_true(wr_table_find(table, key_named(table, &limit, "k"), &spot));
	assert_true(wr_hot_names_block(spot.hot));
	spot.cell->hot.lo ^= 2;
	assert_int_equal(take(table, &limit, "k", 4, T0 + 1).admitted, 1);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 1).admitted, 0);
	assert_int_equal(info_of(table, T0).log_lost, 1);
	table_drop(table);
}

/* Many keys with logs of changing sizes: spans are cut for other sizes many times, and every live
 * log that becomes brief is counted. */
static void a_changing_mix_is_served(void **unused)
{
	struct weir_table *table = table_narrow("mix", 64, 16);
	struct rnd r = {rnd_seed()};
	uint64_t now_ns = T0, full = 0, asked = 0;

	(void)unused;
	for (int phase = 0; phase < 40; phase++) {
		uint32_t size = 1 + (uint32_t)rnd_below(&r, 200);
		struct weir_limit limit = sized(WEIR_SLIDING_LOG, size, MINUTE);

		now_ns += 3 * MINUTE;
		for (uint64_t key = 0; key < 20; key++)
			for (uint32_t i = 0; i <= size; i++) {
				struct weir_decision d =
					take_nth(table, &limit, key, 1, now_ns + i);

				asked++;
				full += d.full;
				if (!d.full && d.admitted != (i < size))
					fail_msg("phase %d key %d size %u request %u", phase,
						 (int)key, size, i);
			}
	}
	assert_int_equal(info_of(table, now_ns).log_full, full);
	assert_int_equal(info_of(table, now_ns).log_lost, 0);
	assert_true(full * 20 < asked);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_grows_to_the_largest_there_is),
		cmocka_unit_test(a_burst_in_one_instant_needs_the_same_room),
		cmocka_unit_test(a_full_slab_refuses_and_reports_it),
		cmocka_unit_test(a_full_slab_refuses_one_of_several_limits),
		cmocka_unit_test(a_log_that_cannot_grow_keeps_its_entries),
		cmocka_unit_test(a_live_log_that_becomes_brief_is_counted),
		cmocka_unit_test(a_limit_beyond_the_largest_ring_is_full_there),
		cmocka_unit_test(a_lost_log_is_counted),
		cmocka_unit_test(a_changing_mix_is_served),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
