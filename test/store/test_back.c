/* Takes from a table that are given back, one by one and at random against a model. */
#include "algo/cancels.h"
#include "rounds.h"
#include "table/table_test.h"

#define RUNS test_rounds(400, 2000)
#define EDGE (T0 + MINUTE)

static struct weir_table *table;

static int open_table(void **state)
{
	if (folder_make(state) < 0)
		return -1;
	table = table_open("back", 16 * MIB, 8 * MIB);
	return 0;
}

static int drop_table(void **state)
{
	table_drop(table);
	return folder_drop(state);
}

/* "Take the estimate, give back the rest": 100 per minute, of which the last minute's rest is no
 * part. */
static void the_rest_of_an_estimate_stays_in_its_window(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
	struct weir_decision first = take(table, &limit, "rest", 90, EDGE - 500 * MS), second;

	(void)unused;
	assert_int_equal(first.charged_ns, T0);
	assert_int_equal(give_back(table, &limit, "rest", 10, T0, EDGE - 400 * MS).remaining, 20);
	second = take(table, &limit, "rest", 90, EDGE);
	assert_int_equal(second.charged_ns, EDGE);
	assert_int_equal(give_back(table, &limit, "rest", 80, T0, EDGE).remaining, 10);
	assert_int_equal(give_back(table, &limit, "rest", 80, T0, EDGE - 400 * MS).remaining, 10);
	assert_int_equal(give_back(table, &limit, "rest", 80, EDGE, EDGE + SECOND).remaining, 90);
	assert_int_equal(give_back(table, &limit, "rest", 80, EDGE, EDGE + SECOND).remaining, 100);
}

static void nothing_is_given_back_to_a_key_that_is_not_there(void **unused)
{
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 5, MINUTE);
	struct weir_decision d = give_back(table, &limit, "nobody", 3, T0, T0);

	(void)unused;
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.remaining, 5);
	assert_int_equal(take(table, &limit, "nobody", 5, T0).admitted, 1);
}

/* --- at random --- */

struct counter {
	struct weir_limit limit;
	char key[16];
};

static struct weir_decision take_one(void *of, int64_t cost, uint64_t now_ns)
{
	struct counter *c = of;

	return take(table, &c->limit, c->key, cost, now_ns);
}

static void give_one(void *of, uint64_t n, uint64_t charged_ns, uint64_t now_ns)
{
	struct counter *c = of;

	give_back(table, &c->limit, c->key, (int64_t)n, charged_ns, now_ns);
}

static void cancelled_at_random(void **state)
{
	static const struct cancel_ops ops = {take_one, give_one, 1};
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;
	struct cancel_tally tally = {0};
	struct rnd r = {rnd_seed() + algorithm};

	for (int i = 0; i < RUNS; i++) {
		struct counter c = {.limit = cancel_limit(&r, algorithm, 1)};

		snprintf(c.key, sizeof c.key, "%u:%d", algorithm, i);
		cancels_run(&r, &c.limit, &ops, &c, i % 2 ? 0 : 20, &tally);
	}
	assert_true(tally.admitted > 10 * RUNS && tally.refused > RUNS);
	assert_true(tally.whole > RUNS && tally.none > RUNS / 2);
}

#define RANDOM(name, number, text)                                                                 \
	{"cancelled at random: " text, cancelled_at_random, NULL, NULL, (void *)(number)},

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rest_of_an_estimate_stays_in_its_window),
		cmocka_unit_test(nothing_is_given_back_to_a_key_that_is_not_there),
		WEIR_ALGORITHMS(RANDOM)};

	return cmocka_run_group_tests(tests, open_table, drop_table);
}
