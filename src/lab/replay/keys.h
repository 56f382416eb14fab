/* Counts distinct keys in bounded memory. Keys belong to groups: the keys of one limit are a group.
 *
 * All keys are counted exactly as long as there are at most WR_LAB_KEYS_MAX of them. Then the group
 * with the most keys is sampled: only the keys whose hash begins with a zero bit stay, and the
 * number of the group's keys is estimated as twice the number of those that stay. Each further time
 * that the memory is full, the sample of the largest group is halved again. A key of the sample has
 * been watched since its first request, so its marks are complete.
 *
 * The estimate of n keys from a sample of m keys has a standard error of about n / √m. The largest
 * group of a full set has at least half of WR_LAB_KEYS_MAX divided by the number of groups, so with
 * one large group the error is below 0.2 %. */
#ifndef WR_LAB_REPLAY_KEYS_H
#define WR_LAB_REPLAY_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_LAB_KEYS_MAX (1u << 20) /* 32 MiB */
#define WR_LAB_MARKS 4u            /* number of combinations of marks */

/* A key. The hash 0 means that the slot is free. */
struct wr_lab_key {
	uint64_t hash;
	uint32_t group;
	uint32_t marks; /* a number below WR_LAB_MARKS; each bit is a mark of the caller */
};

struct wr_lab_key_group {
	uint32_t by_marks[WR_LAB_MARKS]; /* number of keys in the set, by their marks */
	uint32_t level;                  /* one key in 2^level is in the sample */
};

struct wr_lab_keys {
	struct wr_lab_key *slots; /* a hash table with linear probing */
	uint64_t mask;            /* number of slots minus 1 */
	uint32_t count, max;
	struct wr_lab_key_group *groups;
	uint32_t group_count;
};

/* Makes an empty set for at most `max` keys. Returns false if there is no memory. */
bool wr_lab_keys_init(struct wr_lab_keys *keys, uint32_t group_count, uint32_t max);
void wr_lab_keys_free(struct wr_lab_keys *keys);

/* Loads the cache line of a key, which wr_lab_keys_mark() will need soon. */
static inline void wr_lab_keys_prefetch(const struct wr_lab_keys *keys, uint64_t hash)
{
	__builtin_prefetch(&keys->slots[hash & keys->mask], 1);
}

/* Counts a key of a group, and adds marks to the key. The hashes of different keys must differ, also
 * those of keys in different groups. */
void wr_lab_keys_mark(struct wr_lab_keys *keys, uint32_t group, uint64_t hash, uint32_t marks);

/* Returns the number of keys of a group that have exactly these marks. */
uint64_t wr_lab_keys_count(const struct wr_lab_keys *keys, uint32_t group, uint32_t marks);

/* Returns the number of all keys of a group. */
uint64_t wr_lab_keys_all(const struct wr_lab_keys *keys, uint32_t group);

/* Returns whether the numbers of a group are exact. Otherwise they are estimates. */
static inline bool wr_lab_keys_exact(const struct wr_lab_keys *keys, uint32_t group)
{
	return keys->groups[group].level == 0;
}

#endif
