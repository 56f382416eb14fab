/* The numbers of deferred requests by key. */
#include "table_test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "table/deferred.h"

#define KEY_BYTES WR_DEFERRED_KEY

/* Returns key number n. Its bytes look random, as those of a digest. */
static const uint8_t *key(uint64_t n)
{
	static uint8_t bytes[4][KEY_BYTES];
	static unsigned turn;
	uint8_t *at = bytes[turn++ % 4];
	XXH128_hash_t hash = XXH3_128bits(&n, sizeof n);

	memcpy(at, &hash, KEY_BYTES);
	return at;
}

static void counts(void **state)
{
	struct weir_table *table = table_open("counts", MIB, 0);

	(void)state;
	assert_int_equal(wr_deferred_count(table, key(1)), 0);
	assert_true(wr_deferred_set(table, key(1), 3, 100));
	assert_true(wr_deferred_set(table, key(2), 1, 100));
	assert_int_equal(wr_deferred_count(table, key(1)), 3);
	assert_int_equal(wr_deferred_count(table, key(2)), 1);
	assert_true(wr_deferred_set(table, key(1), UINT32_MAX, 101));
	assert_int_equal(wr_deferred_count(table, key(1)), UINT32_MAX);
	assert_true(wr_deferred_set(table, key(1), 0, 102));
	assert_int_equal(wr_deferred_count(table, key(1)), 0);
	assert_true(wr_deferred_set(table, key(3), 0, 102)); /* a key without an entry */
	assert_true(wr_deferred_set(table, key(4), 7, 103));
	wr_deferred_sweep(table, 100);
	assert_int_equal(wr_deferred_count(table, key(2)), 1);
	wr_deferred_sweep(table, 103);
	assert_int_equal(wr_deferred_count(table, key(2)), 0);
	assert_int_equal(wr_deferred_count(table, key(4)), 7);
	table_drop(table);
}

/* A key that consists of zeros is a valid key. */
static void zero_key(void **state)
{
	static const uint8_t zeros[KEY_BYTES];
	struct weir_table *table = table_open("zero", MIB, 0);

	(void)state;
	assert_int_equal(wr_deferred_count(table, zeros), 0);
	assert_true(wr_deferred_set(table, zeros, 2, 1));
	assert_int_equal(wr_deferred_count(table, zeros), 2);
	table_drop(table);
}

/* A table of 256 KiB has a page of 256 entries. All keys that were set are found, other keys are
 * not, and freed entries are used again. */
static void full(void **state)
{
	struct weir_table *table = table_open("full", 256 * KIB, 0);
	unsigned noted = 0;

	(void)state;
	for (uint64_t n = 0; n < 400; n++)
		noted += wr_deferred_set(table, key(n), (uint32_t)n + 1, 1);
	assert_in_range(noted, 240, 256);
	for (uint64_t n = 0, found = 0; n < 400; n++) {
		uint32_t count = wr_deferred_count(table, key(n));

		assert_true(count == 0 || count == n + 1);
		found += count != 0;
		if (n == 399)
			assert_int_equal(found, noted);
	}
	for (uint64_t n = 0; n < 400; n++)
		assert_true(wr_deferred_set(table, key(n), 0, 2));
	for (uint64_t n = 1000; n < 1100; n++)
		assert_true(wr_deferred_set(table, key(n), 7, 3));
	for (uint64_t n = 0; n < 400; n++)
		assert_int_equal(wr_deferred_count(table, key(n)), 0);
	table_drop(table);
}

/* A resized table has the same entries, and so has a copy that had other entries before. */
static void carried_over(void **state)
{
	struct weir_table *old = table_open("carry", MIB, 0), *fresh;
	struct weir_opts opts = opts_of("carry", 4 * MIB, 0);

	(void)state;
	for (uint64_t n = 0; n < 100; n++)
		assert_true(wr_deferred_set(old, key(n), (uint32_t)n + 1, 1));
	assert_int_equal(weir_resize(&opts, SECOND, NULL), 0);
	fresh = table_open("carry", 4 * MIB, 0);
	for (uint64_t n = 0; n < 100; n++)
		assert_int_equal(wr_deferred_count(fresh, key(n)), n + 1);
	/* Both tables are changed after the copy. */
	assert_true(wr_deferred_set(old, key(0), 0, 2));
	assert_true(wr_deferred_set(old, key(1), 50, 2));
	assert_true(wr_deferred_set(fresh, key(200), 9, 2));
	wr_deferred_import(fresh, old);
	assert_int_equal(wr_deferred_count(fresh, key(0)), 0);
	assert_int_equal(wr_deferred_count(fresh, key(1)), 50);
	assert_int_equal(wr_deferred_count(fresh, key(200)), 0);
	weir_close(old);
	table_drop(fresh);
}

struct crowd {
	struct weir_table *table;
	uint64_t first;
	/* Shared memory: the numbers that the child to be killed has set; NULL for other
	 * children. */
	uint32_t *noted;
};

#define ROUNDS 20000u

/* Each process sets only its own keys, as the service does; keys of other processes use the same
 * entries. */
static int note_and_forget(void *arg)
{
	const struct crowd *crowd = arg;

	for (uint32_t i = 1; crowd->noted || i <= ROUNDS; i++) {
		uint64_t n = crowd->first + i % 32;
		uint32_t count = i % 3 ? i : 0;

		if (wr_deferred_set(crowd->table, key(n), count, i))
			CHILD_CHECK(wr_deferred_count(crowd->table, key(n)) == count);
		if (crowd->noted)
			__atomic_store_n(crowd->noted, i, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Several processes use the section, and one is killed at a random instruction. No process reads
 * the number of another process's key. */
static void several_processes(void **state)
{
	struct crowd crowds[4];
	struct weir_table *table = table_open("crowd", 256 * KIB, 0);
	uint32_t *noted = shared_memory(sizeof *noted);
	pid_t pids[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		crowds[i] = (struct crowd){table, i * 1000, i == 3 ? noted : NULL};
		pids[i] = spawn(note_and_forget, &crowds[i]);
	}
	while (__atomic_load_n(noted, __ATOMIC_RELAXED) < 100)
		sched_yield();
	kill(pids[3], SIGKILL);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(reap(pids[i]), 0);
	assert_int_equal(reap(pids[3]), 256 + SIGKILL);
	shared_free(noted, sizeof *noted);
	assert_true(wr_deferred_set(table, key(3000), 5, 1));
	assert_int_equal(wr_deferred_count(table, key(3000)), 5);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(zero_key),
		cmocka_unit_test(full),
		cmocka_unit_test(carried_over),
		cmocka_unit_test(several_processes),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
