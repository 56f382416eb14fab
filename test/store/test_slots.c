/* Limits on concurrent requests in a table: slots that are taken, given back, or kept too long. All
 * times are multiples of 32 ns, so that a stamp is rounded only to the number of its slot. */
#include "table/override.h"
#include "table/slab.h"
#include "settle_test.h"

/* --- one caller --- */

/* The example of algo/slots.h. */
static void the_example(void **unused)
{
	uint64_t two = T0 + 8 * SECOND, first;

	(void)unused;
	limit = slots(2);
	first = get(&limit, "k", two);
	get(&limit, "k", two + 10 * SECOND);
	must_refuse(&limit, "k", two + 20 * SECOND);
	assert_int_equal(give_back(table, &limit, "k", 1, first, two + 30 * SECOND).remaining, 1);
	get(&limit, "k", two + 31 * SECOND);
	must_refuse(&limit, "k", two + 32 * SECOND);
	must_refuse(&limit, "k", two + 70 * SECOND - 1);
	/* The second slot has number 1, so its stamp is 1 ns later. */
	get(&limit, "k", two + 70 * SECOND + 1);
}

static void as_many_as_there_are_slots(void **unused)
{
	uint64_t tokens[20];

	(void)unused;
	limit = slots(20);
	for (uint32_t i = 0; i < 20; i++) {
		struct weir_decision d = take(table, &limit, "k", 1, T0);

		assert_int_equal(d.admitted, 1);
		assert_int_equal(d.limit, 20);
		assert_int_equal(d.remaining, 19 - i);
		assert_in_range(d.charged_ns, T0, T0 + 31);
		assert_int_equal(d.reset_after_ns, MINUTE + d.charged_ns - T0);
		tokens[i] = d.charged_ns;
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(tokens[i], tokens[k]);
	}
	for (int i = 0; i < 5; i++)
		must_refuse(&limit, "k", T0);
	assert_int_equal(left(&limit, "other", T0), 20);
	for (uint32_t i = 0; i < 20; i++) {
		struct weir_decision d = give_back(table, &limit, "k", 1, tokens[i], T0 + SECOND);

		assert_int_equal(d.admitted, 1);
		assert_int_equal(d.remaining, i + 1);
	}
	assert_int_equal(take(table, &limit, "k", 0, T0 + SECOND).reset_after_ns, 0);
}

static void a_slot_is_given_back_once(void **unused)
{
	uint64_t first, second;

	(void)unused;
	limit = slots(2);
	first = get(&limit, "k", T0);
	second = get(&limit, "k", T0);
	assert_int_equal(give_back(table, &limit, "k", 1, first, T0).remaining, 1);
	assert_int_equal(give_back(table, &limit, "k", 1, first, T0).remaining, 1);
	/* Another request gets the slot at the same nanosecond. */
	assert_int_not_equal(get(&limit, "k", T0), first);
	assert_int_equal(give_back(table, &limit, "k", 1, first, T0).remaining, 0);
	assert_int_equal(give_back(table, &limit, "k", 1, first + 1, T0).remaining, 0);
	assert_int_equal(give_back(table, &limit, "k", 1, 0, T0).remaining, 0);
	assert_int_equal(give_back(table, &limit, "k", 0, second, T0).remaining, 0);
	assert_int_equal(give_back(table, &limit, "other", 1, second, T0).remaining, 2);
	assert_int_equal(give_back(table, &limit, "k", 1, second, T0).remaining, 1);
}

/* A request that holds its slot for longer than max_hold has lost it. When it ends, it does not free
 * the slot of the request that got the slot since. */
static void a_slot_is_free_after_max_hold(void **unused)
{
	uint64_t token, next;

	(void)unused;
	limit = slots(1);
	token = get(&limit, "k", T0);
	must_refuse(&limit, "k", token + MINUTE - 1);
	assert_int_equal(left(&limit, "k", token + MINUTE - 1), 0);
	assert_int_equal(left(&limit, "k", token + MINUTE), 1);
	next = get(&limit, "k", token + MINUTE);
	assert_int_equal(give_back(table, &limit, "k", 1, token, T0 + MINUTE).remaining, 0);
	must_refuse(&limit, "k", next + MINUTE - 1);
	get(&limit, "k", next + MINUTE);
}

/* A slot is never free before max_hold has passed, whichever slot it is and at whatever time it was
 * taken. */
