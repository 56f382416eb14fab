/* Takes units from the counters of candidates after a decision, and counts the decisions of the
 * candidates. */
#include "limiter/candidates.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/str.h"
#include "limiter/ban.h"
#include "limiter/text.h"
#include "rules/calendar.h"
#include "rules/limit_text.h"

#define TEXT_MAX 512

static void put_number(struct wr_limiter_text *text, const char *what, uint64_t number)
{
	wr_limiter_text_put(text, wr_str(what));
	wr_limiter_text_number(text, number);
}

static void put_duration(struct wr_limiter_text *text, const char *what, uint64_t ns)
{
	char duration[WR_DURATION_TEXT];

	wr_duration_text(ns, duration);
	wr_limiter_text_put(text, wr_str(what));
	wr_limiter_text_put(text, wr_str(duration));
}

/* Writes the text that identifies a candidate: "token_bucket, 100 per minute, burst 20". */
static void write_candidate_text(const struct wr_rules_limit *candidate,
				 struct wr_limiter_text *text)
{
	const struct weir_limit *limit = &candidate->limit;
	char numbers[TEXT_MAX / 2];

	wr_rules_limit_text(candidate, numbers, sizeof numbers);
	wr_limiter_text_put(text, wr_str(weir_algorithm_name((int)limit->algorithm)));
	wr_limiter_text_put(text, WR_STR(", "));
	wr_limiter_text_put(text, wr_str(numbers));
	if (limit->algorithm == WEIR_TOKEN_BUCKET && limit->burst)
		put_number(text, ", burst ", limit->burst);
	if (limit->algorithm == WEIR_LEAKY_BUCKET)
		put_number(text, ", queue_size ", limit->queue_size);
	if (limit->max_wait_ns)
		put_duration(text, ", max_wait ", limit->max_wait_ns);
	if (limit->soft_ceiling) {
		put_number(text, ", up to ", limit->soft_ceiling);
		put_duration(text, " for ", limit->soft_for_ns);
	}
	if (limit->flags & WEIR_COUNT_REJECTED)
		wr_limiter_text_put(text, WR_STR(", count_rejected"));
	if (candidate->ban) {
		put_number(text, ", ban after ", candidate->ban->after);
		put_duration(text, " in ", candidate->ban->within_ns);
		put_duration(text, " for ", candidate->ban->for_ns);
		put_number(text, " grow ", candidate->ban->grow);
		put_duration(text, " up to ", candidate->ban->max_ns);
	}
	if (candidate->name.len) {
		wr_limiter_text_put(text, WR_STR(", "));
		wr_limiter_text_put(text, candidate->name);
	}
}

uint32_t wr_limiter_candidate_slot(const struct wr_stats *stats,
				   const struct wr_rules_limit *candidate, uint32_t rule_slot)
{
	char name[TEXT_MAX];
	struct wr_limiter_text text = {.at = name, .cap = sizeof name};

	if (rule_slot == WEIR_STAT_OTHER)
		return WEIR_STAT_OTHER;
	put_number(&text, "", rule_slot);
	wr_limiter_text_put(&text, WR_STR(" "));
	write_candidate_text(candidate, &text);
	return wr_stats_slot_of(stats, WR_NAME_CANDIDATE,
				(struct weir_str){name, text.len < text.cap ? text.len : text.cap});
}

/* Returns the key of the candidate's counter, which is derived from the key of the rule's
 * counter. */
static struct wr_key candidate_key(const struct wr_ask_need *need,
				   const struct wr_rules_limit *candidate)
{
	return (struct wr_key){XXH3_64bits_withSeed(&need->need.key.tag, sizeof need->need.key.tag,
						    candidate->limit.checked)};
}

/* Returns the candidate's limit, with the calendar window of the decision. */
static struct weir_limit candidate_limit(const struct weir_ask *ask,
					 const struct wr_rules_limit *candidate)
{
	struct weir_limit limit = candidate->limit;

	if (candidate->calendar)
		wr_calendar_window(candidate->zone, candidate->calendar, ask->now_ns,
				   &limit.window_start_ns, &limit.window_end_ns);
	return limit;
}

static void take_candidate(const struct weir_ask *ask, const struct wr_ask_need *need,
			   const struct wr_rules_limit *candidate, struct weir_decision *decision)
{
	struct weir_limit limit = candidate_limit(ask, candidate);

	wr_store_take(ask->engine->table, &limit, candidate_key(need, candidate), need->need.cost,
		      ask->now_ns, decision);
}

