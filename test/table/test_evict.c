/* Eviction from a full table: expired keys are evicted first, then keys that have used the least,
 * and refused keys only if all candidates are refused. Each kind of eviction is counted. Tables
 * have two rows, so that every key has the same 32 candidates. */
#include "table/table_test.h"

#define CELLS (2 * WR_CELLS)

static struct weir_table *table;

static int open_two_rows(void **unused)
{
	(void)unused;
	table = table_narrow("evict", 2, 4);
	return 0;
}

static int close_two_rows(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

static bool held(const struct weir_limit *limit, uint64_t number)
{
	unsigned cells = cells_of(table, key_nth(table, limit, number));

	assert_true(cells <= 1);
	return cells == 1;
}

static uint64_t held_of(const struct weir_limit *limit, uint64_t first, uint64_t count)
{
	uint64_t found = 0;

	for (uint64_t i = first; i < first + count; i++)
		found += held(limit, i);
	return found;
}

static void assert_tallies(uint64_t expired, uint64_t evicted, uint64_t evicted_refused,
			   uint64_t stolen)
{
	struct weir_info info = info_of(table, T0);

	assert_int_equal(info.expired, expired);
	assert_int_equal(info.evicted, evicted);
	assert_int_equal(info.evicted_refused, evicted_refused);
	assert_int_equal(info.stolen, stolen);
}

static void a_table_holds_a_key_in_every_cell(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);

	(void)unused;
	for (uint64_t i = 0; i < CELLS; i++)
		take_nth(table, &limit, i, 1, T0);
	assert_int_equal(held_of(&limit, 0, CELLS), CELLS);
	assert_int_equal(info_of(table, T0).keys, CELLS);
	assert_tallies(0, 0, 0, 0);
}

static void looks_and_refusals_take_no_cell(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);

	(void)unused;
	take_nth(table, &limit, 0, 0, T0);
	take_nth(table, &limit, 1, 11, T0);
	take_nth(table, &limit, 2, -1, T0);
	assert_int_equal(held_of(&limit, 0, 3), 0);
	assert_int_equal(info_of(table, T0).keys, 0);
}

static void expired_keys_are_evicted_first(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);

	(void)unused;
	/* Half of the keys are from two windows ago, half from this window. */
	for (uint64_t i = 0; i < CELLS; i++)
		take_nth(table, &limit, i, 1, i < CELLS / 2 ? T0 - 2 * MINUTE : T0);
	assert_int_equal(info_of(table, T0).keys, CELLS / 2);
	for (uint64_t i = 100; i < 100 + CELLS / 2; i++)
		take_nth(table, &limit, i, 1, T0);
	assert_tallies(CELLS / 2, 0, 0, 0);
	assert_int_equal(held_of(&limit, CELLS / 2, CELLS / 2), CELLS / 2);
	assert_int_equal(held_of(&limit, 100, CELLS / 2), CELLS / 2);
	take_nth(table, &limit, 200, 1, T0);
	assert_tallies(CELLS / 2, 1, 0, 0);
}

/* The key is not evicted a second too early, because fresh_at is rounded up. */
static void a_key_is_not_evicted_before_it_expires(void **unused)
{
	struct weir_limit brief = sized(WEIR_FIXED_WINDOW, 10, 1500 * MS);
	struct weir_limit filler = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	uint64_t start_ns = T0 - T0 % (1500 * MS) + 1500 * MS;

	(void)unused;
	take_nth(table, &brief, 0, 9, start_ns);
	for (uint64_t i = 1; i < CELLS; i++)
		take_nth(table, &filler, i, 1, start_ns);
	take_nth(table, &filler, 50, 1, start_ns + 1499 * MS);
	assert_true(held(&brief, 0));
	assert_int_equal(info_of(table, T0).evicted, 1);
	take_nth(table, &filler, 51, 1, start_ns + 4000 * MS);
	assert_false(held(&brief, 0));
	assert_tallies(1, 1, 0, 0);
}

/* Sends one request after another, because the weight of a key is bounded by the number of its
 * requests. */
static void use(const struct weir_limit *limit, uint64_t number, unsigned times)
{
	while (times--)
		take_nth(table, limit, number, 1, T0);
}

