/* Sums within a moving span of time: see recent.h. Called by bound.c. */
#include "lab/simulate/recent.h"

#include <stdlib.h>

#define FIRST_ITEMS 4096u

struct wr_lab_recent_item {
	uint64_t at_ns;
	uint32_t thing, amount;
};

bool wr_lab_recent_init(struct wr_lab_recent *recent, uint64_t span_ns, size_t things)
{
	*recent = (struct wr_lab_recent){.span_ns = span_ns,
					 .within = calloc(things, sizeof *recent->within),
					 .most = calloc(things, sizeof *recent->most)};
	return recent->within && recent->most;
}

void wr_lab_recent_free(struct wr_lab_recent *recent)
{
	free(recent->within);
	free(recent->most);
	free(recent->items);
}

static bool grow(struct wr_lab_recent *recent)
{
	size_t cap = recent->cap ? 2 * recent->cap : FIRST_ITEMS;
	struct wr_lab_recent_item *items = malloc(cap * sizeof *items);

	if (!items)
		return false;
	for (size_t i = 0; i < recent->count; i++)
		items[i] = recent->items[(recent->first + i) & (recent->cap - 1)];
	free(recent->items);
	recent->items = items;
	recent->first = 0;
	recent->cap = cap;
	return true;
}

void wr_lab_recent_advance(struct wr_lab_recent *recent, uint64_t now_ns)
{
	while (recent->count) {
		const struct wr_lab_recent_item *oldest = &recent->items[recent->first];

		if (oldest->at_ns + recent->span_ns >= now_ns)
			return;
		recent->within[oldest->thing] -= oldest->amount;
		recent->first = (recent->first + 1) & (recent->cap - 1);
		recent->count--;
	}
}

void wr_lab_recent_add(struct wr_lab_recent *recent, uint32_t thing, uint32_t amount,
		       uint64_t at_ns)
{
	wr_lab_recent_advance(recent, at_ns);
	if (recent->failed || (recent->count == recent->cap && !grow(recent))) {
		recent->failed = true;
		return;
	}
	recent->items[(recent->first + recent->count++) & (recent->cap - 1)] =
		(struct wr_lab_recent_item){at_ns, thing, amount};
	recent->within[thing] += amount;
	if (recent->within[thing] > recent->most[thing])
		recent->most[thing] = recent->within[thing];
}
