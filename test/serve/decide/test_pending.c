/* Tests decisions that take time: shadow mode, delays of leaky buckets, cancellation, a resized
 * table. */
#include "serve/helper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/decide/pending.h"

/* Rules with one request a minute, so that no delay ends while the test runs. */
static const char RULES[] = "domain: rl\n"
			    "descriptors:\n"
			    "  - key: user\n"
			    "    rate_limit: {unit: minute, requests_per_unit: 1, algorithm: "
			    "leaky_bucket, queue_size: 100}\n"
			    "  - key: quick\n"
			    "    rate_limit: {unit: second, requests_per_unit: 100, algorithm: "
			    "leaky_bucket, queue_size: 10}\n"
			    "  - key: other\n"
			    "    rate_limit: {unit: year, requests_per_unit: 1, algorithm: "
			    "fixed_window}\n";

#define MINUTE_NS 60000000000ull

struct call {
	struct wr_pending pending;
	int verdict; /* 0: `done` has not been called */
	int order;
};

static struct bench bench;
static int orders;

static int setup(void **state)
{
	(void)state;
	bench_open(&bench, RULES);
	orders = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bench_close(&bench);
	return 0;
}

static void on_done(struct wr_pending *pending, int verdict)
{
	struct call *call = (struct call *)pending;

	call->verdict = verdict;
	call->order = ++orders;
}

static struct weir_str text(const char *bytes)
{
	return (struct weir_str){bytes, strlen(bytes)};
}

static void ask_as(struct call *call, const char *key, const char *value, uint64_t deadline_ns)
{
	struct weir_entry entry = {.key = text(key), .value = text(value)};

	memset(call, 0, sizeof *call);
	assert_int_equal(wr_pending_init(&call->pending, &bench.loop, text("rl")), 0);
	call->pending.done = on_done;
	call->pending.deadline_ns = deadline_ns;
	weir_ask_add(call->pending.ask, &entry, 1, NULL, WEIR_HITS_UNSET);
	wr_pending_decide(&call->pending);
}

static void ask(struct call *call, const char *key)
{
	ask_as(call, key, "a", 0);
}

static void end(struct call *call)
{
	wr_pending_end(&call->pending);
}

static void test_decided_at_once(void **state)
{
	struct call first, second;

	(void)state;
	ask(&first, "other");
	ask(&second, "other");
	assert_int_equal(first.verdict, WEIR_ADMIT);
	assert_int_equal(second.verdict, WEIR_REFUSE);
	end(&first);
	end(&second);
	assert_int_equal(bench.loop.refs.current->asks, 0);
}

static void test_shadow_lets_pass(void **state)
{
	struct call first, second, third;

	(void)state;
	bench.service.settings.shadow = true;
	ask(&first, "other");
	ask(&second, "other");
	assert_int_equal(second.verdict, WEIR_ADMIT);
	ask(&third, "user");
	end(&third);
	ask(&third, "user"); /* not admitted at once without shadow mode */
	assert_int_equal(third.verdict, WEIR_ADMIT);
	end(&first);
	end(&second);
	end(&third);
}

/* Makes eleven requests of one user within 10 ms, which is the delay of the second request. If the
 * machine was too slow, tries again with another user. */
static void ask_eleven(struct call *calls)
{
	for (int user = 0;; user++) {
		uint64_t begun_ns = wr_loop_now_ns(&bench.loop);
		char name[16];

		snprintf(name, sizeof name, "%d", user);
		orders = 0;
		for (int i = 0; i < 11; i++)
			ask_as(&calls[i], "quick", name, 0);
		if (wr_loop_now_ns(&bench.loop) - begun_ns < 10000000)
			return;
		for (int i = 0; i < 11; i++)
			end(&calls[i]);
	}
}

/* Ten delayed requests, which are due 10 ms apart, are admitted in order and not before they are
 * due. */
static void test_waits_its_turn(void **state)
{
	struct call calls[11];

	(void)state;
	ask_eleven(calls);
	assert_int_equal(calls[0].verdict, WEIR_ADMIT);
	assert_int_equal(calls[1].verdict, 0);
	while (calls[10].verdict == 0)
		uv_run(&bench.loop.uv, UV_RUN_ONCE);
	for (int i = 0; i < 11; i++) {
		struct weir_result result = {.size = sizeof result};

		assert_int_equal(calls[i].verdict, WEIR_ADMIT);
		assert_int_equal(calls[i].order, i + 1);
		weir_ask_result(calls[i].pending.ask, &result);
		assert_int_equal(result.verdict, i ? WEIR_DELAY : WEIR_ADMIT);
		assert_true(wr_loop_now_ns(&bench.loop) >= calls[i].pending.due_ns);
		end(&calls[i]);
	}
}

static void test_deadline_before_its_turn(void **state)
{
	struct call first, late, next;
	uint64_t now_ns = wr_loop_now_ns(&bench.loop);

	(void)state;
	ask(&first, "user");
	ask_as(&late, "user", "a", now_ns + MINUTE_NS / 2);
	assert_int_equal(late.verdict, WEIR_DELAY);
	ask(&next, "user"); /* gets the position that was given back */
	assert_int_equal(next.verdict, 0);
	assert_true(next.pending.due_ns < now_ns + MINUTE_NS + MINUTE_NS / 2);
	end(&first);
	end(&late);
	end(&next);
}

