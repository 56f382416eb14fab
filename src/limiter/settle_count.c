/* Counts costs in the statistics: units charged at arrival, units used, units given back, and units
 * charged at settling. Each rule that has costs gets a second line of counters (WEIR_COST_STATS),
 * when it is first used. */
#include "limiter/settle.h"

#include "rules/http.h"

/* Returns the slot of the rule's counters of costs. The slot is looked up once per generation. */
static uint32_t cost_slot(struct weir_ask *ask, const struct wr_ask_need *need)
{
	uint32_t *known = &ask->generation->cost_slots[need->policy];
	uint32_t slot = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (slot == 0) {
		/* 0 is WEIR_STAT_OTHER: the directory has no room, and the costs are not counted.
		 * The search is then repeated for each request. A full directory is rare, so its
		 * cost does not matter. */
		slot = wr_stats_cost_slot(&ask->engine->stats, need->rule->stat, need->slot);
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

/* Returns whether the units of the need are counted as costs. */
static bool has_costs(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct wr_rules_request *request = ask->descriptors[need->descriptor].request;

	return wr_ask_need_is_slot(need) || ask->reserves ||
	       (request && (request->cost || request->count));
}

void wr_ask_count_charged(struct weir_ask *ask, struct wr_lane *lane,
			  const struct wr_ask_need *need)
{
	uint32_t slot;

	if (!need->rule || !need->taken || !has_costs(ask, need))
		return;
	slot = cost_slot(ask, need);
	if (slot == WEIR_STAT_OTHER)
		return;
	if (wr_ask_need_is_slot(need)) {
		wr_lane_count_taken(lane, slot, need->need.limit->period_ns, ask->now_ns);
		return;
	}
	add_cost(lane, slot, WR_COST_STAT_reserved, (uint64_t)need->need.cost);
	count_note(lane, slot, ask->descriptors[need->descriptor].cost_note);
}

/* Keeps a settlement for the decision log. */
static void keep_settlement(struct weir_ask *ask, const struct wr_ask_settlement *settlement)
{
	const struct wr_ask_settlement *kept = &ask->settlement;

	if (!wr_ask_need_is_slot(settlement->need) &&
	    (!kept->need || kept->returned + kept->owed < settlement->returned + settlement->owed))
		ask->settlement = *settlement;
}

void wr_ask_count_settled(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t charged,
			  uint64_t actual, uint64_t returned, uint64_t owed, uint64_t now_ns)
{
	uint64_t wanted = actual < charged ? charged - actual : actual - charged;
	struct wr_lane *lane;
	uint32_t slot;

	if (wanted == 0 && !has_costs(ask, need))
		return;
	keep_settlement(ask, &(struct wr_ask_settlement){need, charged, actual, returned, owed});
	if (ask->engine->uncounted || !need->rule)
		return;
	slot = cost_slot(ask, need);
	if (slot == WEIR_STAT_OTHER)
		return;
	lane = wr_lane_mine(&ask->engine->stats);
	add_cost(lane, slot, WR_COST_STAT_settled, 1);
	if (wr_ask_need_is_slot(need)) {
		wr_lane_count_freed(lane, slot, need->need.limit->period_ns, ask->now_ns, now_ns,
				    returned != 0);
		return;
	}
	if (!has_costs(ask, need))
		/* wr_ask_count_charged() did not know that the request would be settled. */
		add_cost(lane, slot, WR_COST_STAT_reserved, charged);
	add_cost(lane, slot, WR_COST_STAT_actual, actual);
	add_cost(lane, slot, WR_COST_STAT_refunded, returned);
	add_cost(lane, slot, WR_COST_STAT_owed, owed);
	add_cost(lane, slot, WR_COST_STAT_lost, wanted - returned - owed);
	count_note(lane, slot, ask->descriptors[need->descriptor].actual_note);
}

void wr_ask_count_cancelled(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t returned,
			    uint64_t now_ns)
{
	bool counted = ask->verdict == WEIR_ADMIT || ask->verdict == WEIR_DELAY;

	if (__builtin_expect(ask->settles, 0) && counted && need->counts)
		wr_ask_count_settled(ask, need, (uint64_t)need->need.cost, 0, returned, 0, now_ns);
}
