/* Blocks of the slab: they are taken, found by name and freed. Spans are cut for one size class,
 * and cut again for another. Blocks of dead processes can be taken again after a minute. */
#include "table/table_test.h"

#include "table/slab.h"

#define NOW_S 1700000040u

static struct weir_table *table;
static struct weir_limit limit;

static int open_slab(void **unused)
{
	(void)unused;
	table = table_narrow("slab", 32, 4);
	limit = sized(WEIR_SLIDING_LOG, 1000, MINUTE);
	return 0;
}

static int close_slab(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

static struct wr_spot cell_nth(uint64_t number)
{
	struct wr_spot spot;

	wr_table_claim(table, key_nth(table, &limit, number), WR_KIND_LOG, NOW_S, &spot);
	return spot;
}

static bool take_weighing(uint64_t number, uint32_t stamps, unsigned weight, uint32_t now_s,
			  struct wr_table_log_block *block)
{
	struct wr_slab_wish wish = {.cell = cell_nth(number).cell,
				    .stamps = stamps,
				    .slot = wr_brief_code(MINUTE),
				    .weight = weight};

	return wr_slab_take(table, &wish, now_s * SECOND, block);
}

static bool take_block(uint64_t number, uint32_t stamps, uint32_t now_s,
		       struct wr_table_log_block *block)
{
	return take_weighing(number, stamps, WR_WEIGHT_ALL, now_s, block);
}

/* Writes the name of the block into the cell of the key, as a log does. The key expires at
 * fresh_s. */
static void own(uint64_t number, const struct wr_table_log_block *block, unsigned harm,
		uint32_t fresh_s)
{
	struct wr_spot spot = cell_nth(number);

	wr_cell_raise_fresh(spot.cell, fresh_s * SECOND, fresh_s * SECOND);
	spot.cell->hot = wr_hot_with(spot.hot, block->name, 0, harm);
}

static void sizes_are_powers_of_two_less_the_header(void **unused)
{
	static const struct {
		uint32_t stamps, capacity;
	} cases[] = {{1, 4},   {4, 4},    {5, 12},    {12, 12},   {13, 28},
		     {60, 60}, {61, 124}, {252, 252}, {253, 508}, {1020, 1020}};

	(void)unused;
	assert_int_equal(table->span_bytes, 8192);
	assert_int_equal(wr_slab_max_stamps(table), 1020);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_table_log_block block, again;
		struct wr_table_log_word word;

		table_clear(table);
		assert_true(take_block(1, cases[i].stamps, NOW_S, &block));
		assert_int_equal(block.capacity, cases[i].capacity);
		assert_int_equal(wr_slab_used(table), cases[i].capacity * 8 + 32);
		assert_true(wr_slab_find(table, block.name, &again));
		assert_ptr_equal(again.block, block.block);
		assert_int_equal(again.capacity, block.capacity);
		word = wr_table_log_word_of(block.block->word);
		assert_int_equal(word.count, 0);
		assert_int_equal(word.generation, block.name & 0x7fff);
		wr_slab_release(table, block.name);
		assert_int_equal(wr_slab_used(table), 0);
		assert_false(wr_slab_find(table, block.name, &again));
	}
	assert_false(take_block(1, 1021, NOW_S, &(struct wr_table_log_block){0}));
}

/* Tries every size up to the largest log, in the smallest table in which the size fits. */
static void the_largest_log_fits_a_span_of_its_own(void **unused)
{
	struct weir_table *large = table_open("large", 16 * MIB, 8 * MIB);
	struct weir_limit most = sized(WEIR_SLIDING_LOG, WEIR_LOG_MAX, HOUR);
	struct wr_table_log_block block;
	struct wr_spot spot;

	(void)unused;
	assert_int_equal(large->span_bytes, 512 * KIB);
	assert_int_equal(wr_slab_max_stamps(large), WEIR_LOG_MAX);
	for (uint32_t stamps = 4; stamps <= WEIR_LOG_MAX; stamps = 2 * stamps + 4) {
		wr_table_claim(large, key_nth(large, &most, stamps), WR_KIND_LOG, NOW_S, &spot);
		assert_true(wr_slab_take(
			large, &(struct wr_slab_wish){.cell = spot.cell, .stamps = stamps},
			NOW_S * SECOND, &block));
		assert_int_equal(block.capacity, stamps);
	}
	table_drop(large);
}

static void a_name_is_good_for_one_tenure(void **unused)
{
	struct wr_table_log_block first, second, found;

	(void)unused;
	table->span_count = 1;
	assert_true(take_block(1, 1020, NOW_S, &first));
	assert_false(take_block(2, 1020, NOW_S, &second));
	wr_slab_release(table, first.name);
	assert_true(take_block(2, 1020, NOW_S, &second));
	assert_ptr_equal(first.block, second.block);
	assert_false(wr_slab_find(table, first.name, &found));
	wr_slab_release(table, first.name);
	assert_true(wr_slab_find(table, second.name, &found));
}

