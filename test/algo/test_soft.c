/* Soft mode: phases, how an excess is recorded, and waits. */
#include "algo/algo_test.h"
#include "algo/soft.h"

static struct weir_limit soft_limit(uint64_t period_ns, uint64_t soft_for_ns)
{
	return LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = period_ns,
		     .soft_ceiling = 12, .soft_for_ns = soft_for_ns);
}

static struct weir_decision ask(const struct weir_limit *l, struct weir_state *s,
				struct weir_state *soft, int64_t cost, uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(weir_step(l, s, soft, cost, now_ns, &d), 0);
	return d;
}

static void phases(void **unused)
{
	struct weir_limit l = soft_limit(MINUTE, 3 * SECOND);
	struct weir_state soft = {0};

	(void)unused;
	assert_int_equal(wr_soft_quantum(&l), 1);
	assert_int_equal(wr_soft_phase(&l, &soft, T0), WR_SOFT_ARMED);
	assert_true(wr_soft_note(&l, &soft, T0));
	assert_int_equal(wr_soft_phase(&l, &soft, T0), WR_SOFT_GRACE);
	assert_false(wr_soft_note(&l, &soft, T0));
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 3 * SECOND - 1), WR_SOFT_GRACE);
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 3 * SECOND), WR_SOFT_SPENT);
	assert_true(wr_soft_note(&l, &soft, T0 + 30 * SECOND));
	assert_int_equal(soft.s0, T0 + 30 * SECOND);
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 90 * SECOND - 1), WR_SOFT_SPENT);
	assert_int_equal(wr_soft_reset_after(&l, &soft, T0 + 90 * SECOND - 1), 1);
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 90 * SECOND), WR_SOFT_ARMED);
	assert_int_equal(wr_soft_reset_after(&l, &soft, T0 + 90 * SECOND), 0);
}

/* A million excesses move the start of the grace by less than 1 ns, and the time of the last excess
 * by less than a quantum. */
static void the_start_does_not_creep(void **unused)
{
	struct weir_limit l = soft_limit(HOUR, 30 * SECOND);
	struct weir_state soft = {0};
	struct rnd r = {rnd_seed()};
	uint64_t now_ns = T0;

	(void)unused;
	assert_int_equal(wr_soft_quantum(&l), 7);
	for (int i = 0; i < 1000000 && now_ns < T0 + 29 * SECOND; i++) {
		wr_soft_note(&l, &soft, now_ns);
		assert_int_equal(soft.s0 - soft.s1 * 7ull, T0);
		assert_in_range(soft.s0, now_ns, now_ns + 6);
		now_ns += rnd_below(&r, 60);
	}
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 30 * SECOND - 1), WR_SOFT_GRACE);
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 30 * SECOND), WR_SOFT_SPENT);
}

/* After a century of excess the grace is still over, and soft mode is armed a period after the last
 * excess. */
static void it_saturates(void **unused)
{
	struct weir_limit l = soft_limit(YEAR, SECOND);
	struct weir_state soft = {0};
	uint64_t now_ns = T0;

	(void)unused;
	for (int i = 0; i < 200; i++, now_ns += YEAR / 2) {
		wr_soft_note(&l, &soft, now_ns);
		assert_int_equal(wr_soft_phase(&l, &soft, now_ns + SECOND), WR_SOFT_SPENT);
	}
	assert_int_equal(soft.s1, UINT32_MAX);
	assert_int_equal(wr_soft_phase(&l, &soft, now_ns + YEAR / 2 - 1), WR_SOFT_SPENT);
	assert_int_equal(wr_soft_phase(&l, &soft, now_ns + YEAR / 2), WR_SOFT_ARMED);
}

static void refused_requests_keep_it_spent(void **unused)
{
	struct weir_limit l = soft_limit(10 * SECOND, 15 * SECOND);
	struct weir_state s = {0}, soft = {0};
	static const uint64_t expected[] = {12, 12, 10, 10, 10, 10};

	(void)unused;
	/* Excess from 0.5 s on, twice a second: the grace ends at 15.5 s. */
	for (uint64_t window = 0; window < 6; window++) {
		uint64_t admitted = 0;

		for (uint64_t i = 0; i < 20; i++)
			admitted += ask(&l, &s, &soft, i ? 1 : 10,
					T0 + window * 10 * SECOND + i * 500 * MS)
					    .admitted *
				    (i ? 1 : 10);
		assert_int_equal(admitted, expected[window]);
	}
}

static void waits(void **unused)
{
	struct weir_limit l = soft_limit(10 * SECOND, 3 * SECOND);
	struct weir_state s = {0}, soft = {0};
	struct weir_decision d;

	(void)unused;
	assert_int_equal(ask(&l, &s, &soft, 10, T0 + 2 * SECOND).soft, 0);
	assert_int_equal(soft.s0, 0); /* no excess within the limit */
	d = ask(&l, &s, &soft, 2, T0 + 2 * SECOND);
	assert_int_equal(d.soft, 1);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.limit, 10);
	assert_int_equal(d.reset_after_ns,
			 10 * SECOND); /* soft mode is armed again later than the window ends */
	d = ask(&l, &s, &soft, 1, T0 + 2 * SECOND);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 8 * SECOND);
	/* 11 units never fit into 10. The grace is over at 5 s, so they fit only when soft mode is
	 * armed again. */
	d = ask(&l, &s, &soft, 11, T0 + 4 * SECOND);
	assert_int_equal(d.retry_after_ns, 10 * SECOND);
	assert_int_equal(ask(&l, &s, &soft, 13, T0 + 4 * SECOND).retry_after_ns, WEIR_NEVER);
	d = ask(&l, &s, &soft, 11, T0 + 14 * SECOND);
	assert_int_equal(d.soft, 1);
}

