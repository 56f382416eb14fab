/* Takes units from several counters: from all or from none. Called by weir_take_all() and by the
 * limiter. */
#include "store/need.h"

#include "base/assert.h"

static void look_at_need(struct weir_table *table, struct wr_need *need, uint64_t now_ns)
{
	wr_store_decide(table, need->limit, need->key, need->cost, now_ns, WR_LOOK,
			&need->decision);
}

bool wr_needs_look(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns)
{
	bool admitted = true;

	for (size_t i = 0; i < count; i++) {
		look_at_need(table, list[i], now_ns);
		admitted &= list[i]->decision.admitted;
	}
	return admitted;
}

/* Counts the cost (WR_CHARGE) or marks the key as refused (WR_MARK). need->decision is not
 * changed. */
static void charge_or_mark(struct weir_table *table, const struct wr_need *need, int64_t cost,
			   uint64_t now_ns, enum wr_purpose purpose)
{
	struct weir_decision ignored = {0};

	wr_store_decide(table, need->limit, need->key, cost, now_ns, purpose, &ignored);
}

static bool counts_rejected(const struct wr_need *need)
{
	return need->limit->flags & WEIR_COUNT_REJECTED;
}

/* Corrects the decision of a need that was admitted, but whose cost was not taken or was given
 * back: adds the cost to `remaining` again. */
static void add_back_cost(struct wr_need *need)
{
	struct weir_decision *decision = &need->decision;
	bool is_slot = need->limit->algorithm == WEIR_CONCURRENT; /* one slot, whatever the cost */
	uint64_t left = decision->remaining + (is_slot ? 1 : (uint64_t)need->cost);

	if (decision->admitted && !decision->soft)
		decision->remaining = (uint32_t)(left < decision->limit ? left : decision->limit);
	decision->delay_ns = 0;
	decision->charged_ns = 0;
}

void wr_needs_refuse(struct weir_table *table, struct wr_need *const *list, size_t count,
		     uint64_t now_ns)
{
	for (size_t i = 0; i < count; i++) {
		struct wr_need *need = list[i];

		if (need->cost > 0 && counts_rejected(need)) {
			charge_or_mark(table, need, need->cost, now_ns, WR_CHARGE);
			continue;
		}
		if (need->cost > 0 && !need->decision.admitted)
			charge_or_mark(table, need, need->cost, now_ns, WR_MARK);
		add_back_cost(need);
	}
}

uint64_t wr_need_return(struct weir_table *table, struct wr_need *need, uint64_t now_ns)
{
	uint64_t returned = 0;

	wr_assert(need->cost >= 0);
	if (need->cost > 0) {
		returned = wr_store_return(table, need->limit, need->key, need->cost,
					   need->decision.charged_ns, now_ns);
		add_back_cost(need);
	}
	return returned;
}

void wr_needs_undo(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns)
{
	for (size_t i = 0; i < count; i++)
		if (!counts_rejected(list[i]))
			wr_need_return(table, list[i], now_ns);
}

/* Takes units from the counters in order, up to the first counter that refuses. Returns the number
 * of counters from which units were taken. */
static size_t take_in_order(struct weir_table *table, struct wr_need *const *list, size_t count,
			    uint64_t now_ns)
{
	for (size_t i = 0; i < count; i++) {
		wr_store_take(table, list[i]->limit, list[i]->key, list[i]->cost, now_ns,
			      &list[i]->decision);
		if (!list[i]->decision.admitted)
			return i;
	}
	return count;
}

static bool seem_free(const struct weir_table *table, struct wr_need *const *list, size_t count,
		      uint64_t now_ns)
{
	for (size_t i = 0; i < count; i++)
		if (!wr_store_likely_admits(table, list[i]->limit, list[i]->key, list[i]->cost,
					    now_ns))
			return false;
	return true;
}

/* Before units are taken, all counters except the first are read, to see whether one would refuse.
 * So units seldom have to be given back. The first counter is not read: when it refuses, no units
 * have been taken yet. seem_free() reads the counters quickly, but fills in no decisions.
 *
 * If seem_free() returns false, a counter may refuse. Then wr_needs_look() reads the same counters
 * again and fills in their decisions. If seem_free() returns true, units are taken at once. If a
 * counter refuses nevertheless, the counters after it have no decision yet, and wr_needs_look()
 * fills in their decisions. */
bool wr_needs_take(struct weir_table *table, struct wr_need *const *list, size_t count,
		   uint64_t now_ns)
{
	bool quick = count > 1 && seem_free(table, list + 1, count - 1, now_ns);
	size_t taken;

	wr_assert(list || count == 0);
	if (count > 1 && !quick && !wr_needs_look(table, list + 1, count - 1, now_ns)) {
		look_at_need(table, list[0], now_ns);
		wr_needs_refuse(table, list, count, now_ns);
		return false;
	}
	taken = take_in_order(table, list, count, now_ns);
	if (taken == count)
		return true;
	wr_needs_undo(table, list, taken, now_ns);
	if (quick)
		wr_needs_look(table, list + taken + 1, count - taken - 1, now_ns);
	wr_needs_refuse(table, list + taken + 1, count - taken - 1, now_ns);
	return false;
}