static void no_slot_is_free_early(void **unused)
{
	(void)unused;
	limit = slots(14);
	for (uint64_t i = 0; i < 16; i++) {
		uint64_t start_ns = T0 + i * HOUR + i, latest_ns = 0;

		for (int k = 0; k < 14; k++) {
			uint64_t token = get(&limit, "k", start_ns);

			latest_ns = token > latest_ns ? token : latest_ns;
		}
		must_refuse(&limit, "k", start_ns + MINUTE - 1);
		assert_true(latest_ns < start_ns + 16);
		assert_int_equal(left(&limit, "k", latest_ns + MINUTE), 14);
	}
}

static void the_cost_does_not_matter(void **unused)
{
	static const int64_t costs[] = {1, 2, 600, INT64_MAX};
	struct weir_decision d;

	(void)unused;
	limit = slots(5);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(take(table, &limit, "k", costs[i], T0).remaining, 4 - i);
	d = take(table, &limit, "k", 0, T0);
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.remaining, 1);
	assert_int_equal(d.charged_ns, 0);
	assert_int_equal(left(&limit, "k", T0), 1);
	assert_int_equal(give_back(table, &limit, "k", 600, get(&limit, "k", T0), T0).remaining, 1);
}

/* Looking makes no cell and takes no slot. */
static void looking_changes_nothing(void **unused)
{
	struct weir_decision d;

	(void)unused;
	limit = slots(1);
	for (int i = 0; i < 3; i++) {
		d = take(table, &limit, "k", 0, T0);
		assert_int_equal(d.admitted, 1);
		assert_int_equal(d.remaining, 1);
		assert_int_equal(d.reset_after_ns, 0);
	}
	assert_int_equal(info_of(table, T0).keys, 0);
	get(&limit, "k", T0);
	d = take(table, &limit, "k", 0, T0 + SECOND);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.reset_after_ns, MINUTE - SECOND);
	assert_int_equal(info_of(table, T0).keys_refused, 0);
	must_refuse(&limit, "k", T0 + SECOND);
	assert_int_equal(info_of(table, T0).keys_refused, 1);
}

static void no_slots_at_all(void **unused)
{
	struct weir_decision d;

	(void)unused;
	limit = slots(0);
	d = take(table, &limit, "k", 1, T0);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.limit, 0);
	assert_int_equal(d.retry_after_ns, WEIR_NEVER);
}

/* --- limits that change --- */

/* 10 slots are held when the limit becomes 4. A slot is free again when fewer than 4 are held. */
static void a_lowered_limit(void **unused)
{
	struct weir_limit fewer = slots(4);
	uint64_t tokens[10], token;

	(void)unused;
	limit = slots(10);
	for (int i = 0; i < 10; i++)
		tokens[i] = get(&limit, "k", T0);
	for (int i = 0; i < 6; i++) {
		must_refuse(&fewer, "k", T0);
		assert_int_equal(give_back(table, &fewer, "k", 1, tokens[i], T0).remaining, 0);
	}
	must_refuse(&fewer, "k", T0);
	assert_int_equal(give_back(table, &fewer, "k", 1, tokens[6], T0).remaining, 1);
	token = get(&fewer, "k", T0);
	must_refuse(&fewer, "k", T0);
	assert_int_equal(left(&limit, "k", T0), 6);
	assert_int_equal(give_back(table, &fewer, "k", 1, token, T0).remaining, 1);
	for (int i = 7; i < 10; i++)
		give_back(table, &fewer, "k", 1, tokens[i], T0);
	assert_int_equal(left(&fewer, "k", T0), 4);
}

/* The key moves to larger blocks, and all requests can give their slots back. All requests come at
 * one nanosecond, so that the stamps of a block are ahead of the clock. */
