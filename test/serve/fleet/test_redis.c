/* Requests that ask the central store, orders of operators, and the fleet's secret, on a loop. */
#include "serve/helper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/fake_central.h"
#include "serve/decide/pending.h"
#include "serve/fleet/redis.h"

static const char RULES[] =
	"domain: rl\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: year, requests_per_unit: 9}}\n"
	"  - {key: deny, rate_limit: {unit: year, requests_per_unit: 9, on_store_failure: deny}}\n"
	"  - {key: here, rate_limit: {unit: year, requests_per_unit: 1, consistency: local}}\n"
	"  - key: queue\n"
	"    rate_limit: {unit: minute, requests_per_unit: 9, algorithm: leaky_bucket, queue_size: "
	"9}\n";

struct call {
	struct wr_pending pending;
	int verdict; /* 0: not decided so far */
};

static struct bench bench;
static const uint8_t secret[WEIR_SECRET_BYTES] = "a secret";

static int setup(void **state)
{
	(void)state;
	bench_open_redis(&bench, RULES, "redis://127.0.0.1:1");
	fake->host.secret(fake->context, secret);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bench_close(&bench);
	assert_null(fake);
	return 0;
}

static struct weir_str text(const char *bytes)
{
	return (struct weir_str){bytes, strlen(bytes)};
}

static void on_done(struct wr_pending *pending, int verdict)
{
	((struct call *)pending)->verdict = verdict;
}

static void begin(struct call *call, const char *key)
{
	struct weir_entry entry = {.key = text(key), .value = text("a")};

	memset(call, 0, sizeof *call);
	assert_int_equal(wr_pending_init(&call->pending, &bench.loop, text("rl")), 0);
	call->pending.done = on_done;
	weir_ask_add(call->pending.ask, &entry, 1, NULL, WEIR_HITS_UNSET);
}

static void ask(struct call *call, const char *key)
{
	begin(call, key);
	wr_pending_decide(&call->pending);
}

static void end(struct call *call)
{
	wr_pending_end(&call->pending);
}

static void end_all(struct call *call)
{
	end(call);
	assert_int_equal(bench.loop.refs.current->asks, 0);
}

/* ---- questions ---- */

static void test_answered_later(void **state)
{
	struct call one, two;

	(void)state;
	ask(&one, "user");
	ask(&two, "user");
	assert_int_equal(one.verdict, 0);
	fake_answer(1, 0, 0);
	fake_answer(0, WR_ANSWER_ADMITTED, 0);
	assert_int_equal(one.verdict, WEIR_ADMIT);
	assert_int_equal(two.verdict, WEIR_REFUSE);
	end(&one);
	end_all(&two);
}

static void test_answered_at_once(void **state)
{
	struct call call;

	(void)state;
	fake->at_once = true;
	ask(&call, "user");
	assert_int_equal(call.verdict, WEIR_REFUSE);
	end(&call);
	ask(&call, "here");
	assert_int_equal(call.verdict, WEIR_ADMIT);
	assert_int_equal(fake->count, 1);
	end_all(&call);
}

/* Redis does not answer: a request that this node admits alone is reported to Redis later. A
 * request that is refused for lack of an answer is not reported. */
static void test_no_answer(void **state)
{
	struct call call;

	(void)state;
	ask(&call, "user");
	fake_fail(0);
	assert_int_equal(call.verdict, WEIR_ADMIT);
	assert_int_equal(fake->messages[WR_QUESTION_REPORT], 1);
	end(&call);
	ask(&call, "deny");
	fake_fail(1);
	assert_int_equal(call.verdict, WEIR_REFUSE);
	assert_int_equal(fake->messages[WR_QUESTION_REPORT], 1);
	end_all(&call);
}

/* Redis admits a request, but the local limit refuses it, because another request was quicker: the
 * units are given back to Redis. */
