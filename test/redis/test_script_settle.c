/* Settling and slots in take.lua. The same random trace of takes and settlements runs through take.lua
 * in a real Redis and through a table (src/store), and each decision is compared. */
#include "redis/script_test.h"
#include "rounds.h"
#include "store/returned.h"
#include "store/store.h"
#include "table/table_test.h"

#define RUNS test_rounds(60, 400) /* runs for each kind of limit */
#define STEPS 80
#define OPEN_MAX 8u
#define LOG_UNITS 60u

/* A request that was admitted and is not settled yet. */
struct open_take {
	int64_t cost;
	uint64_t charged_ns; /* in the table */
	uint64_t decided_us; /* in Redis */
	uint64_t taken_us;
	/* Of a token bucket: the tokens that were missing after the take, and trace.given. */
	uint64_t used, given;
};

struct trace {
	struct script_test *test;
	struct weir_limit limit;
	char key[32];
	uint64_t now_us;
	struct open_take open[OPEN_MAX];
	size_t open_count;
	uint32_t claims; /* number of settlements with a marker */
	/* Number of tokens that were given back to a token bucket, plus 1 for each give-back. */
	uint64_t given;
};

struct tally {
	int admitted, refused, refunded, owed, in_debt, claims, long_waits;
};

static struct weir_table *table;
static int next_key;

static uint64_t us_up(uint64_t ns)
{
	return ns == WEIR_NEVER ? WR_TAKE_NEVER : (ns + US - 1) / US;
}

static _Noreturn void report_difference(const struct trace *t, const char *step, int64_t cost,
					const struct weir_decision *c, const struct wr_taken *lua)
{
	const struct weir_limit *l = &t->limit;

	print_error(
		"%s %s %lld at %llu: %s limit %u burst %u max_debt %u flags %u period %llu us\n",
		t->key, step, (long long)cost, (unsigned long long)t->now_us,
		weir_algorithm_name((int)l->algorithm), l->limit, l->burst, l->max_debt, l->flags,
		(unsigned long long)(l->period_ns / US));
	print_error("table: admitted %d remaining %u debt %u retry %lld reset %lld\n", c->admitted,
		    c->remaining, c->debt, (long long)us_up(c->retry_after_ns),
		    (long long)us_up(c->reset_after_ns));
	print_error("Lua:   admitted %d remaining %u debt %u retry %lld reset %lld\n",
		    lua->admitted, lua->remaining, lua->debt, (long long)lua->retry_after_us,
		    (long long)lua->reset_after_us);
	fail();
	abort();
}

static bool is_same(const struct weir_decision *c, const struct wr_taken *lua)
{
	return c->admitted == lua->admitted && c->remaining == lua->remaining &&
	       c->debt == lua->debt && us_up(c->retry_after_ns) == lua->retry_after_us &&
	       us_up(c->reset_after_ns) == lua->reset_after_us;
}

/* Takes in both, and compares the decisions. */
static struct weir_decision compare_take(struct trace *t, int64_t cost, const char *step)
{
	struct wr_take take = take_of(&t->limit, cost);
	struct wr_taken lua;
	struct weir_decision c;

	take.proves = true;
	lua = script_take(t->test, t->key, take, t->now_us);
	assert_int_equal(lua.proven, cost > 0 && t->limit.algorithm == WEIR_TOKEN_BUCKET);
	assert_int_equal(lua.given, lua.proven ? t->given : 0);
	assert_int_equal(
		weir_take(table, &t->limit, t->key, strlen(t->key), cost, t->now_us * US, &c), 0);
	if (!is_same(&c, &lua))
		report_difference(t, step, cost, &c, &lua);
	assert_int_equal(c.charged_ns / US, lua.decided_us);
	if (lua.taken && t->open_count < OPEN_MAX)
		t->open[t->open_count++] = (struct open_take){
			cost,     c.charged_ns, lua.decided_us, t->now_us, wr_store_units_used(&c),
			lua.given};
	return c;
}

/* Sends the settlement together with a marker, twice. All markers of a trace have one counter, whose
 * limit rises by 3 with each settlement. The second call must change nothing. */
static void settle_with_claim(struct trace *t, struct wr_take take)
{
	struct wr_take takes[2] = {{.algorithm = WEIR_FIXED_WINDOW,
				    .mode = WR_MODE_CLAIM,
				    .limit = 3 * ++t->claims,
				    .cost = 3,
				    .window_start_us = SECOND_US,
				    .window_end_us = NOW + 200 * YEAR / US},
				   take};
	struct wr_taken taken[2];

	for (int again = 0; again < 2; again++) {
		script_send(t->test, t->key, takes, 2, 0, t->now_us);
		script_read_reply(t->test, takes, 2, taken);
		assert_int_equal(taken[0].taken, !again);
		assert_int_equal(taken[0].admitted, !again);
		assert_int_equal(taken[0].remaining, 0);
	}
}

