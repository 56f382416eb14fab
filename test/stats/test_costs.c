/* Costs of rules: units, and slots in use of limits on concurrent requests. */
#include "helper.h"

#include <weir/algo.h>

#define MAX_HOLD_NS (59 * SECOND_NS) /* a turn is a minute */

struct wanted_cost {
	const char *rule;
	struct weir_cost cost;
	int found, seen;
};

static int find_cost(void *context, const struct weir_cost *cost)
{
	struct wanted_cost *wanted = context;

	wanted->seen++;
	if (!wr_str_equal(cost->rule, wr_str(wanted->rule)))
		return 0;
	wanted->cost = *cost;
	wanted->found++;
	return 0;
}

static struct weir_cost cost_of(struct weir_table *table, const char *rule)
{
	struct wanted_cost wanted = {.rule = rule};

	assert_int_equal(weir_costs_each(table, find_cost, &wanted), 0);
	assert_int_equal(wanted.found, 1);
	assert_int_equal(wanted.cost.size, sizeof wanted.cost);
	wanted.cost.rule = wr_str(rule);
	return wanted.cost;
}

static uint32_t load_rule(struct wr_stats *stats, const char *name, uint32_t algorithm,
			  uint32_t limit)
{
	struct wr_rule_numbers note = {.loaded_ns = START_S * SECOND_NS,
				       .period_ns = MAX_HOLD_NS,
				       .limit = limit,
				       .flags = algorithm << WR_NUMBERS_ALGORITHM};
	uint32_t slot = wr_stats_slot(stats, wr_str(name));

	wr_stats_set_numbers(stats, slot, &note);
	return slot;
}

static void test_units(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats = open_stats(table), *other = open_stats(table);
	uint32_t rule = load_rule(stats, "api/tenant/1m", WEIR_TOKEN_BUCKET, 100);
	uint32_t slot = wr_stats_cost_slot(stats, WR_STR("api/tenant/1m"), rule);
	struct wanted_cost none = {.rule = "api/user/1m"};
	struct weir_cost cost;

	(void)state;
	load_rule(stats, "api/user/1m", WEIR_FIXED_WINDOW, 5); /* a rule without costs */
	assert_true(slot >= WEIR_STAT_RULES && slot != rule);
	assert_int_equal(wr_stats_cost_slot(other, WR_STR("api/tenant/1m"), rule), slot);
	for (int i = 0; i < WR_COST_STAT_COUNT; i++) {
		add(stats, slot, (enum wr_stat)i, 10 + (uint64_t)i);
		add(other, slot, (enum wr_stat)i, 100);
	}
	add(stats, rule, WR_STAT_admitted, 3);
	cost = cost_of(table, "api/tenant/1m");
	assert_int_equal(cost.slot, rule);
	assert_int_equal(cost.algorithm, WEIR_TOKEN_BUCKET);
	assert_int_equal(cost.limit, 100);
	assert_int_equal(cost.reserved, 110);
	assert_int_equal(cost.actual, 111);
	assert_int_equal(cost.refunded, 112);
	assert_int_equal(cost.owed, 113);
	assert_int_equal(cost.settled, 114);
	assert_int_equal(cost.lost, 115);
	assert_int_equal(cost.defaulted, 116);
	assert_int_equal(cost.clamped, 117);
	assert_int_equal(cost.in_use, 0);
	assert_int_equal(weir_costs_each(table, find_cost, &none), 0);
	assert_int_equal(none.found, 0);
	assert_int_equal(none.seen, 1);
	/* Costs are neither rules nor candidates, and do not change the rule's totals. */
	assert_int_equal(total(table, "api/tenant/1m").admitted, 3);
	assert_int_equal(total(table, "api/tenant/1m").slot, rule);
	close_stats(other);
	close_stats(stats);
	weir_close(table);
}

static int stop_at_once(void *context, const struct weir_cost *cost)
{
	(void)context;
	(void)cost;
	return 7;
}

