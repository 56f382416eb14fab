/* Copies overrides from one table file to another. Called by import.c. */
#include "table/override.h"

#include <stdlib.h>

#include "base/assert.h"
#include "table/ban.h"
#include "table/note.h"

struct journey {
	struct weir_table *to, *from;
	/* The overrides that were imported from `from` into `to`. NULL during the import. */
	const struct wr_override_list *list;
	uint32_t now_s;
};

static bool is_same(struct wr_override a, struct wr_override b)
{
	return a.banned_until_s == b.banned_until_s && a.granted_until_s == b.granted_until_s &&
	       a.granted == b.granted;
}

/* Copies the ban of the key in the list of bans, or removes it from the list of `to`. */
static void carry_listed(const struct journey *journey, struct wr_key key, bool banned)
{
	struct wr_ban ban;

	if (wr_ban_read(journey->from, key, journey->now_s, &ban)) {
		wr_ban_write(journey->to, &ban, journey->now_s);
		return;
	}
	wr_ban_forget(journey->to, key);
	if (banned) /* and not listed in `from` either */
		wr_tally(&journey->to->tallies->ban_unlisted);
}

/* Copies the override, the note and the listed ban of one key. The key's cell in `to` gets the kind of its cell in
 * `from`. */
static void carry_override(const struct journey *journey, struct wr_key key,
			   struct wr_override override)
{
	struct wr_override_change change = {.ban = true, .grant = true, .to = override};
	struct weir_table *to = journey->to, *from = journey->from;
	struct wr_table_text_note text;
	struct wr_spot spot;

	if (!wr_override_any(override)) {
		wr_override_change(to, key, 0, &change, journey->now_s);
		wr_note_forget(to, key);
		wr_ban_forget(to, key);
		return;
	}
	if (!wr_table_find(from, key, &spot))
		return; /* the key was evicted meanwhile, and its override with it */
	wr_override_change(to, key, wr_hot_kind(spot.hot), &change, journey->now_s);
	if (wr_note_read(from, key, &text))
		wr_note_write(to, key, &text, journey->now_s);
	carry_listed(journey, key, override.banned_until_s != 0);
}

static int by_tag(const void *a, const void *b)
{
	uint64_t x = ((const struct wr_override_item *)a)->key.tag;
	uint64_t y = ((const struct wr_override_item *)b)->key.tag;

	return x < y ? -1 : x > y;
}

static int carry_new(void *context, struct wr_key key, struct wr_override override)
{
	const struct journey *journey = context;
	const struct wr_override_list *list = journey->list;
	struct wr_override_item wanted = {.key = key};

	if (list && list->count &&
	    bsearch(&wanted, list->items, list->count, sizeof wanted, by_tag))
		return 0;
	if (!wr_override_any(wr_override_find(journey->to, key, journey->now_s)))
		carry_override(journey, key, override);
	return 0;
}

void wr_overrides_import(struct weir_table *to, struct weir_table *from, uint32_t now_s)
{
	struct journey journey = {.to = to, .from = from, .now_s = now_s};

	wr_assert(to != from);
	wr_assert_magic(to, WR_TABLE_MAGIC);
	wr_assert_magic(from, WR_TABLE_MAGIC);
	wr_overrides_each(from, now_s, carry_new, &journey);
}

static int collect_item(void *context, struct wr_key key, struct wr_override override)
{
	struct wr_override_list *list = context;

	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 64;
		void *more = realloc(list->items, room * sizeof *list->items);

		if (!more)
			return -1;
		list->items = more;
		list->room = room;
	}
	list->items[list->count++] = (struct wr_override_item){key, override};
	return 0;
}

bool wr_overrides_collect(struct weir_table *table, uint32_t now_s, struct wr_override_list *list)
{
	wr_assert_magic(table, WR_TABLE_MAGIC);
	*list = (struct wr_override_list){0};
	if (wr_overrides_each(table, now_s, collect_item, list) != 0)
		return false;
	if (list->count)
		qsort(list->items, list->count, sizeof *list->items, by_tag);
	return true;
}

void wr_overrides_hand_over(struct weir_table *to, struct weir_table *from,
			    const struct wr_override_list *list, uint32_t now_s)
{
	struct journey journey = {to, from, list, now_s};

	wr_assert(to != from && list);
	wr_assert_magic(to, WR_TABLE_MAGIC);
	wr_assert_magic(from, WR_TABLE_MAGIC);
	for (size_t i = 0; i < list->count; i++) {
		struct wr_key key = list->items[i].key;
		struct wr_override then = list->items[i].override;
		struct wr_override now = wr_override_find(from, key, now_s);

		if (!is_same(now, then) && is_same(wr_override_find(to, key, now_s), then))
			carry_override(&journey, key, now);
	}
	wr_overrides_each(from, now_s, carry_new, &journey);
}
