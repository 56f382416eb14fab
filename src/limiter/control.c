/* What an operator does to the counters of a descriptor. Whose they are is found out as for a
 * request: by an ask that is never decided. */
#include <weir/control.h>

#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "limiter/message.h"
#include "limiter/text.h"
#include "table/note.h"
#include "table/pause.h"

/* A target and the limits that apply to it. */
struct scope {
	_Alignas(struct weir_ask) char memory[sizeof(struct weir_ask)];
	struct weir_ask *ask;
	const struct weir_target *target;
};

/* What is done to one counter. */
typedef int (*need_fn)(void *context, const struct scope *scope, const struct wr_ask_need *need);

static int check_target(const struct weir_engine *engine, const struct weir_target *target,
			uint64_t now_ns, struct weir_error *error)
{
	if (!engine || !target || target->size != sizeof *target ||
	    (!target->entries && target->count) || (!target->domain.ptr && target->domain.len) ||
	    (!target->limit.ptr && target->limit.len))
		return wr_error(error, WEIR_EINVAL, "the target is missing, or its size is not %zu",
				sizeof *target);
	if (now_ns > INT64_MAX)
		return wr_error(error, WEIR_ETIME, "now_ns is beyond 2^63-1");
	return 0;
}

static bool is_meant(const struct scope *scope, const struct wr_ask_need *need)
{
	struct weir_str wanted = scope->target->limit;

	if (wanted.len == 0)
		return true;
	return need->rule &&
	       (wr_str_equal(need->rule->name, wanted) || wr_str_equal(need->rule->stat, wanted));
}

static int on_each(const struct scope *scope, need_fn fn, void *context, struct weir_error *error)
{
	int count = 0;

	for (uint8_t i = 0; i < scope->ask->need_count; i++) {
		int rc;

		if (!is_meant(scope, &scope->ask->needs[i]))
			continue;
		rc = fn(context, scope, &scope->ask->needs[i]);
		if (rc != 0)
			return rc;
		count++;
	}
	if (count == 0)
		return wr_error(error, WEIR_ENOENT,
				"no limit applies to this descriptor, or none of that name");
	return count;
}

/* Does it to every counter that is meant. Returns how many those were. */
static int control(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		   need_fn fn, void *context, struct weir_error *error)
{
	struct scope scope = {.target = target};
	int rc = check_target(engine, target, now_ns, error);

	if (rc < 0)
		return rc;
	rc = weir_ask_init(scope.memory, sizeof scope.memory, engine, target->domain, &scope.ask);
	if (rc < 0)
		return wr_error(error, rc, "%s", weir_strerror(rc));
	rc = weir_ask_add(scope.ask, target->entries, target->count, target->override, 0);
	if (rc == 0) {
		scope.ask->now_ns = now_ns;
		wr_ask_open_windows(scope.ask);
		rc = on_each(&scope, fn, context, error);
	} else {
		wr_error(error, rc, "%s", weir_strerror(rc));
	}
	weir_ask_done(scope.ask);
	return rc;
}

/* The same for what writes: whoever resizes the table carries over what was written before. */
static int change(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		  need_fn fn, void *context, struct weir_error *error)
{
	int rc = control(engine, target, now_ns, fn, context, error);

	if (rc > 0 && weir_moved(engine->table))
		return wr_error(error, WEIR_EMOVED,
				"the table was resized meanwhile: open it again, and call again");
	return rc;
}

/* ---- get ---- */

struct viewer {
	weir_counter_fn fn;
	void *context;
};

static uint64_t end_ns(uint32_t until_s)
{
	return until_s == WR_FOR_GOOD ? WEIR_NEVER : until_s * 1000000000ull;
}

static uint32_t flags_of(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	unsigned pausing = wr_pausing(ask->engine->table);
	uint32_t flags = 0;

	if (need->class == WR_COUNTED)
		flags |= WEIR_COUNTER_SHADOW;
	if (need->class == WR_QUOTA_CLASS)
		flags |= WEIR_COUNTER_QUOTA;
	if (pausing && wr_ask_is_paused(ask, need, pausing))
		flags |= WEIR_COUNTER_PAUSED;
	if (need->part == WR_THERE)
		flags |= WEIR_COUNTER_CENTRAL;
	if (!need->rule)
		flags |= WEIR_COUNTER_OVERRIDE;
	return flags;
}

static int show(void *context, const struct scope *scope, const struct wr_ask_need *need)
{
	const struct viewer *viewer = context;
	const struct weir_limit *limit = need->need.limit;
	struct weir_decision decision;
	struct wr_override override;
	struct weir_counter counter;

	wr_inspect_key(scope->ask->engine->table, limit, need->need.key, scope->ask->now_ns,
		       &decision, &override);
	counter = (struct weir_counter){
		.size = sizeof counter,
		.flags = flags_of(scope->ask, need),
		.algorithm = limit->algorithm,
		.requests = limit->limit,
		.limit = decision.limit,
		.remaining = decision.remaining,
		.period_ns = limit->period_ns,
		.retry_after_ns = decision.retry_after_ns,
		.reset_after_ns = decision.reset_after_ns,
		.banned_until_ns = end_ns(override.banned_until_s),
		.granted_until_ns = end_ns(override.granted_until_s),
		.granted = decision.granted,
		.name = need->rule ? need->rule->name : WR_STR(""),
		.rule = need->rule ? need->rule->stat : WR_STR(""),
	};
	return viewer->fn(viewer->context, &counter);
}