static void count_candidate(struct wr_lane *lane, uint32_t slot,
			    const struct weir_decision *decision, bool live_admitted)
{
	wr_stat_add(lane, slot, decision->admitted ? WR_STAT_admitted : WR_STAT_refused, 1);
	if (decision->admitted && !live_admitted)
		wr_stat_add(lane, slot, (enum wr_stat)WR_CANDIDATE_admits_more, 1);
	if (!decision->admitted && live_admitted)
		wr_stat_add(lane, slot, (enum wr_stat)WR_CANDIDATE_refuses_more, 1);
	if (decision->admitted && decision->delay_ns) {
		wr_stat_add(lane, slot, WR_STAT_delayed, 1);
		wr_stat_add(lane, slot, WR_STAT_delay_us, decision->delay_ns / 1000);
	}
}

/* Returns true, and counts the request as refused, if a ban of the candidate would be in force. */
static bool is_banned_by(const struct weir_ask *ask, struct wr_lane *lane,
			 const struct wr_ask_need *need, const struct wr_rules_limit *candidate,
			 uint32_t slot)
{
	struct weir_decision refused = {.banned = 1};
	uint32_t now_s = wr_seconds(ask->now_ns);
	struct wr_key key = candidate_key(need, candidate);

	if (!candidate->ban ||
	    wr_limiter_ban_last(ask->engine->table, key, true, now_s).until_s <= now_s)
		return false;
	count_candidate(lane, slot, &refused, need->need.decision.admitted);
	wr_stat_add(lane, slot, (enum wr_stat)WR_CANDIDATE_banned, 1);
	return true;
}

static void count_refusal(const struct weir_ask *ask, struct wr_lane *lane,
			  const struct wr_ask_need *need, const struct wr_rules_limit *candidate,
			  uint32_t slot)
{
	struct wr_limiter_ban_last last;

	if (need->counts && !ask->is_delivery &&
	    wr_limiter_ban_count(ask->engine->table, candidate->ban, candidate_key(need, candidate),
				 true, ask->now_ns, &last) == WR_BAN_STARTED)
		wr_stat_add(lane, slot, (enum wr_stat)WR_CANDIDATE_bans, 1);
}

/* A request that a ban refused is not counted, because the limit did not refuse it. */
void wr_candidates_try(const struct weir_ask *ask, struct wr_lane *lane, struct wr_ask_need *need)
{
	const struct wr_generation *generation = ask->generation;
	const uint32_t *slots = &generation->candidate_slots[generation->candidates[need->policy]];

	if (need->need.decision.banned)
		return;
	for (uint32_t i = 0; i < need->rule->candidate_count; i++) {
		struct weir_decision decision;

		if (slots[i] == WEIR_STAT_OTHER)
			continue;
		if (is_banned_by(ask, lane, need, &need->rule->candidates[i], slots[i]))
			continue;
		take_candidate(ask, need, &need->rule->candidates[i], &decision);
		if (need->rule->candidates[i].ban && !decision.admitted && !decision.full)
			count_refusal(ask, lane, need, &need->rule->candidates[i], slots[i]);
		count_candidate(lane, slots[i], &decision, need->need.decision.admitted);
		if (decision.admitted)
			need->candidates |= (uint8_t)(1u << i);
	}
}

void wr_candidates_settle(const struct weir_ask *ask, const struct wr_ask_need *need,
			  int64_t actual, uint64_t now_ns)
{
	for (uint32_t i = 0; i < need->rule->candidate_count; i++) {
		const struct wr_rules_limit *candidate = &need->rule->candidates[i];
		struct weir_limit limit = candidate_limit(ask, candidate);
		struct wr_store_taken taken = {.charged_ns = ask->now_ns};
		struct weir_decision decision;
		uint64_t returned, owed;

		if (need->candidates >> i & 1 && limit.algorithm != WEIR_LEAKY_BUCKET &&
		    limit.algorithm != WEIR_CONCURRENT)
			wr_store_settle(ask->engine->table, &limit, candidate_key(need, candidate),
					need->need.cost, actual, &taken, now_ns, &returned, &owed,
					&decision);
	}
}

void wr_candidates_return(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	struct weir_decision decision;

	for (uint32_t i = 0; need->rule && i < need->rule->candidate_count; i++) {
		const struct wr_rules_limit *candidate = &need->rule->candidates[i];
		struct weir_limit limit = candidate_limit(ask, candidate);

		if (ask->taken_ns == WEIR_TAKEN_UNKNOWN)
			take_candidate(ask, need, candidate, &decision);
		else
			wr_store_return_at(ask->engine->table, &limit,
					   candidate_key(need, candidate), -need->own_cost,
					   ask->taken_ns, ask->now_ns);
	}
}
