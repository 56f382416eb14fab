/* Computes this node's share of limits, by which requests are decided while the central store is
 * unavailable. Called during the decision of an ask, and by the commands CL.THROTTLE and THROTTLE.
 *
 * For each limit of the central store, the table has this node's own counter. All units that the
 * central store took for this node are added to this counter, even above the limit. If the central
 * store fails, requests are decided on this counter, so that units used before the failure still
 * count. Other nodes may have used more than their share. So after each answer of the central
 * store, the units that remain in the central store are divided by the number of nodes. If this
 * node's share has more free units than that, the difference is added to the counter as if it had
 * been used. In this way the sum of all nodes stays within the limit.
 *
 *   windows, logs   The counter belongs to the whole limit. A decision compares the count with the
 *                   share.
 *   slots           The counter has the slots that this node's requests hold. A decision compares
 *                   their number with the share. The share is not reduced, because the difference
 *                   would hold slots that no request gives back. Slots are not reported.
 *   buckets         The counter is a bucket with the size and rate of the share. Units are
 *                   added only until it is empty, because a bucket below empty would refuse for
 *                   longer than the time in which it fills.
 *
 * Example: 1000 per minute, three nodes. A node that has used 300 when the central store fails
 * admits 33 more. A node that has used 700 admits none until the next minute. A node that has used
 * no units admits 333, or 10 if the central store's last answer was that 30 units remain. */
#include "limiter/share.h"

#include "limiter/fleet.h"

/* Estimated time until a failed central store is available again. */
#define FAILED_RETRY_NS 1000000000u

static uint32_t part_of(uint32_t whole, uint32_t nodes)
{
	uint32_t part = whole / nodes;

	return part || !whole ? part : 1;
}

struct weir_limit wr_limiter_limit_share(const struct weir_limit *limit, uint32_t nodes)
{
	struct weir_limit share = *limit;

	if (nodes <= 1)
		return share;
	share.shares = 0; /* weir_limit_check requires 0 */
	share.limit = part_of(limit->limit, nodes);
	share.burst = part_of(limit->burst, nodes);
	share.queue_size = limit->queue_size / nodes;
	share.soft_ceiling = part_of(limit->soft_ceiling, nodes);
	if (weir_limit_check(&share, NULL) != 0) {
		/* Rounding has made the share invalid: for example, at a rate of 1 the burst would
		 * take more than 100 years to fill. So the share gets no burst, no queue and no
		 * soft mode. */
		share.burst = share.queue_size = share.soft_ceiling = 0;
		share.soft_for_ns = 0;
		weir_limit_check(&share, NULL);
	}
	share.shares = nodes;
	return share;
}

/* Returns the need's own copy of its limit, which the caller can change. Overrides and limits with
 * a calendar already have a copy, so there is at most one copy per need. */
static struct weir_limit *own_limit(struct weir_ask *ask, struct wr_ask_need *need)
{
	const struct weir_limit *limit = need->need.limit;

	if (limit >= ask->own && limit < ask->own + ask->own_count)
		return &ask->own[limit - ask->own];
	need->own = ask->own_count++;
	ask->own[need->own] = *limit;
	need->need.limit = &ask->own[need->own];
	return &ask->own[need->own];
}

static void decide_on_share(struct weir_ask *ask, struct wr_ask_need *need)
{
	uint32_t nodes = wr_fleet_size(ask->engine);
	const struct weir_limit *limit = need->need.limit;
	struct weir_limit *own;

	need->decided_by = WR_NEED_TABLE;
	need->whole =
		(struct wr_limiter_limit_numbers){limit->limit, limit->burst, limit->queue_size,
						  limit->soft_ceiling, limit->soft_for_ns};
	if (nodes <= 1)
		return;
	own = own_limit(ask, need);
	*own = wr_limiter_limit_share(own, nodes);
}

void wr_ask_need_store_failed(struct weir_ask *ask, struct wr_ask_need *need)
{
	uint8_t policy = need->rule ? need->rule->on_store_failure : (uint8_t)WR_FAIL_LOCAL;
	uint32_t capacity = need->need.limit->capacity;

	need->failed = true;
	need->decided_by = WR_NEED_DECIDED;
	need->need.decision = (struct weir_decision){.limit = capacity};
	if (policy == WR_FAIL_DENY) {
		need->need.decision.retry_after_ns = FAILED_RETRY_NS;
		return;
	}
	need->need.decision.admitted = 1;
	need->need.decision.remaining = capacity;
	if (policy == WR_FAIL_LOCAL)
		decide_on_share(ask, need);
}

