/* The same random trace runs through take.lua in a real Redis and through src/algo, and each
 * decision is compared. Limits of any size and period, any cost, a clock that stands still,
 * advances and steps back, and limits that change. */
#include "algo/cancels.h"
#include "redis/script_test.h"
#include "rounds.h"

#define RUNS test_rounds(50, 250) /* runs for each kind of limit */
#define STEPS 60
#define CANCEL_RUNS test_rounds(20, 200)
#define NOW_MAX (5500000000000000ull) /* in µs: one more period is still below 2^53 */
#define SOFT_FOR_MAX (4294966 * US)   /* src/algo stores the time of an excess exactly up to this */

struct pair {
	struct weir_limit limit;
	struct weir_state state, soft;
	struct weir_log log;
	uint64_t now_us;
	int back_percent;
	bool calendar;
	char key[32];
};

struct tally {
	int admitted, refused, soft, delayed;
};

static uint64_t stamps[WEIR_LOG_MAX];
static int next_key;

static uint64_t whole_us(uint64_t ns)
{
	return ns / US * US;
}

/* Rounds a random limit to whole µs. Returns false if the rounded limit is not valid. */
static bool round_off(struct weir_limit *l)
{
	l->period_ns = whole_us(l->period_ns + US - 1);
	if (l->period_ns > WEIR_SPAN_MAX_NS)
		l->period_ns = WEIR_SPAN_MAX_NS;
	l->max_wait_ns = whole_us(l->max_wait_ns);
	if (l->soft_ceiling)
		l->soft_for_ns = US + whole_us(l->soft_for_ns % SOFT_FOR_MAX);
	return weir_limit_check(l, NULL) == 0;
}

static struct weir_limit random_limit(struct rnd *r, uint32_t algorithm, bool soft,
				      uint32_t log_max)
{
	struct weir_limit l;

	do
		l = soft ? rnd_soft_limit(r, algorithm, log_max) : rnd_limit(r, algorithm, log_max);
	while (!round_off(&l));
	return l;
}

/* Changes the limit but not its period. Used units count against the new limit. */
static void change(struct rnd *r, struct pair *pair, bool soft, uint32_t log_max)
{
	struct weir_limit l;

	do {
		l = random_limit(r, pair->limit.algorithm, soft, log_max);
		l.period_ns = pair->limit.period_ns;
	} while (weir_limit_check(&l, NULL));
	pair->limit = l;
}

static void begin_pair(struct rnd *r, struct pair *pair)
{
	snprintf(pair->key, sizeof pair->key, "trace:%d:", next_key++);
	pair->state = pair->soft = (struct weir_state){0};
	pair->log = (struct weir_log){.capacity = WEIR_LOG_MAX, .stamps = stamps};
	pair->back_percent = (int)rnd_below(r, 3) * 10;
}

/* Returns the start of the n-th month of a calendar whose months differ in length: n periods and
 * some seconds. */
static uint64_t month_us(const struct pair *pair, uint64_t n)
{
	uint64_t period_us = pair->limit.period_ns / US;

	return n * period_us + n * 7919 % (period_us / SECOND_US / 2) * SECOND_US;
}

static void open_month(struct pair *pair, struct wr_take *take)
{
	uint64_t n = pair->now_us / (pair->limit.period_ns / US);

	n -= month_us(pair, n) > pair->now_us;
	take->window_before_us = month_us(pair, n - 1);
	take->window_start_us = month_us(pair, n);
	take->window_end_us = month_us(pair, n + 1);
	take->window_after_us = month_us(pair, n + 2);
	pair->limit.window_start_ns = take->window_start_us * US;
	pair->limit.window_end_ns = take->window_end_us * US;
}

/* Returns whether window numbers may be ambiguous. Redis stores the number of a window, or the
 * second in which a calendar window begins, modulo 9 · 10^8; a table stores it modulo 2^32. */
static bool too_far(const struct pair *pair, uint64_t now_us)
{
	uint64_t by = now_us > pair->now_us ? now_us - pair->now_us : pair->now_us - now_us;

	return by / (pair->calendar ? SECOND_US : pair->limit.period_ns / US) > 400000000;
}

static void advance_time(struct rnd *r, struct pair *pair, uint64_t retry_us)
{
	uint64_t now_us = rnd_next(r, &pair->limit, pair->now_us * US, pair->back_percent) / US;

	/* Continues at the announced retry time, or a moment before. */
	if (retry_us && retry_us != WR_TAKE_NEVER && rnd_below(r, 3) == 0)
		now_us = pair->now_us + retry_us - rnd_below(r, 2);
	if (now_us < 1 || now_us > NOW_MAX)
		now_us = pair->now_us;
	if (too_far(pair, now_us))
		begin_pair(r, pair);
	pair->now_us = now_us;
}

static struct weir_decision step_in_c(struct pair *pair, int64_t cost)
{
	struct weir_decision d;
	int rc;

