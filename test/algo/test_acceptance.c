/* The worked examples of the acceptance list. The names of the tests begin with the number of their
 * example. */
#include "algo/algo_test.h"

static void e1_token_bucket_refills(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 1, .burst = 5, .period_ns = SECOND);
	struct weir_state s = {0};
	static const int admitted[10] = {1, 1, 1, 1, 1, 1, 0, 0, 0, 0};

	(void)unused;
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(step(&l, &s, 1, T0 + i * 200 * MS).admitted, admitted[i]);
	/* Tokens above the capacity are lost. */
	for (int i = 0; i < 6; i++)
		assert_int_equal(step(&l, &s, 1, T0 + HOUR).admitted, i < 5);
}

static void e2_token_bucket_retry(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 2, .burst = 4, .period_ns = SECOND);
	struct weir_state s = {0};

	(void)unused;
	for (unsigned i = 0; i < 4; i++) {
		struct weir_decision d = step(&l, &s, 1, T0);

		assert_int_equal(d.admitted, 1);
		assert_int_equal(d.remaining, 3 - i);
	}
	struct weir_decision d = step(&l, &s, 1, T0);

	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.retry_after_ns, 500 * MS);
	assert_int_equal(d.reset_after_ns, 2 * SECOND);
}

static struct weir_limit queue_of_four(void)
{
	return LIMIT(.algorithm = WEIR_LEAKY_BUCKET, .limit = 1, .period_ns = 250 * MS,
		     .queue_size = 4);
}

static void e3_leaky_bucket_queues(void **unused)
{
	struct weir_limit l = queue_of_four();
	struct weir_state s = {0};

	(void)unused;
	for (uint64_t i = 0; i < 10; i++) {
		struct weir_decision d = step(&l, &s, 1, T0);

		assert_int_equal(d.admitted, i < 5);
		assert_int_equal(d.delay_ns, i < 5 ? i * 250 * MS : 0);
		assert_int_equal(d.retry_after_ns, i < 5 ? 0 : 250 * MS);
	}
}

static void e3_leaky_bucket_outflow(void **unused)
{
	struct weir_limit l = queue_of_four();
	struct rnd r = {rnd_seed()};

	(void)unused;
	for (int i = 0; i < 1000; i++) {
		struct weir_state s = {0};
		uint64_t now_ns = T0, left_ns = 0;

		for (int request = 0; request < 10; request++) {
			now_ns += rnd_below(&r, 300 * MS);
			struct weir_decision d = step(&l, &s, 1, now_ns);

			if (!d.admitted)
				continue;
			assert_true(now_ns + d.delay_ns >= left_ns + (left_ns ? 250 * MS : 0));
			left_ns = now_ns + d.delay_ns;
		}
	}
}

/* Five requests at the end of a minute, and five at the beginning of the next. */
static const uint64_t boundary[10] = {30, 36, 42, 48, 54, 60, 66, 72, 78, 84};

static void e4_fixed_window_boundary(void **unused)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 5, .period_ns = MINUTE);
	struct weir_state s = {0};

	(void)unused;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(step(&l, &s, 1, T0 + boundary[i] * SECOND).admitted, 1);
		if (i != 4)
			continue;
		struct weir_decision d = step(&l, &s, 1, T0 + 55 * SECOND);

		assert_int_equal(d.admitted, 0);
		assert_int_equal(d.retry_after_ns, 5 * SECOND);
		assert_int_equal(step(&l, &s, 1, T0 + MINUTE - 1).admitted, 0);
	}
}

static void e5_log_has_no_boundary(void **unused)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 5, .period_ns = MINUTE);
	uint64_t stamps[5], admitted[10];
	struct weir_log log = {.capacity = 5, .stamps = stamps};
	int n = 0;

	(void)unused;
	for (int i = 0; i < 10; i++)
		if (log_step(&l, &log, 1, T0 + boundary[i] * SECOND).admitted)
			admitted[n++] = boundary[i];
	assert_int_equal(n, 5); /* the requests at 30 … 54 s; the next could be admitted at 90 s */
	for (int i = 0; i < n; i++)
		assert_int_equal(admitted[i], boundary[i]);
	assert_int_equal(log_step(&l, &log, 1, T0 + 90 * SECOND).admitted, 1);
}

