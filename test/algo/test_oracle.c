/* Compares each algorithm with its model, in a million steps with random limits, costs and
 * times. */
#include "algo/algo_test.h"
#include "algo/oracle.h"
#include "rounds.h"

#define RUNS test_rounds(1000, 5000)
#define STEPS 200

struct run {
	struct weir_limit limit;
	struct weir_state state;
	struct weir_log log;
	struct oracle oracle;
	uint64_t stamps[ORACLE_STAMPS];
	uint64_t now_ns;
	uint64_t seed; /* repeats the run */
	int step;
	int64_t cost;
	int admitted, refused, late, back;
};

static const char *where(const struct run *run)
{
	static char text[200];

	snprintf(text, sizeof text,
		 "run WEIR_SEED=%llu step %d cost %lld now %llu limit %u burst %u per %llu",
		 (unsigned long long)run->seed, run->step, (long long)run->cost,
		 (unsigned long long)run->now_ns, run->limit.limit, run->limit.capacity,
		 (unsigned long long)run->limit.period_ns);
	return text;
}

static struct weir_decision ask(struct run *run, int64_t cost)
{
	if (run->limit.algorithm == WEIR_SLIDING_LOG)
		return log_step(&run->limit, &run->log, cost, run->now_ns);
	return step(&run->limit, &run->state, cost, run->now_ns);
}

static void same(const struct run *run, const char *what, uint64_t got, uint64_t expected)
{
	if (got != expected)
		fail_msg("%s is %llu, the oracle says %llu; %s", what, (unsigned long long)got,
			 (unsigned long long)expected, where(run));
}

static uint64_t amount(int64_t cost)
{
	return cost < 0 ? 0 - (uint64_t)cost : cost ? (uint64_t)cost : 1;
}

static void compare(struct run *run, int64_t cost)
{
	struct oracle *o = &run->oracle;
	uint64_t n = amount(cost);
	bool fits = cost < 0 || oracle_fits(o, o->l->capacity, n, run->now_ns);
	uint64_t delay_ns = fits && cost >= 0 ? oracle_delay(o, run->now_ns) : 0;
	struct weir_decision d = ask(run, cost);

	if (cost < 0)
		oracle_give(o, n, run->now_ns);
	else if (cost > 0 && (fits || o->l->flags & WEIR_COUNT_REJECTED))
		oracle_take(o, n, run->now_ns);

	run->admitted += fits;
	run->refused += !fits;
	same(run, "admitted", d.admitted, fits);
	same(run, "limit", d.limit, o->l->capacity);
	same(run, "remaining", d.remaining, oracle_remaining(o, run->now_ns));
	same(run, "reset_after", d.reset_after_ns, oracle_reset_after(o, run->now_ns));
	same(run, "delay", d.delay_ns, delay_ns);
	same(run, "retry_after", d.retry_after_ns,
	     fits ? 0 : oracle_retry_after(o, o->l->capacity, n, run->now_ns));
}

/* Return when a bucket is full again, in units of 1/limit ns: computed from the model, and from the
 * words of the state. */
static __int128 model_full_at(const struct oracle *o)
{
	if (o->l->algorithm == WEIR_LEAKY_BUCKET)
		return o->free_at;
	return (__int128)o->l->capacity * o->l->period_ns - o->level +
	       (__int128)o->last_ns * o->l->limit;
}

static __int128 state_full_at(const struct run *run)
{
	uint64_t taken = run->state.s0 >> 63 << 32 | run->state.s1;

	return (__int128)taken * run->limit.period_ns +
	       (__int128)(run->state.s0 & INT64_MAX) * run->limit.limit;
}

static void model_follows(struct run *run)
{
	struct oracle *o = &run->oracle;

	o->last_ns = run->state.s0 & INT64_MAX;
	o->free_at = state_full_at(run);
	o->level = (__int128)o->l->capacity * o->l->period_ns - o->free_at +
		   (__int128)o->last_ns * o->l->limit;
}

/* Compares a latecomer at a bucket. The bucket may count it at any time between the latecomer's own
 * time and the latest time. But all waits in the decision begin at its own time, and the bucket
 * lacks exactly the units taken. */
static void compare_bucket_late(struct run *run, int64_t cost)
{
	struct oracle *o = &run->oracle;
	uint32_t capacity = o->l->capacity;
	uint64_t n = amount(cost);
	bool must = oracle_fits(o, capacity, n, run->now_ns);
	bool may = oracle_fits(o, capacity, n, o->latest_ns);
	uint64_t delay_ns = oracle_delay(o, run->now_ns);
	uint64_t retry_ns = must ? 0 : oracle_retry_after(o, capacity, n, run->now_ns);
	struct weir_decision d = ask(run, cost);

	if (d.admitted ? !may : must)
		fail_msg("a latecomer is %s; %s", d.admitted ? "admitted" : "refused", where(run));
	if (d.admitted && cost > 0)
		oracle_take(o, n, run->now_ns);
	same(run, "a latecomer's retry_after", d.retry_after_ns, d.admitted ? 0 : retry_ns);
	same(run, "a latecomer's delay", d.delay_ns, d.admitted ? delay_ns : 0);
	same(run, "a latecomer's reset_after", d.reset_after_ns,
	     oracle_reset_after(o, run->now_ns));
	if (d.remaining < oracle_remaining(o, run->now_ns) ||
	    d.remaining > oracle_remaining(o, o->latest_ns))
		fail_msg("%u remain for a latecomer; %s", d.remaining, where(run));
	if (model_full_at(o) != state_full_at(run) && !oracle_fresh(o, run->now_ns))
		fail_msg("a latecomer changed what was taken; %s", where(run));
}

