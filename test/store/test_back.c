/* Gives units back to a table: one case after the other, and random cases that are compared with a
 * model. */
#include "algo/cancels.h"
#include "rounds.h"
#include "store/store.h"
#include "table/override.h"
#include "table/table_test.h"

#define RUNS test_rounds(400, 2000)
#define EDGE (T0 + MINUTE)

static struct weir_table *table;

static int open_table(void **state)
{
	if (folder_make(state) < 0)
		return -1;
	table = table_open("back", 16 * MIB, 8 * MIB);
	return 0;
}

static int drop_table(void **state)
{
	table_drop(table);
	return folder_drop(state);
}

/* A request takes its estimated cost and gives back the rest, under 100 per minute. The rest that
 * was taken in the previous minute is not added to this minute. */
static void the_rest_of_an_estimate_stays_in_its_window(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
	struct weir_decision first = take(table, &limit, "rest", 90, EDGE - 500 * MS), second;

	(void)unused;
	assert_int_equal(first.charged_ns, EDGE - 500 * MS);
	assert_int_equal(give_back(table, &limit, "rest", 10, T0, EDGE - 400 * MS).remaining, 20);
	second = take(table, &limit, "rest", 90, EDGE);
	assert_int_equal(second.charged_ns, EDGE);
	assert_int_equal(give_back(table, &limit, "rest", 80, T0, EDGE).remaining, 10);
	assert_int_equal(give_back(table, &limit, "rest", 80, T0, EDGE - 400 * MS).remaining, 10);
	assert_int_equal(give_back(table, &limit, "rest", 80, EDGE, EDGE + SECOND).remaining, 90);
	assert_int_equal(give_back(table, &limit, "rest", 80, EDGE, EDGE + SECOND).remaining, 100);
}

static void nothing_is_given_back_to_a_key_that_is_not_there(void **unused)
{
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 5, MINUTE);
	struct weir_decision d = give_back(table, &limit, "nobody", 3, T0, T0);

	(void)unused;
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.remaining, 5);
	assert_int_equal(take(table, &limit, "nobody", 5, T0).admitted, 1);
}

/* A client knows the time of its take only roughly: a log gives back its newest entries at or before
 * that time. */
static void a_log_gives_back_entries_at_a_rough_time(void **unused)
{
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 5, MINUTE);
	struct wr_key key = wr_hash_key(table->secret, "rough", 5, limit.checked);
	uint64_t now_ns = T0 + 10 * SECOND;

	(void)unused;
	take(table, &limit, "rough", 1, T0 + 1 * SECOND);
	take(table, &limit, "rough", 1, T0 + 2 * SECOND);
	assert_int_equal(take(table, &limit, "rough", 3, T0 + 3 * SECOND).remaining, 0);
	/* No entry is so early, and no client takes units in the future. */
	assert_int_equal(wr_store_return_at(table, &limit, key, 1, T0 + SECOND - 1, now_ns), 0);
	assert_int_equal(wr_store_return_at(table, &limit, key, 1, now_ns + 2 * SECOND, now_ns), 0);
	/* The entries of second 2 and 1 are given back, but not the later ones. */
	assert_int_equal(wr_store_return_at(table, &limit, key, 1, T0 + 3 * SECOND - 1, now_ns), 1);
	assert_int_equal(wr_store_return_at(table, &limit, key, 9, T0 + 3 * SECOND - 1, now_ns), 1);
	assert_int_equal(wr_store_return_at(table, &limit, key, 9, T0 + 3 * SECOND - 1, now_ns), 0);
	assert_int_equal(take(table, &limit, "rough", 3, now_ns).admitted, 0);
	assert_int_equal(take(table, &limit, "rough", 2, now_ns).admitted, 1);
	/* The newest entries of the log. */
	assert_int_equal(wr_store_return_at(table, &limit, key, 3, now_ns + 1, now_ns + 2), 3);
	assert_int_equal(take(table, &limit, "rough", 4, now_ns + 2).admitted, 0);
	assert_int_equal(take(table, &limit, "rough", 3, now_ns + 2).admitted, 1);
	/* At second 63, the entries of second 3 have left. The other three leave at second 70. */
	now_ns = T0 + 63 * SECOND;
	assert_int_equal(wr_store_return_at(table, &limit, key, 9, T0 + 4 * SECOND, now_ns), 0);
	assert_int_equal(take(table, &limit, "rough", 3, now_ns).admitted, 0);
	assert_int_equal(wr_store_return_at(table, &limit, key, 2, T0 + 11 * SECOND, now_ns), 2);
	assert_int_equal(take(table, &limit, "rough", 5, now_ns).admitted, 0);
	assert_int_equal(take(table, &limit, "rough", 4, now_ns).admitted, 1);
}

