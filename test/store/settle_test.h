/* Shared by the suites of settling and of slots: a table and a limit, which are new for each test.
 * A suite includes this header last, so that no parameter of an inline function shadows `table`. */
#ifndef TEST_SETTLE_H
#define TEST_SETTLE_H

#include "store/store.h"
#include "table/table_test.h"

static struct weir_table *table;
static struct weir_limit limit;

static inline int begin(void **unused)
{
	(void)unused;
	table = table_open("settle", 8 * MIB, 6 * MIB);
	return 0;
}

static inline int end(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

static inline struct wr_key hash_of(const char *key)
{
	return key_named(table, &limit, key);
}

static inline struct weir_decision look(const char *key, uint64_t now_ns)
{
	return take(table, &limit, key, 0, now_ns);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* --- settling --- */

/* The result of settling. */
struct settled {
	uint64_t returned, owed;
	struct weir_decision d;
};

static inline struct settled settle(const char *key, int64_t charged, int64_t actual,
				    uint64_t charged_ns, uint64_t now_ns)
{
	struct settled s;

	wr_store_settle(table, &limit, hash_of(key), charged, actual, 0, charged_ns, now_ns,
			&s.returned, &s.owed, &s.d);
	return s;
}

/* Settles the key "k" with the public function. */
static inline int settle_with(const struct weir_decision *taken, int64_t charged, int64_t actual,
			      uint64_t now_ns, struct weir_decision *after)
{
	return weir_settle(table, &limit, "k", 1, taken, charged, actual, now_ns, after);
}

#define EACH(name, number, algorithm)                                                              \
	{                                                                                          \
#name ": " algorithm, name, begin, end, (void *)(uintptr_t)(number)                \
	}
#define SETTLES(name)                                                                              \
	EACH(name, WEIR_TOKEN_BUCKET, "token_bucket"),                                             \
		EACH(name, WEIR_FIXED_WINDOW, "fixed_window"),                                     \
		EACH(name, WEIR_SLIDING_COUNTER, "sliding_window_counter"),                        \
		EACH(name, WEIR_SLIDING_LOG, "sliding_window_log")

/* --- slots --- */

static inline struct weir_limit slots(uint32_t count)
{
	return sized(WEIR_CONCURRENT, count, MINUTE);
}

static inline uint32_t left(const struct weir_limit *l, const char *key, uint64_t now_ns)
{
	return take(table, l, key, 0, now_ns).remaining;
}

/* Takes a slot, which must be free. Returns its token. */
static inline uint64_t get(const struct weir_limit *l, const char *key, uint64_t now_ns)
{
	struct weir_decision d = take(table, l, key, 1, now_ns);

	assert_int_equal(d.admitted, 1);
	assert_true(d.charged_ns >= now_ns);
	assert_int_equal(d.retry_after_ns, 0);
	return d.charged_ns;
}

static inline void must_refuse(const struct weir_limit *l, const char *key, uint64_t now_ns)
{
	struct weir_decision d = take(table, l, key, 1, now_ns);

	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.charged_ns, 0);
	assert_true(d.retry_after_ns >= SECOND && d.retry_after_ns <= MINUTE);
}

#endif
