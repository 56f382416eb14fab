/* weir_control_…: reset the counters of a descriptor, and set bans and grants on them. Called by
 * the admin API, the command line and the handler of orders from other nodes. */
#include <weir/control.h>

#include "base/address.h"
#include "base/error.h"
#include "base/str.h"
#include "base/versioned.h"
#include "limiter/ban.h"
#include "limiter/message.h"
#include "limiter/scope.h"
#include "table/note.h"

/* Calls wr_scope_visit with an `fn` that changes counters. If counters were changed, but the table
 * was resized during the call, returns WEIR_EMOVED, because the new table may lack the changes.
 * Otherwise returns the result of wr_scope_visit. */
static int change_counters(struct weir_engine *engine, const struct weir_target *target,
			   uint64_t now_ns, wr_scope_fn fn, void *context, struct weir_error *error)
{
	int rc = wr_scope_visit(engine, target, now_ns, fn, context, error);
	int moved = rc > 0 ? wr_scope_check_moved(engine, error) : 0;

	return moved ? moved : rc;
}

/* ---- reset, ban, grant ---- */

static int reset_counter(void *unused, const struct wr_scope *scope, const struct wr_ask_need *need)
{
	(void)unused;
	wr_store_reset(scope->ask->engine->table, need->need.limit, need->need.key,
		       scope->ask->now_ns);
	return 0;
}

int weir_control_reset(struct weir_engine *engine, const struct weir_target *target,
		       uint64_t now_ns, struct weir_error *error)
{
	return change_counters(engine, target, now_ns, reset_counter, NULL, error);
}

static int put_in_message(void *context, const struct wr_scope *scope,
			  const struct wr_ask_need *need)
{
	if (need->decided_by == WR_NEED_CENTRAL && !scope->ask->no_secret)
		wr_message_add(context, scope->ask, need);
	return 0;
}

int weir_control_question(struct weir_engine *engine, const struct weir_target *target, void *bytes,
			  size_t cap, uint64_t now_ns, struct weir_error *error)
{
	struct wr_message message = wr_message(WR_QUESTION_RESET, bytes, cap);
	int rc;

	if (!bytes)
		return wr_error(error, WEIR_EINVAL, "the buffer for the message is NULL");
	rc = wr_scope_visit(engine, target, now_ns, put_in_message, &message, error);
	return rc < 0 ? rc : wr_message_end(&message);
}

static int apply_grant(void *context, const struct wr_scope *scope, const struct wr_ask_need *need)
{
	const struct wr_override_change *order = context;
	struct weir_table *table = scope->ask->engine->table;
	uint32_t now_s = wr_seconds(scope->ask->now_ns);
	struct wr_override now = wr_override_change(table, need->need.key,
						    need->need.limit->algorithm, order, now_s);

	if (wr_override_any(now))
		wr_limiter_note_write(scope->ask->engine, &scope->target, need, now_s);
	else
		wr_note_forget(table, need->need.key);
	return 0;
}

static int check_end(uint64_t until_ns, uint64_t now_ns, struct weir_error *error)
{
	return until_ns > now_ns
		       ? 0
		       : wr_error(error, WEIR_ETIME, "the end, %llu ns, is not after now_ns",
				  (unsigned long long)until_ns);
}

int weir_control_grant(struct weir_engine *engine, const struct weir_target *target, uint32_t extra,
		       uint64_t until_ns, uint64_t now_ns, struct weir_error *error)
{
	struct wr_override_change order = {
		.grant = true,
		.to = {.granted = extra, .granted_until_s = extra ? wr_seconds_up(until_ns) : 0}};
	int rc = extra ? check_end(until_ns, now_ns, error) : 0;

	return rc < 0 ? rc : change_counters(engine, target, now_ns, apply_grant, &order, error);
}

