/* The same random trace runs through lease.lua in a real Redis and through the model, and each
 * reply is compared. Holders spend, return and request units, lose replies and repeat calls, lose
 * track of their units, or call too late. There are also plain requests, limits that change, and a
 * record that is lost. */
#include "redis/lease_model.h"
#include "redis/script_test.h"
#include "rounds.h"

#define RUNS test_rounds(32, 120) /* runs for each algorithm */
#define STEPS 80
#define HOLDERS 4

struct node {
	uint64_t seq, after;
	uint32_t has;
	struct wr_redis_lease_call last; /* the holder's last call */
};

struct trace {
	struct rnd r;
	struct wr_take take; /* the limit of the counter */
	struct model model;
	struct node nodes[HOLDERS];
	uint64_t now_us;
	char key[32];
};

struct tally {
	int granted, repeated, unknown, refused, burnt;
};

static struct wr_take random_limit(struct rnd *r, uint8_t algorithm)
{
	uint64_t period_us = rnd_below(r, 2) ? rnd_magnitude(r, 100 * SECOND_US)
					     : (1 + rnd_below(r, 60)) * SECOND_US;
	struct wr_take take = {.algorithm = algorithm,
			       .limit = (uint32_t)rnd_magnitude(r, 400),
			       .period_us = period_us};

	if (algorithm == WEIR_TOKEN_BUCKET && rnd_below(r, 2))
		take.burst = (uint32_t)rnd_magnitude(r, 400);
	return take;
}

static void begin_trace(struct trace *trace, int number)
{
	snprintf(trace->key, sizeof trace->key, "lease:%u:%d:", trace->take.algorithm, number);
	trace->now_us = NOW + rnd_below(&trace->r, 2 * trace->take.period_us);
	trace->model = (struct model){.at_us = trace->now_us};
	memset(trace->nodes, 0, sizeof trace->nodes);
	for (size_t i = 0; i < HOLDERS; i++)
		trace->nodes[i].seq = rnd_below(&trace->r, 1000);
}

static void advance_time(struct trace *trace, uint64_t hint_us)
{
	uint64_t ttl_us = wr_redis_lease_ttl_us(&trace->take), period_us = trace->take.period_us;

	switch (rnd_below(&trace->r, 8)) {
	case 0:
	case 1:
		break;
	case 2:
		trace->now_us += period_us - trace->now_us % period_us - rnd_below(&trace->r, 2);
		break;
	case 3:
		trace->now_us += rnd_below(&trace->r, 2 * period_us);
		break;
	case 4: /* when a retry was announced, when a lease ends, or a moment before */
		if (hint_us && hint_us < 10 * period_us)
			trace->now_us += hint_us - rnd_below(&trace->r, 2);
		break;
	default:
		trace->now_us += rnd_below(&trace->r, ttl_us + 2);
	}
}

static struct wr_take take_some(struct trace *trace)
{
	struct wr_take take = trace->take;
	struct rnd *r = &trace->r;

	if (rnd_below(r, 3) == 0)
		return take; /* a take of cost 0 */
	take.cost = 1 + (int64_t)rnd_below(r, rnd_below(r, 4) ? 3 : take.limit + 2);
	take.times = 1 + (uint32_t)rnd_below(r, 5);
	if (rnd_below(r, 12) == 0) {
		take.times = 1;
		take.cost = -take.cost;
	}
	return take;
}

/* Returns a plausible next call of a node. */
static struct wr_redis_lease_call next_call(struct trace *trace, uint64_t holder, struct node *node)
{
	struct rnd *r = &trace->r;
	struct wr_redis_lease_call call = {.take = rnd_below(r, 2) ? trace->take : take_some(trace),
					   .holder = holder};
	uint64_t odd = rnd_below(r, 24);