/* Returns the limit under which this node's own counter counts: the share for buckets, otherwise
 * the whole limit. */
static struct weir_limit counted_under(const struct weir_limit *limit, uint32_t nodes)
{
	bool bucket =
		limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;

	return bucket ? wr_limiter_limit_share(limit, nodes) : *limit;
}

void wr_ask_need_book(struct weir_ask *ask, struct wr_ask_need *need, int64_t cost)
{
	struct weir_limit limit = counted_under(need->need.limit, wr_fleet_size(ask->engine));

	need->booked = wr_store_charge(ask->engine->table, &limit, need->need.key, cost,
				       ask->now_ns, &need->need.decision.charged_ns);
}

void wr_ask_book(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->same_as != i || !need->taken || need->need.cost <= 0)
			continue;
		if (need->decided_by == WR_NEED_TABLE && need->failed && !ask->no_secret &&
		    !need->eventual && !wr_ask_need_is_slot(need))
			need->message = WR_MESSAGE_REPORT;
		if (need->decided_by == WR_NEED_CENTRAL || need->decided_by == WR_NEED_LEASED)
			wr_ask_need_book(ask, need, need->need.cost);
	}
}

/* Returns whether the answer of the central store is about the current window. Returns false if the
 * window ended while the answer was in flight. */
static bool is_same_window(const struct weir_limit *limit, const struct weir_decision *answer,
			   uint64_t now_ns)
{
	uint64_t start_ns = limit->window_start_ns, end_ns = limit->window_end_ns, left_ns;

	if (limit->algorithm != WEIR_FIXED_WINDOW)
		return true;
	if (!end_ns) {
		start_ns = now_ns - now_ns % limit->period_ns;
		end_ns = start_ns + limit->period_ns;
	}
	left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
	return (answer->reset_after_ns > left_ns
			? answer->reset_after_ns - left_ns
			: left_ns - answer->reset_after_ns) <= (end_ns - start_ns) / 2;
}

void wr_share_cap(struct weir_table *table, const struct weir_limit *limit, uint32_t nodes,
		  struct wr_key key, const struct weir_decision *answer, uint64_t now_ns)
{
	uint32_t share = wr_limiter_limit_share(limit, nodes).capacity + answer->granted / nodes;
	uint32_t part = answer->remaining / nodes;
	struct weir_limit counted;
	struct weir_decision here;
	uint64_t used, charged_ns;

	if (part >= share || answer->remaining >= answer->limit ||
	    limit->algorithm == WEIR_CONCURRENT || !is_same_window(limit, answer, now_ns))
		return;
	counted = counted_under(limit, nodes);
	wr_store_decide(table, &counted, key, 0, now_ns, WR_LOOK, &here);
	used = here.limit - here.remaining;
	if (used < share - part)
		wr_store_charge(table, &counted, key, (int64_t)(share - part - used), now_ns,
				&charged_ns);
}

void wr_ask_cap_shares(struct weir_ask *ask)
{
	uint32_t nodes = wr_fleet_size(ask->engine);

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (wr_ask_need_is_asked(need) && need->same_as == i)
			wr_share_cap(ask->engine->table, need->need.limit, nodes, need->need.key,
				     &need->need.decision, ask->now_ns);
	}
}

void wr_ask_need_unbook(struct weir_ask *ask, struct wr_ask_need *need, int64_t units,
			uint64_t now_ns)
{
	struct weir_limit limit = counted_under(need->need.limit, wr_fleet_size(ask->engine));

	if ((uint64_t)units > need->booked)
		units = need->booked;
	if (units == 0)
		return;
	wr_store_return(ask->engine->table, &limit, need->need.key, units,
			need->need.decision.charged_ns, now_ns);
	need->booked -= (uint32_t)units;
}

void wr_ask_need_book_more(struct weir_ask *ask, struct wr_ask_need *need, int64_t units,
			   uint64_t now_ns)
{
	struct weir_limit limit = counted_under(need->need.limit, wr_fleet_size(ask->engine));
	uint64_t charged_ns;

	wr_store_charge(ask->engine->table, &limit, need->need.key, units, now_ns, &charged_ns);
}

void wr_ask_unbook(struct weir_ask *ask, uint64_t now_ns)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->message == WR_MESSAGE_REPORT)
			need->message = WR_MESSAGE_NONE;
		if (need->booked)
			wr_ask_need_unbook(ask, need, need->booked, now_ns);
	}
}
