/* A flood of ten million keys with one request each does not evict a refused key. */
#include "table/table_test.h"

#define FLOOD 10000000
#define OFFENDERS 100

/* The keys from number FLOOD on are offenders: each takes its whole limit and is refused once. */
static void offend(struct weir_table *table, const struct weir_limit *limit)
{
	for (uint64_t i = FLOOD; i < FLOOD + OFFENDERS; i++) {
		assert_int_equal(take_nth(table, limit, i, 10, T0).admitted, 1);
		assert_int_equal(take_nth(table, limit, i, 1, T0).admitted, 0);
	}
}

static void offenders_stay_refused(void **unused)
{
	struct weir_table *table = table_open("flood", 256 * KIB, 0);
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 10, HOUR);
	struct weir_info info;

	(void)unused;
	offend(table, &limit);
	for (uint64_t i = 0; i < FLOOD; i++)
		if (!take_nth(table, &limit, i, 1, T0 + i).admitted)
			fail_msg("a first request was refused");
	for (uint64_t i = FLOOD; i < FLOOD + OFFENDERS; i++)
		assert_int_equal(take_nth(table, &limit, i, 1, T0 + SECOND).admitted, 0);
	info = info_of(table, T0 + SECOND);
	assert_int_equal(info.cells, 7680);
	assert_int_equal(info.keys, info.cells);
	assert_int_equal(info.keys_refused, OFFENDERS);
	/* Every claim took an empty cell, or evicted a key that was counted. */
	assert_int_equal(info.evicted, FLOOD + OFFENDERS - info.cells);
	assert_int_equal(info.expired + info.evicted_refused + info.stolen, 0);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offenders_stay_refused),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
