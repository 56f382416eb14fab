/* retry_after is the shortest wait: at now + retry_after the same request passes, one ns earlier it
 * does not. For all algorithms, with and without soft mode, on copies of the state. */
#include "algo/algo_test.h"

#define RUNS 1500
#define STEPS 200
#define LOG_MAX 60

struct key {
	struct weir_state state, soft;
	struct weir_log log;
	uint64_t stamps[4 * LOG_MAX];
};

static struct weir_decision ask(const struct weir_limit *l, struct key *k, int64_t cost,
				uint64_t now_ns)
{
	struct weir_decision d;
	int rc = l->algorithm == WEIR_SLIDING_LOG
			 ? weir_log_step(l, &k->log, &k->soft, cost, now_ns, &d)
			 : weir_step(l, &k->state, &k->soft, cost, now_ns, &d);

	assert_int_equal(rc, 0);
	return d;
}

static struct weir_decision ask_copy(const struct weir_limit *l, const struct key *k, int64_t cost,
				     uint64_t now_ns)
{
	struct key copy = *k;

	copy.log.stamps = copy.stamps;
	return ask(l, &copy, cost, now_ns);
}

/* Returns 1 when there was a wait to check. */
static int check(const struct weir_limit *l, const struct key *k, int64_t cost, uint64_t now_ns,
		 const struct weir_decision *d, uint64_t seed)
{
	uint64_t wait_ns = d->retry_after_ns;

	if (d->admitted) {
		assert_int_equal(wait_ns, 0);
		return 0;
	}
	if (wait_ns == WEIR_NEVER) {
		assert_true(l->limit == 0 || cost > l->ceiling);
		return 0;
	}
	assert_true(cost <= l->ceiling && wait_ns > 0);
	if (wait_ns > TIME_MAX - now_ns)
		return 0;
	if (!ask_copy(l, k, cost, now_ns + wait_ns).admitted)
		fail_msg("refused after the wait; run WEIR_SEED=%llu", (unsigned long long)seed);
	if (wait_ns > 1 && ask_copy(l, k, cost, now_ns + wait_ns - 1).admitted)
		fail_msg("admitted before the wait is over; run WEIR_SEED=%llu",
			 (unsigned long long)seed);
	return 1;
}

/* reset_after is the shortest wait too: after it, decisions on the key are like those on a new
 * key. */
static void check_reset(const struct weir_limit *l, const struct key *k, uint64_t now_ns,
			uint64_t reset_ns, uint64_t seed)
{
	static struct key new;

	if (reset_ns > TIME_MAX - now_ns || l->limit == 0)
		return;
	new.log = (struct weir_log){.capacity = k->log.capacity, .stamps = new.stamps};
	uint64_t then_ns = now_ns + reset_ns;
	struct weir_decision a = ask_copy(l, k, l->ceiling, then_ns);
	struct weir_decision b = ask_copy(l, &new, l->ceiling, then_ns);

	if (a.admitted != b.admitted || a.delay_ns != b.delay_ns || a.soft != b.soft)
		fail_msg("not as good as new; run WEIR_SEED=%llu", (unsigned long long)seed);
	if (reset_ns == 0)
		return;
	a = ask_copy(l, k, 0, then_ns - 1);
	assert_int_equal(a.reset_after_ns, 1);
}

static int one_run(struct rnd *r, uint32_t algorithm, int soft)
{
	static struct key k;
	uint64_t seed = r->x;
	struct weir_limit l =
		soft ? rnd_soft_limit(r, algorithm, LOG_MAX) : rnd_limit(r, algorithm, LOG_MAX);
	uint64_t now_ns = rnd_start(r);
	int waits = 0;

	k.state = k.soft = (struct weir_state){0};
	k.log = (struct weir_log){.capacity = l.ceiling + (uint32_t)rnd_below(r, 3),
				  .stamps = k.stamps};
	for (int i = 0; i < STEPS; i++) {
		int64_t cost = rnd_cost(r, &l);

		now_ns = rnd_next(r, &l, now_ns, 3);
		struct weir_decision d = ask(&l, &k, cost, now_ns);

		waits += check(&l, &k, cost, now_ns, &d, seed);
		check_reset(&l, &k, now_ns, d.reset_after_ns, seed);
	}
	return waits;
}

static void least_wait(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state & 7;
	int soft = (uintptr_t)*state >> 3;
	struct rnd r = {rnd_seed()};
	int waits = 0;

	for (int i = 0; i < RUNS; i++)
		waits += one_run(&r, algorithm, soft);
	assert_true(waits > RUNS * STEPS / 20);
}

#define WAITS(name, number, soft)                                                                  \
	{                                                                                          \
		name, least_wait, NULL, NULL, (void *)(uintptr_t)((number) | (soft) << 3)          \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAITS("token_bucket", WEIR_TOKEN_BUCKET, 0),
		WAITS("leaky_bucket", WEIR_LEAKY_BUCKET, 0),
		WAITS("fixed_window", WEIR_FIXED_WINDOW, 0),
		WAITS("sliding_window_counter", WEIR_SLIDING_COUNTER, 0),
		WAITS("sliding_window_log", WEIR_SLIDING_LOG, 0),
		WAITS("token_bucket, soft", WEIR_TOKEN_BUCKET, 1),
		WAITS("fixed_window, soft", WEIR_FIXED_WINDOW, 1),
		WAITS("sliding_window_counter, soft", WEIR_SLIDING_COUNTER, 1),
		WAITS("sliding_window_log, soft", WEIR_SLIDING_LOG, 1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