int weir_control_get(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		     weir_counter_fn fn, void *context)
{
	struct viewer viewer = {fn, context};

	return fn ? control(engine, target, now_ns, show, &viewer, NULL) : WEIR_EINVAL;
}

/* ---- reset, ban, grant ---- */

static int reset(void *unused, const struct scope *scope, const struct wr_ask_need *need)
{
	(void)unused;
	wr_reset_key(scope->ask->engine->table, need->need.limit, need->need.key);
	return 0;
}

int weir_control_reset(struct weir_engine *engine, const struct weir_target *target,
		       uint64_t now_ns, struct weir_error *error)
{
	return change(engine, target, now_ns, reset, NULL, error);
}

static int put_in_message(void *context, const struct scope *scope, const struct wr_ask_need *need)
{
	if (need->part == WR_THERE && !scope->ask->strayed)
		wr_message_add(context, scope->ask, need);
	return 0;
}

int weir_control_question(struct weir_engine *engine, const struct weir_target *target, void *bytes,
			  size_t cap, uint64_t now_ns, struct weir_error *error)
{
	struct wr_message message = wr_message(WR_QUESTION_RESET, bytes, cap);
	int rc;

	if (!bytes)
		return wr_error(error, WEIR_EINVAL, "there is no room for the message");
	rc = control(engine, target, now_ns, put_in_message, &message, error);
	return rc < 0 ? rc : wr_message_end(&message);
}

/* "api|user=7|ip=10.0.0.1", as far as it fits. */
static void put_key(struct wr_text *text, const struct weir_target *target)
{
	wr_text_put(text, target->domain);
	for (size_t i = 0; i < target->count; i++) {
		wr_text_char(text, '|');
		wr_text_put(text, target->entries[i].key);
		wr_text_char(text, '=');
		wr_text_put(text, target->entries[i].value);
	}
}

static void note(const struct scope *scope, const struct wr_ask_need *need, uint32_t now_s)
{
	char name[WR_STAT_NAME_MAX + 1], key[WR_NOTE_TEXT];
	struct wr_text text = {key, sizeof key, 0};
	struct weir_str rule =
		need->rule ? need->rule->stat : wr_overrides_stat(scope->ask->domain, name);
	struct wr_text_note said;

	put_key(&text, scope->target);
	wr_note_text(&said, rule.ptr, rule.len, key, text.len, now_s);
	wr_note_write(scope->ask->engine->table, need->need.key, &said, now_s);
}

static int apply(void *context, const struct scope *scope, const struct wr_ask_need *need)
{
	const struct wr_override_change *order = context;
	struct weir_table *table = scope->ask->engine->table;
	uint32_t now_s = wr_seconds(scope->ask->now_ns);
	struct wr_override now = wr_override_change(table, need->need.key,
						    need->need.limit->algorithm, order, now_s);

	if (wr_override_any(now))
		note(scope, need, now_s);
	else
		wr_note_forget(table, need->need.key);
	return 0;
}

static int check_end(uint64_t until_ns, uint64_t now_ns, struct weir_error *error)
{
	return until_ns > now_ns ? 0
				 : wr_error(error, WEIR_ETIME,
					    "it would end at %llu ns, which is not behind now",
					    (unsigned long long)until_ns);
}

int weir_control_grant(struct weir_engine *engine, const struct weir_target *target, uint32_t extra,
		       uint64_t until_ns, uint64_t now_ns, struct weir_error *error)
{
	struct wr_override_change order = {
		.grant = true,
		.to = {.granted = extra, .granted_until_s = extra ? wr_seconds_up(until_ns) : 0}};
	int rc = extra ? check_end(until_ns, now_ns, error) : 0;

	return rc < 0 ? rc : change(engine, target, now_ns, apply, &order, error);
}

int weir_control_ban(struct weir_engine *engine, const struct weir_target *target,
		     uint64_t until_ns, uint64_t now_ns, struct weir_error *error)
{
	struct wr_override_change order = {.ban = true,
					   .to = {.banned_until_s = wr_seconds_up(until_ns)}};
	int rc = until_ns ? check_end(until_ns, now_ns, error) : 0;

	return rc < 0 ? rc : change(engine, target, now_ns, apply, &order, error);
}

/* ---- what is in force ---- */

struct lister {
	const struct weir_table *table;
	weir_override_fn fn;
	void *context;
};

static int list_one(void *context, struct wr_key key, struct wr_override override)
{
	const struct lister *lister = context;
	struct wr_text_note said = {0};
	bool noted = wr_note_read(lister->table, key, &said);
	struct weir_override one = {
		.size = sizeof one,
		.granted = override.granted,
		.banned_until_ns = end_ns(override.banned_until_s),
		.granted_until_ns = end_ns(override.granted_until_s),
		.changed_ns = noted ? said.changed_s * 1000000000ull : 0,
		.counter = key.tag,
		.rule = {said.rule, said.rule_len},
		.key = {said.key, said.key_len},
	};

	return lister->fn(lister->context, &one);
}

int weir_control_overrides(struct weir_engine *engine, uint64_t now_ns, weir_override_fn fn,
			   void *context)
{
	struct lister lister = {engine ? engine->table : NULL, fn, context};

	if (!engine || !fn)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	return wr_overrides_each(engine->table, wr_seconds(now_ns), list_one, &lister);
}