static void a_look_is_no_excess(void **unused)
{
	struct weir_limit l = soft_limit(10 * SECOND, 3 * SECOND);
	struct weir_state s = {0}, soft = {0};
	struct weir_decision d;

	(void)unused;
	ask(&l, &s, &soft, 10, T0);
	d = ask(&l, &s, &soft, 0, T0);
	assert_int_equal(d.admitted, 1); /* one more request would be admitted */
	assert_int_equal(d.soft, 1);
	assert_int_equal(soft.s0, 0);
	ask(&l, &s, &soft, 1, T0);
	assert_int_equal(ask(&l, &s, &soft, 0, T0 + 3 * SECOND - 1).admitted, 1);
	d = ask(&l, &s, &soft, 0, T0 + 3 * SECOND);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.retry_after_ns, 7 * SECOND);
	assert_int_equal(soft.s0, T0);
}

static void the_clock_steps_back(void **unused)
{
	struct weir_limit l = soft_limit(10 * SECOND, 3 * SECOND);
	struct weir_state s = {0}, soft = {0};

	(void)unused;
	ask(&l, &s, &soft, 12, T0 + DAY);
	ask(&l, &s, &soft, 12, T0 + DAY + 5 * SECOND);
	/* After the step back the age of the grace is kept, so it is over. But soft mode is armed
	 * again after a period, not after a day. */
	assert_int_equal(ask(&l, &s, &soft, 0, T0).reset_after_ns, 10 * SECOND);
	assert_int_equal(soft.s0, T0);
	assert_int_equal(wr_soft_phase(&l, &soft, T0), WR_SOFT_SPENT);
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 10 * SECOND), WR_SOFT_ARMED);
}

static void a_calendar_window(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10,
				    .window_start_ns = T0, .window_end_ns = T0 + 23 * HOUR,
				    .soft_ceiling = 12, .soft_for_ns = 30 * SECOND);
	struct weir_state s = {0}, soft = {0};

	(void)unused;
	assert_int_equal(ask(&l, &s, &soft, 12, T0 + HOUR).reset_after_ns, 23 * HOUR);
}

static void every_window_but_the_queue(void **unused)
{
	static const uint32_t kinds[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					 WEIR_SLIDING_COUNTER};
	uint64_t stamps[12];
	struct weir_log log = {.capacity = 12, .stamps = stamps};
	struct weir_limit l;
	struct weir_decision d;

	(void)unused;
	for (int i = 0; i < 3; i++) {
		struct weir_state s = {0}, soft = {0};

		l = soft_limit(MINUTE, 30 * SECOND);
		l.algorithm = kinds[i];
		assert_int_equal(weir_limit_check(&l, NULL), 0);
		for (int n = 1; n <= 13; n++) {
			d = ask(&l, &s, &soft, 1, T0);
			assert_int_equal(d.admitted, n <= 12);
			assert_int_equal(d.soft, n > 10 && n <= 12);
			assert_int_equal(d.remaining, n < 10 ? 10 - n : 0);
		}
	}
	l.algorithm = WEIR_SLIDING_LOG;
	l.flags = WEIR_COUNT_REJECTED;
	weir_limit_check(&l, NULL);
	struct weir_state soft = {0};

	for (int n = 1; n <= 13; n++) {
		assert_int_equal(weir_log_step(&l, &log, &soft, 1, T0, &d), 0);
		assert_int_equal(d.admitted, n <= 12);
		assert_int_equal(d.soft, n > 10 && n <= 12);
	}
	assert_int_equal(log.count, 12);
	log.capacity = 11;
	assert_int_equal(weir_log_step(&l, &log, &soft, 1, T0, &d), WEIR_EINVAL);
}

/* A refused request is counted once, not once for each ceiling that was tried. */
static void charged_once(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = MINUTE,
		      .soft_ceiling = 12, .soft_for_ns = SECOND, .flags = WEIR_COUNT_REJECTED);
	struct weir_state s = {0}, soft = {0};

	(void)unused;
	ask(&l, &s, &soft, 12, T0);
	assert_int_equal(s.s1, 12);
	ask(&l, &s, &soft, 3, T0);
	assert_int_equal(s.s1, 15);
	ask(&l, &s, &soft, 3, T0 + 2 * SECOND);
	assert_int_equal(s.s1, 18);
}

/* The period is shorter than the skew of latecomers. The excess of a latecomer does not arm soft
 * mode again. */
static void latecomers(void **unused)
{
	struct weir_limit l = soft_limit(10 * MS, 20 * MS);
	struct weir_state soft = {0};

	(void)unused;
	for (uint64_t ms = 0; ms <= 50; ms += 5)
		wr_soft_note(&l, &soft, T0 + ms * MS);
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 50 * MS), WR_SOFT_SPENT);
	assert_false(wr_soft_note(&l, &soft, T0 + 50 * MS - SECOND));
	assert_int_equal(wr_soft_phase(&l, &soft, T0 + 50 * MS), WR_SOFT_SPENT);
	assert_true(wr_soft_carry(&l, &soft, T0 + 50 * MS - SECOND - 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases),
		cmocka_unit_test(the_start_does_not_creep),
		cmocka_unit_test(it_saturates),
		cmocka_unit_test(refused_requests_keep_it_spent),
		cmocka_unit_test(waits),
		cmocka_unit_test(a_look_is_no_excess),
		cmocka_unit_test(the_clock_steps_back),
		cmocka_unit_test(latecomers),
		cmocka_unit_test(a_calendar_window),
		cmocka_unit_test(every_window_but_the_queue),
		cmocka_unit_test(charged_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
