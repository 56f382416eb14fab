/* Exchange of counters between nodes: checks the calls to Redis, their times, and the sums that are
 * stored in the table. The test plays Redis. */
#include "exchange_rig.h"

static void test_used_counters_are_exchanged(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot;

	(void)state;
	pass_time(rig, 3 * SYNC);
	assert_null(next_command(peer));
	slot = use_counter(rig, 1, 5);
	use_counter(rig, 1, -2);
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW, 5, 2, 0, ""));
	assert_null(next_command(peer));
	reply(peer, sums(30, 1, 8, 2));
	run_turn(rig);
	assert_int_equal(charged_units(rig, slot), 29);
	assert_true(wr_store_exchange_fresh(table, slot, rig->mono_ns));
	/* A counter that was not used is not sent. */
	pass_time(rig, 5 * SYNC);
	assert_null(next_command(peer));
	use_counter(rig, 1, 1);
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW, 6, 2, 0, ""));
	reply(peer, sums(33, 1, 8, 2));
	run_turn(rig);
	assert_int_equal(charged_units(rig, slot), 32);
	assert_int_equal(info(rig)->counts.exchanges, 2);
	/* The node admitted 5 units between two rounds, which are 100 ms apart. There are two other
	 * nodes and no delay. */
	assert_int_equal(info(rig)->overshoot_ppm, 2 * (2 * 5) * 10000);
	free_slots(rig);
}

static void test_next_windows(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot = use_counter(rig, 1, 5);

	(void)state;
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW, 5, 0, 0, ""));
	reply(peer, sums(10, 0, 0, 1));
	pass_time(rig, MINUTE);
	use_counter(rig, 1, 1);
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW + 1, 1, 0, 5, ""));
	reply(peer, sums(2, 0, 15, 1));
	run_turn(rig);
	assert_int_equal(charged_units(rig, slot), 2);
	free_slots(rig);
}

/* A call that was not answered is repeated with the current numbers. */
static void test_lost_answers(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot = use_counter(rig, 1, 5);

	(void)state;
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW, 5, 0, 0, ""));
	use_counter(rig, 1, 1);
	pass_time(rig, 2 * SYNC); /* only one call of a counter is in flight */
	assert_null(next_command(peer));
	cut_peer(peer, "gone");
	pass_time(rig, SECOND / 2);
	peer = peer_at(rig, 6379);
	assert_exchange_args(peer, "-", state_text(WINDOW, 6, 0, 0, ""));
	assert_false(wr_store_exchange_fresh(table, slot, rig->mono_ns));
	reply(peer, sums(7, 0, 0, 1));
	run_turn(rig);
	assert_int_equal(charged_units(rig, slot), 7);
	assert_true(wr_store_exchange_fresh(table, slot, rig->mono_ns));
	assert_int_equal(info(rig)->counts.exchanges_failed, 1);
	/* After an error reply the call is repeated as well. */
	use_counter(rig, 1, 1);
	pass_time(rig, SYNC);
	assert_non_null(next_command(peer));
	reply(peer, "-OOM command not allowed\r\n");
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW, 7, 0, 0, ""));
	reply(peer, "+OK\r\n");
	pass_time(rig, SYNC);
	assert_exchange_args(peer, "-", state_text(WINDOW, 7, 0, 0, ""));
	free_slots(rig);
}

static void test_redis_unavailable(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));

	(void)state;
	use_counter(rig, 1, 5);
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer_at(rig, 6379), "gone");
	pass_time(rig, SECOND);
	assert_false(wr_store_exchange_fresh(table, claim(rig, 1), rig->mono_ns));
	rig_trouble(rig, 6379)->refuses = false;
	for (int i = 0; i < 30 && !peer_at(rig, 6379); i++)
		pass_time(rig, SYNC);
	pass_time(rig, 2 * SYNC);
	assert_exchange_args(peer_at(rig, 6379), "-", state_text(WINDOW, 5, 0, 0, ""));
	free_slots(rig);
}

