/* Computes the verdict of an ask and its waits from the decisions on its needs. Called at the end
 * of each decision. Also contains weir_ask_result. */
#include "limiter/ask.h"

#include "base/versioned.h"
#include "limiter/ban.h"
#include "limiter/defer.h"
#include "limiter/status.h"

/* Returns whether the limit of the need refuses: the limit is enforced or a quota, and its decision
 * is a refusal. */
static bool refuses(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	return need->class != WR_COUNTED && !need->replaced && need->need.cost >= 0 &&
	       !wr_ask_need_decision(ask, need)->admitted;
}

static bool enforced_refuse(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].class == WR_ENFORCED && refuses(ask, &ask->needs[i]))
			return true;
	return false;
}

/* Returns the longest wait of the refusing limits of a class. After this wait all these limits
 * would admit the request. If `descriptor` is not -1, only the limits of this descriptor count. */
static uint64_t longest_wait(const struct weir_ask *ask, enum wr_ask_need_class class,
			     int descriptor)
{
	uint64_t longest = 0;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		uint64_t wait = wr_ask_need_decision(ask, need)->retry_after_ns;

		if (need->class == class && refuses(ask, need) && wait > longest &&
		    (descriptor < 0 || need->descriptor == descriptor))
			longest = wait;
	}
	return longest;
}

/* Returns the shortest wait of all descriptors with quotas, because the request is admitted as soon
 * as the quotas of one descriptor admit it. */
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

static bool all_defer(const struct weir_ask *ask)
{
	bool enforced = enforced_refuse(ask), any = false;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (!refuses(ask, need) || (enforced && need->class != WR_ENFORCED))
			continue;
		any = true;
		if (!need->rule || need->rule->on_limit != WR_DEFER ||
		    wr_ask_need_decision(ask, need)->banned)
			return false;
	}
	return any;
}

/* Returns the longest delay of the needs that take units. */
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

int wr_ask_set_verdict(struct weir_ask *ask, bool admitted)
{
	if (admitted) {
		ask->delay_ns = longest_delay(ask);
		ask->verdict = ask->delay_ns ? WEIR_DELAY : WEIR_ADMIT;
	} else {
		ask->retry_after_ns = ask->denied || ask->unreadable || ask->crowded ? WEIR_NEVER
				      : enforced_refuse(ask) ? longest_wait(ask, WR_ENFORCED, -1)
							     : quota_wait(ask);
		ask->verdict = all_defer(ask) && !ask->no_defer ? WEIR_DEFER : WEIR_REFUSE;
	}
	ask->tightest = wr_ask_find_tightest(ask);
	if (admitted || !wr_limiter_defer_counts_later(ask))
		wr_ask_count(ask, admitted);
	if (__builtin_expect(ask->bans, 0))
		wr_ask_ban(ask, admitted);
	return ask->verdict;
}

static uint32_t refusal_status(const struct weir_ask *ask)
{
	const struct wr_rules_response *response = wr_ask_response(ask);

	if (response && response->status)
		return response->status;
	if (ask->denied)
		return 403;
	return ask->unreadable ? 400 : 429;
}

int weir_ask_result(const struct weir_ask *ask, struct weir_result *result)
{
	struct weir_result known, *out;

	if (!wr_ask_ok(ask) || !result)
		return WEIR_EINVAL;
	out = wr_versioned_target(result, &known, sizeof known,
				  offsetof(struct weir_result, http_status));
	if (!out)
		return WEIR_EINVAL;
	*out = (struct weir_result){
		.size = sizeof *out,
		.verdict = ask->verdict,
		.http_status = wr_ask_refused(ask) ? refusal_status(ask) : 200,
		.descriptors = ask->descriptor_count,
		.delay_ns = ask->delay_ns,
		.retry_after_ns = ask->retry_after_ns,
		.generation = ask->generation->rules ? ask->generation->number : 0,
		.banned_until_ns = wr_ask_refused(ask) ? wr_ask_banned_until(ask) : 0,
	};
	wr_versioned_write(result, out, sizeof known);
	return 0;
}
