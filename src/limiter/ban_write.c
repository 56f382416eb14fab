/* Carries out bans: writes the override of a key, its entry in the list of bans, its note, and the
 * order for other nodes. Called when the verdict is set, by operators' commands, and for orders of
 * other nodes. */
#include "limiter/ban.h"

#include <string.h>

#include "base/assert.h"
#include "limiter/text.h"
#include "table/ban_order.h"
#include "table/note.h"

/* ---- the list of bans ---- */

/* Removes the shield from a ban without an address. */
static uint8_t flags_with(const struct wr_ban *ban, unsigned flags)
{
	return (uint8_t)(ban->family ? flags : flags & ~(unsigned)WR_BAN_SHIELD);
}

/* Returns false if the list has no room. */
static bool write_listed(struct weir_engine *engine, const struct wr_ask_need *need,
			 const struct wr_limiter_ban_last *last, unsigned flags,
			 struct weir_str address, uint32_t now_s)
{
	char name[WR_STAT_NAME_MAX + 1];
	struct wr_ban ban = {
		.key = need->need.key,
		.rule = need->rule ? wr_ban_rule_hash(wr_stats_name_of(need->rule->stat, name)) : 0,
		.limit = need->need.limit->checked,
		.since_s = last->since_s,
		.until_s = last->until_s,
		.level = (uint8_t)last->level};

	/* A ban in shadow mode has its own entry, next to that of a real ban of the key. */
	if (flags & WR_BAN_SHADOW)
		ban.key = wr_limiter_shadow_key(ban.key);
	wr_limiter_ban_set_address(&ban, address,
				   flags & WR_BAN_AUTOMATIC && need->rule ? need->rule->ban : NULL);
	ban.flags = flags_with(&ban, flags);
	return wr_ban_write(engine->table, &ban, now_s);
}

/* ---- notes ---- */

/* Writes "api|user=7|ip=10.0.0.1"; text that does not fit is cut. */
static void put_key(struct wr_limiter_text *text, const struct weir_target *target)
{
	wr_limiter_text_put(text, target->domain);
	for (size_t i = 0; i < target->count; i++) {
		wr_limiter_text_char(text, '|');
		wr_limiter_text_put(text, target->entries[i].key);
		wr_limiter_text_char(text, '=');
		wr_limiter_text_put(text, target->entries[i].value);
	}
}

static void write_note(struct weir_engine *engine, struct wr_key at,
		       const struct weir_target *target, const struct wr_ask_need *need,
		       uint32_t now_s)
{
	char name[WR_STAT_NAME_MAX + 1], key[WR_NOTE_TEXT];
	struct wr_limiter_text text = {key, sizeof key, 0};
	struct wr_table_text_note text_note;
	struct weir_str rule = WR_STR("");

	if (need->rule) {
		rule = wr_stats_name_of(need->rule->stat, name);
	} else {
		wr_limiter_text_put(&text, target->domain);
		wr_limiter_text_put(&text, WR_STR("/override"));
		rule.len = text.len < sizeof key ? text.len : sizeof key;
		memcpy(name, key, rule.len);
		rule.ptr = name;
		text.len = 0;
	}
	put_key(&text, target);
	wr_note_text(&text_note, rule.ptr, rule.len, key, text.len, now_s);
	wr_note_write(engine->table, at, &text_note, now_s);
}

void wr_limiter_note_write(struct weir_engine *engine, const struct weir_target *target,
			   const struct wr_ask_need *need, uint32_t now_s)
{
	write_note(engine, need->need.key, target, need, now_s);
}

/* ---- automatic bans ---- */

/* Writes the override of an automatic ban. Returns false if a ban of an operator ends later.
 * *is_first becomes whether this call, and not that of another process, has written it. */
static bool enforce(struct weir_engine *engine, const struct wr_ask_need *need,
		    const struct wr_limiter_ban_last *last, uint32_t now_s, bool *is_first)
{
	struct wr_override_change change = {.ban = true,
					    .only_longer = true,
					    .to = {.banned_until_s = last->until_s},
					    .ban_changed = is_first};
	struct wr_override now = wr_override_change(engine->table, need->need.key,
						    need->need.limit->algorithm, &change, now_s);

	return now.banned_until_s == last->until_s;
}

/* An order that does not fit is not sent: other nodes ban the key when they refuse it themselves. */
static void send_order(struct weir_engine *engine, const struct wr_ask_banned *banned,
		       const struct wr_limiter_ban_last *last, unsigned flags, uint64_t now_ns)
{
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	struct wr_order order = {.verb = WR_ORDER_BAN,
				 .target = &banned->target,
				 .until_ns = last->until_s * 1000000000ull,
				 .level = last->level,
				 .flags = flags};
	size_t len = banned->target.count ? wr_order_write(&order, now_ns, bytes, sizeof bytes) : 0;

	if (len)
		wr_ban_order_append(engine->table, bytes, len);
}