static void test_arguments(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats = open_stats(table);
	uint32_t rule = load_rule(stats, "api/a/1m", WEIR_TOKEN_BUCKET, 1);

	(void)state;
	assert_int_equal(weir_costs_each(NULL, stop_at_once, NULL), WEIR_EINVAL);
	assert_int_equal(weir_costs_each(table, NULL, NULL), WEIR_EINVAL);
	assert_int_equal(weir_costs_each(table, stop_at_once, NULL), 0);
	assert_int_equal(wr_stats_cost_slot(stats, WR_STR("x"), WEIR_STAT_OTHER), WEIR_STAT_OTHER);
	wr_stats_cost_slot(stats, WR_STR("api/a/1m"), rule);
	assert_int_equal(weir_costs_each(table, stop_at_once, NULL), 7);
	close_stats(stats);
	weir_close(table);
}

/* A table, and a limit of 20 concurrent requests with a max_hold of 59 s. */
struct slots {
	struct weir_table *table;
	struct wr_stats *stats;
	uint32_t slot;
};

static struct slots open_slots(void)
{
	struct slots slots = {.table = table_of(1 << 20)};
	uint32_t rule;

	slots.stats = open_stats(slots.table);
	rule = load_rule(slots.stats, "api/tenant/concurrent/59s", WEIR_CONCURRENT, 20);
	slots.slot = wr_stats_cost_slot(slots.stats, WR_STR("api/tenant/concurrent/59s"), rule);
	assert_int_equal(weir_tick(slots.table, START_S * SECOND_NS), 1);
	return slots;
}

static void close_slots(struct slots *slots)
{
	close_stats(slots->stats);
	weir_close(slots->table);
}

static uint64_t at_ns(uint64_t s)
{
	return (START_S + s) * SECOND_NS;
}

/* Not inlined: with UBSan, gcc 12 takes the address of a thread's variable for NULL after it has
 * inlined several accesses to it. */
static __attribute__((noinline)) struct wr_lane *lane_of(struct slots *slots)
{
	return wr_lane_mine(slots->stats);
}

static void take(struct slots *slots, uint64_t s)
{
	wr_lane_count_taken(lane_of(slots), slots->slot, MAX_HOLD_NS, at_ns(s));
}

static void give_back(struct slots *slots, uint64_t taken_s, uint64_t s, bool returned)
{
	wr_lane_count_freed(lane_of(slots), slots->slot, MAX_HOLD_NS, at_ns(taken_s), at_ns(s),
			    returned);
}

static void assert_slots(struct slots *slots, uint64_t reserved, uint64_t refunded, uint64_t lost,
			 uint64_t in_use)
{
	struct weir_cost cost = cost_of(slots->table, "api/tenant/concurrent/59s");

	assert_int_equal(cost.reserved, reserved);
	assert_int_equal(cost.refunded, refunded);
	assert_int_equal(cost.lost, lost);
	assert_int_equal(cost.in_use, in_use);
	assert_int_equal(cost.actual + cost.owed + cost.defaulted + cost.clamped, 0);
}

static void test_slots_in_use(void **state)
{
	struct slots slots = open_slots();
	struct weir_cost cost;

	(void)state;
	take(&slots, 1);
	take(&slots, 2);
	take(&slots, 3);
	assert_slots(&slots, 3, 0, 0, 3);
	give_back(&slots, 2, 10, true);
	assert_slots(&slots, 3, 1, 0, 2);
	give_back(&slots, 3, 11, false); /* the table had evicted the key */
	assert_slots(&slots, 3, 1, 1, 1);
	give_back(&slots, 1, 60, true); /* in the next turn */
	assert_slots(&slots, 3, 2, 1, 0);
	cost = cost_of(slots.table, "api/tenant/concurrent/59s");
	assert_int_equal(cost.algorithm, WEIR_CONCURRENT);
	assert_int_equal(cost.limit, 20);
	close_slots(&slots);
}