/* With WEIR_COUNT_REJECTED, a full log may have dropped entries for refused requests. */
static void a_full_log_of_rejected_requests_gives_nothing_back(void **unused)
{
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 2, MINUTE);
	struct wr_key key;

	(void)unused;
	limit.flags |= WEIR_COUNT_REJECTED;
	assert_int_equal(weir_limit_check(&limit, NULL), 0);
	key = wr_hash_key(table->secret, "full", 4, limit.checked);
	take(table, &limit, "full", 1, T0);
	assert_int_equal(wr_store_return_at(table, &limit, key, 1, T0 + 1, T0 + 1), 1);
	take(table, &limit, "full", 1, T0 + 2);
	take(table, &limit, "full", 1, T0 + 3);
	assert_int_equal(take(table, &limit, "full", 1, T0 + 4).admitted, 0);
	assert_int_equal(wr_store_return_at(table, &limit, key, 1, T0 + 4, T0 + 5), 0);
}

/* --- an operator between the take and its cancel --- */

/* Returns the number of units that a request of this cost takes: one slot, whatever its cost. */
static uint32_t units(uint32_t algorithm, uint32_t cost)
{
	return algorithm == WEIR_CONCURRENT ? 1 : cost;
}

/* 4 of 10 units are taken, the counter is reset, and 3 units are taken. The 4 units cannot be given
 * back to the new counter, the 3 units can. A queue cannot distinguish units taken shortly after
 * the reset from units taken before it, so neither is given back. */
static void a_reset_begins_a_counter_of_its_own(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;
	struct weir_limit limit = sized(algorithm, 10, MINUTE);
	uint64_t reset_ns = T0 + SECOND, now_ns = reset_ns + 1;
	uint32_t left = 10 - units(algorithm, 3);
	struct weir_decision before = take(table, &limit, "reset", 4, T0), after;

	wr_store_reset(table, &limit, key_named(table, &limit, "reset"), reset_ns);
	assert_int_equal(take(table, &limit, "reset", 0, reset_ns).remaining, 10);
	after = take(table, &limit, "reset", 3, now_ns);
	assert_int_equal(after.remaining, left);
	assert_int_equal(give_back(table, &limit, "reset", 4, before.charged_ns, now_ns).remaining,
			 left);
	assert_int_equal(give_back(table, &limit, "reset", 3, after.charged_ns, now_ns).remaining,
			 algorithm == WEIR_LEAKY_BUCKET ? 7 : 10);
}

/* The same for units that are settled. */
static void a_reset_is_not_undone_by_settling(void **unused)
{
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 10, MINUTE);
	uint64_t reset_ns = T0 + SECOND, now_ns = reset_ns + 1;
	struct weir_decision before = take(table, &limit, "settled", 4, T0), after, d;

	(void)unused;
	wr_store_reset(table, &limit, key_named(table, &limit, "settled"), reset_ns);
	after = take(table, &limit, "settled", 3, now_ns);
	assert_int_equal(weir_settle(table, &limit, "settled", 7, &before, 4, 0, now_ns, &d), 0);
	assert_int_equal(d.remaining, 7);
	assert_int_equal(weir_settle(table, &limit, "settled", 7, &after, 3, 1, now_ns, &d), 0);
	assert_int_equal(d.remaining, 9);
}

