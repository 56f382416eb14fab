/* Samples decisions for the top keys of a rule.
 *
 * The text of a key is available only while its descriptor is added, so the sample is drawn at that
 * time. A sample of all decisions would contain few refusals, so refusals are sampled separately,
 * after the verdict. A sampled refusal needs a text too, so texts are copied for more decisions
 * than are sampled. */
#ifndef WR_LIMITER_SAMPLE_H
#define WR_LIMITER_SAMPLE_H

#include "limiter/ask.h"

/* Decides which needs of a descriptor are sampled, and copies the text of the key if a sample may
 * need it. The copy is stored in ask->text, which is not used otherwise until the verdict. */
void wr_ask_sample(struct weir_ask *ask, struct wr_ask_descriptor *descriptor,
		   const struct weir_entry *entries, size_t count);

/* Counts the need's key in the top keys if the need is sampled. `over` is true if the limit refused
 * or would have refused the request. */
void wr_ask_need_count_key(const struct weir_ask *ask, struct wr_lane *lane,
			   const struct wr_ask_need *need, bool over);

#endif
