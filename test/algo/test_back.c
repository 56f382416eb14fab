/* Gives back units that were taken: only where they were counted, and only units that have not been
 * refilled since. */
#include "algo/cancels.h"
#include "algo/log.h"
#include "algo/step.h"
#include "rounds.h"

#define RUNS test_rounds(2000, 10000)

static uint64_t give(const struct weir_limit *l, struct weir_state *s, uint64_t n,
		     uint64_t charged_ns, uint64_t now_ns)
{
	return wr_step_back(l, s, n, charged_ns, now_ns);
}

static void a_window_that_has_ended_keeps_its_takes(void **unused)
{
	static const uint32_t algorithms[] = {WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER};
	uint64_t edge_ns = T0 + MINUTE, late_ns = edge_ns - 500 * MS;

	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct weir_limit l =
			LIMIT(.algorithm = algorithms[i], .limit = 5, .period_ns = MINUTE);
		struct weir_state s = {0};
		struct weir_decision first = step(&l, &s, 5, late_ns), second;

		assert_int_equal(first.charged_ns, late_ns);
		if (algorithms[i] ==
		    WEIR_SLIDING_COUNTER) { /* not before the weight of the first five decreases */
			assert_int_equal(give(&l, &s, 5, first.charged_ns, edge_ns), 5);
			assert_int_equal(step(&l, &s, 0, edge_ns).remaining, 5);
			step(&l, &s, 5, edge_ns);
			assert_int_equal(give(&l, &s, 5, T0, edge_ns), 0);
			assert_int_equal(give(&l, &s, 5, T0 - MINUTE, edge_ns), 0);
			continue;
		}
		second = step(&l, &s, 5, edge_ns);
		assert_int_equal(second.charged_ns, edge_ns);
		assert_int_equal(give(&l, &s, 5, first.charged_ns, late_ns), 0);
		assert_int_equal(give(&l, &s, 5, first.charged_ns, edge_ns), 0);
		assert_int_equal(step(&l, &s, 1, edge_ns).admitted, 0);
		assert_int_equal(give(&l, &s, 2, second.charged_ns, edge_ns + 1), 2);
		assert_int_equal(step(&l, &s, 0, edge_ns + 1).remaining, 2);
	}
}

/* A latecomer is counted in the current window of the state, and its units are given back to that
 * window. */
static void a_latecomer_gives_back_where_it_counted(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .period_ns = MINUTE);
	struct weir_state s = {0};
	uint64_t edge_ns = T0 + MINUTE;
	struct weir_decision late;

	(void)unused;
	step(&l, &s, 2, edge_ns);
	late = step(&l, &s, 3, edge_ns - 1);
	assert_int_equal(late.charged_ns, edge_ns);
	assert_int_equal(give(&l, &s, 3, late.charged_ns, edge_ns - 1), 3);
	assert_int_equal(step(&l, &s, 0, edge_ns).remaining, 3);
}

static void a_calendar_window_keeps_its_takes(void **unused)
{
	struct weir_limit may = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5,
				      .window_start_ns = T0, .window_end_ns = T0 + 31 * DAY);
	struct weir_limit june =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .window_start_ns = T0 + 31 * DAY,
		      .window_end_ns = T0 + 61 * DAY);
	struct weir_state s = {0};
	struct weir_decision first = step(&may, &s, 5, T0 + 31 * DAY - 1);

	(void)unused;
	assert_int_equal(give(&may, &s, 1, first.charged_ns, T0 + 31 * DAY), 1);
	step(&june, &s, 5, T0 + 31 * DAY);
	assert_int_equal(give(&may, &s, 4, first.charged_ns, T0 + 31 * DAY), 0);
	assert_int_equal(give(&june, &s, 4, first.charged_ns, T0 + 31 * DAY), 0);
	assert_int_equal(step(&june, &s, 1, T0 + 31 * DAY).admitted, 0);
}

/* 1 per second, burst 5. */
static void a_bucket_does_not_get_back_what_time_refilled(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 5, .period_ns = SECOND);
	struct weir_state s = {0}, t;
	struct weir_decision first = step(&l, &s, 5, T0), d;

	(void)unused;
	assert_int_equal(first.charged_ns, T0);
	t = s; /* no other request came */
	assert_int_equal(give(&l, &t, 5, T0, T0 + 2 * SECOND), 3);
	assert_int_equal(step(&l, &t, 0, T0 + 2 * SECOND).remaining, 5);
	t = s; /* half a token */
	assert_int_equal(give(&l, &t, 1, T0, T0 + SECOND / 2), 0);
	assert_int_equal(step(&l, &t, 0, T0 + SECOND / 2).remaining, 1);
	assert_int_equal(step(&l, &t, 0, T0 + SECOND / 2).reset_after_ns, 4 * SECOND);
	step(&l, &s, 5, T0 + 10 * SECOND);
	assert_int_equal(give(&l, &s, 5, T0, T0 + 10 * SECOND), 0);
	d = step(&l, &s, 1, T0 + 10 * SECOND);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, SECOND);
}