	if (pair->limit.algorithm == WEIR_SLIDING_LOG)
		rc = weir_log_step(&pair->limit, &pair->log, &pair->soft, cost, pair->now_us * US,
				   &d);
	else
		rc = weir_step(&pair->limit, &pair->state, &pair->soft, cost, pair->now_us * US,
			       &d);
	assert_int_equal(rc, 0);
	return d;
}

static uint64_t us_up(uint64_t ns)
{
	return ns == WEIR_NEVER ? WR_TAKE_NEVER : (ns + US - 1) / US;
}

static bool is_same_decision(const struct weir_decision *c, const struct wr_taken *lua)
{
	return c->admitted == lua->admitted && c->soft == lua->soft &&
	       c->remaining == lua->remaining && us_up(c->retry_after_ns) == lua->retry_after_us &&
	       us_up(c->reset_after_ns) == lua->reset_after_us &&
	       us_up(c->delay_ns) == lua->delay_us;
}

static bool passes_after(struct pair pair, int64_t cost, uint64_t us)
{
	pair.now_us += us;
	return step_in_c(&pair, cost).admitted;
}

/* In soft mode C may announce a wait that ends within the last µs of the grace period. In whole µs
 * that is too late, and the script announces the next possible time. */
static bool grace_ends_between(const struct pair *before, int64_t cost,
			       const struct weir_decision *c, const struct wr_taken *lua)
{
	struct weir_decision alike = *c;

	alike.retry_after_ns = lua->retry_after_us * US;
	return before->limit.soft_ceiling && before->limit.algorithm != WEIR_SLIDING_LOG &&
	       lua->retry_after_us != WR_TAKE_NEVER && is_same_decision(&alike, lua) &&
	       !passes_after(*before, cost, us_up(c->retry_after_ns)) &&
	       passes_after(*before, cost, lua->retry_after_us);
}

static _Noreturn void report_difference(const struct pair *pair, int64_t cost, int at,
					const struct weir_decision *c, const struct wr_taken *lua)
{
	const struct weir_limit *l = &pair->limit;

	print_error("%s step %d: %s limit %u burst %u queue %u ceiling %u flags %u period %llu us, "
		    "max_wait %llu, soft_for %llu, cost %lld at %llu\n",
		    pair->key, at, weir_algorithm_name((int)l->algorithm), l->limit, l->burst,
		    l->queue_size, l->ceiling, l->flags, (unsigned long long)(l->period_ns / US),
		    (unsigned long long)(l->max_wait_ns / US),
		    (unsigned long long)(l->soft_for_ns / US), (long long)cost,
		    (unsigned long long)pair->now_us);
	print_error("C:   admitted %d soft %d remaining %u retry %lld reset %lld delay %lld\n",
		    c->admitted, c->soft, c->remaining, (long long)us_up(c->retry_after_ns),
		    (long long)us_up(c->reset_after_ns), (long long)us_up(c->delay_ns));
	print_error("Lua: admitted %d soft %d remaining %u retry %lld reset %lld delay %lld\n",
		    lua->admitted, lua->soft, lua->remaining, (long long)lua->retry_after_us,
		    (long long)lua->reset_after_us, (long long)lua->delay_us);
	fail();
	abort();
}

static void compare_decision(struct script_test *test, struct pair *pair, int64_t cost, int at,
			     struct tally *tally, uint64_t *retry_us)
{
	struct wr_take take = take_of(&pair->limit, cost);
	struct wr_taken taken;
	struct weir_decision d;

	if (pair->calendar)
		open_month(pair, &take);
	taken = script_take(test, pair->key, take, pair->now_us);
	d = step_in_c(pair, cost);
	if (!is_same_decision(&d, &taken) && !grace_ends_between(pair, cost, &d, &taken))
		report_difference(pair, cost, at, &d, &taken);
	assert_int_equal(taken.limit, d.limit);
	assert_int_equal(taken.now_us, pair->now_us);
	assert_int_equal(taken.taken, d.admitted && cost > 0);
	tally->admitted += d.admitted;
	tally->refused += !d.admitted;
	tally->soft += d.soft;
	tally->delayed += d.delay_ns > 0;
	*retry_us = taken.retry_after_us;
}

static struct tally run_trace(struct script_test *test, uint32_t algorithm, bool soft,
			      uint32_t log_max, int runs, int steps)
{
	struct rnd r = {rnd_seed() + algorithm * 2 + soft};
	struct tally tally = {0};

	for (int i = 0; i < runs; i++) {
		struct pair pair = {.limit = random_limit(&r, algorithm, soft, log_max)};
		uint64_t retry_us = 0;

		begin_pair(&r, &pair);
		pair.now_us = rnd_start(&r) / US % NOW_MAX + 1;
		for (int at = 0; at < steps; at++) {
			if (rnd_below(&r, 20) == 0)
				change(&r, &pair, soft, log_max);
			compare_decision(test, &pair, rnd_cost(&r, &pair.limit), at, &tally,
					 &retry_us);
			advance_time(&r, &pair, retry_us);
		}
		redis_run(&test->server, "FLUSHALL");
	}
	assert_true(tally.admitted > runs && tally.refused > runs);
	return tally;
}