static void a_raised_limit(void **unused)
{
	static const uint32_t sizes[] = {1, 2, 7, 20, 100, 600};
	static uint64_t tokens[600];
	uint32_t taken = 0;

	(void)unused;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		limit = slots(sizes[i]);
		assert_int_equal(left(&limit, "k", T0), sizes[i] - taken);
		/* The last slot is taken and given back several times. */
		for (int k = 0; k < 20; k++)
			give_back(table, &limit, "k", 1, get(&limit, "k", T0), T0);
		while (taken < sizes[i]) {
			tokens[taken] = get(&limit, "k", T0);
			for (uint32_t k = 0; k < taken; k++)
				assert_int_not_equal(tokens[k], tokens[taken]);
			taken++;
		}
		must_refuse(&limit, "k", T0);
	}
	for (uint32_t i = 0; i < taken; i++) {
		assert_int_equal(give_back(table, &limit, "k", 1, tokens[i], T0).remaining, i + 1);
		assert_int_equal(give_back(table, &limit, "k", 1, tokens[i], T0).remaining, i + 1);
	}
	/* Each of the smaller blocks was freed. */
	assert_int_equal(info_of(table, T0).log_bytes_used, 16 * KIB);
}

static void change_override(struct wr_override_change change)
{
	struct wr_key key = hash_of("k");

	wr_override_change(table, key, limit.algorithm, &change, wr_seconds(T0));
}

static void grants(void **unused)
{
	uint32_t end_s = wr_seconds(T0) + 30;
	uint64_t tokens[5];

	(void)unused;
	limit = slots(2);
	change_override((struct wr_override_change){
		.grant = true, .to = {.granted = 3, .granted_until_s = end_s}});
	for (int i = 0; i < 5; i++)
		tokens[i] = get(&limit, "k", T0);
	must_refuse(&limit, "k", T0);
	assert_int_equal(take(table, &limit, "k", 0, T0).granted, 3);
	assert_int_equal(take(table, &limit, "k", 0, T0).limit, 5);
	/* The grant ends after 30 s, while all five slots are held. */
	for (int i = 0; i < 4; i++) {
		must_refuse(&limit, "k", T0 + 40 * SECOND);
		give_back(table, &limit, "k", 1, tokens[i], T0 + 40 * SECOND);
	}
	assert_int_equal(left(&limit, "k", T0 + 40 * SECOND), 1);
	get(&limit, "k", T0 + 40 * SECOND);
	must_refuse(&limit, "k", T0 + 40 * SECOND);
}

/* The grant came before the first request, and has made the key's cell. The key keeps its block
 * after a minute, when a block that no cell names could be taken by other keys. */
static void a_granted_key_keeps_its_block(void **unused)
{
	uint32_t end_s = wr_seconds(T0) + 7200;
	struct weir_limit hour = sized(WEIR_CONCURRENT, 2, HOUR);
	struct wr_table_log_block block;
	struct wr_spot spot;

	(void)unused;
	limit = hour;
	change_override((struct wr_override_change){
		.grant = true, .to = {.granted = 1, .granted_until_s = end_s}});
	get(&limit, "k", T0);
	assert_true(wr_table_find(table, hash_of("k"), &spot));
	assert_true(wr_hot_names_block(spot.hot));
	for (int i = 0; i < 100000; i++) {
		struct wr_slab_wish wish = {
			.cell = &table->rows[0].cell[0], .stamps = 12, .weight = WR_WEIGHT_ALL};

		if (!wr_slab_take(table, &wish, T0 + 5 * MINUTE, &block))
			break;
		assert_int_not_equal(block.name >> 32, spot.hot.lo >> 32);
	}
	assert_int_equal(left(&limit, "k", T0 + 5 * MINUTE), 2);
}

/* A banned key gives its slots back. */
static void bans(void **unused)
{
	uint32_t end_s = wr_seconds(T0) + 30;
	uint64_t token;
	struct weir_decision d;

	(void)unused;
	limit = slots(2);
	token = get(&limit, "k", T0);
	change_override((struct wr_override_change){.ban = true, .to = {.banned_until_s = end_s}});
	d = take(table, &limit, "k", 1, T0);
	assert_int_equal(d.banned, 1);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(give_back(table, &limit, "k", 1, token, T0).remaining, 2);
	assert_int_equal(take(table, &limit, "k", 0, T0).banned, 1);
	assert_int_equal(left(&limit, "k", T0 + 40 * SECOND), 2);
}

/* All slots are free after a reset. A request from before the reset frees no slot of a later
 * request, even if the clock stands still. */