static uint64_t at(uint64_t minutes, uint64_t seconds)
{
	return T0 + minutes * MINUTE + seconds * SECOND;
}

static void log_example(uint32_t flags, struct weir_log *log)
{
	struct weir_limit l = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 2, .period_ns = MINUTE,
				    .flags = flags);

	assert_int_equal(log_step(&l, log, 1, at(0, 1)).admitted, 1);
	assert_int_equal(log_step(&l, log, 1, at(0, 30)).admitted, 1);
	assert_int_equal(log_step(&l, log, 1, at(0, 50)).admitted, 0);
	assert_int_equal(log_step(&l, log, 1, at(1, 40)).admitted, 1);
}

static void e6_log_counts_rejected(void **unused)
{
	uint64_t stamps[2];
	struct weir_log log = {.capacity = 2, .stamps = stamps};

	(void)unused;
	log_example(WEIR_COUNT_REJECTED, &log);
	assert_int_equal(log.count, 2);
	assert_int_equal(log.pending, 1);
	assert_int_equal(log.newest_ns, at(1, 40));
	assert_int_equal(stamps[1 - log.head], at(0, 50));
}

static void e6_log_forgets_rejected(void **unused)
{
	uint64_t stamps[2];
	struct weir_log log = {.capacity = 2, .stamps = stamps};

	(void)unused;
	log_example(0, &log);
	assert_int_equal(log.count, 1);
	assert_int_equal(log.newest_ns, at(1, 40));
}

static void counter_example(uint32_t limit, uint64_t period_ns, int64_t before, int64_t here,
			    uint64_t into_ns)
{
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_SLIDING_COUNTER, .limit = limit, .period_ns = period_ns);
	struct weir_state s = {0};
	uint64_t start_ns = T0 - T0 % period_ns;

	assert_int_equal(step(&l, &s, before, start_ns - period_ns).admitted, 1);
	/* The counts are written directly into the state, because it does not matter when the
	 * requests came. */
	struct weir_state probe = s;

	probe.s0 = (uint64_t)before << 32 | (uint64_t)here;
	probe.s1 = (uint32_t)(start_ns / period_ns);
	s = probe;
	struct weir_decision d = step(&l, &s, 1, start_ns + into_ns);

	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(step(&l, &s, 1, start_ns + into_ns).admitted, 0);
}

static void e7_counter_estimates(void **unused)
{
	(void)unused;
	counter_example(7, MINUTE, 5, 3, 18 * SECOND);
}

static void e8_counter_estimates(void **unused)
{
	(void)unused;
	counter_example(100, HOUR, 84, 36, 15 * MINUTE);
}

static struct weir_limit two_of(uint32_t algorithm)
{
	if (algorithm == WEIR_LEAKY_BUCKET)
		return LIMIT(.algorithm = algorithm, .limit = 2, .period_ns = MINUTE,
			     .queue_size = 1);
	return LIMIT(.algorithm = algorithm, .limit = 2, .period_ns = MINUTE);
}

static void e9_looks_and_twins(void **unused)
{
	uint64_t stamps[2];
	struct weir_log log = {.capacity = 2, .stamps = stamps};

	(void)unused;
	for (uint32_t a = WEIR_TOKEN_BUCKET; a <= WEIR_SLIDING_LOG; a++) {
		struct weir_limit l = two_of(a);
		struct weir_state s = {0};

		for (unsigned i = 0; i < 3; i++) {
			struct weir_decision look, again, take;

			if (a == WEIR_SLIDING_LOG) {
				look = log_step(&l, &log, 0, T0);
				again = log_step(&l, &log, 0, T0);
				take = log_step(&l, &log, 1, T0);
			} else {
				look = step(&l, &s, 0, T0);
				again = step(&l, &s, 0, T0);
				take = step(&l, &s, 1, T0);
			}
			assert_memory_equal(&look, &again, sizeof look);
			assert_int_equal(look.remaining, 2 - i);
			assert_int_equal(look.admitted, i < 2);
			assert_int_equal(take.admitted, i < 2);
		}
	}
}

