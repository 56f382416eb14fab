/* Lists of the keys that were counted most often. */
#include <stdio.h>

#include "lab/replay/replay_test.h"

#include "base/hash.h"
#include "base/str.h"

static void count(struct wr_lab_top *top, uint32_t group, uint64_t number, unsigned times)
{
	uint64_t key = number * 8 + group;
	char text[32];

	for (unsigned i = 0; i < times; i++)
		if (wr_lab_top_count(top, group, XXH3_64bits(&key, sizeof key))) {
			snprintf(text, sizeof text, "key %llu", (unsigned long long)number);
			wr_lab_top_name(top, wr_str(text));
		}
}

static void the_list_is_sorted(void **state)
{
	const struct wr_lab_top_key *found[3];
	struct wr_lab_top top;

	(void)state;
	assert_true(wr_lab_top_init(&top, 2, 100));
	count(&top, 0, 1, 5);
	count(&top, 0, 2, 9);
	count(&top, 1, 2, 100);
	count(&top, 0, 4, 5);
	count(&top, 0, 3, 1);
	assert_int_equal(wr_lab_top_find(&top, 0, found, 3), 3);
	replay_assert_key(found[0], "key 2", 9);
	replay_assert_key(found[1], "key 1", 5); /* equal counts: in the order of the texts */
	replay_assert_key(found[2], "key 4", 5);
	assert_int_equal(wr_lab_top_find(&top, 1, found, 3), 1);
	replay_assert_key(found[0], "key 2", 100);
	wr_lab_top_free(&top);
}

/* 100 keys fit. 100,000 keys come once each, and one key comes 2,000 times in between. */
static void a_frequent_key_is_found_among_many(void **state)
{
	const struct wr_lab_top_key *found[2];
	struct wr_lab_top top;

	(void)state;
	assert_true(wr_lab_top_init(&top, 1, 100));
	count(&top, 0, 7, 3);
	for (unsigned i = 0; i < 100000; i++) {
		count(&top, 0, 1000 + i, 1);
		if (i % 50 == 0)
			count(&top, 0, 7, 1);
	}
	assert_int_equal(wr_lab_top_find(&top, 0, found, 2), 2);
	replay_assert_key(found[0], "key 7", 2003);
	assert_int_equal(found[0]->error, 0); /* it was never dropped */
	assert_true(found[1]->error > 0);
	wr_lab_top_free(&top);
}

/* The true count of a key that was dropped is within its bounds. */
static void the_error_is_a_bound(void **state)
{
	const struct wr_lab_top_key *found[10];
	struct wr_lab_top top;
	unsigned true_count = 0;

	(void)state;
	assert_true(wr_lab_top_init(&top, 1, 10));
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 12; i++)
			count(&top, 0, 100 + (round * 12 + i) % 37, 1 + i % 3);
		count(&top, 0, 5, 2);
		true_count += 2;
	}
	for (size_t i = 0, n = wr_lab_top_find(&top, 0, found, 10); i < n; i++)
		if (found[i]->text_len == 5) { /* "key 5" */
			assert_true(found[i]->count <= true_count);
			assert_true(found[i]->count + found[i]->error >= true_count);
			true_count = 0;
		}
	assert_int_equal(true_count, 0); /* the key is in the list */
	wr_lab_top_free(&top);
}

static void long_texts_are_cut(void **state)
{
	const struct wr_lab_top_key *found[1];
	char text[WR_LAB_TOP_TEXT + 1];
	struct wr_lab_top top;

	(void)state;
	memset(text, 'x', sizeof text);
	assert_true(wr_lab_top_init(&top, 1, 10));
	assert_true(wr_lab_top_count(&top, 0, 1));
	wr_lab_top_name(&top, (struct weir_str){text, sizeof text});
	assert_int_equal(wr_lab_top_find(&top, 0, found, 1), 1);
	assert_true(found[0]->cut);
	assert_int_equal(found[0]->text_len, WR_LAB_TOP_TEXT);
	assert_false(wr_lab_top_count(&top, 0, 1));
	wr_lab_top_free(&top);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_list_is_sorted),
		cmocka_unit_test(a_frequent_key_is_found_among_many),
		cmocka_unit_test(the_error_is_a_bound),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
