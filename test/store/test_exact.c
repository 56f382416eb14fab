/* Several processes and threads on one table together admit exactly the limit. */
#include "store/crew.h"

#include <sched.h>

#define KEYS 64
#define TIMES 4000

static struct weir_table *table;
static struct weir_limit limit, loose;
static int64_t cost;
static uint64_t keys;

static struct {
	uint64_t admitted[KEYS];
	uint64_t refused;
	uint64_t clock_ns;
	/* The time with which each thread decides now; 0: it does not decide. */
	uint64_t reading_ns[CREW];
	uint64_t stamps[CREW][TIMES]; /* times of the admitted requests */
	uint64_t stamp_count[CREW];
} * tally;

static void count(uint64_t *at, uint64_t n)
{
	__atomic_fetch_add(at, n, __ATOMIC_RELAXED);
}

/* Each thread sends as many requests for every key as the limit admits in total. */
static void take_frozen(int number)
{
	struct rnd r = {(uint64_t)number + 1};

	for (uint64_t i = 0; i < limit.capacity * keys; i++) {
		uint64_t key = (i + rnd_below(&r, 2)) % keys;

		if (take_nth(table, &limit, key, cost, T0).admitted)
			count(&tally->admitted[key], 1);
		else
			count(&tally->refused, 1);
	}
	for (uint64_t key = 0; key < keys; key++)
		while (take_nth(table, &limit, key, cost, T0).admitted)
			count(&tally->admitted[key], 1);
}

/* Checks that no key was evicted, because the table has room for all keys. */
static void lost_nothing(void)
{
	struct weir_info info = info_of(table, T0);

	assert_int_equal(info.evicted + info.evicted_refused, 0);
	assert_int_equal(info.log_evicted, 0);
	assert_int_equal(info.log_full, 0);
	assert_int_equal(info.log_lost, 0);
}

static void frozen(uint32_t algorithm, uint32_t size, uint64_t how_many, int64_t each)
{
	table = table_open("exact", 8 * MIB, 6 * MIB);
	tally = shared_memory(sizeof *tally);
	limit = sized(algorithm, size, MINUTE);
	keys = how_many;
	cost = each;
	crew_run(take_frozen);
	lost_nothing();
	for (uint64_t key = 0; key < keys; key++) {
		uint64_t units = algorithm == WEIR_CONCURRENT ? 1 : (uint64_t)cost;

		assert_int_equal(tally->admitted[key], size / units);
		assert_int_equal(cells_of(table, key_nth(table, &limit, key)), 1);
		assert_int_equal(take_nth(table, &limit, key, 0, T0).remaining, size % units);
	}
	assert_true(tally->refused > 0);
	assert_int_equal(duplicates(table), 0);
	shared_free(tally, sizeof *tally);
	table_drop(table);
}

/* A request for a slot reads all slots, so that few slots suffice for a test. */
static uint32_t size_for(uint32_t algorithm, uint32_t size)
{
	return algorithm == WEIR_CONCURRENT ? size / 100 + 1 : size;
}

static void one_key(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;

	frozen(algorithm, size_for(algorithm, 30000), 1, 1);
}

static void one_key_at_a_cost(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;

	frozen(algorithm, size_for(algorithm, 30001), 1, 3);
}

static void many_keys(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;

	frozen(algorithm, algorithm == WEIR_CONCURRENT ? 40 : 400, KEYS, 1);
}

/* --- batches --- */

/* Each thread sends as many requests for every key as the limit admits in total, in batches. */
static void take_batches(int number)
{
	enum { BATCH = 40 };
	struct rnd r = {(uint64_t)number + 1};
	struct weir_decision d[BATCH];
	struct weir_need takes[BATCH];
	uint64_t ids[BATCH];

	for (uint64_t i = 0; i < limit.capacity * keys * 2; i += BATCH) {
		for (uint64_t j = 0; j < BATCH; j++) {
			ids[j] = (i + j + rnd_below(&r, 2)) % keys;
			takes[j] = (struct weir_need){&limit, &ids[j], sizeof ids[j], 1};
		}
		if (weir_take_many(table, takes, BATCH, T0, d) < 0)
			abort();
		for (uint64_t j = 0; j < BATCH; j++)
			count(d[j].admitted ? &tally->admitted[ids[j]] : &tally->refused, 1);
	}
}

