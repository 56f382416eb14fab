/* Chooses the line (the queue of one key) in which a deferred request waits, and tells a host how
 * to queue the request (weir_ask_deferral). Called by hosts that queue requests and by the
 * deliverer. */
#include "limiter/defer.h"

#include "base/assert.h"
#include "base/blake.h"
#include "base/str.h"
#include "base/versioned.h"
#include "limiter/status.h"
#include "rules/key.h"
#include "table/deferred.h"

_Static_assert(sizeof((struct weir_ask *)0)->defer_key == WR_BLAKE_BYTES, "a digest is a key");
_Static_assert(WR_DEFERRED_KEY == WR_BLAKE_BYTES, "in the table too");

static void feed_blake(void *blake, const void *bytes, size_t len)
{
	wr_blake_feed(blake, bytes, len);
}

/* Returns a number that is smaller for a more specific limit: the limit of a client has a smaller
 * number than the limit of its network, and an enforced limit a smaller number than a quota. The
 * number depends only on the rules and the request, so that all requests of a client get into the
 * same queue. */
static int specificity(const struct wr_ask_need *need)
{
	return (need->class == WR_ENFORCED ? 0 : 256) - need->rule->node->depth;
}

/* The key is hashed without a secret, because a queue outlives tables and is shared with other
 * nodes. BLAKE2s is collision resistant without a secret. */
void wr_limiter_defer_set_key(struct weir_ask *ask, const struct wr_ask_need *need,
			      const struct weir_entry *entries, size_t count)
{
	const struct wr_rules_limit *rule = need->rule;
	struct wr_blake blake;

	if (need->class == WR_COUNTED ||
	    (ask->defer_need && specificity(&ask->needs[ask->defer_need - 1]) <= specificity(need)))
		return;
	wr_blake_begin(&blake);
	wr_rules_key_feed(ask->domain, rule->node, entries, count, feed_blake, &blake);
	wr_blake_feed(&blake, rule->id.ptr, rule->id.len);
	wr_blake_end(&blake, ask->defer_key);
	ask->defer_need = (uint8_t)(1 + (need - ask->needs));
}

#define LONGEST_NS ((uint64_t)INT64_MAX / 2)

/* Returns a + b · c, but at most LONGEST_NS. */
static uint64_t plus_times(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t product;

	if (__builtin_mul_overflow(b, c, &product) || product > LONGEST_NS || a > LONGEST_NS)
		return LONGEST_NS;
	return a + product;
}

static uint64_t period_ns(const struct weir_limit *limit)
{
	return limit->window_end_ns ? limit->window_end_ns - limit->window_start_ns
				    : limit->period_ns;
}

/* Returns the average time between two requests that the limit admits. */
static uint64_t interval_ns(const struct weir_limit *limit)
{
	return limit->limit ? period_ns(limit) / limit->limit : 0;
}

/* Computes the decision on a need without taking units. Returns false if the key is banned, because
 * a banned request is not deferred. */
static bool look_at_counter(struct weir_ask *ask, struct wr_ask_need *need)
{
	struct weir_table *table = ask->engine->table;
	struct wr_need *one = &need->need;

	if (need->decided_by == WR_NEED_TABLE) {
		wr_store_decide(table, one->limit, one->key, one->cost, ask->now_ns, WR_LOOK,
				&one->decision);
		return !one->decision.banned;
	}
	one->decision = (struct weir_decision){.limit = one->limit->capacity};
	return !wr_override_find(table, one->key, wr_seconds(ask->now_ns)).banned_until_s;
}

bool wr_limiter_defer_is_behind(struct weir_ask *ask)
{
	struct wr_ask_need *need = &ask->needs[ask->needs[ask->defer_need - 1].same_as];
	struct weir_decision *decision = &need->need.decision;
	uint64_t waiting;

	wr_assert(ask->defer_need > 0 && ask->defer_need <= ask->need_count);
	if (!ask->record || ask->is_delivery || ask->no_defer || need->class == WR_COUNTED ||
	    need->decided_by == WR_NEED_DECIDED || need->need.cost <= 0)
		return false;
	waiting = wr_deferred_count(ask->engine->table, ask->defer_key);
	if (waiting == 0 || !look_at_counter(ask, need))
		return false;
	if (decision->admitted)
		decision->retry_after_ns = 0;
	if (decision->retry_after_ns != WEIR_NEVER) {
		ask->behind_ns = plus_times(0, waiting, interval_ns(need->need.limit));
		decision->retry_after_ns = plus_times(decision->retry_after_ns, 1, ask->behind_ns);
	}
	decision->admitted = 0;
	decision->remaining = 0;
	need->decided_by = WR_NEED_DECIDED;
	return true;
}

