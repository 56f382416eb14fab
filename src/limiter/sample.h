/* Top keys: the few decisions that are looked at, and what clients' keys look like.
 *
 * Whether a decision is looked at must be known while its descriptor is still there, so it is drawn
 * when the descriptor is added. The text is copied for more decisions than are counted as hot ones:
 * refusals are rarer and are drawn by themselves, after the verdict. */
#ifndef WR_LIMITER_SAMPLE_H
#define WR_LIMITER_SAMPLE_H

#include "limiter/ask.h"

/* Draws for the needs of a descriptor, and keeps its text for those who may want it: in the ask's
 * own text, which has no other use before the verdict. */
void wr_ask_sample(struct weir_ask *ask, struct wr_ask_descriptor *descriptor,
		   const struct weir_entry *entries, size_t count);

/* Counts a need's key if it was drawn; `over`: refused, or it would have been. */
void wr_ask_count_key(const struct weir_ask *ask, struct wr_lane *lane,
		      const struct wr_ask_need *need, bool over);

#endif