static void batches(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;
	uint32_t size = algorithm == WEIR_CONCURRENT ? 40 : 400;

	table = table_open("exact", 8 * MIB, 6 * MIB);
	tally = shared_memory(sizeof *tally);
	limit = sized(algorithm, size, MINUTE);
	keys = KEYS;
	crew_run(take_batches);
	lost_nothing();
	for (uint64_t key = 0; key < keys; key++)
		assert_int_equal(tally->admitted[key], size);
	assert_int_equal(duplicates(table), 0);
	shared_free(tally, sizeof *tally);
	table_drop(table);
}

/* --- several limits at once --- */

static void take_both(int number)
{
	struct weir_need needs[2] = {{&limit, "tight", 5, 1}, {&loose, "loose", 5, 1}};
	struct weir_decision d[2];
	int yes;

	for (int i = 0, refused = 0; refused < 20 && i < 100000; i++) {
		if (weir_take_all(table, needs, 2, T0, d, &yes) < 0)
			abort();
		count(yes ? &tally->admitted[0] : &tally->refused, 1);
		refused = yes ? 0 : refused + 1;
	}
	(void)number;
}

/* Concurrent requests may cause each other to be refused, so one thread takes the units that are
 * left. */
static void all_or_none(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;
	uint32_t size = algorithm == WEIR_CONCURRENT ? 200 : 20000;

	table = table_open("exact", 8 * MIB, 6 * MIB);
	tally = shared_memory(sizeof *tally);
	limit = sized(algorithm, size, MINUTE);
	loose = sized(algorithm, size + 10, MINUTE);
	crew_run(take_both);
	take_both(0);
	lost_nothing();
	assert_int_equal(tally->admitted[0], size);
	assert_int_equal(take(table, &limit, "tight", 0, T0).remaining, 0);
	/* If one of two queues refuses, the other may keep an empty position. */
	if (limit.algorithm == WEIR_LEAKY_BUCKET)
		assert_in_range(take(table, &loose, "loose", 0, T0).remaining, 0, 10);
	else
		assert_int_equal(take(table, &loose, "loose", 0, T0).remaining, 10);
	shared_free(tally, sizeof *tally);
	table_drop(table);
}

/* --- a clock that goes on while they decide --- */

#define SKEW_NS (200 * MS)
#define TICK_NS (5 * MS)

