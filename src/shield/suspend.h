/* Bans that the shield skips because of their rule. A ban stays in the table while its rule is
 * paused or in shadow mode, but the service then admits its client. So the shield must not drop the
 * client's packets. */
#ifndef WR_SHIELD_SUSPEND_H
#define WR_SHIELD_SUSPEND_H

#include "table/ban.h"

struct weir_rules;

/* X(enum, reason) */
#define WR_SUSPEND_KINDS(X)                                                                        \
	X(WR_SUSPEND_PAUSED, "the rule is paused")                                                 \
	X(WR_SUSPEND_SHADOW, "the rule is in shadow mode")                                         \
	X(WR_SUSPEND_UNSHIELDED, "the rule has no `ban` with `shield: true`")                      \
	X(WR_SUSPEND_CHANGED, "the rule has another algorithm now")                                \
	X(WR_SUSPEND_REMOVED, "the rules do not contain the rule any more")

enum wr_suspend_kind {
#define WR_SUSPEND_ENUM(name, reason) name,
	WR_SUSPEND_KINDS(WR_SUSPEND_ENUM)
#undef WR_SUSPEND_ENUM
		WR_SUSPEND_NONE
};

/* Returns the reason as text. */
const char *wr_suspend_reason(enum wr_suspend_kind kind);

struct wr_suspend_rule {
	uint64_t rule;  /* wr_ban_rule_hash() */
	uint64_t limit; /* as in struct wr_ban; 0 if the rule is not in the rules */
	enum wr_suspend_kind kind;
};

/* The state of all rules at one time. A zeroed struct can be freed. */
struct wr_suspend {
	const struct weir_table *table;
	const struct weir_rules *rules; /* or NULL */
	struct wr_suspend_rule *items;  /* sorted by `rule` */
	size_t count, room;
	unsigned pausing; /* wr_pause_state() */
};

/* Reads the state of the rules: pauses from the table, everything else from `rules`, which may be
 * NULL. The names of rules that are not in `rules` come from the statistics of the table, and in
 * wr_suspend_find() from the texts of keys. Returns false if there is no memory. The caller calls
 * wr_suspend_free() in both cases. `table` and `rules` stay open until then. */
bool wr_suspend_read(struct wr_suspend *suspend, const struct weir_table *table,
		     const struct weir_rules *rules);
void wr_suspend_free(struct wr_suspend *suspend);

/* Returns the reason for which the shield skips the ban, or WR_SUSPEND_NONE. A ban of weir shield add
 * has no rule, so it is never skipped. A ban of an operator is skipped if its rule is paused or in
 * shadow mode.
 *
 * A rule with another algorithm has new counters, which no ban refuses.
 *
 * A rule has been removed if its domain is in the rules, but the rule is not. A rule of another
 * domain can belong to another service on the table, which has other rules, so its bans stay. */
enum wr_suspend_kind wr_suspend_find(const struct wr_suspend *suspend, const struct wr_ban *ban);

#endif