static void settle_in_redis(struct rnd *r, struct trace *t, const struct open_take *open,
			    int64_t actual)
{
	struct wr_take take = take_of(&t->limit, actual - open->cost);

	if (actual == open->cost)
		return;
	if (actual > open->cost)
		take.mode = WR_MODE_OWE;
	else
		take.decided_us = open->decided_us;
	take.used = open->used < UINT32_MAX ? (uint32_t)open->used : UINT32_MAX;
	take.given = open->given;
	if (rnd_below(r, 2))
		settle_with_claim(t, take);
	else
		assert_true(script_take(t->test, t->key, take, t->now_us).admitted);
}

static int64_t random_actual(struct rnd *r, const struct trace *t, int64_t cost)
{
	switch (rnd_below(r, 6)) {
	case 0:
		return 0;
	case 1:
		return cost + (int64_t)rnd_magnitude(r, 2 * (uint64_t)t->limit.capacity + 1);
	case 2:
		return cost + 1;
	case 3:
		return rnd_below(r, 40) ? cost : INT64_MAX;
	default:
		return (int64_t)rnd_below(r, (uint64_t)cost + 1);
	}
}

/* Settles one of the open takes in both. The comparison follows with the next look. */
static void settle_one(struct rnd *r, struct trace *t, struct tally *tally)
{
	size_t i = rnd_below(r, t->open_count);
	struct open_take open = t->open[i];
	int64_t actual = random_actual(r, t, open.cost);
	struct wr_key key = wr_hash_key(table->secret, t->key, strlen(t->key), t->limit.checked);
	uint64_t since = t->given - open.given, returned, owed;
	struct wr_store_taken taken;
	struct weir_decision before, c;

	t->open[i] = t->open[--t->open_count];
	weir_take(table, &t->limit, t->key, strlen(t->key), 0, t->now_us * US, &before);
	settle_in_redis(r, t, &open, actual);
	/* The number of give-backs since the take is that of the script, not that of the table. */
	taken = (struct wr_store_taken){.charged_ns = open.charged_ns,
					.used = open.used > since ? open.used - since : 0,
					.given = wr_returned_read(table, key)};
	wr_store_settle(table, &t->limit, key, open.cost, actual, &taken, t->now_us * US, &returned,
			&owed, &c);
	if (actual < open.cost && wr_store_units_used(&before) > 0)
		t->given += returned + 1;
	tally->refunded += actual < open.cost;
	tally->owed += actual > open.cost;
	tally->in_debt += c.debt > 0;
}

static struct weir_limit random_limit(struct rnd *r, uint32_t algorithm)
{
	struct weir_limit l;

	do {
		l = rnd_limit(r, algorithm, LOG_UNITS);
		l.period_ns = (l.period_ns + US - 1) / US * US;
		if (rnd_below(r, 3) == 0)
			l.max_debt = 1 + (uint32_t)rnd_magnitude(r, algorithm == WEIR_SLIDING_LOG
									    ? LOG_UNITS
									    : UINT32_MAX - 1);
		else if (rnd_below(r, 4) == 0)
			l.flags |= WEIR_NO_DEBT;
	} while (l.limit == 0 || l.period_ns < MS || l.period_ns > YEAR ||
		 weir_limit_check(&l, NULL));
	return l;
}

/* Advances the time. It never steps back: units of a window that is in the future are given back by
 * the table, but not by Redis. It does not advance so far that the number of a window is ambiguous,
 * because Redis stores this number modulo 9 · 10^8. */
static void advance(struct rnd *r, struct trace *t, uint64_t retry_us)
{
	uint64_t by_us = rnd_next(r, &t->limit, T0, 0) / US - NOW;

	if (retry_us && retry_us != WR_TAKE_NEVER && rnd_below(r, 3) == 0)
		t->now_us += retry_us - rnd_below(r, 2);
	else if (by_us < 3 * YEAR / US && by_us / (t->limit.period_ns / US) < 400000)
		t->now_us += by_us;
}