static unsigned flags_of_rule(const struct wr_rules_ban *ban)
{
	return WR_BAN_AUTOMATIC | (ban->shield ? WR_BAN_SHIELD : 0u);
}

/* Returns whether no release has cleared the ban since it was started. */
static bool is_started(struct weir_table *table, struct wr_key key,
		       const struct wr_limiter_ban_last *last, uint32_t now_s)
{
	return wr_limiter_ban_last(table, key, false, now_s).until_s == last->until_s;
}

/* Several processes may carry out the same ban at once. Exactly one of them sends the order: the
 * process that writes the override.
 *
 * The entry in the list is written before the override. If the process is killed in between, the
 * next refusal writes the override (refuse_enforced()). In the other order, it would leave a ban in
 * force that nothing lists, counts or ends. */
static void ban_key(struct weir_ask *ask, const struct wr_ask_need *need,
		    const struct wr_limiter_ban_last *last)
{
	unsigned flags = flags_of_rule(need->rule->ban);
	uint32_t now_s = wr_seconds(ask->now_ns);
	struct weir_table *table = ask->engine->table;
	struct wr_key key = need->need.key;
	struct wr_ask_banned banned;
	struct wr_ban there;
	/* A ban of an operator that ends later stays in force and in the list. */
	bool is_longer = wr_override_read(table, key, now_s).banned_until_s <= last->until_s;
	bool is_first, is_listed;

	wr_ask_find_banned(ask, need, &banned);
	is_listed =
		is_longer && write_listed(ask->engine, need, last, flags, banned.address, now_s);
	if (is_started(table, key, last, now_s) &&
	    enforce(ask->engine, need, last, now_s, &is_first)) {
		if (banned.target.count)
			wr_limiter_note_write(ask->engine, &banned.target, need, now_s);
		if (is_first)
			send_order(ask->engine, &banned, last, flags, ask->now_ns);
	}
	/* A release since the ban was started may have ended the override before the entry was
	 * written, or may have removed the entry before the override was written. */
	if (!wr_override_read(table, key, now_s).banned_until_s)
		wr_ban_forget(table, key);
	else if (is_listed && !wr_ban_read(table, key, now_s, &there))
		write_listed(ask->engine, need, last, flags, banned.address, now_s);
}

/* Returns the slot of the rule's counts of bans. The slot is looked up once per generation. */
static uint32_t ban_slot(struct weir_ask *ask, const struct wr_ask_need *need)
{
	uint32_t *known = &ask->generation->ban_slots[need->policy];
	uint32_t slot = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (slot == 0) {
		/* WEIR_STAT_OTHER: as in settle_count.c. */
		slot = wr_stats_ban_slot(&ask->engine->stats, need->rule->stat, need->slot);
		__atomic_store_n(known, slot, __ATOMIC_RELAXED);
	}
	return slot;
}

static void count_ban(struct weir_ask *ask, const struct wr_ask_need *need, enum wr_stats_ban what)
{
	if (!ask->engine->uncounted)
		wr_stat_add(wr_lane_mine(&ask->engine->stats), ban_slot(ask, need),
			    (enum wr_stat)what, 1);
}

static void refuse_enforced(struct weir_ask *ask, const struct wr_ask_need *need)
{
	struct weir_table *table = ask->engine->table;
	struct wr_limiter_ban_last last;

	if (need->need.decision.banned) {
		count_ban(ask, need, WR_BAN_STAT_refused);
		return;
	}
	switch (wr_limiter_ban_count(table, need->rule->ban, need->need.key, false, ask->now_ns,
				     &last)) {
	case WR_BAN_STARTED:
		count_ban(ask, need, WR_BAN_STAT_started);
		ban_key(ask, need, &last);
		break;
	case WR_BAN_RUNNING:
		/* The process that started the ban has written the override, is about to write
		 * it, or was killed before. All processes write the same end, and one of them
		 * sends the order. */
		if (!wr_override_find(table, need->need.key, wr_seconds(ask->now_ns))
			     .banned_until_s)
			ban_key(ask, need, &last);
		break;
	case WR_BAN_NOT_YET:
		break;
	}
}

