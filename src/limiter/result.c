/* From the needs' decisions to the verdict, and to the statistics. */
#include "limiter/ask.h"

#include "limiter/status.h"

/* Whether the request was refused because of this need. In quota mode that takes all of them, so
 * each that is over had its part in it. */
static bool refuses(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	return need->class != WR_COUNTED && !need->replaced && need->need.cost >= 0 &&
	       !wr_ask_decision(ask, need)->admitted;
}

static bool enforced_refuse(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].class == WR_ENFORCED && refuses(ask, &ask->needs[i]))
			return true;
	return false;
}

/* Until all limits of a class that refuse would admit. */
static uint64_t longest_wait(const struct weir_ask *ask, enum wr_class class, int descriptor)
{
	uint64_t longest = 0;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		uint64_t wait = wr_ask_decision(ask, need)->retry_after_ns;

		if (need->class == class && refuses(ask, need) && wait > longest &&
		    (descriptor < 0 || need->descriptor == descriptor))
			longest = wait;
	}
	return longest;
}

/* In quota mode one descriptor that admits is enough. */
static uint64_t quota_wait(const struct weir_ask *ask)
{
	uint64_t shortest = WEIR_NEVER;

	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		uint64_t wait = longest_wait(ask, WR_QUOTA_CLASS, i);

		if (wait && wait < shortest)
			shortest = wait;
	}
	return shortest;
}

static uint64_t retry_after(const struct weir_ask *ask)
{
	if (ask->denied || ask->unreadable)
		return WEIR_NEVER;
	return enforced_refuse(ask) ? longest_wait(ask, WR_ENFORCED, -1) : quota_wait(ask);
}

static bool all_defer(const struct weir_ask *ask)
{
	bool enforced = enforced_refuse(ask), any = false;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (!refuses(ask, need) || (enforced && need->class != WR_ENFORCED))
			continue;
		any = true;
		if (!need->rule || need->rule->on_limit != WR_DEFER)
			return false;
	}
	return any;
}

/* Who only looks or gives back has nothing to wait for. */
static uint64_t longest_delay(const struct weir_ask *ask)
{
	uint64_t longest = 0;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->class != WR_COUNTED && need->need.cost > 0 &&
		    need->need.decision.delay_ns > longest)
			longest = need->need.decision.delay_ns;
	}
	return longest;
}

static bool is_near(const struct weir_engine *engine, const struct weir_decision *decision)
{
	return decision->limit - (uint64_t)decision->remaining >
	       (uint64_t)decision->limit * engine->near_percent / 100;
}

static void count_admitted(const struct weir_ask *ask, struct wr_lane *lane,
			   const struct wr_ask_need *need)
{
	const struct weir_decision *decision = &need->need.decision;

	wr_stat_add(lane, need->slot, WR_STAT_admitted, 1);
	if (is_near(ask->engine, decision))
		wr_stat_add(lane, need->slot, WR_STAT_near_limit, 1);
	if (decision->soft)
		wr_stat_add(lane, need->slot, WR_STAT_soft, 1);
	if (decision->delay_ns && need->class != WR_COUNTED) {
		wr_stat_add(lane, need->slot, WR_STAT_delayed, 1);
		wr_stat_add(lane, need->slot, WR_STAT_delay_us, decision->delay_ns / 1000);
	}
}

/* A need of a refused request counts only if it refused; a need of an admitted one counts. */
static void count_need(const struct weir_ask *ask, struct wr_lane *lane,
		       const struct wr_ask_need *need, bool admitted)
{
	bool over = !need->need.decision.admitted;

	if (over && need->class == WR_COUNTED) {
		if (admitted)
			wr_stat_add(lane, need->slot, WR_STAT_shadowed, 1);
	} else if (over) {
		wr_stat_add(lane, need->slot,
			    ask->verdict == WEIR_DEFER ? WR_STAT_deferred : WR_STAT_refused, 1);
	} else if (admitted) {
		count_admitted(ask, lane, need);
	}
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

static void count(struct weir_ask *ask, bool admitted)
{
	struct wr_lane *lane = wr_lane_mine(&ask->engine->stats);

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->same_as == i && need->need.cost > 0 && !need->replaced)
			count_need(ask, lane, need, admitted);
	}
	if (ask->allowed)
		wr_stat_add(lane, WEIR_STAT_ALLOWED, WR_STAT_admitted, 1);
	else if (ask->denied || ask->unreadable)
		wr_stat_add(lane, ask->denied ? WEIR_STAT_MISSING : WEIR_STAT_UNREADABLE,
			    WR_STAT_refused, 1);
	else if (!ask->domain)
		wr_stat_add(lane, WEIR_STAT_NO_DOMAIN, WR_STAT_admitted, 1);
	else if (!ask->plain && admitted)
		count_unlimited(ask, lane);
}

int wr_ask_conclude(struct weir_ask *ask, bool admitted)
{
	if (admitted) {
		ask->delay_ns = longest_delay(ask);
		ask->verdict = ask->delay_ns ? WEIR_DELAY : WEIR_ADMIT;
	} else {
		ask->retry_after_ns = retry_after(ask);
		ask->verdict = all_defer(ask) ? WEIR_DEFER : WEIR_REFUSE;
	}
	count(ask, admitted);
	return ask->verdict;
}

static uint32_t refusal_status(const struct weir_ask *ask)
{
	const struct wr_response *response = wr_ask_response(ask);

	if (response && response->status)
		return response->status;
	if (ask->denied)
		return 403;
	return ask->unreadable ? 400 : 429;
}

int weir_ask_result(const struct weir_ask *ask, struct weir_result *result)
{
	if (!wr_ask_ok(ask) || !result || result->size != sizeof *result)
		return WEIR_EINVAL;
	*result = (struct weir_result){
		.size = sizeof *result,
		.verdict = ask->verdict,
		.http_status = wr_ask_refused(ask) ? refusal_status(ask) : 200,
		.descriptors = ask->descriptor_count,
		.delay_ns = ask->delay_ns,
		.retry_after_ns = ask->retry_after_ns,
		.generation = ask->generation->rules ? ask->generation->number : 0,
	};
	return 0;
}