static void a_reset(void **unused)
{
	struct wr_key key;
	uint64_t before[3];

	(void)unused;
	limit = slots(3);
	key = hash_of("k");
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 3; i++)
			before[i] = get(&limit, "k", T0);
		must_refuse(&limit, "k", T0);
		wr_store_reset(table, &limit, key, T0);
		assert_int_equal(left(&limit, "k", T0), 3);
		assert_int_equal(info_of(table, T0).keys_refused, 1); /* the cell of the reset */
		for (int i = 0; i < 3; i++)
			get(&limit, "k", T0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(give_back(table, &limit, "k", 1, before[i], T0).remaining,
					 0);
		wr_store_reset(table, &limit, key, T0);
	}
}

/* --- clocks --- */

/* The clock steps back by an hour while slots are held. The requests can still give them back. */
static void a_clock_that_steps_back(void **unused)
{
	uint64_t tokens[3], then = T0 - HOUR;

	(void)unused;
	limit = slots(3);
	for (int i = 0; i < 3; i++)
		tokens[i] = get(&limit, "k", T0);
	assert_int_equal(give_back(table, &limit, "k", 1, tokens[0], then).remaining, 1);
	tokens[0] = get(&limit, "k", then);
	assert_in_range(tokens[0], then, then + 4);
	/* The refusal gives the two other slots the time of the clock. */
	must_refuse(&limit, "k", then + SECOND);
	assert_int_equal(give_back(table, &limit, "k", 1, tokens[1], then + SECOND).remaining, 1);
	assert_int_equal(give_back(table, &limit, "k", 1, tokens[1], then + SECOND).remaining, 1);
	get(&limit, "k", then + SECOND);
	must_refuse(&limit, "k", then + SECOND);
	/* The third slot is free a minute after the refusal, the others are free by then too. */
	assert_int_equal(left(&limit, "k", then + MINUTE + 10 * SECOND), 3);
	assert_int_equal(give_back(table, &limit, "k", 1, tokens[2], then + 2 * MINUTE).remaining,
			 3);
}

/* After the refusal the slot is held for max_hold by the new clock, not for an hour. */
static void a_slot_of_the_future_is_free_after_max_hold(void **unused)
{
	uint64_t then = T0 - HOUR;

	(void)unused;
	limit = slots(1);
	get(&limit, "k", T0);
	must_refuse(&limit, "k", then);
	must_refuse(&limit, "k", then + MINUTE - 1);
	get(&limit, "k", then + MINUTE + 2);
	/* The clock goes forward again: the slot of a minute after `then` is old. */
	get(&limit, "k", T0);
}

/* Threads read the clock before they decide. A thread that is late by up to a second takes and gives
 * back as others do. */
static void a_late_thread(void **unused)
{
	uint64_t first, second;

	(void)unused;
	limit = slots(2);
	first = get(&limit, "k", T0);
	second = get(&limit, "k", T0 - 900 * MS);
	must_refuse(&limit, "k", T0 - SECOND);
	assert_int_equal(give_back(table, &limit, "k", 1, first, T0 - 900 * MS).remaining, 1);
	assert_int_not_equal(get(&limit, "k", T0 - 900 * MS), first);
	assert_int_equal(give_back(table, &limit, "k", 1, second, T0 - SECOND).remaining, 1);
}

static void the_first_and_the_last_time(void **unused)
{
	struct weir_decision d;

	(void)unused;
	limit = slots(3);
	assert_int_equal(give_back(table, &limit, "k", 1, get(&limit, "k", 0), 0).remaining, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(take(table, &limit, "late", 1, TIME_MAX).admitted, 1);
	d = take(table, &limit, "late", 1, TIME_MAX);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, SECOND);
	assert_int_equal(weir_take(table, &limit, "k", 1, 1, TIME_MAX + 1, &d), WEIR_ETIME);
	assert_int_equal(weir_return(table, &limit, "k", 1, 1, TIME_MAX + 1, T0, &d), WEIR_ETIME);
}

/* --- the wait of a refused request --- */

static uint64_t wait_at(uint64_t now_ns)
{
	struct weir_decision d = take(table, &limit, "k", 1, now_ns);

	assert_int_equal(d.admitted, 0);
	return d.retry_after_ns;
}

