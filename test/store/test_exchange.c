/* Exchanged counters: the counts that a node sends, the units of other nodes that are added, and
 * nodes without recent exchanges. Two tables simulate two nodes; the test passes the numbers
 * between them. */
#include "crew.h"

#include <string.h>

#include "store/exchange_slot.h"

#define MS 1000000ull
#define MONO (5000 * SECOND)
#define SYNC (100 * MS)
#define OWNER 7u
#define OTHER 8u
/* A minute that has just begun. */
#define NOW (T0 - T0 % MINUTE)

static struct weir_table *table;
static struct weir_limit limit;
static struct wr_key key;

static struct wr_store_exchange_name name_of(const struct weir_limit *of)
{
	return (struct wr_store_exchange_name){.fleet_key = {11, 22},
					       .algorithm = of->algorithm,
					       .limit = of->limit,
					       .burst = of->burst,
					       .period_ns = of->period_ns,
					       .window_start_ns = of->window_start_ns,
					       .window_end_ns = of->window_end_ns,
					       .id_len = 4,
					       .id = "id/1"};
}

static int open_table(void **unused)
{
	(void)unused;
	table = table_open("exchange", 4 * MIB, 0);
	return 0;
}

static int drop_table(void **unused)
{
	(void)unused;
	table_drop(table);
	return 0;
}

/* Makes an owner and a limit, and returns a slot for a key. */
static int begin(struct weir_limit of)
{
	struct wr_store_exchange_name name = name_of(&of);

	limit = of;
	key = key_nth(table, &limit, 1);
	assert_true(wr_store_exchange_own(table, OWNER, SYNC, MONO));
	wr_store_exchange_answered(table, OWNER, MONO);
	return wr_store_exchange_claim(table, key, &name, MONO);
}

/* Takes units and counts them in the slot, as the limiter does. */
static bool admit(int slot, int64_t cost, uint64_t now_ns, uint64_t mono_ns)
{
	struct weir_decision decision;

	wr_store_take(table, &limit, key, cost, now_ns, &decision);
	if (decision.admitted)
		wr_store_exchange_count(table, slot, &limit, cost, now_ns, mono_ns);
	return decision.admitted;
}

static uint32_t remaining(uint64_t now_ns)
{
	struct weir_decision decision;

	wr_store_decide(table, &limit, key, 0, now_ns, WR_LOOK, &decision);
	return decision.remaining;
}

static int visit(uint64_t now_ns, uint64_t mono_ns, struct wr_store_exchange_view *view)
{
	uint32_t cursor = 0;

	return wr_store_exchange_next(table, OWNER, &cursor, 0, now_ns, mono_ns, view);
}

/* Applies a reply of Redis: the units of other nodes in the current window and in the previous
 * one. */
static void apply(int slot, uint64_t incarnation, uint64_t others, uint64_t before, uint64_t now_ns,
		  uint64_t mono_ns)
{
	struct wr_store_exchange_name name = name_of(&limit);
	uint64_t start_ns = wr_store_exchange_start_ns(&name, now_ns);
	struct wr_store_exchange_totals totals = {
		{{start_ns, others + 5, 5},
		 {start_ns - wr_store_exchange_span_ns(&name), before, 0}}};

	wr_store_exchange_apply(table, slot, OWNER, incarnation, &totals, now_ns, mono_ns);
}

