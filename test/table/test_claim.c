/* A key never gets two cells. Threads claim the same new keys at the same time, in a table of two
 * rows in which each claim evicts another key. */
#include "rounds.h"
#include "store/crew.h"

#include <sched.h>

#define ROUNDS test_rounds(1000, 3000)
#define KEYS 40 /* more keys than the 32 cells */

static struct weir_table *table;
static struct weir_limit limit;

static struct {
	uint32_t arrived, left;
	uint64_t wrong;
} * gate;

/* Waits until all threads have arrived. */
static void meet(uint32_t *at, uint32_t round)
{
	__atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(at, __ATOMIC_ACQUIRE) < CREW * (round + 1))
		sched_yield();
}

/* All threads claim the same new key, and other keys in between. Then they wait, and one thread
 * checks the table. */
static void claim_together(int number)
{
	struct rnd r = {(uint64_t)number};

	for (uint32_t round = 0; round < (uint32_t)ROUNDS; round++) {
		uint64_t fresh = 1000 + round;
		struct wr_spot spot;

		meet(&gate->arrived, round);
		if (number % 4 == 3)
			take_nth(table, &limit, rnd_below(&r, KEYS), 1, T0);
		wr_table_claim(table, key_nth(table, &limit, fresh), WEIR_FIXED_WINDOW,
			       wr_seconds(T0), &spot);
		meet(&gate->left, round);
		if (number == 0 &&
		    (duplicates(table) || cells_of(table, key_nth(table, &limit, fresh)) > 1))
			gate->wrong++;
	}
}

static void take_together(int number)
{
	struct rnd r = {(uint64_t)number};

	for (int i = 0; i < 4 * ROUNDS; i++)
		take_nth(table, &limit, rnd_below(&r, KEYS), 1, T0);
}

static void begin(void)
{
	table = table_narrow("claim", 2, 4);
	gate = shared_memory(sizeof *gate);
	limit = sized(WEIR_FIXED_WINDOW, 1000000, MINUTE);
}

static void end(void)
{
	shared_free(gate, sizeof *gate);
	table_drop(table);
}

static void one_new_key_for_all(void **unused)
{
	(void)unused;
	begin();
	crew_run(claim_together);
	assert_int_equal(gate->wrong, 0);
	end();
}

static void more_keys_than_cells(void **unused)
{
	(void)unused;
	begin();
	crew_run(take_together);
	assert_int_equal(duplicates(table), 0);
	assert_true(info_of(table, T0).evicted > 100);
	for (uint64_t i = 0; i < KEYS; i++) {
		take_nth(table, &limit, i, 1, T0);
		assert_int_equal(cells_of(table, key_nth(table, &limit, i)), 1);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_new_key_for_all),
		cmocka_unit_test(more_keys_than_cells),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
