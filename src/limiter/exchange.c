/* Limits with `consistency: eventual`: they are decided in the table, and the service exchanges
 * their counts with other nodes. Called during the decision of an ask with such a limit. */
#include "limiter/ask.h"

#include <string.h>

#include "limiter/fleet.h"
#include "limiter/lease.h"
#include "limiter/message.h"
#include "limiter/share.h"
#include "store/exchange.h"

_Static_assert(WR_EXCHANGE_ID == WR_QUESTION_ID, "one kind of id");

/* Claims an exchange slot for the key of a need. If the fleet's secret is not known, the need has
 * no fleet key, and no slot is claimed. */
static void claim_slot(struct weir_ask *ask, struct wr_ask_need *need)
{
	const struct weir_limit *limit = need->need.limit;
	struct wr_store_exchange_name name = {
		.fleet_key = {need->fleet_key[0], need->fleet_key[1]},
		.algorithm = limit->algorithm,
		.limit = limit->limit,
		.burst = limit->burst,
		.period_ns = limit->period_ns,
		.window_start_ns = limit->window_start_ns,
		.window_end_ns = limit->window_end_ns,
	};
	char id[WR_QUESTION_ID + 1];

	if (!need->fleet_key[0] && !need->fleet_key[1])
		return;
	name.id_len = (uint32_t)wr_ask_need_id(need, id);
	memcpy(name.id, id, name.id_len);
	need->exchange =
		wr_store_exchange_claim(ask->engine->table, need->need.key, &name, ask->mono_ns);
}

/* Called if the latest exchange is too long ago, so that the need's limit is only this node's
 * share. The counter still contains units of other nodes from earlier exchanges, and these units
 * would use up the share. So the share is raised by the number of these units, but at most to the
 * whole limit. */
static void add_charged(struct weir_ask *ask, struct wr_ask_need *need)
{
	struct weir_limit *own = &ask->own[need->own];
	uint64_t limit;

	if (need->decided_by != WR_NEED_TABLE || need->need.limit != own ||
	    wr_fleet_size(ask->engine) <= 1)
		return;
	limit = own->limit + (uint64_t)wr_store_exchange_charged(ask->engine->table, need->exchange,
								 own, ask->now_ns);
	own->limit = (uint32_t)(limit < need->whole.limit ? limit : need->whole.limit);
	own->shares = 0;
	weir_limit_check(own, NULL);
	own->shares = wr_fleet_size(ask->engine);
}

static void begin_need(struct weir_ask *ask, struct wr_ask_need *need)
{
	if (need->exchange < 0)
		claim_slot(ask, need);
	if (wr_store_exchange_fresh(ask->engine->table, need->exchange, ask->mono_ns))
		return;
	wr_ask_need_store_failed(ask, need);
	add_charged(ask, need);
	ask->plain &= need->decided_by == WR_NEED_TABLE;
}

void wr_ask_exchange_begin(struct weir_ask *ask)
{
	wr_ask_read_mono(ask);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->eventual && need->decided_by == WR_NEED_TABLE && need->same_as == i)
			begin_need(ask, need);
	}
}

/* Adds units to the counts that are exchanged with other nodes. These counts belong to the whole
 * limit, even if the decision used only this node's share. */
static void count_exchange(struct weir_ask *ask, const struct wr_ask_need *need, int64_t cost)
{
	const struct weir_limit *limit = need->need.limit;
	struct weir_limit whole;

	if (need->failed) {
		whole = *limit;
		whole.limit = need->whole.limit;
		whole.burst = need->whole.burst;
		limit = &whole;
	}
	wr_store_exchange_count(ask->engine->table, need->exchange, limit, cost, ask->now_ns,
				ask->mono_ns);
}

void wr_ask_exchange_note(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->eventual && need->decided_by == WR_NEED_TABLE && need->same_as == i &&
		    (need->taken || need->need.cost < 0))
			count_exchange(ask, need, need->need.cost);
	}
}

void wr_ask_need_exchange_settle(struct weir_ask *ask, struct wr_ask_need *need, uint64_t returned,
				 uint64_t owed)
{
	if (need->eventual && returned != owed)
		count_exchange(ask, need, (int64_t)owed - (int64_t)returned);
}

void wr_ask_need_exchange_undo(struct weir_ask *ask, struct wr_ask_need *need, uint64_t returned)
{
	if (need->eventual)
		count_exchange(ask, need, -(int64_t)returned);
}
