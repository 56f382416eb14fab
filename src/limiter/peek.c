/* Reads the counters that a struct weir_target selects: weir_control_get reads only the table,
 * wr_peek_… also reads the central store. Called by the admin API. */
#include "limiter/peek.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "limiter/ban.h"
#include "limiter/lease.h"
#include "limiter/message.h"
#include "limiter/scope.h"
#include "limiter/settle.h"
#include "store/exchange.h"
#include "table/pause.h"

struct wr_peek {
	struct wr_scope scope;
	struct wr_answer answers[WEIR_NEEDS_MAX]; /* answers[i] belongs to need i */
	bool answered[WEIR_NEEDS_MAX];
};

/* ---- one counter ---- */

static uint32_t flags_of(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	unsigned pausing = wr_pause_state(ask->engine->table);
	uint32_t flags = 0;

	if (need->class == WR_COUNTED)
		flags |= WEIR_COUNTER_SHADOW;
	if (need->class == WR_QUOTA_CLASS)
		flags |= WEIR_COUNTER_QUOTA;
	if (pausing && wr_ask_need_is_paused(ask, need, pausing))
		flags |= WEIR_COUNTER_PAUSED;
	if (need->decided_by == WR_NEED_CENTRAL)
		flags |= WEIR_COUNTER_CENTRAL;
	if (need->eventual)
		flags |= WEIR_COUNTER_EVENTUAL;
	if (need->eventual && need->exchange >= 0 &&
	    wr_store_exchange_fresh(ask->engine->table, need->exchange,
				    wr_engine_mono_ns(ask->engine)))
		flags |= WEIR_COUNTER_EXCHANGED;
	if (!need->rule)
		flags |= WEIR_COUNTER_OVERRIDE;
	return flags;
}

/* Returns the debt of a counter with `beyond` units in use beyond the limit. In soft mode, the
 * units up to the ceiling are no debt: they were permitted, and the ceiling can still admit
 * requests. */
static uint32_t debt_of(const struct weir_limit *limit, uint32_t beyond)
{
	uint32_t permitted = limit->ceiling - limit->capacity;

	return beyond > permitted ? beyond - permitted : 0;
}

static void fill_ban(const struct wr_scope *scope, const struct wr_ask_need *need,
		     struct weir_counter *counter)
{
	const struct wr_rules_ban *ban = need->rule ? need->rule->ban : NULL;
	struct weir_table *table = scope->ask->engine->table;
	uint32_t now_s = wr_seconds(scope->ask->now_ns);
	bool shadow = need->class == WR_COUNTED || scope->ask->dry_run;
	struct wr_limiter_ban_last last;
	struct wr_ban listed;

	if (ban) {
		counter->refusals = wr_limiter_ban_refusals(table, ban, need->need.key, shadow,
							    scope->ask->now_ns);
		counter->ban_after = ban->after;
		last = wr_limiter_ban_last(table, need->need.key, shadow, now_s);
		counter->ban_level = last.level;
		/* An earlier dry run of the host leaves bans in shadow mode under any rule. */
		last = wr_limiter_ban_last(table, need->need.key, true, now_s);
		if (last.until_s > now_s)
			counter->shadow_ban_until_ns = wr_limiter_override_end_ns(last.until_s);
		/* The ban in force began before the rule was set to shadow mode, or before the
		 * dry run. */
		if (shadow && counter->banned_until_ns)
			counter->ban_level =
				wr_limiter_ban_last(table, need->need.key, false, now_s).level;
	}
	if (counter->banned_until_ns && wr_ban_read(table, need->need.key, now_s, &listed))
		counter->ban_flags = listed.flags;
}

static struct weir_counter counter_of(const struct wr_scope *scope, const struct wr_ask_need *need)
{
	const struct weir_limit *limit = need->need.limit;
	struct weir_decision decision;
	struct weir_counter counter;
	struct wr_override override;

	wr_store_inspect(scope->ask->engine->table, limit, need->need.key, scope->ask->now_ns,
			 &decision, &override);
	counter = (struct weir_counter){
		.size = sizeof(struct weir_counter),
		.flags = flags_of(scope->ask, need),
		.algorithm = limit->algorithm,
		.requests = limit->limit,
		.limit = decision.limit,
		.remaining = decision.remaining,
		.period_ns = limit->period_ns,
		.retry_after_ns = decision.retry_after_ns,
		.reset_after_ns = decision.reset_after_ns,
		.banned_until_ns = wr_limiter_override_end_ns(override.banned_until_s),
		.granted_until_ns = wr_limiter_override_end_ns(override.granted_until_s),
		.granted = decision.granted,
		.debt = debt_of(limit, decision.debt),
		.name = need->rule ? need->rule->name : WR_STR(""),
		.rule = need->rule ? need->rule->stat : WR_STR(""),
	};
	fill_ban(scope, need, &counter);
	return counter;
}

