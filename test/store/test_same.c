/* A table decides in the same way as the pure functions: each request of a random sequence is
 * decided by weir_take, and by weir_step or weir_log_step on private state, and the decisions are
 * compared. */
#include "table/table_test.h"

#define RUNS 300
#define KEYS 8
#define STEPS 800 /* number of requests of a run, for all its keys */
#define STAMPS 256

struct pair {
	struct weir_limit limit;
	uint64_t number; /* number of the key in the table */
	uint64_t now_ns;
	int back_percent;
	struct weir_state state, soft;
	struct weir_log log;
	uint64_t stamps[STAMPS];
};

struct tally {
	int admitted, refused, soft, spoiled;
};

static struct weir_table *table;
static uint64_t next_number;

static void forget(struct pair *pair)
{
	pair->number = next_number++;
	pair->state = pair->soft = (struct weir_state){0};
	pair->log = (struct weir_log){.capacity = STAMPS, .stamps = pair->stamps};
}

static struct weir_decision ask_alone(struct pair *pair, int64_t cost)
{
	struct weir_decision d;
	int rc;

	if (pair->limit.algorithm == WEIR_SLIDING_LOG)
		rc = weir_log_step(&pair->limit, &pair->log, &pair->soft, cost, pair->now_ns, &d);
	else
		rc = weir_step(&pair->limit, &pair->state, &pair->soft, cost, pair->now_ns, &d);
	assert_int_equal(rc, 0);
	return d;
}

static bool same(const struct weir_decision *a, const struct weir_decision *b)
{
	return a->admitted == b->admitted && a->soft == b->soft && a->full == b->full &&
	       a->limit == b->limit && a->remaining == b->remaining &&
	       a->retry_after_ns == b->retry_after_ns && a->delay_ns == b->delay_ns;
}

/* In soft mode a table may report a reset_after that is too short, if the key is within its limit
 * and soft mode is not armed again yet. For a key that exceeds its limit, reset_after is exact. */
static bool same_reset(const struct pair *pair, const struct weir_decision *alone,
		       const struct weir_decision *shared)
{
	if (pair->limit.ceiling > pair->limit.capacity && alone->admitted && !alone->soft)
		return shared->reset_after_ns <= alone->reset_after_ns;
	return shared->reset_after_ns == alone->reset_after_ns;
}

static void print(const char *who, const struct weir_decision *d)
{
	print_error("%s: admitted %u soft %u full %u limit %u remaining %u retry %llu reset %llu "
		    "delay %llu\n",
		    who, d->admitted, d->soft, d->full, d->limit, d->remaining,
		    (unsigned long long)d->retry_after_ns, (unsigned long long)d->reset_after_ns,
		    (unsigned long long)d->delay_ns);
}

/* A counter stores its window's number modulo 2^32. A table drops keys that are so old. */
static bool too_old(const struct pair *pair, uint64_t before_ns)
{
	uint64_t a = before_ns / pair->limit.period_ns, b = pair->now_ns / pair->limit.period_ns;

	return pair->limit.algorithm == WEIR_SLIDING_COUNTER && (a > b ? a - b : b - a) >> 30;
}

/* Checks that the expiry in a cell is not too early, because another key may take the cell after
 * it. Returns whether the expiry has passed. */
static bool check_fresh(struct pair *pair)
{
	struct wr_key key = key_nth(table, &pair->limit, pair->number);
	struct pair copy = *pair;
	struct weir_decision d;
	struct wr_spot spot;

	if (!wr_table_find(table, key, &spot) ||
	    wr_cell_fresh_s(spot.cell) > wr_seconds(pair->now_ns))
		return false;
	copy.log.stamps = copy.stamps;
	d = ask_alone(&copy, 0);
	assert_int_equal(d.remaining, d.limit);
	return true;
}

/* Decides on private state as a table does. A counter ignores the state in an expired cell, because
 * the number of its window may have wrapped. If the state is not overwritten, it is used again when
 * the clock steps back. */
static struct weir_decision ask_like_table(struct pair *pair, int64_t cost)
{
	bool blank = check_fresh(pair) && pair->limit.algorithm == WEIR_SLIDING_COUNTER;
	struct weir_state before = pair->state;
	struct weir_decision d;

