/* Top keys of one rule: two lists of keys and counts, and texts for the first ones of each.
 *
 * A list is the Space-Saving sketch (Metwally, Agrawal, El Abbadi: "Efficient computation of
 * frequent and top-k elements in data streams", 2005): 48 keys with counts. A key that is not there
 * takes the place of the one with the smallest count, and inherits that count as its possible
 * error. Counts add up to the total, so the smallest is at most a 48th of it: no count is more than
 * that too high, and a key with more than that is always there.
 *
 * An entry is a pair, changed by one swap: any number may write, and be killed. Two who bring in
 * one key at once may do so twice; a reader adds them up. */
#ifndef WR_STATS_TOP_H
#define WR_STATS_TOP_H

#include <stdbool.h>

#include <weir/stats.h>

#include "base/pair.h"

#define WR_TOP_TEXTS 10u
#define WR_FADE_S 300u

/* lo: the key's hash, 0: free. hi: count 32 · of which possible error 32 */
struct wr_top_list {
	struct wr_pair entry[WEIR_TOP_KEYS];
	struct wr_top_text {
		uint64_t hash; /* 0: free, or being written */
		uint64_t seal; /* checksum 32 · kind 8 · length 8 */
		uint64_t words[WEIR_TOP_TEXT / 8];
	} text[WR_TOP_TEXTS];
};

struct wr_top {
	uint64_t faded; /* in which five minutes it was halved last */
	uint64_t total[2];
	uint32_t noise_shift[2]; /* how thin the samples were, as a power of two */
	uint64_t pad[4];
	struct wr_top_list list[2]; /* enum weir_top_list */
};

_Static_assert(sizeof(struct wr_top_text) == 80, "a text");
_Static_assert(sizeof(struct wr_top) == 3200, "top keys of a rule");

/* A key's text as it was copied for a decision that is looked at. */
struct wr_key_text {
	uint8_t kind; /* enum weir_top_text */
	uint8_t len;
	char bytes[WEIR_TOP_TEXT];
};

/* Adds to a key's count. `text` may be NULL or have none. */
void wr_top_add(struct wr_top *top, enum weir_top_list which, uint64_t hash, uint32_t weight,
		const struct wr_key_text *text);

/* Halves everything, and forgets what is down to nothing. */
void wr_top_fade(struct wr_top *top);

/* Forgets everything; or the texts alone. */
void wr_top_clear(struct wr_top *top);
void wr_top_wipe_texts(struct wr_top *top);

#endif
