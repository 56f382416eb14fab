/* Writes, reads and ends the overrides (bans and grants) of keys. store/override.c applies them to
 * limits. */
#include "table/override.h"

#include "base/assert.h"
#include "table/note.h"

static struct wr_override content_of(struct wr_pair hot)
{
	struct wr_override override = {(uint32_t)(hot.lo >> 32), (uint32_t)hot.lo, wr_hot_s1(hot)};

	return override;
}

/* Returns the override without the parts that have ended. */
static struct wr_override still_in_force(struct wr_override override, uint32_t now_s)
{
	if (override.banned_until_s <= now_s)
		override.banned_until_s = 0;
	if (override.granted_until_s <= now_s || override.granted == 0)
		override.granted_until_s = override.granted = 0;
	return override;
}

static uint32_t end_of(struct wr_override override)
{
	return override.banned_until_s > override.granted_until_s ? override.banned_until_s
								  : override.granted_until_s;
}

struct wr_override wr_override_read(struct weir_table *table, struct wr_key key, uint32_t now_s)
{
	struct wr_override none = {0};
	struct wr_spot spot;

	if (!wr_table_find_any(table, wr_override_key(key), &spot) ||
	    wr_hot_kind(spot.hot) != WR_KIND_OVERRIDE)
		return none;
	return still_in_force(content_of(spot.hot), now_s);
}

struct wr_override wr_override_find(struct weir_table *table, struct wr_key key, uint32_t now_s)
{
	struct wr_override none = {0};
	struct wr_spot spot;

	if (!wr_table_find_any(table, key, &spot) || !wr_hot_override(spot.hot))
		return none;
	return wr_override_read(table, key, now_s);
}

static struct wr_override apply_change(struct wr_override override,
				       const struct wr_override_change *change, uint32_t now_s)
{
	if (change->ban &&
	    !(change->only_longer && override.banned_until_s > change->to.banned_until_s))
		override.banned_until_s = change->to.banned_until_s;
	if (change->grant) {
		override.granted = change->to.granted;
		override.granted_until_s = change->to.granted_until_s;
	}
	return still_in_force(override, now_s);
}

/* Writes the override cell. This is the first of the two writes that override.h describes. If the
 * change ends an override that does not exist, nothing is written and no cell is made. Returns the
 * override that is in force now. */
static struct wr_override write_content(struct weir_table *table, struct wr_key key,
					const struct wr_override_change *change, uint32_t now_s)
{
	struct wr_override next = apply_change((struct wr_override){0}, change, now_s), before;
	struct wr_pair hot;
	struct wr_spot spot;

	if (change->ban_changed)
		*change->ban_changed = false;
	do {
		if (wr_override_any(next))
			wr_table_claim(table, key, WR_KIND_OVERRIDE, now_s, &spot);
		else if (!wr_table_find_any(table, key, &spot))
			return next;
		before = content_of(spot.hot);
		next = apply_change(before, change, now_s);
		hot = wr_hot_with(spot.hot,
				  (uint64_t)next.banned_until_s << 32 | next.granted_until_s,
				  next.granted, WR_HARM_REFUSED | WR_HARM_MOST);
		wr_cell_raise_fresh_s(spot.cell, end_of(next));
	} while (!wr_pair_cas(&spot.cell->hot, &spot.hot, hot));
	if (change->ban_changed)
		*change->ban_changed = before.banned_until_s != next.banned_until_s;
	return next;
}

/* Sets the override bit in the key's cell. This is the second of the two writes that override.h
 * describes. Changes the cell even if the bit is set already. So if another thread is about to
 * clear the bit, or to decide under the previous override, its swap fails. */
static void set_bit(struct weir_table *table, struct wr_key key, unsigned kind, uint32_t end_s,
		    uint32_t now_s)
{
	struct wr_spot spot;
	struct wr_pair before;

	do {
		wr_table_claim(table, key, kind, now_s, &spot);
		before = spot.hot;
		wr_cell_raise_fresh_s(spot.cell, end_s);
		do
			if (wr_pair_cas(&spot.cell->hot, &spot.hot, wr_hot_overridden(spot.hot)))
				return;
		while (wr_spot_still(&spot, before));
	} while (true);
}

struct wr_override wr_override_change(struct weir_table *table, struct wr_key key, unsigned kind,
				      const struct wr_override_change *change, uint32_t now_s)
{
	struct wr_override now = write_content(table, wr_override_key(key), change, now_s);

	wr_assert(change->ban || change->grant);
	wr_assert_magic(table, WR_TABLE_MAGIC);
	if (wr_override_any(now))
		set_bit(table, key, kind, end_of(now), now_s);
	else
		wr_override_settle(table, key, now_s);
	return now;
}

/* Returns the hot pair without the override bit. If the key has no state, its cell was made only
 * for the override. In this case the result is an empty pair, which frees the cell. */
static struct wr_pair without_bit(struct wr_pair hot)
{
	if (hot.lo == 0 && wr_hot_s1(hot) == 0)
		return wr_hot(0, 0, (uint16_t)(wr_hot_version(hot) + 1), 0, WR_EMPTY);
	return wr_hot_free(hot);
}

/* The key's cell is read before the override. So if an operator sets a new override, the cell
 * changes after it was read, and the swap fails. But the count of changes in the cell wraps after
 * four changes, and then the swap may succeed nevertheless. Therefore the override is read once
 * more, and the bit is set again if necessary. */
void wr_override_settle(struct weir_table *table, struct wr_key key, uint32_t now_s)
{
	struct wr_override again;
	struct wr_spot spot;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	do
		if (!wr_table_find_any(table, key, &spot) || !wr_hot_override(spot.hot) ||
		    wr_override_any(wr_override_read(table, key, now_s)))
			return;
	while (!wr_pair_cas(&spot.cell->hot, &spot.hot, without_bit(spot.hot)));
	again = wr_override_read(table, key, now_s);
	if (wr_override_any(again))
		set_bit(table, key, wr_hot_kind(spot.hot), end_of(again), now_s);
}

/* Returns true if the cell contains an override, and sets *key to the key of that override. */
static bool is_override(const struct wr_cell *cell, struct wr_key *key)
{
	struct wr_pair id = wr_pair_load(&cell->id);
	struct wr_pair hot = wr_pair_load(&cell->hot);
	struct wr_key own = {id.lo};

	*key = wr_override_key(own);
	return wr_hot_state(hot) == WR_LIVE && wr_hot_version(hot) == wr_id_version(id) &&
	       wr_hot_kind(hot) == WR_KIND_OVERRIDE;
}

int wr_overrides_each(struct weir_table *table, uint32_t now_s, wr_override_fn fn, void *context)
{
	int rc = 0;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	for (uint64_t r = 0; r < table->row_count; r++)
		for (unsigned i = 0; i < WR_CELLS && rc == 0; i++) {
			struct wr_override override;
			struct wr_key key;

			if (!is_override(&table->rows[r].cell[i], &key))
				continue;
			override = wr_override_find(table, key, now_s);
			if (wr_override_any(override))
				rc = fn(context, key, override);
		}
	return rc;
}