static void test_given_back(void **state)
{
	struct weir_entry user = {.key = text("user"), .value = text("a")};
	struct call both, quick;

	(void)state;
	begin(&both, "here");
	weir_ask_add(both.pending.ask, &user, 1, NULL, WEIR_HITS_UNSET);
	wr_pending_decide(&both.pending);
	ask(&quick, "here");
	assert_int_equal(quick.verdict, WEIR_ADMIT);
	fake_answer(0, WR_ANSWER_ADMITTED, 0);
	assert_int_equal(both.verdict, WEIR_REFUSE);
	assert_int_equal(fake->messages[WR_QUESTION_RETURN], 1);
	end(&both);
	end_all(&quick);
}

static void test_shadow(void **state)
{
	struct call call;

	(void)state;
	bench.service.settings.shadow = true;
	ask(&call, "user");
	fake_answer(0, 0, 0);
	assert_int_equal(call.verdict, WEIR_ADMIT);
	end_all(&call);
}

/* A caller cancels its request. Before the answer of Redis, the central gives the units back. After
 * the answer, a message does. */
static void test_leaves(void **state)
{
	struct call call;

	(void)state;
	ask(&call, "user");
	wr_pending_cancel(&call.pending);
	assert_int_equal(fake->left, 1);
	end(&call);
	ask(&call, "user");
	fake_answer(1, WR_ANSWER_ADMITTED, 0);
	wr_pending_cancel(&call.pending);
	assert_int_equal(fake->messages[WR_QUESTION_RETURN], 1);
	end(&call);
	ask(&call, "user");
	end_all(&call); /* without wr_pending_cancel() */
	assert_int_equal(fake->left, 2);
	assert_int_equal(call.verdict, 0);
}

/* A request with a position in a queue in Redis waits like a request with a position in the
 * table. */
static void test_delayed(void **state)
{
	struct call call, delayed;

	(void)state;
	ask(&call, "queue");
	begin(&delayed, "queue");
	delayed.pending.report_delay = true;
	wr_pending_decide(&delayed.pending);
	fake_answer(0, WR_ANSWER_ADMITTED, 20000000);
	fake_answer(1, WR_ANSWER_ADMITTED, 20000000);
	assert_int_equal(call.verdict, 0);
	assert_int_equal(delayed.verdict, WEIR_DELAY);
	while (!call.verdict)
		uv_run(&bench.loop.uv, UV_RUN_ONCE);
	assert_int_equal(call.verdict, WEIR_ADMIT);
	end(&call);
	end_all(&delayed);
}

/* When the loop ends, questions without an answer fail. */
static void test_ends_meanwhile(void **state)
{
	struct call call;

	(void)state;
	ask(&call, "deny");
	wr_serve_redis_loop_stop(&bench.loop);
	assert_int_equal(call.verdict, WEIR_REFUSE);
	end(&call);
	ask(&call, "deny");
	assert_int_equal(call.verdict, WEIR_REFUSE);
	end_all(&call);
}

/* ---- table and secret ---- */

/* The core is replaced while a question is in flight. The question ends in the old core. The next
 * question begins in the new core, which has the secret too. */
static void test_table_moves(void **state)
{
	struct call before, after;

	(void)state;
	ask(&before, "user");
	bench_move(&bench, "two");
	ask(&after, "user");
	assert_int_equal(fake->count, 2);
	fake_answer(1, WR_ANSWER_ADMITTED, 0);
	fake_answer(0, WR_ANSWER_ADMITTED, 0);
	assert_int_equal(before.verdict, WEIR_ADMIT);
	assert_int_equal(after.verdict, WEIR_ADMIT);
	end(&before);
	end_all(&after);
}

/* After the table was replaced, leases belong to the new table, with a new owner number. */
static void test_leases_follow_the_table(void **state)
{
	uint64_t owner = fake->opts.owner;

	(void)state;
	assert_ptr_equal(fake->opts.table, wr_loop_table(&bench.loop));
	assert_int_not_equal(owner, 0);
	bench_move(&bench, "two");
	assert_ptr_equal(fake->opts.table, wr_loop_table(&bench.loop));
	assert_int_not_equal(fake->opts.owner, owner);
	assert_int_not_equal(fake->opts.owner, 0);
}

