/* Sliding window logs when the slab has no room: no request is refused for this reason, no key is
 * admitted more than its limit, and keys with many requests get a ring again. */
#include "table/table_test.h"

#include "table/slab.h"

static unsigned admitted_of(struct weir_table *table, const struct weir_limit *limit, uint64_t key,
			    unsigned times, uint64_t now_ns)
{
	unsigned admitted = 0;

	for (unsigned i = 0; i < times; i++)
		admitted += take_nth(table, limit, key, 1, now_ns + i * MS).admitted;
	return admitted;
}

/* 80,000 clients with one request each, under 5 per hour, use no part of the 4 MiB for logs. */
static void single_requests_take_no_room(void **unused)
{
	struct weir_table *table = table_open("single", 64 * MIB, 0);
	struct weir_limit hour = sized(WEIR_SLIDING_LOG, 5, HOUR);
	struct weir_limit minute = sized(WEIR_SLIDING_LOG, 100, MINUTE);
	struct weir_info info;

	(void)unused;
	for (uint64_t i = 0; i < 80000; i++)
		assert_int_equal(take_nth(table, &hour, i, 1, T0 + i).admitted, 1);
	assert_int_equal(info_of(table, T0).log_bytes_used, 0);
	for (uint64_t key = 100000; key < 101000; key++)
		assert_int_equal(admitted_of(table, &minute, key, 102, T0 + SECOND), 100);
	info = info_of(table, T0 + SECOND);
	assert_int_equal(info.log_full + info.log_approximate + info.log_evicted, 0);
	table_drop(table);
}

/* Keys with two requests have a ring each, and fill the slab with blocks of the smallest class.
 * Keys of another rule are admitted their limit nevertheless: they weigh more, so that spans are
 * emptied for them.
 */
static void a_flood_of_small_logs_starves_no_other_class(void **unused)
{
	struct weir_table *table = table_open("starve", 64 * MIB, 0);
	struct weir_limit hour = sized(WEIR_SLIDING_LOG, 5, HOUR);
	struct weir_limit minute = sized(WEIR_SLIDING_LOG, 100, MINUTE);
	uint64_t exact = 0, now_ns = T0 + SECOND;
	struct weir_info info;

	(void)unused;
	for (uint64_t i = 0; i < 80000; i++)
		for (uint64_t k = 0; k < 2; k++)
			assert_int_equal(take_nth(table, &hour, i, 1, T0 + 2 * i + k).admitted, 1);
	assert_true(info_of(table, T0).log_bytes_used > 4 * MIB / 100 * 98);
	assert_true(info_of(table, T0).log_approximate < 20000);
	for (unsigned turn = 0; turn < 3; turn++, now_ns += 25 * SECOND)
		for (uint64_t key = 100000; key < 101000; key++)
			assert_int_equal(admitted_of(table, &minute, key, 30, now_ns), 30);
	for (uint64_t key = 100000; key < 101000; key++) {
		struct wr_spot spot;

		assert_int_equal(admitted_of(table, &minute, key, 102, T0 + 52 * SECOND), 10);
		assert_true(wr_table_find(table, key_nth(table, &minute, key), &spot));
		exact += wr_hot_names_block(spot.hot);
	}
	assert_true(exact > 900);
	info = info_of(table, now_ns);
	assert_int_equal(info.log_full + info.log_lost + info.evicted, 0);
	/* No key of the flood was evicted: three of five units are left, as before. */
	for (uint64_t i = 0; i < 80000; i++)
		if (take_nth(table, &hour, i, 0, now_ns).remaining != 3)
			fail_msg("key %d has %u left", (int)i,
				 take_nth(table, &hour, i, 0, now_ns).remaining);
	table_drop(table);
}

/* All rings belong to refused keys. Requests of new keys are admitted nevertheless, and refused
 * keys stay refused. */
static void a_slab_full_of_refused_keys_refuses_nobody_else(void **unused)
{
	struct weir_table *table = table_open("refused", 4 * MIB, 256 * KIB);
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 10, HOUR);
	unsigned refused = 0;

	(void)unused;
	for (uint64_t key = 0; key < 4000; key++)
		assert_int_equal(admitted_of(table, &limit, key, 11, T0), 10);
	assert_true(info_of(table, T0).log_bytes_used > 220 * KIB);
	for (uint64_t key = 10000; key < 11000; key++)
		refused += 10 - admitted_of(table, &limit, key, 10, T0 + SECOND);
	assert_int_equal(refused, 0);
	for (uint64_t key = 10000; key < 11000; key++)
		assert_int_equal(take_nth(table, &limit, key, 1, T0 + 2 * SECOND).admitted, 0);
	for (uint64_t key = 0; key < 4000; key++)
		assert_int_equal(take_nth(table, &limit, key, 1, T0 + 2 * SECOND).admitted, 0);
	assert_int_equal(info_of(table, T0).log_full, 0);
	assert_int_equal(info_of(table, T0).evicted + info_of(table, T0).evicted_refused, 0);
	table_drop(table);
}

/* --- an oracle: every request that passed, with its time --- */

#define PASSED_MAX 4096

