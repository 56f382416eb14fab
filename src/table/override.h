/* Overrides: an operator's bans and grants for one key. The override is stored in another cell than
 * the state of the key.
 *
 *   the key's cell     override bit, count of changes
 *   the override cell  end of the ban, end of the grant, granted amount
 *
 * A decision reads the bit together with the key's cell, so decisions on keys without an override
 * are not slower. An override is in force while the bit is set and its end has not passed. A
 * change of an override is two writes: first of the override cell, then of the override bit in the
 * key's cell. docs/threads.md explains why this order is right, and test/model/override.pml
 * proves it. */
#ifndef WR_TABLE_OVERRIDE_H
#define WR_TABLE_OVERRIDE_H

#include "table/table.h"

#define WR_FOR_GOOD UINT32_MAX /* end of an override that never ends */

/* The override of a key. All fields are 0 if no override is in force. */
struct wr_override {
	uint32_t banned_until_s;  /* end of the ban, in seconds; 0: not banned */
	uint32_t granted_until_s; /* end of the grant, in seconds; 0: no grant */
	uint32_t granted;
};

/* A change of the ban, of the grant, or of both. */
struct wr_override_change {
	bool ban;   /* the change sets banned_until_s */
	bool grant; /* the change sets granted and granted_until_s */
	struct wr_override to;
	/* A ban that ends later than to.banned_until_s stays. Set for automatic bans, which must
	 * not shorten the ban of an operator. */
	bool only_longer;
	/* If not NULL: becomes whether this call has changed the end of the ban. Of several
	 * processes that make the same change at once, one gets true. */
	bool *ban_changed;
};

static inline bool wr_override_any(struct wr_override override)
{
	return override.banned_until_s || override.granted_until_s;
}

/* Returns true if the ban or the grant in an override cell ends later than now_s. */
static inline bool wr_override_ends_after(struct wr_pair hot, uint32_t now_s)
{
	return (uint32_t)(hot.lo >> 32) > now_s || (uint32_t)hot.lo > now_s;
}

static inline struct wr_key wr_override_key(struct wr_key key)
{
	struct wr_key other = {key.tag ^ 0x6f76657272696465};

	return other;
}

/* Returns the override in the key's override cell. Does not read the override bit in the key's own
 * cell. All fields are 0 if the override has ended. */
struct wr_override wr_override_read(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Returns the override in force. All fields are 0 if the override bit in the key's cell is not set,
 * or if the override has ended. */
struct wr_override wr_override_find(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Changes the override of a key. If the key has no cell, it gets a cell of this kind (enum
 * wr_cell_kind). Returns the override that is in force now. */
struct wr_override wr_override_change(struct weir_table *table, struct wr_key key, unsigned kind,
				      const struct wr_override_change *change, uint32_t now_s);

/* Clears the override bit in the key's cell if no override is in force any more. */
void wr_override_settle(struct weir_table *table, struct wr_key key, uint32_t now_s);

/* Calls `fn` for each override in force, until `fn` returns a value other than 0. Returns this
 * value, or 0. */
typedef int (*wr_override_fn)(void *context, struct wr_key key, struct wr_override override);
int wr_overrides_each(struct weir_table *table, uint32_t now_s, wr_override_fn fn, void *context);

/* Copies overrides in force and their notes from `from` to `to`. `to` must not be open in any other
 * process. */
void wr_overrides_import(struct weir_table *to, struct weir_table *from, uint32_t now_s);

/* A list of all overrides in force, sorted by the tags of their keys. */
struct wr_override_list {
	struct wr_override_item {
		struct wr_key key;
		struct wr_override override;
	} * items;
	size_t count;
	size_t room;
};

/* Collects the overrides in force. Returns false if there is no memory. The caller frees
 * list->items, even after false. */
bool wr_overrides_collect(struct weir_table *table, uint32_t now_s, struct wr_override_list *list);

/* Applies to `to` the changes that were made in `from` since the overrides of `list` were imported
 * into `to`. An override that was changed in `to` meanwhile stays, because that change is newer. */
void wr_overrides_hand_over(struct weir_table *to, struct weir_table *from,
			    const struct wr_override_list *list, uint32_t now_s);

#endif