int weir_ask_mark_delivery(struct weir_ask *ask)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	ask->is_delivery = true;
	return 0;
}

int weir_ask_no_defer(struct weir_ask *ask)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	ask->no_defer = true;
	return 0;
}

static bool can_be_deferred(const struct weir_ask *ask)
{
	return wr_ask_ok(ask) && ask->verdict == WEIR_DEFER && ask->record && !ask->is_delivery;
}

/* Returns an upper bound of the number of requests that a limit admits within age_ns, whatever the
 * state of its counter is. The bound is the rate times age_ns, plus twice limit->ceiling, plus 1.
 * limit->ceiling is the capacity of the limit or, with soft mode, its larger soft_ceiling. It is
 * added because a bucket can be full at the start, and because the first and the last window can be
 * only partly within age_ns. */
static uint64_t most_within(const struct weir_limit *limit, uint64_t age_ns)
{
	uint64_t period = period_ns(limit);
	unsigned __int128 most = (unsigned __int128)limit->limit * age_ns / (period ? period : 1) +
				 2 * (uint64_t)limit->ceiling + 1;

	return most < UINT64_MAX ? (uint64_t)most : UINT64_MAX;
}

/* Returns whether the wait in the decision on a need stays correct as long as the rule is
 * unchanged. The wait may become wrong if the limit is a quota, if other nodes admit requests
 * without asking the central store, or if an operator granted units for a limited time. */
static bool is_sure(const struct wr_ask_need *need, const struct weir_decision *decision)
{
	return need->class == WR_ENFORCED && !need->eventual && !need->failed && !need->granted &&
	       !decision->granted;
}

/* Returns how many requests of the key the limit can admit within max_age. If that many requests
 * are queued, one more would expire before its delivery. Returns UINT64_MAX if the number is not
 * known. Returns 0 if the limit would not admit even the first request within max_age. For a limit
 * that the central store leases, 0 is never returned, because the wait is only an estimate: other
 * nodes can return units. */
static uint64_t admitted_within_age(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_ask_need_decision(ask, need);
	const struct wr_ask_need *decided = &ask->needs[need->same_as];
	uint64_t age_ns = need->rule->defer->max_age_ns;
	uint64_t wait_ns = decision->admitted ? 0 : decision->retry_after_ns;

	if (!is_sure(need, decision) || !is_sure(decided, decision))
		return UINT64_MAX;
	if (wait_ns != WEIR_NEVER)
		wait_ns = wait_ns > ask->behind_ns ? wait_ns - ask->behind_ns : 0;
	if (wait_ns > age_ns && (!ask->engine->central || need->rule->consistency != WR_LEASE))
		return 0;
	return most_within(need->need.limit, age_ns);
}

int weir_ask_deferral(const struct weir_ask *ask, struct weir_deferral *deferral)
{
	struct weir_deferral known, *out;
	const struct wr_ask_need *need;
	const struct wr_rules_defer *how;

	if (!can_be_deferred(ask) || !ask->defer_need || !deferral)
		return WEIR_EINVAL;
	/* The fields before `wait_ns` are settings of the rule, which the host must obey. */
	out = wr_versioned_target(deferral, &known, sizeof known,
				  offsetof(struct weir_deferral, wait_ns));
	if (!out)
		return WEIR_EINVAL;
	if (ask->unrecorded)
		return WEIR_EROOM;
	need = &ask->needs[ask->defer_need - 1];
	how = need->rule->defer;
	*out = (struct weir_deferral){
		.size = sizeof *out,
		.max_tries = how->max_tries,
		.rule = need->rule->stat,
		.headers = how->headers,
		.header_count = how->header_count,
		.max_waiting = how->max_waiting,
		.max_body = how->max_body,
		.max_age_ns = how->max_age_ns,
		.wait_ns = ask->retry_after_ns > ask->behind_ns
				   ? ask->retry_after_ns - ask->behind_ns
				   : 0,
		.interval_ns = interval_ns(need->need.limit),
		.in_time = admitted_within_age(ask, need),
	};
	memcpy(out->key, ask->defer_key, sizeof out->key);
	wr_versioned_write(deferral, out, sizeof known);
	return 0;
}

int weir_ask_report_deferral(struct weir_ask *ask, const char *why_not)
{
	if (!can_be_deferred(ask) || ask->counted)
		return WEIR_EINVAL;
	ask->counted = true;
	ask->why_not = why_not;
	if (why_not)
		ask->verdict = WEIR_REFUSE;
	wr_ask_count(ask, false);
	return ask->verdict;
}
