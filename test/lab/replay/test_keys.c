/* Counting of distinct keys: exact up to the maximum, then estimates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "lab/replay/keys.h"

static uint64_t hash_of(uint64_t number)
{
	return XXH3_64bits(&number, sizeof number);
}

static void a_key_counts_once(void **state)
{
	struct wr_lab_keys keys;

	(void)state;
	assert_true(wr_lab_keys_init(&keys, 2, 1000));
	for (unsigned i = 0; i < 30; i++)
		wr_lab_keys_mark(&keys, i % 10 < 4, hash_of(i % 10), i == 13);
	assert_int_equal(wr_lab_keys_all(&keys, 0), 6);
	assert_int_equal(wr_lab_keys_all(&keys, 1), 4);
	assert_int_equal(wr_lab_keys_count(&keys, 1, 1), 1);
	assert_int_equal(wr_lab_keys_count(&keys, 0, 1), 0);
	assert_true(wr_lab_keys_exact(&keys, 0));
	wr_lab_keys_free(&keys);
}

static void marks_add_up(void **state)
{
	struct wr_lab_keys keys;

	(void)state;
	assert_true(wr_lab_keys_init(&keys, 1, 1000));
	wr_lab_keys_mark(&keys, 0, 0, 1); /* 0 is a hash like any other */
	wr_lab_keys_mark(&keys, 0, 0, 2);
	wr_lab_keys_mark(&keys, 0, 0, 0);
	wr_lab_keys_mark(&keys, 0, hash_of(7), 2);
	assert_int_equal(wr_lab_keys_count(&keys, 0, 3), 1);
	assert_int_equal(wr_lab_keys_count(&keys, 0, 2), 1);
	assert_int_equal(wr_lab_keys_count(&keys, 0, 1), 0);
	wr_lab_keys_free(&keys);
}

static void the_maximum_is_exact(void **state)
{
	struct wr_lab_keys keys;

	(void)state;
	assert_true(wr_lab_keys_init(&keys, 1, 20000));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 20000; i++)
			wr_lab_keys_mark(&keys, 0, hash_of(i), i % 4 == 0);
	assert_int_equal(wr_lab_keys_all(&keys, 0), 20000);
	assert_int_equal(wr_lab_keys_count(&keys, 0, 1), 5000);
	assert_true(wr_lab_keys_exact(&keys, 0));
	wr_lab_keys_free(&keys);
}

/* With at most 20,000 keys in memory, one million keys are sampled: one in 64. The standard error is
 * 1 / √15,625 = 0.8 %; the test allows four times that. */
static void more_keys_are_estimated(void **state)
{
	struct wr_lab_keys keys;
	uint64_t all, marked;

	(void)state;
	assert_true(wr_lab_keys_init(&keys, 3, 20000));
	for (unsigned i = 0; i < 1000000; i++) {
		wr_lab_keys_mark(&keys, 1, hash_of(i), 0);
		if (i % 10000 == 0)
			wr_lab_keys_mark(&keys, 2, hash_of(5000000 + i), 1);
	}
	for (unsigned i = 0; i < 1000000; i += 2)
		wr_lab_keys_mark(&keys, 1, hash_of(i), 1);
	all = wr_lab_keys_all(&keys, 1);
	marked = wr_lab_keys_count(&keys, 1, 1);
	assert_false(wr_lab_keys_exact(&keys, 1));
	assert_int_equal(keys.groups[1].level, 6);
	assert_in_range(all, 968000, 1032000);
	assert_in_range(marked, 477000, 523000);
	/* The small group stays exact. */
	assert_true(wr_lab_keys_exact(&keys, 2));
	assert_int_equal(wr_lab_keys_all(&keys, 2), 100);
	assert_int_equal(wr_lab_keys_count(&keys, 2, 1), 100);
	assert_true(keys.count <= 20000);
	wr_lab_keys_free(&keys);
}

/* Keys with neighbouring slots are removed and found again, also across the end of the table. */
static void removing_keeps_the_others(void **state)
{
	struct wr_lab_keys keys;
	uint64_t high = (uint64_t)1 << 63;

	(void)state;
	assert_true(wr_lab_keys_init(&keys, 1, 64));
	for (uint64_t i = 0; i < 32; i++) { /* all belong near the end of the table */
		wr_lab_keys_mark(&keys, 0, (i << 20) | 4090, 1);
		wr_lab_keys_mark(&keys, 0, high | (i << 20) | 4092, 1);
	}
	wr_lab_keys_mark(&keys, 0, ((uint64_t)32 << 20) | 4090, 1); /* removes the high ones */
	assert_int_equal(keys.count, 33);
	for (uint64_t i = 0; i < 33; i++)
		wr_lab_keys_mark(&keys, 0, (i << 20) | 4090, 2);
	assert_int_equal(keys.count, 33);
	assert_int_equal(keys.groups[0].by_marks[3], 33);
	wr_lab_keys_free(&keys);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_counts_once),
		cmocka_unit_test(marks_add_up),
		cmocka_unit_test(the_maximum_is_exact),
		cmocka_unit_test(more_keys_are_estimated),
		cmocka_unit_test(removing_keeps_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
