/* Counts distinct keys in bounded memory. Called by replay.c for the keys of each limit, and by
 * replay_diff.c for clients. */
#include "lab/replay/keys.h"

#include <stdlib.h>

#include "base/assert.h"

#define FIRST_SLOTS 4096u

bool wr_lab_keys_init(struct wr_lab_keys *keys, uint32_t group_count, uint32_t max)
{
	*keys = (struct wr_lab_keys){.mask = FIRST_SLOTS - 1,
				     .max = max,
				     .group_count = group_count,
				     .slots = calloc(FIRST_SLOTS, sizeof *keys->slots),
				     .groups = calloc(group_count + 1, sizeof *keys->groups)};
	if (keys->slots && keys->groups)
		return true;
	wr_lab_keys_free(keys);
	return false;
}

void wr_lab_keys_free(struct wr_lab_keys *keys)
{
	free(keys->slots);
	free(keys->groups);
	keys->slots = NULL;
	keys->groups = NULL;
}

static bool is_sampled(const struct wr_lab_key_group *group, uint64_t hash)
{
	return group->level == 0 || hash >> (64 - group->level) == 0;
}

static uint64_t group_size(const struct wr_lab_key_group *group)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < WR_LAB_MARKS; i++)
		size += group->by_marks[i];
	return size;
}

/* Returns the slot of a key, or the free slot in which the key belongs. */
static struct wr_lab_key *find_slot(const struct wr_lab_keys *keys, uint64_t hash)
{
	uint64_t at = hash & keys->mask;

	while (keys->slots[at].hash && keys->slots[at].hash != hash)
		at = (at + 1) & keys->mask;
	return &keys->slots[at];
}

/* Doubles the number of slots. Without memory, the set stays as it is and becomes fuller. */
static void grow(struct wr_lab_keys *keys)
{
	uint64_t slots = keys->mask + 1;
	struct wr_lab_keys larger = *keys;

	larger.slots = calloc(2 * slots, sizeof *keys->slots);
	if (!larger.slots)
		return;
	larger.mask = 2 * slots - 1;
	for (uint64_t i = 0; i < slots; i++)
		if (keys->slots[i].hash)
			*find_slot(&larger, keys->slots[i].hash) = keys->slots[i];
	free(keys->slots);
	*keys = larger;
}

/* Removes the key in slot `at`. Keys behind it move forward, so that no search ends at the free
 * slot too early. */
static void remove_at(struct wr_lab_keys *keys, uint64_t at)
{
	struct wr_lab_key *slots = keys->slots;
	uint64_t next = at;

	keys->groups[slots[at].group].by_marks[slots[at].marks]--;
	keys->count--;
	for (;;) {
		next = (next + 1) & keys->mask;
		if (slots[next].hash == 0)
			break;
		/* The key may move if its home is not behind the free slot. */
		if (((next - (slots[next].hash & keys->mask)) & keys->mask) >=
		    ((next - at) & keys->mask)) {
			slots[at] = slots[next];
			at = next;
		}
	}
	slots[at].hash = 0;
}

/* Halves the sample of the group with the most keys. */
static void thin_largest(struct wr_lab_keys *keys)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < keys->group_count; i++)
		if (group_size(&keys->groups[i]) > group_size(&keys->groups[largest]))
			largest = i;
	wr_assert(keys->groups[largest].level < 63);
	keys->groups[largest].level++;
	for (uint64_t i = 0; i <= keys->mask;) {
		const struct wr_lab_key *key = &keys->slots[i];

		if (key->hash && key->group == largest &&
		    !is_sampled(&keys->groups[largest], key->hash))
			remove_at(keys, i); /* another key may have moved to slot i */
		else
			i++;
	}
}

static void make_room(struct wr_lab_keys *keys)
{
	if (keys->count < keys->max && keys->count >= (keys->mask + 1) / 2)
		grow(keys);
	while (keys->count >= keys->max || keys->count > keys->mask - keys->mask / 8)
		thin_largest(keys);
}

void wr_lab_keys_mark(struct wr_lab_keys *keys, uint32_t group, uint64_t hash, uint32_t marks)
{
	struct wr_lab_key_group *counts = &keys->groups[group];
	struct wr_lab_key *key;

	wr_assert(group < keys->group_count && marks < WR_LAB_MARKS);
	if (!is_sampled(counts, hash))
		return;
	hash += hash == 0;
	key = find_slot(keys, hash);
	if (key->hash == 0) {
		if (keys->count >= (keys->mask + 1) / 2 || keys->count >= keys->max) {
			make_room(keys);
			if (!is_sampled(counts, hash))
				return;
			key = find_slot(keys, hash);
		}
		*key = (struct wr_lab_key){hash, group, marks};
		keys->count++;
		counts->by_marks[marks]++;
	} else if ((key->marks | marks) != key->marks) {
		counts->by_marks[key->marks]--;
		key->marks |= marks;
		counts->by_marks[key->marks]++;
	}
}

uint64_t wr_lab_keys_count(const struct wr_lab_keys *keys, uint32_t group, uint32_t marks)
{
	const struct wr_lab_key_group *counts = &keys->groups[group];

	return (uint64_t)counts->by_marks[marks] << counts->level;
}

uint64_t wr_lab_keys_all(const struct wr_lab_keys *keys, uint32_t group)
{
	return group_size(&keys->groups[group]) << keys->groups[group].level;
}