static void run_trace(struct script_test *test, uint32_t algorithm)
{
	struct rnd r = {rnd_seed() + algorithm};
	struct tally tally = {0};

	for (int i = 0; i < RUNS; i++) {
		struct trace t = {.test = test,
				  .limit = random_limit(&r, algorithm),
				  .now_us = NOW + rnd_below(&r, 100 * MINUTE_US)};
		uint64_t end_us = t.now_us + 50 * YEAR / US;

		snprintf(t.key, sizeof t.key, "settle:%d:", next_key++);
		for (int at = 0; at < STEPS && t.now_us < end_us; at++) {
			struct weir_decision d;

			if (t.open_count && rnd_below(&r, 2)) {
				settle_one(&r, &t, &tally);
				d = compare_take(&t, 0, "look after settling");
			} else {
				int64_t cost = rnd_cost(&r, &t.limit);

				d = compare_take(&t, cost < 0 ? 1 : cost, "take");
				tally.admitted += d.admitted;
				tally.refused += !d.admitted;
			}
			advance(&r, &t, us_up(d.retry_after_ns));
		}
		tally.claims += (int)t.claims;
		redis_run(&test->server, "FLUSHALL");
	}
	assert_true(tally.admitted > RUNS && tally.refused > RUNS && tally.claims > RUNS);
	assert_true(tally.refunded > RUNS && tally.owed > RUNS && tally.in_debt > RUNS);
}

static void test_token_trace(void **state)
{
	run_trace(*state, WEIR_TOKEN_BUCKET);
}

static void test_fixed_trace(void **state)
{
	run_trace(*state, WEIR_FIXED_WINDOW);
}

static void test_counter_trace(void **state)
{
	run_trace(*state, WEIR_SLIDING_COUNTER);
}

static void test_log_trace(void **state)
{
	run_trace(*state, WEIR_SLIDING_LOG);
}

/* ---- tokens that have flowed in since the take ---- */

/* A request of run_ideal that is not settled yet. */
struct reserved {
	struct wr_take back; /* its give-back */
	uint64_t taken_us;
};

/* Reserves `cost` tokens in Redis, of which `actual` will be used. The table is an ideal bucket that
 * knows this number at once. Returns whether the request was admitted. */
static bool reserve_tokens(struct trace *t, int64_t cost, int64_t actual, struct reserved *made)
{
	struct wr_take take = take_of(&t->limit, cost);
	struct weir_decision ideal;
	struct wr_taken lua;

	take.proves = true;
	lua = script_take(t->test, t->key, take, t->now_us);
	if (!lua.taken)
		return false;
	weir_take(table, &t->limit, t->key, strlen(t->key), actual, t->now_us * US, &ideal);
	assert_true(ideal.admitted);
	take.cost = actual - cost;
	take.decided_us = lua.decided_us;
	take.used = lua.limit - lua.remaining + lua.debt;
	take.given = lua.given;
	*made = (struct reserved){take, t->now_us};
	return true;
}

static uint32_t left_in_redis(struct trace *t)
{
	return script_take(t->test, t->key, take_of(&t->limit, 0), t->now_us).remaining;
}

static uint32_t left_ideally(struct trace *t)
{
	struct weir_decision ideal;

	weir_take(table, &t->limit, t->key, strlen(t->key), 0, t->now_us * US, &ideal);
	return ideal.remaining;
}

/* Gives back the unused tokens of a request. Returns whether tokens came back that a give-back without
 * a proof would not have given back. */
static bool give_tokens_back(struct trace *t, const struct reserved *made)
{
	uint32_t before = left_in_redis(t);
	uint64_t refilled =
		(t->now_us - made->taken_us) * t->limit.limit / (t->limit.period_ns / US);

	if (made->back.cost == 0)
		return false;
	script_take(t->test, t->key, made->back, t->now_us);
	return left_in_redis(t) > before && refilled >= (uint64_t)-made->back.cost;
}

static int run_ideal(struct rnd *r, struct trace *t)
{
	struct reserved open[OPEN_MAX];
	size_t count = 0;
	int more = 0;

	for (int at = 0; at < STEPS; at++) {
		int64_t cost = 1 + (int64_t)rnd_below(r, t->limit.capacity / 3 + 1);

		if (count == OPEN_MAX || (count && rnd_below(r, 2))) {
			size_t i = rnd_below(r, count);

			more += give_tokens_back(t, &open[i]);
			open[i] = open[--count];
		} else if (reserve_tokens(t, cost, (int64_t)rnd_below(r, (uint64_t)cost + 1),
					  &open[count])) {
			count++;
		}
		/* Redis never has more tokens than the ideal bucket. */
		if (left_in_redis(t) > left_ideally(t))
			fail_msg("%s: %u tokens are left, and %u in the ideal bucket", t->key,
				 left_in_redis(t), left_ideally(t));
		t->now_us += rnd_below(r, 3) * rnd_below(r, t->limit.period_ns / US / 4 + 1);
	}
	return more;
}