/* A slot is given back by another thread or process than it was taken by: through another lane. */
static void test_other_lane(void **state)
{
	struct slots slots = open_slots();
	struct wr_stats *other = open_stats(slots.table);

	(void)state;
	for (int i = 0; i < 3; i++)
		take(&slots, 1);
	for (int i = 0; i < 2; i++)
		wr_lane_count_freed(wr_lane_mine(other), slots.slot, MAX_HOLD_NS, at_ns(1),
				    at_ns(2), true);
	assert_slots(&slots, 3, 2, 0, 1);
	assert_int_equal(weir_tick(slots.table, at_ns(120)), 1);
	assert_slots(&slots, 3, 2, 1, 0);
	close_stats(other);
	close_slots(&slots);
}

/* 20 slots of a killed process are in use until the turn after the next one, and then lost. Slots
 * that were taken later are not affected. */
static void test_killed(void **state)
{
	struct slots slots = open_slots();

	(void)state;
	for (int i = 0; i < 20; i++)
		take(&slots, 59);
	take(&slots, 60);
	take(&slots, 119);
	for (uint64_t s = 60; s < 120; s++)
		weir_tick(slots.table, at_ns(s));
	assert_slots(&slots, 22, 0, 0, 22);
	assert_int_equal(weir_tick(slots.table, at_ns(120)), 1);
	assert_slots(&slots, 22, 0, 20, 2);
	assert_int_equal(weir_tick(slots.table, at_ns(121)), 1);
	assert_slots(&slots, 22, 0, 20, 2);
	give_back(&slots, 119, 130, true);
	assert_slots(&slots, 22, 1, 20, 1);
	assert_int_equal(weir_tick(slots.table, at_ns(180)), 1);
	assert_slots(&slots, 22, 1, 21, 0);
	close_slots(&slots);
}

/* A request that ends after its slot was counted as lost changes nothing. */
static void test_late_end(void **state)
{
	struct slots slots = open_slots();

	(void)state;
	take(&slots, 0);
	take(&slots, 0);
	give_back(&slots, 0, 60, true); /* before the tick that would count the slot as lost */
	assert_slots(&slots, 2, 0, 0, 2);
	assert_int_equal(weir_tick(slots.table, at_ns(120)), 1);
	assert_slots(&slots, 2, 0, 2, 0);
	give_back(&slots, 0, 130, true);
	assert_slots(&slots, 2, 0, 2, 0);
	close_slots(&slots);
}

static void assert_point(struct weir_table *table, uint32_t slot, enum weir_span span, size_t ago,
			 const uint64_t wanted[WR_HISTORY_LINES])
{
	struct weir_point points[10];
	uint64_t end_s;

	assert_int_equal(weir_history(table, slot, span, points, ago, &end_s), ago);
	assert_int_equal(points[0].known, 1);
	assert_int_equal(points[0].admitted, wanted[WR_COST_LINE_RESERVED]);
	assert_int_equal(points[0].refused, wanted[WR_COST_LINE_ACTUAL]);
	assert_int_equal(points[0].shadowed, wanted[WR_COST_LINE_REFUNDED]);
	assert_int_equal(points[0].delayed, wanted[WR_COST_LINE_OWED]);
}

