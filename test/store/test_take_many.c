/* weir_take_many() with one caller decides as weir_take() does for one request after the other. */
#include "table/table_test.h"

#include "table/override.h"

#define TAKES 100

static struct weir_table *table;

static int begin(void **unused)
{
	(void)unused;
	table = table_open("many", MIB, 256 * KIB);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

/* 50 requests of one key on a limit of 33: a batch has 16 requests, so the limit ends in the third
 * batch. */
static void a_key_in_several_batches(void **algorithm)
{
	struct weir_limit limit = sized((uint32_t)(uintptr_t)*algorithm, 33, MINUTE);
	struct weir_need takes[50];
	struct weir_decision d[50];

	for (int i = 0; i < 50; i++)
		takes[i] = (struct weir_need){&limit, "k", 1, 1};
	assert_int_equal(weir_take_many(table, takes, 50, T0, d), 0);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(d[i].admitted, i < 33);
		assert_int_equal(d[i].remaining, i < 33 ? 32 - i : 0);
	}
	assert_int_equal(take(table, &limit, "k", 1, T0).admitted, 0);
}

/* Random keys, limits and costs, three times one after the other, so that keys are new, known and
 * used up. */
static void decides_as_take(void **unused)
{
	struct weir_table *other = table_open("one-by-one", MIB, 256 * KIB);
	struct weir_limit limits[6];
	struct weir_need takes[TAKES];
	struct weir_decision many[TAKES], one;
	static const char keys[] = "abcdefgh";
	struct rnd r = {7};
	unsigned refused = 0;

	(void)unused;
	for (uint32_t i = 0; i < 6; i++)
		limits[i] = sized(i + 1, 9, MINUTE);
	for (uint64_t round = 0; round < 3; round++) {
		uint64_t now_ns = T0 + round * SECOND;

		for (int i = 0; i < TAKES; i++)
			takes[i] = (struct weir_need){&limits[rnd_below(&r, 6)],
						      &keys[rnd_below(&r, 8)], 1,
						      (int64_t)rnd_below(&r, 4)};
		assert_int_equal(weir_take_many(table, takes, TAKES, now_ns, many), 0);
		for (int i = 0; i < TAKES; i++) {
			assert_int_equal(weir_take(other, takes[i].limit, takes[i].key,
						   takes[i].len, takes[i].cost, now_ns, &one),
					 0);
			assert_memory_equal(&many[i], &one, sizeof one);
			refused += !one.admitted;
		}
	}
	assert_in_range(refused, 10, 200);
	table_drop(other);
}

static void a_banned_key_among_others(void **unused)
{
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 5, MINUTE);
	struct wr_override_change change = {.ban = true,
					    .to = {.banned_until_s = wr_seconds(T0) + 60}};
	struct weir_need takes[3] = {{&limit, "a", 1, 1}, {&limit, "b", 1, 1}, {&limit, "c", 1, 1}};
	struct weir_decision d[3];

	(void)unused;
	wr_override_change(table, key_named(table, &limit, "b"), limit.algorithm, &change,
			   wr_seconds(T0));
	assert_int_equal(weir_take_many(table, takes, 3, T0, d), 0);
	assert_int_equal(d[0].admitted, 1);
	assert_int_equal(d[1].admitted, 0);
	assert_int_equal(d[1].banned, 1);
	assert_int_equal(d[2].admitted, 1);
}

static void no_takes(void **unused)
{
	(void)unused;
	assert_int_equal(weir_take_many(table, NULL, 0, T0, NULL), 0);
}

#define BATCHES(algorithm)                                                                         \
	{                                                                                          \
		"a key in several batches, " #algorithm, a_key_in_several_batches, begin, end,     \
			(void *)(uintptr_t)(algorithm)                                             \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BATCHES(WEIR_TOKEN_BUCKET),
		BATCHES(WEIR_LEAKY_BUCKET),
		BATCHES(WEIR_FIXED_WINDOW),
		BATCHES(WEIR_SLIDING_COUNTER),
		BATCHES(WEIR_SLIDING_LOG),
		BATCHES(WEIR_CONCURRENT),
		cmocka_unit_test_setup_teardown(decides_as_take, begin, end),
		cmocka_unit_test_setup_teardown(a_banned_key_among_others, begin, end),
		cmocka_unit_test_setup_teardown(no_takes, begin, end),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