/* At most 1024 calls are in flight. The other counters are sent when calls have been answered. */
static void test_many(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int calls = 0, used = 0;

	(void)state;
	for (uint64_t key = 1; used < 1500; key++)
		used += use_counter(rig, key * 0x9e3779b97f4a7c15u, 1) >= 0;
	pass_time(rig, SYNC);
	while (next_command(peer))
		calls++;
	assert_int_equal(calls, WR_EXCHANGES_MAX);
	for (int i = 0; i < calls; i++)
		reply(peer, sums(0, 0, 0, 0));
	run_turn(rig);
	while (next_command(peer))
		calls++;
	assert_int_equal(calls, 1500);
	for (int i = WR_EXCHANGES_MAX; i < calls; i++)
		reply(peer, sums(0, 0, 0, 0));
	pass_time(rig, 2 * SYNC);
	assert_null(next_command(peer));
	assert_int_equal(info(rig)->counts.exchanges, 1500);
	free_slots(rig);
}

/* The table is replaced while a call is in flight. */
static void test_another_table(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot = use_counter(rig, 1, 5);

	(void)state;
	pass_time(rig, SYNC);
	assert_non_null(next_command(peer));
	wr_central_set_table(rig->central, table, OWNER + 2);
	wr_store_exchange_leave(table, OWNER);
	pass_time(rig, 2 * SYNC); /* the new owner id is written into the table in the next round */
	reply(peer, sums(50, 0, 0, 1));
	run_turn(rig);
	assert_int_equal(charged_units(rig, slot), 0);
	free_slots(rig);
}

static void test_only_the_chief_exchanges(void **state)
{
	struct wr_central_opts opts = *node_opts(NULL);
	struct rig *rig;

	(void)state;
	opts.chief = false;
	rig = rig_new(URL, &opts);
	use_counter(rig, 1, 5);
	pass_time(rig, 5 * SYNC);
	assert_null(next_command(peer_at(rig, 6379)));
	free_slots(rig);
}

static void test_shutdown(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer;

	(void)state;
	pass_time(rig, SYNC);
	assert_int_equal(wr_central_shut_down(rig->central, rig->now_ns, rig->mono_ns), 0);
	free_slots(rig);
	rig = rig_new(URL, node_opts(NULL));
	peer = peer_at(rig, 6379);
	pass_time(rig, SYNC);
	use_counter(rig, 1, 5);
	assert_int_equal(wr_central_shut_down(rig->central, rig->now_ns, rig->mono_ns), 1);
	run_turn(rig);
	assert_exchange_args(peer, "-", state_text(WINDOW, 5, 0, 0, ""));
	reply(peer, sums(0, 0, 0, 0));
	run_turn(rig);
	assert_int_equal(wr_central_shut_down(rig->central, rig->now_ns, rig->mono_ns), 0);
	/* The shutdown waits for at most one second. */
	use_counter(rig, 1, 5);
	pass_time(rig, SYNC);
	assert_int_equal(wr_central_shut_down(rig->central, rig->now_ns, rig->mono_ns), 1);
	rig->mono_ns += SECOND;
	assert_int_equal(wr_central_shut_down(rig->central, rig->now_ns, rig->mono_ns), 0);
	free_slots(rig);
}

static void test_overshoot_bound(void **state)
{
	(void)state;
	/* Without other nodes there is no overshoot. If two other nodes admit 10 of 100 units per
	 * round, the overshoot is a fifth. */
	assert_int_equal(wr_central_exchange_overshoot_ppm(10, 0, 100, SYNC, 0), 0);
	assert_int_equal(wr_central_exchange_overshoot_ppm(10, 2, 100, SYNC, 0), 200000);
	/* A delay as long as a round doubles the overshoot. */
	assert_int_equal(wr_central_exchange_overshoot_ppm(10, 2, 100, SYNC, SYNC), 400000);
	/* No node admits more than its limit. */
	assert_int_equal(wr_central_exchange_overshoot_ppm(1000, 2, 100, SYNC, SYNC), 2000000);
	assert_int_equal(
		wr_central_exchange_overshoot_ppm(UINT64_MAX, UINT32_MAX, 1, 1, UINT64_MAX - 1),
		UINT32_MAX);
	assert_int_equal(wr_central_exchange_overshoot_ppm(10, 2, 0, SYNC, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_used_counters_are_exchanged),
		cmocka_unit_test(test_next_windows),
		cmocka_unit_test(test_lost_answers),
		cmocka_unit_test(test_redis_unavailable),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_another_table),
		cmocka_unit_test(test_only_the_chief_exchanges),
		cmocka_unit_test(test_shutdown),
		cmocka_unit_test(test_overshoot_bound),
	};

	return cmocka_run_group_tests(tests, open_table, close_table);
}