/* The third of five requests leaves. The requests behind it move up by one position, and the last
 * position is free. */
static void test_queue_moves_up(void **state)
{
	struct call first, calls[5], next;
	uint64_t due_ns[5];

	(void)state;
	ask(&first, "user");
	for (int i = 0; i < 5; i++) {
		ask(&calls[i], "user");
		due_ns[i] = calls[i].pending.due_ns;
		assert_true(i == 0 || due_ns[i] == due_ns[i - 1] + MINUTE_NS);
	}
	wr_pending_cancel(&calls[2].pending);
	end(&calls[2]);
	assert_int_equal(bench.loop.waiting.heap.count, 4);
	assert_true(calls[0].pending.due_ns == due_ns[0]);
	assert_true(calls[1].pending.due_ns == due_ns[1]);
	assert_true(calls[3].pending.due_ns == due_ns[2]);
	assert_true(calls[4].pending.due_ns == due_ns[3]);
	assert_ptr_equal(wr_heap_first(&bench.loop.waiting.heap), &calls[0].pending.heap_node);
	ask(&next, "user");
	assert_true(next.pending.due_ns == due_ns[4]);
	wr_pending_cancel(&calls[0].pending); /* the first request in the queue leaves */
	assert_true(calls[1].pending.due_ns == due_ns[0]);
	assert_true(next.pending.due_ns == due_ns[3]);
	assert_int_equal(calls[0].verdict, 0);
	end(&calls[0]);
	end(&calls[1]);
	end(&calls[3]);
	end(&calls[4]);
	end(&next);
	end(&first);
	assert_int_equal(bench.loop.waiting.heap.count, 0);
}

static void check_heap(void)
{
	const struct wr_heap *heap = &bench.loop.waiting.heap;

	for (size_t i = 1; i < heap->count; i++)
		assert_false(heap->before(heap->nodes[i], heap->nodes[(i + 1) / 2 - 1]));
}

/* Fifty requests of each of two users leave in a mixed order. The remaining requests of each user
 * are still due one minute apart. */
static void test_many_leave(void **state)
{
	static struct call first[2], calls[100];
	static const char *const users[] = {"a", "b"};
	uint64_t due_ns[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		ask_as(&first[i], "user", users[i], 0);
	for (int i = 0; i < 100; i++)
		ask_as(&calls[i], "user", users[i % 2], 0);
	for (int i = 0; i < 2; i++)
		due_ns[i] = calls[i].pending.due_ns;
	for (int i = 0; i < 100; i++) {
		struct call *call = &calls[i * 37 % 100];
		uint64_t position[2] = {0};

		wr_pending_cancel(&call->pending);
		end(call);
		for (int k = 0; k < 100; k++)
			if (calls[k].pending.ask)
				assert_true(calls[k].pending.due_ns ==
					    due_ns[k % 2] + position[k % 2]++ * MINUTE_NS);
		assert_int_equal(position[0] + position[1], 99 - i);
		check_heap();
	}
	for (int i = 0; i < 2; i++)
		end(&first[i]);
}

/* After a resize, a request in flight ends in the old table, and the next request is decided in the
 * new table. */
static void test_table_moved(void **state)
{
	struct call first, waits, fresh;
	struct wr_core_ref *ref;

	(void)state;
	ask(&first, "user");
	ask(&waits, "user");
	ref = waits.pending.ref;
	bench_move(&bench, "two");
	assert_ptr_not_equal(bench.loop.refs.current, ref);
	ask(&fresh, "user");
	assert_int_equal(fresh.verdict, WEIR_ADMIT); /* the new table is empty */
	assert_int_equal(waits.verdict, 0);
	assert_int_equal(ref->asks, 2);
	end(&first);
	wr_pending_cancel(&waits.pending);
	end(&waits); /* frees the old table; AddressSanitizer checks that */
	end(&fresh);
}

static void test_bound_on_waiting(void **state)
{
	static struct call calls[WR_WAITING_MAX + 2];

	(void)state;
	for (unsigned i = 0; i < WR_WAITING_MAX + 2; i++) {
		struct weir_entry entry = {.key = text("user")};
		char name[16];

		/* each user makes two requests, and the second request waits */
		snprintf(name, sizeof name, "%u", i);
		entry.value = text(name);
		for (int twice = 0; twice < 2; twice++) {
			if (twice)
				end(&calls[i]);
			assert_int_equal(
				wr_pending_init(&calls[i].pending, &bench.loop, text("rl")), 0);
			calls[i].verdict = 0;
			calls[i].pending.done = on_done;
			weir_ask_add(calls[i].pending.ask, &entry, 1, NULL, WEIR_HITS_UNSET);
			wr_pending_decide(&calls[i].pending);
		}
	}
	assert_int_equal(bench.loop.waiting.heap.count, WR_WAITING_MAX);
	assert_int_equal(calls[WR_WAITING_MAX - 1].verdict, 0);
	assert_int_equal(calls[WR_WAITING_MAX].verdict, WEIR_DELAY);
	assert_int_equal(calls[WR_WAITING_MAX + 1].verdict, WEIR_DELAY);
	for (unsigned i = 0; i < WR_WAITING_MAX + 2; i++)
		end(&calls[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_decided_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shadow_lets_pass, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_its_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadline_before_its_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_queue_moves_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_table_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bound_on_waiting, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
