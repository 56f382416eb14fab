/* Arena: alignment, zeroing, the maximum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void hands_out_aligned_zeroed_memory(void **state)
{
	struct wr_arena arena;

	wr_arena_init(&arena, 10 << 20);
	for (size_t size = 0; size < 3000; size++) {
		unsigned char *memory = wr_arena_alloc(&arena, size);
		/* The copy of 4 bytes makes the next free address unaligned. */
		const char *copy = wr_arena_copy(&arena, "abc", 3);

		assert_non_null(memory);
		assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(memory[i], 0);
		memset(memory, 0xee, size);
		assert_string_equal(copy, "abc");
	}
	wr_arena_free(&arena);
	(void)state;
}

static void keeps_its_maximum(void **state)
{
	struct wr_arena arena;
	size_t got = 0;

	wr_arena_init(&arena, 100000);
	while (wr_arena_alloc(&arena, 1000))
		got += 1000;
	assert_in_range(got, 80000, 100000);
	assert_true(arena.held <= 100000);
	assert_null(wr_arena_alloc(&arena, SIZE_MAX));
	assert_null(wr_arena_alloc(&arena, SIZE_MAX / 2 + 1));
	assert_null(wr_arena_copy(&arena, "", 200000));
	wr_arena_free(&arena);
	assert_int_equal(arena.held, 0);
	assert_non_null(
		wr_arena_alloc(&arena, 50000)); /* an arena can be used after it was freed */
	wr_arena_free(&arena);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hands_out_aligned_zeroed_memory),
		cmocka_unit_test(keeps_its_maximum),
	};

	return cmocka_run_group_tests_name("base_arena", tests, NULL, NULL);
}