	call.seq = ++node->seq;
	call.after = odd == 0 ? 0 : node->after;
	call.spent = (uint32_t)rnd_below(r, node->has + 1ull);
	if (rnd_below(r, 3) == 0)
		call.returned = (uint32_t)rnd_below(r, node->has - call.spent + 1ull);
	if (rnd_below(r, 5))
		call.wanted = (uint32_t)rnd_magnitude(r, trace->take.limit + 1ull);
	call.nodes = (uint32_t)rnd_below(r, 4);
	if (rnd_below(r, 6) == 0)
		call.ttl_us = rnd_magnitude(r, WR_LEASE_TTL_MAX_US);
	if (odd == 1 && call.seq > 2)
		call.after = rnd_below(r, call.seq);
	if (odd == 2)
		call.spent += 5;
	return call;
}

static void report_difference(const struct trace *trace, const struct wr_redis_lease_call *call,
			      int step, const struct wr_leased *model, const struct wr_leased *lua)
{
	const struct wr_take *t = &call->take;

	print_error("%s step %d at +%llu: %s limit %u burst %u period %llu, cost %lld x %u, holder "
		    "%llu seq %llu after %llu spent %u returned %u wanted %u nodes %u ttl %llu\n",
		    trace->key, step, (unsigned long long)(trace->now_us - NOW),
		    weir_algorithm_name(t->algorithm), t->limit, t->burst,
		    (unsigned long long)t->period_us, (long long)t->cost, t->times,
		    (unsigned long long)call->holder, (unsigned long long)call->seq,
		    (unsigned long long)call->after, call->spent, call->returned, call->wanted,
		    call->nodes, (unsigned long long)call->ttl_us);
	for (int i = 0; i < 2; i++) {
		const struct wr_leased *a = i ? lua : model;

		print_error("%s admitted %u taken %d remaining %u retry %lld reset %lld granted %u "
			    "ttl %llu known %d now %llu\n",
			    i ? "Lua:  " : "model:", a->taken.admitted_times, a->taken.taken,
			    a->taken.remaining, (long long)a->taken.retry_after_us,
			    (long long)a->taken.reset_after_us, a->granted,
			    (unsigned long long)a->ttl_us, a->known,
			    (unsigned long long)a->taken.now_us);
	}
	fail();
}

static bool is_same_reply(const struct wr_leased *a, const struct wr_leased *b)
{
	return a->taken.admitted == b->taken.admitted && a->taken.taken == b->taken.taken &&
	       a->taken.admitted_times == b->taken.admitted_times &&
	       a->taken.limit == b->taken.limit && a->taken.remaining == b->taken.remaining &&
	       a->taken.retry_after_us == b->taken.retry_after_us &&
	       a->taken.reset_after_us == b->taken.reset_after_us &&
	       a->taken.now_us == b->taken.now_us && a->granted == b->granted &&
	       a->ttl_us == b->ttl_us && a->known == b->known;
}

static struct wr_leased compare_call(struct script_test *test, struct trace *trace,
				     const struct wr_redis_lease_call *call, int step)
{
	struct wr_leased lua = script_lease(test, trace->key, call, trace->now_us);
	struct wr_leased model = model_call(&trace->model, call, trace->now_us);
	const struct model *m = &trace->model;

	if (!is_same_reply(&model, &lua))
		report_difference(trace, call, step, &model, &lua);
	assert_int_equal(m->granted, m->spent + m->returned + m->burnt + model_out(m, 0));
	return lua;
}

static void lose_record(struct script_test *test, struct trace *trace)
{
	struct model *m = &trace->model;

	redis_run(&test->server, "DEL %sl", trace->key);
	for (size_t i = 0; i < m->lease_count; i++)
		m->burnt += m->leases[i].out;
	m->lease_count = 0;
}

/* Changes the limit, but not the rate of a bucket. With another rate, the script computes the
 * refilled tokens since the bucket was last full, which the model does not. */