/* Advances the clock, but only so far that no thread decides with a time older than SKEW_NS. */
static void tick(void)
{
	uint64_t now_ns = __atomic_load_n(&tally->clock_ns, __ATOMIC_ACQUIRE);

	for (int i = 0; i < CREW; i++) {
		uint64_t reading_ns = __atomic_load_n(&tally->reading_ns[i], __ATOMIC_ACQUIRE);

		if (reading_ns && reading_ns + SKEW_NS < now_ns + TICK_NS)
			return;
	}
	__atomic_compare_exchange_n(&tally->clock_ns, &now_ns, now_ns + TICK_NS, false,
				    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The time is announced before the clock is read again, so that tick() sees it. */
static uint64_t read_clock(int number)
{
	uint64_t now_ns = __atomic_load_n(&tally->clock_ns, __ATOMIC_ACQUIRE), seen_ns;

	do {
		seen_ns = now_ns;
		__atomic_store_n(&tally->reading_ns[number], now_ns, __ATOMIC_SEQ_CST);
		now_ns = __atomic_load_n(&tally->clock_ns, __ATOMIC_SEQ_CST);
	} while (now_ns != seen_ns);
	return now_ns;
}

/* Whether a thread continues. The clock waits for threads that were stopped after they had read it.
 * On a busy machine that may take long, so the test continues until some periods have passed. */
static bool goes_on(int i)
{
	if (i < TIMES)
		return true;
	sched_yield();
	return i < 100 * TIMES &&
	       __atomic_load_n(&tally->clock_ns, __ATOMIC_RELAXED) - T0 <= 4 * SECOND;
}

static void take_as_time_goes(int number)
{
	for (int i = 0; goes_on(i); i++) {
		uint64_t now_ns = read_clock(number);

		for (int dawdle = 0; dawdle < number % 3; dawdle++)
			tick();
		if (take(table, &limit, "k", 1, now_ns).admitted)
			tally->stamps[number][tally->stamp_count[number]++] = now_ns;
		__atomic_store_n(&tally->reading_ns[number], 0, __ATOMIC_RELEASE);
		tick();
	}
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t all[CREW * TIMES], all_count;

static void collect(void)
{
	all_count = 0;
	for (int i = 0; i < CREW; i++) {
		memcpy(all + all_count, tally->stamps[i], tally->stamp_count[i] * sizeof *all);
		all_count += tally->stamp_count[i];
	}
	qsort(all, all_count, sizeof *all, by_time);
}

/* Checks that no span of the trace has more than burst + rate · t requests. The times may be wrong
 * by the skew. */
static void check_token(void)
{
	uint64_t lived_ns = tally->clock_ns - T0;

	assert_true(all_count <= limit.capacity + lived_ns * limit.limit / limit.period_ns);
	for (uint64_t i = 0; i < all_count; i++)
		for (uint64_t k = i; k < all_count; k++) {
			uint64_t span_ns = all[k] - all[i] + SKEW_NS;

			assert_true(k - i + 1 <=
				    limit.capacity + span_ns * limit.limit / limit.period_ns);
		}
}

/* Checks that of any `limit` + 1 successive requests the first and the last are a period apart,
 * except for the skew. */
static void check_log(void)
{
	for (uint64_t i = limit.limit; i < all_count; i++)
		assert_true(all[i] - all[i - limit.limit] + SKEW_NS >= limit.period_ns);
}

/* A late request may be counted in the next window, so requests at the end of a window are left
 * out. */
static void check_fixed(void)
{
	uint64_t windows = (tally->clock_ns - T0) / limit.period_ns + 1;

	assert_true(all_count <= windows * limit.limit);
	for (uint64_t i = 0, in_window = 0; i < all_count; i++) {
		bool same = i && all[i] / limit.period_ns == all[i - 1] / limit.period_ns;

		in_window = same ? in_window : 0;
		in_window += all[i] % limit.period_ns < limit.period_ns - SKEW_NS;
		assert_true(in_window <= limit.limit);
	}
}

static const struct moving {
	uint32_t algorithm;
	void (*check)(void);
} moving[] = {
	{WEIR_TOKEN_BUCKET, check_token},
	{WEIR_SLIDING_LOG, check_log},
	{WEIR_FIXED_WINDOW, check_fixed},
};

static void as_time_goes(void **state)
{
	const struct moving *m = *state;

	table = table_open("exact", 8 * MIB, 6 * MIB);
	tally = shared_memory(sizeof *tally);
	tally->clock_ns = T0;
	limit = sized(m->algorithm, 20, SECOND);
	crew_run(take_as_time_goes);
	collect();
	/* Checks that the trace is useful: it has several periods in which the limit was used
	 * up. */
	assert_true(tally->clock_ns - T0 > 3 * SECOND);
	assert_true(all_count < CREW * TIMES &&
		    all_count * limit.period_ns >= (tally->clock_ns - T0 - SECOND) * 18);
	m->check();
	shared_free(tally, sizeof *tally);
	table_drop(table);
}

#define ONE(name, number, text)                                                                    \
	{"exactly the limit of one key: " text, one_key, NULL, NULL, (void *)(number)},
#define COST(name, number, text)                                                                   \
	{"exactly the limit at cost 3: " text, one_key_at_a_cost, NULL, NULL, (void *)(number)},
#define MANY(name, number, text)                                                                   \
	{"exactly the limit of many keys: " text, many_keys, NULL, NULL, (void *)(number)},
#define BATCHES(name, number, text)                                                                \
	{"exactly the limit in batches: " text, batches, NULL, NULL, (void *)(number)},
#define ALL(name, number, text)                                                                    \
	{"all or none of two limits: " text, all_or_none, NULL, NULL, (void *)(number)},

int main(void)
{
	const struct CMUnitTest tests[] = {
		WEIR_ALGORITHMS(ONE) WEIR_ALGORITHMS(COST) WEIR_ALGORITHMS(MANY)
			WEIR_ALGORITHMS(BATCHES)
				WEIR_ALGORITHMS(ALL){"burst + rate · t while the clock goes on",
						     as_time_goes, NULL, NULL, (void *)&moving[0]},
		{"the limit in any window while the clock goes on", as_time_goes, NULL, NULL,
		 (void *)&moving[1]},
		{"the limit per window while the clock goes on", as_time_goes, NULL, NULL,
		 (void *)&moving[2]},
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
