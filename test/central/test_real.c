/* Tests with a real server that the scripts understand the arguments. Sockets and clocks are real.
 * The limits have a period of a year, so no result depends on the time. */
#include "live.h"

#include <stdio.h>
#include <string.h>

static struct redis_server server;
static struct live live;

static int start_server(void **state)
{
	(void)state;
	return redis_server_start(&server);
}

static int stop_server(void **state)
{
	(void)state;
	redis_server_stop(&server);
	return 0;
}

static int begin_live(void **state)
{
	(void)state;
	redis_run(&server, "FLUSHALL");
	open_live(&live, &server, 0xa, NULL);
	return 0;
}

static int end_live(void **state)
{
	(void)state;
	wr_central_free(live.rig.central);
	live.nodes = 0;
	live.secrets = 0;
	return 0;
}

static bool all_done(const struct asker *askers, int count)
{
	for (int i = 0; i < count; i++)
		if (!askers[i].done)
			return false;
	return true;
}

static int admitted(const struct asker *askers, int count)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += flags_of(&askers[i], 0) == WR_ANSWER_ADMITTED;
	return sum;
}

/* With every algorithm 10 of 25 requests are admitted, in merged calls and in single calls. */
static void test_ten_pass(void **state)
{
	static const uint8_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					     WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	(void)state;
	for (size_t k = 0; k < sizeof algorithms; k++) {
		struct item item = {.key = 100 + k,
				    .cost = 1,
				    .algorithm = algorithms[k],
				    .period_ns = YEAR_NS};
		struct asker askers[25] = {{.done = 0}};

		for (int i = 0; i < 25; i++) {
			take(&live.rig, &askers[i], &item, 1);
			if (i % 5 == 4)
				until(&live, all_done(askers, i + 1));
		}
		assert_int_equal(admitted(askers, 25), 10);
		assert_int_equal(askers[0].answers[0].remaining, 9);
		assert_int_equal(askers[9].answers[0].remaining, 0);
		assert_true(askers[10].answers[0].retry_after_ns > 0);
	}
}

/* Units can be given back with every algorithm except the leaky bucket: requests without a wait
 * have already left its queue. */
static void test_give_back(void **state)
{
	static const uint8_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					     WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	(void)state;
	for (size_t k = 0; k < sizeof algorithms; k++) {
		struct item item = {.key = 200 + k,
				    .cost = 1,
				    .algorithm = algorithms[k],
				    .period_ns = YEAR_NS};
		uint64_t before = info(&live.rig)->counts.returned;
		struct asker asker = {.done = 0};

		take(&live.rig, &asker, &item, 1);
		until(&live, asker.done);
		assert_admitted(&asker);
		item.cost = -1;
		item.decided_us = asker.answers[0].decided_us;
		send_question(&live.rig, WR_QUESTION_RETURN, &item, 1);
		until(&live, info(&live.rig)->counts.returned > before);
		item.cost = 0;
		take(&live.rig, &asker, &item, 1);
		until(&live, asker.done);
		assert_int_equal(asker.answers[0].remaining, asker.answers[0].limit);
	}
}

/* Either all limits of one key admit a request, or none takes units. */
static void test_all_or_none(void **state)
{
	struct item items[] = {
		{.key = 300, .id = "wide", .cost = 1, .limit = 100, .period_ns = YEAR_NS},
		{.key = 300, .id = "tight", .cost = 1, .limit = 1, .period_ns = YEAR_NS}};
	struct asker asker = {.done = 0};

	(void)state;
	take(&live.rig, &asker, items, 2);
	until(&live, asker.done);
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED);
	assert_int_equal(flags_of(&asker, 1), WR_ANSWER_ADMITTED);
	take(&live.rig, &asker, items, 2);
	until(&live, asker.done);
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN);
	assert_int_equal(flags_of(&asker, 1), 0);
	assert_int_equal(asker.answers[0].remaining, 99);
}

/* A report counts once and is never refused. Afterwards only the rest of the limit is granted. */
static void test_report(void **state)
{
	struct item item = {
		.key = 400, .cost = 7, .algorithm = WEIR_SLIDING_COUNTER, .period_ns = YEAR_NS};
	struct asker asker = {.done = 0};

	(void)state;
	until(&live, info(&live.rig)->any_up);
	item.decided_us = clock_ns(CLOCK_REALTIME) / 1000;
	send_question(&live.rig, WR_QUESTION_REPORT, &item, 1);
	until(&live, info(&live.rig)->counts.reported == 1);
	item.cost = 0;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_int_equal(asker.answers[0].remaining, 3);
	/* The report's sequence number is stored for a minute, in the slot of the counter. */
	assert_int_equal(redis_number(&server, "EVAL %s 0",
				      "local n = 0 for _, k in ipairs(redis.call('KEYS', '*:r:*')) "
				      "do n = n + redis.call('TTL', k) end return n") > 30,
			 1);
}

static void test_script_flush(void **state)
{
	struct item item = {.key = 500, .cost = 1, .period_ns = YEAR_NS};
	struct asker asker = {.done = 0};

	(void)state;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	redis_run(&server, "SCRIPT FLUSH");
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_admitted(&asker);
	assert_int_equal(asker.answers[0].remaining, 8);
	assert_true(info(&live.rig)->counts.again >= 1);
}

static void test_reset(void **state)
{
	struct item item = {.key = 600, .cost = 10, .period_ns = YEAR_NS};
	struct asker asker = {.done = 0};

	(void)state;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_refused(&asker);
	item.cost = 0;
	send_question(&live.rig, WR_QUESTION_RESET, &item, 1);
	item.cost = 10;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_admitted(&asker);
}

static void test_node(void **state)
{
	(void)state;
	until(&live, live.secrets == 1 && live.nodes == 1);
	assert_int_equal(redis_number(&server, "STRLEN weir:1:secret"), 384);
	redis_run(&server, "XADD weir:1:control * h somebody m hello");
	until(&live, strcmp(live.message, "hello") == 0);
	assert_int_equal(wr_central_publish(live.rig.central, "mine", 4, clock_ns(CLOCK_MONOTONIC)),
			 0);
	until(&live, redis_number(&server, "XLEN weir:1:control") == 2);
	assert_true(strlen(info(&live.rig)->shards[0].version) >= 5);
	assert_string_equal(info(&live.rig)->shards[0].policy, "noeviction");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ten_pass, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_give_back, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_all_or_none, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_report, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_script_flush, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_reset, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_node, begin_live, end_live),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