/* A latecomer gives back at most its cost, and at most until the bucket is full. */
static void compare_bucket_late_give(struct run *run, int64_t cost)
{
	__int128 before = state_full_at(run);
	__int128 given = (__int128)amount(cost) * run->limit.period_ns;
	struct weir_decision d = ask(run, cost);

	same(run, "admitted", d.admitted, 1);
	if (before - state_full_at(run) > given || state_full_at(run) > before)
		fail_msg("a latecomer gives back something else; %s", where(run));
	model_follows(run);
	same(run, "a latecomer's reset_after", d.reset_after_ns,
	     oracle_reset_after(&run->oracle, run->now_ns));
}

/* Compares a bucket after the clock stepped back. The bucket may lose any part of the refilled
 * tokens, but must not gain tokens. It must be full again after the time to fill it, one period and
 * a second. Then the model is set to the bucket's level. */
static void compare_bucket_back(struct run *run, int64_t cost)
{
	struct oracle *o = &run->oracle;
	const struct weir_limit *l = o->l;
	uint64_t had = oracle_remaining(o, o->latest_ns);
	bool fitted = oracle_fits(o, l->capacity, amount(cost), o->latest_ns);
	struct weir_decision d = ask(run, cost);
	__int128 full = (__int128)l->capacity * l->period_ns;

	if (d.admitted && cost >= 0 && !fitted)
		fail_msg("a step back admits what did not fit before; %s", where(run));
	if (cost >= 0 && d.remaining > had)
		fail_msg("a step back brings %u where %u were left; %s", d.remaining, (unsigned)had,
			 where(run));
	if ((__int128)d.reset_after_ns * l->limit >=
	    full + ((__int128)l->period_ns + SECOND + 1) * l->limit)
		fail_msg("refuses longer than a filling, a period and a second; %s", where(run));
	model_follows(run);

	/* Before this time a bucket that is full at state_full_at() would lack more tokens than it
	 * can hold. */
	__int128 beyond = state_full_at(run) - full;
	uint64_t latest_ns = run->state.s0 & INT64_MAX;

	if (beyond > (__int128)latest_ns * l->limit)
		latest_ns = (uint64_t)((beyond + l->limit - 1) / l->limit);
	o->latest_ns = latest_ns > run->now_ns ? latest_ns : run->now_ns;
}

static void compare_bucket_before(struct run *run, int64_t cost)
{
	if (run->oracle.latest_ns - run->now_ns > ORACLE_LATE_NS)
		compare_bucket_back(run, cost);
	else if (cost < 0)
		compare_bucket_late_give(run, cost);
	else
		compare_bucket_late(run, cost);
}

static bool bucket_before(const struct run *run)
{
	uint32_t a = run->limit.algorithm;

	return (a == WEIR_TOKEN_BUCKET || a == WEIR_LEAKY_BUCKET) && run->limit.limit &&
	       run->now_ns < run->oracle.latest_ns;
}

static void forget(struct run *run)
{
	run->state = (struct weir_state){0};
	oracle_init(&run->oracle, &run->limit);
}

/* The counter stores a window's number modulo 2^32. Tables drop keys that are so old, and so does
 * this test. */
static bool too_old(const struct run *run, uint64_t before_ns)
{
	uint64_t a = before_ns / run->limit.period_ns, b = run->now_ns / run->limit.period_ns;

	return run->limit.algorithm == WEIR_SLIDING_COUNTER && (a > b ? a - b : b - a) >> 30;
}

static void one_run(struct run *run, struct rnd *r, uint32_t algorithm)
{
	run->seed = r->x;
	run->limit = rnd_limit(r, algorithm, 60);
	run->now_ns = rnd_start(r);
	run->log = (struct weir_log){.capacity = run->limit.limit + (uint32_t)rnd_below(r, 4),
				     .stamps = run->stamps};
	forget(run);

	int back_percent = rnd_below(r, 2) ? 0 : 8;

	for (int i = 0; i < STEPS; i++) {
		uint64_t before_ns = run->now_ns;
		int64_t cost = rnd_cost(r, &run->limit);

		run->now_ns = rnd_next(r, &run->limit, run->now_ns, back_percent);
		run->step = i;
		run->cost = cost;
		if (too_old(run, before_ns))
			forget(run);
		if (run->now_ns < before_ns)
			before_ns - run->now_ns <= ORACLE_LATE_NS ? run->late++ : run->back++;
		oracle_carry(&run->oracle, run->now_ns);
		if (bucket_before(run))
			compare_bucket_before(run, cost);
		else
			compare(run, cost);
	}
}

