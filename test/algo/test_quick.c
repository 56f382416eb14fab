/* The quick paths of narrow.h and quick.h: whenever they succeed, state and decision equal those of
 * token.h and fixed.h. */
#include "algo/algo_test.h"
#include "algo/fixed.h"
#include "algo/narrow.h"
#include "algo/quick.h"
#include "algo/token.h"

#define RUNS 20000
#define STEPS 100

static void same_decision(const struct weir_decision *a, const struct weir_decision *b)
{
	assert_int_equal(a->admitted, b->admitted);
	assert_int_equal(a->soft, b->soft);
	assert_int_equal(a->full, b->full);
	assert_int_equal(a->limit, b->limit);
	assert_int_equal(a->remaining, b->remaining);
	assert_int_equal(a->retry_after_ns, b->retry_after_ns);
	assert_int_equal(a->reset_after_ns, b->reset_after_ns);
	assert_int_equal(a->delay_ns, b->delay_ns);
}

/* Returns a limit that fits. Every second limit is about as large as possible. */
static struct weir_limit narrow_limit(struct rnd *r)
{
	for (;;) {
		struct weir_limit l = rnd_limit(r, WEIR_TOKEN_BUCKET, 0);
		uint64_t tokens = (uint64_t)l.ceiling + l.limit;

		if (rnd_below(r, 2) && l.limit) {
			l.period_ns = (WR_NARROW_MAX - 1) / tokens - rnd_below(r, 2);
			if (weir_limit_check(&l, NULL))
				continue;
		}
		if (l.narrow_ns)
			return l;
	}
}

static void check_full_by(const struct weir_limit *l, const struct wr_narrow *b, uint64_t now_ns,
			  uint64_t reset_ns)
{
	assert_true(reset_ns > 0);
	assert_true(wr_narrow_full_by(l, b, now_ns, now_ns + reset_ns));
	assert_false(wr_narrow_full_by(l, b, now_ns, now_ns + reset_ns - 1));
	assert_true(wr_narrow_full_by(l, b, now_ns, UINT64_MAX));
	assert_false(wr_narrow_full_by(l, b, now_ns, now_ns));
	assert_false(now_ns && wr_narrow_full_by(l, b, now_ns, now_ns - 1));
}

/* Checks the number of whole tokens in use on the scale of harm.h. It may be off by two steps. */
static void check_harm(const struct weir_limit *l, const struct wr_narrow *b)
{
	unsigned least = wr_harm_of(b->backlog / l->period_ns);
	unsigned most = wr_harm_of(b->backlog / l->period_ns + 1);

	assert_in_range(wr_narrow_harm(l, b), least > 2 ? least - 2 : 0, most + 2);
}

/* Does one step on both paths with the same state. Returns whether the quick path succeeded. */
static bool one_step(const struct weir_limit *l, struct weir_state *s, int64_t cost,
		     uint64_t now_ns)
{
	struct weir_state before = *s;
	struct weir_decision d, filled;
	struct wr_narrow b;

	wr_token_step(l, l->capacity, s, cost, now_ns, &d);
	if (!wr_narrow_fits(l, cost)) {
		assert_true(cost <= 0 || (uint64_t)cost > l->capacity);
		return false;
	}
	if (!wr_narrow_take(l, before.s0, before.s1, (uint64_t)cost, now_ns, &b))
		return false;
	wr_narrow_fill_decision(l, &b, now_ns, &filled);
	assert_int_equal(b.since_ns, s->s0);
	assert_int_equal(b.taken, s->s1);
	same_decision(&filled, &d);
	assert_true(before.s0 <= now_ns);
	check_full_by(l, &b, now_ns, d.reset_after_ns);
	check_harm(l, &b);
	return true;
}

/* Gives n tokens back on both paths with the same state. Returns whether the quick path
 * succeeded. */