static void change_limit(struct trace *trace)
{
	uint32_t limit = (uint32_t)rnd_magnitude(&trace->r, 400);

	if (trace->take.algorithm == WEIR_TOKEN_BUCKET)
		trace->take.burst = limit;
	else
		trace->take.limit = limit;
}

/* Makes one call of a node. The reply may be lost. Then the node repeats the call, or continues as
 * if it had not been sent. */
static struct wr_leased node_calls(struct script_test *test, struct trace *trace, int step,
				   struct tally *tally)
{
	size_t i = rnd_below(&trace->r, HOLDERS);
	struct node *node = &trace->nodes[i];
	struct wr_leased leased;
	uint32_t unspent;

	if (node->last.holder && rnd_below(&trace->r, 8) == 0) {
		tally->repeated++;
		return compare_call(test, trace, &node->last, step);
	}
	node->last = next_call(trace, i + 1, node);
	leased = compare_call(test, trace, &node->last, step);
	if (rnd_below(&trace->r, 10) == 0)
		return leased; /* the reply was lost */
	unspent = node->has - node->last.spent - node->last.returned;
	node->has =
		leased.known && unspent <= node->has ? unspent + leased.granted : leased.granted;
	node->after = node->last.seq;
	tally->granted += leased.granted > 0;
	tally->unknown += !leased.known;
	return leased;
}

static void step_once(struct script_test *test, struct trace *trace, int step, struct tally *tally,
		      uint64_t *hint_us)
{
	struct wr_leased leased;

	if (rnd_below(&trace->r, 40) == 0)
		change_limit(trace);
	if (rnd_below(&trace->r, 60) == 0)
		lose_record(test, trace);
	if (rnd_below(&trace->r, 3)) {
		leased = node_calls(test, trace, step, tally);
	} else {
		struct wr_redis_lease_call call = {.take = take_some(trace)};

		leased = compare_call(test, trace, &call, step);
	}
	tally->refused += leased.taken.retry_after_us > 0;
	*hint_us = rnd_below(&trace->r, 2) ? leased.ttl_us : leased.taken.retry_after_us;
}

static void run_trace(struct script_test *test, uint8_t algorithm)
{
	struct trace trace = {.r = {rnd_seed() + algorithm}};
	struct tally tally = {0};

	for (int i = 0; i < RUNS; i++) {
		uint64_t hint_us = 0;

		trace.take = random_limit(&trace.r, algorithm);
		begin_trace(&trace, i);
		for (int step = 0; step < STEPS; step++) {
			step_once(test, &trace, step, &tally, &hint_us);
			advance_time(&trace, hint_us);
		}
		tally.burnt += trace.model.burnt > 0;
	}
	print_message("%s: granted %d, repeated %d, unknown %d, refused %d, runs that burnt %d\n",
		      weir_algorithm_name(algorithm), tally.granted, tally.repeated, tally.unknown,
		      tally.refused, tally.burnt);
	assert_in_range(tally.granted, RUNS, UINT32_MAX);
	assert_in_range(tally.repeated, RUNS, UINT32_MAX);
	assert_in_range(tally.unknown, RUNS, UINT32_MAX);
	assert_in_range(tally.refused, RUNS, UINT32_MAX);
	assert_in_range(tally.burnt, RUNS / 4, UINT32_MAX);
}

static void test_token_bucket(void **state)
{
	run_trace(*state, WEIR_TOKEN_BUCKET);
}

static void test_fixed_window(void **state)
{
	run_trace(*state, WEIR_FIXED_WINDOW);
}

static void test_sliding_counter(void **state)
{
	run_trace(*state, WEIR_SLIDING_COUNTER);
}

static void test_sliding_log(void **state)
{
	run_trace(*state, WEIR_SLIDING_LOG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_token_bucket),
		cmocka_unit_test(test_fixed_window),
		cmocka_unit_test(test_sliding_counter),
		cmocka_unit_test(test_sliding_log),
	};

	return cmocka_run_group_tests(tests, script_lease_setup, script_teardown);
}