/* The scale of harm.h has four steps per octave. */
static void the_least_used_goes_first(void **unused)
{
	static const unsigned used[CELLS] = {1,   2,   3,   4,   5,   6,   7,   8,   10,  12, 14,
					     16,  20,  24,  28,  32,  40,  48,  56,  64,  80, 96,
					     112, 128, 160, 192, 224, 256, 320, 384, 448, 512};
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 1000, MINUTE);

	(void)unused;
	for (uint64_t i = 0; i < CELLS; i++)
		use(&limit, i, used[i]);
	for (uint64_t gone = 1; gone <= 20; gone++) {
		use(&limit, 100 + gone, 640);
		assert_int_equal(held_of(&limit, 0, gone), 0);
		assert_int_equal(held_of(&limit, gone, CELLS - gone), CELLS - gone);
	}
	assert_tallies(0, 20, 0, 0);
}

/* This holds for any cost, and for any share of the limit that the request takes. */
static void a_first_request_outranks_no_key_in_use(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 1000, MINUTE);
	struct weir_limit tiny = sized(WEIR_FIXED_WINDOW, 1, HOUR);
	struct weir_limit bucket = sized(WEIR_TOKEN_BUCKET, 3, HOUR);
	struct weir_limit costly = sized(WEIR_SLIDING_COUNTER, 1000000, HOUR);

	(void)unused;
	for (uint64_t i = 0; i < CELLS - 1; i++)
		use(&limit, i, 2);
	for (uint64_t i = 1000; i < 3000; i++) {
		take_nth(table, &tiny, i, 1, T0);
		take_nth(table, &bucket, i, 3, T0);
		take_nth(table, &costly, i, 1000000, T0);
	}
	assert_int_equal(held_of(&limit, 0, CELLS - 1), CELLS - 1);
	assert_tallies(0, 3 * 2000 - 1, 0, 0);
}

/* A refused key weighs as much as a key that was not refused and has used four times as much. So a
 * refused key with two requests under a limit of 1 is evicted before a key with five requests. */
static void a_first_refusal_outranks_no_key_in_use(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 1000, MINUTE);
	struct weir_limit tiny = sized(WEIR_FIXED_WINDOW, 1, HOUR);

	(void)unused;
	for (uint64_t i = 0; i < CELLS - 1; i++)
		use(&limit, i, 5);
	for (uint64_t i = 1000; i < 3000; i++)
		use(&tiny, i, 2);
	assert_int_equal(held_of(&limit, 0, CELLS - 1), CELLS - 1);
	/* A key with three admitted requests weighs less than a key with one admitted and one
	 * refused request. */
	table_clear(table);
	for (uint64_t i = 0; i < CELLS - 2; i++)
		use(&limit, i, 5);
	use(&tiny, 5000, 2);
	use(&limit, 6000, 3);
	use(&limit, 6001, 1);
	assert_true(held(&tiny, 5000));
	assert_false(held(&limit, 6000));
	assert_tallies(0, 1, 0, 0);
}

/* The bound that docs/engine.md states: how many requests a flood of new keys needs to evict keys
 * in use. */
static void a_flood_needs_as_many_requests_as_its_victims_made(void **unused)
{
	struct weir_table *large = table_open("bound", 256 * KIB, 0);
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 100, HOUR);
	struct weir_limit three = sized(WEIR_FIXED_WINDOW, 3, HOUR);
	uint64_t cells = info_of(large, T0).cells, survivors = 0;

	(void)unused;
	assert_int_equal(cells, 7680);
	for (uint64_t i = 0; i < 1000; i++)
		for (int times = 0; times < 5; times++)
			take_nth(large, &limit, i, 1, T0);
	for (uint64_t i = 0; i < 300000; i++)
		take_nth(large, &three, 10000 + i, 1, T0);
	for (uint64_t i = 0; i < 1000; i++)
		survivors += take_nth(large, &limit, i, 0, T0).remaining == 95;
	assert_int_equal(survivors, 1000);
	/* Five requests each, for as many keys as there are cells and as many again: then they are
	 * evicted. */
	for (uint64_t i = 0; i < 4 * cells; i++)
		for (int times = 0; times < 6; times++)
			take_nth(large, &limit, 1000000 + i, 1, T0);
	survivors = 0;
	for (uint64_t i = 0; i < 1000; i++)
		survivors += take_nth(large, &limit, i, 0, T0).remaining == 95;
	assert_int_equal(survivors, 0);
	table_drop(large);
}