static void invalid_names_find_no_block(void **unused)
{
	struct wr_table_log_block block, found;
	struct rnd r = {rnd_seed()};

	(void)unused;
	assert_true(take_block(1, 60, NOW_S, &block));
	assert_false(wr_slab_find(table, 0, &found));
	assert_false(wr_slab_find(table, UINT64_MAX, &found));
	assert_false(wr_slab_find(table, block.name + 1, &found));
	assert_false(wr_slab_find(table, block.name + (1ull << 32), &found));
	for (int i = 0; i < 100000; i++)
		assert_false(wr_slab_find(table, rnd(&r) | 1ull << 63, &found));
}

static uint64_t take_all_there_are(uint64_t first, uint32_t stamps, uint32_t now_s)
{
	struct wr_table_log_block block;
	uint64_t taken = 0;

	for (int i = 0; i < 500; i++)
		taken += take_block(first, stamps, now_s, &block);
	return taken;
}

/* A block that was taken, but whose name is in no cell, cannot be taken by others for a minute. */
static void blocks_of_dead_processes_are_garbage_after_a_minute(void **unused)
{
	(void)unused;
	assert_int_equal(take_all_there_are(1, 60, NOW_S), 64);
	assert_int_equal(take_all_there_are(2, 60, NOW_S + 60), 0);
	assert_int_equal(take_all_there_are(2, 60, NOW_S + 61), 64);
	/* This also holds if the clock steps back. */
	assert_int_equal(take_all_there_are(3, 60, NOW_S + 1), 0);
	assert_int_equal(take_all_there_are(3, 60, NOW_S - 1), 64);
}

/* When limits of other sizes come into use, spans are cut for other sizes. */
static void spans_are_cut_anew_when_nothing_in_them_is_needed(void **unused)
{
	struct wr_table_log_block block, owned;

	(void)unused;
	assert_true(take_all_there_are(1, 4, NOW_S) > 384);
	assert_int_equal(take_all_there_are(1, 1020, NOW_S), 0);
	assert_int_equal(take_all_there_are(2, 1020, NOW_S + 61), 4);
	assert_int_equal(wr_slab_used(table), 4 * 8192);
	/* A class that was used within a minute keeps one span. */
	table_clear(table);
	assert_true(take_all_there_are(1, 4, NOW_S) > 384);
	take_block(1, 4, NOW_S + 60, &block);
	assert_int_equal(take_all_there_are(2, 1020, NOW_S + 61), 3);
	/* The only span of a class keeps its size while a live log is in it. */
	table_clear(table);
	table->span_count = 1;
	assert_true(take_block(1, 4, NOW_S, &owned));
	own(1, &owned, 0, NOW_S + 1000);
	assert_false(take_block(2, 1020, NOW_S + 61, &block));
	assert_true(wr_slab_find(table, owned.name, &block));
	assert_true(take_block(2, 1020, NOW_S + 1000, &block));
	assert_false(wr_slab_find(table, owned.name, &block));
	assert_int_equal(cells_of(table, key_nth(table, &limit, 1)), 0);
}

static bool is_brief(uint64_t number)
{
	uint32_t s1 = wr_hot_s1(cell_nth(number).hot);

	return s1 & WR_LOG_IN_CELL && s1 & WR_LOG_BRIEF;
}

/* Gives blocks of the smallest class to `keys` keys with this harm (algo/harm.h). */
static uint64_t fill_small(uint64_t keys, unsigned harm)
{
	struct wr_table_log_block block;
	uint64_t filled = 0;

	for (uint64_t i = 0; i < keys; i++)
		if (take_weighing(100 + filled, 4, 0, NOW_S, &block))
			own(100 + filled++, &block, harm, NOW_S + 1000);
	return filled;
}

/* A class without a block gets a span with logs of lower weight. These logs become brief, and no
 * log is lost. One call empties 128 blocks, which is enough for a span of 8 KiB. */
static void a_span_of_lighter_logs_is_emptied_for_heavier_ones(void **unused)
{
	struct wr_table_log_block block;
	uint64_t filled;
	unsigned brief = 0;

	(void)unused;
	table->row_count = 256;
	filled = fill_small(600, 5);
	assert_in_range(filled, 500, 512);
	assert_false(take_weighing(1, 60, 5, NOW_S, &block));
	assert_int_equal(info_of(table, T0).log_evicted, 0);
	assert_true(take_weighing(1, 60, 6, NOW_S, &block));
	assert_int_equal(block.capacity, 60);
	own(1, &block, 6, NOW_S + 1000);
	for (uint64_t i = 0; i < filled; i++) {
		brief += is_brief(100 + i);
		assert_int_equal(cells_of(table, key_nth(table, &limit, 100 + i)), 1);
	}
	assert_in_range(brief, 116, 128);
	assert_int_equal(info_of(table, T0).log_evicted, brief);
	/* The smallest class keeps one span, even if the logs of other classes weigh more. */
	for (uint64_t i = 2; i < 60; i++)
		if (take_weighing(i, 60, 100, NOW_S, &block))
			own(i, &block, 100, NOW_S + 1000);
	assert_int_equal(table->tallies->spans_of[0], 1);
	assert_int_equal(table->tallies->spans_of[3], 3);
}