static void against_oracle(void **state)
{
	static struct run run;
	struct rnd r = {rnd_seed()};

	run.admitted = run.refused = run.late = run.back = 0;
	for (int i = 0; i < RUNS; i++)
		one_run(&run, &r, (uint32_t)(uintptr_t)*state);
	/* The requests must reach the limit often, otherwise the test would prove nothing. */
	assert_true(run.admitted > RUNS * STEPS / 5 && run.refused > RUNS * STEPS / 5);
	assert_true(run.late > RUNS * STEPS / 200 && run.back > RUNS * STEPS / 200);
}

/* A model of soft mode, written from its description: the first excess, the last excess, and two
 * ceilings. */
struct overshoot {
	bool any;
	uint64_t first_ns, last_ns;
};

static bool overshoot_may(const struct run *run, const struct overshoot *o)
{
	bool armed = !o->any || run->now_ns - o->last_ns >= run->limit.period_ns;

	return armed || run->now_ns - o->first_ns < run->limit.soft_for_ns;
}

static void overshoot_note(const struct run *run, struct overshoot *o)
{
	if (!o->any || run->now_ns - o->last_ns >= run->limit.period_ns)
		o->first_ns = run->now_ns;
	o->last_ns = run->now_ns;
	o->any = true;
}

static void compare_soft(struct run *run, struct weir_state *soft, struct overshoot *over,
			 int64_t cost)
{
	struct oracle *o = &run->oracle;
	uint64_t n = amount(cost);
	bool within = cost < 0 || oracle_fits(o, o->l->capacity, n, run->now_ns);
	bool above = !within && overshoot_may(run, over) &&
		     oracle_fits(o, o->l->ceiling, n, run->now_ns);
	struct weir_decision d;
	int rc = o->l->algorithm == WEIR_SLIDING_LOG
			 ? weir_log_step(o->l, &run->log, soft, cost, run->now_ns, &d)
			 : weir_step(o->l, &run->state, soft, cost, run->now_ns, &d);

	if (!within && cost > 0)
		overshoot_note(run, over);
	if (cost < 0)
		oracle_give(o, n, run->now_ns);
	else if (cost > 0 && (within || above || o->l->flags & WEIR_COUNT_REJECTED))
		oracle_take(o, n, run->now_ns);
	same(run, "the code", (uint64_t)rc, 0);
	same(run, "admitted", d.admitted, within || above);
	same(run, "soft", d.soft, above);
	same(run, "remaining", d.remaining, oracle_remaining(o, run->now_ns));
}

static void soft_run(struct run *run, struct rnd *r, uint32_t algorithm)
{
	struct weir_state soft = {0};
	struct overshoot over = {0};

	run->seed = r->x;
	do /* a grace that is stored exactly */
		run->limit = rnd_soft_limit(r, algorithm, 60);
	while (run->limit.limit == 0 || run->limit.soft_for_ns >= UINT32_MAX);
	run->now_ns = rnd_start(r) + 1;
	run->log = (struct weir_log){.capacity = run->limit.ceiling, .stamps = run->stamps};
	forget(run);
	for (int i = 0; i < STEPS; i++) {
		uint64_t before_ns = run->now_ns;
		int64_t cost = rnd_cost(r, &run->limit);

		run->now_ns = rnd_next(r, &run->limit, run->now_ns, 0);
		run->step = i;
		run->cost = cost;
		if (too_old(run, before_ns))
			forget(run);
		compare_soft(run, &soft, &over, cost);
	}
}

static void soft_against_oracle(void **state)
{
	static struct run run;
	struct rnd r = {rnd_seed()};

	for (int i = 0; i < RUNS; i++)
		soft_run(&run, &r, (uint32_t)(uintptr_t)*state);
}

#define SOFTLY(number, text)                                                                       \
	{                                                                                          \
		text, soft_against_oracle, NULL, NULL, (void *)(uintptr_t)(number)                 \
	}
#define AGAINST(number, text)                                                                      \
	{                                                                                          \
		text, against_oracle, NULL, NULL, (void *)(uintptr_t)(number)                      \
	}

int main(void)
{
#define SUITE(name, number, text) AGAINST(number, text),
	const struct CMUnitTest tests[] = {
		STEP_ALGORITHMS(SUITE) SOFTLY(WEIR_TOKEN_BUCKET, "token_bucket, soft"),
		SOFTLY(WEIR_FIXED_WINDOW, "fixed_window, soft"),
		SOFTLY(WEIR_SLIDING_COUNTER, "sliding_window_counter, soft"),
		SOFTLY(WEIR_SLIDING_LOG, "sliding_window_log, soft")};
#undef SUITE

	return cmocka_run_group_tests(tests, NULL, NULL);
}