static void of_equal_keys_the_one_that_expires_first_is_evicted(void **unused)
{
	struct weir_limit limit[CELLS];
	struct weir_limit other = sized(WEIR_FIXED_WINDOW, 10, 1000 * SECOND);

	(void)unused;
	for (uint64_t i = 0; i < CELLS; i++) {
		limit[i] = sized(WEIR_TOKEN_BUCKET, 10, (60 + 10 * i) * SECOND);
		take_nth(table, &limit[i], i, 5, T0);
	}
	for (uint64_t gone = 0; gone < 5; gone++) {
		take_nth(table, &other, 100 + gone, 9, T0);
		assert_false(held(&limit[gone], gone));
		assert_true(held(&limit[gone + 1], gone + 1));
	}
	assert_tallies(0, 5, 0, 0);
}

static void a_refused_key_outlives_the_others(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 2, MINUTE);

	(void)unused;
	take_nth(table, &limit, 0, 2, T0);
	assert_int_equal(take_nth(table, &limit, 0, 1, T0).admitted, 0);
	for (uint64_t i = 1; i < 1000; i++)
		take_nth(table, &limit, i, 2, T0);
	assert_true(held(&limit, 0));
	assert_int_equal(take_nth(table, &limit, 0, 1, T0).admitted, 0);
	assert_int_equal(info_of(table, T0).keys_refused, 1);
	assert_tallies(0, 1000 - CELLS, 0, 0);
}

static void evicted_refused_keys_are_counted_separately(void **unused)
{
	struct weir_limit limit = sized(WEIR_SLIDING_COUNTER, 1, MINUTE);

	(void)unused;
	for (uint64_t i = 0; i < CELLS; i++) {
		take_nth(table, &limit, i, 1, T0);
		assert_int_equal(take_nth(table, &limit, i, 1, T0).admitted, 0);
	}
	assert_int_equal(info_of(table, T0).keys_refused, CELLS);
	assert_tallies(0, 0, 0, 0);
	take_nth(table, &limit, 100, 1, T0);
	assert_tallies(0, 0, 1, 0);
	assert_int_equal(held_of(&limit, 0, CELLS), CELLS - 1);
	/* The new key is the only one that was not refused: the next key takes its cell. */
	take_nth(table, &limit, 101, 1, T0);
	assert_tallies(0, 1, 1, 0);
	assert_false(held(&limit, 100));
}

/* The second cell of soft mode has a high weight: if it were evicted, the key could exceed its
 * limit again. */
static void an_overshoot_outlives_the_others(void **unused)
{
	struct weir_limit soft =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = HOUR,
		      .soft_ceiling = 12, .soft_for_ns = SECOND);
	struct weir_limit other = sized(WEIR_FIXED_WINDOW, 100, HOUR);

	(void)unused;
	assert_int_equal(take_nth(table, &soft, 0, 10, T0).admitted, 1);
	assert_int_equal(take_nth(table, &soft, 0, 1, T0).soft, 1);
	for (uint64_t i = 1; i < 1000; i++)
		take_nth(table, &other, i, 1, T0);
	assert_int_equal(take_nth(table, &soft, 0, 1, T0 + SECOND - 1).soft, 1);
	assert_int_equal(take_nth(table, &soft, 0, 1, T0 + SECOND).admitted, 0);
}

static struct wr_cell *cell_of(const struct weir_limit *limit, uint64_t number)
{
	struct wr_spot spot;

	assert_true(wr_table_find(table, key_nth(table, limit, number), &spot));
	return spot.cell;
}

/* A process that dies between claim and confirmation leaves a tentative cell that contains the tag
 * of a key. */
static void dead_claims_are_finished_by_requests_of_the_key(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	struct wr_key key = key_nth(table, &limit, 1);
	struct wr_cell *dead = &table->rows[1].cell[7];

	(void)unused;
	dead->hot = wr_hot(key.tag, 0, 1, WEIR_FIXED_WINDOW, WR_TENTATIVE);
	assert_int_equal(cells_of(table, key), 0);
	take_nth(table, &limit, 1, 1, T0);
	assert_ptr_equal(cell_of(&limit, 1), dead);
	assert_int_equal(cells_of(table, key), 1);
	assert_tallies(0, 0, 0, 0);
}

