/* A node without the store: its share of the limits, and the books it keeps for that case.
 *
 * The table's counter of a limit that the store keeps has what this node used up: each take of the
 * store is charged here too, whether it fits or not. When the store fails, the share is decided on
 * that counter, so what was used in this window before the outage counts. And it has at least so
 * much that no more than its part of what the store had left last is free: where other nodes have
 * used up more than theirs, the sum stays within the limit.
 *
 *   windows, logs   are charged under the whole limit: they count, and the share is a smaller
 * number to compare the count with buckets         are charged under the share, to empty at most: a
 * bucket that lacks more than its share holds would refuse for longer than it takes to fill
 *
 * Example: 1000 per minute, three nodes. One has used 300 when the store fails: 33 more. One has
 * used 700: nothing until the next minute. One has used none: 333, or, if it has heard that 30 are
 * left, 10. */
#include "limiter/share.h"

#include "limiter/fleet.h"

#define FAILED_RETRY_NS 1000000000u /* when a store that failed may be back; a guess */

static uint32_t part_of(uint32_t whole, uint32_t nodes)
{
	uint32_t part = whole / nodes;

	return part || !whole ? part : 1;
}

struct weir_limit wr_limit_share(const struct weir_limit *limit, uint32_t nodes)
{
	struct weir_limit share = *limit;

	if (nodes <= 1)
		return share;
	share.shares = 0; /* until it is checked */
	share.limit = part_of(limit->limit, nodes);
	share.burst = part_of(limit->burst, nodes);
	share.queue_size = limit->queue_size / nodes;
	share.soft_ceiling = part_of(limit->soft_ceiling, nodes);
	if (weir_limit_check(&share, NULL) != 0) {
		/* The rounded numbers are no valid limit: a rate of 1 would take longer than a
		 * lifetime to fill the burst. */
		share.burst = share.queue_size = share.soft_ceiling = 0;
		share.soft_for_ns = 0;
		weir_limit_check(&share, NULL);
	}
	share.shares = nodes;
	return share;
}

/* Where the need's limit may be written: in a copy of its own. There is one for each need at most:
 * overrides and calendars have theirs already. */
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

static void decide_here(struct weir_ask *ask, struct wr_ask_need *need)
{
	uint32_t nodes = wr_fleet_size(ask->engine);
	const struct weir_limit *limit = need->need.limit;
	struct weir_limit *own;

	need->part = WR_HERE;
	need->whole = (struct wr_numbers){limit->limit, limit->burst, limit->queue_size,
					  limit->soft_ceiling, limit->soft_for_ns};
	if (nodes <= 1)
		return;
	own = own_limit(ask, need);
	*own = wr_limit_share(own, nodes);
}

void wr_ask_fail(struct weir_ask *ask, struct wr_ask_need *need)
{
	uint8_t policy = need->rule ? need->rule->on_store_failure : (uint8_t)WR_FAIL_LOCAL;
	uint32_t capacity = need->need.limit->capacity;

	need->failed = true;
	need->part = WR_NOWHERE;
	need->need.decision = (struct weir_decision){.limit = capacity};
	if (policy == WR_FAIL_DENY) {
		need->need.decision.retry_after_ns = FAILED_RETRY_NS;
		return;
	}
	need->need.decision.admitted = 1;
	need->need.decision.remaining = capacity;
	if (policy == WR_FAIL_LOCAL)
		decide_here(ask, need);
}

/* The limit that this node's own use is counted under. */
static struct weir_limit counted_under(const struct weir_limit *limit, uint32_t nodes)
{
	bool bucket =
		limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;

	return bucket ? wr_limit_share(limit, nodes) : *limit;
}

static struct weir_limit booked_limit(const struct weir_ask *ask, const struct weir_limit *limit)
{
	return counted_under(limit, wr_fleet_size(ask->engine));
}

void wr_ask_book_one(struct weir_ask *ask, struct wr_ask_need *need, int64_t cost)
{
	struct weir_limit limit = booked_limit(ask, need->need.limit);

	need->booked = wr_store_charge(ask->engine->table, &limit, need->need.key, cost,
				       ask->now_ns, &need->need.decision.charged_ns);
}

void wr_ask_book(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->same_as != i || !need->taken || need->need.cost <= 0)
			continue;
		if (need->part == WR_HERE && need->failed && !ask->strayed && !need->eventual)
			need->tell = WR_TELL_REPORT;
		if (need->part == WR_THERE || need->part == WR_SPENT)
			wr_ask_book_one(ask, need, need->need.cost);
	}
}

/* Whether the window the store spoke of is the one that holds here: it may have ended while the
 * answer was on its way. */
static bool is_same_window(const struct weir_limit *limit, const struct weir_decision *said,
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
	return (said->reset_after_ns > left_ns
			? said->reset_after_ns - left_ns
			: left_ns - said->reset_after_ns) <= (end_ns - start_ns) / 2;
}

void wr_share_heed(struct weir_table *table, const struct weir_limit *limit, uint32_t nodes,
		   struct wr_key key, const struct weir_decision *said, uint64_t now_ns)
{
	uint32_t share = wr_limit_share(limit, nodes).capacity + said->granted / nodes;
	uint32_t part = said->remaining / nodes;
	struct weir_limit counted;
	struct weir_decision here;
	uint64_t used, charged_ns;

	if (part >= share || said->remaining >= said->limit || !is_same_window(limit, said, now_ns))
		return;
	counted = counted_under(limit, nodes);
	wr_store_decide(table, &counted, key, 0, now_ns, WR_LOOK, &here);
	used = here.limit - here.remaining;
	if (used < share - part)
		wr_store_charge(table, &counted, key, (int64_t)(share - part - used), now_ns,
				&charged_ns);
}

void wr_ask_heed(struct weir_ask *ask)
{
	uint32_t nodes = wr_fleet_size(ask->engine);

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (wr_ask_is_asked(need) && need->same_as == i)
			wr_share_heed(ask->engine->table, need->need.limit, nodes, need->need.key,
				      &need->need.decision, ask->now_ns);
	}
}

void wr_ask_unbook(struct weir_ask *ask, uint64_t now_ns)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct weir_limit limit;

		if (need->tell == WR_TELL_REPORT)
			need->tell = WR_TELL_NOTHING;
		if (!need->booked)
			continue;
		limit = booked_limit(ask, need->need.limit);
		wr_store_return(ask->engine->table, &limit, need->need.key, need->booked,
				need->need.decision.charged_ns, now_ns);
		need->booked = 0;
	}
}
