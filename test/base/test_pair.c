/* The 16-byte compare-and-swap, and the load of a pair. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pair.h"

#define THREADS 2
#define TIMES 500000

static void a_swap_replaces_the_expected_value(void **unused)
{
	struct wr_pair at = {1, 2}, expected = {1, 2}, desired = {UINT64_MAX, 1ull << 63};

	(void)unused;
	assert_true(wr_pair_cas(&at, &expected, desired));
	assert_int_equal(at.lo, UINT64_MAX);
	assert_int_equal(at.hi, 1ull << 63);
	assert_true(wr_pair_equal(wr_pair_load(&at), desired));
}

static void a_failed_swap_returns_the_current_value(void **unused)
{
	static const struct wr_pair wrong[] = {{0, 2}, {1, 0}, {2, 1}, {1ull << 32 | 1, 2}};
	struct wr_pair at = {1, 2};

	(void)unused;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct wr_pair expected = wrong[i];

		assert_false(wr_pair_cas(&at, &expected, (struct wr_pair){9, 9}));
		assert_int_equal(expected.lo, 1);
		assert_int_equal(expected.hi, 2);
		assert_int_equal(at.lo, 1);
		assert_int_equal(at.hi, 2);
	}
}

static void equal_means_both_words(void **unused)
{
	(void)unused;
	assert_true(wr_pair_equal((struct wr_pair){3, 4}, (struct wr_pair){3, 4}));
	assert_false(wr_pair_equal((struct wr_pair){3, 4}, (struct wr_pair){3, 5}));
	assert_false(wr_pair_equal((struct wr_pair){3, 4}, (struct wr_pair){2, 4}));
}

static struct wr_pair shared;

/* Adds 1 to lo and 3 to hi. Counts torn reads, in which hi is not three times lo. */
static void *add_one_each(void *torn)
{
	for (int i = 0; i < TIMES; i++) {
		struct wr_pair seen = wr_pair_load(&shared);

		do
			*(uint64_t *)torn += seen.hi != 3 * seen.lo;
		while (!wr_pair_cas(&shared, &seen, (struct wr_pair){seen.lo + 1, seen.hi + 3}));
	}
	return NULL;
}

/* Counts torn reads while other threads write. */
static void *read_on(void *torn)
{
	while (__atomic_load_n(&shared.lo, __ATOMIC_RELAXED) < THREADS * TIMES) {
		struct wr_pair seen = wr_pair_load(&shared);

		*(uint64_t *)torn += seen.hi != 3 * seen.lo;
	}
	return NULL;
}

static void threads_see_whole_pairs_and_lose_no_write(void **unused)
{
	pthread_t threads[THREADS + 1];
	uint64_t torn[THREADS + 1] = {0};

	(void)unused;
	assert_int_equal(pthread_create(&threads[THREADS], NULL, read_on, &torn[THREADS]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_one_each, &torn[i]), 0);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i <= THREADS; i++)
		assert_int_equal(torn[i], 0);
	assert_int_equal(shared.lo, THREADS * TIMES);
	assert_int_equal(shared.hi, 3 * THREADS * TIMES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_swap_replaces_the_expected_value),
		cmocka_unit_test(a_failed_swap_returns_the_current_value),
		cmocka_unit_test(equal_means_both_words),
		cmocka_unit_test(threads_see_whole_pairs_and_lose_no_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
