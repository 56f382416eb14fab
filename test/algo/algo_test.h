/* Shared by the suites of src/algo: the headers of cmocka, units of time, functions that make a
 * limit in one line, and random numbers. */
#ifndef TEST_ALGO_H
#define TEST_ALGO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/algo.h>

#define MS 1000000ull
#define SECOND 1000000000ull
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (31557600 * SECOND)
#define T0 1700000040000000000ull /* a whole minute in November 2023 */
#define TIME_MAX ((uint64_t)INT64_MAX)

/* The algorithms of weir_step and weir_log_step: all of WEIR_ALGORITHMS except WEIR_CONCURRENT, which
 * needs a table. */
#define STEP_ALGORITHMS(X)                                                                         \
	X(WEIR_TOKEN_BUCKET, 1, "token_bucket")                                                    \
	X(WEIR_LEAKY_BUCKET, 2, "leaky_bucket")                                                    \
	X(WEIR_FIXED_WINDOW, 3, "fixed_window")                                                    \
	X(WEIR_SLIDING_COUNTER, 4, "sliding_window_counter")                                       \
	X(WEIR_SLIDING_LOG, 5, "sliding_window_log")

#define LIMIT(...) checked((struct weir_limit){.size = sizeof(struct weir_limit), __VA_ARGS__})

static inline struct weir_limit checked(struct weir_limit limit)
{
	struct weir_error error = {0};

	if (weir_limit_check(&limit, &error))
		fail_msg("%s", error.text);
	return limit;
}

static inline struct weir_decision step(const struct weir_limit *limit, struct weir_state *state,
					int64_t cost, uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(weir_step(limit, state, NULL, cost, now_ns, &d), 0);
	return d;
}

static inline struct weir_decision log_step(const struct weir_limit *limit, struct weir_log *log,
					    int64_t cost, uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(weir_log_step(limit, log, NULL, cost, now_ns, &d), 0);
	return d;
}

/* The random generator splitmix64. Its seed is WEIR_SEED, or a constant if that is not set. */
struct rnd {
	uint64_t x;
};

static inline uint64_t rnd_seed(void)
{
	const char *text = getenv("WEIR_SEED");

	return text ? strtoull(text, NULL, 0) : 20240229;
}

static inline uint64_t rnd(struct rnd *r)
{
	uint64_t z = r->x += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline uint64_t rnd_below(struct rnd *r, uint64_t n)
{
	return rnd(r) % n;
}

/* Returns a number from 1 to max. Every order of magnitude is equally likely. */
static inline uint64_t rnd_magnitude(struct rnd *r, uint64_t max)
{
	uint64_t x = (rnd(r) >> rnd_below(r, 64)) % max;

	return x + 1;
}

static inline uint64_t rnd_pick(struct rnd *r, const uint64_t *list, size_t n)
{
	return list[rnd_below(r, n)];
}

/* random.c: return random limits, times and costs, including the smallest and largest values. */
struct weir_limit rnd_limit(struct rnd *r, uint32_t algorithm, uint32_t log_max);
struct weir_limit rnd_soft_limit(struct rnd *r, uint32_t algorithm, uint32_t log_max);
uint64_t rnd_start(struct rnd *r);
uint64_t rnd_next(struct rnd *r, const struct weir_limit *l, uint64_t now_ns, int back_percent);
int64_t rnd_cost(struct rnd *r, const struct weir_limit *l);

#endif
