/* Protected addresses; see protect.h. */
#include "shield/protect.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* Link-local addresses are protected because neighbour discovery uses them as source addresses:
 * without it, no host on the link can reach this machine. The prefix 169.254.0.0/16 includes the
 * metadata services of clouds. */
static const char *const fixed[] = {"127.0.0.0/8", "0.0.0.0/8", "169.254.0.0/16",
				    "::/128",      "::1/128",   "fe80::/10"};

const char *wr_protect_reason(enum wr_protect_kind kind)
{
	static const char *const reasons[] = {
#define REASON(name, reason) reason,
		WR_PROTECT_KINDS(REASON)
#undef REASON
	};

	return kind < WR_PROTECT_NONE ? reasons[kind] : "";
}

/* ---- lists ---- */

bool wr_protect_list_add(struct wr_protect_list *list, const struct wr_address_range *range)
{
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 16;
		struct wr_address_range *items = reallocarray(list->items, room, sizeof *items);

		if (!items)
			return false;
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = *range;
	return true;
}

void wr_protect_list_join(struct wr_protect_list *list)
{
	if (list->count)
		list->count = wr_address_ranges_join(list->items, list->count);
}

void wr_protect_list_free(struct wr_protect_list *list)
{
	free(list->items);
	*list = (struct wr_protect_list){0};
}

bool wr_protect_list_equal(const struct wr_protect_list *a, const struct wr_protect_list *b)
{
	return a->count == b->count &&
	       (a->count == 0 || memcmp(a->items, b->items, a->count * sizeof *a->items) == 0);
}

/* ---- all kinds ---- */

bool wr_protect_replace(struct wr_protect *protect, enum wr_protect_kind kind,
			struct wr_protect_list *list)
{
	bool differs;

	wr_protect_list_join(list);
	differs = !wr_protect_list_equal(&protect->lists[kind], list);
	wr_protect_list_free(&protect->lists[kind]);
	protect->lists[kind] = *list;
	*list = (struct wr_protect_list){0};
	return differs;
}

bool wr_protect_init(struct wr_protect *protect)
{
	struct wr_protect_list list = {0};
	struct wr_address_range range;
	unsigned bits;

	*protect = (struct wr_protect){0};
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		if (wr_address_prefix_parse(wr_str(fixed[i]), &range, &bits) !=
			    WR_ADDRESS_PREFIX_OK ||
		    !wr_protect_list_add(&list, &range)) {
			wr_protect_list_free(&list);
			return false;
		}
	wr_protect_replace(protect, WR_PROTECT_FIXED, &list);
	return true;
}

void wr_protect_free(struct wr_protect *protect)
{
	for (unsigned kind = 0; kind < WR_PROTECT_NONE; kind++)
		wr_protect_list_free(&protect->lists[kind]);
}

static int compare(const struct wr_address *a, const struct wr_address *b)
{
	return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

/* Returns whether a range of the joined list has an address in common with `range`. Finds the first
 * range of the list that ends at range->low or later. */
static bool list_meets(const struct wr_protect_list *list, const struct wr_address_range *range)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&list->items[middle].high, &range->low) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->count && compare(&list->items[low].low, &range->high) <= 0;
}

enum wr_protect_kind wr_protect_find(const struct wr_protect *protect,
				     const struct wr_address_range *range)
{
	for (unsigned kind = 0; kind < WR_PROTECT_NONE; kind++)
		if (list_meets(&protect->lists[kind], range))
			return (enum wr_protect_kind)kind;
	return WR_PROTECT_NONE;
}

bool wr_protect_all(const struct wr_protect *protect, bool v4, struct wr_protect_list *all)
{
	for (unsigned kind = 0; kind < WR_PROTECT_NONE; kind++) {
		const struct wr_protect_list *list = &protect->lists[kind];

		for (size_t i = 0; i < list->count; i++)
			if (wr_address_is_v4(&list->items[i].low) == v4 &&
			    !wr_protect_list_add(all, &list->items[i]))
				return false;
	}
	wr_protect_list_join(all);
	return true;
}