/* Counts a request of a limit that does not refuse it: shadow mode, or a dry run of the host. */
static void refuse_counted(struct weir_ask *ask, const struct wr_ask_need *need, bool refused)
{
	const struct wr_rules_ban *ban = need->rule->ban;
	struct weir_table *table = ask->engine->table;
	uint32_t now_s = wr_seconds(ask->now_ns);
	struct wr_limiter_ban_last last = wr_limiter_ban_last(table, need->need.key, true, now_s);
	struct wr_ask_banned banned;

	if (need->need.decision.banned || last.until_s > now_s) {
		count_ban(ask, need, WR_BAN_STAT_would_refuse);
		return;
	}
	if (!refused || wr_limiter_ban_count(table, ban, need->need.key, true, ask->now_ns,
					     &last) != WR_BAN_STARTED)
		return;
	count_ban(ask, need, WR_BAN_STAT_would_start);
	wr_ask_find_banned(ask, need, &banned);
	write_listed(ask->engine, need, &last, WR_BAN_AUTOMATIC | WR_BAN_SHADOW, banned.address,
		     now_s);
	if (banned.target.count)
		write_note(ask->engine, wr_limiter_shadow_key(need->need.key), &banned.target, need,
			   now_s);
}

/* Returns true if the need's decision is a decision about its client: not a repeated reading of the
 * request, not a look, and not a failure of the central store or a lack of memory. */
static bool counts_for_ban(const struct weir_ask *ask, uint8_t i)
{
	const struct wr_ask_need *need = &ask->needs[i];

	return need->rule && need->rule->ban && need->same_as == i && need->counts &&
	       !need->replaced && need->need.cost >= 0 && !need->need.decision.full &&
	       !(need->failed && need->decided_by == WR_NEED_DECIDED);
}

void wr_ask_ban(struct weir_ask *ask, bool admitted)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	if (ask->is_delivery)
		return;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		bool counted = need->class == WR_COUNTED;
		bool refused = !need->need.decision.admitted && (counted || !admitted);

		if (!counts_for_ban(ask, i))
			continue;
		if (counted || ask->dry_run)
			refuse_counted(ask, need, refused);
		else if (refused)
			refuse_enforced(ask, need);
	}
}

/* ---- operators and other nodes ---- */

static void clear(struct weir_engine *engine, const struct wr_ask_need *need, bool shadow,
		  uint64_t now_ns)
{
	wr_limiter_ban_clear(engine->table, need->rule ? need->rule->ban : NULL, need->need.key,
			     shadow, now_ns);
}

static void release(struct weir_engine *engine, const struct wr_ask_need *need, uint64_t now_ns)
{
	struct wr_override_change change = {.ban = true};
	struct wr_key key = need->need.key, shadow_key = wr_limiter_shadow_key(key);
	uint32_t now_s = wr_seconds(now_ns);

	/* The last ban is cleared first: a refusal that is counted at the same time then finds no
	 * ban in force whose override it would write again. The entry in the list is removed last;
	 * see ban_key(). */
	clear(engine, need, false, now_ns);
	if (!wr_override_any(wr_override_change(engine->table, key, need->need.limit->algorithm,
						&change, now_s)))
		wr_note_forget(engine->table, key);
	wr_ban_forget(engine->table, key);
	clear(engine, need, true, now_ns);
	wr_note_forget(engine->table, shadow_key);
	wr_ban_forget(engine->table, shadow_key);
}

void wr_limiter_ban_set(struct weir_engine *engine, const struct weir_target *target,
			const struct wr_ask_need *need, uint32_t until_s,
			const struct wr_order *order, uint64_t now_ns)
{
	struct wr_override_change change = {.ban = true, .to = {.banned_until_s = until_s}};
	uint32_t now_s = wr_seconds(now_ns);
	bool is_first;
	struct wr_limiter_ban_last last = {order->since_ns ? wr_seconds(order->since_ns) : now_s,
					   until_s, order->level & 0xff};

	if (until_s == 0) {
		release(engine, need, now_ns);
		return;
	}
	if (order->flags & WR_BAN_AUTOMATIC) {
		wr_limiter_ban_note_last(engine->table, need->need.key, &last, now_s);
		if (!enforce(engine, need, &last, now_s, &is_first))
			return;
	} else {
		last.level = 0;
		clear(engine, need, false, now_ns);
		wr_override_change(engine->table, need->need.key, need->need.limit->algorithm,
				   &change, now_s);
	}
	write_listed(engine, need, &last, order->flags & (WR_BAN_AUTOMATIC | WR_BAN_SHIELD),
		     wr_limiter_ban_address_in(target, need, order->flags & WR_BAN_AUTOMATIC),
		     now_s);
	wr_limiter_note_write(engine, target, need, now_s);
}

uint64_t wr_ask_banned_until(const struct weir_ask *ask)
{
	uint64_t longest_ns = 0;

	wr_assert_magic(ask, WR_ASK_MAGIC);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		const struct weir_decision *decision = wr_ask_need_decision(ask, need);
		uint64_t rest_ns = decision->retry_after_ns;

		if (need->class == WR_COUNTED || need->replaced || !decision->banned)
			continue;
		if (rest_ns == WEIR_NEVER)
			return WEIR_NEVER;
		if (ask->now_ns + rest_ns > longest_ns)
			longest_ns = ask->now_ns + rest_ns;
	}
	return longest_ns;
}
