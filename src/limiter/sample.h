/* Samples decisions for the top keys of a rule.
 *
 * The text of a key is available only while its descriptor is added, so the sample is drawn then.
 * Refusals are rarer and are drawn separately, after the verdict. So texts are copied for more
 * decisions than are sampled. */
#ifndef WR_LIMITER_SAMPLE_H
#define WR_LIMITER_SAMPLE_H

#include "limiter/ask.h"

/* Draws the samples of a descriptor's needs, and copies its text if it may be needed. The copy is
 * in the ask's text, which is free until the verdict. */
void wr_ask_sample(struct weir_ask *ask, struct wr_ask_descriptor *descriptor,
		   const struct weir_entry *entries, size_t count);

/* Counts the need's key if it was drawn. `over`: the limit refused, or would have refused. */
void wr_need_count_key(const struct weir_ask *ask, struct wr_lane *lane,
		       const struct wr_ask_need *need, bool over);

#endif