static void test_without_soft_mode(void **state)
{
	struct tally leaky;

	for (uint32_t algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_COUNTER; algorithm++)
		run_trace(*state, algorithm, false, 0, RUNS, STEPS);
	leaky = run_trace(*state, WEIR_LEAKY_BUCKET, false, 0, RUNS, STEPS);
	assert_true(leaky.delayed > RUNS);
}

/* A calendar count is dropped when its key expires. The count in C is dropped at the same time. */
static void expire(struct script_test *test, struct rnd *r, struct pair *pair)
{
	redisReply *reply = redis_ask(&test->server, "GET %s0x", pair->key);

	if (reply->str && strtoull(reply->str, NULL, 10) < pair->now_us / 1000)
		begin_pair(r, pair);
	freeReplyObject(reply);
}

static void test_calendar(void **state)
{
	struct rnd r = {rnd_seed()};
	struct tally tally = {0};

	for (int i = 0; i < RUNS; i++) {
		struct pair pair = {.calendar = true, .now_us = NOW};
		uint64_t retry_us = 0;

		do
			pair.limit = random_limit(&r, WEIR_FIXED_WINDOW, i % 2, 0);
		while (pair.limit.period_ns < 10 * SECOND || pair.limit.period_ns > YEAR);
		pair.limit.period_ns = pair.limit.period_ns / SECOND * SECOND;
		begin_pair(&r, &pair);
		for (int at = 0; at < STEPS; at++) {
			compare_decision(*state, &pair, rnd_cost(&r, &pair.limit), at, &tally,
					 &retry_us);
			advance_time(&r, &pair, retry_us);
			expire(*state, &r, &pair);
		}
		redis_run(&((struct script_test *)*state)->server, "FLUSHALL");
	}
	assert_true(tally.admitted > RUNS && tally.refused > RUNS && tally.soft > RUNS / 8);
}

static void test_soft(void **state)
{
	static const uint32_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					      WEIR_SLIDING_COUNTER};

	for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
		assert_true(run_trace(*state, algorithms[i], true, 0, RUNS, STEPS).soft > RUNS / 4);
}

static void test_log(void **state)
{
	run_trace(*state, WEIR_SLIDING_LOG, false, 40, RUNS, STEPS);
	assert_true(run_trace(*state, WEIR_SLIDING_LOG, true, 40, RUNS, STEPS).soft > RUNS / 4);
}

/* Tests rings that grow, wrap around and shrink. */
static void test_long_log(void **state)
{
	run_trace(*state, WEIR_SLIDING_LOG, false, 1000, test_rounds(3, 12), 1500);
	run_trace(*state, WEIR_SLIDING_LOG, true, 1000, test_rounds(3, 12), 1500);
	run_trace(*state, WEIR_SLIDING_LOG, false, 60000, test_rounds(2, 4), 500);
}

/* ---- takes that are cancelled later, compared with the model ---- */

struct in_redis {
	struct script_test *test;
	struct weir_limit limit;
	char key[32];
};

static struct weir_decision take_there(void *of, int64_t cost, uint64_t now_ns)
{
	struct in_redis *c = of;
	struct wr_taken t = script_take(c->test, c->key, take_of(&c->limit, cost), now_ns / US);

	return (struct weir_decision){.admitted = t.admitted,
				      .remaining = t.remaining,
				      .charged_ns = (t.decided_us + t.delay_us) * US};
}

static void give_there(void *of, uint64_t n, uint64_t charged_ns, uint64_t now_ns)
{
	struct in_redis *c = of;
	struct wr_take take = take_of(&c->limit, -(int64_t)n);

	take.decided_us = charged_ns / US;
	script_take(c->test, c->key, take, now_ns / US);
}

static void test_cancelled(void **state)
{
	static const struct cancel_ops ops = {take_there, give_there, US};
	struct rnd r = {rnd_seed()};

	for (uint32_t algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
		struct cancel_tally tally = {0};

		for (int i = 0; i < CANCEL_RUNS; i++) {
			struct in_redis c = {.test = *state,
					     .limit = cancel_limit(&r, algorithm, US)};

			snprintf(c.key, sizeof c.key, "cancel:%d:", next_key++);
			cancels_run(&r, &c.limit, &ops, &c, i % 2 ? 0 : 20, &tally);
			redis_run(&((struct script_test *)*state)->server, "FLUSHALL");
		}
		assert_true(tally.admitted > 10 * CANCEL_RUNS && tally.refused > CANCEL_RUNS);
		assert_true(tally.whole > CANCEL_RUNS && tally.none > CANCEL_RUNS / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_soft_mode),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_soft),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_long_log),
		cmocka_unit_test(test_cancelled),
	};

	return cmocka_run_group_tests(tests, script_setup, script_teardown);
}
