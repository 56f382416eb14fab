/* Several limits on one request, with one caller: units that are taken and given back, counted
 * refusals, and decisions. */
#include "table/table_test.h"

static struct weir_table *table;

static int begin(void **unused)
{
	(void)unused;
	table = table_open("all", MIB, 0);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

static int ask(const struct weir_need *needs, size_t count, uint64_t now_ns,
	       struct weir_decision *d)
{
	int admitted = -1;

	assert_int_equal(weir_take_all(table, needs, count, now_ns, d, &admitted), 0);
	return admitted;
}

static uint32_t left(const struct weir_limit *limit, const char *key)
{
	return take(table, limit, key, 0, T0).remaining;
}

/* One user has 1 post, 150 friends and 5 likes per day (ACCEPTANCE 14). Using one of these limits
 * does not affect the others. */
static void counters_are_apart_by_identity(void **unused)
{
	struct weir_limit post = sized(WEIR_FIXED_WINDOW, 1, DAY);
	struct weir_limit like = post;

	(void)unused;
	like.identity = 1;
	like.limit = 5;
	like = checked(like);
	assert_int_equal(take(table, &post, "u", 1, T0).admitted, 1);
	assert_int_equal(take(table, &post, "u", 1, T0).admitted, 0);
	assert_int_equal(left(&like, "u"), 5);
}

/* The size of a limit does not identify its counter: two limits of different sizes use the same
 * count. */
static void two_sizes_share_a_count(void **unused)
{
	struct weir_limit five = sized(WEIR_FIXED_WINDOW, 5, DAY);
	struct weir_limit nine = sized(WEIR_FIXED_WINDOW, 9, DAY);

	(void)unused;
	assert_int_equal(take(table, &five, "u", 4, T0).admitted, 1);
	assert_int_equal(left(&nine, "u"), 5);
	assert_int_equal(take(table, &nine, "u", 3, T0).admitted, 1);
	assert_int_equal(take(table, &five, "u", 1, T0).admitted, 0);
	assert_int_equal(left(&nine, "u"), 2);
}

static void refused_by_one_takes_from_none(void **algorithm)
{
	uint32_t number = (uint32_t)(uintptr_t)*algorithm;
	struct weir_limit tight = sized(number, 2, MINUTE), loose = sized(number, 10, MINUTE);
	struct weir_need needs[2] = {{&loose, "l", 1, 1}, {&tight, "t", 1, 1}};
	struct weir_decision d[2];

	for (int i = 0; i < 5; i++)
		assert_int_equal(ask(needs, 2, T0, d), i < 2);
	assert_int_equal(d[0].admitted, 1);
	assert_int_equal(d[0].remaining, 8); /* no units were taken */
	assert_int_equal(d[1].admitted, 0);
	assert_int_equal(d[1].remaining, 0);
	assert_true(d[1].retry_after_ns > 0);
	assert_int_equal(left(&loose, "l"), 8);
	assert_int_equal(left(&tight, "t"), 0);
	/* The key whose limit refused is marked as refused, the other key is not. */
	assert_int_equal(info_of(table, T0).keys_refused, 1);
}

static void one_counter_named_twice_is_one_take_of_the_sum(void **unused)
{
	struct weir_limit limit = sized(WEIR_FIXED_WINDOW, 5, MINUTE);
	struct weir_need needs[3] = {{&limit, "k", 1, 2}, {&limit, "o", 1, 1}, {&limit, "k", 1, 3}};
	struct weir_decision d[3];

	(void)unused;
	assert_int_equal(ask(needs, 3, T0, d), 1);
	assert_int_equal(d[0].remaining, 0);
	assert_int_equal(d[2].remaining, 0);
	assert_int_equal(d[1].remaining, 4);
	assert_int_equal(left(&limit, "k"), 0);
	needs[0].cost = INT64_MAX;
	needs[2].cost = INT64_MAX;
	assert_int_equal(ask(needs, 3, T0 + MINUTE, d), 0);
	assert_int_equal(d[0].retry_after_ns, WEIR_NEVER);
}

/* Limits with WEIR_COUNT_REJECTED count the request, whichever limit refuses it. */
static void refusals_are_charged_where_they_count(void **algorithm)
{
	uint32_t number = (uint32_t)(uintptr_t)*algorithm;
	struct weir_limit tight = sized(WEIR_FIXED_WINDOW, 1, MINUTE);
	struct weir_limit strict = sized(number, 10, MINUTE);
	struct weir_need needs[2] = {{&strict, "s", 1, 2}, {&tight, "t", 1, 1}};
	struct weir_decision d[2];

	strict.flags = WEIR_COUNT_REJECTED;
	strict = checked(strict);
	assert_int_equal(ask(needs, 2, T0, d), 1);
	assert_int_equal(left(&strict, "s"), 8);
	assert_int_equal(ask(needs, 2, T0, d), 0);
	assert_int_equal(left(&strict, "s"), 6);
	assert_int_equal(left(&tight, "t"), 0);
	/* A request of cost 0 is not counted. */
	needs[0].cost = needs[1].cost = 0;
	assert_int_equal(ask(needs, 2, T0, d), 0);
	assert_int_equal(left(&strict, "s"), 6);
}

static void looking_takes_nothing(void **unused)
{
	struct weir_limit limit = sized(WEIR_SLIDING_LOG, 5, MINUTE);
	struct weir_need needs[2] = {{&limit, "a", 1, 0}, {&limit, "b", 1, 0}};
	struct weir_decision d[2];

	(void)unused;
	assert_int_equal(ask(needs, 2, T0, d), 1);
	assert_int_equal(info_of(table, T0).keys, 0);
	take(table, &limit, "b", 5, T0);
	assert_int_equal(ask(needs, 2, T0, d), 0);
	assert_int_equal(d[0].admitted, 1);
	assert_int_equal(d[1].retry_after_ns, MINUTE);
}

/* Each counter's decision has its own delay. */
static void a_leaky_bucket_among_them_delays(void **unused)
{
	struct weir_limit leaky = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 4, .queue_size = 4,
					.period_ns = SECOND);
	struct weir_limit token = sized(WEIR_TOKEN_BUCKET, 3, MINUTE);
	struct weir_need needs[2] = {{&leaky, "k", 1, 1}, {&token, "k", 1, 1}};
	struct weir_decision d[2];

	(void)unused;
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(ask(needs, 2, T0, d), 1);
		assert_int_equal(d[0].delay_ns, i * 250 * MS);
		assert_int_equal(d[1].delay_ns, 0);
	}
	assert_int_equal(ask(needs, 2, T0, d), 0);
	assert_int_equal(left(&leaky, "k"), 2);
}