/* A loop ends only after its leases have been returned. */
static void test_leases_are_returned_first(void **state)
{
	(void)state;
	fake->leases = 2;
	wr_loop_notify(&bench.loop, WR_LOOP_DRAIN);
	bench_turn(&bench);
	assert_true(fake->shut_downs > 0);
	assert_false(bench.loop.ended);
	fake->leases = 0;
	bench_turn(&bench);
	assert_true(bench.loop.ended);
}

static void test_secret_comes_late(void **state)
{
	static const uint8_t other[WEIR_SECRET_BYTES] = "another";
	struct call call;

	(void)state;
	bench_close(&bench);
	bench_open_redis(&bench, RULES, "redis://127.0.0.1:1");
	ask(&call, "deny");
	assert_int_equal(call.verdict, WEIR_REFUSE); /* without the secret no question is sent */
	assert_int_equal(fake->count, 0);
	end(&call);
	fake->host.secret(fake->context, other);
	assert_memory_equal(wr_serve_redis_secret(bench.service.core->engine), other, sizeof other);
	ask(&call, "deny");
	assert_int_equal(fake->count, 1);
	fake_answer(0, WR_ANSWER_ADMITTED, 0);
	assert_int_equal(call.verdict, WEIR_ADMIT);
	end_all(&call);
}

static void test_first_loop_is_the_chief(void **state)
{
	(void)state;
	assert_true(fake->opts.chief);
	assert_int_equal(fake->opts.timeout_ns, 20000000);
	fake->host.nodes(fake->context, 5);
	assert_int_equal(weir_fleet_nodes(wr_loop_table(&bench.loop), NULL), 5);
	fake->host.wake_at(fake->context, 0);
	bench_turn(&bench);
	assert_int_equal(fake->ticks, 1);
}

/* ---- orders ---- */

static struct weir_entry who = {.key = {"user", 4}, .value = {"a", 1}};
static struct weir_target target = {
	.size = sizeof target, .domain = {"rl", 2}, .entries = &who, .count = 1};

static int run(enum wr_order_verb verb, uint32_t extra, uint64_t for_s)
{
	uint64_t now_ns = wr_loop_now_ns(&bench.loop);
	struct wr_order order = {.verb = verb,
				 .target = &target,
				 .extra = extra,
				 .until_ns = for_s == UINT64_MAX ? WEIR_NEVER
					     : for_s             ? now_ns + for_s * 1000000000
								 : 0};
	struct weir_error error;

	return wr_serve_order_run(&bench.loop, &order, now_ns, &error);
}

static int note(void *context, const struct weir_counter *counter)
{
	*(struct weir_counter *)context = *counter;
	return 0;
}

static struct weir_counter look(void)
{
	struct weir_counter counter = {0};

	assert_int_equal(weir_control_get(wr_loop_engine(&bench.loop), &target,
					  wr_loop_now_ns(&bench.loop), note, &counter),
			 1);
	return counter;
}

/* Passes the last published order to this node as if Redis had sent it `age_s` after the order. */
static void hear(uint64_t age_s, bool own)
{
	wr_serve_order_receive(&bench.loop, fake->published, fake->published_len,
			       age_s * 1000000000, own);
}

static void test_ban(void **state)
{
	uint64_t now_s = wr_loop_now_ns(&bench.loop) / 1000000000;
	uint8_t ban[WR_CENTRAL_MESSAGE_MAX];
	size_t len;

	(void)state;
	assert_int_equal(run(WR_ORDER_BAN, 0, 100), 1);
	assert_int_equal(fake->published_count, 1);
	len = fake->published_len;
	memcpy(ban, fake->published, len);
	assert_int_equal(run(WR_ORDER_BAN, 0, 0), 1);
	assert_int_equal(look().banned_until_ns, 0);
	wr_serve_order_receive(&bench.loop, ban, len, 40000000000, false);
	assert_in_range(look().banned_until_ns / 1000000000, now_s + 60, now_s + 70);
	hear(0, true); /* the end of the ban, which came after the ban */
	assert_int_equal(look().banned_until_ns, 0);
	wr_serve_order_receive(&bench.loop, ban, len, 100000000000,
			       false); /* the ban has expired */
	assert_int_equal(look().banned_until_ns, 0);
	assert_int_equal(run(WR_ORDER_BAN, 0, UINT64_MAX), 1);
	hear(UINT32_MAX, false);
	assert_true(look().banned_until_ns == WEIR_NEVER);
	assert_int_equal(fake->messages[WR_QUESTION_RESET], 0);
}

