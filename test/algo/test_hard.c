/* Checks limits without soft mode. Uses only the times of admitted requests, counts them in spans,
 * and never reads the state. */
#include "algo/algo_test.h"

#define REQUESTS 150
#define RUNS 400

struct trace {
	int n;
	uint64_t at_ns[REQUESTS];
	uint64_t cost[REQUESTS];
	uint64_t delay_ns[REQUESTS];
};

/* Records the admitted requests of a client that sends requests in bursts with pauses. */
static struct weir_limit run(struct rnd *r, uint32_t algorithm, int ones, struct trace *t)
{
	static uint64_t stamps[64];
	struct weir_log log = {.capacity = 64, .stamps = stamps};
	struct weir_state s = {0};
	struct weir_limit l;
	uint64_t now_ns = rnd_start(r);

	do
		l = rnd_limit(r, algorithm, 60);
	while (l.limit == 0);
	t->n = 0;
	for (int i = 0; i < REQUESTS * 4 && t->n < REQUESTS; i++) {
		int64_t cost = ones || rnd_below(r, 2) ? 1 : rnd_cost(r, &l);

		now_ns = rnd_next(r, &l, now_ns, 0);
		struct weir_decision d = algorithm == WEIR_SLIDING_LOG
						 ? log_step(&l, &log, cost, now_ns)
						 : step(&l, &s, cost, now_ns);

		if (cost <= 0 || !d.admitted) {
			if (cost < 0)
				break;
			continue;
		}
		t->at_ns[t->n] = now_ns;
		t->delay_ns[t->n] = d.delay_ns;
		t->cost[t->n++] = (uint64_t)cost;
	}
	return l;
}

static void token_bucket_spans(void **unused)
{
	struct rnd r = {rnd_seed()};
	static struct trace t;

	(void)unused;
	for (int i = 0; i < RUNS; i++) {
		struct weir_limit l = run(&r, WEIR_TOKEN_BUCKET, 0, &t);

		for (int from = 0; from < t.n; from++) {
			__int128 sum = 0;

			for (int to = from; to < t.n; to++) {
				__int128 span_ns = t.at_ns[to] - t.at_ns[from];

				sum += t.cost[to];
				assert_true((sum - l.capacity) * l.period_ns <= span_ns * l.limit);
			}
		}
	}
}

static void leaky_bucket_departures(void **unused)
{
	struct rnd r = {rnd_seed()};
	static struct trace t;

	(void)unused;
	for (int i = 0; i < RUNS; i++) {
		struct weir_limit l = run(&r, WEIR_LEAKY_BUCKET, 1, &t);

		for (int from = 0; from < t.n; from++) {
			uint64_t left_ns = t.at_ns[from] + t.delay_ns[from];

			assert_true(!l.max_wait_ns || t.delay_ns[from] <= l.max_wait_ns);
			for (int to = from + 1; to < t.n; to++) {
				/* Departures are rounded to whole ns, so a gap may be too short by
				 * less than 1 ns. */
				__int128 gap_ns = t.at_ns[to] + t.delay_ns[to] - left_ns;

				assert_true((gap_ns + 1) * l.limit >
					    (__int128)(to - from) * l.period_ns);
			}
		}
	}
}

static void fixed_window_counts(void **unused)
{
	struct rnd r = {rnd_seed()};
	static struct trace t;

	(void)unused;
	for (int i = 0; i < RUNS; i++) {
		struct weir_limit l = run(&r, WEIR_FIXED_WINDOW, 0, &t);
		uint64_t sum = 0;

		for (int n = 0; n < t.n; n++) {
			if (n && t.at_ns[n] / l.period_ns != t.at_ns[n - 1] / l.period_ns)
				sum = 0;
			sum += t.cost[n];
			assert_true(sum <= l.limit);
		}
	}
}

static void counter_estimates(void **unused)
{
	struct rnd r = {rnd_seed()};
	static struct trace t;

	(void)unused;
	for (int i = 0; i < RUNS; i++) {
		struct weir_limit l = run(&r, WEIR_SLIDING_COUNTER, 0, &t);

		for (int n = 0; n < t.n; n++) {
			uint64_t window = t.at_ns[n] / l.period_ns;
			uint64_t left_ns = l.period_ns - t.at_ns[n] % l.period_ns;
			uint64_t here = 0, before = 0;

			for (int k = 0; k <= n; k++) {
				here += t.at_ns[k] / l.period_ns == window ? t.cost[k] : 0;
				before += t.at_ns[k] / l.period_ns + 1 == window ? t.cost[k] : 0;
			}
			/* The estimate is rounded down to whole requests, so it may exceed the
			 * limit by less than 1. */
			assert_true((__int128)here * l.period_ns + (__int128)before * left_ns <
				    ((__int128)l.limit + 1) * l.period_ns);
		}
	}
}

static void log_windows(void **unused)
{
	struct rnd r = {rnd_seed()};
	static struct trace t;

	(void)unused;
	for (int i = 0; i < RUNS; i++) {
		struct weir_limit l = run(&r, WEIR_SLIDING_LOG, 0, &t);

		for (int from = 0; from < t.n; from++) {
			uint64_t sum = 0;

			for (int to = from; to < t.n && t.at_ns[to] - t.at_ns[from] < l.period_ns;
			     to++)
				sum += t.cost[to];
			assert_true(sum <= l.limit);
		}
	}
}

/* After the clock stepped back by any time, the full limit is admitted again after one period (for
 * a bucket: the time to fill it) and at most a second. Until then no more than the limit is
 * admitted. */
static void the_clock_steps_back(void **unused)
{
	struct rnd r = {rnd_seed()};
	static uint64_t stamps[10];

	(void)unused;
	for (int i = 0; i < 20000; i++) {
		uint32_t a = WEIR_TOKEN_BUCKET + (uint32_t)rnd_below(&r, 5);
		struct weir_limit l =
			a == WEIR_LEAKY_BUCKET
				? LIMIT(.algorithm = a, .limit = 10, .period_ns = MINUTE,
					.queue_size = 9)
				: LIMIT(.algorithm = a, .limit = 10, .period_ns = MINUTE);
		struct weir_log log = {.capacity = 10, .stamps = stamps};
		struct weir_state s = {0};
		uint64_t now_ns = T0 + rnd_below(&r, HOUR);
		uint64_t back_ns = rnd_magnitude(&r, 2 * DAY);
		int before = 0, after = 0;
		bool is_log = a == WEIR_SLIDING_LOG;

		for (int n = 0; n < 20; n++)
			before += is_log ? log_step(&l, &log, 1, now_ns).admitted
					 : step(&l, &s, 1, now_ns).admitted;
		assert_int_equal(before, 10);
		now_ns -= back_ns;
		for (int n = 0; n < 20; n++)
			after += is_log ? log_step(&l, &log, 1, now_ns).admitted
					: step(&l, &s, 1, now_ns).admitted;
		assert_int_equal(after, 0);
		/* The counter is reset only after the second window. */
		now_ns += a == WEIR_SLIDING_COUNTER ? 2 * MINUTE : MINUTE;
		now_ns += back_ns < SECOND ? back_ns : SECOND;
		struct weir_decision d =
			is_log ? log_step(&l, &log, 10, now_ns) : step(&l, &s, 10, now_ns);

		assert_int_equal(d.admitted, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(token_bucket_spans),  cmocka_unit_test(leaky_bucket_departures),
		cmocka_unit_test(fixed_window_counts), cmocka_unit_test(counter_estimates),
		cmocka_unit_test(log_windows),         cmocka_unit_test(the_clock_steps_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