static void windows(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_FIXED_WINDOW, 100, MINUTE));

	(void)unused;
	assert_true(slot >= 0);
	assert_int_equal(wr_store_exchange_find(table, key), slot);
	assert_int_equal(visit(NOW, MONO, &view), -1);
	assert_true(admit(slot, 30, NOW, MONO));
	assert_true(admit(slot, -10, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	assert_int_equal(view.counts[0].start_ns, NOW);
	assert_int_equal(view.counts[0].plus, 30);
	assert_int_equal(view.counts[0].minus, 10);
	assert_int_equal(view.counts[1].start_ns, 0);
	assert_int_equal(view.admitted, 30);
	assert_int_equal(view.name.fleet_key[1], 22);
	assert_int_equal(view.name.id_len, 4);
	assert_memory_equal(view.name.id, "id/1", 4);
	assert_int_equal(view.name.limit, 100);
	/* The counts are sent only once. */
	assert_int_equal(visit(NOW, MONO, &view), -1);
	apply(slot, view.incarnation, 25, 99, NOW + SECOND, MONO);
	assert_int_equal(remaining(NOW + SECOND), 100 - 20 - 25);
	assert_int_equal(wr_store_exchange_charged(table, slot, &limit, NOW + SECOND), 25);
	/* If the sum is the same, no units are added. If it is larger, the difference is added,
	 * even beyond the limit. */
	apply(slot, view.incarnation, 25, 0, NOW + SECOND, MONO);
	assert_int_equal(remaining(NOW + SECOND), 55);
	apply(slot, view.incarnation, 20, 0, NOW + SECOND, MONO);
	assert_int_equal(remaining(NOW + SECOND), 55);
	apply(slot, view.incarnation, 26, 0, NOW + SECOND, MONO);
	assert_int_equal(remaining(NOW + SECOND), 54);
	apply(slot, view.incarnation, 500, 0, NOW + SECOND, MONO);
	assert_int_equal(remaining(NOW + SECOND), 0);
	assert_false(admit(slot, 1, NOW + SECOND, MONO));
	/* The next minute starts at 0. A larger sum for the previous minute is ignored. */
	apply(slot, view.incarnation, 7, 800, NOW + MINUTE, MONO);
	assert_int_equal(remaining(NOW + MINUTE), 93);
	assert_true(admit(slot, 2, NOW + MINUTE, MONO));
	assert_int_equal(visit(NOW + MINUTE, MONO, &view), slot);
	assert_int_equal(view.counts[0].start_ns, NOW + MINUTE);
	assert_int_equal(view.counts[0].plus, 2);
	assert_int_equal(view.counts[1].start_ns, NOW);
	assert_int_equal(view.counts[1].plus, 30);
}

static void both_windows_of_a_counter(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_SLIDING_COUNTER, 100, MINUTE));

	(void)unused;
	assert_true(admit(slot, 40, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	apply(slot, view.incarnation, 20, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 40);
	/* A quarter into the next minute, three quarters of 60 units count. Then the reply is that
	 * other nodes took 60 units instead of 20 in the previous minute, and 4 in this minute. */
	assert_int_equal(remaining(NOW + MINUTE * 5 / 4), 55);
	apply(slot, view.incarnation, 4, 60, NOW + MINUTE * 5 / 4, MONO);
	assert_int_equal(remaining(NOW + MINUTE * 5 / 4), 100 - 75 - 4);
}

/* 10 per second, burst 20: the bucket fills up in two seconds. */
static void buckets(void **unused)
{
	struct weir_limit of = sized(WEIR_TOKEN_BUCKET, 10, SECOND);
	struct wr_store_exchange_view view;
	int slot;

	(void)unused;
	of.burst = 20;
	assert_int_equal(weir_limit_check(&of, NULL), 0);
	slot = begin(of);
	assert_true(admit(slot, 1, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	assert_int_equal(view.counts[0].start_ns, NOW);
	/* The first reply only sets the sums of other nodes; no units are taken. */
	apply(slot, view.incarnation, 15, 3, NOW, MONO);
	assert_int_equal(remaining(NOW), 19);
	apply(slot, view.incarnation, 20, 3, NOW, MONO);
	assert_int_equal(remaining(NOW), 14);
	/* The sum of the previous span has grown. */
	apply(slot, view.incarnation, 20, 7, NOW, MONO);
	assert_int_equal(remaining(NOW), 10);
	/* The bucket is 15 below empty; tokens that flow in fill this deficit first. */
	apply(slot, view.incarnation, 45, 7, NOW, MONO);
	assert_int_equal(remaining(NOW), 0);
	assert_false(admit(slot, 1, NOW + 1599 * MS, MONO));
	assert_true(admit(slot, 1, NOW + 1600 * MS, MONO));
	/* A new span counts from 0. */
	apply(slot, view.incarnation, 6, 45, NOW + 3 * SECOND, MONO);
	assert_int_equal(remaining(NOW + 3 * SECOND), 14 - 6);
}

static void ban(uint32_t until_s, uint64_t now_ns)
{
	struct wr_override_change change = {.ban = true, .to = {.banned_until_s = until_s}};

	wr_override_change(table, key, limit.algorithm, &change, wr_seconds(now_ns));
}

/* The units of other nodes are taken even from the bucket of a banned key. The slot of the key is
 * not exchanged again before the key is admitted again, and by then the span may have ended. */
static void banned_keys_are_charged(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_TOKEN_BUCKET, 10, 10 * SECOND));

	(void)unused;
	assert_true(admit(slot, 1, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	apply(slot, view.incarnation, 0, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 9);
	ban(wr_seconds(NOW) + 2, NOW);
	assert_false(admit(slot, 1, NOW, MONO));
	apply(slot, view.incarnation, 6, 0, NOW, MONO);
	assert_false(admit(slot, 1, NOW, MONO));
	/* 9 minus 6, plus the 2 tokens that flowed in during the ban. */
	assert_int_equal(remaining(NOW + 2 * SECOND), 5);
	/* The units were recorded, so the same sum adds no units. */
	apply(slot, view.incarnation, 6, 0, NOW + 2 * SECOND, MONO);
	assert_int_equal(remaining(NOW + 2 * SECOND), 5);
}

/* The same for the windows of a sliding counter: 60 units in the previous window, 3 in the current
 * one. */
static void banned_windows_are_charged(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_SLIDING_COUNTER, 100, MINUTE));
	uint64_t half_ns = NOW + MINUTE * 3 / 2;

	(void)unused;
	assert_true(admit(slot, 40, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	ban(wr_seconds(half_ns) + 1, NOW);
	apply(slot, view.incarnation, 20, 0, NOW, MONO);
	apply(slot, view.incarnation, 3, 60, half_ns, MONO);
	ban(0, half_ns);
	assert_int_equal(remaining(half_ns), 100 - (40 + 60) / 2 - 3);
}

/* A new slot for an old cell: the sum of other nodes includes the units that this node took earlier
 * with another slot, and the cell contains them too. */
static void former_use_is_not_charged_twice(void **unused)
{
	struct weir_limit of = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
	struct wr_store_exchange_view view;
	struct weir_decision decision;
	int slot;

	(void)unused;
	limit = of;
	key = key_nth(table, &limit, 1);
	/* 50 units of this node, 10 of other nodes. */
	wr_store_take(table, &limit, key, 60, NOW, &decision);
	slot = begin(of);
	assert_true(admit(slot, 1, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	apply(slot, view.incarnation, 50 + 12, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 100 - 50 - 12 - 1);
	apply(slot, view.incarnation, 50 + 13, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 100 - 50 - 13 - 1);
}

static void on_its_own(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_FIXED_WINDOW, 100, MINUTE));
	uint64_t late = MONO + 3 * SYNC;

	(void)unused;
	assert_int_equal(wr_store_exchange_interval(table), SYNC);
	assert_false(wr_store_exchange_fresh(table, -1, MONO));
	assert_true(wr_store_exchange_fresh(table, slot, MONO));
	/* No answer from Redis. */
	assert_true(wr_store_exchange_fresh(table, slot, late));
	assert_false(wr_store_exchange_fresh(table, slot, late + 1));
	wr_store_exchange_answered(table, OTHER, late);
	assert_false(wr_store_exchange_fresh(table, slot, late + 1));
	wr_store_exchange_answered(table, OWNER, late);
	assert_true(wr_store_exchange_fresh(table, slot, late + 1));
	/* The slot was used and not exchanged, although other slots were exchanged. */
	assert_true(admit(slot, 1, NOW, MONO));
	assert_true(wr_store_exchange_fresh(table, slot, late));
	assert_false(wr_store_exchange_fresh(table, slot, late + 1));
	/* A question without an answer is not enough. */
	assert_int_equal(visit(NOW, late, &view), slot);
	assert_false(wr_store_exchange_fresh(table, slot, late + 1));
	wr_store_exchange_failed(table, slot, OWNER);
	assert_int_equal(visit(NOW, late, &view), slot);
	assert_int_equal(view.admitted, 0);
	apply(slot, view.incarnation, 0, 0, NOW, late);
	assert_true(wr_store_exchange_fresh(table, slot, late + 1));
	assert_int_equal(visit(NOW, late, &view), -1);
}

static void there_is_one_owner(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_FIXED_WINDOW, 100, MINUTE));
	uint32_t cursor = 0;

	(void)unused;
	assert_true(admit(slot, 1, NOW, MONO));
	assert_false(wr_store_exchange_own(table, OTHER, SYNC, MONO + 2 * SECOND - 1));
	assert_int_equal(wr_store_exchange_next(table, OTHER, &cursor, 0, NOW, MONO, &view), -1);
	assert_int_equal(visit(NOW, MONO, &view), slot);
	/* The owner died before the reply: the next owner visits the slot again. */
	assert_true(wr_store_exchange_own(table, OTHER, 2 * SYNC, MONO + 2 * SECOND));
	assert_int_equal(wr_store_exchange_interval(table), 2 * SYNC);
	cursor = 0;
	assert_int_equal(wr_store_exchange_next(table, OTHER, &cursor, 0, NOW, MONO, &view), slot);
	apply(slot, view.incarnation, 50, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 99); /* calls of the first owner have no effect any more */
	wr_store_exchange_leave(table, OTHER);
	assert_true(wr_store_exchange_own(table, OWNER, SYNC, MONO));
	/* A reply for an earlier incarnation has no effect either. */
	apply(slot, view.incarnation + 4, 50, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 99);
	apply(slot, view.incarnation, 50, 0, NOW, MONO);
	assert_int_equal(remaining(NOW), 49);
}

static void peers(void **unused)
{
	struct wr_store_exchange_view view;
	int slot = begin(sized(WEIR_FIXED_WINDOW, 100, MINUTE));
	uint32_t cursor = 0;

	(void)unused;
	assert_true(admit(slot, 1, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	assert_int_equal(view.peers_due, 0);
	wr_store_exchange_owe(table, slot, OWNER, 5);
	/* The counts have to be sent to the first and the third peer, not to the second. */
	assert_int_equal(wr_store_exchange_next(table, OWNER, &cursor, 2, NOW, MONO, &view), -1);
	cursor = 0;
	assert_int_equal(wr_store_exchange_next(table, OWNER, &cursor, 4, NOW, MONO, &view), slot);
	assert_int_equal(view.peers_due, 5);
	wr_store_exchange_paid(table, slot, OWNER, view.incarnation, 2);
	cursor = 0;
	assert_int_equal(wr_store_exchange_next(table, OWNER, &cursor, 4, NOW, MONO, &view), -1);
	cursor = 0;
	assert_int_equal(wr_store_exchange_next(table, OWNER, &cursor, 1, NOW, MONO, &view), slot);
	wr_store_exchange_paid(table, slot, OWNER, view.incarnation, 0);
	wr_store_exchange_paid(table, slot, OWNER, view.incarnation, 77);
	cursor = 0;
	assert_int_equal(wr_store_exchange_next(table, OWNER, &cursor, 255, NOW, MONO, &view), -1);
}

/* Runs turns until the slot was checked once. Each turn checks 64 slots. The number of slots is not
 * a multiple of 64, so some slots are checked twice. */
static void sweep(int slot, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_store_exchange_view view;
	uint64_t before;

	do {
		before = in.head->swept;
		visit(now_ns, mono_ns, &view);
	} while (((uint64_t)slot + in.count - before - 1) % in.count >= 64);
}

static void slots_are_freed(void **unused)
{
	struct wr_store_exchange_name name;
	struct wr_store_exchange_view first, second;
	int slot = begin(sized(WEIR_FIXED_WINDOW, 100, MINUTE));

	(void)unused;
	name = name_of(&limit);
	assert_true(admit(slot, 1, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &first), slot);
	apply(slot, first.incarnation, 0, 0, NOW, MONO);
	sweep(slot, NOW + 2 * MINUTE - 1, MONO + 2 * MINUTE);
	assert_int_equal(wr_store_exchange_find(table, key), slot);
	sweep(slot, NOW + 2 * MINUTE, MONO + 2 * MINUTE);
	assert_int_equal(wr_store_exchange_find(table, key), -1);
	/* The slot is closed, but not free yet: a thread that had found it before still counts in
	 * it. */
	assert_true(admit(slot, 1, NOW + 2 * MINUTE, MONO + 2 * MINUTE));
	sweep(slot, NOW + 2 * MINUTE, MONO + 2 * MINUTE);
	assert_int_equal(wr_store_exchange_find(table, key), slot);
	assert_int_equal(visit(NOW, MONO, &second), -1); /* sweep() has visited it */
	apply(slot, first.incarnation, 0, 0, NOW + 2 * MINUTE, MONO);
	sweep(slot, NOW + 9 * MINUTE, MONO + 9 * MINUTE);
	assert_int_equal(wr_store_exchange_claim(table, key, &name, MONO), slot);
	assert_int_equal(wr_store_exchange_find(table, key), slot);
	/* After the second check the slot is freed, and the key gets another slot. */
	sweep(slot, NOW + 9 * MINUTE, MONO + 9 * MINUTE);
	sweep(slot, NOW + 9 * MINUTE, MONO + 9 * MINUTE);
	assert_int_equal(wr_store_exchange_find(table, key), -1);
	slot = wr_store_exchange_claim(table, key, &name, MONO + 9 * MINUTE);
	assert_true(admit(slot, 1, NOW + 9 * MINUTE, MONO + 9 * MINUTE));
	assert_int_equal(visit(NOW + 9 * MINUTE, MONO, &second), slot);
	assert_int_not_equal(second.incarnation, first.incarnation);
	assert_int_equal(second.counts[0].plus, 1);
}

static void calendars(void **unused)
{
	struct weir_limit of = {.size = sizeof of,
				.algorithm = WEIR_FIXED_WINDOW,
				.limit = 100,
				.window_start_ns = NOW - HOUR,
				.window_end_ns = NOW + HOUR};
	struct wr_store_exchange_totals totals = {{{NOW - HOUR, 40, 0}, {NOW - 9 * HOUR, 77, 0}}};
	struct wr_store_exchange_view view;
	int slot;

	(void)unused;
	assert_int_equal(weir_limit_check(&of, NULL), 0);
	slot = begin(of);
	assert_true(admit(slot, 3, NOW, MONO));
	assert_int_equal(visit(NOW, MONO, &view), slot);
	assert_int_equal(view.counts[0].start_ns, NOW - HOUR);
	assert_int_equal(view.name.window_end_ns, NOW + HOUR);
	wr_store_exchange_apply(table, slot, OWNER, view.incarnation, &totals, NOW, MONO);
	assert_int_equal(remaining(NOW), 57);
	/* The slot continues with the next window. */
	limit.window_start_ns = NOW + HOUR;
	limit.window_end_ns = NOW + 3 * HOUR;
	assert_true(admit(slot, 9, NOW + HOUR, MONO));
	assert_int_equal(visit(NOW + HOUR, MONO, &view), slot);
	assert_int_equal(view.name.window_start_ns, NOW + HOUR);
	assert_int_equal(view.counts[0].plus, 9);
	assert_int_equal(view.counts[1].plus, 3);
}

/* ---- many at once ---- */

static int shared_slot = -1;

static void count_many(int number)
{
	struct wr_store_exchange_name name = name_of(&limit);

	(void)number;
	for (int i = 0; i < 20000; i++) {
		int slot = wr_store_exchange_claim(table, key, &name, MONO);

		if (slot >= 0)
			wr_store_exchange_count(table, slot, &limit, 1, NOW + (i % 3 == 0) * MINUTE,
						MONO);
		else
			i--;
	}
}

static void nothing_is_missed(void **unused)
{
	struct wr_store_exchange_view view;

	(void)unused;
	limit = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
	key = key_nth(table, &limit, 1);
	assert_true(wr_store_exchange_own(table, OWNER, SYNC, MONO));
	crew_run(count_many);
	shared_slot = visit(NOW, MONO, &view);
	assert_int_equal(shared_slot, wr_store_exchange_find(table, key));
	assert_int_equal(view.counts[0].plus, CREW * 6667);
	assert_int_equal(view.counts[1].plus, CREW * 13333);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(windows, open_table, drop_table),
		cmocka_unit_test_setup_teardown(both_windows_of_a_counter, open_table, drop_table),
		cmocka_unit_test_setup_teardown(buckets, open_table, drop_table),
		cmocka_unit_test_setup_teardown(banned_keys_are_charged, open_table, drop_table),
		cmocka_unit_test_setup_teardown(banned_windows_are_charged, open_table, drop_table),
		cmocka_unit_test_setup_teardown(former_use_is_not_charged_twice, open_table,
						drop_table),
		cmocka_unit_test_setup_teardown(on_its_own, open_table, drop_table),
		cmocka_unit_test_setup_teardown(there_is_one_owner, open_table, drop_table),
		cmocka_unit_test_setup_teardown(peers, open_table, drop_table),
		cmocka_unit_test_setup_teardown(slots_are_freed, open_table, drop_table),
		cmocka_unit_test_setup_teardown(calendars, open_table, drop_table),
		cmocka_unit_test_setup_teardown(nothing_is_missed, open_table, drop_table),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