static void test_token_ideal(void **state)
{
	struct rnd r = {rnd_seed()};
	int more = 0;

	for (int i = 0; i < RUNS; i++) {
		struct trace t = {.test = *state, .now_us = NOW};

		t.limit = LIMIT(.algorithm = WEIR_TOKEN_BUCKET,
				.limit = 1 + (uint32_t)rnd_below(&r, 100),
				.burst = 1 + (uint32_t)rnd_below(&r, 400), .period_ns = MINUTE);
		snprintf(t.key, sizeof t.key, "ideal:%d:", next_key++);
		more += run_ideal(&r, &t);
		redis_run(&t.test->server, "FLUSHALL");
	}
	assert_true(more > RUNS);
}

/* 100 requests reserve 100 tokens each, and use none. 90 are settled at once. Then the bucket fills
 * up, and is emptied again. The other ten requests get nothing back: in an ideal bucket, their tokens
 * would have overflowed. */
static void test_give_backs_of_others_count(void **state)
{
	struct trace t = {.test = *state, .now_us = NOW, .key = "others:"};
	struct reserved open[100];

	t.limit = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 100, .burst = 10000,
			.period_ns = SECOND);
	for (int i = 0; i < 100; i++)
		assert_true(reserve_tokens(&t, 100, 0, &open[i]));
	assert_int_equal(left_in_redis(&t), 0);
	for (int i = 0; i < 90; i++)
		give_tokens_back(&t, &open[i]);
	assert_int_equal(left_in_redis(&t), 9000);
	t.now_us += 10 * SECOND_US;
	assert_int_equal(left_in_redis(&t), 10000);
	assert_true(script_take(t.test, t.key, take_of(&t.limit, 10000), t.now_us).taken);
	for (int i = 90; i < 100; i++)
		give_tokens_back(&t, &open[i]);
	assert_int_equal(left_in_redis(&t), 0);
}

/* A calendar window that has ended is left out. The other limits are settled. */
static void test_claim_without_window(void **state)
{
	struct weir_limit limit =
		LIMIT(.algorithm = WEIR_FIXED_WINDOW, .limit = 10, .period_ns = MINUTE);
	struct wr_take takes[3] = {take_of(&limit, 3), take_of(&limit, -4), take_of(&limit, 6)};
	struct wr_taken taken[3];

	takes[0].mode = WR_MODE_CLAIM;
	takes[0].limit = 3;
	takes[0].window_start_us = SECOND_US;
	takes[0].window_end_us = 2 * NOW;
	takes[1].window_start_us = NOW - 2 * MINUTE_US;
	takes[1].window_end_us = NOW - MINUTE_US;
	takes[2].mode = WR_MODE_OWE;
	script_send(*state, "outside:", takes, 3, 0, NOW);
	script_read_reply(*state, takes, 3, taken);
	assert_true(taken[0].taken);
	assert_true(taken[1].outside_window);
	assert_int_equal(taken[2].remaining, 4);
	/* The marker's own window has ended: nothing is done. */
	takes[0].window_end_us = NOW - MINUTE_US;
	script_send(*state, "ended:", takes, 3, 0, NOW);
	script_read_reply(*state, takes, 3, taken);
	assert_true(taken[0].outside_window);
	assert_int_equal(taken[2].remaining, 10);
}

/* ---- slots ---- */

#define SLOT_STEPS 120