static int apply_ban(void *context, const struct wr_scope *scope, const struct wr_ask_need *need)
{
	const struct wr_order *order = context;

	wr_limiter_ban_set(scope->ask->engine, &scope->target, need,
			   order->until_ns ? wr_seconds_up(order->until_ns) : 0, order,
			   scope->ask->now_ns);
	return 0;
}

int wr_limiter_ban_order(struct weir_engine *engine, const struct wr_order *order, uint64_t now_ns,
			 struct weir_error *error)
{
	struct wr_order copy = *order;
	int rc = order->until_ns ? check_end(order->until_ns, now_ns, error) : 0;

	return rc < 0 ? rc
		      : change_counters(engine, order->target, now_ns, apply_ban, &copy, error);
}

int weir_control_ban(struct weir_engine *engine, const struct weir_target *target,
		     uint64_t until_ns, uint64_t now_ns, struct weir_error *error)
{
	struct wr_order order = {.verb = WR_ORDER_BAN, .target = target, .until_ns = until_ns};

	return wr_limiter_ban_order(engine, &order, now_ns, error);
}

int weir_control_ban_add(struct weir_engine *engine, const struct weir_target *target,
			 const struct weir_ban_opts *given, uint64_t now_ns,
			 struct weir_error *error)
{
	struct wr_order order = {.verb = WR_ORDER_BAN, .target = target};
	struct weir_ban_opts opts;

	if (!given || !wr_versioned_read(given, &opts, sizeof opts,
					 offsetof(struct weir_ban_opts, until_ns) + 8))
		return wr_error(error, WEIR_EINVAL, "opts is NULL, or opts->size is not %zu",
				sizeof opts);
	if (opts.flags & ~(uint32_t)WEIR_BAN_SHIELD)
		return wr_error(error, WEIR_EINVAL, "opts->flags has unknown bits: %#x",
				opts.flags);
	if (opts.flags & WEIR_BAN_SHIELD && opts.until_ns) {
		char address[WR_ADDRESS_TEXT];
		int rc = wr_limiter_ban_shield_address(engine, target, now_ns, address, error);

		if (rc < 0)
			return rc;
	}
	order.until_ns = opts.until_ns;
	order.flags = opts.flags;
	return wr_limiter_ban_order(engine, &order, now_ns, error);
}

/* ---- bans and grants in force ---- */

struct lister {
	const struct weir_table *table;
	weir_override_fn fn;
	void *context;
	uint32_t now_s;
};

static int list_one(void *context, struct wr_key key, struct wr_override override)
{
	const struct lister *lister = context;
	struct wr_table_text_note text_note = {0};
	bool noted = wr_note_read(lister->table, key, &text_note);
	char address[WR_ADDRESS_TEXT];
	struct wr_ban ban;
	struct weir_override one = {
		.size = sizeof one,
		.granted = override.granted,
		.banned_until_ns = wr_limiter_override_end_ns(override.banned_until_s),
		.granted_until_ns = wr_limiter_override_end_ns(override.granted_until_s),
		.changed_ns = noted ? text_note.changed_s * 1000000000ull : 0,
		.counter = key.tag,
		.rule = {text_note.rule, text_note.rule_len},
		.key = {text_note.key, text_note.key_len},
		.address = WR_STR(""),
	};

	if (wr_ban_read(lister->table, key, lister->now_s, &ban) && one.banned_until_ns) {
		one.since_ns = ban.since_s * 1000000000ull;
		one.ban_flags = ban.flags;
		one.level = ban.level;
		one.address = (struct weir_str){address, wr_ban_address_text(&ban, address)};
	}
	return lister->fn(lister->context, &one);
}

int weir_control_overrides(struct weir_engine *engine, uint64_t now_ns, weir_override_fn fn,
			   void *context)
{
	struct lister lister = {engine ? engine->table : NULL, fn, context, wr_seconds(now_ns)};

	if (!engine || !fn)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	return wr_overrides_each(engine->table, wr_seconds(now_ns), list_one, &lister);
}