static void soft_limits_overshoot_together(void **unused)
{
	struct weir_limit soft =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = MINUTE,
		      .soft_ceiling = 12, .soft_for_ns = 30 * SECOND);
	struct weir_limit hard = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
	struct weir_need needs[2] = {{&soft, "k", 1, 1}, {&hard, "h", 1, 1}};
	struct weir_decision d[2];

	(void)unused;
	for (int i = 0; i < 12; i++) {
		assert_int_equal(ask(needs, 2, T0, d), 1);
		assert_int_equal(d[0].soft, i >= 10);
	}
	assert_int_equal(ask(needs, 2, T0, d), 0);
	assert_int_equal(left(&hard, "h"), 88);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define NONE(name, number, text)                                                                   \
	{"refused by one takes from none: " text, refused_by_one_takes_from_none, begin, end,      \
	 (void *)(number)},

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(counters_are_apart_by_identity),
		TEST(two_sizes_share_a_count),
		WEIR_ALGORITHMS(NONE) TEST(one_counter_named_twice_is_one_take_of_the_sum),
		{"refusals are charged: fixed_window", refusals_are_charged_where_they_count, begin,
		 end, (void *)WEIR_FIXED_WINDOW},
		{"refusals are charged: sliding_window_counter",
		 refusals_are_charged_where_they_count, begin, end, (void *)WEIR_SLIDING_COUNTER},
		{"refusals are charged: sliding_window_log", refusals_are_charged_where_they_count,
		 begin, end, (void *)WEIR_SLIDING_LOG},
		TEST(looking_takes_nothing),
		TEST(a_leaky_bucket_among_them_delays),
		TEST(soft_limits_overshoot_together),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