struct viewer {
	weir_counter_fn fn;
	void *context;
	const struct wr_peek *peek; /* NULL: the central store was not asked */
};

/* Replaces the numbers of *counter, which are from the table, by the numbers from the central
 * store. The table may apply only a part of a large grant, but the central store applies the whole
 * grant. So counter->granted is replaced by the whole grant. */
static void apply_answer(struct weir_counter *counter, const struct wr_ask_need *need,
			 const struct wr_answer *answer)
{
	uint32_t granted = need->granted;

	counter->flags |= WEIR_COUNTER_STORE;
	counter->limit = answer->limit;
	counter->remaining = answer->remaining;
	counter->debt = debt_of(need->need.limit, answer->debt);
	counter->retry_after_ns = answer->flags & WR_ANSWER_ADMITTED ? 0 : answer->retry_after_ns;
	counter->reset_after_ns = answer->reset_after_ns;
	counter->granted = granted < answer->limit ? granted : answer->limit;
}

static int show_counter(void *context, const struct wr_scope *scope, const struct wr_ask_need *need)
{
	const struct viewer *viewer = context;
	struct weir_counter counter = counter_of(scope, need);
	size_t i = (size_t)(need - scope->ask->needs);

	if (viewer->peek && viewer->peek->answered[i])
		apply_answer(&counter, need, &viewer->peek->answers[i]);
	return viewer->fn(viewer->context, &counter);
}

int weir_control_get(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		     weir_counter_fn fn, void *context)
{
	struct viewer viewer = {fn, context, NULL};

	return fn ? wr_scope_visit(engine, target, now_ns, show_counter, &viewer, NULL)
		  : WEIR_EINVAL;
}

/* ---- counters of the central store ---- */

static bool is_in_question(const struct wr_peek *peek, uint8_t i)
{
	const struct weir_ask *ask = peek->scope.ask;

	return ask->needs[i].decided_by == WR_NEED_CENTRAL && !ask->no_secret &&
	       wr_scope_means(&peek->scope, &ask->needs[i]);
}

int wr_peek_open(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		 struct wr_peek **made, struct weir_error *error)
{
	struct wr_peek *peek = malloc(sizeof *peek);
	int rc;

	*made = NULL;
	if (!peek)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = wr_scope_open(&peek->scope, engine, target, now_ns, error);
	if (rc < 0) {
		free(peek);
		return rc;
	}
	memset(peek->answered, 0, sizeof peek->answered);
	for (uint8_t i = 0; i < peek->scope.ask->need_count; i++)
		wr_ask_need_find_grant(peek->scope.ask, &peek->scope.ask->needs[i], now_ns);
	*made = peek;
	return 0;
}

void wr_peek_close(struct wr_peek *peek)
{
	wr_assert_magic(peek->scope.ask, WR_ASK_MAGIC);
	wr_scope_close(&peek->scope);
	free(peek);
}

void wr_peek_dry_run(struct wr_peek *peek)
{
	wr_assert_magic(peek->scope.ask, WR_ASK_MAGIC);
	peek->scope.ask->dry_run = true;
}

int wr_peek_question(const struct wr_peek *peek, void *bytes, size_t cap)
{
	struct wr_message message = wr_message(WR_QUESTION_TAKE, bytes, cap);

	wr_assert_magic(peek->scope.ask, WR_ASK_MAGIC);
	for (uint8_t i = 0; i < peek->scope.ask->need_count; i++)
		if (is_in_question(peek, i))
			wr_message_add(&message, peek->scope.ask, &peek->scope.ask->needs[i]);
	return wr_message_end(&message);
}

void wr_peek_answer(struct wr_peek *peek, const void *bytes, size_t len)
{
	const uint8_t *at = (const uint8_t *)bytes + sizeof(struct wr_question_head);
	uint16_t asked = 0;

	wr_assert_magic(peek->scope.ask, WR_ASK_MAGIC);
	for (uint8_t i = 0; i < peek->scope.ask->need_count; i++)
		asked += is_in_question(peek, i);
	if (asked == 0 || !wr_answer_fits(bytes, len, asked))
		return;
	for (uint8_t i = 0; i < peek->scope.ask->need_count; i++) {
		if (!is_in_question(peek, i))
			continue;
		memcpy(&peek->answers[i], at, sizeof peek->answers[i]);
		at += sizeof peek->answers[i];
		peek->answered[i] = !(peek->answers[i].flags & WR_ANSWER_FAILED);
	}
}

int wr_peek_show(const struct wr_peek *peek, weir_counter_fn fn, void *context)
{
	struct viewer viewer = {fn, context, peek};

	wr_assert_magic(peek->scope.ask, WR_ASK_MAGIC);
	return wr_scope_each(&peek->scope, show_counter, &viewer, NULL);
}
