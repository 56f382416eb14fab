/* Writes a decision to the statistics: totals by rule, top keys, candidates and latency. Called
 * when the verdict is set. But a recorded request with the verdict WEIR_DEFER is counted later, by
 * weir_ask_report_deferral. */
#include "limiter/candidates.h"
#include "limiter/sample.h"
#include "limiter/settle.h"

#define LATENCY_EVERY 64 /* the host reports the latency of one decision in this many */

static void count_admitted(const struct weir_ask *ask, struct wr_lane *lane,
			   const struct wr_ask_need *need)
{
	const struct weir_decision *decision = &need->need.decision;

	wr_stat_add(lane, need->slot, WR_STAT_admitted, 1);
	if (decision->limit - (uint64_t)decision->remaining >
	    (uint64_t)decision->limit * ask->engine->near_percent / 100)
		wr_stat_add(lane, need->slot, WR_STAT_near_limit, 1);
	if (decision->soft)
		wr_stat_add(lane, need->slot, WR_STAT_soft, 1);
	if (decision->delay_ns && need->class != WR_COUNTED) {
		wr_stat_add(lane, need->slot, WR_STAT_delayed, 1);
		wr_stat_add(lane, need->slot, WR_STAT_delay_us, decision->delay_ns / 1000);
	}
}

/* Counts a need in the statistics of its rule. If the request is refused, only the needs that
 * refused it are counted. */
static void count_need(struct weir_ask *ask, struct wr_lane *lane, struct wr_ask_need *need,
		       bool admitted)
{
	bool over = !need->need.decision.admitted;

	if (!admitted && (!over || need->class == WR_COUNTED))
		return;
	if (!over)
		count_admitted(ask, lane, need);
	else if (need->class == WR_COUNTED)
		wr_stat_add(lane, need->slot, WR_STAT_shadowed, 1);
	else
		wr_stat_add(lane, need->slot,
			    ask->verdict == WEIR_DEFER ? WR_STAT_deferred : WR_STAT_refused, 1);
	if (__builtin_expect(ask->settles, 0) && admitted && !over)
		wr_ask_count_charged(ask, lane, need);
	if (need->track)
		wr_ask_need_count_key(ask, lane, need, over);
	if (need->rule && need->rule->candidate_count)
		wr_candidates_try(ask, lane, need);
}

static void count_unlimited(const struct weir_ask *ask, struct wr_lane *lane)
{
	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		const struct wr_ask_descriptor *descriptor = &ask->descriptors[i];
		const struct wr_generation *generation = ask->generation;

		if (descriptor->outcome == WR_UNLIMITED && !descriptor->replaced)
			wr_stat_add(lane,
				    generation->slots[generation->first[descriptor->node->id]],
				    WR_STAT_admitted, 1);
	}
}

/* Returns whether no rule matched the request. Called for an ask without needs, which may still
 * have matched a rule without limits. */
static bool met_no_rule(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->descriptor_count; i++)
		if (ask->descriptors[i].outcome == WR_WHITELISTED)
			return false;
	return true;
}

/* Counts a request under names that are not names of limits. A request with a cost of 0 or below is
 * not counted. Requests that `requests:` exempts or refuses, that cannot be read, that have too
 * many limits, or that match no rule count under a name in WEIR_STAT_NAMES. Any other admitted
 * request counts for each matching rule with `unlimited`. */
static void count_ruleless(const struct weir_ask *ask, struct wr_lane *lane, bool admitted)
{
	if (ask->hits <= 0)
		return;
	if (ask->allowed)
		wr_stat_add(lane, WEIR_STAT_ALLOWED, WR_STAT_admitted, 1);
	else if (ask->denied || ask->unreadable || ask->crowded)
		wr_stat_add(lane, ask->denied ? WEIR_STAT_MISSING : WEIR_STAT_UNREADABLE,
			    WR_STAT_refused, 1);
	else if (!ask->domain)
		wr_stat_add(lane, WEIR_STAT_NO_DOMAIN, WR_STAT_admitted, 1);
	else if (!ask->plain && admitted)
		count_unlimited(ask, lane);
	else if (ask->need_count == 0 && met_no_rule(ask))
		wr_stat_add(lane, WEIR_STAT_NO_RULE, WR_STAT_admitted, 1);
}

void wr_ask_count(struct weir_ask *ask, bool admitted)
{
	struct wr_lane *lane;

	if (ask->engine->uncounted)
		return;
	lane = wr_lane_mine(&ask->engine->stats);
	ask->timed = lane->decisions++ % LATENCY_EVERY == 0;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->same_as != i || (need->need.cost == 0 && !need->counts) || need->replaced)
			continue;
		if (need->need.cost >= 0)
			count_need(ask, lane, need, admitted);
		else if (admitted)
			wr_candidates_return(ask, need);
	}
	count_ruleless(ask, lane, admitted);
}

bool wr_ask_wants_latency_next(const struct weir_ask *ask)
{
	return !ask->engine->uncounted &&
	       wr_lane_mine(&ask->engine->stats)->decisions % LATENCY_EVERY == 0;
}

int weir_ask_wants_latency(const struct weir_ask *ask)
{
	if (!wr_ask_ok(ask))
		return WEIR_EINVAL;
	return ask->state == WR_ASK_DECIDED && ask->timed;
}

int weir_ask_report_latency(struct weir_ask *ask, uint64_t ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_DECIDED || !ask->timed)
		return WEIR_EINVAL;
	ask->timed = false;
	wr_latency_add(&ask->engine->stats, ask->waited ? WEIR_LATENCY_CENTRAL : WEIR_LATENCY_LOCAL,
		       ns);
	return 0;
}