struct passed {
	uint64_t at_ns[PASSED_MAX];
	uint32_t count;
};

static uint32_t since(const struct passed *passed, uint64_t then_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < passed->count; i++)
		n += passed->at_ns[i] > then_ns;
	return n;
}

static void one_request(struct weir_table *table, const struct weir_limit *limit, uint64_t key,
			int64_t cost, uint64_t now_ns, struct passed *passed)
{
	uint64_t period_ns = limit->period_ns;
	uint32_t within = since(passed, now_ns - period_ns);
	/* Four thirds of the period. The length of a slot is rounded up to 26 bits. */
	uint32_t longest = since(passed, now_ns - period_ns / 3 * 4 - period_ns / 10000000 - 8);
	struct weir_decision d = take_nth(table, limit, key, cost, now_ns);
	uint32_t n = (uint32_t)cost;

	if (d.admitted && within + n > limit->limit)
		fail_msg("%u within a period and %u more of %u", within, n, limit->limit);
	if (!d.admitted && longest + n <= limit->limit)
		fail_msg("refused with %u in four thirds of a period, %u more of %u", longest, n,
			 limit->limit);
	if (!d.admitted && n <= limit->limit) {
		struct weir_decision early = take_nth(table, limit, key, 0, now_ns);

		assert_true(d.retry_after_ns > 0 && d.retry_after_ns <= 2 * period_ns);
		assert_true(early.remaining < n);
		assert_true(take_nth(table, limit, key, 0, now_ns + d.retry_after_ns).remaining >=
			    n);
		assert_true(
			take_nth(table, limit, key, 0, now_ns + d.retry_after_ns - 1).remaining <
			n);
	}
	for (uint32_t i = 0; d.admitted && i < n; i++)
		passed->at_ns[passed->count++] = now_ns;
}

/* A table without a slab has brief logs only. */
static void a_brief_log_never_admits_more_than_a_ring(void **unused)
{
	struct weir_table *table = table_narrow("oracle", 32, 0);
	struct rnd r = {rnd_seed()};

	(void)unused;
	for (uint64_t run = 0; run < 400; run++) {
		uint32_t size = 1 + (uint32_t)rnd_below(&r, 30);
		uint64_t period_ns = 1 + rnd_below(&r, 1ull << (10 + rnd_below(&r, 40)));
		struct weir_limit limit = sized(WEIR_SLIDING_LOG, size, period_ns);
		struct passed passed = {0};
		uint64_t now_ns = T0 + rnd_below(&r, HOUR);

		table_clear(table);
		for (int i = 0; i < 400 && passed.count < PASSED_MAX - 40; i++) {
			now_ns += rnd_below(&r, 4) ? rnd_below(&r, period_ns / size + 2)
						   : rnd_below(&r, period_ns + 2);
			one_request(table, &limit, run, 1 + (int64_t)rnd_below(&r, 3), now_ns,
				    &passed);
		}
	}
	assert_true(info_of(table, T0).log_approximate > 0);
	assert_int_equal(info_of(table, T0).log_full, 0);
	table_drop(table);
}

/* Returns the start of a slot. */
static uint64_t slot_start(uint64_t period_ns)
{
	uint64_t slot_ns = wr_brief_slot_ns(wr_brief_code(period_ns));

	return (T0 / slot_ns + 1) * slot_ns;
}

static void give_backs_and_clocks_that_step_back(void **unused)
{
	struct weir_table *table = table_narrow("give", 32, 0);
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 6, MINUTE);
	uint64_t start = slot_start(MINUTE);

	(void)unused;
	assert_int_equal(take(table, &limit, "k", 2, start + 5 * SECOND).remaining, 4);
	assert_int_equal(take(table, &limit, "k", 4, start + 50 * SECOND).remaining, 0);
	/* The example of brief.h: the first slot counts until the end of the third slot after
	 * it. */
	assert_int_equal(take(table, &limit, "k", 1, start + 70 * SECOND).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 1, start + 70 * SECOND).retry_after_ns / MS,
			 10000);
	assert_int_equal(take(table, &limit, "k", 0, start + 81 * SECOND).remaining, 2);
	/* Three of the four requests of 50 s are given back to the slot that counted them. They can
	 * be given back only once. */
	assert_int_equal(give_back(table, &limit, "k", 3, start + 50 * SECOND, start + 81 * SECOND)
				 .remaining,
			 5);
	assert_int_equal(
		give_back(table, &limit, "k", 3, start + 5 * SECOND, start + 81 * SECOND).remaining,
		5);
	assert_int_equal(take(table, &limit, "k", 5, start + 81 * SECOND).remaining, 0);
	/* First a latecomer, then a clock that stepped back: all requests are counted at the new
	 * time. */
	assert_int_equal(take(table, &limit, "k", 1, start + 80 * SECOND - 1).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 1, start - HOUR).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 0, start - HOUR + 81 * SECOND).remaining, 6);
	table_drop(table);
}

