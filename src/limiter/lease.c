/* Spends and gives back units of leases for an ask. Called by decide.c. */
#include "limiter/lease.h"

#include "limiter/share.h"
#include "store/lease.h"

int weir_ask_set_boottime(struct weir_ask *ask, uint64_t boottime_ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	ask->mono_ns = boottime_ns;
	return 0;
}

static enum wr_store_lease_answer spend_need(struct weir_ask *ask, struct wr_ask_need *need)
{
	struct weir_decision *decision = &need->need.decision;
	const struct weir_limit *limit = need->need.limit;
	uint64_t identity = wr_store_lease_identity(limit->limit, limit->burst, need->granted);
	struct weir_table *table = ask->engine->table;
	enum wr_store_lease_answer answer;

	if (ask->settles || ask->reserves)
		need->decided_us = wr_store_lease_granted_us(table, need->need.key);
	answer = wr_store_lease_spend(table, need->need.key, identity, need->need.cost,
				      ask->mono_ns, decision, &need->lease_grant);
	if (answer != WR_LEASE_NOTHING)
		decision->granted =
			need->granted < decision->limit ? need->granted : decision->limit;
	need->taken = answer == WR_LEASE_SPENT;
	if (answer == WR_LEASE_SPENT)
		need->decided_by = WR_NEED_LEASED;
	return answer;
}

/* Returns whether Redis can take back units that it has counted as spent. A log counts them with the
 * time of the report, which is not known here, so it would not find them. */
static bool can_return(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	return need->decided_us && !ask->no_secret &&
	       need->need.limit->algorithm != WEIR_SLIDING_LOG;
}

void wr_ask_need_lease_return(struct weir_ask *ask, struct wr_ask_need *need, int64_t units,
			      uint64_t mono_ns)
{
	struct weir_table *table = ask->engine->table;

	if (!can_return(ask, need)) {
		wr_store_lease_unspend(table, need->need.key, units, need->lease_grant, mono_ns);
	} else if (!wr_store_lease_give_back(table, need->need.key, units, need->lease_grant,
					     mono_ns)) {
		need->message = WR_MESSAGE_RETURN;
		need->message_cost = units;
	}
}

static void unspend_need(struct weir_ask *ask, struct wr_ask_need *need, uint64_t mono_ns)
{
	struct weir_decision *decision = &need->need.decision;
	uint64_t left = decision->remaining + (uint64_t)need->need.cost;

	if (ask->cancelled)
		wr_ask_need_lease_return(ask, need, need->need.cost, mono_ns);
	else
		wr_store_lease_unspend(ask->engine->table, need->need.key, need->need.cost,
				       need->lease_grant, mono_ns);
	need->taken = false;
	decision->remaining = (uint32_t)(left < decision->limit ? left : decision->limit);
}

void wr_ask_unspend(struct weir_ask *ask)
{
	uint64_t mono_ns = 0;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->decided_by != WR_NEED_LEASED || !need->taken)
			continue;
		if (mono_ns == 0)
			mono_ns = wr_engine_mono_ns(ask->engine);
		unspend_need(ask, need, mono_ns);
	}
}

/* Returns whether need `i` is allowed to spend leased units. A descriptor takes from all of its
 * quotas or from none, so a quota is allowed to spend them only if it is the only limit of its
 * descriptor. */
static bool may_spend(const struct weir_ask *ask, uint8_t i)
{
	const struct wr_ask_need *need = &ask->needs[i];

	return need->decided_by == WR_NEED_CENTRAL && need->same_as == i && need->need.cost > 0 &&
	       need->rule && wr_limiter_lease_fits(need->rule) &&
	       (need->class != WR_QUOTA_CLASS ||
		ask->descriptors[need->descriptor].need_count == 1);
}

bool wr_ask_spend(struct weir_ask *ask)
{
	bool refused = false;

	if (!ask->leases)
		return false;
	wr_ask_read_mono(ask);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (!may_spend(ask, i) || spend_need(ask, need) != WR_LEASE_REFUSED)
			continue;
		need->decided_by = WR_NEED_DECIDED;
		refused |= need->class == WR_ENFORCED;
	}
	return refused;
}

/* Returns the number of units to add now to this node's own counter (share.c). For a limit below
 * 2048, or if `remaining` of the decision is unknown, each request adds its own units. For a larger
 * limit, units are added in portions, so that most requests need not write to the counter. A
 * portion is about a thousandth of the limit, and at most 64 units. Each time `remaining` falls
 * below a multiple of the portion, a whole portion is added. */
static int64_t units_to_book(const struct wr_ask_need *need)
{
	uint64_t left = need->need.decision.remaining, before = left + (uint64_t)need->need.cost;
	unsigned shift = 31 - (unsigned)__builtin_clz(need->need.limit->limit | 1);

	if (shift <= 10 || left >= need->need.decision.limit)
		return need->need.cost;
	shift = shift > 16 ? 6 : shift - 10;
	return (int64_t)(((before >> shift) - (left >> shift)) << shift);
}

static bool spend_and_book(struct weir_ask *ask, struct wr_ask_need *need)
{
	struct weir_table *table = ask->engine->table;
	uint32_t now_s = wr_seconds(ask->now_ns);
	struct wr_spot spot;
	int64_t due;

	if (!wr_table_find_to_swap(table, need->need.key, &spot) &&
	    wr_override_any(wr_override_find(table, need->need.key, now_s)))
		return false;
	if (spend_need(ask, need) != WR_LEASE_SPENT)
		return false;
	due = units_to_book(need);
	if (due)
		wr_ask_need_book(ask, need, due);
	return true;
}

bool wr_ask_spend_quickly(struct weir_ask *ask)
{
	wr_ask_read_mono(ask);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		if (ask->needs[i].same_as != i || spend_and_book(ask, &ask->needs[i]))
			continue;
		wr_ask_unbook(ask, ask->now_ns);
		wr_ask_unspend(ask);
		for (uint8_t k = 0; k < i; k++)
			ask->needs[k].decided_by = WR_NEED_CENTRAL;
		return false;
	}
	return true;
}
