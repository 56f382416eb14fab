/* Threads that are late cannot exceed a limit. They read a common clock, and decide up to 900 ms
 * later, in any order, and more often than the limit allows. The admitted requests are checked by
 * the times at which they are counted, and by the common clock. */
#include "algo/algo_test.h"

#define RUNS 300
#define REQUESTS 600
#define LAG_NS (900 * MS)
#define LOG_MAX 20

struct request {
	uint64_t clock_ns; /* time of the common clock when it was decided */
	uint64_t now_ns;   /* the time that the thread had read */
	uint64_t as_of_ns; /* the time at which it is counted */
	uint64_t delay_ns;
	uint64_t cost;
};

struct trace {
	struct weir_limit limit;
	uint64_t first_ns, last_ns; /* first and last of all requests, by the common clock */
	int n;                      /* admitted */
	struct request at[REQUESTS];
};

struct key {
	struct weir_state state;
	struct weir_log log;
	uint64_t stamps[LOG_MAX];
	uint64_t own_ns; /* the key's own time: start of the latest window, or latest stamp */
};

static int late; /* number of requests that were behind the key's own time */

static struct weir_limit some_limit(struct rnd *r, uint32_t algorithm)
{
	static const uint64_t periods[] = {50 * MS,    200 * MS,    SECOND,     SECOND + 1,
					   3 * SECOND, 10 * SECOND, 7 * SECOND, MINUTE};
	struct weir_limit l = {.size = sizeof l,
			       .algorithm = algorithm,
			       .limit = 1 + (uint32_t)rnd_below(r, LOG_MAX),
			       .period_ns = rnd_pick(r, periods, 8)};

	if (algorithm == WEIR_TOKEN_BUCKET && rnd_below(r, 2))
		l.burst = 1 + (uint32_t)rnd_below(r, 40);
	if (algorithm == WEIR_LEAKY_BUCKET)
		l.queue_size = (uint32_t)rnd_below(r, 10);
	return checked(l);
}

static struct weir_decision ask(const struct weir_limit *l, struct key *k, int64_t cost,
				uint64_t now_ns)
{
	return l->algorithm == WEIR_SLIDING_LOG ? log_step(l, &k->log, cost, now_ns)
						: step(l, &k->state, cost, now_ns);
}

static struct weir_decision ask_copy(const struct weir_limit *l, const struct key *k, int64_t cost,
				     uint64_t now_ns)
{
	struct key copy = *k;

	copy.log.stamps = copy.stamps;
	return ask(l, &copy, cost, now_ns);
}

/* A wait begins at the latecomer's own time. */
static void least_wait(const struct weir_limit *l, const struct key *k, int64_t cost,
		       uint64_t now_ns, uint64_t wait_ns)
{
	if (cost > l->capacity) {
		assert_int_equal(wait_ns, WEIR_NEVER);
		return;
	}
	assert_true(ask_copy(l, k, cost, now_ns + wait_ns).admitted);
	assert_false(ask_copy(l, k, cost, now_ns + wait_ns - 1).admitted);
}

static uint64_t window_start(const struct weir_limit *l, uint64_t now_ns)
{
	return now_ns - now_ns % l->period_ns;
}

static uint64_t as_of(const struct weir_limit *l, struct key *k, uint64_t now_ns)
{
	uint64_t as_of_ns = now_ns > k->own_ns ? now_ns : k->own_ns;

	k->own_ns = l->algorithm == WEIR_SLIDING_LOG ? as_of_ns : window_start(l, as_of_ns);
	return as_of_ns;
}

/* Returns the time until the next request: from 0 to the time of a few tokens, sometimes until the
 * key is reset. */
static uint64_t stride(struct rnd *r, const struct weir_limit *l)
{
	uint64_t token_ns = l->period_ns / l->limit;

	switch (rnd_below(r, 16)) {
	case 0:
		return rnd_below(r, 4 * token_ns);
	case 1:
		return rnd_below(r, 8) ? 0 : rnd_below(r, 3 * l->period_ns);
	default:
		return rnd_below(r, token_ns / 2 + 1);
	}
}

static void one_request(struct rnd *r, struct trace *t, struct key *k, uint64_t clock_ns,
			uint64_t now_ns)
{
	const struct weir_limit *l = &t->limit;
	int64_t cost = l->algorithm == WEIR_LEAKY_BUCKET || rnd_below(r, 4)
			       ? 1
			       : 1 + (int64_t)rnd_below(r, (uint64_t)l->capacity + 1);
	struct weir_decision d = ask(l, k, cost, now_ns);

	late += now_ns < k->own_ns;
	if (!d.admitted) {
		least_wait(l, k, cost, now_ns, d.retry_after_ns);
		return;
	}

	uint64_t as_of_ns = as_of(l, k, now_ns);

	if (rnd_below(r, 8) == 0) { /* the client disconnects at once */
		ask(l, k, -cost, now_ns);
		return;
	}
	t->at[t->n++] = (struct request){clock_ns, now_ns, as_of_ns, d.delay_ns, (uint64_t)cost};
}