/* The departures before and after the reset have the same times. */
static void a_position_is_lost_when_the_queue_is_reset(void **unused)
{
	struct weir_limit limit = sized(WEIR_LEAKY_BUCKET, 5, MINUTE);
	uint64_t leaves_ns = 0;

	(void)unused;
	for (int i = 0; i < 5; i++)
		leaves_ns = take(table, &limit, "queue", 1, T0).charged_ns;
	wr_store_reset(table, &limit, key_named(table, &limit, "queue"), T0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(take(table, &limit, "queue", 1, T0).admitted, 1);
	assert_int_equal(give_back(table, &limit, "queue", 1, leaves_ns, T0).remaining, 0);
}

/* The later of two resets is stored. Its cell expires when units that were taken before the reset
 * cannot be given back any more. */
static void a_reset_is_noted_while_it_matters(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	struct wr_key key = key_named(table, &limit, "noted");
	struct weir_decision first = take(table, &limit, "noted", 1, T0), second;
	uint64_t keys = info_of(table, T0).keys;

	(void)unused;
	wr_store_reset(table, &limit, key, T0 + 10);
	second = take(table, &limit, "noted", 1, T0 + 11);
	wr_store_reset(table, &limit, key, T0 + 20);
	wr_store_reset(table, &limit, key, T0 + 15);
	take(table, &limit, "noted", 3, T0 + 21);
	assert_int_equal(give_back(table, &limit, "noted", 1, first.charged_ns, T0 + 22).remaining,
			 7);
	assert_int_equal(give_back(table, &limit, "noted", 1, second.charged_ns, T0 + 22).remaining,
			 7);
	assert_int_equal(info_of(table, T0 + 22).keys, keys + 1);
	take(table, &limit, "noted", 1, EDGE + 2 * SECOND);
	assert_true(info_of(table, EDGE + 2 * SECOND).keys <= keys);
}

/* A ban, its end, a grant and its end do not change the counter. */
static void bans_and_grants_change_no_counter(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state, now_s = wr_seconds(T0);
	struct weir_limit limit = sized(algorithm, 10, MINUTE);
	struct wr_key key = key_named(table, &limit, "banned");
	struct weir_decision first = take(table, &limit, "banned", 4, T0), d;

	for (int ban = 0; ban < 2; ban++)
		for (uint32_t until_s = now_s + 100;; until_s = 0) {
			struct wr_override_change change = {
				.ban = ban, .grant = !ban, .to = {until_s, until_s, 5}};

			wr_override_change(table, key, algorithm, &change, now_s);
			d = give_back(table, &limit, "banned", 1, first.charged_ns, T0);
			if (!until_s)
				break;
		}
	assert_int_equal(d.limit, 10);
	assert_int_equal(take(table, &limit, "banned", 0, T0).remaining,
			 algorithm == WEIR_LEAKY_BUCKET ? 6 : 10);
}

/* The reset is stored in the new table too. */
static void a_resized_table_knows_what_was_reset(void **unused)
{
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 10, MINUTE);
	struct weir_opts opts = opts_of("resized", 2 * MIB, 0);
	struct weir_table *before = table, *old = table_open("resized", MIB, 0);
	struct weir_decision first;

	(void)unused;
	table = old;
	first = take(table, &limit, "moved", 4, T0);
	wr_store_reset(table, &limit, key_named(table, &limit, "moved"), T0 + 1);
	take(table, &limit, "moved", 3, T0 + 2);
	assert_int_equal(weir_resize(&opts, T0 + 3, NULL), 0);
	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	assert_int_equal(give_back(table, &limit, "moved", 4, first.charged_ns, T0 + 4).remaining,
			 7);
	weir_close(old);
	table_drop(table);
	table = before;
}

/* --- at random --- */

struct counter {
	struct weir_limit limit;
	char key[16];
};

static struct weir_decision take_one(void *of, int64_t cost, uint64_t now_ns)
{
	struct counter *c = of;

	return take(table, &c->limit, c->key, cost, now_ns);
}

static void give_one(void *of, uint64_t n, uint64_t charged_ns, uint64_t now_ns)
{
	struct counter *c = of;

	give_back(table, &c->limit, c->key, (int64_t)n, charged_ns, now_ns);
}

static void cancelled_at_random(void **state)
{
	static const struct cancel_ops ops = {take_one, give_one, 1};
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;
	struct cancel_tally tally = {0};
	struct rnd r = {rnd_seed() + algorithm};

	for (int i = 0; i < RUNS; i++) {
		struct counter c = {.limit = cancel_limit(&r, algorithm, 1)};

		snprintf(c.key, sizeof c.key, "%u:%d", algorithm, i);
		cancels_run(&r, &c.limit, &ops, &c, i % 2 ? 0 : 20, &tally);
	}
	assert_true(tally.admitted > 10 * RUNS && tally.refused > RUNS);
	assert_true(tally.whole > RUNS && tally.none > RUNS / 2);
}

#define RESET(name, number, text)                                                                  \
	{"reset: " text, a_reset_begins_a_counter_of_its_own, NULL, NULL, (void *)(number)},
#define BANNED(name, number, text)                                                                 \
	{"banned: " text, bans_and_grants_change_no_counter, NULL, NULL, (void *)(number)},
#define RANDOM(name, number, text)                                                                 \
	{"cancelled at random: " text, cancelled_at_random, NULL, NULL, (void *)(number)},

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rest_of_an_estimate_stays_in_its_window),
		cmocka_unit_test(nothing_is_given_back_to_a_key_that_is_not_there),
		cmocka_unit_test(a_log_gives_back_entries_at_a_rough_time),
		cmocka_unit_test(a_full_log_of_rejected_requests_gives_nothing_back),
		cmocka_unit_test(a_reset_is_not_undone_by_settling),
		cmocka_unit_test(a_position_is_lost_when_the_queue_is_reset),
		cmocka_unit_test(a_reset_is_noted_while_it_matters),
		cmocka_unit_test(a_resized_table_knows_what_was_reset),
		WEIR_ALGORITHMS(RESET) WEIR_ALGORITHMS(BANNED) WEIR_ALGORITHMS(RANDOM)};

	return cmocka_run_group_tests(tests, open_table, drop_table);
}
