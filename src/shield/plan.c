/* Computes the wanted elements, and the changes to the present ones; see plan.h. */
#include "shield/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- wanted elements ---- */

void wr_nft_plan_free(struct wr_nft_plan *plan)
{
	wr_nft_elements_free(&plan->wanted);
	free(plan->skips);
	*plan = (struct wr_nft_plan){0};
}

static void add_skip(struct wr_nft_plan *plan, const struct wr_nft_element *element,
		     enum wr_protect_kind kind)
{
	if (plan->skip_count == plan->skip_room) {
		size_t room = plan->skip_room ? plan->skip_room * 2 : 16;
		struct wr_nft_skip *skips = reallocarray(plan->skips, room, sizeof *skips);

		if (!skips) {
			plan->out_of_memory = true;
			return;
		}
		plan->skips = skips;
		plan->skip_room = room;
	}
	plan->skips[plan->skip_count++] = (struct wr_nft_skip){*element, kind};
}

void wr_nft_plan_ban(struct wr_nft_plan *plan, const struct wr_protect *protect,
		     const struct wr_ban *ban, uint32_t now_s)
{
	struct wr_nft_element element;
	struct wr_address_range range;
	enum wr_protect_kind kind;

	if (!wr_nft_element_of(ban, now_s, &element))
		return;
	range = wr_nft_element_range(&element);
	kind = wr_protect_find(protect, &range);
	if (kind != WR_PROTECT_NONE)
		add_skip(plan, &element, kind);
	else if (!wr_nft_elements_add(&plan->wanted, &element))
		plan->out_of_memory = true;
}

static int compare_skips(const void *a, const void *b)
{
	const struct wr_nft_skip *x = a, *y = b;

	return wr_nft_element_compare(&x->element, &y->element);
}

static void sort_skips(struct wr_nft_plan *plan)
{
	size_t kept = 0;

	if (plan->skip_count == 0)
		return;
	qsort(plan->skips, plan->skip_count, sizeof *plan->skips, compare_skips);
	for (size_t i = 1; i < plan->skip_count; i++)
		if (compare_skips(&plan->skips[kept], &plan->skips[i]) != 0)
			plan->skips[++kept] = plan->skips[i];
	plan->skip_count = kept + 1;
}

/* Drops each prefix that lies within another one of its set, because an interval set refuses
 * overlaps. In the sorted array, the wider prefix comes first. */
static void drop_inner_prefixes(struct wr_nft_elements *wanted)
{
	struct wr_address_range outer = {0};
	unsigned outer_set = WR_NFT_SET_COUNT;
	size_t kept = 0;

	for (size_t i = 0; i < wanted->count; i++) {
		const struct wr_nft_element element = wanted->items[i];
		struct wr_address_range range;

		if (wr_nft_set_is_nets(element.set)) {
			range = wr_nft_element_range(&element);
			if (element.set == outer_set &&
			    memcmp(&range.high, &outer.high, sizeof range.high) <= 0)
				continue;
			outer = range;
			outer_set = element.set;
		}
		wanted->items[kept++] = element;
	}
	wanted->count = kept;
}

static int compare_ends(const void *a, const void *b)
{
	const struct wr_nft_element *x = a, *y = b;

	if (x->until_s != y->until_s)
		return x->until_s > y->until_s ? -1 : 1;
	return wr_nft_element_compare(x, y);
}

/* Keeps the `max` elements of items[0 … count) that end last. Returns the new count. */
static size_t keep_longest(struct wr_nft_element *items, size_t count, size_t max)
{
	if (count <= max)
		return count;
	qsort(items, count, sizeof *items, compare_ends);
	return max;
}

/* Applies the maximum numbers: `size` for all addresses, WR_NFT_PREFIXES_MAX for each interval
 * set. Addresses are at the front of the sorted array. */
static void drop_surplus(struct wr_nft_plan *plan, size_t size)
{
	struct wr_nft_element *items = plan->wanted.items;
	size_t count = plan->wanted.count, at = 0, kept = 0;

	while (at < count) {
		size_t end = at, max = WR_NFT_PREFIXES_MAX, left;

		if (wr_nft_set_is_nets(items[at].set)) {
			while (end < count && items[end].set == items[at].set)
				end++;
		} else {
			while (end < count && !wr_nft_set_is_nets(items[end].set))
				end++;
			max = size;
		}
		left = keep_longest(items + at, end - at, max);
		memmove(items + kept, items + at, left * sizeof *items);
		kept += left;
		at = end;
	}
	plan->left_out = count - kept;
	plan->wanted.count = kept;
	if (plan->left_out)
		wr_nft_elements_sort(&plan->wanted);
}

void wr_nft_plan_finish(struct wr_nft_plan *plan, size_t size)
{
	sort_skips(plan);
	wr_nft_elements_sort(&plan->wanted);
	drop_inner_prefixes(&plan->wanted);
	drop_surplus(plan, size);
	plan->next_s = UINT32_MAX;
	for (size_t i = 0; i < plan->wanted.count; i++)
		if (plan->wanted.items[i].until_s < plan->next_s)
			plan->next_s = plan->wanted.items[i].until_s;
}

/* ---- changes ---- */

struct wr_nft_elements wr_nft_elements_of_set(const struct wr_nft_elements *elements, unsigned set)
{
	size_t first = 0, end;

	while (first < elements->count && elements->items[first].set < set)
		first++;
	end = first;
	while (end < elements->count && elements->items[end].set == set)
		end++;
	return (struct wr_nft_elements){elements->items + first, end - first, end - first};
}

static bool note_gone(const struct wr_nft_element *element, uint32_t now_s,
		      struct wr_nft_changes *changes)
{
	if (element->until_s != WR_NFT_UNKNOWN && element->until_s <= now_s)
		return true;
	if (!wr_nft_set_is_nets(element->set))
		return wr_nft_elements_add(&changes->remove, element);
	changes->nets_differ[element->set] = true;
	return true;
}

static bool note_wanted(const struct wr_nft_element *element, struct wr_nft_elements *to,
			struct wr_nft_changes *changes)
{
	if (!wr_nft_set_is_nets(element->set))
		return wr_nft_elements_add(to, element);
	changes->nets_differ[element->set] = true;
	return true;
}

bool wr_nft_diff(const struct wr_nft_elements *present, const struct wr_nft_elements *wanted,
		 uint32_t now_s, struct wr_nft_changes *changes)
{
	const struct wr_nft_element *have = present->items, *have_end = have + present->count;
	const struct wr_nft_element *want = wanted->items, *want_end = want + wanted->count;
	bool ok = true;

	while (ok && (have < have_end || want < want_end)) {
		int order = 0;

		if (have == have_end || want == want_end)
			order = have == have_end ? 1 : -1;
		else
			order = wr_nft_element_compare(have, want);
		if (order == 0 && have->until_s != want->until_s)
			ok = note_wanted(want, &changes->renew, changes);
		else if (order < 0)
			ok = note_gone(have, now_s, changes);
		else if (order > 0)
			ok = note_wanted(want, &changes->add, changes);
		have += order <= 0;
		want += order >= 0;
	}
	return ok;
}

void wr_nft_changes_free(struct wr_nft_changes *changes)
{
	wr_nft_elements_free(&changes->add);
	wr_nft_elements_free(&changes->renew);
	wr_nft_elements_free(&changes->remove);
	*changes = (struct wr_nft_changes){0};
}