	if (blank)
		pair->state = (struct weir_state){0};
	d = ask_alone(pair, cost);
	if (blank && pair->state.s0 == 0 && pair->state.s1 == 0)
		pair->state = before;
	return d;
}

/* Whether the cell of an expired key was given to another key. If the clock steps back, the state
 * is missing. */
static bool spoiled(void)
{
	return table->tallies->expired || table->tallies->evicted || table->tallies->log_evicted;
}

static bool one_step(struct rnd *r, struct pair *pair, uint64_t seed, int i, struct tally *tally)
{
	uint64_t before_ns = pair->now_ns;
	int64_t cost = rnd_cost(r, &pair->limit);
	struct weir_decision alone, shared;

	pair->now_ns = rnd_next(r, &pair->limit, pair->now_ns, pair->back_percent);
	if (too_old(pair, before_ns))
		forget(pair);
	alone = ask_like_table(pair, cost);
	shared = take_nth(table, &pair->limit, pair->number, cost, pair->now_ns);
	if (!same(&alone, &shared) || !same_reset(pair, &alone, &shared)) {
		if (spoiled())
			return false;
		print("alone", &alone);
		print("table", &shared);
		fail_msg("WEIR_SEED=%llu step %d: algorithm %u limit %u capacity %u ceiling %u per "
			 "%llu flags %u cost %lld at %llu after %llu",
			 (unsigned long long)seed, i, pair->limit.algorithm, pair->limit.limit,
			 pair->limit.capacity, pair->limit.ceiling,
			 (unsigned long long)pair->limit.period_ns, pair->limit.flags,
			 (long long)cost, (unsigned long long)pair->now_ns,
			 (unsigned long long)before_ns);
	}
	tally->admitted += alone.admitted;
	tally->refused += !alone.admitted;
	tally->soft += alone.soft;
	return true;
}

static void one_run(struct rnd *r, uint32_t algorithm, bool soft, struct tally *tally)
{
	static struct pair pairs[KEYS];
	uint64_t seed = r->x;

	table_clear(table);
	for (int k = 0; k < KEYS; k++) {
		struct pair *pair = &pairs[k];

		pair->limit = soft ? rnd_soft_limit(r, algorithm, 60) : rnd_limit(r, algorithm, 60);
		if (soft && algorithm == WEIR_SLIDING_LOG)
			pair->limit.flags = 0;
		pair->limit.identity = (uint64_t)k;
		assert_int_equal(weir_limit_check(&pair->limit, NULL), 0);
		pair->now_ns = rnd_start(r);
		pair->back_percent = soft || rnd_below(r, 2) ? 0 : 5;
		forget(pair);
	}
	for (int i = 0; i < STEPS; i++)
		if (!one_step(r, &pairs[rnd_below(r, KEYS)], seed, i, tally)) {
			tally->spoiled++;
			return;
		}
}

static struct tally many_runs(uint32_t algorithm, bool soft)
{
	struct rnd r = {rnd_seed()};
	struct tally tally = {0};

	table = table_open("same", 2 * MIB, MIB);
	for (int i = 0; i < RUNS; i++)
		one_run(&r, algorithm, soft, &tally);
	table_drop(table);
	/* The requests must reach the limit often, otherwise the test would prove nothing. */
	assert_true(tally.admitted > RUNS * STEPS / 5 && tally.refused > RUNS * STEPS / 10);
	assert_true(tally.admitted + tally.refused > 200000);
	assert_true(tally.spoiled < RUNS / 20);
	return tally;
}

static void hard_limits(void **state)
{
	assert_int_equal(many_runs((uint32_t)(uintptr_t)*state, false).soft, 0);
}

static void soft_limits(void **state)
{
	assert_true(many_runs((uint32_t)(uintptr_t)*state, true).soft > 1000);
}

#define HARD(name, number, text)                                                                   \
	{"a table decides as " text " alone", hard_limits, NULL, NULL, (void *)(number)},
#define SOFT(number, text)                                                                         \
	{                                                                                          \
		"a table decides as " text " alone in soft mode", soft_limits, NULL, NULL,         \
			(void *)(number)                                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STEP_ALGORITHMS(HARD) SOFT(1, "token_bucket"),
		SOFT(3, "fixed_window"),
		SOFT(4, "sliding_window_counter"),
		SOFT(5, "sliding_window_log"),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
