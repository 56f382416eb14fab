/* Bans and grants: an operator's decision about one key, in a cell of its own beside the key's.
 *
 *   the key's cell     override bit · count of changes
 *   the override cell  banned until · granted until · how much
 *
 * A decision reads the bit with the key's cell, so keys without an override cost nothing. An
 * override is in force while the bit is set and its end has not passed. docs/threads.md describes
 * the order of the two writes, and test/model/override proves it. */
#ifndef WR_TABLE_OVERRIDE_H
#define WR_TABLE_OVERRIDE_H

#include "table/table.h"

#define WR_FOR_GOOD UINT32_MAX /* seconds: no end */

/* The override in force; all zero: none. */
struct wr_override {
	uint32_t banned_until_s;  /* 0: not banned */
	uint32_t granted_until_s; /* 0: no grant */
	uint32_t granted;
};

/* A change of one part or both. */
struct wr_override_change {
	bool ban;   /* change banned_until_s */
	bool grant; /* change granted and granted_until_s */
	struct wr_override to;
};

static inline bool wr_override_any(struct wr_override override)
{
	return override.banned_until_s || override.granted_until_s;
}

/* Whether the content of an override cell ends later than now_s. */
static inline bool wr_override_ends_after(struct wr_pair hot, uint32_t now_s)
{
	return (uint32_t)(hot.lo >> 32) > now_s || (uint32_t)hot.lo > now_s;
}

static inline struct wr_key wr_override_key(struct wr_key key)
{
	struct wr_key other = {key.tag ^ 0x6f76657272696465};

	return other;
}

/* Reads the key's override cell, whether or not the key's own cell has the bit. */
struct wr_override wr_override_read(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* The override in force, for callers that have not read the key's cell. */
struct wr_override wr_override_find(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Changes the override of a key whose cell is of this kind. Returns the override now in force. */
struct wr_override wr_override_change(struct weir_table *table, struct wr_key key, unsigned kind,
				      const struct wr_override_change *change, uint32_t now_s);

/* Clears the bit if no override is in force any more. */
void wr_override_settle(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Calls the function for each override in force, until it returns other than 0, and returns that.
 */
typedef int (*wr_override_fn)(void *context, struct wr_key key, struct wr_override override);
int wr_overrides_each(struct weir_table *table, uint32_t now_s, wr_override_fn fn, void *context);

/* Copies overrides in force and their notes from `from` to `to`. No other process has opened `to`.
 */
void wr_overrides_import(struct weir_table *to, struct weir_table *from, uint32_t now_s);

/* All overrides in force, sorted by key. */
struct wr_override_list {
	struct wr_override_item {
		struct wr_key key;
		struct wr_override override;
	} * items;
	size_t count;
	size_t room;
};

/* Returns false if there is no memory. The caller frees the items in both cases. */
bool wr_overrides_collect(struct weir_table *table, uint32_t now_s, struct wr_override_list *list);

/* Carries over changes in `from` since `list` was imported into `to`. A change that was made in
 * `to` meanwhile is later and stays. */
void wr_overrides_hand_over(struct weir_table *to, struct weir_table *from,
			    const struct wr_override_list *list, uint32_t now_s);

#endif
