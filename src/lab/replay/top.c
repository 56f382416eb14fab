/* Finds the keys that were counted most often, in bounded memory. Called by replay.c for refused
 * keys, and by replay_diff.c for clients. */
#include "lab/replay/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define FIRST_KEYS 256u

_Static_assert(sizeof(struct wr_lab_top_key) == 128, "8 MiB for WR_LAB_TOP_MAX keys");

bool wr_lab_top_init(struct wr_lab_top *top, uint32_t group_count, uint32_t max)
{
	uint32_t slots = 4;

	while (slots < 2 * max)
		slots *= 2;
	*top = (struct wr_lab_top){.cap = max < FIRST_KEYS ? max : FIRST_KEYS,
				   .max = max,
				   .mask = slots - 1,
				   .group_count = group_count};
	top->keys = malloc(top->cap * sizeof *top->keys);
	top->slots = calloc(slots, sizeof *top->slots);
	top->floors = calloc(group_count + 1, sizeof *top->floors);
	if (top->keys && top->slots && top->floors)
		return true;
	wr_lab_top_free(top);
	return false;
}

void wr_lab_top_free(struct wr_lab_top *top)
{
	free(top->keys);
	free(top->slots);
	free(top->floors);
	*top = (struct wr_lab_top){0};
}

/* Returns the slot of a key, or the free slot in which the key belongs. */
static uint32_t *find_slot(const struct wr_lab_top *top, uint64_t hash)
{
	uint32_t at = (uint32_t)hash & top->mask;

	while (top->slots[at] && top->keys[top->slots[at] - 1].hash != hash)
		at = (at + 1) & top->mask;
	return &top->slots[at];
}

/* ---- dropping keys ---- */

static uint64_t most_possible(const struct wr_lab_top_key *key)
{
	return key->count + key->error;
}

static int lower_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t largest_group(const struct wr_lab_top *top, uint32_t *size)
{
	uint32_t *sizes = calloc(top->group_count + 1, sizeof *sizes), largest = 0;

	*size = 0;
	for (uint32_t i = 0; sizes && i < top->count; i++)
		if (++sizes[top->keys[i].group] > *size) {
			largest = top->keys[i].group;
			*size = sizes[largest];
		}
	free(sizes);
	return largest;
}

static void rebuild_slots(struct wr_lab_top *top)
{
	memset(top->slots, 0, ((size_t)top->mask + 1) * sizeof *top->slots);
	for (uint32_t i = 0; i < top->count; i++)
		*find_slot(top, top->keys[i].hash) = i + 1;
}

/* Drops the half of the largest group that has the lowest counts. Returns false if there is no
 * memory. */
static bool drop_half(struct wr_lab_top *top)
{
	uint32_t size, group = largest_group(top, &size), kept = 0, left = (size + 1) / 2;
	uint64_t *counts = malloc(((size_t)size + 1) * sizeof *counts), bound;

	if (!counts || size == 0) {
		free(counts);
		return false;
	}
	for (uint32_t i = 0, n = 0; i < top->count; i++)
		if (top->keys[i].group == group)
			counts[n++] = most_possible(&top->keys[i]);
	qsort(counts, size, sizeof *counts, lower_first);
	bound = counts[left - 1];
	free(counts);
	if (bound > top->floors[group])
		top->floors[group] = bound;
	for (uint32_t i = 0; i < top->count; i++) {
		const struct wr_lab_top_key *key = &top->keys[i];

		if (key->group == group && left && most_possible(key) <= bound)
			left--;
		else
			top->keys[kept++] = *key;
	}
	top->count = kept;
	rebuild_slots(top);
	return true;
}

/* ---- counting ---- */

/* Makes room for one more key. Returns false if there is no memory. */
static bool make_room(struct wr_lab_top *top)
{
	uint32_t cap = 2 * top->cap < top->max ? 2 * top->cap : top->max;
	struct wr_lab_top_key *keys;

	if (top->count < top->cap)
		return true;
	keys = cap > top->cap ? realloc(top->keys, cap * sizeof *keys) : NULL;
	if (!keys)
		return drop_half(top);
	top->keys = keys;
	top->cap = cap;
	return true;
}

bool wr_lab_top_count(struct wr_lab_top *top, uint32_t group, uint64_t hash)
{
	uint32_t *slot = find_slot(top, hash);

	wr_assert(group < top->group_count);
	if (*slot) {
		top->keys[*slot - 1].count++;
		return false;
	}
	if (!make_room(top))
		return false;
	top->keys[top->count] = (struct wr_lab_top_key){
		.hash = hash, .group = group, .count = 1, .error = top->floors[group]};
	*find_slot(top, hash) = ++top->count;
	return true;
}

void wr_lab_top_name(struct wr_lab_top *top, struct weir_str text)
{
	struct wr_lab_top_key *key = &top->keys[top->count - 1];

	wr_assert(top->count > 0);
	key->cut = text.len > WR_LAB_TOP_TEXT;
	key->text_len = (uint8_t)(key->cut ? WR_LAB_TOP_TEXT : text.len);
	if (key->text_len)
		memcpy(key->text, text.ptr, key->text_len);
}

/* ---- the report ---- */

static int compare_texts(const struct wr_lab_top_key *a, const struct wr_lab_top_key *b)
{
	size_t len = a->text_len < b->text_len ? a->text_len : b->text_len;
	int order = memcmp(a->text, b->text, len);

	return order ? order : a->text_len - b->text_len;
}

static bool is_before(const struct wr_lab_top_key *a, const struct wr_lab_top_key *b)
{
	return a->count != b->count ? a->count > b->count : compare_texts(a, b) < 0;
}

size_t wr_lab_top_find(const struct wr_lab_top *top, uint32_t group,
		       const struct wr_lab_top_key **found, size_t max)
{
	size_t count = 0;

	for (uint32_t i = 0; i < top->count; i++) {
		const struct wr_lab_top_key *key = &top->keys[i];
		size_t at = count;

		if (key->group != group || (count == max && !is_before(key, found[max - 1])))
			continue;
		count += count < max;
		at = at < max ? at : max - 1;
		for (; at > 0 && is_before(key, found[at - 1]); at--)
			found[at] = found[at - 1];
		found[at] = key;
	}
	return count;
}