/* Requests come evenly at twice the limit of 100 per second, for ten windows. */
static void e25_twice_the_limit(void **unused)
{
	uint64_t stamps[100];
	struct weir_log log = {.capacity = 100, .stamps = stamps};
	uint64_t start_ns = T0;

	(void)unused;
	for (uint32_t a = WEIR_TOKEN_BUCKET; a <= WEIR_SLIDING_LOG; a++) {
		struct weir_limit l =
			a == WEIR_LEAKY_BUCKET
				? LIMIT(.algorithm = a, .limit = 100, .period_ns = SECOND,
					.queue_size = 9)
				: LIMIT(.algorithm = a, .limit = 100, .period_ns = SECOND);
		struct weir_state s = {0};

		for (uint64_t window = 0; window < 10; window++) {
			int admitted = 0;

			for (uint64_t i = 0; i < 200; i++) {
				uint64_t now_ns = start_ns + window * SECOND + i * 5 * MS;

				admitted += a == WEIR_SLIDING_LOG
						    ? log_step(&l, &log, 1, now_ns).admitted
						    : step(&l, &s, 1, now_ns).admitted;
			}
			/* In the first window a bucket also admits its burst, and a queue its
			 * positions. */
			if (window > 0 || a >= WEIR_FIXED_WINDOW)
				assert_in_range(admitted, 99, 101);
			if (a >= WEIR_FIXED_WINDOW)
				assert_true(admitted <= 100);
		}
	}
}

/* Sends fifty requests at 0, 3, 6 and 9 s of the window that begins at start_ns. Returns how many
 * are admitted. */
static int passing(const struct weir_limit *l, struct weir_state *s, struct weir_state *soft,
		   uint64_t start_ns)
{
	int admitted = 0;

	for (uint64_t i = 0; i < 200; i++) {
		struct weir_decision d;
		uint64_t now_ns = start_ns + i / 50 * 3 * SECOND;

		assert_int_equal(weir_step(l, s, soft, 1, now_ns, &d), 0);
		admitted += d.admitted;
		assert_int_equal(d.soft, d.admitted && admitted > 100);
	}
	return admitted;
}

static void e26_soft_and_hard(void **unused)
{
	struct weir_limit hard =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 100, .period_ns = 10 * SECOND);
	struct weir_limit l =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 100, .period_ns = 10 * SECOND,
		      .soft_ceiling = 120, .soft_for_ns = 30 * SECOND);
	struct weir_state s = {0}, h = {0}, soft = {0};
	struct weir_decision d;

	(void)unused;
	/* The 101st request comes at 6 s and starts the grace, which lasts until 36 s. So the
	 * fourth window admits only the limit. */
	for (uint64_t t = 0; t < 80; t += 10) {
		assert_int_equal(passing(&l, &s, &soft, T0 + t * SECOND), t < 30 ? 120 : 100);
		assert_int_equal(passing(&hard, &h, NULL, T0 + t * SECOND), 100);
	}
	/* The last excess was refused at 79 s. A period later the key is reset, and not sooner. The
	 * last excess is stored in quanta of 7 ns from the first, hence the few ns. */
	struct weir_state soft_then = soft, s_then = s;

	assert_int_equal(weir_step(&l, &s_then, &soft_then, 120, T0 + 89 * SECOND - 1, &d), 0);
	assert_int_equal(d.admitted, 0);
	assert_int_equal(weir_step(&l, &s, &soft, 120, T0 + 89 * SECOND + 6, &d), 0);
	assert_int_equal(d.admitted, 1);
	assert_int_equal(d.soft, 1);
	for (uint64_t t = 90; t < 140; t += 10)
		assert_int_equal(passing(&l, &s, &soft, T0 + t * SECOND), t < 119 ? 120 : 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(e1_token_bucket_refills),
		cmocka_unit_test(e2_token_bucket_retry),
		cmocka_unit_test(e3_leaky_bucket_queues),
		cmocka_unit_test(e3_leaky_bucket_outflow),
		cmocka_unit_test(e4_fixed_window_boundary),
		cmocka_unit_test(e5_log_has_no_boundary),
		cmocka_unit_test(e6_log_counts_rejected),
		cmocka_unit_test(e6_log_forgets_rejected),
		cmocka_unit_test(e7_counter_estimates),
		cmocka_unit_test(e8_counter_estimates),
		cmocka_unit_test(e9_looks_and_twins),
		cmocka_unit_test(e25_twice_the_limit),
		cmocka_unit_test(e26_soft_and_hard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