/* Rejected requests count. If there are more than the limit, the oldest are dropped. */
static void rejected_requests_count_in_a_brief_log(void **unused)
{
	struct weir_table *table = table_narrow("rejected", 32, 0);
	struct weir_limit limit = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 4,
					.period_ns = MINUTE, .flags = WEIR_COUNT_REJECTED);
	uint64_t start = slot_start(MINUTE);

	(void)unused;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(take(table, &limit, "k", 1, start + i).admitted, 1);
	assert_int_equal(take(table, &limit, "k", 3, start + 30 * SECOND).admitted, 0);
	/* At 80 s the request of the first slot does not count any more, three of the second slot
	 * still count. */
	assert_int_equal(take(table, &limit, "k", 0, start + 79 * SECOND).remaining, 0);
	assert_int_equal(take(table, &limit, "k", 0, start + 81 * SECOND).remaining, 1);
	table_drop(table);
}

/* A limit of 100 is exhausted, and a limit of 10 on the same key counts a request that it refuses.
 * No unit is left under the limit of 100. */
static void a_smaller_limit_forgets_nothing_of_a_brief_log(void **unused)
{
	struct weir_table *table = table_narrow("smaller", 32, 0);
	struct weir_limit large = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 100,
					.period_ns = MINUTE, .flags = WEIR_COUNT_REJECTED);
	struct weir_limit small = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 10,
					.period_ns = MINUTE, .flags = WEIR_COUNT_REJECTED);
	uint64_t start = slot_start(MINUTE);

	(void)unused;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(take(table, &large, "k", 1, start + i).admitted, 1);
	assert_int_equal(take(table, &small, "k", 1, start + SECOND).admitted, 0);
	assert_int_equal(take(table, &large, "k", 0, start + 2 * SECOND).remaining, 0);
	/* In the next slot the request replaces an old one, so 99 requests leave with the first
	 * slot. */
	assert_int_equal(take(table, &small, "k", 1, start + 21 * SECOND).admitted, 0);
	assert_int_equal(take(table, &large, "k", 0, start + 79 * SECOND).remaining, 0);
	assert_int_equal(take(table, &large, "k", 0, start + 81 * SECOND).remaining, 99);
	table_drop(table);
}

/* The refused request counts and, as the first request of its slot, asks for a ring. The ring has
 * to hold the existing entries, but no more than the limit, even if the cost is very large: 8 +
 * 2^32 - 2 would be 6 in 32 bits. */
static void a_large_cost_asks_for_a_ring_of_the_limit(void **unused)
{
	static const int64_t costs[] = {11, 65532, UINT32_MAX - 1, 1ll << 32, INT64_MAX};
	struct weir_limit limit = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 10,
					.period_ns = MINUTE, .flags = WEIR_COUNT_REJECTED);
	uint64_t start = slot_start(MINUTE);

	(void)unused;
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
		struct weir_table *table = table_narrow("large", 32, 2);
		uint32_t spans = table->span_count;
		struct weir_decision d;

		table->span_count = 0;
		for (uint64_t k = 0; k < 8; k++)
			assert_int_equal(take(table, &limit, "k", 1, start + k).admitted, 1);
		table->span_count = spans;
		d = take(table, &limit, "k", costs[i], start + 21 * SECOND);
		assert_int_equal(d.admitted, 0);
		assert_int_equal(d.remaining, 0);
		/* The log has a block with room for 12 stamps. */
		assert_int_equal(info_of(table, start + 22 * SECOND).log_bytes_used, 128);
		assert_int_equal(take(table, &limit, "k", 0, start + 80 * SECOND).remaining, 0);
		assert_int_equal(take(table, &limit, "k", 0, start + 82 * SECOND).remaining, 10);
		table_drop(table);
	}
}

static void an_idle_log_is_exact_again(void **unused)
{
	struct weir_table *table = table_narrow("idle", 32, 1);
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 4, MINUTE);
	struct wr_spot spot;

	(void)unused;
	table->span_count = 0;
	for (uint64_t i = 0; i < 4; i++)
		take(table, &limit, "k", 1, T0 + i);
	table->span_count = 1;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(take(table, &limit, "k", 1, T0 + 2 * MINUTE + i * SECOND).admitted,
				 1);
	assert_true(wr_table_find(table, key_named(table, &limit, "k"), &spot));
	assert_true(wr_hot_names_block(spot.hot));
	assert_int_equal(take(table, &limit, "k", 1, T0 + 3 * MINUTE).admitted, 1);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 3 * MINUTE).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 3 * MINUTE + SECOND).admitted, 1);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_requests_take_no_room),
		cmocka_unit_test(a_flood_of_small_logs_starves_no_other_class),
		cmocka_unit_test(a_slab_full_of_refused_keys_refuses_nobody_else),
		cmocka_unit_test(a_brief_log_never_admits_more_than_a_ring),
		cmocka_unit_test(give_backs_and_clocks_that_step_back),
		cmocka_unit_test(rejected_requests_count_in_a_brief_log),
		cmocka_unit_test(a_smaller_limit_forgets_nothing_of_a_brief_log),
		cmocka_unit_test(a_large_cost_asks_for_a_ring_of_the_limit),
		cmocka_unit_test(an_idle_log_is_exact_again),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