/* Requests hold their slots for 10 s. The stored average is exact within 1 %. */
static void the_wait_is_estimated_from_holding_times(void **unused)
{
	uint64_t now_ns = T0, first;

	(void)unused;
	limit = slots(2);
	first = get(&limit, "k", now_ns);
	get(&limit, "k", now_ns);
	/* No request has given a slot back yet: the shortest wait, one second. */
	assert_int_equal(wait_at(now_ns), SECOND);
	give_back(table, &limit, "k", 1, first, now_ns + 10 * SECOND);
	now_ns += 2 * MINUTE;
	get(&limit, "k", now_ns);
	get(&limit, "k", now_ns + 4 * SECOND);
	assert_in_range(wait_at(now_ns + 4 * SECOND), 5900 * MS, 6100 * MS);
	assert_in_range(wait_at(now_ns + 8 * SECOND), 1900 * MS, 2100 * MS);
	assert_int_equal(wait_at(now_ns + 9500 * MS), SECOND);
	/* Both have held their slots for longer than the average. */
	assert_in_range(wait_at(now_ns + 20 * SECOND), 9900 * MS, 10100 * MS);
	/* The first slot is free after max_hold at the latest. */
	assert_int_equal(wait_at(now_ns + 57 * SECOND), 3 * SECOND);
	assert_int_equal(wait_at(now_ns + 60 * SECOND - 1), SECOND);
}

/* --- together with other limits, and settling --- */

/* The bucket refuses, so the slot is given back. */
static void beside_another_limit(void **unused)
{
	struct weir_limit bucket = sized(WEIR_TOKEN_BUCKET, 1000, MINUTE);
	struct weir_need needs[2];
	struct weir_decision d[2];
	int admitted;

	(void)unused;
	limit = slots(3);
	needs[0] = (struct weir_need){&limit, "k", 1, 600};
	needs[1] = (struct weir_need){&bucket, "k", 1, 600};
	assert_int_equal(weir_take_all(table, needs, 2, T0, d, &admitted), 0);
	assert_int_equal(admitted, 1);
	assert_int_equal(d[0].remaining, 2);
	assert_int_equal(weir_take_all(table, needs, 2, T0, d, &admitted), 0);
	assert_int_equal(admitted, 0);
	assert_int_equal(d[0].admitted, 1);
	assert_int_equal(d[0].remaining, 2);
	assert_int_equal(d[0].charged_ns, 0);
	assert_int_equal(d[1].admitted, 0);
	assert_int_equal(left(&limit, "k", T0), 2);
	/* No slot is free, so the bucket is not charged. */
	needs[1].cost = 1;
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_take_all(table, needs, 2, T0, d, &admitted), 0);
	assert_int_equal(admitted, 0);
	assert_int_equal(d[0].admitted, 0);
	assert_int_equal(take(table, &bucket, "k", 0, T0).remaining, 398);
}

static void settling_frees_the_slot(void **unused)
{
	static const int64_t actual[] = {0, 1, 500, INT64_MAX};
	const struct weir_decision none = {0};
	struct weir_decision d;

	(void)unused;
	limit = slots(2);
	for (int i = 0; i < 4; i++) {
		struct weir_decision taken = take(table, &limit, "k", 1, T0);

		get(&limit, "k", T0);
		for (int times = 0; times < 2; times++) {
			assert_int_equal(
				weir_settle(table, &limit, "k", 1, &taken, 600, actual[i], T0, &d),
				0);
			assert_int_equal(d.admitted, 1);
			assert_int_equal(d.remaining, 1);
			assert_int_equal(d.debt, 0);
		}
		assert_int_equal(weir_settle(table, &limit, "k", 1, &none, 600, actual[i], T0, &d),
				 0);
		assert_int_equal(d.remaining, 1);
		wr_store_reset(table, &limit, hash_of("k"), T0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_example),
		TEST(as_many_as_there_are_slots),
		TEST(a_slot_is_given_back_once),
		TEST(a_slot_is_free_after_max_hold),
		TEST(no_slot_is_free_early),
		TEST(the_cost_does_not_matter),
		TEST(looking_changes_nothing),
		TEST(no_slots_at_all),
		TEST(a_lowered_limit),
		TEST(a_raised_limit),
		TEST(grants),
		TEST(a_granted_key_keeps_its_block),
		TEST(bans),
		TEST(a_reset),
		TEST(a_clock_that_steps_back),
		TEST(a_slot_of_the_future_is_free_after_max_hold),
		TEST(a_late_thread),
		TEST(the_first_and_the_last_time),
		TEST(the_wait_is_estimated_from_holding_times),
		TEST(beside_another_limit),
		TEST(settling_frees_the_slot),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
