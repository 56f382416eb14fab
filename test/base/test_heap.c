/* Binary heap: order, updates, the maximum, lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/oom.h"

#define ITEMS 300u

struct item {
	unsigned number;
	uint64_t rank;
	struct wr_heap_node node;
};

static bool is_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return wr_container_of(a, const struct item, node)->rank <
	       wr_container_of(b, const struct item, node)->rank;
}

static struct item *first_of(const struct wr_heap *heap)
{
	return wr_container_of(wr_heap_first(heap), struct item, node);
}

static void check_order(const struct wr_heap *heap)
{
	for (size_t i = 0; i < heap->count; i++) {
		assert_int_equal(heap->nodes[i]->at, i + 1);
		if (i)
			assert_false(is_before(heap->nodes[i], heap->nodes[(i - 1) / 2]));
	}
}

static void items_leave_by_rank(void **state)
{
	static const uint64_t ranks[] = {5, 3, 9, 1, 7, 3, 0, 8};
	static const uint64_t sorted[] = {0, 1, 3, 3, 5, 7, 8, 9};
	struct item items[8] = {0};
	struct wr_heap heap;

	wr_heap_init(&heap, is_before, 8);
	assert_null(wr_heap_first(&heap));
	for (unsigned i = 0; i < 8; i++) {
		items[i].rank = ranks[i];
		assert_true(wr_heap_add(&heap, &items[i].node));
		assert_true(wr_heap_holds(&items[i].node));
		check_order(&heap);
	}
	for (unsigned i = 0; i < 8; i++) {
		struct item *item = wr_container_of(wr_heap_pop(&heap), struct item, node);

		assert_int_equal(item->rank, sorted[i]);
		assert_false(wr_heap_holds(&item->node));
		check_order(&heap);
	}
	assert_null(wr_heap_first(&heap));
	assert_null(wr_heap_pop(&heap));
	wr_heap_free(&heap);
	(void)state;
}

static void an_update_moves_an_item_both_ways(void **state)
{
	struct item items[5] = {
		{0, 10, {0}}, {1, 20, {0}}, {2, 30, {0}}, {3, 40, {0}}, {4, 50, {0}}};
	struct wr_heap heap;

	wr_heap_init(&heap, is_before, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_true(wr_heap_add(&heap, &items[i].node));
	items[4].rank = 5;
	wr_heap_update(&heap, &items[4].node);
	assert_ptr_equal(first_of(&heap), &items[4]);
	items[4].rank = 45;
	wr_heap_update(&heap, &items[4].node);
	assert_ptr_equal(first_of(&heap), &items[0]);
	check_order(&heap);
	wr_heap_remove(&heap, &items[2].node);
	check_order(&heap);
	assert_int_equal(heap.count, 4);
	wr_heap_free(&heap);
	(void)state;
}

/* After each random operation, a search of all items must find the same first rank as the heap. */
static void random_operations_agree_with_a_search(void **state)
{
	static struct item items[ITEMS];
	struct wr_heap heap;
	uint64_t seed = 42;

	wr_heap_init(&heap, is_before, ITEMS);
	for (unsigned step = 0; step < 20000; step++) {
		struct item *item;
		uint64_t least = UINT64_MAX;
		size_t count = 0;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		item = &items[(seed >> 33) % ITEMS];
		if (!wr_heap_holds(&item->node)) {
			item->rank = seed >> 40 & 1023;
			assert_true(wr_heap_add(&heap, &item->node));
		} else if (seed >> 60 & 1) {
			item->rank = seed >> 40 & 1023;
			wr_heap_update(&heap, &item->node);
		} else {
			wr_heap_remove(&heap, &item->node);
		}
		for (unsigned i = 0; i < ITEMS; i++)
			if (wr_heap_holds(&items[i].node)) {
				count++;
				least = items[i].rank < least ? items[i].rank : least;
			}
		assert_int_equal(heap.count, count);
		if (count)
			assert_int_equal(first_of(&heap)->rank, least);
	}
	check_order(&heap);
	wr_heap_free(&heap);
	(void)state;
}

static void a_full_heap_takes_no_more(void **state)
{
	struct item items[4] = {{0, 4, {0}}, {1, 3, {0}}, {2, 2, {0}}, {3, 1, {0}}};
	struct wr_heap heap;

	wr_heap_init(&heap, is_before, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_true(wr_heap_add(&heap, &items[i].node));
	assert_false(wr_heap_add(&heap, &items[3].node));
	assert_false(wr_heap_holds(&items[3].node));
	assert_true(wr_heap_reserve(&heap, 3));
	assert_false(wr_heap_reserve(&heap, 4));
	assert_false(wr_heap_reserve(&heap, SIZE_MAX));
	assert_ptr_equal(first_of(&heap), &items[2]);
	wr_heap_free(&heap);
	(void)state;
}

static void without_memory_nothing_changes(void **state)
{
	static struct item items[2 * WR_HEAP_FIRST];
	struct wr_heap heap;

	wr_heap_init(&heap, is_before, SIZE_MAX);
	oom_after(0);
	assert_false(wr_heap_add(&heap, &items[0].node));
	assert_int_equal(heap.count, 0);
	oom_after(1);
	for (unsigned i = 0; i < WR_HEAP_FIRST; i++) {
		items[i].rank = i;
		assert_true(wr_heap_add(&heap, &items[i].node));
	}
	assert_false(wr_heap_add(&heap, &items[WR_HEAP_FIRST].node));
	assert_int_equal(heap.count, WR_HEAP_FIRST);
	check_order(&heap);
	oom_after(-1);
	assert_true(wr_heap_reserve(&heap, 2 * WR_HEAP_FIRST));
	oom_after(0); /* adding needs no memory now */
	for (unsigned i = WR_HEAP_FIRST; i < 2 * WR_HEAP_FIRST; i++)
		assert_true(wr_heap_add(&heap, &items[i].node));
	oom_after(-1);
	check_order(&heap);
	wr_heap_free(&heap);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_leave_by_rank),
		cmocka_unit_test(an_update_moves_an_item_both_ways),
		cmocka_unit_test(random_operations_agree_with_a_search),
		cmocka_unit_test(a_full_heap_takes_no_more),
		cmocka_unit_test(without_memory_nothing_changes),
	};

	return cmocka_run_group_tests_name("base_heap", tests, NULL, NULL);
}
