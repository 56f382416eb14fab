/* Bans and grants: an operator's word about one key, in a cell of its own beside the key's.
 *
 *   the key's cell     override bit · count of changes     "there is something to look up"
 *   the override cell  banned until · granted until · how much
 *
 * Whoever decides meets the bit in the cell it reads anyway, so keys without an override pay
 * nothing. The override is found through the bit alone: it is in force while the bit is set and its
 * time has not come. docs/threads.md tells in which order the two are written, test/model/override
 * proves it. */
#ifndef WR_TABLE_OVERRIDE_H
#define WR_TABLE_OVERRIDE_H

#include "table/table.h"

#define WR_FOR_GOOD UINT32_MAX /* seconds: it does not end */

/* What is in force; zero: nothing. */
struct wr_override {
	uint32_t banned_until_s;  /* 0: not banned */
	uint32_t granted_until_s; /* 0: nothing is granted */
	uint32_t granted;
};

/* One part of it is to become another. */
struct wr_override_change {
	bool ban;   /* banned_until_s is */
	bool grant; /* granted and granted_until_s are */
	struct wr_override to;
};

static inline bool wr_override_any(struct wr_override override)
{
	return override.banned_until_s || override.granted_until_s;
}

/* Whether what an override cell holds ends later than this. */
static inline bool wr_override_ends_after(struct wr_pair hot, uint32_t now_s)
{
	return (uint32_t)(hot.lo >> 32) > now_s || (uint32_t)hot.lo > now_s;
}

static inline struct wr_key wr_override_key(struct wr_key key)
{
	struct wr_key other = {key.tag ^ 0x6f76657272696465};

	return other;
}

/* What the key's override cell says, whether or not the key's own has the bit. */
struct wr_override wr_override_read(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* What is in force for the key; for those who have not met its cell. */
struct wr_override wr_override_find(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Changes it for a key whose cell is of this kind. Returns what is in force now. */
struct wr_override wr_override_change(struct weir_table *table, struct wr_key key, unsigned kind,
				      const struct wr_override_change *change, uint32_t now_s);

/* Takes the bit away if nothing is in force any more. */
void wr_override_settle(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Calls for each that is in force until one returns other than 0, which is returned. */
typedef int (*wr_override_fn)(void *context, struct wr_key key, struct wr_override override);
int wr_overrides_each(struct weir_table *table, uint32_t now_s, wr_override_fn fn, void *context);

/* Puts what is in force in `from` into `to`, a table nobody else knows yet; notes too. */
void wr_overrides_import(struct weir_table *to, struct weir_table *from, uint32_t now_s);

/* All that is in force, by key. */
struct wr_override_list {
	struct wr_override_item {
		struct wr_key key;
		struct wr_override override;
	} * items;
	size_t count;
	size_t room;
};

/* False: no memory. The items are to be freed either way. */
bool wr_overrides_collect(struct weir_table *table, uint32_t now_s, struct wr_override_list *list);

/* Carries over what has changed in `from` since `list` was imported into `to`. What has changed in
 * `to` meanwhile is somebody's later word. */
void wr_overrides_hand_over(struct weir_table *to, struct weir_table *from,
			    const struct wr_override_list *list, uint32_t now_s);

#endif
