/* Finds the keys that were counted most often, in bounded memory. Keys belong to groups: the refused
 * keys of one limit are a group.
 *
 * The counts are exact as long as there are at most WR_LAB_TOP_MAX keys. Then the half of the
 * largest group with the lowest counts is dropped. A key that comes later may have been dropped
 * before: its `error` is the largest count that a dropped key of its group can have had. The true
 * count of a key is from `count` to `count` + `error`. */
#ifndef WR_LAB_REPLAY_TOP_H
#define WR_LAB_REPLAY_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_LAB_TOP_MAX 65536u /* 8 MiB */
#define WR_LAB_TOP_TEXT 94u
#define WR_LAB_TOP_KEYS 10u /* number of keys in a report */

struct wr_lab_top_key {
	uint64_t hash;
	uint64_t count, error;
	uint32_t group;
	uint8_t text_len;
	bool cut; /* the text was longer */
	/* The values of the key, separated by WEIR_TOP_BETWEEN (weir/stats.h). They come from
	 * clients and may contain any bytes. */
	char text[WR_LAB_TOP_TEXT];
};

struct wr_lab_top {
	struct wr_lab_top_key *keys;
	uint32_t count, cap, max;
	uint32_t *slots; /* a hash table of indexes into `keys`, plus 1; 0: free */
	uint32_t mask;
	uint64_t *floors; /* for each group: the largest count of a dropped key */
	uint32_t group_count;
};

/* Makes an empty list for at most `max` keys. Returns false if there is no memory. */
bool wr_lab_top_init(struct wr_lab_top *top, uint32_t group_count, uint32_t max);
void wr_lab_top_free(struct wr_lab_top *top);

/* Counts a key. The hashes of different keys must differ, also those of keys in different groups.
 * Returns true if the key is new; then the caller sets its text with wr_lab_top_name(). */
bool wr_lab_top_count(struct wr_lab_top *top, uint32_t group, uint64_t hash);

/* Sets the text of the key that was counted last. */
void wr_lab_top_name(struct wr_lab_top *top, struct weir_str text);

/* Finds the keys of a group with the highest counts, highest first. Keys with equal counts are in
 * the order of their texts. Returns their number, at most `max`. */
size_t wr_lab_top_find(const struct wr_lab_top *top, uint32_t group,
		       const struct wr_lab_top_key **found, size_t max);

#endif