static void test_grant(void **state)
{
	(void)state;
	assert_int_equal(run(WR_ORDER_GRANT, 5, 100), 1);
	assert_int_equal(look().limit, 14);
	assert_int_equal(run(WR_ORDER_GRANT, 0, 0), 1);
	assert_int_equal(look().limit, 9);
	hear(0, false);
	assert_int_equal(look().limit, 9);
}

/* A reset applies to Redis, to this table and to remembered refusals. A reset of another node that
 * is received late, and this node's own reset when it comes back, have no effect. */
static void test_reset(void **state)
{
	struct call call;

	(void)state;
	bench.service.loops = &bench.loop;
	bench.service.loops_ready = 1;
	assert_int_equal(run(WR_ORDER_RESET, 0, 0), 1);
	assert_int_equal(fake->messages[WR_QUESTION_RESET], 1);
	bench_turn(&bench);
	assert_int_equal(fake->forgotten, 1);
	ask(&call, "user");
	fake_answer(0, WR_ANSWER_ADMITTED, 0); /* the table records that 7 are left */
	assert_int_equal(look().remaining, 7);
	hear(60, false);
	hear(0, true);
	assert_int_equal(look().remaining, 7);
	hear(1, false);
	assert_int_equal(look().remaining, 9);
	assert_int_equal(fake->messages[WR_QUESTION_RESET], 1); /* the other node resets Redis */
	end_all(&call);
	bench.service.loops = NULL;
	bench.service.loops_ready = 0;
}

/* An order that is cut at any length, or has any bit changed, is read within its bounds. */
static void test_damaged_orders(void **state)
{
	uint8_t *cut;

	(void)state;
	run(WR_ORDER_BAN, 0, 100);
	run(WR_ORDER_BAN, 0, 0);
	run(WR_ORDER_BAN, 0, 100);
	for (size_t len = 0; len < fake->published_len; len++) {
		cut = malloc(len ? len : 1);
		memcpy(cut, fake->published, len);
		wr_serve_order_receive(&bench.loop, cut, len, 0, false);
		free(cut);
	}
	for (size_t at = 0; at < fake->published_len; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			cut = malloc(fake->published_len);
			memcpy(cut, fake->published, fake->published_len);
			cut[at] ^= (uint8_t)(1u << bit);
			wr_serve_order_receive(&bench.loop, cut, fake->published_len, 0, false);
			free(cut);
		}
}

/* An order to which no limit of this node applies is not published. */
static void test_orders_without_a_limit(void **state)
{
	(void)state;
	who.key = text("nosuch");
	assert_int_equal(run(WR_ORDER_BAN, 0, 100), WEIR_ENOENT);
	assert_int_equal(fake->published_count, 0);
	who.key = text("user");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_answered_later),
		TEST(test_answered_at_once),
		TEST(test_no_answer),
		TEST(test_given_back),
		TEST(test_shadow),
		TEST(test_leaves),
		TEST(test_delayed),
		TEST(test_ends_meanwhile),
		TEST(test_table_moves),
		TEST(test_leases_follow_the_table),
		TEST(test_leases_are_returned_first),
		TEST(test_secret_comes_late),
		TEST(test_first_loop_is_the_chief),
		TEST(test_ban),
		TEST(test_grant),
		TEST(test_reset),
		TEST(test_damaged_orders),
		TEST(test_orders_without_a_limit),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