static void run(struct rnd *r, uint32_t algorithm, struct trace *t)
{
	struct key k = {.log = {.capacity = LOG_MAX, .stamps = k.stamps}};
	uint64_t clock_ns = T0 + rnd_below(r, DAY);

	*t = (struct trace){.limit = some_limit(r, algorithm), .first_ns = clock_ns};
	one_request(r, t, &k, clock_ns, clock_ns);
	for (int i = 1; i < REQUESTS; i++) {
		clock_ns += stride(r, &t->limit);
		uint64_t lag_ns = rnd_below(r, 4) ? rnd_below(r, LAG_NS + 1) : 0;
		uint64_t most_ns = clock_ns - t->first_ns;

		one_request(r, t, &k, clock_ns, clock_ns - (lag_ns < most_ns ? lag_ns : most_ns));
	}
	t->last_ns = clock_ns;
}

/* In any span of the common clock, no more is admitted than the limit allows in this span plus the
 * delay of its first request. From the very first request on, no more is admitted than the limit
 * allows. */
static void check_token(const struct trace *t)
{
	const struct weir_limit *l = &t->limit;
	__int128 all_ns = t->last_ns - t->first_ns;
	__int128 all = 0;

	for (int from = 0; from < t->n; from++) {
		__int128 sum = 0;

		all += t->at[from].cost;
		for (int to = from; to < t->n; to++) {
			__int128 span_ns = t->at[to].clock_ns - t->at[from].now_ns;

			sum += t->at[to].cost;
			assert_true((sum - l->capacity) * l->period_ns <= span_ns * l->limit);
		}
	}
	assert_true((all - l->capacity) * l->period_ns <= all_ns * l->limit);
}

static void check_leaky(const struct trace *t)
{
	const struct weir_limit *l = &t->limit;

	for (int i = 0; i + 1 < t->n; i++) {
		uint64_t left_ns = t->at[i].now_ns + t->at[i].delay_ns;
		__int128 gap_ns = (__int128)t->at[i + 1].now_ns + t->at[i + 1].delay_ns - left_ns;

		/* Departures are rounded to whole ns, so a gap may be too short by less than 1
		 * ns. */
		assert_true((gap_ns + 1) * l->limit > l->period_ns);
	}
}

static uint64_t windows(const struct trace *t)
{
	return t->last_ns / t->limit.period_ns - t->first_ns / t->limit.period_ns + 1;
}

static void check_fixed(const struct trace *t)
{
	const struct weir_limit *l = &t->limit;
	uint64_t sum = 0, all = 0;

	for (int i = 0; i < t->n; i++) {
		if (i &&
		    window_start(l, t->at[i].as_of_ns) != window_start(l, t->at[i - 1].as_of_ns))
			sum = 0;
		sum += t->at[i].cost;
		all += t->at[i].cost;
		assert_true(sum <= l->limit);
	}
	assert_true(all <= windows(t) * l->limit);
}

static void check_counter(const struct trace *t)
{
	const struct weir_limit *l = &t->limit;
	uint64_t all = 0;

	for (int i = 0; i < t->n; i++) {
		uint64_t start_ns = window_start(l, t->at[i].as_of_ns);
		uint64_t left_ns = start_ns + l->period_ns - t->at[i].as_of_ns;
		uint64_t here = 0, before = 0;

		for (int k = 0; k <= i; k++) {
			uint64_t other_ns = window_start(l, t->at[k].as_of_ns);

			here += other_ns == start_ns ? t->at[k].cost : 0;
			before += other_ns + l->period_ns == start_ns ? t->at[k].cost : 0;
		}
		/* The estimate is rounded down to whole requests, so it may exceed the limit by
		 * less than 1. */
		assert_true((__int128)here * l->period_ns + (__int128)before * left_ns <
			    ((__int128)l->limit + 1) * l->period_ns);
		all += t->at[i].cost;
	}
	assert_true(all <= windows(t) * l->limit);
}

/* The limit holds in any span of one period, by the times at which requests are counted. By the
 * common clock, the limit is admitted at most once for each period that starts in the span plus the
 * largest delay. */
static void check_log(const struct trace *t)
{
	const struct weir_limit *l = &t->limit;

	for (int from = 0; from < t->n; from++) {
		uint64_t sum = 0, common = 0;

		for (int to = from; to < t->n; to++) {
			uint64_t span_ns = t->at[to].clock_ns - t->at[from].clock_ns + LAG_NS;

			if (t->at[to].as_of_ns - t->at[from].as_of_ns < l->period_ns)
				sum += t->at[to].cost;
			common += t->at[to].cost;
			assert_true(common <= (span_ns / l->period_ns + 1) * l->limit);
		}
		assert_true(sum <= l->limit);
	}
}

static void (*const checks[])(const struct trace *) = {
	[WEIR_TOKEN_BUCKET] = check_token, [WEIR_LEAKY_BUCKET] = check_leaky,
	[WEIR_FIXED_WINDOW] = check_fixed, [WEIR_SLIDING_COUNTER] = check_counter,
	[WEIR_SLIDING_LOG] = check_log,
};

static void held(void **state)
{
	static struct trace t;
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;
	struct rnd r = {rnd_seed()};
	int admitted = 0;

	late = 0;
	for (int i = 0; i < RUNS; i++) {
		run(&r, algorithm, &t);
		checks[algorithm](&t);
		admitted += t.n;
	}
	assert_true(admitted > RUNS * REQUESTS / 20);
	if (algorithm >= WEIR_FIXED_WINDOW)
		assert_true(late > RUNS * REQUESTS / 20);
}

#define HELD(name, number, text) {text, held, NULL, NULL, (void *)(uintptr_t)(number)},

int main(void)
{
	const struct CMUnitTest tests[] = {STEP_ALGORITHMS(HELD)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
