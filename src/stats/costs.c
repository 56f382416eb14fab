/* Counts and reads the costs of rules: units that were reserved, used and refunded, and slots of
 * limits on concurrent requests. Written by limiter/settle_count.c, read by weir's commands and by
 * the admin API. */
#include "stats/stats.h"

#include <weir/algo.h>

/* Returns the numbers of the rule whose costs are counted in the slot, or NULL if the rule is not
 * known. */
static const struct wr_rule_numbers *rule_numbers(const struct wr_stats_map *map, uint32_t slot)
{
	const struct wr_rule_numbers *numbers = map->history.numbers;
	uint32_t rule = __atomic_load_n(&numbers[slot].parent, __ATOMIC_RELAXED);

	return rule >= WEIR_STAT_RULES && rule < map->name_count ? &numbers[rule] : NULL;
}

static uint32_t algorithm_of(const struct wr_rule_numbers *numbers)
{
	return __atomic_load_n(&numbers->flags, __ATOMIC_RELAXED) >> WR_NUMBERS_ALGORITHM;
}

/* ---- writing ---- */

uint32_t wr_stats_cost_slot(const struct wr_stats *stats, struct weir_str rule, uint32_t rule_slot)
{
	struct wr_rule_numbers note = {.parent = rule_slot};
	uint32_t slot;

	if (rule_slot < WEIR_STAT_RULES)
		return WEIR_STAT_OTHER;
	slot = wr_stats_slot_of(stats, WR_NAME_COST, rule);
	wr_stats_set_numbers(stats, slot, &note);
	return slot;
}

void wr_lane_count_freed(struct wr_lane *lane, uint32_t slot, uint64_t max_hold_ns,
			 uint64_t taken_ns, uint64_t now_ns, bool returned)
{
	enum wr_stats_cost turn = wr_stats_turn_counter(max_hold_ns, taken_ns);

	if (now_ns > taken_ns && now_ns - taken_ns >= wr_stats_turn_ns(max_hold_ns))
		return;
	/* The counter wraps below 0 if another lane counted the slot when it was taken. The sum of
	 * all lanes is right. */
	wr_stat_add(lane, slot, (enum wr_stat)turn, UINT64_MAX);
	wr_stat_add(lane, slot,
		    (enum wr_stat)(returned ? WR_COST_STAT_refunded : WR_COST_STAT_lost), 1);
}

/* ---- once a second ---- */

void wr_stats_expire_slots(const struct wr_stats_map *map, uint32_t slot, uint64_t now_ns)
{
	const struct wr_rule_numbers *numbers = rule_numbers(map, slot);
	uint64_t max_hold_ns, counts[WR_STAT_COUNT], rest;
	enum wr_stats_cost turn;

	if (!numbers || algorithm_of(numbers) != WEIR_CONCURRENT)
		return;
	/* There are four counters, so turn t + 2 has the same counter as turn t - 2, whose slots
	 * are not held any more. The counter of turn t + 1 is not touched, because another thread,
	 * whose clock is ahead, may already use it. */
	max_hold_ns = wr_stats_load(&numbers->period_ns);
	turn = wr_stats_turn_counter(max_hold_ns, now_ns + 2 * wr_stats_turn_ns(max_hold_ns));
	wr_stats_read(map, slot, counts);
	rest = counts[turn];
	if (rest == 0)
		return;
	__atomic_fetch_sub(&map->shared[slot].count[turn], rest, __ATOMIC_RELAXED);
	__atomic_fetch_add(&map->shared[slot].count[WR_COST_STAT_lost], rest, __ATOMIC_RELAXED);
}

/* ---- reading ---- */

/* Returns the count, or 0 if it is below 0. A count can be below 0 for a moment, because lanes are
 * read one after the other while threads write them. */
static uint64_t not_below_zero(uint64_t count)
{
	return count <= INT64_MAX ? count : 0;
}

static void read_cost(const struct wr_stats_map *map, uint32_t slot,
		      const struct wr_rule_numbers *numbers, struct weir_cost *cost)
{
	uint64_t counts[WR_STAT_COUNT];

	wr_stats_read(map, slot, counts);
#define TAKE_COUNT(field, text) cost->field = counts[WR_COST_STAT_##field];
	WEIR_COST_STATS(TAKE_COUNT)
#undef TAKE_COUNT
	cost->algorithm = algorithm_of(numbers);
	cost->limit = __atomic_load_n(&numbers->limit, __ATOMIC_RELAXED);
	if (cost->algorithm != WEIR_CONCURRENT)
		return;
	cost->in_use = not_below_zero(cost->reserved - cost->refunded - cost->lost);
	cost->lost = not_below_zero(cost->lost);
	cost->actual = cost->owed = cost->defaulted = cost->clamped = 0;
}

uint32_t wr_stats_cost_totals(const struct wr_stats_map *map, uint32_t slot, uint64_t slot_seconds,
			      uint64_t gap_s, uint64_t totals[WR_HISTORY_LINES])
{
	const struct wr_rule_numbers *numbers = rule_numbers(map, slot);
	struct weir_cost cost = {0};

	if (!numbers)
		return WEIR_STAT_OTHER;
	read_cost(map, slot, numbers, &cost);
	totals[WR_COST_LINE_RESERVED] = cost.reserved;
	totals[WR_COST_LINE_ACTUAL] = cost.actual;
	totals[WR_COST_LINE_REFUNDED] = cost.refunded;
	totals[WR_COST_LINE_OWED] = cost.owed;
	if (cost.algorithm == WEIR_CONCURRENT) {
		totals[WR_SLOT_LINE_SECONDS] = slot_seconds + cost.in_use * gap_s;
		totals[WR_SLOT_LINE_LOST] = cost.lost;
	}
	return (uint32_t)(numbers - map->history.numbers);
}

int weir_costs_each(struct weir_table *table, weir_cost_fn fn, void *context)
{
	struct wr_stats_map map;
	int rc = 0;

	if (!table || !fn)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	for (uint32_t slot = WEIR_STAT_RULES; slot < map.name_count && rc == 0; slot++) {
		const struct wr_rule_numbers *numbers;
		struct weir_cost cost = {.size = sizeof cost};
		char name[WR_STAT_NAME_MAX + 1];

		if (wr_stats_kind(&map, slot) != WR_NAME_COST)
			continue;
		numbers = rule_numbers(&map, slot);
		if (!numbers || !wr_stats_name(&map, slot, name, &cost.rule))
			continue;
		cost.slot = (uint32_t)(numbers - map.history.numbers);
		cost.history_slot = slot;
		read_cost(&map, slot, numbers, &cost);
		rc = fn(context, &cost);
	}
	return rc;
}