/* 1 per second, burst 5. The clock steps back by an hour: the bucket is full again five seconds
 * later, long before the time at which the first units were taken. */
static void a_bucket_that_filled_up_after_a_step_back(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 5, .period_ns = SECOND);
	struct weir_state s = {0};
	uint64_t back_ns = T0 - HOUR;

	(void)unused;
	assert_int_equal(step(&l, &s, 5, T0).charged_ns, T0);
	assert_int_equal(step(&l, &s, 1, back_ns).admitted, 0);
	assert_int_equal(step(&l, &s, 5, back_ns + 5 * SECOND).admitted, 1);
	assert_int_equal(give(&l, &s, 5, T0, back_ns + 5 * SECOND), 0);
	assert_int_equal(step(&l, &s, 1, back_ns + 5 * SECOND).admitted, 0);
	/* If units are given back with a time up to a second before they were taken, the caller is
	 * late, and the clock did not step back. */
	s = (struct weir_state){0};
	step(&l, &s, 5, T0);
	assert_int_equal(give(&l, &s, 2, T0, T0 - SECOND), 2);
	assert_int_equal(give(&l, &s, 2, T0, T0 - SECOND - 1), 0);
}

/* Tokens that other requests gave back meanwhile are not given back again: the bucket is full at 5
 * s, and 2 tokens are taken at 8 s. */
static void a_bucket_that_others_gave_back_to(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 10, .period_ns = SECOND);
	struct weir_state s = {0};

	(void)unused;
	step(&l, &s, 5, T0);
	step(&l, &s, 5, T0);
	assert_int_equal(give(&l, &s, 5, T0, T0), 5);
	step(&l, &s, 5, T0 + 8 * SECOND);
	assert_int_equal(give(&l, &s, 5, T0, T0 + 8 * SECOND), 0);
	assert_int_equal(step(&l, &s, 0, T0 + 8 * SECOND).remaining, 5);
}

static void a_queue_gives_back_its_last_position(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .queue_size = 4,
				    .period_ns = SECOND);
	struct weir_state s = {0};
	uint64_t at[3];

	(void)unused;
	for (int i = 0; i < 3; i++) {
		at[i] = step(&l, &s, 1, T0).charged_ns;
		assert_int_equal(at[i], T0 + (uint64_t)i * SECOND);
	}
	assert_int_equal(give(&l, &s, 1, at[1], T0), 0);
	assert_int_equal(give(&l, &s, 1, at[2], T0 + SECOND / 2), 1);
	assert_int_equal(give(&l, &s, 1, at[2], T0 + SECOND / 2), 0);
	assert_int_equal(give(&l, &s, 1, at[1], T0 + SECOND + 1), 0);
	assert_int_equal(step(&l, &s, 1, T0 + SECOND + 1).charged_ns, at[2]);
}

/* --- at random, against the model --- */

struct counter {
	struct weir_limit limit;
	struct weir_state state;
	struct weir_log log;
	uint64_t stamps[CANCEL_TAKES];
};

static struct weir_decision take(void *of, int64_t cost, uint64_t now_ns)
{
	struct counter *c = of;

	if (c->limit.algorithm == WEIR_SLIDING_LOG)
		return log_step(&c->limit, &c->log, cost, now_ns);
	return step(&c->limit, &c->state, cost, now_ns);
}

static void take_back(void *of, uint64_t n, uint64_t charged_ns, uint64_t now_ns)
{
	struct counter *c = of;
	struct wr_algo_log_plan plan;
	struct weir_decision d;

	if (c->limit.algorithm != WEIR_SLIDING_LOG)
		wr_step_back(&c->limit, &c->state, n, charged_ns, now_ns);
	else if (wr_algo_log_plan_back(&c->limit, &c->log, n, charged_ns, now_ns, &d, &plan))
		wr_algo_log_commit(&c->log, &plan);
}

static void cancelled_at_random(void **state)
{
	static const struct cancel_ops ops = {take, take_back, 1};
	static struct counter c;
	struct cancel_tally tally = {0};
	struct rnd r = {rnd_seed()};

	for (int i = 0; i < RUNS; i++) {
		c.limit = cancel_limit(&r, (uint32_t)(uintptr_t)*state, 1);
		c.state = (struct weir_state){0};
		c.log = (struct weir_log){.capacity = 64, .stamps = c.stamps};
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
		cmocka_unit_test(a_window_that_has_ended_keeps_its_takes),
		cmocka_unit_test(a_latecomer_gives_back_where_it_counted),
		cmocka_unit_test(a_calendar_window_keeps_its_takes),
		cmocka_unit_test(a_bucket_does_not_get_back_what_time_refilled),
		cmocka_unit_test(a_bucket_that_filled_up_after_a_step_back),
		cmocka_unit_test(a_bucket_that_others_gave_back_to),
		cmocka_unit_test(a_queue_gives_back_its_last_position),
		STEP_ALGORITHMS(RANDOM)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