static void expired_keys_lose_their_blocks_first(void **unused)
{
	struct wr_table_log_block block;

	(void)unused;
	table->span_count = 1;
	for (uint64_t i = 0; i < 8; i++) {
		assert_true(take_block(i, 124, NOW_S, &block));
		own(i, &block, i == 5 ? 0 : 100, i == 3 ? NOW_S + 10 : NOW_S + 100);
	}
	/* First the block of the key with the least weight is taken, later that of the expired
	 * key. */
	assert_true(take_block(20, 124, NOW_S, &block));
	own(20, &block, 200, NOW_S + 100);
	assert_true(is_brief(5));
	assert_int_equal(info_of(table, T0).log_evicted, 1);
	assert_true(take_block(21, 124, NOW_S + 10, &block));
	own(21, &block, 200, NOW_S + 100);
	assert_int_equal(cells_of(table, key_nth(table, &limit, 3)), 0);
	assert_int_equal(info_of(table, T0).log_evicted, 1);
	assert_int_equal(info_of(table, T0).expired, 1);
}

/* Logs become brief only for keys that weigh more, and never if they have to stay exact. */
static void a_heavier_or_an_exact_log_keeps_its_ring(void **unused)
{
	struct wr_table_log_block block;

	(void)unused;
	table->span_count = 1;
	for (uint64_t i = 0; i < 8; i++) {
		assert_true(take_block(i, 124, NOW_S, &block));
		own(i, &block, i ? 20 : WR_HARM_REFUSED | 10, NOW_S + 1000);
		if (i == 1)
			block.block->tenure.hi &= UINT32_MAX; /* exact */
	}
	assert_false(take_weighing(20, 124, 18, NOW_S + 61, &block));
	assert_int_equal(info_of(table, T0).log_evicted, 0);
	assert_true(take_weighing(20, 124, 19, NOW_S + 61, &block));
	own(20, &block, 100, NOW_S + 1000);
	assert_true(is_brief(0));
	for (uint64_t i = 2; i < 8; i++) {
		assert_true(take_block(20 + i, 124, NOW_S + 61, &block));
		own(20 + i, &block, 100, NOW_S + 1000);
		assert_true(is_brief(i));
	}
	assert_false(is_brief(1));
	for (uint64_t i = 0; i < 7; i++)
		if (take_block(50 + i, 124, NOW_S + 61, &block))
			own(50 + i, &block, 100, NOW_S + 1000);
	assert_false(is_brief(1));
}

static void a_table_may_have_no_slab(void **unused)
{
	struct wr_table_log_block block;

	(void)unused;
	table->span_count = 0;
	assert_int_equal(wr_slab_max_stamps(table), 0);
	assert_false(take_block(1, 1, NOW_S, &block));
	assert_false(wr_slab_find(table, 1ull << 32 | 1, &block));
	assert_int_equal(wr_slab_used(table), 0);
}

/* A thread may be late: it writes a stamp only if the word is still the one that it read. */
static void a_stamp_is_put_only_under_its_word(void **unused)
{
	struct wr_table_log_block block;
	struct wr_pair word, other;

	(void)unused;
	assert_true(take_block(1, 4, NOW_S, &block));
	word = block.block->word;
	assert_true(wr_block_put(block.block, word, 2, 77));
	assert_int_equal(block.block->stamps[2], 77);
	assert_true(wr_block_put(block.block, word, 2, 77));
	other = word;
	other.hi++;
	assert_false(wr_block_put(block.block, other, 2, 88));
	assert_int_equal(block.block->stamps[2], 77);
}

static void a_word_has_room_for_its_fields(void **unused)
{
	struct wr_table_log_word most = {UINT64_MAX, 65531, 65532, 65532, true, 0x7fff};
	struct wr_table_log_word back = wr_table_log_word_of(wr_table_log_word_pair(most));

	(void)unused;
	assert_int_equal(back.newest_ns, most.newest_ns);
	assert_int_equal(back.head, 65531);
	assert_int_equal(back.count, 65532);
	assert_int_equal(back.pending, 65532);
	assert_true(back.sealed);
	assert_int_equal(back.generation, 0x7fff);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_slab, close_slab)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sizes_are_powers_of_two_less_the_header),
		TEST(the_largest_log_fits_a_span_of_its_own),
		TEST(a_name_is_good_for_one_tenure),
		TEST(invalid_names_find_no_block),
		TEST(blocks_of_dead_processes_are_garbage_after_a_minute),
		TEST(spans_are_cut_anew_when_nothing_in_them_is_needed),
		TEST(expired_keys_lose_their_blocks_first),
		TEST(a_span_of_lighter_logs_is_emptied_for_heavier_ones),
		TEST(a_heavier_or_an_exact_log_keeps_its_ring),
		TEST(a_table_may_have_no_slab),
		TEST(a_stamp_is_put_only_under_its_word),
		TEST(a_word_has_room_for_its_fields),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