static bool one_give(const struct weir_limit *l, struct weir_state *s, uint64_t n,
		     uint64_t charged_ns, uint64_t now_ns)
{
	struct weir_state before = *s;
	struct weir_decision d, filled;
	uint64_t returned = 0, expected = wr_token_back(l, s, n, charged_ns, now_ns);
	struct wr_narrow b;

	if (!wr_narrow_give(l, before.s0, before.s1, n, charged_ns, now_ns, &b, &returned))
		return false;
	wr_token_step(l, l->capacity, &(struct weir_state){s->s0, s->s1}, 0, now_ns, &d);
	wr_narrow_fill_decision(l, &b, now_ns, &filled);
	assert_int_equal(b.since_ns, s->s0);
	assert_int_equal(b.taken, s->s1);
	assert_int_equal(returned, expected);
	assert_int_equal(filled.remaining, d.remaining);
	assert_int_equal(filled.reset_after_ns, d.reset_after_ns);
	assert_int_equal(filled.limit, d.limit);
	check_harm(l, &b);
	return true;
}

static void narrow_gives_back_as_the_token_bucket(void **unused)
{
	struct rnd r = {rnd_seed()};
	int quick = 0;

	(void)unused;
	for (int run = 0; run < RUNS; run++) {
		struct weir_limit l = narrow_limit(&r);
		struct weir_state s = {0};
		struct weir_decision d;
		uint64_t now_ns = rnd_start(&r), charged_ns = now_ns, taken = 1;

		for (int i = 0; i < STEPS; i++) {
			int64_t cost = rnd_cost(&r, &l);

			now_ns = rnd_next(&r, &l, now_ns, 3);
			if (rnd_below(&r, 2)) {
				quick += one_give(&l, &s, 1 + rnd_below(&r, taken), charged_ns,
						  now_ns);
				continue;
			}
			wr_token_step(&l, l.capacity, &s, cost, now_ns, &d);
			if (!d.admitted || cost <= 0)
				continue;
			charged_ns = d.charged_ns;
			taken = (uint64_t)cost;
		}
	}
	assert_true(quick > RUNS * STEPS / 20);
}

static void narrow_is_the_token_bucket(void **unused)
{
	struct rnd r = {rnd_seed()};
	int quick = 0;

	(void)unused;
	for (int run = 0; run < RUNS; run++) {
		struct weir_limit l = narrow_limit(&r);
		struct weir_state s = {0};
		uint64_t now_ns = rnd_start(&r);

		for (int i = 0; i < STEPS; i++) {
			now_ns = rnd_next(&r, &l, now_ns, 3);
			quick += one_step(&l, &s, rnd_cost(&r, &l), now_ns);
		}
	}
	assert_true(quick > RUNS * STEPS / 4);
}

/* Tries states that no sequence of requests produces, and the smallest and largest times. */
static void narrow_on_any_words(void **unused)
{
	struct rnd r = {rnd_seed()};
	int quick = 0;

	(void)unused;
	for (int i = 0; i < RUNS * 20; i++) {
		struct weir_limit l = narrow_limit(&r);
		uint64_t now_ns = rnd_start(&r);
		uint64_t ages[] = {l.narrow_ns - 1,
				   l.narrow_ns,
				   l.narrow_ns + 1,
				   l.period_ns - 1,
				   l.period_ns,
				   rnd_magnitude(&r, TIME_MAX),
				   0};
		uint64_t age_ns = rnd_pick(&r, ages, 7);
		uint64_t words[] = {(uint64_t)l.ceiling + l.limit, l.ceiling, l.limit,
				    rnd(&r) >> 32, UINT32_MAX};
		uint64_t s1 = rnd_pick(&r, words, 5) - rnd_below(&r, 2) + rnd_below(&r, 2);
		struct weir_state s = {age_ns <= now_ns ? now_ns - age_ns : 0, (uint32_t)s1};

		if (rnd_below(&r, 16) == 0)
			s.s0 = rnd(&r);
		if (rnd_below(&r, 2)) {
			uint64_t back_ns = now_ns ? rnd_magnitude(&r, now_ns) : 0;

			one_give(&l, &s, 1 + rnd_magnitude(&r, UINT32_MAX - 1), now_ns - back_ns,
				 now_ns);
			continue;
		}
		quick += one_step(&l, &s, rnd_cost(&r, &l), now_ns);
	}
	assert_true(quick > RUNS / 2);
}