/* The history of units has the units of each second. */
static void test_history_of_units(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats = open_stats(table);
	uint32_t rule = load_rule(stats, "api/tenant/1m", WEIR_TOKEN_BUCKET, 100);
	uint32_t slot = wr_stats_cost_slot(stats, WR_STR("api/tenant/1m"), rule);

	(void)state;
	assert_int_equal(weir_tick(table, at_ns(0)), 1);
	add(stats, rule, WR_STAT_admitted, 2);
	add(stats, slot, (enum wr_stat)WR_COST_STAT_reserved, 1000);
	assert_int_equal(weir_tick(table, at_ns(1)), 1);
	add(stats, slot, (enum wr_stat)WR_COST_STAT_actual, 1200);
	add(stats, slot, (enum wr_stat)WR_COST_STAT_refunded, 100);
	add(stats, slot, (enum wr_stat)WR_COST_STAT_owed, 300);
	assert_int_equal(weir_tick(table, at_ns(2)), 1);
	assert_int_equal(weir_tick(table, at_ns(3)), 1);
	assert_int_equal(cost_of(table, "api/tenant/1m").history_slot, slot);
	assert_point(table, slot, WEIR_SECONDS, 3, (uint64_t[]){1000, 0, 0, 0});
	assert_point(table, slot, WEIR_SECONDS, 2, (uint64_t[]){0, 1200, 100, 300});
	assert_point(table, slot, WEIR_SECONDS, 1, (uint64_t[]){0, 0, 0, 0});
	/* The sum of all rules counts the two requests, and no units. */
	assert_point(table, WEIR_STAT_ALL, WEIR_SECONDS, 3, (uint64_t[]){2, 0, 0, 0});
	close_stats(stats);
	weir_close(table);
}

/* The history of slots has the slots in use at the end of each second, and their sum in each
 * minute. */
static void test_history_of_slots(void **state)
{
	struct slots slots = open_slots();
	uint32_t rule = cost_of(slots.table, "api/tenant/concurrent/59s").slot;

	(void)state;
	add(slots.stats, rule, WR_STAT_admitted, 3);
	for (int i = 0; i < 3; i++)
		take(&slots, 0);
	assert_int_equal(weir_tick(slots.table, at_ns(2)), 1); /* the tick of second 1 is missing */
	assert_point(slots.table, slots.slot, WEIR_SECONDS, 2, (uint64_t[]){1, 3, 0, 0});
	assert_point(slots.table, slots.slot, WEIR_SECONDS, 1, (uint64_t[]){2, 3, 0, 0});
	give_back(&slots, 0, 2, true);
	give_back(&slots, 0, 2, false);
	assert_int_equal(weir_tick(slots.table, at_ns(3)), 1);
	assert_point(slots.table, slots.slot, WEIR_SECONDS, 1, (uint64_t[]){0, 1, 1, 1});
	assert_int_equal(weir_tick(slots.table, at_ns(5)), 1);
	assert_point(slots.table, slots.slot, WEIR_SECONDS, 2, (uint64_t[]){0, 1, 0, 0});
	assert_point(slots.table, slots.slot, WEIR_SECONDS, 1, (uint64_t[]){0, 1, 0, 0});
	give_back(&slots, 0, 5, true);
	assert_int_equal(weir_tick(slots.table, at_ns(60)), 1);
	assert_point(slots.table, slots.slot, WEIR_MINUTES, 1, (uint64_t[]){3, 9, 2, 1});
	close_slots(&slots);
}

/* If nothing ticked for a long time, slots are lost at the next tick that finds their counter. */
static void test_gap(void **state)
{
	struct slots slots = open_slots();

	(void)state;
	take(&slots, 0);
	take(&slots, 60);
	take(&slots, 120);
	take(&slots, 180);
	for (uint64_t s = 3600; s < 3600 + 4 * 60; s += 60)
		assert_int_equal(weir_tick(slots.table, at_ns(s)), 1);
	assert_slots(&slots, 4, 0, 4, 0);
	close_slots(&slots);
}

/* A slot that is given back in another table than it was taken in, after a resize, is in use
 * neither -1 times nor 2^64 - 1 times. */
static void test_never_below_zero(void **state)
{
	struct slots slots = open_slots();

	(void)state;
	give_back(&slots, 0, 1, true);
	assert_slots(&slots, 0, 1, 0, 0);
	assert_int_equal(weir_tick(slots.table, at_ns(120)), 1);
	assert_slots(&slots, 0, 1, 0, 0);
	take(&slots, 121);
	assert_slots(&slots, 1, 1, 0, 1);
	close_slots(&slots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_slots_in_use),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_other_lane),
		cmocka_unit_test(test_late_end),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_never_below_zero),
		cmocka_unit_test(test_history_of_units),
		cmocka_unit_test(test_history_of_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
