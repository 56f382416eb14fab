/* Counts costs in the statistics: units charged at arrival, units settled, refunds and debts. Each
 * rule that has costs gets a second line of counters (WEIR_COST_STATS), when it is first used. */
#include "limiter/settle.h"

#include "rules/http.h"

/* Returns the slot of the rule's counters of costs. The slot is looked up once per generation. */
static uint32_t cost_slot(struct weir_ask *ask, const struct wr_ask_need *need)
{
	uint32_t *known = &ask->generation->cost_slots[need->policy];
	uint32_t slot = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (slot == 0) {
		/* 0 is WEIR_STAT_OTHER: the directory has no room, and the costs are not counted.
		 * The search is then repeated, because it is rare that a directory is full. */
		slot = wr_stats_slot_of(&ask->engine->stats, WR_NAME_COST, need->rule->stat);
		__atomic_store_n(known, slot, __ATOMIC_RELAXED);
	}
	return slot;
}

static void add_cost(struct wr_lane *lane, uint32_t slot, enum wr_stats_cost what, uint64_t n)
{
	if (n)
		wr_stat_add(lane, slot, (enum wr_stat)what, n);
}

static void count_note(struct wr_lane *lane, uint32_t slot, uint8_t note)
{
	add_cost(lane, slot, WR_COST_STAT_defaulted, note == WR_COST_DEFAULTED);
	add_cost(lane, slot, WR_COST_STAT_clamped, note == WR_COST_CLAMPED);
}

void wr_ask_count_charged(struct weir_ask *ask, struct wr_lane *lane,
			  const struct wr_ask_need *need)
{
	const struct wr_ask_descriptor *descriptor = &ask->descriptors[need->descriptor];
	bool slots = need->need.limit->algorithm == WEIR_CONCURRENT;
	uint32_t slot;

	if (!need->rule ||
	    (!slots && !ask->reserves &&
	     !(descriptor->request && (descriptor->request->cost || descriptor->request->count))))
		return;
	slot = cost_slot(ask, need);
	if (slot == WEIR_STAT_OTHER)
		return;
	add_cost(lane, slot, WR_COST_STAT_reserved, (uint64_t)need->need.cost);
	if (!slots)
		count_note(lane, slot, descriptor->cost_note);
}

void wr_ask_count_settled(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t charged,
			  uint64_t actual, uint64_t returned, uint64_t owed)
{
	uint64_t wanted = actual < charged ? charged - actual : actual - charged;
	struct wr_lane *lane;
	uint32_t slot;

	if (ask->engine->uncounted || !need->rule)
		return;
	lane = wr_lane_mine(&ask->engine->stats);
	slot = cost_slot(ask, need);
	if (slot == WEIR_STAT_OTHER)
		return;
	add_cost(lane, slot, WR_COST_STAT_settled, 1);
	add_cost(lane, slot, WR_COST_STAT_actual, actual);
	add_cost(lane, slot, WR_COST_STAT_refunded, returned);
	add_cost(lane, slot, WR_COST_STAT_owed, owed);
	add_cost(lane, slot, WR_COST_STAT_lost, wanted - returned - owed);
	if (need->need.limit->algorithm != WEIR_CONCURRENT)
		count_note(lane, slot, ask->descriptors[need->descriptor].actual_note);
}