static void narrow_gives_back_what_has_not_flowed_in(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 5, .period_ns = SECOND);
	uint64_t returned = 0;
	struct wr_narrow b = {0};

	(void)unused;
	assert_true(wr_narrow_give(&l, T0, 4, 3, T0, T0 + SECOND, &b, &returned));
	assert_int_equal(returned, 2);
	assert_int_equal(b.backlog, SECOND);
	assert_true(wr_narrow_give(&l, T0, 4, 4, T0, T0 + SECOND, &b, &returned));
	assert_int_equal(returned, 3);
	assert_int_equal(b.backlog, 0);
	/* All of it has flowed in. */
	assert_false(wr_narrow_give(&l, T0, 4, 1, T0, T0 + SECOND, &b, &returned));
	assert_false(wr_narrow_give(&l, T0, 4, 4, T0, T0 + 4 * SECOND, &b, &returned));
	/* The bucket was full at T0 + 1, after the request. */
	assert_true(wr_narrow_give(&l, T0 + 1, 4, 3, T0, T0 + 1, &b, &returned));
	assert_int_equal(returned, 2);
	assert_int_equal(b.backlog, SECOND + 1);
	assert_false(wr_narrow_give(&l, T0 + SECOND + 1, 4, 3, T0, T0 + SECOND + 1, &b, &returned));
	/* More than was taken, a latecomer, and debt. */
	assert_true(wr_narrow_give(&l, T0, 4, 5, T0, T0 + 1, &b, &returned));
	assert_int_equal(b.backlog, 0);
	assert_false(wr_narrow_give(&l, T0, 4, 6, T0, T0 + 1, &b, &returned));
	assert_false(wr_narrow_give(&l, T0, 4, 1, T0 + 2, T0 + 1, &b, &returned));
	assert_false(wr_narrow_give(&l, T0, 7, 1, T0, T0, &b, &returned));
}

static void narrow_refuses_rare_cases(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 10, .period_ns = SECOND);
	struct wr_narrow b;

	(void)unused;
	assert_true(wr_narrow_take(&l, T0, 1, 1, T0, &b));
	assert_false(wr_narrow_take(&l, T0 + 1, 1, 1, T0, &b));          /* a latecomer */
	assert_false(wr_narrow_take(&l, T0 + DAY, 1, 1, T0, &b));        /* a step back */
	assert_false(wr_narrow_take(&l, T0 | 1ull << 63, 1, 1, T0, &b)); /* a 33rd bit */
	assert_true(wr_narrow_take(&l, T0, 9, 1, T0, &b));
	assert_false(wr_narrow_take(&l, T0, 10, 1, T0, &b));
	/* A whole period to subtract. */
	assert_false(wr_narrow_take(&l, T0 - SECOND, 20, 1, T0, &b));
	/* More tokens than can be taken. */
	assert_false(wr_narrow_take(&l, T0 - DAY, 21, 1, T0, &b));
	assert_false(wr_narrow_fits(&l, 0));
	assert_false(wr_narrow_fits(&l, -1));
	assert_false(wr_narrow_fits(&l, 11));
	assert_false(wr_narrow_fits(&l, INT64_MIN));
}

/* 2^62 = 4,611,686,018,427,387,904, and 7 · 658,812,288,346,769,700 is 4 less. */
static void narrow_limits(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 3, .burst = 4,
				    .period_ns = 658812288346769700);

	(void)unused;
	assert_int_equal(l.narrow_ns, 1537228672809129302); /* 2^62 / 3, rounded up */
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 3, .burst = 4,
		  .period_ns = 658812288346769701);
	assert_int_equal(l.narrow_ns, 0);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 5, .period_ns = SECOND);
	assert_int_equal(l.narrow_ns, 1ull << 62);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = 254);
	assert_int_equal(l.narrow_ns, 1ull << 62);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 0, .burst = 5, .period_ns = SECOND);
	assert_int_equal(l.narrow_ns, 0);
	l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = SECOND);
	assert_int_equal(l.narrow_ns, 0);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 10, .period_ns = SECOND,
		  .soft_ceiling = 12, .soft_for_ns = SECOND);
	assert_int_equal(l.narrow_ns, 0); /* soft limits have no quick path */
}

