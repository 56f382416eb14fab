/* Finds the bans that the shield skips because of their rule; see suspend.h. */
#include "shield/suspend.h"

#include <stdlib.h>
#include <string.h>

#include "rules/path_text.h"
#include "rules/rules.h"
#include "stats/stats.h"
#include "table/note.h"
#include "table/pause.h"

const char *wr_suspend_reason(enum wr_suspend_kind kind)
{
	static const char *const reasons[] = {
#define REASON(name, reason) reason,
		WR_SUSPEND_KINDS(REASON)
#undef REASON
	};

	return kind < WR_SUSPEND_NONE ? reasons[kind] : "";
}

void wr_suspend_free(struct wr_suspend *suspend)
{
	free(suspend->items);
	*suspend = (struct wr_suspend){0};
}

static int compare_rules(const void *a, const void *b)
{
	const struct wr_suspend_rule *x = a, *y = b;

	return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static void sort_rules(struct wr_suspend *suspend)
{
	if (suspend->count)
		qsort(suspend->items, suspend->count, sizeof *suspend->items, compare_rules);
}

/* Returns the rule among the first `count` ones, or NULL. */
static const struct wr_suspend_rule *find_rule(const struct wr_suspend *suspend, size_t count,
					       uint64_t rule)
{
	struct wr_suspend_rule wanted = {.rule = rule};

	return count ? bsearch(&wanted, suspend->items, count, sizeof wanted, compare_rules) : NULL;
}

/* `limit` is NULL for a rule that is not in the rules. */
static bool add_rule(struct wr_suspend *suspend, struct weir_str name,
		     const struct wr_rules_limit *limit, enum wr_suspend_kind kind)
{
	char text[WR_STAT_NAME_MAX + 1];

	if (suspend->count == suspend->room) {
		size_t room = suspend->room ? suspend->room * 2 : 64;
		struct wr_suspend_rule *items = reallocarray(suspend->items, room, sizeof *items);

		if (!items)
			return false;
		suspend->items = items;
		suspend->room = room;
	}
	suspend->items[suspend->count++] =
		(struct wr_suspend_rule){wr_ban_rule_hash(wr_stats_name_of(name, text)),
					 limit ? limit->limit.checked : 0, kind};
	return true;
}

static bool is_paused(const struct wr_suspend *suspend, struct weir_str name)
{
	return suspend->pausing & WR_PAUSING_SOME && wr_pause_covers(suspend->table, name);
}

static enum wr_suspend_kind kind_of(const struct wr_suspend *suspend,
				    const struct wr_rules_limit *limit)
{
	if (is_paused(suspend, limit->stat))
		return WR_SUSPEND_PAUSED;
	if (limit->node->flags & WR_SHADOW || limit->enforce_ppm == 0)
		return WR_SUSPEND_SHADOW;
	return limit->ban && limit->ban->shield ? WR_SUSPEND_NONE : WR_SUSPEND_UNSHIELDED;
}

static bool add_present(struct wr_suspend *suspend, const struct weir_rules *rules)
{
	for (const struct wr_node *node = rules->first_domain; node; node = wr_node_next(node))
		for (unsigned i = 0; i < node->limit_count; i++)
			if (!add_rule(suspend, node->limits[i].stat, &node->limits[i],
				      kind_of(suspend, &node->limits[i])))
				return false;
	return true;
}

/* Returns whether a name in statistics begins with the name of a domain and a slash. The names of
 * domains have escapes in statistics. */
static bool has_domain(const struct weir_rules *rules, struct weir_str name)
{
	const struct wr_node *domain = rules->first_domain;

	for (; domain; domain = domain->more->next) {
		char text[WR_STAT_NAME_MAX + 1];
		size_t len = wr_path_text(domain, text, sizeof text);

		if (len < sizeof text && name.len > len && name.ptr[len] == '/' &&
		    memcmp(name.ptr, text, len) == 0)
			return true;
	}
	return false;
}

/* Adds the rules that only the statistics of the table know. */
static bool add_others(struct wr_suspend *suspend, const struct weir_rules *rules)
{
	size_t present = suspend->count;
	char text[WR_STAT_NAME_MAX + 1];
	struct wr_stats_map map;
	struct weir_str name;

	if (!wr_stats_map(suspend->table, &map))
		return true;
	for (uint32_t slot = WEIR_STAT_RULES; slot < map.name_count; slot++) {
		enum wr_suspend_kind kind = WR_SUSPEND_NONE;

		if (wr_stats_kind(&map, slot) != WR_NAME_RULE ||
		    !wr_stats_name(&map, slot, text, &name) ||
		    find_rule(suspend, present, wr_ban_rule_hash(name)))
			continue;
		if (is_paused(suspend, name))
			kind = WR_SUSPEND_PAUSED;
		else if (rules && has_domain(rules, name))
			kind = WR_SUSPEND_REMOVED;
		if (!add_rule(suspend, name, NULL, kind))
			return false;
	}
	return true;
}

bool wr_suspend_read(struct wr_suspend *suspend, const struct weir_table *table,
		     const struct weir_rules *rules)
{
	bool ok = true;

	*suspend = (struct wr_suspend){
		.table = table, .rules = rules, .pausing = wr_pause_state(table)};
	if (rules)
		ok = add_present(suspend, rules);
	sort_rules(suspend);
	if (ok && (rules || suspend->pausing & WR_PAUSING_SOME))
		ok = add_others(suspend, rules);
	sort_rules(suspend);
	return ok;
}

/* Returns the state of a rule that is neither in the rules nor in the statistics, such as a removed
 * rule after a resize. A ban with the text of its key has the rule's name beside this text. */
static enum wr_suspend_kind find_unknown(const struct wr_suspend *suspend, const struct wr_ban *ban)
{
	struct wr_table_text_note note;
	struct weir_str name;

	if (!wr_note_read(suspend->table, ban->key, &note))
		return WR_SUSPEND_NONE;
	name = (struct weir_str){note.rule, note.rule_len};
	if (is_paused(suspend, name))
		return WR_SUSPEND_PAUSED;
	return suspend->rules && ban->flags & WR_BAN_AUTOMATIC && has_domain(suspend->rules, name)
		       ? WR_SUSPEND_REMOVED
		       : WR_SUSPEND_NONE;
}

static bool has_other_limit(const struct wr_suspend_rule *rule, const struct wr_ban *ban)
{
	return rule->limit && ban->limit && rule->limit != ban->limit;
}

enum wr_suspend_kind wr_suspend_find(const struct wr_suspend *suspend, const struct wr_ban *ban)
{
	const struct wr_suspend_rule *found;

	if (ban->flags & WR_BAN_BARE)
		return WR_SUSPEND_NONE;
	if (suspend->pausing & WR_PAUSING_ALL)
		return WR_SUSPEND_PAUSED;
	found = find_rule(suspend, suspend->count, ban->rule);
	if (!found)
		return find_unknown(suspend, ban);
	if (found->kind == WR_SUSPEND_PAUSED || found->kind == WR_SUSPEND_SHADOW)
		return found->kind;
	if (!(ban->flags & WR_BAN_AUTOMATIC))
		return WR_SUSPEND_NONE;
	return has_other_limit(found, ban) ? WR_SUSPEND_CHANGED : found->kind;
}