static struct weir_limit slots_of(uint32_t limit, uint64_t max_hold_us)
{
	return LIMIT(.algorithm = WEIR_CONCURRENT, .limit = limit, .period_ns = max_hold_us * US);
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Returns the wait that algo/slots.h describes, in whole µs. t->open are the slots that were taken. */
static uint64_t model_wait(const struct trace *t, uint64_t mean_us)
{
	uint64_t shortest_us = UINT64_MAX, hold_us = t->limit.period_ns / US;

	for (size_t i = 0; i < t->open_count; i++) {
		uint64_t taken_us = t->open[i].decided_us;
		uint64_t age_us = t->now_us > taken_us ? t->now_us - taken_us : 0;
		uint64_t us = mean_us > age_us ? mean_us - age_us : mean_us;

		if (age_us >= hold_us)
			continue;
		us = us < hold_us - age_us ? us : hold_us - age_us;
		shortest_us = us < shortest_us ? us : shortest_us;
	}
	return shortest_us > SECOND_US ? shortest_us : SECOND_US;
}

/* The times of a table are exact to the number of slots, in ns, and a table stores only 11 bits of
 * the average holding time. So the wait in Redis is compared with the model, and the wait in the
 * table is only checked to be a whole second or more. */
static void compare_slots(struct trace *t, int64_t cost, uint64_t mean_us, struct tally *tally)
{
	uint64_t wait_us = model_wait(t, mean_us);
	struct wr_taken lua = script_take(t->test, t->key, take_of(&t->limit, cost), t->now_us);
	struct weir_decision c;

	weir_take(table, &t->limit, t->key, strlen(t->key), cost, t->now_us * US, &c);
	if (c.admitted != lua.admitted || c.remaining != lua.remaining || lua.debt ||
	    apart(us_up(c.reset_after_ns), lua.reset_after_us) > OPEN_MAX ||
	    lua.retry_after_us != (lua.admitted ? 0 : wait_us) ||
	    (!c.admitted && c.retry_after_ns < SECOND))
		report_difference(t, "slot", cost, &c, &lua);
	tally->admitted += c.admitted;
	tally->refused += !c.admitted;
	tally->long_waits += lua.retry_after_us > SECOND_US;
	if (lua.taken)
		t->open[t->open_count++] =
			(struct open_take){cost, c.charged_ns, lua.decided_us, t->now_us, 0, 0};
}

static void free_slot(struct trace *t, const struct open_take *open)
{
	struct wr_take back = take_of(&t->limit, -open->cost);
	struct weir_decision taken = {.charged_ns = open->charged_ns}, after;

	back.decided_us = open->decided_us;
	script_take(t->test, t->key, back, t->now_us);
	assert_int_equal(weir_settle(table, &t->limit, t->key, strlen(t->key), &taken, open->cost,
				     0, t->now_us * US, &after),
			 0);
}

/* Forgets the slots that are free because max_hold has passed. Redis has removed them if a slot was
 * taken since, and then it does not know how long they were held. */
static void drop_expired(struct trace *t)
{
	for (size_t i = 0; i < t->open_count;)
		if (t->now_us - t->open[i].taken_us >= t->limit.period_ns / US)
			t->open[i] = t->open[--t->open_count];
		else
			i++;
}

static void run_slots(struct rnd *r, struct trace *t, struct tally *tally)
{
	uint64_t mean_us = 0;

	for (int at = 0; at < SLOT_STEPS; at++) {
		uint64_t dice = rnd_below(r, 8);

		drop_expired(t);
		if (dice < 3 && t->open_count) {
			size_t i = rnd_below(r, t->open_count);
			struct open_take open = t->open[i];
			uint64_t held_us =
				t->now_us > open.decided_us ? t->now_us - open.decided_us : 1;

			free_slot(t, &open);
			if (rnd_below(r, 4) == 0) /* the second time does nothing */
				free_slot(t, &open);
			mean_us = mean_us ? mean_us - mean_us / 8 + held_us / 8 : held_us;
			t->open[i] = t->open[--t->open_count];
			tally->refunded++;
			compare_slots(t, 0, mean_us, tally);
		} else if (dice < 7) {
			compare_slots(t, 1 + (int64_t)rnd_below(r, 3), mean_us, tally);
		}
		t->now_us += rnd_below(r, 3) * rnd_below(r, t->limit.period_ns / US / 8 + 1);
	}
}

static void test_slots_trace(void **state)
{
	struct rnd r = {rnd_seed()};
	struct tally tally = {0};

	for (int i = 0; i < RUNS; i++) {
		struct trace t = {.test = *state, .now_us = NOW};

		t.limit = slots_of(1 + (uint32_t)rnd_below(&r, OPEN_MAX),
				   1 + rnd_below(&r, 200 * SECOND_US));
		snprintf(t.key, sizeof t.key, "slots:%d:", next_key++);
		run_slots(&r, &t, &tally);
		redis_run(&t.test->server, "FLUSHALL");
	}
	assert_true(tally.admitted > 10 * RUNS && tally.refused > 5 * RUNS);
	assert_true(tally.refunded > 5 * RUNS && tally.long_waits > RUNS);
}

static int setup(void **state)
{
	folder_make(state);
	table = table_open("settle", 8 * MIB, 4 * MIB);
	return script_setup(state);
}

static int teardown(void **state)
{
	int rc = script_teardown(state);

	table_drop(table);
	folder_drop(state);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_token_trace),
		cmocka_unit_test(test_fixed_trace),
		cmocka_unit_test(test_counter_trace),
		cmocka_unit_test(test_log_trace),
		cmocka_unit_test(test_token_ideal),
		cmocka_unit_test(test_give_backs_of_others_count),
		cmocka_unit_test(test_claim_without_window),
		cmocka_unit_test(test_slots_trace),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