/* The harm of one token is 1, of two 5, of five 10, whatever the limit is. */
static void harms(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .period_ns = SECOND);
	struct wr_narrow b;

	(void)unused;
	assert_true(wr_narrow_take(&l, 0, 0, 1, T0, &b));
	assert_int_equal(wr_narrow_harm(&l, &b), 1);
	l = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 10, .period_ns = SECOND);
	assert_true(wr_narrow_take(&l, 0, 0, 5, T0, &b));
	assert_in_range(wr_narrow_harm(&l, &b), 9, 11);
	assert_int_equal(wr_harm_of(0), 0);
	assert_int_equal(wr_harm_of(1), 1);
	assert_int_equal(wr_harm_of(2), 5);
	assert_int_equal(wr_harm_of(3), 7);
	assert_int_equal(wr_harm_of(4), 9);
	assert_int_equal(wr_harm_of(5), 10);
	assert_int_equal(wr_harm_of(100), 27);
	assert_int_equal(wr_harm_of(1ull << 31), 125);
	for (uint64_t used = 0; used < 100000; used++)
		assert_true(wr_harm_of(used) <= wr_harm_of(used + 1));
}

static void quick_is_the_fixed_window(void **unused)
{
	struct rnd r = {rnd_seed()};
	int quick = 0;

	(void)unused;
	for (int run = 0; run < RUNS; run++) {
		struct weir_limit l = rnd_limit(&r, WEIR_FIXED_WINDOW, 0);
		struct weir_state s = {0};
		uint64_t now_ns = rnd_start(&r);

		assert_int_equal(l.narrow_ns, l.period_ns);
		for (int i = 0; i < STEPS; i++) {
			int64_t cost = rnd_cost(&r, &l);
			struct weir_state before = s;
			struct weir_decision d, filled;

			now_ns = rnd_next(&r, &l, now_ns, 3);
			wr_fixed_step(&l, l.capacity, &s, cost, now_ns, &d);
			uint64_t count = wr_fixed_quick(&l, before.s0, before.s1, cost, now_ns);

			if (count == 0)
				continue;
			quick++;
			assert_int_equal(s.s0, before.s0);
			assert_int_equal(s.s1, count);
			wr_fixed_quick_fill_decision(&l, before.s0, count, now_ns, &filled);
			same_decision(&filled, &d);
		}
	}
	assert_true(quick > RUNS * STEPS / 10);
}

static void quick_refuses_rare_cases(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .period_ns = MINUTE);

	(void)unused;
	assert_int_equal(wr_fixed_quick(&l, T0, 3, 2, T0 + MINUTE - 1), 5);
	assert_int_equal(wr_fixed_quick(&l, T0, 3, 2, T0 + MINUTE), 0);
	assert_int_equal(wr_fixed_quick(&l, T0, 3, 2, T0 - 1), 0); /* a latecomer */
	assert_int_equal(wr_fixed_quick(&l, T0, 3, 3, T0), 0);
	assert_int_equal(wr_fixed_quick(&l, T0, 3, 0, T0), 0);
	assert_int_equal(wr_fixed_quick(&l, T0, 3, -1, T0), 0);
	assert_int_equal(wr_fixed_quick(&l, T0, UINT32_MAX, INT64_MAX, T0), 0);
	l = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 0, .period_ns = MINUTE);
	assert_int_equal(wr_fixed_quick(&l, T0, 0, 1, T0), 0);
	l = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .period_ns = MINUTE,
		  .window_start_ns = T0, .window_end_ns = T0 + DAY);
	assert_int_equal(wr_fixed_quick(&l, T0, 0, 1, T0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(narrow_is_the_token_bucket),
		cmocka_unit_test(narrow_gives_back_as_the_token_bucket),
		cmocka_unit_test(narrow_gives_back_what_has_not_flowed_in),
		cmocka_unit_test(narrow_on_any_words),
		cmocka_unit_test(narrow_refuses_rare_cases),
		cmocka_unit_test(narrow_limits),
		cmocka_unit_test(harms),
		cmocka_unit_test(quick_is_the_fixed_window),
		cmocka_unit_test(quick_refuses_rare_cases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
