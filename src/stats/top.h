/* Top keys of one rule: two lists of keys with counts, and the texts of the first ten keys of each
 * list.
 *
 * A list is the Space-Saving sketch (Metwally, Agrawal, El Abbadi: "Efficient computation of
 * frequent and top-k elements in data streams", 2005): 48 keys with counts. A new key replaces the
 * key with the smallest count, and starts with that count, which is also its possible error. Each
 * wr_top_add() adds its weight to one count, so the counts add up to the total of all weights, and
 * the smallest count is at most 1/48 of the total. So no count is too high by more than 1/48 of the
 * total, and every key with more than 1/48 of the total is in the list.
 *
 * An entry is a pair that is changed by one compare-and-swap, so any number of processes may write,
 * and may be killed while they write. Two writers that insert the same key at the same time may
 * create two entries; a reader adds the two counts. */
#ifndef WR_STATS_TOP_H
#define WR_STATS_TOP_H

#include <stdbool.h>

#include <weir/stats.h>

#include "base/pair.h"

#define WR_TOP_TEXTS 10u
#define WR_FADE_S 300u

/* In an entry, `lo` is the key's hash, or 0 if the entry is free. `hi` holds the count (32 bits)
 * and the possible error of the count (32 bits). */
struct wr_top_list {
	struct wr_pair entry[WEIR_TOP_KEYS];
	struct wr_top_text {
		uint64_t hash; /* hash of the key; 0: the text is free, or is being written */
		uint64_t seal; /* checksum (32 bits), kind and length (8 bits each) of the text */
		uint64_t words[WEIR_TOP_TEXT / 8];
	} text[WR_TOP_TEXTS];
};

struct wr_top {
	uint64_t faded; /* number of the five-minute period in which the counts were last halved */
	uint64_t total[2];
	/* The counts are at least as exact as if one decision in 2^noise_shift had been sampled. */
	uint32_t noise_shift[2];
	uint64_t pad[4];
	struct wr_top_list list[2]; /* the index is an enum weir_top_list */
};

_Static_assert(sizeof(struct wr_top_text) == 80, "a text");
_Static_assert(sizeof(struct wr_top) == 3200, "top keys of a rule");

/* The text of a key, copied for a sampled decision. */
struct wr_stats_key_text {
	uint8_t kind; /* enum weir_top_text */
	uint8_t len;
	char bytes[WEIR_TOP_TEXT];
};

/* Adds `weight` to the count of a key. `text` may be NULL. */
void wr_top_add(struct wr_top *top, enum weir_top_list which, uint64_t hash, uint32_t weight,
		const struct wr_stats_key_text *text);

/* Halves all counts, and removes keys whose count becomes 0. */
void wr_top_fade(struct wr_top *top);

/* Removes all keys. */
void wr_top_clear(struct wr_top *top);

/* Erases the texts of all keys. The counts stay. */
void wr_top_wipe_texts(struct wr_top *top);

#endif