static void dead_claims_are_stolen_before_live_keys_are_evicted(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	struct wr_cell *dead;

	(void)unused;
	for (uint64_t i = 0; i < CELLS; i++)
		take_nth(table, &limit, i, 1, T0);
	dead = cell_of(&limit, 5);
	dead->hot =
		wr_hot(key_nth(table, &limit, 999).tag, 0,
		       (uint16_t)(wr_hot_version(dead->hot) + 1), WEIR_FIXED_WINDOW, WR_TENTATIVE);
	take_nth(table, &limit, 100, 1, T0);
	assert_tallies(0, 0, 0, 1);
	assert_ptr_equal(cell_of(&limit, 100), dead);
}

/* If a key has two claims, the claim in the lower cell stays. */
static void two_dead_claims_become_one_cell(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	struct wr_key key = key_nth(table, &limit, 1);

	(void)unused;
	table->rows[0].cell[9].hot = wr_hot(key.tag, 0, 1, WEIR_FIXED_WINDOW, WR_TENTATIVE);
	table->rows[1].cell[3].hot = wr_hot(key.tag, 0, 1, WEIR_FIXED_WINDOW, WR_TENTATIVE);
	take_nth(table, &limit, 1, 1, T0);
	assert_int_equal(cells_of(table, key), 1);
	assert_int_equal(wr_hot_state(table->rows[0].cell[9].hot) +
				 wr_hot_state(table->rows[1].cell[3].hot),
			 WR_LIVE + WR_EMPTY);
}

/* Hints may be lost or wrong: the key is still found, and never claimed again. */
static void wrong_hints_only_cost_time(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 1000, MINUTE);
	struct rnd r = {rnd_seed()};

	(void)unused;
	for (uint64_t i = 0; i < CELLS; i++)
		take_nth(table, &limit, i, 1, T0);
	for (int round = 0; round < 100; round++) {
		for (uint64_t i = 0; i < CELLS; i++) {
			struct wr_cell *cell = &table->rows[i / WR_CELLS].cell[i % WR_CELLS];

			cell->id.hi = (cell->id.hi & 0xffffffffffff) | rnd(&r) << 48;
		}
		for (uint64_t i = 0; i < CELLS; i++)
			assert_int_equal(take_nth(table, &limit, i, 1, T0).remaining, 998 - round);
	}
	assert_tallies(0, 0, 0, 0);
}

/* A version counts the claims of a cell and wraps after 65,536. */
static void a_cell_works_after_its_version_wraps(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 2, MINUTE);

	(void)unused;
	for (uint64_t i = 0; i < 200000; i++) {
		assert_int_equal(take_nth(table, &limit, i, 1, T0).remaining, 1);
		assert_int_equal(take_nth(table, &limit, i, 1, T0).remaining, 0);
	}
	assert_int_equal(info_of(table, T0).keys, CELLS);
	assert_tallies(0, 200000 - CELLS, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_two_rows, close_two_rows)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_table_holds_a_key_in_every_cell),
		TEST(looks_and_refusals_take_no_cell),
		TEST(expired_keys_are_evicted_first),
		TEST(a_key_is_not_evicted_before_it_expires),
		TEST(the_least_used_goes_first),
		TEST(a_first_request_outranks_no_key_in_use),
		TEST(a_first_refusal_outranks_no_key_in_use),
		TEST(a_flood_needs_as_many_requests_as_its_victims_made),
		TEST(of_equal_keys_the_one_that_expires_first_is_evicted),
		TEST(a_refused_key_outlives_the_others),
		TEST(evicted_refused_keys_are_counted_separately),
		TEST(an_overshoot_outlives_the_others),
		TEST(dead_claims_are_finished_by_requests_of_the_key),
		TEST(dead_claims_are_stolen_before_live_keys_are_evicted),
		TEST(two_dead_claims_become_one_cell),
		TEST(wrong_hints_only_cost_time),
		TEST(a_cell_works_after_its_version_wraps),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
